//! Every check of what an authenticator returns, each broken once.

use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair},
};
use serde_json::{Value, json};

use super::{
    passkey::{Assertion, Expected, MAX_CLIENT_DATA, MAX_SIGNATURE, Passkey, PasskeyFault, PasskeyKey},
    relying_party::RelyingParty,
};
use tenantd_base::secrets::digest;

const CHALLENGE: &[u8] = b"a challenge of thirty-two bytes.";
const OWNER: &[u8] = b"ada";

fn party() -> RelyingParty {
    RelyingParty::at("https://acme.example").unwrap()
}

fn expected(party: &RelyingParty) -> Expected<'_> {
    Expected { challenge: CHALLENGE, party, needs_verification: true }
}

fn client(kind: &str) -> Value {
    let challenge = data_encoding::BASE64URL_NOPAD.encode(CHALLENGE);
    json!({"type": kind, "challenge": challenge, "origin": "https://acme.example", "crossOrigin": false})
}

fn data(host: &str, flags: u8, count: u32, rest: &[u8]) -> Vec<u8> {
    [digest(host.as_bytes()).as_slice(), &[flags], &count.to_be_bytes(), rest].concat()
}

/// A byte string of up to 65,535 bytes.
fn bytes(bytes: &[u8]) -> Vec<u8> {
    [[0x59].as_slice(), &u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn attestation(data: &[u8]) -> Vec<u8> {
    [b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData".as_slice(), &bytes(data)].concat()
}

/// The id and the key of a new passkey.
fn credential(id: &[u8], key: &[u8]) -> Vec<u8> {
    [[0; 16].as_slice(), &u16::try_from(id.len()).unwrap().to_be_bytes(), id, key].concat()
}

/// A COSE key of P-256 with this algorithm.
fn point_key(algorithm: u8, point: &[u8]) -> Vec<u8> {
    [b"\xa5\x01\x02\x03".as_slice(), &[algorithm], b"\x20\x01\x21", &bytes(&point[1..33]), b"\x22", &bytes(&point[33..])].concat()
}

struct Key(EcdsaKeyPair);

impl Key {
    fn new() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random).unwrap())
    }

    fn passkey(&self) -> Passkey {
        let public_key = PasskeyKey::Es256(self.0.public_key().as_ref().to_vec());
        Passkey { credential_id: b"id".to_vec(), public_key, sign_count: 0, host: "acme.example".to_owned() }
    }

    fn sign(&self, client: &Value, data: Vec<u8>) -> Assertion {
        let client_data = client.to_string().into_bytes();
        let message = [data.as_slice(), &digest(&client_data)].concat();
        let signature = self.0.sign(&SystemRandom::new(), &message).unwrap().as_ref().to_vec();
        let user_handle = Some(OWNER.to_vec());
        Assertion { credential_id: b"id".to_vec(), client_data, authenticator_data: data, signature, user_handle }
    }
}

#[test]
fn a_new_passkey_is_read() {
    let (party, key) = (party(), Key::new());
    let made = |data: &[u8]| Passkey::made(&expected(&party), client("webauthn.create").to_string().as_bytes(), &attestation(data));
    let good = credential(b"id", &point_key(0x26, key.0.public_key().as_ref()));
    let passkey = made(&data("acme.example", 0x45, 7, &good)).unwrap();
    assert_eq!(passkey, Passkey { sign_count: 7, ..key.passkey() });
    let extended = [good.as_slice(), b"\xa1\x6bcredProtect\x02"].concat();
    assert!(made(&data("acme.example", 0xc5, 0, &extended)).is_ok());
    for (wrong, fault) in [
        (data("evil.example", 0x45, 0, &good), PasskeyFault::WrongHost),
        (data("acme.example", 0x44, 0, &good), PasskeyFault::NotPresent),
        (data("acme.example", 0x41, 0, &good), PasskeyFault::NotVerified),
        // No key, something after it, extensions that are not announced, or that are missing.
        (data("acme.example", 0x05, 0, &[]), PasskeyFault::Malformed),
        (data("acme.example", 0x45, 0, &[good.as_slice(), &[0]].concat()), PasskeyFault::Malformed),
        (data("acme.example", 0x45, 0, &extended), PasskeyFault::Malformed),
        (data("acme.example", 0xc5, 0, &good), PasskeyFault::Malformed),
        // Backed up without being eligible.
        (data("acme.example", 0x55, 0, &good), PasskeyFault::Malformed),
        (data("acme.example", 0x45, 0, &credential(b"", &point_key(0x26, key.0.public_key().as_ref()))), PasskeyFault::Malformed),
        (data("acme.example", 0x45, 0, &credential(b"id", &point_key(0x25, &[4; 65]))), PasskeyFault::UnknownAlgorithm),
        (data("acme.example", 0x45, 0, &credential(b"id", &point_key(0x26, &[4; 64]))), PasskeyFault::Malformed),
        (data("acme.example", 0x45, 0, &credential(b"id", b"\xa0")), PasskeyFault::Malformed),
        (b"short".to_vec(), PasskeyFault::Malformed),
    ] {
        assert_eq!(made(&wrong), Err(fault), "{wrong:02x?}");
    }
    let mut off_curve = key.0.public_key().as_ref().to_vec();
    off_curve[64] ^= 1;
    for point in [off_curve, [[4].as_slice(), &[0; 64]].concat(), vec![0xff; 65]] {
        let key = credential(b"id", &point_key(0x26, &point));
        assert_eq!(made(&data("acme.example", 0x45, 0, &key)), Err(PasskeyFault::Malformed), "{point:02x?}");
    }
    let object = attestation(&data("acme.example", 0x45, 0, &good));
    let with = |client: &Value, object: &[u8]| Passkey::made(&expected(&party), client.to_string().as_bytes(), object);
    assert!(with(&client("webauthn.create"), &object).is_ok());
    assert_eq!(with(&client("webauthn.get"), &object), Err(PasskeyFault::WrongType));
    assert_eq!(with(&client("webauthn.create"), b"\xa0"), Err(PasskeyFault::Malformed));
    assert_eq!(with(&client("webauthn.create"), &object[..object.len() - 1]), Err(PasskeyFault::Malformed));
}

#[test]
fn keys_of_other_algorithms_are_read_and_verify() {
    let (party, random) = (party(), SystemRandom::new());
    let pair = Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref()).unwrap();
    let cose = [b"\xa4\x01\x01\x03\x27\x20\x06\x21".as_slice(), &bytes(pair.public_key().as_ref())].concat();
    let data_of = |cose: &[u8]| data("acme.example", 0x45, 0, &credential(b"id", cose));
    let create = client("webauthn.create").to_string();
    let made = |cose: &[u8]| Passkey::made(&expected(&party), create.as_bytes(), &attestation(&data_of(cose)));
    let passkey = made(&cose).unwrap();
    let edwards = |key: [u8; 32]| made(&[b"\xa4\x01\x01\x03\x27\x20\x06\x21".as_slice(), &bytes(&key)].concat());
    let with = |low: u8, high: u8| {
        let mut key = [0; 32];
        (key[0], key[31]) = (low, high);
        key
    };
    // Points of the orders 4, 1 and 2, one with the other sign, and no point.
    let minus_one: [u8; 32] = [[0xec].as_slice(), &[0xff; 30], &[0x7f]].concat().try_into().unwrap();
    for key in [with(0, 0), with(1, 0), with(0, 0x80), minus_one, with(2, 0)] {
        assert_eq!(edwards(key), Err(PasskeyFault::Malformed), "{key:02x?}");
    }
    let client_data = client("webauthn.get").to_string().into_bytes();
    let authenticator_data = data("acme.example", 5, 0, &[]);
    let signature = pair.sign(&[authenticator_data.as_slice(), &digest(&client_data)].concat()).as_ref().to_vec();
    let credential_id = b"id".to_vec();
    let assertion = Assertion { credential_id, client_data, authenticator_data, signature, user_handle: None };
    assert_eq!(passkey.verify(&expected(&party), &assertion, OWNER), Ok(0));
    let rsa = |modulus: &[u8], exponent: &[u8]| {
        made(&[b"\xa4\x01\x03\x03\x39\x01\x00\x20".as_slice(), &bytes(modulus), b"\x21", &bytes(exponent)].concat())
    };
    let modulus = [0xff; 256];
    let read = PasskeyKey::Rs256 { modulus: modulus.to_vec(), exponent: vec![1, 0, 1] };
    assert_eq!(rsa(&modulus, &[1, 0, 1]).map(|passkey| passkey.public_key), Ok(read));
    let three: &[u8] = &[1, 0, 1];
    for (modulus, exponent) in [([0xff; 255].as_slice(), three), (&[0x7f; 256], three), (&modulus, &[3])] {
        assert_eq!(rsa(modulus, exponent), Err(PasskeyFault::Malformed));
    }
    assert_eq!(rsa(&[0xff; 513], &[1, 0, 1]), Err(PasskeyFault::Malformed));
}

#[test]
fn a_signature_counts_only_for_what_was_asked() {
    let (party, key) = (party(), Key::new());
    let get = client("webauthn.get");
    let verify = |assertion: &Assertion| key.passkey().verify(&expected(&party), assertion, OWNER);
    let good = key.sign(&get, data("acme.example", 5, 3, &[]));
    assert_eq!(verify(&good), Ok(3));
    assert_eq!(verify(&Assertion { user_handle: None, ..good.clone() }), Ok(3));
    let changed = |name: &str, value: Value| {
        let mut changed = get.clone();
        changed[name] = value;
        key.sign(&changed, data("acme.example", 5, 3, &[]))
    };
    let other = data_encoding::BASE64URL_NOPAD.encode(b"another challenge of 32 bytes...");
    for (wrong, fault) in [
        (changed("type", json!("webauthn.create")), PasskeyFault::WrongType),
        (changed("challenge", json!(other)), PasskeyFault::WrongChallenge),
        (changed("challenge", json!("not base64!")), PasskeyFault::Malformed),
        (changed("origin", json!("https://evil.example")), PasskeyFault::WrongOrigin),
        (changed("origin", json!("https://sub.acme.example")), PasskeyFault::WrongOrigin),
        (changed("origin", json!("http://acme.example")), PasskeyFault::WrongOrigin),
        (changed("origin", json!("https://acme.example:8443")), PasskeyFault::WrongOrigin),
        (changed("crossOrigin", json!(true)), PasskeyFault::WrongOrigin),
        (changed("topOrigin", json!("https://evil.example")), PasskeyFault::WrongOrigin),
        (changed("padding", json!("x".repeat(MAX_CLIENT_DATA))), PasskeyFault::Malformed),
        (key.sign(&json!([]), data("acme.example", 5, 3, &[])), PasskeyFault::Malformed),
        (key.sign(&get, data("evil.example", 5, 3, &[])), PasskeyFault::WrongHost),
        (key.sign(&get, data("acme.example", 4, 3, &[])), PasskeyFault::NotPresent),
        (key.sign(&get, data("acme.example", 1, 3, &[])), PasskeyFault::NotVerified),
        (key.sign(&get, data("acme.example", 5, 3, b"\x00")), PasskeyFault::Malformed),
        (key.sign(&get, data("acme.example", 0x85, 3, &vec![0; 3000])), PasskeyFault::Malformed),
        (key.sign(&get, data("acme.example", 0x45, 3, &credential(b"id", b"\xa0"))), PasskeyFault::Malformed),
        (Key::new().sign(&get, data("acme.example", 5, 3, &[])), PasskeyFault::BadSignature),
        (Assertion { signature: Vec::new(), ..good.clone() }, PasskeyFault::BadSignature),
        (Assertion { signature: vec![0; MAX_SIGNATURE + 1], ..good.clone() }, PasskeyFault::Malformed),
        (Assertion { user_handle: Some(b"bo".to_vec()), ..good.clone() }, PasskeyFault::WrongOwner),
        (Assertion { credential_id: b"other".to_vec(), ..good.clone() }, PasskeyFault::WrongOwner),
        (Assertion { authenticator_data: data("acme.example", 5, 4, &[]), ..good.clone() }, PasskeyFault::BadSignature),
    ] {
        assert_eq!(verify(&wrong), Err(fault));
    }
    let moved = Passkey { host: "old.example".to_owned(), ..key.passkey() };
    assert_eq!(moved.verify(&expected(&party), &good, OWNER), Err(PasskeyFault::WrongHost));
    let present = key.sign(&get, data("acme.example", 1, 3, &[]));
    let lenient = Expected { needs_verification: false, ..expected(&party) };
    assert_eq!(key.passkey().verify(&lenient, &present, OWNER), Ok(3));
}

#[test]
fn a_counter_never_goes_back() {
    let counted = |sign_count: u32| Passkey { sign_count, ..Key::new().passkey() };
    assert!(counted(0).is_next(0) && counted(0).is_next(1) && counted(4).is_next(5));
    assert!(!counted(4).is_next(4) && !counted(4).is_next(3) && !counted(4).is_next(0));
}
