//! Upgrades the store of an older release. First it writes a snapshot of the store and verifies it. If the snapshot fails, it
//! changes nothing.
//!
//! **Invariant:** the snapshot shows the store before the first step. After a crash between two steps, the next start continues with the
//! remaining steps. It takes no snapshot of a half-upgraded store.

use std::{
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use tenantd_api_keys as api_keys;
use tenantd_backup as backup;
use tenantd_base::{clock::Clock, config::Config};
use tenantd_directory as directory;
use tenantd_platform as platform;
use tenantd_store::{
    DataDirectory, Installation, Progress, Step, Store, StoreError, WriteTx, events, migration_path, regroup, regroup_by_tenant,
    remove_file, usage, write_private_file,
};
use tenantd_tickets as tickets;
use tenantd_upkeep::{self as upkeep, Places, Run};

use super::{Slices, checked_tables};

/// The steps from older formats to the format of this release.
pub const STEPS: &[Step] = &[
    Step { from: 1, advance: regroup },
    Step { from: 2, advance: platform::index_expiries },
    Step { from: 3, advance: api_keys::index_owners },
    Step { from: 4, advance: directory::share_logins },
    Step { from: 5, advance: to_format_6 },
    Step { from: 6, advance: regroup_by_tenant },
    Step { from: 7, advance: backup::derive_states },
    Step { from: 8, advance: tickets::index_children },
];

/// Numbers the events of each tenant separately, and counts the usage of tenants.
fn to_format_6(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    events::number_tenants(tx, &platform::tenant_ids(tx)?)?;
    usage::recount(tx, &checked_tables())?;
    Ok(Progress::Done)
}

/// The marker file exists while an upgrade is in progress.
const MARKER_FILE: &str = "upgrading";

/// The upgrade in progress, and the snapshot from before its first step.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    from: u32,
    to: u32,
    /// The position of the newest event at the time of the snapshot. Steps append no events, so a different position means that a
    /// server has run since.
    newest_event: u64,
    snapshot: PathBuf,
}

impl Marker {
    /// Whether the store is in the middle of this upgrade and the snapshot can be restored. If not, the marker is stale.
    fn is_valid(&self, found: u32, to: u32, newest_event: u64) -> bool {
        let is_same = self.to == to && (self.from..to).contains(&found) && self.newest_event == newest_event;
        is_same && Installation::of_snapshot(&self.snapshot).is_ok_and(|snapshot| snapshot.format == self.from)
    }
}

/// Runs the missing steps. Returns the snapshot run if a snapshot was needed.
pub(super) async fn run_steps(
    store: &Store,
    data: &DataDirectory,
    config: &Config,
    clock: &Clock,
    steps: &'static [Step],
) -> Result<Option<Run>, String> {
    let failed = |error: StoreError| error.to_string();
    let (found, newest_event) =
        store.read(|tx| Ok::<_, StoreError>((Installation::read(tx)?.format, events::head(tx)?))).map_err(failed)?;
    let marker = data.path().join(MARKER_FILE);
    let mut run = None;
    if let Some(to) = migration_path(found, steps).map_err(failed)?.last().copied() {
        tracing::info!(from = found, to, "upgrading the store");
        if config.snapshots.before_upgrade && !is_in_progress(&marker, found, to, newest_event) {
            let taken = snapshot(store, data, config, clock, (found, to)).await?;
            let content = Marker { from: found, to, newest_event, snapshot: PathBuf::from(&taken.path) };
            let content = serde_json::to_vec(&content).map_err(|error| error.to_string())?;
            write_private_file(&marker, &content).map_err(failed)?;
            run = Some(taken);
        }
    }
    store.migrate(steps).await.map_err(failed)?;
    remove_file(&marker).map_err(failed)?;
    Ok(run)
}

/// Finds owners for API keys, workflows and webhooks of older releases. Runs after the slices know the rights of users.
pub(super) async fn adopt(slices: &Slices) -> Result<(), String> {
    let keys = slices.keys.adopt(&slices.platform.tenants, &slices.holders).await.map_err(|error| error.to_string())?;
    let workflows = slices.workflows.adopt().await.map_err(|error| error.to_string())?;
    let webhooks = slices.webhooks.adopt().await.map_err(|error| error.to_string())?;
    if keys + workflows + webhooks > 0 {
        tracing::warn!(
            keys,
            workflows,
            webhooks,
            "records of an older release have no owner with the rights that they need. They stop after upgrade.legacy_days. Take \
             ownership of the keys and the workflows, and save the routes of the webhooks again"
        );
    }
    Ok(())
}

/// Whether an interrupted upgrade already has its snapshot. A marker that cannot be read does not count.
fn is_in_progress(marker: &Path, found: u32, to: u32, newest_event: u64) -> bool {
    let marker = std::fs::read(marker).ok().and_then(|content| serde_json::from_slice::<Marker>(&content).ok());
    marker.is_some_and(|marker| marker.is_valid(found, to, newest_event))
}

async fn snapshot(
    store: &Store,
    data: &DataDirectory,
    config: &Config,
    clock: &Clock,
    (from, to): (u32, u32),
) -> Result<Run, String> {
    let directory = upkeep::snapshot_directory(&config.snapshots, data.path());
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.map_err(|error| format!("{}: {error}", directory.display()))?;
    let now = clock.now();
    let path = directory.join(format!("pre-upgrade-{from}-{}.snapshot", now.to_string().replace(':', "")));
    let places = Places { data: data.path().to_owned(), store_file: data.store_file() };
    let taken = upkeep::take_before_upgrade(config, &places, store, path, now).await;
    match taken.run.failure {
        None => Ok(taken.run),
        Some(failure) => Err(format!(
            "cannot write the snapshot before the upgrade from format {from} to {to}: {failure}. Nothing was changed. Free disk space, set \
             another snapshots.directory, or upgrade without a snapshot: `tenantd serve --without-snapshot`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::config;
    use tenantd_store::{FORMAT, Progress, RedbEngine, StoreError, StoreSettings, WriteTx, WriterSettings};

    use super::*;

    const SETTINGS: StoreSettings = StoreSettings {
        cache_bytes: 1 << 20,
        journal_bytes: 1 << 20,
        writer: WriterSettings { batch_size: 8, queue_length: 8 },
        clock: Clock::System,
    };

    #[allow(clippy::unnecessary_wraps, reason = "the signature of a step")]
    fn done(_: &mut WriteTx) -> Result<Progress, StoreError> {
        Ok(Progress::Done)
    }

    fn broken(_: &mut WriteTx) -> Result<Progress, StoreError> {
        Err(StoreError::Engine("the power is gone".to_owned()))
    }

    static TWO: [Step; 2] = [Step { from: FORMAT, advance: done }, Step { from: FORMAT + 1, advance: done }];
    static INTERRUPTED: [Step; 2] = [Step { from: FORMAT, advance: done }, Step { from: FORMAT + 1, advance: broken }];

    struct Fixture {
        directory: tempfile::TempDir,
        data: DataDirectory,
        store: Store,
        config: Config,
    }

    fn fixture(flags: &[(&str, String)]) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::lock(&directory.path().join("data")).unwrap();
        data.initialize([7; 16], || Ok([1; 8])).unwrap();
        let store = data.open_store(SETTINGS, None).unwrap().0;
        Fixture { config: config::load(None, [], flags).unwrap(), directory, data, store }
    }

    impl Fixture {
        async fn upgrade(&self, steps: &'static [Step]) -> Result<Option<Run>, String> {
            run_steps(&self.store, &self.data, &self.config, &Clock::System, steps).await
        }

        fn format(&self) -> u32 {
            self.store.read(Installation::read).unwrap().format
        }

        fn snapshots(&self) -> Vec<std::path::PathBuf> {
            let found = std::fs::read_dir(self.data.path().join("snapshots")).into_iter().flatten();
            found.map(|entry| entry.unwrap().path()).collect()
        }
    }

    #[tokio::test]
    async fn a_snapshot_is_written_before_the_first_step() {
        let fixture = fixture(&[]);
        assert_eq!(fixture.upgrade(&[]).await.unwrap(), None);
        assert!(fixture.snapshots().is_empty());
        let run = fixture.upgrade(&TWO).await.unwrap().unwrap();
        assert!(run.is_snapshot() && run.path.contains(&format!("pre-upgrade-{FORMAT}-")), "{run:?}");
        assert_eq!(fixture.format(), FORMAT + 2);
        let [path] = fixture.snapshots().try_into().unwrap();
        let copy = Store::new(RedbEngine::open(&path, 1 << 20, None).unwrap(), SETTINGS.writer).unwrap();
        assert_eq!(copy.read(Installation::read).unwrap().format, FORMAT);
        assert_eq!(fixture.upgrade(&TWO).await.unwrap(), None);
        assert!(!fixture.data.path().join(MARKER_FILE).exists());
    }

    #[tokio::test]
    async fn an_interrupted_upgrade_continues_without_another_snapshot() {
        let fixture = fixture(&[]);
        assert!(fixture.upgrade(&INTERRUPTED).await.unwrap_err().contains("the power is gone"));
        assert_eq!((fixture.format(), fixture.snapshots().len()), (FORMAT + 1, 1));
        assert_eq!(fixture.upgrade(&TWO).await.unwrap(), None);
        assert_eq!((fixture.format(), fixture.snapshots().len()), (FORMAT + 2, 1));
    }

    fn plant(fixture: &Fixture, from: u32, to: u32, newest_event: u64, snapshot: &Path) {
        let marker = Marker { from, to, newest_event, snapshot: snapshot.to_owned() };
        std::fs::write(fixture.data.path().join(MARKER_FILE), serde_json::to_vec(&marker).unwrap()).unwrap();
    }

    #[tokio::test]
    async fn a_stale_marker_does_not_suppress_the_snapshot() {
        let older = fixture(&[]);
        let taken = older.upgrade(&TWO).await.unwrap().unwrap();
        let good = Path::new(&taken.path);
        let damaged = older.directory.path().join("damaged");
        let mut bytes = std::fs::read(good).unwrap();
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&damaged, bytes).unwrap();
        let target = FORMAT + 2;
        for (from, to, newest_event, snapshot) in [
            // Of another upgrade.
            (FORMAT, FORMAT + 1, 0, good),
            (FORMAT - 1, target, 0, good),
            (FORMAT + 1, target, 0, good),
            // A server has run since.
            (FORMAT, target, 7, good),
            (FORMAT, target, 0, &older.directory.path().join("missing")),
            (FORMAT, target, 0, &damaged),
            // Not a snapshot of this format.
            (FORMAT, target, 0, &older.data.path().join("tenantd.lock")),
        ] {
            let fixture = fixture(&[]);
            plant(&fixture, from, to, newest_event, snapshot);
            let run = fixture.upgrade(&TWO).await.unwrap();
            assert!(run.is_some_and(|run| run.is_snapshot()), "{from} {to} {newest_event} {}", snapshot.display());
            assert_eq!((fixture.format(), fixture.snapshots().len()), (target, 1));
        }
        // The marker of an older release, which only names a snapshot.
        let plain = fixture(&[]);
        std::fs::write(plain.data.path().join(MARKER_FILE), taken.path.as_bytes()).unwrap();
        assert!(plain.upgrade(&TWO).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_marker_is_removed_when_there_is_nothing_to_do() {
        let fixture = fixture(&[]);
        plant(&fixture, FORMAT, FORMAT + 2, 0, Path::new("/"));
        assert_eq!(fixture.upgrade(&[]).await.unwrap(), None);
        assert!(!fixture.data.path().join(MARKER_FILE).exists());
    }

    #[tokio::test]
    async fn without_the_snapshot_nothing_is_changed_unless_it_is_disabled() {
        let blocked = tempfile::NamedTempFile::new().unwrap();
        let place = || ("snapshots.directory", blocked.path().display().to_string());
        let refused = fixture(&[place()]);
        assert!(refused.upgrade(&TWO).await.is_err());
        // With these thresholds, the disk never has room.
        let all = [("disk.full_percent", "100".to_owned()), ("disk.full_bytes", i64::MAX.to_string())];
        let full = fixture(&all);
        let error = full.upgrade(&TWO).await.unwrap_err();
        assert!(error.contains("not enough space") && error.contains("--without-snapshot"), "{error}");
        assert_eq!((refused.format(), full.format()), (FORMAT, FORMAT));
        let without = fixture(&[place(), ("snapshots.before_upgrade", "false".to_owned())]);
        assert_eq!(without.upgrade(&TWO).await.unwrap(), None);
        assert_eq!(without.format(), FORMAT + 2);
        assert!(without.directory.path().exists());
    }
}
