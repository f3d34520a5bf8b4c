//! Time-based one-time passwords (RFC 6238): six digits from a shared key and the number of the half minute.

use data_encoding::BASE32_NOPAD;
use ring::hmac;

use tenantd_base::{clock::Timestamp, entropy::Entropy, secrets::Secret};

/// The length of a time step. Every authenticator app knows this value.
const STEP_SECONDS: i64 = 30;
const DIGITS: u32 = 6;
/// RFC 4226 asks for 160 bits.
const KEY_BYTES: usize = 20;

/// Makes a key, in base 32.
pub fn new_key(entropy: &mut Entropy) -> Secret {
    let bytes: [u8; KEY_BYTES] = entropy.bytes();
    Secret::new(BASE32_NOPAD.encode(&bytes))
}

/// Whether a text is a key in base 32.
pub fn is_key(key: &Secret) -> bool {
    BASE32_NOPAD.decode(key.expose().as_bytes()).is_ok_and(|bytes| bytes.len() == KEY_BYTES)
}

/// Returns the time step of a code: the current one, the one before or the one after, because clocks differ and people are slow.
/// `None` if the code belongs to none of them.
pub fn matching_step(key: &Secret, code: &str, now: Timestamp) -> Option<u64> {
    let key = BASE32_NOPAD.decode(key.expose().as_bytes()).ok()?;
    let typed: String = code.chars().filter(|letter| !letter.is_whitespace()).collect();
    let current = step_at(now);
    // The newest first: a code that two steps share counts for the later one, so it cannot be used a second time.
    let steps = [current + 1, current, current.saturating_sub(1)];
    // All are computed, so that the time does not tell which one matches.
    let codes = steps.map(|step| (step, code_at(&key, step)));
    codes.into_iter().fold(None, |found, (step, right)| if right == typed { found.or(Some(step)) } else { found })
}

fn step_at(now: Timestamp) -> u64 {
    u64::try_from(now.as_millis() / (STEP_SECONDS * 1000)).unwrap_or(0)
}

fn code_at(key: &[u8], step: u64) -> String {
    let number = truncated(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key, step) % 10_u32.pow(DIGITS);
    format!("{number:0width$}", width = DIGITS as usize)
}

/// The dynamic truncation of RFC 4226: 31 bits of the tag, at a place that its last four bits name.
fn truncated(algorithm: hmac::Algorithm, key: &[u8], step: u64) -> u32 {
    let tag = hmac::sign(&hmac::Key::new(algorithm, key), &step.to_be_bytes());
    let place = usize::from(tag.as_ref().last().copied().unwrap_or_default() & 0xf);
    let bytes = tag.as_ref().get(place..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default();
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// The longest name in the address of an app, in encoded bytes: a QR code with more of them is hard to read, or impossible.
const MAX_ENCODED: usize = 120;

/// The address that an authenticator app reads from a QR code. Long names are cut.
pub fn uri(issuer: &str, account: &str, key: &Secret) -> Secret {
    let (issuer, account) = (encoded(issuer), encoded(account));
    Secret::new(format!("otpauth://totp/{issuer}:{account}?secret={}&issuer={issuer}", key.expose()))
}

/// Percent-encodes a text for a path or a query. Apps do not agree on `+` for a space.
fn encoded(text: &str) -> String {
    let keeps = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let mut shown = String::new();
    for character in text.chars() {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).bytes();
        let part: String =
            bytes.map(|byte| if keeps(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect();
        if shown.len() + part.len() > MAX_ENCODED {
            break;
        }
        shown += &part;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let shown = encoded(&"\u{1f600}".repeat(100));
        assert_eq!((shown.len(), shown.as_str()), (120, "%F0%9F%98%80".repeat(10).as_str()));
        assert_eq!(encoded("Ada & Co"), "Ada%20%26%20Co");
    }

    /// Appendix B of RFC 6238. Its codes have eight digits, of which ours are the last six.
    #[test]
    fn codes_match_the_vectors_of_rfc_6238() {
        let keys: [(hmac::Algorithm, &[u8]); 3] = [
            (hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"12345678901234567890"),
            (hmac::HMAC_SHA256, b"12345678901234567890123456789012"),
            (hmac::HMAC_SHA512, b"1234567890123456789012345678901234567890123456789012345678901234"),
        ];
        for (seconds, codes) in [
            (59, [94_287_082, 46_119_246, 90_693_936]),
            (1_111_111_109, [7_081_804, 68_084_774, 25_091_201]),
            (1_111_111_111, [14_050_471, 67_062_674, 99_943_326]),
            (1_234_567_890, [89_005_924, 91_819_424, 93_441_116]),
            (2_000_000_000, [69_279_037, 90_698_825, 38_618_901]),
            (20_000_000_000, [65_353_130, 77_737_706, 47_863_826]),
        ] {
            for ((algorithm, key), code) in keys.iter().zip(codes) {
                assert_eq!(truncated(*algorithm, key, step_at(at(seconds))) % 100_000_000, code, "{seconds}");
            }
            assert_eq!(code_at(keys[0].1, step_at(at(seconds))), format!("{:06}", codes[0] % 1_000_000));
        }
    }

    #[test]
    fn a_code_counts_half_a_minute_before_and_after() {
        let key = Secret::new(BASE32_NOPAD.encode(b"12345678901234567890"));
        assert!(is_key(&key) && !is_key(&Secret::new("AAAA")) && !is_key(&Secret::new("")));
        let step = |seconds: i64| matching_step(&key, "287 082", at(seconds));
        assert_eq!((step(0), step(29)), (Some(1), Some(1)));
        assert_eq!((step(30), step(59), step(89)), (Some(1), Some(1), Some(1)));
        assert_eq!((step(90), step(120)), (None, None));
        for wrong in ["", "287083", "0287082", "94287082", "２87082"] {
            assert_eq!(matching_step(&key, wrong, at(59)), None, "{wrong}");
        }
    }

    #[test]
    fn the_address_for_the_app_is_encoded() {
        let uri = uri("Acme & Co", "ada@acme.example", &Secret::new("ABC"));
        assert_eq!(uri.expose(), "otpauth://totp/Acme%20%26%20Co:ada%40acme.example?secret=ABC&issuer=Acme%20%26%20Co");
    }
}
