//! `tenantd backup` and `tenantd restore`: writes a snapshot of the running store, and creates an installation from a snapshot.

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
    offsite::{self, FromOffsite, RestorePoint},
    output,
};
use crate::app::{checked_tables, key_source};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Backup {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    /// The path of the new snapshot, which must not exist yet. The server writes it as its own user.
    #[arg(required_unless_present_any = ["directory", "offsite"], conflicts_with_all = ["directory", "keep", "offsite"])]
    file: Option<PathBuf>,
    /// Write the snapshot to this directory instead of a file. Its name contains the time.
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// The number of snapshots to keep in the directory. After the new one is verified, the oldest are removed. Default: all.
    #[arg(long, value_name = "NUMBER", requires = "directory", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
    /// Send the snapshot to the location in `offsite.url` instead of a file, encrypted unless `offsite.unencrypted` is set.
    #[arg(long, conflicts_with = "directory")]
    offsite: bool,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// List the backups at the location in `offsite.url`.
    List,
}

/// The maximum time that the command waits for the server.
const LONGEST_SECONDS: u32 = 86_400;
const PREFIX: &str = "tenantd-";
const SUFFIX: &str = ".snapshot";

impl Backup {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if let Some(BackupCommand::List) = self.command {
            return offsite::list(common).await;
        }
        if self.offsite {
            return send_offsite(common).await;
        }
        let failed = |error: std::io::Error| Failure::Failed(error.to_string());
        let file = match (&self.file, &self.directory) {
            (Some(file), _) => file.clone(),
            (None, Some(directory)) => {
                directory.join(format!("{PREFIX}{}{SUFFIX}", Clock::System.now().to_string().replace(':', "")))
            }
            (None, None) => return Err(Failure::Failed("specify a file or a --directory".to_owned())),
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
            "Wrote {} records ({}) to {} in {}, and verified the snapshot.",
            count("/records"),
            output::bytes(&report, "/file_bytes"),
            path.display(),
            output::seconds(&report, "/duration_seconds"),
        ))?;
        output::line("The snapshot does not contain the installation key. Keep a copy of the key in another place.")
    }
}

/// Asks the server to send a backup to the configured location.
async fn send_offsite(common: &Common) -> Result<(), Failure> {
    let path = format!("/internal/admin/offsite-backups?wait_seconds={LONGEST_SECONDS}");
    let report = Client::new(common)?.post(&path, None).await?;
    if common.json {
        return output::json(&report);
    }
    let text = |name: &str| output::text(&report, name);
    output::line(&format!(
        "Sent {} records ({}) to {} in {}, and verified the backup. Removed {} older backups.",
        text("/records"),
        output::bytes(&report, "/stored_bytes"),
        text("/place"),
        output::seconds(&report, "/duration_seconds"),
        text("/removed"),
    ))?;
    output::line("The backup does not contain the installation key. Keep a copy of the key in another place.")
}

/// Removes the oldest snapshots of a directory, and unfinished ones. The age comes from the name. Files with other names are kept.
fn rotate(directory: &Path, keep: usize) -> std::io::Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            names.push(name);
        } else if name.starts_with(&format!(".{PREFIX}")) && name.ends_with(&format!("{SUFFIX}.partial")) {
            // Only one snapshot is written at a time, so this file is left over from a crash.
            std::fs::remove_file(directory.join(name))?;
        }
    }
    names.sort_unstable();
    let surplus = names.len().saturating_sub(keep);
    names.iter().take(surplus).try_for_each(|name| std::fs::remove_file(directory.join(name)))
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The path of the snapshot.
    #[arg(required_unless_present = "from")]
    file: Option<PathBuf>,
    #[command(flatten)]
    offsite: FromOffsite,
    /// The file of the installation key that seals the secrets of the snapshot. Default: the configured key.
    #[arg(long, value_name = "FILE")]
    installation_key: Option<PathBuf>,
}

/// Refuses to overwrite a different installation key, because it may be the only copy.
fn ensure_no_other_key(path: &Path, wanted: KeyFingerprint) -> Result<(), StoreError> {
    if !path.exists() || InstallationKey::load(path).is_ok_and(|found| found.fingerprint() == wanted) {
        return Ok(());
    }
    Err(StoreError::Installation(format!("{} is another installation key: move it to a safe place first", path.display())))
}

/// The file of a fetched off-site backup in the data directory, until it is restored.
const FETCHED: &str = "offsite.fetched";

impl Restore {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let config = common.settings(&[])?;
        let data = DataDirectory::lock(&config.data.directory).map_err(|error| error.to_string())?;
        let source = key_source(&config, data.path());
        let key_path = self.installation_key.as_ref().unwrap_or(&source.path);
        let key = InstallationKey::load(key_path).map_err(|error| {
            Failure::Failed(format!("{error}; specify the installation key of the snapshot with --installation-key FILE"))
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
        let mut source_location = None;
        let mut reached = RestorePoint::default();
        let restored = match (&self.file, &self.offsite.from) {
            (Some(file), _) => take(file),
            (None, Some(from)) => {
                if data.is_initialized().map_err(|error| error.to_string())? {
                    return Err(Failure::Failed(format!("{} already holds an installation", data.path().display())));
                }
                let fetched = data.path().join(FETCHED);
                let backup = self.offsite.select(from, &config, &key).await?;
                source_location = Some(backup.location());
                let restored = backup.fetch(&fetched).await.map(|found| {
                    reached = found;
                    take(&fetched)
                });
                if fetched.exists() {
                    std::fs::remove_file(&fetched).map_err(|error| Failure::Failed(format!("{}: {error}", fetched.display())))?;
                }
                restored?
            }
            (None, None) => return Err(Failure::Usage("specify a snapshot or `--from offsite`".to_owned())),
        };
        let report = restored.map_err(|error| error.to_string())?;
        let directory = data.path().display().to_string();
        if common.json {
            return output::json(&json!({
                "data_directory": directory,
                "records": report.records,
                "index_entries": report.index_entries,
                "taken_from": source_location,
                "restored_to": reached.time,
                "warnings": reached.warnings,
            }));
        }
        if let Some(place) = source_location {
            output::line(&format!("Source: {place}."))?;
        }
        reached.print()?;
        output::line(&format!("Verified {} records and {} index entries.", report.records, report.index_entries))?;
        output::line(&format!("Restored the installation to {directory}. Start it with `tenantd serve`."))
    }
}
