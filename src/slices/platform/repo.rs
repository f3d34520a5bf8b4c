//! The tables of tenants.

pub(super) mod portable;

use std::time::Duration;

use tenantd_base::{clock::Timestamp, id::TenantId};
use tenantd_store::{
    Direction, Flow, Index, Key, KeyRange, Progress, Read, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields, encode_fields},
    usage,
};

use super::{
    evaluation::Evaluation,
    model::{LifecycleJob, Tenant, TenantStatus},
};

impl Record for Tenant {
    const VERSION: u8 = 2;

    /// Version 1 had no `clock_ahead` field.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("this release does not know format version {version}"));
        }
        decode_fields(&[fields, &encode_fields(&0_u64)?].concat())
    }

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        self.id = Key::from_bytes(key)?;
        Some(())
    }
}

pub(super) static BY_SLUG: Index<TenantId, Tenant> =
    Index { table: catalog::TENANTS_BY_SLUG, unique: true, keys: |_, tenant| vec![tenant.slug.to_bytes()] };
static BY_EXPIRY: Index<TenantId, Tenant> = Index {
    table: catalog::TENANTS_BY_EXPIRY,
    unique: false,
    // A tenant that is being removed cannot expire.
    keys: |_, tenant| {
        tenant.expires_at.filter(|_| tenant.status != TenantStatus::Deleting).map(|at| at.to_bytes()).into_iter().collect()
    },
};
pub(super) static TENANTS: Table<TenantId, Tenant> = Table::new(catalog::TENANTS, &[&BY_SLUG, &BY_EXPIRY]);

impl Record for LifecycleJob {
    const VERSION: u8 = 1;
}

pub(super) static LIFECYCLE_JOBS: Table<TenantId, LifecycleJob> = Table::new(catalog::TENANT_ERRANDS, &[]);

pub(super) fn put_job(tx: &mut WriteTx, tenant: TenantId, job: &LifecycleJob) -> Result<(), StoreError> {
    LIFECYCLE_JOBS.put(tx, &tenant, job)
}

pub(super) fn remove_job(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    LIFECYCLE_JOBS.remove(tx, &tenant).map(drop)
}

/// The jobs that are due.
pub(super) fn due_jobs(tx: &impl Read, now: Timestamp) -> Result<Vec<(TenantId, LifecycleJob)>, StoreError> {
    let mut due = Vec::new();
    LIFECYCLE_JOBS.scan(tx, &KeyRange::ALL, Direction::Forward, |tenant, job| {
        if job.due_at <= now {
            due.push((tenant, job));
        }
        Ok(Flow::Continue)
    })?;
    Ok(due)
}

/// Adds tenants from before the expiry index to that index.
pub fn index_expiries(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    TENANTS.fill(tx, &BY_EXPIRY)?;
    Ok(Progress::Done)
}

/// All tenants, in any status.
pub fn tenant_ids(tx: &impl Read) -> Result<Vec<TenantId>, StoreError> {
    Ok(TENANTS.list(tx, &KeyRange::ALL, usize::MAX)?.into_iter().map(|(tenant, _)| tenant).collect())
}

/// The expired tenants, at most `limit`.
pub(super) fn expired(tx: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<TenantId>, StoreError> {
    BY_EXPIRY.list(tx, &KeyRange::before((now + Duration::from_millis(1)).to_bytes()), limit)
}

/// Removes the tenant's own record and its sample options.
pub(super) fn remove(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    EVALUATIONS.remove(tx, &tenant)?;
    usage::put_overrides(tx, tenant, Vec::new())?;
    TENANTS.remove(tx, &tenant).map(drop)
}

impl Record for Evaluation {
    const VERSION: u8 = 1;
}

pub(super) static EVALUATIONS: Table<TenantId, Evaluation> = Table::new(catalog::EVALUATIONS, &[]);

pub(super) fn put_evaluation(tx: &mut WriteTx, tenant: TenantId, evaluation: &Evaluation) -> Result<(), StoreError> {
    EVALUATIONS.put(tx, &tenant, evaluation)
}

pub(super) fn evaluation(tx: &impl Read, tenant: TenantId) -> Result<Option<Evaluation>, StoreError> {
    EVALUATIONS.get(tx, &tenant)
}

pub(super) fn get(tx: &impl Read, id: TenantId) -> Result<Option<Tenant>, StoreError> {
    TENANTS.get(tx, &id)
}

pub(super) fn put(tx: &mut WriteTx, tenant: &Tenant) -> Result<(), StoreError> {
    TENANTS.put(tx, &tenant.id, tenant)
}

pub(super) fn find_slug(tx: &impl Read, slug: &str) -> Result<Option<TenantId>, StoreError> {
    BY_SLUG.find(tx, &slug.to_owned().to_bytes())
}

#[cfg(test)]
mod tests {
    use tenantd_base::access::TenantKind;
    use tenantd_store::{codec::assert_golden, events::Actor};

    use super::*;
    use crate::{
        TenantActivity,
        evaluation::{SampleSpec, StoredCredentials},
        model::Work,
    };

    #[test]
    fn stored_records_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let tenant = Tenant {
            id: TenantId::default(),
            name: "Acme".to_owned(),
            slug: "acme".to_owned(),
            kind: TenantKind::Evaluation,
            status: TenantStatus::Suspended,
            created_at: at,
            updated_at: at,
            expires_at: Some(at.plus_days(14)),
            version: 3,
            clock_ahead: Duration::from_hours(72),
        };
        assert_golden("tenant", &tenant);
        let hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";
        let story = SampleSpec { seed: 7, organizations: 24, devices: 480, tickets: 1000, ends_at: at, runs: true };
        let admission = StoredCredentials {
            email: "admin@acme.example".to_owned(),
            // A hash is stored as a text: its length and its bytes.
            password: decode_fields(&[&[u8::try_from(hash.len()).unwrap()], hash.as_bytes()].concat()).unwrap(),
            key_digest: [5; 32],
            key_prefix: "tck_eval_abcd".to_owned(),
            key_last_four: "wxyz".to_owned(),
        };
        assert_golden("evaluation", &Evaluation { story, admission });
        assert_golden("tenant_errand", &LifecycleJob { work: Work::Sweep, due_at: at, actor: Actor::system("test") });
        assert_golden("tenant_activity", &TenantActivity { events: 42, last_event_at: at });
    }
}
