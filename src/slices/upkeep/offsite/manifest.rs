//! The manifest of a backup: JSON, signed by the installation that wrote the backup. It contains nothing that a tenant wrote.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use tenantd_base::{
    clock::Timestamp,
    secrets::{InstallationKey, PublicKey, Signature, SignatureError, Signer},
};

use tenantd_store::{JournalId, Position};

use super::error::OffsiteError;

/// The version of the manifest format.
pub(super) const FORMAT: u32 = 1;
const PURPOSE: &str = "offsite backup manifest";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub id: String,
    pub installation_id: String,
    /// Each backup has a higher number than all earlier ones. Backups are not ordered by time, because a clock can be wrong.
    pub number: u64,
    pub created_at: Timestamp,
    /// The release that wrote the backup, and the format of its store.
    pub release: String,
    pub store_format: u32,
    /// The fingerprint of the installation key that opens the sealed secrets in the backup.
    pub key_fingerprint: String,
    /// The last commit in the backup. Later commits follow it.
    pub position: String,
    /// No commit in the backup is later than this time.
    pub holds_until: Timestamp,
    /// The journals whose commits are in the place but not in this backup, because an older copy of the store was put back.
    pub left_branches: BTreeSet<String>,
    /// The recipients that can decrypt the backup. Empty if it is not encrypted.
    pub recipients: Vec<String>,
    /// The stored object.
    pub object: StoredObject,
    /// The snapshot in the object.
    pub snapshot: StoredSnapshot,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredObject {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSnapshot {
    pub bytes: u64,
    pub sha256: String,
    pub tables: u64,
    pub records: u64,
    /// A digest over every table and record.
    pub digest: String,
}

impl Manifest {
    /// The last commit in the backup.
    pub(super) fn commit(&self) -> Result<Position, OffsiteError> {
        let unusable = |problem: &str| OffsiteError::Manifest { id: self.id.clone(), problem: problem.to_owned() };
        self.position.parse().map_err(unusable)
    }

    /// Two backups have the same number if two copies of an installation ran at the same time. The time then decides.
    pub(super) fn order(&self) -> (u64, Timestamp) {
        (self.number, self.created_at)
    }

    pub(super) fn has_left(&self, journal: JournalId) -> bool {
        self.left_branches.contains(&HEXLOWER.encode(&journal))
    }

    pub fn is_encrypted(&self) -> bool {
        !self.recipients.is_empty()
    }
}

/// The signature covers the exact bytes of the manifest in the file.
#[derive(Serialize, Deserialize)]
struct SignedManifest {
    manifest: Box<RawValue>,
    signature: String,
}

pub(super) fn signer(key: &InstallationKey) -> Result<Signer, SignatureError> {
    Signer::of(key, PURPOSE)
}

pub(super) fn write(manifest: &Manifest, signer: &Signer) -> Result<Vec<u8>, OffsiteError> {
    let unusable = |error: serde_json::Error| OffsiteError::Manifest { id: manifest.id.clone(), problem: error.to_string() };
    let raw = to_raw_value(manifest).map_err(unusable)?;
    let signature = signer.sign(raw.get().as_bytes())?.to_string();
    serde_json::to_vec(&SignedManifest { manifest: raw, signature }).map_err(unusable)
}

/// A manifest whose signature has not been verified yet.
#[derive(Clone, Debug)]
pub(super) struct FoundManifest {
    manifest: Manifest,
    signed: String,
    signature: Signature,
}

impl FoundManifest {
    /// `id` is the name under which the manifest was found. The manifest of a different backup is rejected.
    pub(super) fn parse(id: &str, bytes: &[u8]) -> Result<Self, String> {
        let file: SignedManifest = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let manifest: Manifest = serde_json::from_str(file.manifest.get()).map_err(|error| error.to_string())?;
        if manifest.format > FORMAT {
            return Err(format!("it has format {}, which requires a newer release", manifest.format));
        }
        if manifest.id != id {
            return Err(format!("it belongs to backup {}", manifest.id));
        }
        let signature = file.signature.parse().map_err(|error: SignatureError| error.to_string())?;
        Ok(Self { manifest, signed: file.manifest.get().to_owned(), signature })
    }

    pub(super) fn unverified(&self) -> &Manifest {
        &self.manifest
    }

    pub(super) fn verify(&self, key: &PublicKey) -> Result<&Manifest, SignatureError> {
        key.verify(self.signed.as_bytes(), &self.signature).map(|()| &self.manifest)
    }
}
