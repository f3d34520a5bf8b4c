//! The audit: administrative changes, successful and failed sign-ins, secrets, exports and the operator's actions, in one hash
//! chain per tenant.
//!
//! **Boundary:** the audit is a consumer of the event log. It has no other input and changes only its own tables. Each tenant has
//! its own chain, so that a tenant can export and verify it without data of other tenants, and so that removing a tenant breaks no
//! other chain. The operator's own actions are in the chain of the platform tenant.

mod api;
mod error;
mod listing;
mod model;
mod recorder;
mod repo;
mod upkeep;
mod verify;

use std::{sync::Arc, time::Duration};

use poem_openapi::OpenApi;

use tenantd_base::{
    clock::Clock,
    config::{self, Limits},
    secrets::{InstallationKey, PublicKey, SignatureError, Signer},
};
use tenantd_http::outgoing::Streams;
use tenantd_store::{
    Checked, Read, Store, StoreError,
    events::{ConsumerTask, Kinds},
    portable::Portable,
    tasks::Tasks,
};

pub use api::{ExportCheck, parse_checkpoint, show_checkpoint};
pub use error::AuditError;
pub use model::Checkpoint;
pub use verify::{Break, Verified};

#[derive(Clone, Debug)]
pub struct Audit {
    store: Store,
    clock: Clock,
    signer: Arc<Signer>,
    public_key: PublicKey,
    keep: Duration,
    exports: Streams,
}

/// Returns the key that verifies the checkpoints of an installation.
pub fn public_key(key: &InstallationKey) -> Result<PublicKey, SignatureError> {
    Signer::of(key, model::PURPOSE)?.public_key()
}

/// Verifies all chains of a store, and compares them with its event log.
pub fn verify(tx: &impl Read, key: &PublicKey, known: &[Checkpoint]) -> Result<Verified, StoreError> {
    let mut verified = verify::verify_store(tx, Some(key), known)?;
    verify::verify_log(tx, &mut verified)?;
    Ok(verified)
}

/// Returns the newest checkpoint of every chain, to store elsewhere.
pub fn checkpoints(tx: &impl Read) -> Result<Vec<Checkpoint>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let heads = repo::heads_after(tx, after, 1_000)?;
        found.extend(heads.iter().map(|head| head.end.checkpoint));
        match heads.last() {
            Some(last) => after = Some(last.end.checkpoint.statement.tenant_id),
            None => return Ok(found),
        }
    }
}

impl Audit {
    pub fn new(
        store: Store,
        clock: Clock,
        settings: &config::Audit,
        limits: &Limits,
        key: &InstallationKey,
    ) -> Result<Self, SignatureError> {
        let signer = Arc::new(Signer::of(key, model::PURPOSE)?);
        let public_key = signer.public_key()?;
        let keep = Duration::from_secs(u64::from(settings.retention_days) * 86_400);
        let exports = Streams::new("exports of the audit", limits, &store);
        Ok(Self { store, clock, signer, public_key, keep, exports })
    }

    /// Returns the key that verifies the checkpoints, and the purpose of that key.
    pub fn public_key(&self) -> (&'static str, PublicKey) {
        (model::PURPOSE, self.public_key)
    }

    fn recorder(&self) -> ConsumerTask<recorder::Recorder> {
        ConsumerTask::new(self.store.clone(), recorder::Recorder { signer: self.signer.clone() })
    }

    pub fn api(&self, kinds: &Kinds) -> impl OpenApi + use<> {
        api::AuditApi {
            store: self.store.clone(),
            kinds: Arc::new(kinds.clone()),
            recorder: self.recorder(),
            public_key: self.public_key,
            exports: self.exports.clone(),
        }
    }

    /// The operations that only the admin socket serves.
    pub fn admin_api(&self) -> impl OpenApi + use<> {
        api::AdminAuditApi { store: self.store.clone(), recorder: self.recorder(), public_key: self.public_key }
    }

    pub const CONSUMERS: &'static [&'static str] = &[recorder::NAME];

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(self.recorder());
        tasks.spawn(upkeep::Retention {
            store: self.store.clone(),
            clock: self.clock.clone(),
            keep: self.keep,
            signer: self.signer.clone(),
        });
    }

    /// The tables with a tenant's chain, which moves with the tenant to another installation and is signed again there.
    pub fn portable(&self) -> Vec<Box<dyn Portable>> {
        repo::portable::portable(&self.signer, verify::verify_one)
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::RECORDS, &repo::CHECKPOINTS, &repo::HEADS, &verify::Chains]
    }
}

#[cfg(test)]
mod tests;
