//! `tenantd drill`: a snapshot is worth what its restore is worth. Restores one into a directory of its own, which checks every record,
//! compares it with the snapshot, opens it as a server would, asks it something, and removes it. Nothing that reaches out is started.

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
    offsite::{Chosen, FromOffsite, Reached},
    output,
};
use crate::app::{App, Operator, checked_tables, key_source};

#[derive(Debug, Args)]
pub(super) struct Drill {
    /// The snapshot. Without it the newest in the directory of snapshots is taken.
    file: Option<PathBuf>,
    #[command(flatten)]
    offsite: FromOffsite,
    /// Where the restored installation is for the time of the drill. Without it, beside the snapshot, or in the directory of
    /// snapshots if it is from elsewhere.
    #[arg(long, value_name = "DIRECTORY")]
    work_dir: Option<PathBuf>,
    /// The installation key that the snapshot's secrets are sealed under, if it is not the one of the data directory.
    #[arg(long, value_name = "FILE")]
    installation_key: Option<PathBuf>,
}

/// What a drill that went well has found.
struct Passed {
    report: SnapshotReport,
    restored: Duration,
    index_entries: u64,
    reached: Reached,
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
            Ok(reached) => drill(&config, &snapshot.file, &key, &work).await.map(|passed| Passed { reached, ..passed }),
            Err(failure) => Err(failure),
        };
        let took = started.elapsed();
        let failed = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        if work.exists() {
            std::fs::remove_dir_all(&work).map_err(|error| failed(&work, error))?;
        }
        let told = tell_server(common, &snapshot, at, &outcome, took).await;
        if snapshot.chosen.is_some() && snapshot.file.exists() {
            std::fs::remove_file(&snapshot.file).map_err(|error| failed(&snapshot.file, error))?;
        }
        let passed = outcome?;
        let noted = told?;
        let report = json!({
            "file": snapshot.shown,
            "tables": passed.report.tables.len(),
            "records": passed.report.records(),
            "index_entries": passed.index_entries,
            "restored_to": passed.reached.time,
            "warnings": passed.reached.warnings,
            "restore_seconds": passed.restored.as_secs_f64(),
            "drill_seconds": took.as_secs_f64(),
            "recorded": noted,
        });
        if common.json {
            return output::json(&report);
        }
        output::line(&format!(
            "{} was restored: {} records are what the snapshot has, every one is sound, and a server opens it.",
            snapshot.shown,
            passed.report.records()
        ))?;
        passed.reached.print()?;
        output::line(&format!("Until that server answered it took {:.1} seconds.", passed.restored.as_secs_f64()))?;
        if noted { Ok(()) } else { output::line("No server runs, so that the drill is not written down.") }
    }
}

/// What is restored.
struct Snapshot {
    file: PathBuf,
    /// Where people find it.
    shown: String,
    /// From elsewhere: the file is there for the drill only.
    chosen: Option<Chosen>,
}

impl Snapshot {
    async fn fetch(&self) -> Result<Reached, Failure> {
        match &self.chosen {
            Some(chosen) => chosen.fetch(&self.file).await,
            None => Ok(Reached::default()),
        }
    }
}

impl Drill {
    async fn snapshot(&self, config: &Config, key_file: &Path) -> Result<Snapshot, Failure> {
        let directory = upkeep::snapshot_directory(&config.snapshots, &config.data.directory);
        let Some(from) = &self.offsite.from else {
            let file = self.file.clone().map_or_else(|| newest(&directory), Ok)?;
            let shown = file.display().to_string();
            return Ok(Snapshot { file, shown, chosen: None });
        };
        let directory = self.work_dir.clone().unwrap_or(directory);
        std::fs::create_dir_all(&directory).map_err(|error| Failure::Failed(format!("{}: {error}", directory.display())))?;
        let file = directory.join(format!(".drill-{}.fetched", std::process::id()));
        let chosen = self.offsite.choose(from, config, &load_key(key_file)?).await?;
        Ok(Snapshot { file, shown: chosen.shown(), chosen: Some(chosen) })
    }
}

fn load_key(file: &Path) -> Result<InstallationKey, Failure> {
    InstallationKey::load(file)
        .map_err(|error| Failure::Failed(format!("{error}; name the snapshot's installation key with --installation-key FILE")))
}

/// The newest snapshot of a directory, by the time at which it was written.
fn newest(directory: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}; name a snapshot", directory.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().extension().is_some_and(|extension| extension == "snapshot") {
            found.push((entry.metadata().and_then(|data| data.modified()).map_err(failed)?, entry.path()));
        }
    }
    let newest = found.into_iter().max().map(|(_, path)| path);
    newest.ok_or_else(|| Failure::Failed(format!("{} has no snapshot; write one with `tenantd backup`", directory.display())))
}

#[allow(clippy::disallowed_methods, reason = "how long a restore takes is measured in monotonic time")]
async fn drill(config: &Config, file: &Path, key_file: &Path, work: &Path) -> Result<Passed, Failure> {
    let failed = |error: StoreError| Failure::Failed(error.to_string());
    let places = Places { data: config.data.directory.clone(), store_file: file.to_owned() };
    let room = upkeep::room(config, &places, work).map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
    if room.free < room.needed {
        let Room { needed, free } = room;
        return Err(Failure::Failed(format!(
            "{} has no room for it: it takes up to {needed} bytes, and {free} are free; name another --work-dir",
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
    Ok(Passed { report, restored: restoring + started.elapsed(), index_entries, reached: Reached::default() })
}

/// Compares the restored store with the snapshot. What both hold.
async fn compare(data: &DataDirectory, file: &Path) -> Result<SnapshotReport, Failure> {
    let failed = |error: StoreError| Failure::Failed(error.to_string());
    let expected = offline::open_snapshot(file)?.tally().await.map_err(failed)?;
    let (store, _) = data.open_store(offline::SETTINGS, None).map_err(failed)?;
    match expected.difference(&store.tally().await.map_err(failed)?) {
        None => Ok(expected),
        Some(difference) => Err(Failure::Failed(format!("what was restored is not what the snapshot has: {difference}"))),
    }
}

/// Opens what was restored as a server on loopback, brought forward if need be, and asks it something.
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
    let asked = async {
        client.get("/readyz").await?;
        client.get("/api/platform/tenants?limit=1").await
    };
    let answer = asked.await;
    running.shutdown().await;
    let known = answer?.pointer("/data").and_then(Value::as_array).map_or(0, Vec::len);
    if known == 1 { Ok(()) } else { Err(Failure::Failed("the restored server knows no tenant, not even its own".to_owned())) }
}

/// Has the running server keep what came of it. Whether there is one.
async fn tell_server(
    common: &Common,
    snapshot: &Snapshot,
    at: Timestamp,
    outcome: &Result<Passed, Failure>,
    took: Duration,
) -> Result<bool, Failure> {
    let client = Client::new(common)?;
    if !client.is_running() {
        return Ok(false);
    }
    let file = &snapshot.file;
    let path = if snapshot.chosen.is_some() {
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
