//! Tenants as they are stored.

pub(super) mod portable;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{access::TenantKind, clock::Timestamp, id::TenantId, secrets::PasswordHash};
use tenantd_store::{
    Direction, Flow, Index, Key, KeyRange, Progress, Read, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields},
    events::Actor,
    usage,
};

use super::{
    evaluation::{Admission, Evaluation, Story},
    model::{Errand, Tenant, TenantStatus, Work},
};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TenantRecord {
    name: String,
    slug: String,
    kind: TenantKind,
    status: TenantStatus,
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
    version: u64,
    clock_ahead_seconds: u64,
}

impl Record for TenantRecord {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        let first: FirstTenantRecord = decode_fields(fields)?;
        let FirstTenantRecord { name, slug, kind, status, created_at, updated_at, expires_at, version } = first;
        Ok(Self { name, slug, kind, status, created_at, updated_at, expires_at, version, clock_ahead_seconds: 0 })
    }
}

/// Before tenants had clocks.
#[derive(Deserialize)]
struct FirstTenantRecord {
    name: String,
    slug: String,
    kind: TenantKind,
    status: TenantStatus,
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
    version: u64,
}

pub(super) static BY_SLUG: Index<TenantId, TenantRecord> =
    Index { table: catalog::TENANTS_BY_SLUG, unique: true, keys: |_, tenant| vec![tenant.slug.to_bytes()] };
static BY_EXPIRY: Index<TenantId, TenantRecord> = Index {
    table: catalog::TENANTS_BY_EXPIRY,
    unique: false,
    // One that is being removed has nothing more to end.
    keys: |_, tenant| {
        tenant.expires_at.filter(|_| tenant.status != TenantStatus::Deleting).map(|at| at.to_bytes()).into_iter().collect()
    },
};
pub(super) static TENANTS: Table<TenantId, TenantRecord> = Table::new(catalog::TENANTS, &[&BY_SLUG, &BY_EXPIRY]);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ErrandRecord {
    work: Work,
    due_at: Timestamp,
    actor: Actor,
}

impl Record for ErrandRecord {
    const VERSION: u8 = 1;
}

pub(super) static ERRANDS: Table<TenantId, ErrandRecord> = Table::new(catalog::TENANT_ERRANDS, &[]);

pub(super) fn put_errand(tx: &mut WriteTx, tenant: TenantId, errand: &Errand) -> Result<(), StoreError> {
    let Errand { work, due_at, actor } = errand.clone();
    ERRANDS.put(tx, &tenant, &ErrandRecord { work, due_at, actor })
}

pub(super) fn end_errand(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    ERRANDS.remove(tx, &tenant).map(drop)
}

/// Errands whose time has come.
pub(super) fn due_errands(tx: &impl Read, now: Timestamp) -> Result<Vec<(TenantId, Errand)>, StoreError> {
    let mut due = Vec::new();
    ERRANDS.scan(tx, &KeyRange::ALL, Direction::Forward, |tenant, ErrandRecord { work, due_at, actor }| {
        if due_at <= now {
            due.push((tenant, Errand { work, due_at, actor }));
        }
        Ok(Flow::Continue)
    })?;
    Ok(due)
}

/// Brings the ends of tenants into their index that were stored before there was one.
pub fn index_expiries(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    TENANTS.fill(tx, &BY_EXPIRY)?;
    Ok(Progress::Done)
}

/// All tenants, whatever their state.
pub fn tenant_ids(tx: &impl Read) -> Result<Vec<TenantId>, StoreError> {
    Ok(TENANTS.list(tx, &KeyRange::ALL, usize::MAX)?.into_iter().map(|(tenant, _)| tenant).collect())
}

/// Tenants whose end has come, at most `limit`.
pub(super) fn expired(tx: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<TenantId>, StoreError> {
    BY_EXPIRY.list(tx, &KeyRange::before((now + Duration::from_millis(1)).to_bytes()), limit)
}

/// Removes the tenant's own record, and what it was made from.
pub(super) fn remove(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    EVALUATIONS.remove(tx, &tenant)?;
    usage::put_overrides(tx, tenant, Vec::new())?;
    TENANTS.remove(tx, &tenant).map(drop)
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EvaluationRecord {
    seed: u64,
    organizations: u32,
    devices: u32,
    tickets: u32,
    ends_at: Timestamp,
    runs: bool,
    email: String,
    password: PasswordHash,
    key_digest: [u8; 32],
    key_prefix: String,
    key_last_four: String,
}

impl Record for EvaluationRecord {
    const VERSION: u8 = 1;
}

pub(super) static EVALUATIONS: Table<TenantId, EvaluationRecord> = Table::new(catalog::EVALUATIONS, &[]);

pub(super) fn put_evaluation(tx: &mut WriteTx, tenant: TenantId, evaluation: &Evaluation) -> Result<(), StoreError> {
    let Evaluation { story, admission } = evaluation.clone();
    let record = EvaluationRecord {
        seed: story.seed,
        organizations: story.organizations,
        devices: story.devices,
        tickets: story.tickets,
        ends_at: story.ends_at,
        runs: story.runs,
        email: admission.email,
        password: admission.password,
        key_digest: admission.key_digest,
        key_prefix: admission.key_prefix,
        key_last_four: admission.key_last_four,
    };
    EVALUATIONS.put(tx, &tenant, &record)
}

pub(super) fn evaluation(tx: &impl Read, tenant: TenantId) -> Result<Option<Evaluation>, StoreError> {
    Ok(EVALUATIONS.get(tx, &tenant)?.map(|record| Evaluation {
        story: Story {
            seed: record.seed,
            organizations: record.organizations,
            devices: record.devices,
            tickets: record.tickets,
            ends_at: record.ends_at,
            runs: record.runs,
        },
        admission: Admission {
            email: record.email,
            password: record.password,
            key_digest: record.key_digest,
            key_prefix: record.key_prefix,
            key_last_four: record.key_last_four,
        },
    }))
}

pub(super) fn to_model(id: TenantId, record: TenantRecord) -> Tenant {
    let TenantRecord { name, slug, kind, status, created_at, updated_at, expires_at, version, clock_ahead_seconds } = record;
    let clock_ahead = Duration::from_secs(clock_ahead_seconds);
    Tenant { id, name, slug, kind, status, created_at, updated_at, expires_at, clock_ahead, version }
}

pub(super) fn get(tx: &impl Read, id: TenantId) -> Result<Option<Tenant>, StoreError> {
    Ok(TENANTS.get(tx, &id)?.map(|record| to_model(id, record)))
}

pub(super) fn put(tx: &mut WriteTx, tenant: &Tenant) -> Result<(), StoreError> {
    TENANTS.put(tx, &tenant.id, &to_record(tenant))
}

fn to_record(tenant: &Tenant) -> TenantRecord {
    TenantRecord {
        name: tenant.name.clone(),
        slug: tenant.slug.clone(),
        kind: tenant.kind,
        status: tenant.status,
        created_at: tenant.created_at,
        updated_at: tenant.updated_at,
        expires_at: tenant.expires_at,
        version: tenant.version,
        clock_ahead_seconds: tenant.clock_ahead.as_secs(),
    }
}

pub(super) fn find_slug(tx: &impl Read, slug: &str) -> Result<Option<TenantId>, StoreError> {
    BY_SLUG.find(tx, &slug.to_owned().to_bytes())
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::{assert_golden, decode_fields};

    use super::*;
    use crate::TenantActivity;

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let tenant = TenantRecord {
            name: "Acme".to_owned(),
            slug: "acme".to_owned(),
            kind: TenantKind::Evaluation,
            status: TenantStatus::Suspended,
            created_at: at,
            updated_at: at,
            expires_at: Some(at.plus_days(14)),
            version: 3,
            clock_ahead_seconds: 259_200,
        };
        assert_golden("tenant", &tenant);
        let hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";
        let evaluation = EvaluationRecord {
            seed: 7,
            organizations: 24,
            devices: 480,
            tickets: 1000,
            ends_at: at,
            runs: true,
            email: "admin@acme.example".to_owned(),
            // A hash is a text in its stored form: its length and its bytes.
            password: decode_fields(&[&[u8::try_from(hash.len()).unwrap()], hash.as_bytes()].concat()).unwrap(),
            key_digest: [5; 32],
            key_prefix: "tck_eval_abcd".to_owned(),
            key_last_four: "wxyz".to_owned(),
        };
        assert_golden("evaluation", &evaluation);
        assert_golden("tenant_errand", &ErrandRecord { work: Work::Sweep, due_at: at, actor: Actor::system("test") });
        assert_golden("tenant_activity", &TenantActivity { events: 42, last_event_at: at });
    }
}
