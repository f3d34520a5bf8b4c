//! Signatures by Standard Webhooks 1.0.0: `v1,` and the HMAC-SHA256 of `id.timestamp.body`, one for each valid secret.

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::Sha256;

use tenantd_base::{clock::Timestamp, secrets::Secret};

use super::model::secret_bytes;

/// A secret that is ready to sign. Its key schedule is computed once.
#[derive(Clone)]
pub struct SigningKey {
    mac: Hmac<Sha256>,
    /// When the key stops signing. `None`: never.
    pub until: Option<Timestamp>,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl SigningKey {
    /// `None` for an empty secret.
    pub fn new(secret: &[u8], until: Option<Timestamp>) -> Option<Self> {
        let mac = Hmac::new_from_slice(secret).ok().filter(|_| !secret.is_empty())?;
        Some(Self { mac, until })
    }

    fn mac_of(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }

    fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        format!("v1,{}", BASE64.encode(&self.mac_of(id, timestamp, body).finalize().into_bytes()))
    }
}

/// The value of `webhook-signature`: one signature for every key that is valid at `now`, newest first.
pub fn sign_all(keys: &[SigningKey], id: &str, timestamp: &str, body: &[u8], now: Timestamp) -> String {
    let live = keys.iter().filter(|key| key.until.is_none_or(|until| now < until));
    live.map(|key| key.sign(id, timestamp, body)).collect::<Vec<_>>().join(" ")
}

/// The headers that the signature needs: two are signed, one contains it.
pub const SIGNATURE_HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/// Whether this secret signed a delivery. For receivers; it does not check the timestamp.
pub fn is_signed(secret: &Secret, headers: &HeaderMap, body: &[u8]) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let [id, timestamp, signatures] = SIGNATURE_HEADERS.map(text);
    let key = secret_bytes(secret).and_then(|bytes| SigningKey::new(&bytes, None));
    let (Some(key), Some(id), Some(timestamp), Some(signatures)) = (key, id, timestamp, signatures) else { return false };
    signatures.split(' ').filter_map(|token| token.strip_prefix("v1,")).any(|token| {
        let Ok(given) = BASE64.decode(token.as_bytes()) else { return false };
        key.mac_of(id, timestamp, body).verify_slice(&given).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_matches_the_specification() {
        let secret = BASE64.decode(b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let key = SigningKey::new(&secret, None).unwrap();
        let ended = SigningKey::new(&[1; 32], Some(Timestamp::EPOCH)).unwrap();
        let signature = sign_all(
            &[key, ended],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            b"{\"test\": 2432232314}",
            Timestamp::from_millis(1),
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
