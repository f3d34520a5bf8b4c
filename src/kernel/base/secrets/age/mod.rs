//! The file format of the age tool (<https://age-encryption.org/v1>) with X25519 recipients. `age --decrypt` opens files that are
//! written here, and the other way around. Reading and writing work in chunks, so the memory use does not depend on the size.
//!
//! **Invariant:** a reader returns only authenticated bytes. A truncated file ends with an error, never with shorter content. The
//! format does not prove who wrote a file: anyone who has the recipient can write one.

mod header;
mod keys;
mod payload;

pub use keys::{Identity, Recipient};
pub use payload::{Decryptor, Encryptor};

use ring::{hkdf, hmac};
use zeroize::Zeroizing;

#[derive(Debug, thiserror::Error)]
pub enum AgeError {
    #[error("expected an age recipient, which starts with `age1`")]
    Recipient,
    #[error("expected an age identity, which starts with `AGE-SECRET-KEY-1`")]
    Identity,
    #[error("at least one recipient is needed")]
    NoRecipient,
    #[error("this is not an age file, or its header is damaged")]
    Header,
    #[error("the file is encrypted for other identities")]
    OtherIdentity,
    #[error("the file is damaged or was truncated")]
    Damaged,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The key for the content of one file. Each recipient gets it wrapped.
type FileKey = Zeroizing<[u8; 16]>;
type Key = Zeroizing<[u8; 32]>;

fn derive(secret: &[u8], salt: &[u8], purpose: &[u8]) -> Result<Key, AgeError> {
    let mut key = Zeroizing::new([0; 32]);
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[purpose], hkdf::HKDF_SHA256)
        .and_then(|derived| derived.fill(key.as_mut_slice()))
        .map_err(|_| AgeError::Damaged)?;
    Ok(key)
}

fn header_key(file_key: &FileKey) -> Result<hmac::Key, AgeError> {
    Ok(hmac::Key::new(hmac::HMAC_SHA256, derive(file_key.as_slice(), b"", b"header")?.as_slice()))
}

#[cfg(test)]
mod tests;
