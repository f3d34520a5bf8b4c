//! Backups: their configuration, the jobs that backup systems report, and the backup status of each organization.
//!
//! **Boundary:** this slice does not back up anything. Devices belong to the directory, tickets to the tickets slice.
//! **Invariant:** a job, its effect on its device and organization, its events and its tickets commit together. A report therefore
//! never reads jobs. Only the history of one device does, for a bounded number of days.

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
use tenantd_directory::{DirectoryError, JobLine, JobReceiver, LineResult};
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

/// The purpose of the signatures on evidence.
const PURPOSE: &str = "backup-evidence";

#[derive(Clone, Debug)]
pub struct Backups {
    service: Arc<service::Service>,
    store: Store,
    clocks: Clocks,
    exports: Streams,
    signer: Arc<Signer>,
}

/// The number of devices that must be backed up, and of those that are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub eligible: u64,
    pub protected: u64,
}

/// Sums the coverage of all organizations of a tenant. Reads one record per organization.
pub fn coverage(tx: &impl Read, tenant: TenantId) -> Result<Coverage, StoreError> {
    let mut coverage = Coverage::default();
    repo::rollups::scan(tx, tenant, |rollup| {
        coverage.eligible += rollup.share.eligible;
        coverage.protected += rollup.share.protected;
    })?;
    Ok(coverage)
}

/// Upgrades a store of an older release: stores the backup state of each device and recalculates the sums of organizations.
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
            api::AggregateApi { store: store.clone(), exports: self.exports.clone(), signer: self.signer.clone() },
            api::HistoryApi { store },
        )
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        let (clocks, service) = (self.clocks.clone(), self.service.clone());
        tasks.spawn(ConsumerTask::new(self.store.clone(), follower::Follower { clocks, service }));
        tasks.spawn(upkeep::BackupTimers::new(self.store.clone(), self.clocks.clone(), self.service.clone()));
    }

    /// The workflow steps of backups.
    pub fn steps(&self) -> Vec<StepEntry> {
        vec![StepEntry::local(steps::UpdateConfig(self.clone())), StepEntry::remote(steps::ReadPosture(self.clone()))]
    }

    /// The tables that a tenant export contains. Postures come last, after the records that their timers refer to.
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

    /// The rows of tenants in segmented tables.
    pub fn tenant_rows() -> Vec<&'static dyn TenantRows> {
        vec![&repo::jobs::JOBS_OF_TENANTS]
    }

    /// Receives the jobs that agents and imports send.
    pub fn job_receiver(&self) -> Arc<dyn JobReceiver> {
        self.service.clone()
    }

    /// The public key that verifies evidence, with its purpose.
    pub fn public_key(&self) -> Result<(&'static str, PublicKey), SignatureError> {
        Ok((PURPOSE, self.signer.public_key()?))
    }

    /// The schemas of the records in events.
    pub fn record_schemas() -> Map<String, Value> {
        api::record_schemas()
    }
}

/// The use cases, for callers that combine them with their own.
impl Backups {
    pub fn take_job(&self, tx: &mut WriteTx, act: &mut Act, line: &JobLine) -> Result<LineResult, DirectoryError> {
        self.service.take(tx, act, line)
    }

    pub fn configure(&self, tx: &mut WriteTx, act: &mut Act, scope: Scope, own: &OwnConfig) -> Result<(), BackupError> {
        let any = tenantd_base::versions::ExpectedVersion::Unspecified;
        self.service.replace_config(tx, act, &any, scope, own).map(drop)
    }

    /// Reads a device from the directory without waiting for the log reader.
    pub fn follow_device(&self, tx: &mut WriteTx, act: &mut Act, device: DeviceId) -> Result<(), BackupError> {
        self.service.follow_device(tx, act, device)
    }

    /// Re-evaluates the devices of an organization after a change of its settings, in the caller's transaction.
    pub fn evaluate_organization(
        &self,
        tx: &mut WriteTx,
        intent: &Intent,
        organization: OrganizationId,
    ) -> Result<(), BackupError> {
        upkeep::evaluate_organization(&self.service, tx, intent, (intent.tenant_id, Some(organization)))
    }

    /// Runs all timers that are due by now, each at its own time, the earliest first.
    pub fn run_due_timers(&self, tx: &mut WriteTx, act: &mut Act) -> Result<(), BackupError> {
        upkeep::run_due_timers(&self.service, tx, act)
    }
}
