//! Round trips, files that the age tool has written, and files that were changed.

use std::io::{Read, Write};

use super::*;
use crate::entropy::Entropy;

fn identity(seed: u64) -> Identity {
    Identity::generate(&mut Entropy::from_seed(seed))
}

fn content(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

fn encrypt(plain: &[u8], recipients: &[Recipient]) -> Vec<u8> {
    let mut encryptor = Encryptor::new(Vec::new(), recipients, &mut Entropy::from_seed(7)).unwrap();
    encryptor.write_all(plain).unwrap();
    encryptor.finish().unwrap()
}

fn decrypt(file: &[u8], identities: &[Identity]) -> Result<Vec<u8>, AgeError> {
    let mut plain = Vec::new();
    Decryptor::new(file, identities)?.read_to_end(&mut plain)?;
    Ok(plain)
}

#[test]
fn every_size_around_a_chunk_reads_back() {
    let identity = identity(1);
    for length in [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000] {
        let file = encrypt(&content(length), &[identity.recipient()]);
        assert!(decrypt(&file, std::slice::from_ref(&identity)).unwrap() == content(length), "{length}");
    }
}

#[test]
fn writes_and_reads_of_any_size_give_the_same_file() {
    let identity = identity(1);
    let (plain, whole) = (content(150_000), encrypt(&content(150_000), &[identity.recipient()]));
    let mut encryptor = Encryptor::new(Vec::new(), &[identity.recipient()], &mut Entropy::from_seed(7)).unwrap();
    for part in plain.chunks(977) {
        encryptor.write_all(part).unwrap();
        encryptor.write_all(b"").unwrap();
        encryptor.flush().unwrap();
    }
    assert!(encryptor.finish().unwrap() == whole);
    let mut decryptor = Decryptor::new(whole.as_slice(), &[identity]).unwrap();
    let (mut read, mut part) = (Vec::new(), [0; 1013]);
    loop {
        let taken = decryptor.read(&mut part).unwrap();
        if taken == 0 {
            break;
        }
        read.extend_from_slice(&part[..taken]);
    }
    assert!(read == plain);
}

#[test]
fn only_the_recipients_open_a_file() {
    let (first, second, other) = (identity(1), identity(2), identity(3));
    let file = encrypt(b"hello", &[first.recipient(), second.recipient()]);
    for identities in [vec![first.clone()], vec![second.clone()], vec![other.clone(), second]] {
        assert_eq!(decrypt(&file, &identities).unwrap(), b"hello");
    }
    assert!(matches!(decrypt(&file, &[other]), Err(AgeError::OtherIdentity)));
    assert!(matches!(decrypt(&file, &[]), Err(AgeError::OtherIdentity)));
    assert!(matches!(Encryptor::new(Vec::new(), &[], &mut Entropy::from_seed(7)), Err(AgeError::NoRecipient)));
}

#[test]
fn every_flipped_bit_is_refused() {
    let identity = [identity(1)];
    let file = encrypt(b"what nobody may change", &[identity[0].recipient()]);
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut changed = file.clone();
            changed[at] ^= 1 << bit;
            assert!(decrypt(&changed, &identity).is_err(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn a_truncated_or_extended_file_is_refused() {
    let identity = [identity(1)];
    let small = encrypt(b"what nobody may cut", &[identity[0].recipient()]);
    for length in 0..small.len() {
        assert!(decrypt(&small[..length], &identity).is_err(), "{length}");
    }
    let large = encrypt(&content(200_000), &[identity[0].recipient()]);
    let start = large.len() - (200_000 + 4 * 16);
    for chunks in 0..4 {
        assert!(decrypt(&large[..start + chunks * 65_552], &identity).is_err(), "{chunks} chunks");
    }
    let mut swapped = large.clone();
    swapped[start..start + 2 * 65_552].rotate_left(65_552);
    assert!(decrypt(&swapped, &identity).is_err());
    for file in [small, large, encrypt(b"", &[identity[0].recipient()]), encrypt(&content(65_536), &[identity[0].recipient()])] {
        for more in [&b"x"[..], &[0; 16], &vec![0; 65_552]] {
            assert!(decrypt(&[&file, more].concat(), &identity).is_err());
        }
    }
}

#[test]
fn an_unfinished_file_is_refused() {
    let identity = [identity(1)];
    let mut file = Vec::new();
    let mut encryptor = Encryptor::new(&mut file, &[identity[0].recipient()], &mut Entropy::from_seed(7)).unwrap();
    encryptor.write_all(&content(70_000)).unwrap();
    drop(encryptor);
    assert!(matches!(decrypt(&file, &identity), Err(AgeError::Io(error)) if error.to_string().contains("truncated")));
}

#[test]
fn keys_round_trip_and_wrong_ones_are_refused() {
    let identity = identity(1);
    let text = identity.to_text().unwrap();
    assert!(text.expose().starts_with("AGE-SECRET-KEY-1"));
    assert_eq!(text.expose().parse::<Identity>().unwrap().recipient(), identity.recipient());
    assert_eq!(identity.recipient().to_string().parse::<Recipient>().unwrap(), identity.recipient());
    assert!(!format!("{identity:?}").contains(text.expose()));
    let recipient = identity.recipient().to_string();
    let changed = recipient.replace(recipient.chars().last().unwrap(), "b");
    for wrong in ["", "age1", &changed, text.expose(), &recipient[..recipient.len() - 1]] {
        assert!(matches!(wrong.parse::<Recipient>(), Err(AgeError::Recipient)), "{wrong}");
    }
    assert!(recipient.parse::<Identity>().is_err());
    let file = format!("# created\n\n{}\n", text.expose());
    assert_eq!(Identity::parse_file(&file).unwrap().len(), 1);
    assert!(Identity::parse_file("# nothing\n").is_err());
}

#[test]
fn a_point_of_low_order_is_refused() {
    let zero: Recipient = bech32::encode::<bech32::Bech32>(bech32::Hrp::parse("age").unwrap(), &[0; 32]).unwrap().parse().unwrap();
    assert!(Encryptor::new(Vec::new(), &[zero], &mut Entropy::from_seed(7)).is_err());
}

/// Files that age 1.1.1 has written for two identities. `mixed` also has a recipient of another type.
#[test]
fn files_of_the_age_tool_open() {
    let identities = Identity::parse_file(include_str!("vectors/identities.txt")).unwrap();
    let (plain, longer) = (b"written by age\n".as_slice(), content(65_537));
    let other = Identity::parse_file(include_str!("vectors/other.txt")).unwrap();
    let files: [(&[u8], &[u8]); 3] = [
        (include_bytes!("vectors/short.age"), plain),
        (include_bytes!("vectors/empty.age"), b""),
        (include_bytes!("vectors/chunks.age"), &longer),
    ];
    for (file, expected) in files {
        for identity in &identities {
            assert!(decrypt(file, std::slice::from_ref(identity)).unwrap() == expected);
        }
        assert!(matches!(decrypt(file, &other), Err(AgeError::OtherIdentity)));
    }
    assert_eq!(decrypt(include_bytes!("vectors/mixed.age"), &identities).unwrap(), plain);
}
