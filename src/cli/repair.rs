//! `tenantd repair`: repairs a store with a damaged journal, without the lost changes. **Invariant:** it drops nothing before the
//! operator accepts the loss.

use std::path::Path;

use clap::Args;
use serde_json::json;

use tenantd_base::{
    clock::Clock,
    secrets::{InstallationKey, show_fingerprint},
};
use tenantd_store::{KeyFingerprint, Loss, StoreError};
use tenantd_upkeep as upkeep;

use super::{Common, Failure, client::Client, offline, output};
use crate::app::key_source;

#[derive(Debug, Args)]
pub(super) struct Repair {
    /// Accept the loss and repair the store. Without this flag, the command only lists the lost changes.
    #[arg(long)]
    accept_loss: bool,
}

impl Repair {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if Client::new(common)?.is_running() {
            return Err(Failure::Failed("the server is running with an intact store: there is nothing to repair".to_owned()));
        }
        let data = offline::lock(common)?;
        let accept = self.accept_loss;
        let key_file = key_source(&common.settings(&[])?, data.path()).path;
        let work = move || {
            let now = Clock::System.now();
            let found = data.examine(offline::SETTINGS, now)?;
            match found {
                Some(loss) if accept => {
                    ensure_key(&key_file, loss.key_fingerprint)?;
                    data.repair(offline::SETTINGS, now, |tx, loss| upkeep::report_repair(tx, now, loss))
                }
                found => Ok(found),
            }
        };
        let found: Result<Option<Loss>, StoreError> =
            tokio::task::spawn_blocking(work).await.map_err(|error| Failure::Failed(error.to_string()))?;
        let Some(loss) = found.map_err(|error| Failure::Failed(error.to_string()))? else {
            if common.json {
                return output::json(&json!({"damaged": false, "repaired": false}));
            }
            return output::line("The journal is intact: there is nothing to repair.");
        };
        if common.json {
            output::json(&json!({"damaged": true, "repaired": accept, "loss": loss}))?;
        } else {
            print_loss(&loss, accept)?;
        }
        if accept {
            return Ok(());
        }
        let text = "no record was changed. If you cannot restore the original files and have no newer backup, run `tenantd repair --accept-loss`";
        Err(Failure::Failed(text.to_owned()))
    }
}

/// Checks the installation key. If a key rotation is among the lost changes, the store needs the previous key to start.
fn ensure_key(file: &Path, expected: KeyFingerprint) -> Result<(), StoreError> {
    let found = InstallationKey::load(file).map_err(StoreError::Installation)?.fingerprint();
    if found == expected {
        return Ok(());
    }
    Err(StoreError::Installation(format!(
        "a rotation of the installation key is among the lost changes. Without it, the store needs the key with the fingerprint {}, but {} \
         has {}: put your copy of the older key there first, or restore a backup",
        show_fingerprint(expected),
        file.display(),
        show_fingerprint(found)
    )))
}

fn print_loss(loss: &Loss, accepted: bool) -> Result<(), Failure> {
    output::line(&format!("The store is damaged: {}.", loss.problem))?;
    match loss.commits {
        Some(commits) => output::line(&format!("Lost commits: {commits}."))?,
        None => output::line("No lost commit is known, but a loss cannot be ruled out.")?,
    }
    if let Some((first, last)) = loss.places {
        output::line(&format!("Lost events: {} (positions {first} to {last} of the log).", last + 1 - first))?;
    }
    for event in &loss.events {
        output::line(&format!("  {} {} of {} at {}", event.kind, event.id, event.tenant_id, event.at))?;
    }
    if !accepted {
        return Ok(());
    }
    output::line(&format!("The damaged files and a list of the lost changes are in {}.", loss.evidence.display()))?;
    output::line("The store is repaired. Start the server with `tenantd serve`.")
}
