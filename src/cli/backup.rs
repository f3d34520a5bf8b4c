//! `tenantd backup` and `tenantd restore`: a snapshot of the live store, and an installation from one.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use tenantd_base::{
    clock::Clock,
    secrets::{InstallationKey, show_fingerprint},
};
use tenantd_store::{DataDirectory, KeyFingerprint, StoreError, write_private_file};

use super::{
    Common, Failure,
    client::Client,
    offsite::{self, FromOffsite, Reached},
    output,
};
use crate::app::{checked_tables, key_source};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Backup {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    /// Where to write the snapshot; nothing may be there yet. The server writes it, as the user it runs as.
    #[arg(required_unless_present_any = ["directory", "offsite"], conflicts_with_all = ["directory", "keep", "offsite"])]
    file: Option<PathBuf>,
    /// A directory of snapshots, in place of a file: the new one is named by its time.
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// How many snapshots to keep in the directory; the oldest beyond that are removed once the new one is good.
    #[arg(long, value_name = "NUMBER", requires = "directory", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
    /// Send the snapshot, encrypted, to the place that `offsite.url` names, in place of a file.
    #[arg(long, conflicts_with = "directory")]
    offsite: bool,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Show the backups at the place that `offsite.url` names.
    List,
}

/// How long the server may take for a snapshot.
const LONGEST_SECONDS: u32 = 86_400;
const PREFIX: &str = "tenantd-";
const SUFFIX: &str = ".snapshot";

impl Backup {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if let Some(BackupCommand::List) = self.command {
            return offsite::list(common).await;
        }
        if self.offsite {
            return send(common).await;
        }
        let failed = |error: std::io::Error| Failure::Failed(error.to_string());
        let file = match (&self.file, &self.directory) {
            (Some(file), _) => file.clone(),
            (None, Some(directory)) => {
                directory.join(format!("{PREFIX}{}{SUFFIX}", Clock::System.now().to_string().replace(':', "")))
            }
            (None, None) => return Err(Failure::Failed("name a file, or a --directory".to_owned())),
        };
        let path = std::path::absolute(file).map_err(failed)?;
        let client = Client::new(common)?;
        let report = client
            .post(
                &format!("/internal/admin/backup?wait_seconds={LONGEST_SECONDS}"),
                Some(&json!({"path": path.display().to_string()})),
            )
            .await?;
        if let (Some(directory), Some(keep)) = (&self.directory, self.keep) {
            rotate(directory, keep.into()).map_err(failed)?;
        }
        if common.json {
            return output::json(&report);
        }
        let count = |name: &str| output::text(&report, name);
        output::line(&format!(
            "{} records, {} written to {} in {}, read back from there and compared.",
            count("/records"),
            output::bytes(&report, "/file_bytes"),
            path.display(),
            output::seconds(&report, "/duration_seconds"),
        ))?;
        output::line("The installation key is not in it: keep a copy of the key apart from the snapshot.")
    }
}

/// Has the server send a backup to the configured place.
async fn send(common: &Common) -> Result<(), Failure> {
    let path = format!("/internal/admin/offsite-backups?wait_seconds={LONGEST_SECONDS}");
    let report = Client::new(common)?.post(&path, None).await?;
    if common.json {
        return output::json(&report);
    }
    let text = |name: &str| output::text(&report, name);
    output::line(&format!(
        "{} records, {} sent to {} in {}, read back from there and compared. {} older backups were removed.",
        text("/records"),
        output::bytes(&report, "/stored_bytes"),
        text("/place"),
        output::seconds(&report, "/duration_seconds"),
        text("/removed"),
    ))?;
    output::line("The installation key is not in it: keep a copy of the key apart from the backups.")
}

/// Removes the oldest snapshots of a directory, and what was never finished. Their names tell their age; what is named otherwise is not ours.
fn rotate(directory: &Path, keep: usize) -> std::io::Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            names.push(name);
        } else if name.starts_with(&format!(".{PREFIX}")) && name.ends_with(&format!("{SUFFIX}.partial")) {
            // One is written at a time, so this was left behind by a server that was cut off in the middle of it.
            std::fs::remove_file(directory.join(name))?;
        }
    }
    names.sort_unstable();
    let surplus = names.len().saturating_sub(keep);
    names.iter().take(surplus).try_for_each(|name| std::fs::remove_file(directory.join(name)))
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The snapshot.
    #[arg(required_unless_present = "from")]
    file: Option<PathBuf>,
    #[command(flatten)]
    offsite: FromOffsite,
    /// The installation key that the snapshot's secrets are sealed under. Needed unless it is configured or in place already.
    #[arg(long, value_name = "FILE")]
    installation_key: Option<PathBuf>,
}

/// The only copy of another key may be in the place of the restored one.
fn ensure_no_other_key(path: &Path, wanted: KeyFingerprint) -> Result<(), StoreError> {
    if !path.exists() || InstallationKey::load(path).is_ok_and(|found| found.fingerprint() == wanted) {
        return Ok(());
    }
    Err(StoreError::Installation(format!("{} is another installation key: move it away first, and keep it", path.display())))
}

/// A backup from elsewhere, in the data directory, before it is restored.
const FETCHED: &str = "offsite.fetched";

impl Restore {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let config = common.settings(&[])?;
        let data = DataDirectory::lock(&config.data.directory).map_err(|error| error.to_string())?;
        let source = key_source(&config, data.path());
        let key_path = self.installation_key.as_ref().unwrap_or(&source.path);
        let key = InstallationKey::load(key_path).map_err(|error| {
            Failure::Failed(format!("{error}; name the snapshot's installation key with --installation-key FILE"))
        })?;
        let take = |file: &Path| {
            data.restore(file, &checked_tables(), |fingerprint| {
                if fingerprint != key.fingerprint() {
                    return Err(StoreError::Installation(format!(
                        "{} is not the key that this snapshot was made with: it has the fingerprint {}, and the snapshot wants {}",
                        key_path.display(),
                        show_fingerprint(key.fingerprint()),
                        show_fingerprint(fingerprint)
                    )));
                }
                if source.may_create && *key_path != source.path {
                    ensure_no_other_key(&source.path, fingerprint)?;
                    write_private_file(&source.path, key.to_file().as_bytes())?;
                }
                Ok(())
            })
        };
        let mut taken_from = None;
        let mut reached = Reached::default();
        let restored = match (&self.file, &self.offsite.from) {
            (Some(file), _) => take(file),
            (None, Some(from)) => {
                if data.is_initialized().map_err(|error| error.to_string())? {
                    return Err(Failure::Failed(format!("{} already holds an installation", data.path().display())));
                }
                let fetched = data.path().join(FETCHED);
                let chosen = self.offsite.choose(from, &config, &key).await?;
                taken_from = Some(chosen.shown());
                let restored = chosen.fetch(&fetched).await.map(|found| {
                    reached = found;
                    take(&fetched)
                });
                if fetched.exists() {
                    std::fs::remove_file(&fetched).map_err(|error| Failure::Failed(format!("{}: {error}", fetched.display())))?;
                }
                restored?
            }
            (None, None) => return Err(Failure::Usage("name a snapshot, or `--from offsite`".to_owned())),
        };
        let report = restored.map_err(|error| error.to_string())?;
        let directory = data.path().display().to_string();
        if common.json {
            return output::json(&json!({
                "data_directory": directory,
                "records": report.records,
                "index_entries": report.index_entries,
                "taken_from": taken_from,
                "restored_to": reached.time,
                "warnings": reached.warnings,
            }));
        }
        if let Some(place) = taken_from {
            output::line(&format!("Taken from {place}."))?;
        }
        reached.print()?;
        output::line(&format!(
            "{} records and {} index entries read: the snapshot is sound.",
            report.records, report.index_entries
        ))?;
        output::line(&format!("The installation is restored in {directory}; start it with `tenantd serve`."))
    }
}
