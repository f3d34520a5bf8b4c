//! Which events are audited, what a record contains, and how records form a chain.
//!
//! The hash of a record covers the previous hash and the record's own bytes. So nobody can change, omit, add or move a record
//! without invalidating all records after it. A checkpoint is a signature over such a hash. **Invariant:** the bytes of a record
//! never change once written. They are hashed, exported and verified as they are, so every release computes the same hash.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use sha2::{Digest, Sha256};

use tenantd_base::{
    clock::Timestamp,
    id::{EventId, TenantId},
    secrets::{PublicKey, Signature, SignatureError, Signer, digest},
};
use tenantd_store::events::{Actor, Cause, Event, EventPattern};

/// The purpose of checkpoint signatures. A signature for another purpose is not valid.
pub const PURPOSE: &str = "audit";
/// The number of records between two stored checkpoints.
pub const CHECKPOINT_RECORDS: u64 = 64;
/// Larger changes are left out of the record. The digest of the event still covers them.
const MAX_CHANGES: usize = 4096;

/// The event kinds that are daily work, not administration. Tickets, devices, runs and VMs have their own history, and what people
/// store for the console concerns only them. All other kinds are audited, including new ones.
const WORK: &[&str] = &[
    "ticket.*",
    "device.*",
    "workflow.run.*",
    "vm.created",
    "vm.provision_failed",
    "vm.state_changed",
    "vm.updated",
    "vm.removed",
    "backup.job.*",
    "backup.rpo_*",
    "preferences.updated",
    "view.*",
];

fn is_work(kind: &str) -> bool {
    WORK.iter().any(|name| name.strip_suffix('*').map_or(kind == *name, |area| kind.starts_with(area)))
}

pub type Hash = [u8; 32];

/// The resource that an action affected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    pub kind: String,
    pub id: String,
    pub version: u64,
}

/// The content of a record. **Invariant:** the order of the fields is their order in the stored bytes.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The position in the tenant's chain, starting at 1 without gaps.
    pub number: u64,
    pub tenant_id: TenantId,
    pub at: Timestamp,
    pub action: String,
    pub actor: Actor,
    pub resource: Subject,
    #[serde(default, skip_serializing_if = "Cause::is_empty")]
    pub cause: Cause,
    #[serde(default)]
    pub changes: Option<Box<RawValue>>,
    pub event_id: EventId,
    /// The event's number in the tenant's sequence.
    pub seq: u64,
    /// The digest of the event's body, which webhook receivers got byte for byte.
    pub event_sha256: String,
}

/// The parts of an event that a record contains.
#[derive(Deserialize)]
struct Body {
    resource: Subject,
    actor: Actor,
    #[serde(default)]
    cause: Cause,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    changes: Option<Box<RawValue>>,
    #[serde(default)]
    user: Option<Person>,
}

#[derive(Deserialize)]
struct Person {
    #[serde(default)]
    kind: String,
}

impl Entry {
    /// Creates the record of an event. Returns `None` if the event is not audited. Changes to contacts are daily work. Whether they
    /// can sign in to the portal is not, and has events of its own.
    pub fn of(event: &Event, number: u64) -> Result<Option<Self>, serde_json::Error> {
        let record = &event.record;
        if is_work(&record.kind) {
            return Ok(None);
        }
        let body: Body = serde_json::from_slice(&record.body)?;
        if record.kind.starts_with("user.") && body.data.user.is_some_and(|user| user.kind == "contact") {
            return Ok(None);
        }
        Ok(Some(Self {
            number,
            tenant_id: record.tenant_id,
            at: record.at,
            action: record.kind.clone(),
            actor: body.actor,
            resource: body.resource,
            cause: body.cause,
            changes: body.data.changes.filter(|changes| changes.get().len() <= MAX_CHANGES),
            event_id: record.id,
            seq: record.number,
            event_sha256: hex(&digest(&record.body)),
        }))
    }
}

pub fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

/// Returns the hash that the first record of a tenant's chain follows.
pub fn origin(tenant_id: TenantId) -> Hash {
    let mut hasher = Sha256::new_with_prefix(b"tenantd audit chain\0");
    hasher.update(tenant_id.as_bytes());
    hasher.finalize().into()
}

/// Returns the hash of a record that follows the hash `previous`.
pub fn link(previous: &Hash, body: &[u8]) -> Hash {
    let mut hasher = Sha256::new_with_prefix(b"tenantd audit record\0");
    hasher.update(previous);
    hasher.update(body);
    hasher.finalize().into()
}

/// A statement about a chain: at this time it had the records from `first` to `number`, and the last one has this hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    pub tenant_id: TenantId,
    pub first: u64,
    pub number: u64,
    pub hash: Hash,
    pub at: Timestamp,
}

impl Statement {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"tenantd audit checkpoint\0".to_vec();
        bytes.extend_from_slice(self.tenant_id.as_bytes());
        bytes.extend_from_slice(&self.first.to_be_bytes());
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.hash);
        bytes.extend_from_slice(&self.at.as_millis().to_be_bytes());
        bytes
    }

    pub fn sign(self, signer: &Signer) -> Result<Checkpoint, SignatureError> {
        Ok(Checkpoint { statement: self, signature: signer.sign(&self.bytes())? })
    }
}

/// A signed statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub statement: Statement,
    pub signature: Signature,
}

impl Checkpoint {
    pub fn verify(&self, key: &PublicKey) -> Result<(), SignatureError> {
        key.verify(&self.statement.bytes(), &self.signature)
    }
}

/// The filters of a query.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    pub actor_ids: Vec<String>,
    pub actions: Vec<EventPattern>,
    pub resource_kinds: Vec<String>,
    pub resource_ids: Vec<String>,
    /// From this time on.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// Actions on resources that the reader cannot read. Their records are left out.
    pub hidden: Vec<&'static str>,
}

impl Filters {
    pub fn is_empty(&self) -> bool {
        let Self { actor_ids, actions, resource_kinds, resource_ids, since, until, hidden } = self;
        let no_words = actor_ids.is_empty() && resource_kinds.is_empty() && resource_ids.is_empty();
        no_words && actions.is_empty() && since.is_none() && until.is_none() && hidden.is_empty()
    }

    pub fn matches(&self, entry: &Entry) -> bool {
        let one_of = |allowed: &[String], found: &String| allowed.is_empty() || allowed.contains(found);
        one_of(&self.actor_ids, &entry.actor.id)
            && one_of(&self.resource_kinds, &entry.resource.kind)
            && one_of(&self.resource_ids, &entry.resource.id)
            && !self.hidden.iter().any(|action| *action == entry.action)
            && (self.actions.is_empty() || self.actions.iter().any(|action| action.matches(&entry.action)))
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }
}

#[cfg(test)]
mod tests {
    use tenantd_store::events::EventRecord;

    use super::*;

    fn event(kind: &str, data: &str) -> Event {
        let body = format!(
            r#"{{"id":"x","resource":{{"kind":"user","id":"usr_1","version":3}},"actor":{{"kind":"user","id":"usr_2","name":"Ada"}},"data":{data}}}"#
        );
        let at = Timestamp::from_millis(1_767_225_600_000);
        let (id, tenant_id) = (EventId::from_bytes([1; 16]), TenantId::from_bytes([2; 16]));
        Event {
            seq: 70_000,
            record: EventRecord { id, tenant_id, kind: kind.to_owned(), at, body: body.into_bytes(), imported_at: None, number: 9 },
        }
    }

    #[test]
    fn administration_is_audited_and_daily_work_is_not() {
        for (kind, data, audited) in [
            ("user.updated", r#"{"user":{"kind":"staff"}}"#, true),
            ("user.updated", r#"{"user":{"kind":"contact"}}"#, false),
            ("auth.login_failed", r#"{"user":{"kind":"staff"}}"#, true),
            ("vm.provisioning", "{}", true),
            ("vm.updated", "{}", false),
            ("workflow.updated", "{}", true),
            ("workflow.run.started", "{}", false),
            ("ticket.created", "{}", false),
            ("ticketing.enabled", "{}", true),
        ] {
            assert_eq!(Entry::of(&event(kind, data), 1).unwrap().is_some(), audited, "{kind} {data}");
        }
    }

    #[test]
    fn a_record_contains_changes_unless_they_are_large() {
        let small = Entry::of(&event("user.updated", r#"{"changes":{"name":{"from":"A","to":"B"}}}"#), 4).unwrap().unwrap();
        assert_eq!(small.changes.unwrap().get(), r#"{"name":{"from":"A","to":"B"}}"#);
        assert_eq!((small.number, small.seq, small.actor.name.as_str()), (4, 9, "Ada"));
        let large = format!(r#"{{"changes":{{"name":"{}"}}}}"#, "x".repeat(MAX_CHANGES));
        assert!(Entry::of(&event("user.updated", &large), 4).unwrap().unwrap().changes.is_none());
    }

    /// Checkpoints are stored elsewhere for years, so the hashed and signed bytes must never change.
    #[test]
    fn the_hashes_never_change() {
        let tenant = TenantId::from_bytes([2; 16]);
        assert_eq!(hex(&link(&origin(tenant), b"{}")), "69bb46c56ac51f2e5cea18046ea798e23cce5afd982341186345c90de8059783");
        let at = Timestamp::from_millis(1_767_225_600_000);
        let statement = Statement { tenant_id: tenant, first: 1, number: 64, hash: [7; 32], at };
        assert_eq!(hex(&digest(&statement.bytes())), "2b47f574b3ee7f02e892f9754a6c3b898dbe344dda63c628b229264f26aa5ce6");
    }
}
