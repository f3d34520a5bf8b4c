//! Sealing: XChaCha20-Poly1305 under the installation key, bound to the place where the secret is stored and to the target that it
//! may be sent to. A sealed value that is moved to another tenant, table or record does not open. Neither does one whose record
//! names another target.
//!
//! **Invariant:** a sealed value names the key that sealed it, so values under two keys can coexist during a key rotation.

use std::sync::Arc;

use arc_swap::ArcSwap;
use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use data_encoding::BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{InstallationKey, Secret};
use crate::entropy::Entropy;

/// Identifies the target that a secret may be sent to. `tenantd_egress` defines which targets are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetDigest(pub [u8; 32]);

/// Where a secret is stored, and where it may be sent.
#[derive(Clone, Copy, Debug)]
pub struct SealedPlace<'a> {
    pub tenant: &'a [u8; 16],
    pub table: &'a str,
    pub key: &'a [u8],
    /// `None` for a secret that is never sent, and for one that names its targets itself.
    pub target: Option<TargetDigest>,
}

/// Marks associated data that includes a target. No table has a name of this length.
const HAS_TARGET: u64 = 1 << 63;

impl SealedPlace<'_> {
    fn associated_data(&self) -> Vec<u8> {
        let table_length = self.table.len() as u64;
        let mut data = self.tenant.to_vec();
        let Some(TargetDigest(target)) = self.target else {
            data.extend_from_slice(&table_length.to_be_bytes());
            data.extend_from_slice(self.table.as_bytes());
            data.extend_from_slice(self.key);
            return data;
        };
        data.extend_from_slice(&(table_length | HAS_TARGET).to_be_bytes());
        data.extend_from_slice(self.table.as_bytes());
        data.extend_from_slice(&(self.key.len() as u64).to_be_bytes());
        data.extend_from_slice(self.key);
        data.extend_from_slice(&target);
        data
    }

    /// The same place without the target, as earlier releases sealed to it.
    const fn without_target(self) -> Self {
        Self { target: None, ..self }
    }
}

/// An encrypted secret in its stored form. In formats for people it is one text: the base64 of the three parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The key that sealed it.
    key_fingerprint: [u8; 8],
    nonce: [u8; 24],
    ciphertext: Vec<u8>,
}

/// Replaces a secret that is exported without its value.
const LEFT_OUT: &str = "left_out";

impl Sealed {
    /// A placeholder for a missing secret. No key opens it, and it cannot be mistaken for a real one.
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
            return Self::from_text(&text).ok_or_else(|| D::Error::custom("this is not a sealed secret"));
        }
        let (key_fingerprint, nonce, ciphertext) = Deserialize::deserialize(deserializer)?;
        Ok(Self { key_fingerprint, nonce, ciphertext })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the secret was sealed under another installation key")]
    OtherKey,
    #[error("the sealed secret is damaged, was moved, or is bound to another target")]
    Damaged,
}

#[derive(Clone)]
struct SealingKey {
    fingerprint: [u8; 8],
    cipher: XChaCha20Poly1305,
}

impl SealingKey {
    fn new(key: &InstallationKey) -> Self {
        Self { fingerprint: key.fingerprint(), cipher: XChaCha20Poly1305::new(&Key::from(*key.bytes())) }
    }
}

struct Ring {
    current: SealingKey,
    previous: Option<SealingKey>,
}

/// Seals with the installation key, and opens what this key or the previous one has sealed. Clones share their keys.
#[derive(Clone)]
pub struct Sealer {
    ring: Arc<ArcSwap<Ring>>,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(…)")
    }
}

impl Sealer {
    pub fn new(key: &InstallationKey) -> Self {
        Self::between(key, None)
    }

    /// Seals with the current key, and opens what either key has sealed.
    pub fn between(current: &InstallationKey, previous: Option<&InstallationKey>) -> Self {
        let ring = Ring { current: SealingKey::new(current), previous: previous.map(SealingKey::new) };
        Self { ring: Arc::new(ArcSwap::from_pointee(ring)) }
    }

    /// Seals with this key from now on. Values of the previous key still open as long as the process lives, because a reader may
    /// have loaded a value just before it was sealed again.
    pub fn turn_to(&self, key: &InstallationKey) {
        let ring = self.ring.load();
        if ring.current.fingerprint != key.fingerprint() {
            let next = Ring { current: SealingKey::new(key), previous: Some(ring.current.clone()) };
            self.ring.store(Arc::new(next));
        }
    }

    /// The fingerprint of the key that seals.
    pub fn fingerprint(&self) -> [u8; 8] {
        self.ring.load().current.fingerprint
    }

    pub fn seal(&self, place: SealedPlace<'_>, secret: &Secret, entropy: &mut Entropy) -> Result<Sealed, SealError> {
        let ring = self.ring.load();
        let SealingKey { fingerprint, cipher } = &ring.current;
        let nonce: [u8; 24] = entropy.bytes();
        let payload = Payload { msg: secret.expose().as_bytes(), aad: &place.associated_data() };
        let ciphertext = cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| SealError::Damaged)?;
        Ok(Sealed { key_fingerprint: *fingerprint, nonce, ciphertext })
    }

    pub fn open(&self, place: SealedPlace<'_>, sealed: &Sealed) -> Result<Secret, SealError> {
        let ring = self.ring.load();
        let mut keys = [Some(&ring.current), ring.previous.as_ref()].into_iter().flatten();
        let key = keys.find(|key| key.fingerprint == sealed.key_fingerprint).ok_or(SealError::OtherKey)?;
        let payload = Payload { msg: &sealed.ciphertext, aad: &place.associated_data() };
        let plaintext = key.cipher.decrypt(&XNonce::from(sealed.nonce), payload).map_err(|_| SealError::Damaged)?;
        String::from_utf8(plaintext).map(Secret::new).map_err(|_| SealError::Damaged)
    }

    /// Like [`Self::open`], but also opens what an earlier release sealed without a target. Never use it for a secret that will be
    /// sent.
    pub fn open_unbound(&self, place: SealedPlace<'_>, sealed: &Sealed) -> Result<Secret, SealError> {
        self.open(place, sealed).or_else(|error| match place.target {
            Some(_) => self.open(place.without_target(), sealed),
            None => Err(error),
        })
    }

    /// Whether an earlier release sealed the value without its target.
    pub fn is_unbound(&self, place: SealedPlace<'_>, sealed: &Sealed) -> bool {
        place.target.is_some() && self.open(place, sealed).is_err() && self.open(place.without_target(), sealed).is_ok()
    }

    /// Seals a value again, unless the current key has sealed it with its target. Returns whether it did.
    pub fn reseal(&self, place: SealedPlace<'_>, sealed: &mut Sealed, entropy: &mut Entropy) -> Result<bool, SealError> {
        if sealed.key_fingerprint == self.fingerprint() && !self.is_unbound(place, sealed) {
            return Ok(false);
        }
        *sealed = self.seal(place, &self.open_unbound(place, sealed)?, entropy)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_only_in_its_place_under_its_key() {
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        let place = SealedPlace { tenant: &[1; 16], table: "t", key: b"k", target: None };
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

    #[test]
    fn clones_rotate_together_and_still_open_old_values() {
        let mut entropy = Entropy::from_seed(1);
        let old = InstallationKey::generate(&mut entropy);
        let new = old.successor(&mut entropy);
        let sealer = Sealer::new(&old);
        let clone = sealer.clone();
        let place = SealedPlace { tenant: &[1; 16], table: "t", key: b"k", target: None };
        let mut sealed = clone.seal(place, &Secret::new("s3cret"), &mut entropy).unwrap();
        sealer.turn_to(&new);
        sealer.turn_to(&new);
        assert_eq!(clone.fingerprint(), new.fingerprint());
        assert_eq!(clone.open(place, &sealed), Ok(Secret::new("s3cret")));
        assert_eq!(Sealer::new(&new).open(place, &sealed), Err(SealError::OtherKey));
        assert_eq!(clone.reseal(place, &mut sealed, &mut entropy), Ok(true));
        assert_eq!(clone.reseal(place, &mut sealed, &mut entropy), Ok(false));
        assert_eq!(Sealer::new(&new).open(place, &sealed), Ok(Secret::new("s3cret")));
        assert_eq!(Sealer::new(&old).open(place, &sealed), Err(SealError::OtherKey));
        let between = Sealer::between(&new, Some(&old));
        assert_eq!(between.open(place, &sealed), Ok(Secret::new("s3cret")));
    }

    #[test]
    fn a_secret_opens_only_for_its_target() {
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        let unbound = SealedPlace { tenant: &[1; 16], table: "t", key: b"k", target: None };
        let place = SealedPlace { target: Some(TargetDigest([7; 32])), ..unbound };
        let elsewhere = SealedPlace { target: Some(TargetDigest([8; 32])), ..unbound };
        let sealed = sealer.seal(place, &Secret::new("s3cret"), &mut entropy).unwrap();
        assert_eq!(sealer.open(place, &sealed), Ok(Secret::new("s3cret")));
        for wrong in [elsewhere, unbound] {
            assert_eq!(sealer.open(wrong, &sealed), Err(SealError::Damaged));
            assert_eq!(sealer.open_unbound(wrong, &sealed), Err(SealError::Damaged));
            assert!(!sealer.is_unbound(wrong, &sealed));
        }
    }

    #[test]
    fn a_secret_without_its_target_opens_for_resealing_only() {
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        let unbound = SealedPlace { tenant: &[1; 16], table: "t", key: b"k", target: None };
        let place = SealedPlace { target: Some(TargetDigest([7; 32])), ..unbound };
        let mut sealed = sealer.seal(unbound, &Secret::new("s3cret"), &mut entropy).unwrap();
        assert_eq!(sealer.open(place, &sealed), Err(SealError::Damaged));
        assert!(sealer.is_unbound(place, &sealed));
        assert_eq!(sealer.open_unbound(place, &sealed), Ok(Secret::new("s3cret")));
        assert_eq!(sealer.reseal(place, &mut sealed, &mut entropy), Ok(true));
        assert_eq!(sealer.reseal(place, &mut sealed, &mut entropy), Ok(false));
        assert_eq!(sealer.open(place, &sealed), Ok(Secret::new("s3cret")));
        assert_eq!(sealer.open(unbound, &sealed), Err(SealError::Damaged));
    }
}
