//! Records of the audit as clients see them.

use poem_openapi::{Object, types::Any};
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    clock::Timestamp,
    id::{EventId, RunId, TenantId},
    secrets::PublicKey,
};
use tenantd_http::{author::Author, examples, outgoing::Exported, page::Page};

use super::{
    super::{
        listing::Found,
        model::{Checkpoint as SignedCheckpoint, Statement, Subject, hex},
        verify,
    },
    lines::CheckpointForm,
};

examples! {
    AuditRecord => "audit_record.json",
    AuditList => "audit_list.json",
    AuditCheckpoint => "audit_checkpoint.json",
}

/// What something was done with.
#[derive(Debug, Object, Serialize)]
pub(super) struct AuditResource {
    /// Such as `api_key` or `user`.
    kind: String,
    id: String,
    /// The record's version after it.
    version: u64,
}

impl From<Subject> for AuditResource {
    fn from(subject: Subject) -> Self {
        let Subject { kind, id, version } = subject;
        Self { kind, id, version }
    }
}

/// Something that was done.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct AuditRecord {
    /// The place in the tenant's chain: from 1, without gaps.
    number: u64,
    at: Timestamp,
    /// The kind of event, such as `api_key.created`.
    action: String,
    actor: Author,
    resource: AuditResource,
    /// What was changed, from what to what, where the kind tells it and it is not larger than 4 KiB.
    changes: Option<Any<Value>>,
    /// The workflow run that did it.
    run_id: Option<RunId>,
    /// The event of the feed that tells of it.
    event_id: EventId,
    /// The event's number in the tenant's sequence.
    seq: u64,
    /// A SHA-256 of the event, as receivers of webhooks got it.
    event_sha256: String,
    /// A SHA-256 over the hash of the record before it and this record.
    hash: String,
}

impl TryFrom<Found> for AuditRecord {
    type Error = serde_json::Error;

    fn try_from(found: Found) -> Result<Self, serde_json::Error> {
        let entry = found.entry;
        Ok(Self {
            number: entry.number,
            at: entry.at,
            action: entry.action,
            actor: entry.actor.into(),
            resource: entry.resource.into(),
            changes: entry.changes.map(|changes| serde_json::from_str(changes.get())).transpose()?.map(Any),
            run_id: entry.cause.run_id,
            event_id: entry.event_id,
            seq: entry.seq,
            event_sha256: entry.event_sha256,
            hash: hex(&found.hash),
        })
    }
}

/// A page of the audit.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct AuditList {
    pub(super) data: Vec<AuditRecord>,
    pub(super) page: Page,
}

impl Exported for AuditList {
    const CSV_EXAMPLE: &'static str = "number,at,action\r\n17,2026-01-30T09:30:00.000Z,user.updated\r\n";
    const LINES_EXAMPLE: &'static str =
        "{\"record\":{\"number\":17,\"action\":\"user.updated\"},\"hash\":\"9f9f\"}\n{\"_end\":true,\"count\":1}\n";
}

/// The columns of a table, as paths into the record.
pub(super) const COLUMNS: [&str; 14] = [
    "number",
    "at",
    "action",
    "actor.kind",
    "actor.id",
    "actor.name",
    "resource.kind",
    "resource.id",
    "resource.version",
    "changes",
    "run_id",
    "event_id",
    "seq",
    "hash",
];

/// A signed statement about the tenant's chain: it had the records from `first` to `number` at that time, and the last has this hash.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct AuditCheckpoint {
    tenant_id: TenantId,
    /// The first record that was not past its retention.
    first: u64,
    /// The last record.
    number: u64,
    /// The hash of the last record, in hexadecimal.
    hash: String,
    /// The time of the last record.
    at: Timestamp,
    /// An Ed25519 signature, in hexadecimal.
    signature: String,
    /// What it is checked with, in hexadecimal. The same for the whole installation.
    public_key: String,
}

impl AuditCheckpoint {
    pub(super) fn new(checkpoint: &SignedCheckpoint, key: &PublicKey) -> Self {
        let Statement { tenant_id, first, number, hash, at } = checkpoint.statement;
        let (signature, public_key) = (checkpoint.signature.to_string(), key.to_string());
        Self { tenant_id, first, number, hash: hex(&hash), at, signature, public_key }
    }

    pub(super) fn checkpoint(self) -> Result<SignedCheckpoint, String> {
        let Self { tenant_id, first, number, hash, at, signature, public_key: _ } = self;
        CheckpointForm { tenant_id, first, number, hash, at, signature, public_key: None }.checkpoint()
    }
}

/// Where a chain is not what was written.
#[derive(Debug, Object, Serialize)]
pub(super) struct AuditBreak {
    tenant_id: TenantId,
    /// The first record that cannot be trusted.
    number: u64,
    /// What is wrong.
    reason: String,
}

/// What a check of all chains found.
#[derive(Debug, Object, Serialize)]
pub(super) struct AuditVerification {
    /// Whether all chains are sound.
    sound: bool,
    /// How many chains were checked.
    chains: u64,
    records: u64,
    /// How many checkpoints were checked.
    checkpoints: u64,
    breaks: Vec<AuditBreak>,
}

impl From<verify::Verified> for AuditVerification {
    fn from(verified: verify::Verified) -> Self {
        let sound = verified.is_sound();
        let shown = |found: verify::Break| AuditBreak { tenant_id: found.tenant_id, number: found.number, reason: found.reason };
        Self {
            sound,
            chains: verified.chains,
            records: verified.records,
            checkpoints: verified.checkpoints,
            breaks: verified.breaks.into_iter().map(shown).collect(),
        }
    }
}
