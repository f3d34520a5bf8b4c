//! Ed25519 signatures. Each key serves one purpose and is derived from the installation key. Anyone with the public key can check a
//! signature on any machine, and no other file holds a private key.
//!
//! **Invariant:** keys of different purposes are unrelated, so a signature for one purpose is never valid for another.

use std::{fmt, str::FromStr};

use data_encoding::HEXLOWER;
use ring::{
    hkdf,
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};
use zeroize::Zeroizing;

use super::InstallationKey;

const SALT: &[u8] = b"tenantd signing key";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the signing key cannot be derived")]
    Derivation,
    #[error("expected {0} hexadecimal digits")]
    Format(usize),
    #[error("the signature does not match this key and content")]
    Mismatch,
}

/// Signs for one purpose.
pub struct Signer(Ed25519KeyPair);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(…)")
    }
}

impl Signer {
    /// The same key and purpose always give the same signer.
    pub fn of(key: &InstallationKey, purpose: &str) -> Result<Self, SignatureError> {
        let mut seed = Zeroizing::new([0; 32]);
        hkdf::Salt::new(hkdf::HKDF_SHA256, SALT)
            .extract(key.signing_root())
            .expand(&[purpose.as_bytes()], hkdf::HKDF_SHA256)
            .and_then(|derived| derived.fill(seed.as_mut_slice()))
            .map_err(|_| SignatureError::Derivation)?;
        Ed25519KeyPair::from_seed_unchecked(seed.as_slice()).map(Self).map_err(|_| SignatureError::Derivation)
    }

    pub fn public_key(&self) -> Result<PublicKey, SignatureError> {
        PublicKey::from_bytes(self.0.public_key().as_ref())
    }

    pub fn sign(&self, content: &[u8]) -> Result<Signature, SignatureError> {
        Signature::from_bytes(self.0.sign(content).as_ref())
    }
}

/// The public key for checking signatures. It is not secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// A short name for the key. A signature names its key by it.
    pub fn key_id(&self) -> String {
        self.to_string().chars().take(16).collect()
    }

    pub fn verify(&self, content: &[u8], signature: &Signature) -> Result<(), SignatureError> {
        UnparsedPublicKey::new(&ED25519, self.0).verify(content, &signature.0).map_err(|_| SignatureError::Mismatch)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

/// Fixed-size bytes that are shown and parsed as hexadecimal digits.
macro_rules! hexadecimal {
    ($type:ident, $length:literal) => {
        impl $type {
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, SignatureError> {
                bytes.try_into().map(Self).map_err(|_| SignatureError::Format($length * 2))
            }

            pub fn as_bytes(&self) -> &[u8; $length] {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&HEXLOWER.encode(&self.0))
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($type))
            }
        }

        impl FromStr for $type {
            type Err = SignatureError;

            fn from_str(text: &str) -> Result<Self, SignatureError> {
                let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| SignatureError::Format($length * 2))?;
                Self::from_bytes(&bytes)
            }
        }
    };
}

hexadecimal!(PublicKey, 32);
hexadecimal!(Signature, 64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Entropy;

    fn signer(seed: u64, purpose: &str) -> Signer {
        Signer::of(&InstallationKey::generate(&mut Entropy::from_seed(seed)), purpose).unwrap()
    }

    #[test]
    fn a_signature_is_valid_only_for_its_content_key_and_purpose() {
        let signature = signer(1, "audit").sign(b"content").unwrap();
        let public = signer(1, "audit").public_key().unwrap();
        assert_eq!(public.verify(b"content", &signature), Ok(()));
        assert_eq!(public.verify(b"Content", &signature), Err(SignatureError::Mismatch));
        for other in [signer(2, "audit"), signer(1, "evidence")] {
            assert_eq!(other.public_key().unwrap().verify(b"content", &signature), Err(SignatureError::Mismatch));
        }
        for bit in 0..64 * 8 {
            let mut flipped = *signature.as_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let flipped = Signature::from_bytes(&flipped).unwrap();
            assert_eq!(public.verify(b"content", &flipped), Err(SignatureError::Mismatch), "bit {bit}");
        }
    }

    #[test]
    fn keys_and_signatures_round_trip() {
        let signer = signer(1, "audit");
        let (public, signature) = (signer.public_key().unwrap(), signer.sign(b"content").unwrap());
        assert_eq!(public.to_string().parse(), Ok(public));
        assert_eq!(signature.to_string().parse(), Ok(signature));
        assert_eq!("00ff".parse::<PublicKey>(), Err(SignatureError::Format(64)));
        assert_eq!("no".repeat(64).parse::<Signature>(), Err(SignatureError::Format(128)));
    }

    /// Signatures that are stored elsewhere must stay valid after every upgrade, so the derived key may never change.
    #[test]
    fn the_derived_key_never_changes() {
        let key = signer(1, "audit").public_key().unwrap().to_string();
        assert_eq!(key, "4e4a7696b989007d0f201b0625aef785fa18d31e4282ce857985120876b08d20");
    }
}
