//! `tenantd compact`: returns the free space of the store file to the file system. The server must be stopped, because nothing else
//! may use the file meanwhile.

use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;

use super::{Common, Failure, client::Client, offline, output};

#[derive(Debug, Args)]
pub(super) struct Compact {
    /// Only print how much space is free in the file.
    #[arg(long)]
    dry_run: bool,
}

impl Compact {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if Client::new(common)?.is_running() {
            let text = "the server is running and uses the store file: stop it first, for example with `systemctl stop tenantd`";
            return Err(Failure::Failed(text.to_owned()));
        }
        let data = offline::lock(common)?;
        let dry_run = self.dry_run;
        let work = move || {
            let fail = |error: tenantd_store::StoreError| Failure::Failed(error.to_string());
            if dry_run {
                return Ok((data.store_bytes().map_err(fail)?, data.free_bytes(offline::SETTINGS).map_err(fail)?, None));
            }
            let done = data.compact(offline::SETTINGS).map_err(fail)?;
            Ok((done.before, done.before.saturating_sub(done.after), Some(done.after)))
        };
        let done: Result<(u64, u64, Option<u64>), Failure> =
            tokio::task::spawn_blocking(work).await.map_err(|error| Failure::Failed(error.to_string()))?;
        let (before, freed, after) = done?;
        match (after, common.json) {
            (None, true) => output::json(&json!({"bytes": before, "free_bytes": freed})),
            (Some(after), true) => output::json(&json!({"bytes_before": before, "bytes_after": after})),
            (None, false) => output::line(&format!("{} of {} in the store file are free.", HumanBytes(freed), HumanBytes(before))),
            (Some(after), false) => output::line(&format!(
                "The store file was {} and is now {}: {} were given back.",
                HumanBytes(before),
                HumanBytes(after),
                HumanBytes(freed)
            )),
        }
    }
}
