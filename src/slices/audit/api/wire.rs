//! Wire types of the audit.

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

/// The resource that an action affected.
#[derive(Debug, Object, Serialize)]
pub(super) struct AuditResource {
    /// The kind of resource, such as `api_key` or `user`.
    kind: String,
    /// The id of the resource.
    id: String,
    /// The version of the resource after the action.
    version: u64,
}

impl From<Subject> for AuditResource {
    fn from(subject: Subject) -> Self {
        let Subject { kind, id, version } = subject;
        Self { kind, id, version }
    }
}

/// One action in the audit.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct AuditRecord {
    /// The position in the tenant's chain, starting at 1 without gaps.
    number: u64,
    /// When the action happened.
    at: Timestamp,
    /// The kind of event, such as `api_key.created`.
    action: String,
    /// Who performed the action.
    actor: Author,
    /// The resource that the action affected.
    resource: AuditResource,
    /// The changed fields with their old and new values. Absent if the event kind does not report changes, or if they exceed 4,096
    /// bytes.
    changes: Option<Any<Value>>,
    /// The workflow run that performed the action. Absent if no run did.
    run_id: Option<RunId>,
    /// The id of the event in the feed.
    event_id: EventId,
    /// The event's number in the tenant's sequence.
    seq: u64,
    /// The SHA-256 of the event, as webhook receivers got it.
    event_sha256: String,
    /// The SHA-256 over the previous record's hash and this record.
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

/// A page of audit records.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct AuditList {
    /// The records of this page.
    pub(super) data: Vec<AuditRecord>,
    /// The position of this page in the list.
    pub(super) page: Page,
}

impl Exported for AuditList {
    const CSV_EXAMPLE: &'static str = "number,at,action\r\n17,2026-01-30T09:30:00.000Z,user.updated\r\n";
    const LINES_EXAMPLE: &'static str =
        "{\"record\":{\"number\":17,\"action\":\"user.updated\"},\"hash\":\"9f9f\"}\n{\"_end\":true,\"count\":1}\n";
}

/// The columns of a CSV export, as paths into the record.
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

/// A signed statement about a tenant's chain: at that time it had the records from `first` to `number`, and the last one has this
/// hash.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct AuditCheckpoint {
    /// The tenant of the chain.
    tenant_id: TenantId,
    /// The number of the first record within its retention.
    first: u64,
    /// The number of the last record.
    number: u64,
    /// The hash of the last record, in hexadecimal.
    hash: String,
    /// The time of the last record.
    at: Timestamp,
    /// The Ed25519 signature, in hexadecimal.
    signature: String,
    /// The public key that verifies the signature, in hexadecimal. It is the same for the whole installation.
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

/// The position at which a chain was changed or damaged.
#[derive(Debug, Object, Serialize)]
pub(super) struct AuditBreak {
    /// The tenant of the chain.
    tenant_id: TenantId,
    /// The number of the first record that cannot be trusted.
    number: u64,
    /// Why that record cannot be trusted.
    reason: String,
}

/// The result of verifying all chains.
#[derive(Debug, Object, Serialize)]
pub(super) struct AuditVerification {
    /// Whether no chain has a problem.
    sound: bool,
    /// The number of chains that were checked.
    chains: u64,
    /// The number of records that were checked.
    records: u64,
    /// The number of checkpoints that were checked.
    checkpoints: u64,
    /// The problems that were found. Empty if all chains are sound.
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
