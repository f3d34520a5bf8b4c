//! The installation looks after itself: snapshots that are proven before they count, trials of restoring them, and a disk that is watched
//! before it is full. The status page shows how it is doing.
//!
//! **Invariant:** nothing here reads a tenant's content, and all that is kept is bounded. **Boundary:** what runs out of room, and who may go
//! on, is told to the store and the edge; they keep to it.

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

pub use error::UpkeepError;
use model::Repair;
pub use model::{Run, RunKind};
pub use offsite::{Entry, Forward, Manifest, Offsite, OffsiteError, OffsitePlace, Route, Shortfall};
pub use snapshots::{Room, Snapshots, Taken};

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

/// Where the installation keeps what this is about.
#[derive(Clone, Debug)]
pub struct Places {
    pub data: PathBuf,
    pub store_file: PathBuf,
}

/// Where snapshots are, unless somebody names another place.
pub fn snapshot_directory(settings: &config::Snapshots, data: &Path) -> PathBuf {
    settings.directory.clone().unwrap_or_else(|| data.join("snapshots"))
}

/// How much room there is for a snapshot at `path`.
pub fn room(config: &Config, places: &Places, path: &Path) -> std::io::Result<Room> {
    snapshots::room(&places.store_file, &disk::Disk::new(config.disk), path)
}

/// Tells the operator what was given up of a damaged store, in the commit that gives it up.
pub fn tell_repair(tx: &mut WriteTx, now: Timestamp, loss: &Loss) -> Result<(), StoreError> {
    // A store that was damaged before its first start was through has nobody to tell.
    let Some(platform) = platform_tenant(tx)? else { return Ok(()) };
    let repair = Repair {
        problem: loss.problem.clone(),
        lost_commits: loss.commits,
        lost_events: loss.places.map_or(0, |(first, last)| last + 1 - first),
        evidence: loss.evidence.display().to_string(),
    };
    let mut act = Intent::new(platform.id, now, Actor::system("Repair")).begin();
    service::tell_repair(tx, &mut act, &repair).map_err(|error| match error {
        UpkeepError::Store(error) => error,
        other => StoreError::Engine(other.to_string()),
    })
}

/// Writes a snapshot of a store that nobody serves yet.
pub async fn take_before_upgrade(config: &Config, places: &Places, store: &Store, path: PathBuf, now: Timestamp) -> Taken {
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
    /// `key` is what manifests of backups are signed with.
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

    /// Takes up other marks of the disk.
    pub fn reload(&self, config: &Config) {
        self.disk.reload(config.disk);
    }

    pub fn admin_api(&self) -> impl OpenApi + use<> {
        api::UpkeepApi { snapshots: self.snapshots.clone(), offsite: self.offsite.clone() }
    }

    /// The pages that say how the server and the installation are doing.
    pub fn pages(&self, health: &Arc<HealthMonitor>) -> [Box<dyn Page>; 2] {
        let (store, disk) = (self.store.clone(), self.disk.clone());
        [Box::new(api::Readiness { health: health.clone() }), Box::new(api::StatusPage { store, disk, health: health.clone() })]
    }

    /// The schemas of what events hold, which no public operation has.
    pub fn record_schemas() -> Map<String, Value> {
        api::record_schemas()
    }

    fn disk_watch(&self) -> disk::DiskWatch {
        let (disk, store) = (self.disk.clone(), self.store.clone());
        disk::DiskWatch { disk, store, clock: self.clock.clone(), tenants: self.snapshots.tenants.clone() }
    }

    /// Looks at the disk before the first request is answered: on a full one nothing may be taken that there is no room for.
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
