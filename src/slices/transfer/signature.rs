//! Who vouches for an export. The installation signs all lines so far, again and again: nothing of a file has to be stored before a
//! signature covers it, however long the file is.
//!
//! **Invariant:** a signature is over every byte before it but other signatures, so it holds in its file and at its place alone.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use tenantd_base::secrets::{PublicKey, Signature, SignatureError, Signer};

/// What the key is derived for. It never changes: operators give each other the public key.
pub const PURPOSE: &str = "tenant_export";
/// The type of the line.
pub(super) const SIGNATURE: &str = "signature";
/// In front of what is signed.
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

/// What a signature is over: a hash that grows with the lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Covered(Sha256);

impl Covered {
    /// Takes a line in, without its end.
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
    fn a_signature_holds_for_its_lines_in_their_order_only() {
        let signer = Signer::of(&InstallationKey::generate(&mut Entropy::from_seed(1)), PURPOSE).unwrap();
        let key = signer.public_key().unwrap();
        let covered = |lines: &[&str]| {
            let mut covered = Covered::default();
            for line in lines {
                covered.take(line.as_bytes());
            }
            covered
        };
        let line = SignatureLine::new(&covered(&["a", "b"]).sign(&signer).unwrap());
        assert_eq!(covered(&["a", "b"]).verify(&key, &line), Ok(()));
        for other in [&["a"][..], &["b", "a"], &["a", "b", "c"], &["a\nb"], &["ab", ""]] {
            let verified = covered(other).verify(&key, &line);
            assert_eq!(verified.is_ok(), other == ["a\nb"], "{other:?}: only the bytes count, and a line has no end in it");
        }
    }
}
