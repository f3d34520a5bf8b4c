//! Secrets: the installation key, sealing at rest, files encrypted for recipients, signatures, password hashes, digests of random
//! tokens, and a type that does not print.
//!
//! **Invariant:** a plaintext secret is in a [`Secret`] from the moment it is created or parsed. It leaves that type only by
//! `expose` at the edge or by sealing.

pub mod age;
mod conceal;
mod installation_key;
mod password;
mod seal;
mod signer;
mod text;

pub use conceal::{Concealer, SHORTEST_SECRET};
pub use installation_key::{InstallationKey, KeySource, show_fingerprint};
pub use password::{PasswordError, PasswordHash, Passwords};
pub use seal::{SealError, Sealed, SealedPlace, Sealer, TargetDigest};
pub use signer::{PublicKey, Signature, SignatureError, Signer};
pub use text::{SecretPart, SecretText};

use data_encoding::BASE32_DNSCURVE;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::entropy::Entropy;

/// A text that must not be printed, logged or kept longer than needed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// A password of 120 random bits that can be typed.
    pub fn random_password(entropy: &mut Entropy) -> Self {
        let bytes: [u8; 15] = entropy.bytes();
        let text = BASE32_DNSCURVE.encode(&bytes);
        let groups: Vec<&str> = (0..text.len()).step_by(6).filter_map(|at| text.get(at..(at + 6).min(text.len()))).collect();
        Self::new(groups.join("-"))
    }

    /// The plaintext. Review every call.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// SHA-256. Tokens of 256 random bits are looked up by it, so that they need not be stored.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }
}
