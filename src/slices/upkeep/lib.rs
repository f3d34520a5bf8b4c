//! Maintenance of the installation: verified snapshots, drills that restore them, and disk monitoring. The status page shows
//! the results.
//!
//! **Invariant:** nothing here reads the content of a tenant, and everything that is kept is bounded. **Boundary:** this
//! slice decides when space runs out and which requests may continue. The store and the HTTP layer enforce it.

mod api;
mod disk;
mod error;
mod model;
mod offsite;
mod repo;
mod service;
mod snapshots;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use poem_openapi::OpenApi;
use serde_json::{Map, Value};

use tenantd_analytics::HealthMonitor;
use tenantd_base::{
    clock::{Clock, Timestamp},
    config::{self, Config},
    secrets::InstallationKey,
};
use tenantd_http::pages::Page;
use tenantd_platform::{Tenants, platform_tenant};
use tenantd_store::{
    Checked, Loss, OutgoingDirectory, Rotation, Store, StoreError, WriteTx,
    events::{Actor, EventKind, Intent},
    tasks::Tasks,
};

pub use api::StatusSource;
pub use error::UpkeepError;
use model::Repair;
pub use model::{Run, RunKind};
pub use offsite::{Entry, Forward, Manifest, Offsite, OffsiteError, OffsitePlace, Route, Shortfall};
pub use snapshots::{Room, SnapshotOutcome, Snapshots};

pub const EVENTS: &[&EventKind] = &[
    &service::SNAPSHOT_VERIFIED,
    &service::SNAPSHOT_FAILED,
    &service::DRILL_PASSED,
    &service::DRILL_FAILED,
    &service::DISK_LOW,
    &service::DISK_FULL,
    &service::DISK_RECOVERED,
    &service::STORE_REPAIRED,
];

/// The paths of the installation.
#[derive(Clone, Debug)]
pub struct Places {
    pub data: PathBuf,
    pub store_file: PathBuf,
}

/// The directory for snapshots, unless the caller names another path.
pub fn snapshot_directory(settings: &config::Snapshots, data: &Path) -> PathBuf {
    settings.directory.clone().unwrap_or_else(|| data.join("snapshots"))
}

/// The required and the available space for a snapshot at `path`.
pub fn room(config: &Config, places: &Places, path: &Path) -> std::io::Result<Room> {
    snapshots::room(&places.store_file, &disk::Disk::new(config.disk), path)
}

/// Reports to the operator what was lost with a damaged store, in the commit that repairs it.
pub fn report_repair(tx: &mut WriteTx, now: Timestamp, loss: &Loss) -> Result<(), StoreError> {
    // If the store was damaged before its first start finished, there is no operator to report to.
    let Some(platform) = platform_tenant(tx)? else { return Ok(()) };
    let repair = Repair {
        problem: loss.problem.clone(),
        lost_commits: loss.commits,
        lost_events: loss.places.map_or(0, |(first, last)| last + 1 - first),
        evidence: loss.evidence.display().to_string(),
    };
    let mut act = Intent::new(platform.id, now, Actor::system("Repair")).begin();
    service::report_repair(tx, &mut act, &repair).map_err(|error| match error {
        UpkeepError::Store(error) => error,
        other => StoreError::Engine(other.to_string()),
    })
}

/// Writes a snapshot of a store before the server starts.
pub async fn take_before_upgrade(
    config: &Config,
    places: &Places,
    store: &Store,
    path: PathBuf,
    now: Timestamp,
) -> SnapshotOutcome {
    let disk = disk::Disk::new(config.disk);
    snapshots::take(store, (&places.store_file, &disk), path, RunKind::BeforeUpgrade, now).await
}

#[derive(Clone, Debug)]
pub struct Upkeep {
    pub snapshots: Snapshots,
    store: Store,
    clock: Clock,
    disk: Arc<disk::Disk>,
    max_age: Option<Duration>,
    offsite: Option<Offsite>,
    offsite_settings: config::Offsite,
}

impl Upkeep {
    /// `key` signs the manifests of backups.
    pub fn new(
        store: Store,
        clock: Clock,
        config: &Config,
        places: Places,
        tenants: Tenants,
        rotation: Rotation,
        key: &InstallationKey,
    ) -> Result<Self, String> {
        let directory = snapshot_directory(&config.snapshots, &places.data);
        let disk = Arc::new(disk::Disk::new(config.disk));
        let snapshots = Snapshots {
            store: store.clone(),
            clock: clock.clone(),
            store_file: places.store_file,
            disk: disk.clone(),
            tenants,
            busy: Arc::default(),
            rotation,
        };
        let hours = config.snapshots.max_age_hours;
        let max_age = (hours > 0).then(|| Duration::from_hours(hours.into()));
        let offsite = Offsite::configured(config, snapshots.clone(), (&directory, OutgoingDirectory::of(&places.data)), key)?;
        let offsite_settings = config.offsite.clone();
        Ok(Self { snapshots, store, clock, disk, max_age, offsite, offsite_settings })
    }

    /// Applies new thresholds for the disk.
    pub fn reload(&self, config: &Config) {
        self.disk.reload(config.disk);
    }

    pub fn admin_api(&self) -> impl OpenApi + use<> {
        api::UpkeepApi { snapshots: self.snapshots.clone(), offsite: self.offsite.clone() }
    }

    /// `/readyz`, which says whether the server is ready.
    pub fn readiness(&self, health: &Arc<HealthMonitor>) -> Box<dyn Page> {
        Box::new(api::Readiness { health: health.clone() })
    }

    /// What the status page shows of the server and of the installation.
    pub fn status(&self, health: &Arc<HealthMonitor>) -> StatusSource {
        StatusSource { store: self.store.clone(), disk: self.disk.clone(), health: health.clone() }
    }

    /// The schemas of event data that no public operation has.
    pub fn record_schemas() -> Map<String, Value> {
        api::record_schemas()
    }

    fn disk_watch(&self) -> disk::DiskWatch {
        let (disk, store) = (self.disk.clone(), self.store.clone());
        disk::DiskWatch { disk, store, clock: self.clock.clone(), tenants: self.snapshots.tenants.clone() }
    }

    /// Checks the disk before the first request is answered, so that a full disk accepts nothing that it has no room for.
    pub fn watch_disk(&self) -> Result<(), String> {
        self.disk_watch().begin().map_err(|error| error.to_string())
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        let (store, clock) = (|| self.store.clone(), || self.clock.clone());
        tasks.spawn(self.disk_watch());
        tasks.spawn(snapshots::SnapshotWatch::new(store(), clock(), self.max_age));
        if let Some(offsite) = &self.offsite {
            tasks.spawn(offsite::OffsiteSchedule::new(offsite.clone(), &self.offsite_settings));
            if let Some(shipping) = offsite::Shipping::new(offsite, self.offsite_settings.journal_seconds) {
                tasks.spawn(shipping);
            }
        }
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::RUNS, &repo::SAMPLES, &repo::WATCH]
    }
}
