//! Verifies that a chain is unchanged, and finds where it is not.
//!
//! Assume an attacker who can write the store's file but does not have the installation key. Verification then detects:
//! - A record that was changed, removed, added, moved or taken from another chain, even if all later hashes were recomputed.
//! - Missing records at the end, because each commit signs the end.
//! - Missing records at the beginning, because the signature covers where a chain begins.
//! - With the log: a chain that was reset as a whole to an older checkpoint, as far back as the log reaches.
//!
//! The file alone does not reveal a chain that was reset together with the log, such as by an older copy of the whole store. A
//! checkpoint stored elsewhere reveals it. Anyone who has the installation key can write any history that contradicts no such
//! checkpoint. The imported part of a chain is protected by its hashes, and signed by this installation since the import. Only a
//! checkpoint of the other installation proves that it is what that installation wrote.

use std::collections::BTreeSet;

use tenantd_base::{
    id::TenantId,
    secrets::{PublicKey, digest},
};
use tenantd_store::{CheckReport, Checked, Read, ReadTx, StoreError, events};

use super::{
    model::{Checkpoint, Entry, Hash, Statement, hex, link, origin},
    recorder,
    repo::{self, AuditRecord, Imported},
};

/// How many records are read at once.
const SLICE: usize = 500;
/// How many breaks are reported. Each chain has at most one, but many events of the log can lack a record.
const MAX_BREAKS: usize = 100;

/// Where a chain was changed or damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the audit of {tenant_id} breaks at record {number}: {reason}")]
pub struct Break {
    pub tenant_id: TenantId,
    /// The first record that cannot be trusted.
    pub number: u64,
    pub reason: String,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub chains: u64,
    pub records: u64,
    pub checkpoints: u64,
    pub breaks: Vec<Break>,
}

impl Verified {
    pub fn is_sound(&self) -> bool {
        self.breaks.is_empty()
    }

    fn found(&mut self, found: Break) {
        if self.breaks.len() < MAX_BREAKS {
            self.breaks.push(found);
        }
    }
}

/// Verifies one chain record by record, starting from the hash that the first record must follow.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    tenant_id: TenantId,
    /// Without a key, signatures are not checked, only hashes.
    key: Option<&'a PublicKey>,
    /// The number of the last visited record.
    number: u64,
    hash: Hash,
    /// The number of the last record that a verified signature covers.
    signed: u64,
    /// Checkpoints stored elsewhere that the walk has not reached yet.
    known: Vec<Checkpoint>,
}

impl<'a> Walk<'a> {
    /// Starts before record `first`. `known` are checkpoints that were stored elsewhere; those of other chains are ignored.
    pub fn new(tenant_id: TenantId, first: u64, previous: Hash, key: Option<&'a PublicKey>, known: &[Checkpoint]) -> Self {
        let known = known.iter().filter(|checkpoint| checkpoint.statement.tenant_id == tenant_id).copied().collect();
        let number = first.saturating_sub(1);
        Self { tenant_id, key, number, hash: previous, signed: number, known }
    }

    fn broken(&self, number: u64, reason: impl Into<String>) -> Break {
        Break { tenant_id: self.tenant_id, number, reason: reason.into() }
    }

    /// Checks the next record. `seq` is the number of its event, if it is known from the record's key.
    pub fn record(&mut self, body: &[u8], hash: &Hash, seq: Option<u64>) -> Result<(), Break> {
        let next = self.number + 1;
        if link(&self.hash, body) != *hash {
            let found = serde_json::from_slice::<Entry>(body).map_or(next, |entry| entry.number);
            let reason = if found == next {
                "the record was changed, or does not follow the record before it".to_owned()
            } else {
                format!("record {found} is in its place")
            };
            return Err(self.broken(next, reason));
        }
        let entry: Entry =
            serde_json::from_slice(body).map_err(|error| self.broken(next, format!("the record cannot be decoded: {error}")))?;
        if (entry.number, entry.tenant_id) != (next, self.tenant_id) || seq.is_some_and(|seq| seq != entry.seq) {
            return Err(self.broken(next, format!("record {} of {} is in its place", entry.number, entry.tenant_id)));
        }
        (self.number, self.hash) = (next, *hash);
        let here = |checkpoint: &Checkpoint| checkpoint.statement.number == next;
        if let Some(known) = self.known.iter().copied().find(here) {
            self.known.retain(|checkpoint| !here(checkpoint));
            self.checkpoint(&known)
                .map_err(|found| Break { reason: format!("{} (checkpoint stored elsewhere)", found.reason), ..found })?;
        }
        Ok(())
    }

    /// Checks a checkpoint that covers the records visited so far.
    pub fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), Break> {
        let Statement { tenant_id, number, hash, .. } = checkpoint.statement;
        let (suspect, last) = (self.signed + 1, self.number);
        if (tenant_id, number) != (self.tenant_id, self.number) {
            return Err(self.broken(last + 1, format!("a checkpoint here covers the records up to {number} of {tenant_id}")));
        }
        self.check_signature(checkpoint)?;
        if hash != self.hash {
            let reason =
                format!("one of the records {suspect} to {last} differs from what the checkpoint of record {number} signed");
            return Err(self.broken(suspect, reason));
        }
        self.signed = number;
        Ok(())
    }

    fn check_signature(&self, checkpoint: &Checkpoint) -> Result<(), Break> {
        let number = checkpoint.statement.number;
        self.key.map_or(Ok(()), |key| checkpoint.verify(key)).map_err(|_| {
            self.broken(self.signed + 1, format!("the checkpoint of record {number} was not signed by this installation"))
        })
    }

    /// Checks the end of the chain: every visited record must be signed, and no signed record may be missing.
    pub fn end(mut self, end: Option<&Checkpoint>) -> Result<(), Break> {
        if let Some(end) = end {
            let number = end.statement.number;
            if number > self.number {
                self.check_signature(end)?;
                return Err(self.broken(self.number + 1, format!("the records up to {number} are signed but missing")));
            }
            if number == self.number {
                self.checkpoint(end)?;
            }
        }
        if self.signed < self.number {
            let (first, last) = (self.signed + 1, self.number);
            return Err(self.broken(first, format!("the records {first} to {last} are not signed")));
        }
        let ahead =
            self.known.iter().filter(|checkpoint| checkpoint.statement.number > self.number).max_by_key(|c| c.statement.number);
        if let Some(known) = ahead {
            self.check_signature(known)?;
            let number = known.statement.number;
            return Err(self.broken(self.number + 1, format!("a checkpoint stored elsewhere covers the records up to {number}")));
        }
        Ok(())
    }
}

/// Verifies every chain of the store, also against checkpoints that were stored elsewhere.
pub fn verify_store(tx: &impl Read, key: Option<&PublicKey>, known: &[Checkpoint]) -> Result<Verified, StoreError> {
    let mut verified = Verified::default();
    for tenant in tenants(tx, known)? {
        verified.chains += 1;
        if let Err(found) = verify_chain(tx, tenant, key, known, &mut verified)? {
            verified.found(found);
        }
    }
    Ok(verified)
}

/// Verifies the chain of one tenant without its signatures. Returns where it breaks.
pub(super) fn verify_one(tx: &ReadTx, tenant: TenantId) -> Result<Result<(), String>, StoreError> {
    let checked = verify_chain(tx, tenant, None, &[], &mut Verified::default())?;
    Ok(checked.map_err(|found| found.to_string()))
}

/// Returns the tenants that have any part of a chain, or a checkpoint in `known`.
fn tenants(tx: &impl Read, known: &[Checkpoint]) -> Result<BTreeSet<TenantId>, StoreError> {
    let mut tenants: BTreeSet<TenantId> = known.iter().map(|checkpoint| checkpoint.statement.tenant_id).collect();
    let mut after = None;
    while let Some(tenant) = repo::next_tenant(tx, after)? {
        tenants.insert(tenant);
        after = Some(tenant);
    }
    let mut after = None;
    loop {
        let heads = repo::heads_after(tx, after, SLICE)?;
        tenants.extend(heads.iter().map(|head| head.end.checkpoint.statement.tenant_id));
        match heads.last() {
            Some(last) if heads.len() == SLICE => after = Some(last.end.checkpoint.statement.tenant_id),
            _ => return Ok(tenants),
        }
    }
}

fn verify_chain(
    tx: &impl Read,
    tenant: TenantId,
    key: Option<&PublicKey>,
    known: &[Checkpoint],
    verified: &mut Verified,
) -> Result<Result<(), Break>, StoreError> {
    let head = repo::head(tx, tenant)?;
    let (end, imported) = (head.map(|head| head.end.checkpoint), head.and_then(|head| head.imported));
    let first = end.map_or(1, |end| end.statement.first);
    let (previous, mut seq) = match repo::checkpoint(tx, tenant, first.saturating_sub(1))? {
        Some(anchor) => (anchor.checkpoint.statement.hash, anchor.seq),
        None => (origin(tenant), 0),
    };
    let mut walk = Walk::new(tenant, first, previous, key, known);
    loop {
        let slice = match repo::records_after(tx, tenant, seq, SLICE) {
            Ok(slice) => slice,
            Err(StoreError::Damaged { .. }) => match readable(tx, tenant, seq)? {
                Ok(slice) => slice,
                Err((slice, reason)) => {
                    let walked = walk_slice(tx, &mut walk, &slice, imported, verified)?;
                    return Ok(walked.and_then(|()| Err(walk.broken(walk.number + 1, reason))));
                }
            },
            Err(error) => return Err(error),
        };
        if let Err(found) = walk_slice(tx, &mut walk, &slice, imported, verified)? {
            return Ok(Err(found));
        }
        match slice.last() {
            Some((last, _)) => seq = *last,
            None => return Ok(walk.end(end.as_ref())),
        }
    }
}

type Slice = Vec<(u64, AuditRecord)>;

/// Returns the next records. On a damaged record, returns the records before it and the reason.
fn readable(tx: &impl Read, tenant: TenantId, mut seq: u64) -> Result<Result<Slice, (Slice, String)>, StoreError> {
    let mut slice = Vec::new();
    while slice.len() < SLICE {
        match repo::records_after(tx, tenant, seq, 1) {
            Ok(one) if one.is_empty() => break,
            Ok(one) => {
                seq = one.last().map_or(seq, |(seq, _)| *seq);
                slice.extend(one);
            }
            Err(StoreError::Damaged { reason, .. }) => return Ok(Err((slice, format!("the record cannot be read: {reason}")))),
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(slice))
}

fn walk_slice(
    tx: &impl Read,
    walk: &mut Walk<'_>,
    slice: &[(u64, AuditRecord)],
    imported: Option<Imported>,
    verified: &mut Verified,
) -> Result<Result<(), Break>, StoreError> {
    for (key, record) in slice {
        // The numbers that imported events had in the other installation are unknown here.
        let seq = match imported {
            Some(imported) if record.number <= imported.number => None,
            Some(imported) => Some(key.saturating_sub(imported.offset)),
            None => Some(*key),
        };
        let passed = walk.record(&record.body, &record.hash, seq);
        verified.records += 1;
        if passed.is_err() {
            return Ok(passed);
        }
        if let Some(placed) = repo::checkpoint(tx, walk.tenant_id, walk.number)? {
            verified.checkpoints += 1;
            if let Err(found) = walk.checkpoint(&placed.checkpoint) {
                return Ok(Err(found));
            }
        }
    }
    Ok(Ok(()))
}

/// Compares the chains with the events that the log still has: each audited event must have a record with its digest. Detects a
/// chain that was reset as a whole.
pub fn verify_log(tx: &impl Read, verified: &mut Verified) -> Result<(), StoreError> {
    let end = events::cursor(tx, recorder::NAME)?;
    let mut position = events::first_kept(tx)?.saturating_sub(1);
    while position < end {
        let batch = events::read_batch(tx, position, SLICE)?;
        let Some(last) = batch.last().map(|event| event.seq) else { break };
        // Records of imported events describe them as they were in the original log.
        let is_checked = |event: &&events::Event| event.seq <= end && !event.record.is_erased() && !event.is_imported();
        for event in batch.iter().filter(is_checked) {
            let tenant = event.record.tenant_id;
            let offset = repo::head(tx, tenant)?.map_or(0, |head| head.offset());
            let found = repo::RECORDS.get(tx, &(tenant, event.record.number + offset));
            let reason = match found {
                // The verification of the chain has already reported the damage.
                Err(StoreError::Damaged { .. }) => continue,
                Err(error) => return Err(error),
                Ok(Some(record)) => {
                    let recorded =
                        serde_json::from_slice::<Entry>(&record.body).map(|entry| entry.event_sha256).unwrap_or_default();
                    if recorded == hex(&digest(&event.record.body)) {
                        continue;
                    }
                    format!("event {} of the log does not match its record", event.record.id)
                }
                Ok(None) if is_due(tx, event)? => format!("event {} of the log has no record", event.record.id),
                Ok(None) => continue,
            };
            let number = repo::head(tx, tenant)?.map_or(1, |head| head.end.checkpoint.statement.number + 1);
            verified.found(Break { tenant_id: tenant, number, reason });
        }
        position = last;
    }
    Ok(())
}

/// Whether an event must have a record: it is audited, and its record has not expired.
fn is_due(tx: &impl Read, event: &events::Event) -> Result<bool, StoreError> {
    if !Entry::of(event, 0).is_ok_and(|entry| entry.is_some()) {
        return Ok(false);
    }
    let tenant = event.record.tenant_id;
    let head = repo::head(tx, tenant)?;
    let (first, offset) = head.map_or((1, 0), |head| (head.end.checkpoint.statement.first, head.offset()));
    let anchor = repo::checkpoint(tx, tenant, first.saturating_sub(1))?;
    Ok(anchor.is_none_or(|anchor| event.record.number + offset > anchor.seq))
}

/// The chain check of `tenantd check`. It skips the signatures, because it has no key.
#[derive(Debug)]
pub(super) struct Chains;

impl Checked for Chains {
    fn check_name(&self) -> Option<&'static str> {
        Some("audit chains")
    }

    fn check(&self, tx: &ReadTx, report: &mut CheckReport) -> Result<(), StoreError> {
        let verified = verify_store(tx, None, &[])?;
        verified.breaks.iter().for_each(|found| report.problem(found.to_string()));
        Ok(())
    }
}
