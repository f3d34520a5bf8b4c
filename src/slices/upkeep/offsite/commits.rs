//! The commits between two backups, stored next to the backups, signed by the installation and encrypted like the backups.
//! With them, a backup can be brought forward to any second.
//!
//! **Invariant:** only commits that the installation signed are applied, because anyone who knows a recipient can encrypt for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    sync::Arc,
};

use object_store::{ObjectStoreExt, path::Path};

use tenantd_base::{
    clock::Timestamp,
    entropy::Entropy,
    secrets::{
        InstallationKey, PublicKey, Signature, SignatureError, Signer,
        age::{Decryptor, Encryptor, Identity, Recipient},
    },
};
use tenantd_store::{JournalId, Plan, Reach, Replay, SegmentName, left_since, verify_segment};

use super::{
    error::OffsiteError,
    manifest::Manifest,
    place::{OffsitePlace, Opened},
};

const PURPOSE: &str = "offsite commits";
const JOURNAL: &str = "journal";
const ENCRYPTED: &str = ".age";
const SIGNATURE_BYTES: usize = 64;
/// No segment of ours is longer.
const MOST_BYTES: u64 = 256 << 20;

pub(super) fn signer(key: &InstallationKey) -> Result<Signer, SignatureError> {
    Signer::of(key, PURPOSE)
}

fn directory(opened: &Opened, installation_id: &str) -> Path {
    opened.root.clone().join(installation_id).join(JOURNAL)
}

/// The objects with the name of each segment of an installation. Only one object per name can be genuine.
type Segments = BTreeMap<SegmentName, Vec<Path>>;

async fn list(opened: &Opened, installation_id: &str) -> Result<Segments, OffsiteError> {
    let found = opened.store.list_with_delimiter(Some(&directory(opened, installation_id))).await?.objects;
    let named = |path: &Path| {
        let name = path.filename()?;
        SegmentName::parse(name.strip_suffix(ENCRYPTED).unwrap_or(name))
    };
    let mut segments = Segments::new();
    for path in found.into_iter().map(|object| object.location) {
        if let Some(name) = named(&path) {
            segments.entry(name).or_default().push(path);
        }
    }
    Ok(segments)
}

/// The names of the segments of an installation.
pub(super) async fn names(opened: &Opened, installation_id: &str) -> Result<Vec<SegmentName>, OffsiteError> {
    Ok(list(opened, installation_id).await?.into_keys().collect())
}

/// The known commits of an installation.
#[derive(Clone)]
struct KnownCommits {
    segments: Arc<Segments>,
    /// The journals that were abandoned after the newest backup. Their commits count only for times when they were in use.
    left: BTreeSet<JournalId>,
}

impl KnownCommits {
    async fn new(opened: &Opened, newest: &Manifest, until: Timestamp) -> Result<Self, OffsiteError> {
        let segments = Arc::new(list(opened, &newest.installation_id).await?);
        let names: Vec<SegmentName> = segments.keys().copied().filter(|name| !newest.has_left(name.journal)).collect();
        let left = if until == Timestamp::LATEST { left_since(&names, newest.commit()?) } else { BTreeSet::new() };
        Ok(Self { segments, left })
    }
}

/// A backup, and the commits that bring it forward to a time.
#[derive(Debug)]
pub struct Route {
    pub manifest: Manifest,
    until: Timestamp,
    segments: Arc<Segments>,
    pub(super) plan: Plan,
}

/// Why a backup cannot be brought forward to the requested time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// Some changes before that time are missing.
    Missing,
    /// The newest change that was sent is older than the requested time.
    Beyond,
    /// A segment is unusable.
    Unusable(String),
}

/// How far a snapshot was brought forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The time of the last commit in the snapshot.
    pub reached: Timestamp,
    pub shortfall: Option<Shortfall>,
    /// Whether an earlier commit has a later time.
    pub clock_was_set_back: bool,
}

impl OffsitePlace {
    /// Uploads a segment of commits.
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
            Err(OffsiteError::Different(format!("{bytes} bytes were sent, but {found} are stored")))
        }
    }

    /// Removes segments that no backup needs: this backup contains all of their commits, and no earlier backup is brought
    /// forward with them.
    pub(super) async fn remove_commits(&self, installation_id: &str, base: &Manifest) -> Result<usize, OffsiteError> {
        let (opened, position) = (self.open()?, base.commit()?);
        let mut old = list(&opened, installation_id).await?;
        old.retain(|name, _| name.last <= position.number);
        for path in old.values().flatten() {
            opened.store.delete(path).await?;
        }
        Ok(old.len())
    }

    /// Finds a route to a time, from the newest of the backups that can reach it. `candidates` are ordered newest first.
    pub async fn route(&self, candidates: Vec<Manifest>, until: Timestamp) -> Result<Option<Route>, OffsiteError> {
        let (opened, mut known, mut best) = (self.open()?, BTreeMap::<String, KnownCommits>::new(), None);
        for manifest in candidates {
            let KnownCommits { segments, left } = match known.get(&manifest.installation_id) {
                Some(known) => known.clone(),
                None => KnownCommits::new(&opened, &manifest, until).await?,
            };
            known.insert(manifest.installation_id.clone(), KnownCommits { segments: segments.clone(), left: left.clone() });
            let is_left = |name: &SegmentName| manifest.has_left(name.journal) || left.contains(&name.journal);
            let names: Vec<SegmentName> = segments.keys().copied().filter(|name| !is_left(name)).collect();
            let route = Route { plan: Plan::new(&names, manifest.commit()?, until), manifest, until, segments };
            let is_better = |best: &Route| best.plan.reach == Reach::Missing && route.plan.reach == Reach::Beyond;
            match (&best, route.plan.reach) {
                (_, Reach::Complete) => return Ok(Some(route)),
                (Some(best), _) if !is_better(best) => {}
                _ => best = Some(route),
            }
        }
        Ok(best)
    }

    /// Brings the snapshot of a backup forward.
    pub async fn bring_forward(
        &self,
        route: &Route,
        snapshot: &std::path::Path,
        identities: Option<&[Identity]>,
        key: &InstallationKey,
    ) -> Result<Forward, OffsiteError> {
        let (opened, public_key) = (self.open()?, signer(key)?.public_key()?);
        let mut replay = Replay::new(snapshot, route.manifest.commit()?)?;
        let fetch = async |name: SegmentName| {
            let mut problem = OffsiteError::Different(format!("{name} is missing"));
            for path in route.segments.get(&name).into_iter().flatten() {
                match fetch(&opened, path, identities, &public_key).await {
                    Ok(content) => return Ok(content),
                    Err(error) => problem = error,
                }
            }
            Err(problem)
        };
        let mut unusable = None;
        for (place, step) in route.plan.steps.iter().enumerate() {
            let until = (place + 1 == route.plan.steps.len()).then_some(route.until);
            let applied = match fetch(step.segment).await {
                Ok(content) => replay.apply(*step, &content, until).map_err(OffsiteError::from),
                Err(error) => Err(error),
            };
            unusable = applied.err();
            if unusable.is_some() {
                break;
            }
        }
        if let (None, Some(proof)) = (&unusable, route.plan.proof) {
            let verified = fetch(proof).await.and_then(|content| Ok(verify_segment(proof, &content)?));
            unusable = verified.err();
        }
        let shortfall = match (unusable, route.plan.reach) {
            // If the place does not answer, its contents are unknown.
            (Some(error @ OffsiteError::Store(_)), _) => return Err(error),
            (Some(error), _) => Some(Shortfall::Unusable(error.to_string())),
            (None, Reach::Complete) => None,
            (None, Reach::Missing) => Some(Shortfall::Missing),
            (None, Reach::Beyond) => Some(Shortfall::Beyond),
        };
        let reached = replay.last().unwrap_or(route.manifest.holds_until);
        Ok(Forward { reached, shortfall, clock_was_set_back: replay.was_set_back() })
    }
}

impl Route {
    /// Whether reading the backup or the commits requires an identity.
    pub fn is_encrypted(&self) -> bool {
        let is_sealed = |paths: &Vec<Path>| paths.iter().all(|path| path.as_ref().ends_with(ENCRYPTED));
        let mut steps = self.plan.steps.iter().map(|step| step.segment).chain(self.plan.proof);
        self.manifest.is_encrypted() || steps.any(|name| self.segments.get(&name).is_some_and(is_sealed))
    }
}

/// Signs and encrypts a segment.
fn seal(content: &[u8], recipients: &[Recipient], signer: &Signer) -> Result<Vec<u8>, OffsiteError> {
    let signed = [signer.sign(content)?.as_bytes().as_slice(), content].concat();
    if recipients.is_empty() {
        return Ok(signed);
    }
    let mut encryptor = Encryptor::new(Vec::new(), recipients, &mut Entropy::from_os())?;
    let sealed = encryptor.write_all(&signed).and_then(|()| encryptor.finish());
    sealed.map_err(|error| OffsiteError::Place(error.to_string()))
}

/// Decrypts a segment and verifies that the installation signed it.
async fn fetch(opened: &Opened, path: &Path, identities: Option<&[Identity]>, key: &PublicKey) -> Result<Vec<u8>, OffsiteError> {
    let found = opened.store.get(path).await?;
    if found.meta.size > MOST_BYTES {
        return Err(OffsiteError::Different(format!("{path} is too long")));
    }
    let object = found.bytes().await?;
    let mut signed = Vec::new();
    match (path.as_ref().ends_with(ENCRYPTED), identities) {
        (true, Some(identities)) => {
            let unreadable = |error: &dyn std::fmt::Display| OffsiteError::Different(format!("{path}: {error}"));
            let mut decryptor = Decryptor::new(object.as_ref(), identities).map_err(|error| unreadable(&error))?;
            decryptor.read_to_end(&mut signed).map_err(|error| unreadable(&error))?;
        }
        (true, None) => return Err(OffsiteError::Place(format!("{path} is encrypted; an identity is required"))),
        (false, _) => signed.extend_from_slice(&object),
    }
    let forged = || OffsiteError::Different(format!("{path} is damaged, or not signed with this installation key"));
    let (signature, content) = signed.split_at_checked(SIGNATURE_BYTES).ok_or_else(forged)?;
    let signature = Signature::from_bytes(signature).map_err(|_| forged())?;
    key.verify(content, &signature).map_err(|_| forged())?;
    Ok(content.to_vec())
}
