//! The commits between two backups, at the place of the backups: signed by the installation and encrypted like them. With these, a backup can
//! be brought forward to any second.
//!
//! **Invariant:** only what the installation signed is applied, because everyone who knows a recipient can encrypt for it.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    sync::Arc,
};

use futures_util::TryStreamExt;
use object_store::{ObjectStoreExt, path::Path};

use tenantd_base::{
    clock::Timestamp,
    entropy::Entropy,
    secrets::{
        InstallationKey, PublicKey, Signature, SignatureError, Signer,
        age::{Decryptor, Encryptor, Identity, Recipient},
    },
};
use tenantd_store::{Plan, Replay, SegmentName};

use super::{
    error::OffsiteError,
    manifest::Manifest,
    place::{OffsitePlace, Opened},
};

const PURPOSE: &str = "offsite commits";
const JOURNAL: &str = "journal";
const ENCRYPTED: &str = ".age";
const SIGNATURE_BYTES: usize = 64;
/// A longer segment is not one of ours.
const MOST_BYTES: u64 = 256 << 20;

pub(super) fn signer(key: &InstallationKey) -> Result<Signer, SignatureError> {
    Signer::of(key, PURPOSE)
}

fn directory(opened: &Opened, installation_id: &str) -> Path {
    opened.root.clone().join(installation_id).join(JOURNAL)
}

/// The segments of an installation, by their names.
async fn list(opened: &Opened, installation_id: &str) -> Result<BTreeMap<SegmentName, Path>, OffsiteError> {
    let found: Vec<_> = opened.store.list(Some(&directory(opened, installation_id))).try_collect().await?;
    let named = |path: &Path| {
        let name = path.filename()?;
        SegmentName::parse(name.strip_suffix(ENCRYPTED).unwrap_or(name))
    };
    Ok(found.into_iter().filter_map(|object| Some((named(&object.location)?, object.location))).collect())
}

/// How far a snapshot was brought forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The time of the last commit in it.
    pub reached: Timestamp,
    /// Whether no commit up to the time that was asked for is known to be missing.
    pub is_complete: bool,
}

impl OffsitePlace {
    /// Sends a segment of commits.
    pub(super) async fn put_commits(
        &self,
        (installation_id, name): (&str, SegmentName),
        content: Vec<u8>,
        recipients: &[Recipient],
        signer: &Arc<Signer>,
    ) -> Result<(), OffsiteError> {
        let opened = self.open()?;
        let name = if recipients.is_empty() { name.to_string() } else { format!("{name}{ENCRYPTED}") };
        let (recipients, signer) = (recipients.to_vec(), signer.clone());
        let object = tokio::task::spawn_blocking(move || seal(&content, &recipients, &signer)).await??;
        let (place, bytes) = (directory(&opened, installation_id).join(name.as_str()), object.len() as u64);
        opened.store.put(&place, object.into()).await?;
        let found = opened.store.head(&place).await?.size;
        if found == bytes {
            Ok(())
        } else {
            Err(OffsiteError::Different(format!("{found} bytes are there, and {bytes} were sent")))
        }
    }

    /// Removes segments whose commits are all older than a time.
    pub(super) async fn remove_commits(&self, installation_id: &str, before: Timestamp) -> Result<usize, OffsiteError> {
        let opened = self.open()?;
        let mut old = list(&opened, installation_id).await?;
        old.retain(|name, _| name.until < before);
        for path in old.values() {
            opened.store.delete(path).await?;
        }
        Ok(old.len())
    }

    /// Brings the snapshot of a backup forward to a time, or as far as commits follow it.
    pub async fn bring_forward(
        &self,
        manifest: &Manifest,
        snapshot: &std::path::Path,
        identities: Option<&[Identity]>,
        key: &InstallationKey,
        until: Timestamp,
    ) -> Result<Forward, OffsiteError> {
        let unusable = |problem: &str| OffsiteError::Manifest { id: manifest.id.clone(), problem: problem.to_owned() };
        let (opened, public_key) = (self.open()?, signer(key)?.public_key()?);
        let position = manifest.position.parse().map_err(unusable)?;
        // Later commits are in segments that reach beyond the beginning of the backup.
        let mut found = list(&opened, &manifest.installation_id).await?;
        found.retain(|name, _| name.until >= manifest.created_at);
        let plan = Plan::new(&found.keys().copied().collect::<Vec<_>>(), position, until);
        let mut replay = Replay::new(snapshot, position, until)?;
        for path in plan.segments.iter().filter_map(|name| found.get(name)) {
            replay.apply(&fetch(&opened, path, identities, &public_key).await?)?;
        }
        Ok(Forward { reached: replay.last().unwrap_or(manifest.holds_until), is_complete: plan.is_complete })
    }
}

/// Signs a segment and encrypts it.
fn seal(content: &[u8], recipients: &[Recipient], signer: &Signer) -> Result<Vec<u8>, OffsiteError> {
    let signed = [signer.sign(content)?.as_bytes().as_slice(), content].concat();
    if recipients.is_empty() {
        return Ok(signed);
    }
    let mut encryptor = Encryptor::new(Vec::new(), recipients, &mut Entropy::from_os())?;
    let sealed = encryptor.write_all(&signed).and_then(|()| encryptor.finish());
    sealed.map_err(|error| OffsiteError::Place(error.to_string()))
}

/// Decrypts a segment and checks that the installation signed it.
async fn fetch(opened: &Opened, path: &Path, identities: Option<&[Identity]>, key: &PublicKey) -> Result<Vec<u8>, OffsiteError> {
    let found = opened.store.get(path).await?;
    if found.meta.size > MOST_BYTES {
        return Err(OffsiteError::Different(format!("{path} is too long")));
    }
    let object = found.bytes().await?;
    let mut signed = Vec::new();
    match (path.as_ref().ends_with(ENCRYPTED), identities) {
        (true, Some(identities)) => {
            let mut decryptor = Decryptor::new(object.as_ref(), identities)?;
            decryptor.read_to_end(&mut signed).map_err(|error| OffsiteError::Different(format!("{path}: {error}")))?;
        }
        (true, None) => return Err(OffsiteError::Place(format!("{path} is encrypted: an identity is needed"))),
        (false, _) => signed.extend_from_slice(&object),
    }
    let forged = || OffsiteError::Different(format!("{path} is not signed by the installation of this installation key"));
    let (signature, content) = signed.split_at_checked(SIGNATURE_BYTES).ok_or_else(forged)?;
    let signature = Signature::from_bytes(signature).map_err(|_| forged())?;
    key.verify(content, &signature).map_err(|_| forged())?;
    Ok(content.to_vec())
}
