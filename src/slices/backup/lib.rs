//! Backups: what is set for them, what the systems that run them tell of their jobs, and how well each organization is backed up.
//!
//! **Boundary:** nothing here backs anything up; devices are the directory's, tickets are the tickets'. **Invariant:** a job, what it means
//! for its device and its organization, its events and its tickets commit together, so a report needs to read no job.

mod api;
mod dependents;
mod error;
mod follower;
mod listing;
mod model;
mod repo;
mod service;
mod steps;
mod upkeep;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use poem_openapi::OpenApi;
use serde_json::{Map, Value};

use tenantd_base::{
    clocks::Clocks,
    config,
    id::{DeviceId, OrganizationId, TenantId},
    secrets::{InstallationKey, PublicKey, SignatureError, Signer},
};
use tenantd_directory::{DirectoryError, JobLine, JobTaker, LineDone};
use tenantd_http::outgoing::Streams;
use tenantd_store::{
    Checked, Progress, Read, Store, StoreError, TenantRows, WriteTx,
    events::{Act, ConsumerTask, EventKind, Intent},
    portable::Portable,
    steps::StepEntry,
    tasks::Tasks,
};
use tenantd_tickets::Tickets;

pub use error::BackupError;
pub use model::{Alarm, Minutes, Notifications, Objectives, OwnConfig, Rhythm, Schedule, Scope, Target, TargetKind};

pub const EVENTS: &[&EventKind] = &[
    &service::CONFIG_UPDATED,
    &service::JOB_SUCCEEDED,
    &service::JOB_FAILED,
    &service::JOB_MISSED,
    &service::RPO_BREACHED,
    &service::RPO_RECOVERED,
];

/// What signatures on evidence are for.
const PURPOSE: &str = "backup-evidence";

#[derive(Clone, Debug)]
pub struct Backups {
    service: Arc<service::Service>,
    store: Store,
    clocks: Clocks,
    exports: Streams,
    signer: Arc<Signer>,
}

/// How many devices are to be backed up, and how many are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub eligible: u64,
    pub protected: u64,
}

/// Over all organizations of a tenant; one record each is read.
pub fn coverage(tx: &impl Read, tenant: TenantId) -> Result<Coverage, StoreError> {
    let mut coverage = Coverage::default();
    repo::rollups::scan(tx, tenant, |rollup| {
        coverage.eligible += rollup.share.eligible;
        coverage.protected += rollup.share.protected;
    })?;
    Ok(coverage)
}

/// Brings a store of an older release forward: notes of each device whether it is backed up, and adds the sums of organizations up again.
pub fn derive_states(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    repo::upgrade::derive_states(tx)
}

impl Backups {
    pub const CONSUMERS: &[&'static str] = &[follower::NAME];

    pub fn new(
        store: Store,
        clocks: Clocks,
        settings: config::Backup,
        limits: &config::Limits,
        key: &InstallationKey,
        tickets: Tickets,
    ) -> Result<Self, String> {
        let signer = Signer::of(key, PURPOSE).map_err(|error| error.to_string())?;
        let service = service::Service { tickets, job_retention_days: settings.job_retention_days };
        let exports = Streams::new("reports", limits, &store);
        Ok(Self { service: Arc::new(service), store, clocks, exports, signer: Arc::new(signer) })
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let (service, store) = (self.service.clone(), self.store.clone());
        (
            api::ConfigApi { service, store: store.clone() },
            api::AggregateApi { store, exports: self.exports.clone(), signer: self.signer.clone() },
        )
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        let (clocks, service) = (self.clocks.clone(), self.service.clone());
        tasks.spawn(ConsumerTask::new(self.store.clone(), follower::Follower { clocks, service }));
        tasks.spawn(upkeep::BackupTimers::new(self.store.clone(), self.clocks.clone(), self.service.clone()));
    }

    /// What workflows can do with backups.
    pub fn steps(&self) -> Vec<StepEntry> {
        vec![StepEntry::local(steps::UpdateConfig(self.clone())), StepEntry::remote(steps::ReadPosture(self.clone()))]
    }

    /// What of a tenant's backups goes along to another installation. Postures come last, behind what their timers look at.
    pub fn portable() -> Result<Vec<Box<dyn Portable>>, String> {
        Ok(repo::portable::portable(api::settings_bounds()?))
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![
            &repo::configs::CONFIGS,
            &repo::jobs::COUNTED_JOBS,
            &repo::postures::POSTURES,
            &repo::rollups::ROLLUPS,
            &repo::sweeps::SWEEPS,
        ]
    }

    /// What tenants have in segments.
    pub fn tenant_rows() -> Vec<&'static dyn TenantRows> {
        vec![&repo::jobs::JOBS_OF_TENANTS]
    }

    /// Whoever takes up the jobs that agents and imports send.
    pub fn job_taker(&self) -> Arc<dyn JobTaker> {
        self.service.clone()
    }

    /// What others check evidence with, and what it is for.
    pub fn public_key(&self) -> Result<(&'static str, PublicKey), SignatureError> {
        Ok((PURPOSE, self.signer.public_key()?))
    }

    /// The schemas of the records that events carry.
    pub fn record_schemas() -> Map<String, Value> {
        api::record_schemas()
    }
}

/// The use cases, for those who compose them with their own.
impl Backups {
    pub fn take_job(&self, tx: &mut WriteTx, act: &mut Act, line: &JobLine) -> Result<LineDone, DirectoryError> {
        self.service.take(tx, act, line)
    }

    pub fn configure(&self, tx: &mut WriteTx, act: &mut Act, scope: Scope, own: &OwnConfig) -> Result<(), BackupError> {
        let any = tenantd_base::versions::ExpectedVersion::Unspecified;
        self.service.replace_config(tx, act, &any, scope, own).map(drop)
    }

    /// Takes up a device as the directory has it, before the log is read for it.
    pub fn follow_device(&self, tx: &mut WriteTx, act: &mut Act, device: DeviceId) -> Result<(), BackupError> {
        self.service.follow_device(tx, act, device)
    }

    /// Judges the devices of an organization after a change of its settings, in the caller's transaction.
    pub fn judge(&self, tx: &mut WriteTx, intent: &Intent, organization: OrganizationId) -> Result<(), BackupError> {
        upkeep::judge(&self.service, tx, intent, (intent.tenant_id, Some(organization)))
    }

    /// Does what time alone has done until now, each at its own time, the earliest first.
    pub fn tend(&self, tx: &mut WriteTx, act: &mut Act) -> Result<(), BackupError> {
        upkeep::tend(&self.service, tx, act)
    }
}
