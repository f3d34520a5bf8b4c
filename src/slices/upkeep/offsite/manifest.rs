//! What a backup says of itself, in JSON, signed by the installation that wrote it. It holds nothing that a tenant wrote.

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

/// The number of this form of a manifest.
pub(super) const FORMAT: u32 = 1;
const PURPOSE: &str = "offsite backup manifest";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub id: String,
    pub installation_id: String,
    /// Each backup has a higher one than those that were there before it. A clock can be wrong, so times do not order backups.
    pub number: u64,
    pub created_at: Timestamp,
    /// The release that wrote it, and the format of the store in it.
    pub release: String,
    pub store_format: u32,
    /// Which installation key opens the sealed secrets in it.
    pub key_fingerprint: String,
    /// The last commit in it. Commits that were sent later follow it.
    pub position: String,
    /// No commit in it is later than this.
    pub holds_until: Timestamp,
    /// The openings of the store whose commits are in the place, and which this backup does not have: an older copy was put back.
    pub left_branches: BTreeSet<String>,
    /// Whom it is encrypted for. None: it is not encrypted.
    pub recipients: Vec<String>,
    /// The object as it is stored.
    pub object: StoredObject,
    /// The snapshot in it.
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
    /// Over every table and record.
    pub digest: String,
}

impl Manifest {
    /// The last commit in it.
    pub(super) fn commit(&self) -> Result<Position, OffsiteError> {
        let unusable = |problem: &str| OffsiteError::Manifest { id: self.id.clone(), problem: problem.to_owned() };
        self.position.parse().map_err(unusable)
    }

    /// Backups with the same number were made by two copies of an installation that run at the same time.
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

/// The signature covers the bytes of the manifest as they are in the file.
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

/// A manifest as it was found: nobody has looked yet who wrote it.
#[derive(Clone, Debug)]
pub(super) struct FoundManifest {
    manifest: Manifest,
    signed: String,
    signature: Signature,
}

impl FoundManifest {
    /// `id` is where it was found: a manifest of another backup does not count here.
    pub(super) fn parse(id: &str, bytes: &[u8]) -> Result<Self, String> {
        let file: SignedManifest = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let manifest: Manifest = serde_json::from_str(file.manifest.get()).map_err(|error| error.to_string())?;
        if manifest.format > FORMAT {
            return Err(format!("it has format {}, which a newer release wrote", manifest.format));
        }
        if manifest.id != id {
            return Err(format!("it is that of backup {}", manifest.id));
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
