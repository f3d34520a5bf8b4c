//! Sealing: XChaCha20-Poly1305 under the installation key, bound to the place where the secret is stored. A sealed value
//! that is moved to another tenant, table or record no longer opens.

use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use data_encoding::BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{InstallationKey, Secret};
use crate::kernel::entropy::Entropy;

/// Where a secret is stored.
#[derive(Clone, Copy, Debug)]
pub struct SealedPlace<'a> {
    pub tenant: &'a [u8; 16],
    pub table: &'a str,
    pub key: &'a [u8],
}

impl SealedPlace<'_> {
    fn associated_data(&self) -> Vec<u8> {
        let mut data = self.tenant.to_vec();
        data.extend_from_slice(&(self.table.len() as u64).to_be_bytes());
        data.extend_from_slice(self.table.as_bytes());
        data.extend_from_slice(self.key);
        data
    }
}

/// An encrypted secret as it is stored. Where people may read it, it is one text: base64 of the three parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Which key sealed it.
    key_fingerprint: [u8; 8],
    nonce: [u8; 24],
    ciphertext: Vec<u8>,
}

/// What stands for a secret that does not go along with its record.
const LEFT_OUT: &str = "left_out";

impl Sealed {
    /// No secret: opens under no key, and cannot be mistaken for one that does.
    pub const fn left_out() -> Self {
        Self { key_fingerprint: [0; 8], nonce: [0; 24], ciphertext: Vec::new() }
    }

    pub const fn is_left_out(&self) -> bool {
        self.ciphertext.is_empty()
    }

    fn to_text(&self) -> String {
        if self.is_left_out() {
            return LEFT_OUT.to_owned();
        }
        BASE64.encode(&[self.key_fingerprint.as_slice(), &self.nonce, &self.ciphertext].concat())
    }

    fn from_text(text: &str) -> Option<Self> {
        if text == LEFT_OUT {
            return Some(Self::left_out());
        }
        let bytes = BASE64.decode(text.as_bytes()).ok()?;
        let (key_fingerprint, rest) = bytes.split_first_chunk()?;
        let (nonce, ciphertext) = rest.split_first_chunk()?;
        Some(Self { key_fingerprint: *key_fingerprint, nonce: *nonce, ciphertext: ciphertext.to_vec() })
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.serialize_str(&self.to_text());
        }
        (self.key_fingerprint, self.nonce, &self.ciphertext).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sealed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            return Self::from_text(&text).ok_or_else(|| D::Error::custom("this is no sealed secret"));
        }
        let (key_fingerprint, nonce, ciphertext) = Deserialize::deserialize(deserializer)?;
        Ok(Self { key_fingerprint, nonce, ciphertext })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the secret was sealed under another installation key")]
    OtherKey,
    #[error("the sealed secret is damaged or was moved")]
    Damaged,
}

/// Seals and opens under one installation key.
#[derive(Clone)]
pub struct Sealer {
    fingerprint: [u8; 8],
    cipher: XChaCha20Poly1305,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(…)")
    }
}

impl Sealer {
    pub fn new(key: &InstallationKey) -> Self {
        Self { fingerprint: key.fingerprint(), cipher: XChaCha20Poly1305::new(&Key::from(*key.bytes())) }
    }

    pub fn seal(&self, place: SealedPlace<'_>, secret: &Secret, entropy: &mut Entropy) -> Result<Sealed, SealError> {
        let nonce: [u8; 24] = entropy.bytes();
        let payload = Payload { msg: secret.expose().as_bytes(), aad: &place.associated_data() };
        let ciphertext = self.cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| SealError::Damaged)?;
        Ok(Sealed { key_fingerprint: self.fingerprint, nonce, ciphertext })
    }

    pub fn open(&self, place: SealedPlace<'_>, sealed: &Sealed) -> Result<Secret, SealError> {
        if sealed.key_fingerprint != self.fingerprint {
            return Err(SealError::OtherKey);
        }
        let payload = Payload { msg: &sealed.ciphertext, aad: &place.associated_data() };
        let plaintext = self.cipher.decrypt(&XNonce::from(sealed.nonce), payload).map_err(|_| SealError::Damaged)?;
        String::from_utf8(plaintext).map(Secret::new).map_err(|_| SealError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_only_in_its_place_under_its_key() {
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        let place = SealedPlace { tenant: &[1; 16], table: "t", key: b"k" };
        let sealed = sealer.seal(place, &Secret::new("s3cret"), &mut entropy).unwrap();
        assert_eq!(sealer.open(place, &sealed), Ok(Secret::new("s3cret")));
        for elsewhere in [
            SealedPlace { tenant: &[2; 16], ..place },
            SealedPlace { table: "tk", key: b"", ..place },
            SealedPlace { key: b"other", ..place },
        ] {
            assert_eq!(sealer.open(elsewhere, &sealed), Err(SealError::Damaged));
        }
        let other = Sealer::new(&InstallationKey::generate(&mut entropy));
        assert_eq!(other.open(place, &sealed), Err(SealError::OtherKey));
        assert!(!format!("{sealed:?}").contains("s3cret"));
    }
}
