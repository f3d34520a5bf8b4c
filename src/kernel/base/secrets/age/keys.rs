//! Identities, which open files, and recipients, which files are encrypted for, in the notation of the age tool.

use std::{fmt, str::FromStr};

use bech32::{Bech32, Hrp, primitives::decode::CheckedHrpstring};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use x25519_dalek::{PublicKey, SharedSecret, StaticSecret};
use zeroize::Zeroizing;

use super::{AgeError, FileKey, derive};
use crate::{entropy::Entropy, secrets::Secret};

const RECIPIENT_PREFIX: Hrp = Hrp::parse_unchecked("age");
const IDENTITY_PREFIX: Hrp = Hrp::parse_unchecked("age-secret-key-");
const WRAP_PURPOSE: &[u8] = b"age-encryption.org/v1/X25519";
/// A file key with its tag.
pub(super) const WRAPPED_BYTES: usize = 32;

/// The recipient of an encrypted file. It is not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipient([u8; 32]);

/// Opens files that are encrypted for its recipient.
#[derive(Clone)]
pub struct Identity(StaticSecret);

/// A file key that is encrypted for one recipient.
pub(super) struct Wrapped {
    pub(super) share: [u8; 32],
    pub(super) body: [u8; WRAPPED_BYTES],
}

impl Recipient {
    pub(super) fn wrap(&self, file_key: &FileKey, entropy: &mut Entropy) -> Result<Wrapped, AgeError> {
        let ephemeral = StaticSecret::from(entropy.bytes());
        let share = PublicKey::from(&ephemeral).to_bytes();
        let shared = ephemeral.diffie_hellman(&PublicKey::from(self.0));
        let mut body = file_key.to_vec();
        wrapping_key(&shared, &share, self)?
            .seal_in_place_append_tag(zero_nonce(), Aad::empty(), &mut body)
            .map_err(|_| AgeError::Recipient)?;
        let body = body.try_into().map_err(|_| AgeError::Recipient)?;
        Ok(Wrapped { share, body })
    }
}

impl Identity {
    pub fn generate(entropy: &mut Entropy) -> Self {
        Self(StaticSecret::from(entropy.bytes()))
    }

    pub fn recipient(&self) -> Recipient {
        Recipient(PublicKey::from(&self.0).to_bytes())
    }

    /// Parses a file with one identity per line. Empty lines and comments are skipped.
    pub fn parse_file(text: &str) -> Result<Vec<Self>, AgeError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let found = lines.map(str::parse).collect::<Result<Vec<Self>, AgeError>>()?;
        if found.is_empty() { Err(AgeError::Identity) } else { Ok(found) }
    }

    /// The text form of the age tool.
    pub fn to_text(&self) -> Result<Secret, AgeError> {
        let bytes = Zeroizing::new(self.0.to_bytes());
        bech32::encode_upper::<Bech32>(IDENTITY_PREFIX, bytes.as_slice()).map(Secret::new).map_err(|_| AgeError::Identity)
    }

    /// The file key, if it was wrapped for this identity.
    pub(super) fn unwrap(&self, wrapped: &Wrapped) -> Result<Option<FileKey>, AgeError> {
        let shared = self.0.diffie_hellman(&PublicKey::from(wrapped.share));
        let key = wrapping_key(&shared, &wrapped.share, &self.recipient())?;
        let mut body = Zeroizing::new(wrapped.body);
        let Ok(opened) = key.open_in_place(zero_nonce(), Aad::empty(), body.as_mut_slice()) else { return Ok(None) };
        let file_key = <[u8; 16]>::try_from(&*opened).map_err(|_| AgeError::Header)?;
        Ok(Some(Zeroizing::new(file_key)))
    }
}

/// Each wrapped file key has its own key, so its nonce can be zero.
fn wrapping_key(shared: &SharedSecret, share: &[u8; 32], recipient: &Recipient) -> Result<LessSafeKey, AgeError> {
    if !shared.was_contributory() {
        return Err(AgeError::Recipient);
    }
    let salt = [share.as_slice(), &recipient.0].concat();
    let key = derive(shared.as_bytes(), &salt, WRAP_PURPOSE)?;
    UnboundKey::new(&CHACHA20_POLY1305, key.as_slice()).map(LessSafeKey::new).map_err(|_| AgeError::Recipient)
}

fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn decode(text: &str, prefix: Hrp) -> Option<Zeroizing<[u8; 32]>> {
    let checked = CheckedHrpstring::new::<Bech32>(text).ok().filter(|checked| checked.hrp() == prefix)?;
    let bytes = Zeroizing::new(checked.byte_iter().collect::<Vec<u8>>());
    <[u8; 32]>::try_from(bytes.as_slice()).ok().map(Zeroizing::new)
}

impl FromStr for Recipient {
    type Err = AgeError;

    fn from_str(text: &str) -> Result<Self, AgeError> {
        decode(text, RECIPIENT_PREFIX).map(|bytes| Self(*bytes)).ok_or(AgeError::Recipient)
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bech32::encode::<Bech32>(RECIPIENT_PREFIX, &self.0).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Identity {
    type Err = AgeError;

    fn from_str(text: &str) -> Result<Self, AgeError> {
        decode(text, IDENTITY_PREFIX).map(|bytes| Self(StaticSecret::from(*bytes))).ok_or(AgeError::Identity)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}
