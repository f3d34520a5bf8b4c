//! The signatures of an export. The installation repeatedly signs all lines so far, so no line of a file has to be stored
//! before a signature covers it, regardless of the length of the file.
//!
//! **Invariant:** a signature covers every byte before it except other signatures. It is therefore valid only in its file and
//! at its position.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use tenantd_base::secrets::{PublicKey, Signature, SignatureError, Signer};

/// The purpose of the derived key. It must never change, because operators exchange the public key.
pub const PURPOSE: &str = "tenant_export";
/// The type of a signature line.
pub(super) const SIGNATURE: &str = "signature";
/// The prefix of the signed data.
const CONTEXT: &[u8] = b"tenantd export of a tenant, all lines so far: ";

/// A line with a signature.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignatureLine {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) signature: String,
}

impl SignatureLine {
    pub(super) fn new(signature: &Signature) -> Self {
        Self { kind: SIGNATURE.to_owned(), signature: signature.to_string() }
    }
}

/// The signed data: a running hash over the lines.
#[derive(Clone, Debug, Default)]
pub(super) struct SignedContent(Sha256);

impl SignedContent {
    /// Adds a line, without its line break.
    pub(super) fn take(&mut self, line: &[u8]) {
        self.0.update(line);
        self.0.update(b"\n");
    }

    fn statement(&self) -> Vec<u8> {
        [CONTEXT, self.0.clone().finalize().as_slice()].concat()
    }

    pub(super) fn sign(&self, signer: &Signer) -> Result<Signature, SignatureError> {
        signer.sign(&self.statement())
    }

    pub(super) fn verify(&self, key: &PublicKey, line: &SignatureLine) -> Result<(), SignatureError> {
        key.verify(&self.statement(), &line.signature.parse()?)
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::{entropy::Entropy, secrets::InstallationKey};

    use super::*;

    #[test]
    fn a_signature_is_valid_only_for_its_lines_in_order() {
        let signer = Signer::of(&InstallationKey::generate(&mut Entropy::from_seed(1)), PURPOSE).unwrap();
        let key = signer.public_key().unwrap();
        let covered = |lines: &[&str]| {
            let mut covered = SignedContent::default();
            for line in lines {
                covered.take(line.as_bytes());
            }
            covered
        };
        let line = SignatureLine::new(&covered(&["a", "b"]).sign(&signer).unwrap());
        assert_eq!(covered(&["a", "b"]).verify(&key, &line), Ok(()));
        for other in [&["a"][..], &["b", "a"], &["a", "b", "c"], &["a\nb"], &["ab", ""]] {
            let verified = covered(other).verify(&key, &line);
            assert_eq!(verified.is_ok(), other == ["a\nb"], "{other:?}: only the bytes count, without line breaks");
        }
    }
}
