//! `tenantd drill`: tests that a snapshot can be restored. It restores the snapshot into a temporary directory, verifies every
//! record, compares the result with the snapshot, opens it with a server, sends a request, and removes it. **Invariant:** the
//! server starts no background tasks and makes no outgoing connections.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::{Value, json};

use tenantd_base::{
    clock::{Clock, Timestamp},
    config::Config,
    secrets::InstallationKey,
};
use tenantd_store::{DataDirectory, SnapshotReport, StoreError};
use tenantd_upkeep::{self as upkeep, Places, Room};

use super::{
    Common, Failure,
    client::Client,
    offline,
    offsite::{FromOffsite, RestorePoint, SelectedBackup},
    output,
};
use crate::app::{App, Operator, checked_tables, key_source};

#[derive(Debug, Args)]
pub(super) struct Drill {
    /// The path of the snapshot. Default: the newest in the snapshot directory.
    file: Option<PathBuf>,
    #[command(flatten)]
    offsite: FromOffsite,
    /// The directory for the restored installation during the drill. Default: the directory of the snapshot, or the snapshot
    /// directory for an off-site backup.
    #[arg(long, value_name = "DIRECTORY")]
    work_dir: Option<PathBuf>,
    /// The file of the installation key that seals the secrets of the snapshot. Default: the configured key.
    #[arg(long, value_name = "FILE")]
    installation_key: Option<PathBuf>,
}

/// The results of a successful drill.
struct DrillResults {
    report: SnapshotReport,
    restored: Duration,
    index_entries: u64,
    reached: RestorePoint,
}

impl Drill {
    #[allow(clippy::disallowed_methods, reason = "how long a restore takes is measured in monotonic time")]
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let config = common.settings(&[])?;
        let key = self.installation_key.clone().unwrap_or_else(|| key_source(&config, &config.data.directory).path);
        let snapshot = self.snapshot(&config, &key).await?;
        let beside = snapshot.file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let work = self.work_dir.as_deref().unwrap_or(beside).join(format!(".drill-{}", std::process::id()));
        let (at, started) = (Clock::System.now(), Instant::now());
        let outcome = match snapshot.fetch().await {
            Ok(reached) => drill(&config, &snapshot.file, &key, &work).await.map(|passed| DrillResults { reached, ..passed }),
            Err(failure) => Err(failure),
        };
        let took = started.elapsed();
        let failed = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        if work.exists() {
            std::fs::remove_dir_all(&work).map_err(|error| failed(&work, error))?;
        }
        let recorded = record_result(common, &snapshot, at, &outcome, took).await;
        if snapshot.offsite.is_some() && snapshot.file.exists() {
            std::fs::remove_file(&snapshot.file).map_err(|error| failed(&snapshot.file, error))?;
        }
        let passed = outcome?;
        let recorded = recorded?;
        let report = json!({
            "file": snapshot.shown,
            "tables": passed.report.tables.len(),
            "records": passed.report.records(),
            "index_entries": passed.index_entries,
            "restored_to": passed.reached.time,
            "warnings": passed.reached.warnings,
            "restore_seconds": passed.restored.as_secs_f64(),
            "drill_seconds": took.as_secs_f64(),
            "recorded": recorded,
        });
        if common.json {
            return output::json(&report);
        }
        output::line(&format!(
            "Restored {}: its {} records are valid and match the snapshot, and a server opens it.",
            snapshot.shown,
            passed.report.records()
        ))?;
        passed.reached.print()?;
        output::line(&format!("The restore took {:.1} seconds, until the server answered.", passed.restored.as_secs_f64()))?;
        if recorded { Ok(()) } else { output::line("No server is running, so the drill was not recorded.") }
    }
}

/// The snapshot to restore.
struct Snapshot {
    file: PathBuf,
    /// The location for messages.
    shown: String,
    /// For an off-site backup. The file exists only during the drill.
    offsite: Option<SelectedBackup>,
}

impl Snapshot {
    async fn fetch(&self) -> Result<RestorePoint, Failure> {
        match &self.offsite {
            Some(backup) => backup.fetch(&self.file).await,
            None => Ok(RestorePoint::default()),
        }
    }
}

impl Drill {
    async fn snapshot(&self, config: &Config, key_file: &Path) -> Result<Snapshot, Failure> {
        let directory = upkeep::snapshot_directory(&config.snapshots, &config.data.directory);
        let Some(from) = &self.offsite.from else {
            let file = self.file.clone().map_or_else(|| newest(&directory), Ok)?;
            let shown = file.display().to_string();
            return Ok(Snapshot { file, shown, offsite: None });
        };
        let directory = self.work_dir.clone().unwrap_or(directory);
        std::fs::create_dir_all(&directory).map_err(|error| Failure::Failed(format!("{}: {error}", directory.display())))?;
        let file = directory.join(format!(".drill-{}.fetched", std::process::id()));
        let backup = self.offsite.select(from, config, &load_key(key_file)?).await?;
        Ok(Snapshot { file, shown: backup.location(), offsite: Some(backup) })
    }
}

fn load_key(file: &Path) -> Result<InstallationKey, Failure> {
    InstallationKey::load(file).map_err(|error| {
        Failure::Failed(format!("{error}; specify the installation key of the snapshot with --installation-key FILE"))
    })
}

/// The newest snapshot of a directory, by modification time.
fn newest(directory: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}; specify a snapshot", directory.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().extension().is_some_and(|extension| extension == "snapshot") {
            found.push((entry.metadata().and_then(|data| data.modified()).map_err(failed)?, entry.path()));
        }
    }
    let newest = found.into_iter().max().map(|(_, path)| path);
    newest.ok_or_else(|| Failure::Failed(format!("{} contains no snapshot; create one with `tenantd backup`", directory.display())))
}

#[allow(clippy::disallowed_methods, reason = "how long a restore takes is measured in monotonic time")]
async fn drill(config: &Config, file: &Path, key_file: &Path, work: &Path) -> Result<DrillResults, Failure> {
    let failed = |error: StoreError| Failure::Failed(error.to_string());
    let places = Places { data: config.data.directory.clone(), store_file: file.to_owned() };
    let room = upkeep::room(config, &places, work).map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
    if room.free < room.needed {
        let Room { needed, free } = room;
        return Err(Failure::Failed(format!(
            "not enough space in {}: the restore needs up to {needed} bytes, but only {free} are free; specify another --work-dir",
            work.display()
        )));
    }
    let key = load_key(key_file)?;
    let started = Instant::now();
    let data = DataDirectory::lock(work).map_err(failed)?;
    let restored = data.restore(file, &checked_tables(), |fingerprint| {
        if fingerprint == key.fingerprint() {
            return Ok(());
        }
        Err(StoreError::Installation(format!("{} is not the key of this snapshot", key_file.display())))
    });
    let index_entries = restored.map_err(failed)?.index_entries;
    let restoring = started.elapsed();
    let report = compare(&data, file).await?;
    let started = Instant::now();
    serve(config, data, key_file, work).await?;
    Ok(DrillResults { report, restored: restoring + started.elapsed(), index_entries, reached: RestorePoint::default() })
}

/// Compares the restored store with the snapshot. Returns the contents of both.
async fn compare(data: &DataDirectory, file: &Path) -> Result<SnapshotReport, Failure> {
    let failed = |error: StoreError| Failure::Failed(error.to_string());
    let expected = offline::open_snapshot(file)?.tally().await.map_err(failed)?;
    let (store, _) = data.open_store(offline::SETTINGS, None).map_err(failed)?;
    match expected.difference(&store.tally().await.map_err(failed)?) {
        None => Ok(expected),
        Some(difference) => Err(Failure::Failed(format!("the restored store does not match the snapshot: {difference}"))),
    }
}

/// Starts a server on loopback with the restored store, upgrades the store if necessary, and sends requests.
async fn serve(config: &Config, data: DataDirectory, key_file: &Path, work: &Path) -> Result<(), Failure> {
    let mut config = config.clone();
    work.clone_into(&mut config.data.directory);
    config.secrets.installation_key_file = Some(key_file.to_owned());
    config.listen.address = ([127, 0, 0, 1], 0).into();
    config.listen.redirect_address = None;
    config.listen.tls = false;
    config.snapshots.before_upgrade = false;
    config.offsite.url = None;
    let app = App::open(config, data, Clock::System, Operator::default(), None).await?;
    let running = app.listen_quietly()?;
    let client = Client::at(work);
    let requests = async {
        client.get("/readyz").await?;
        client.get("/api/platform/tenants?limit=1").await
    };
    let answer = requests.await;
    running.shutdown().await;
    let tenants = answer?.pointer("/data").and_then(Value::as_array).map_or(0, Vec::len);
    if tenants == 1 {
        Ok(())
    } else {
        Err(Failure::Failed("the restored installation has no tenant, not even the platform tenant".to_owned()))
    }
}

/// Records the result on the running server. Returns false if no server runs.
async fn record_result(
    common: &Common,
    snapshot: &Snapshot,
    at: Timestamp,
    outcome: &Result<DrillResults, Failure>,
    took: Duration,
) -> Result<bool, Failure> {
    let client = Client::new(common)?;
    if !client.is_running() {
        return Ok(false);
    }
    let file = &snapshot.file;
    let path = if snapshot.offsite.is_some() {
        snapshot.shown.clone()
    } else {
        std::path::absolute(file).map_err(|error| Failure::Failed(error.to_string()))?.display().to_string()
    };
    let passed = outcome.as_ref().ok();
    let mut drill = json!({
        "path": path,
        "at": at,
        "duration_milliseconds": passed.map_or(took, |passed| passed.restored).as_millis(),
        "file_bytes": std::fs::metadata(file).map_or(0, |data| data.len()),
        "tables": passed.map_or(0, |passed| passed.report.tables.len()),
        "records": passed.map_or(0, |passed| passed.report.records()),
    });
    if let (Err(failure), Some(drill)) = (outcome, drill.as_object_mut()) {
        drill.insert("failure".to_owned(), failure.text().chars().take(4000).collect::<String>().into());
    }
    client.post("/internal/admin/drills", Some(&drill)).await.map(|_| true)
}
