//! `tenantd repair`: goes on without what a damaged journal has lost. Nothing is given up before the operator says so.

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
    /// Give up what is lost. Without this flag the command only tells what that is.
    #[arg(long)]
    accept_loss: bool,
}

impl Repair {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if Client::new(common)?.is_running() {
            return Err(Failure::Failed("the server is running, so its store has opened: there is nothing to repair".to_owned()));
        }
        let data = offline::hold(common)?;
        let accept = self.accept_loss;
        let key_file = key_source(&common.settings(&[])?, data.path()).path;
        let work = move || {
            let now = Clock::System.now();
            let found = data.examine(offline::SETTINGS, now)?;
            match found {
                Some(loss) if accept => {
                    ensure_key(&key_file, loss.key_fingerprint)?;
                    data.repair(offline::SETTINGS, now, |tx, loss| upkeep::tell_repair(tx, now, loss))
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
            return output::line("The journal is sound: there is nothing to repair.");
        };
        if common.json {
            output::json(&json!({"damaged": true, "repaired": accept, "loss": loss}))?;
        } else {
            tell(&loss, accept)?;
        }
        if accept {
            return Ok(());
        }
        let text = "no record was changed. If you cannot put the right files back and have no better backup, run `tenantd repair --accept-loss`";
        Err(Failure::Failed(text.to_owned()))
    }
}

/// A change of the installation key may be among what is lost. Without the key of before the store would not start.
fn ensure_key(file: &Path, wanted: KeyFingerprint) -> Result<(), StoreError> {
    let found = InstallationKey::load(file).map_err(StoreError::Installation)?.fingerprint();
    if found == wanted {
        return Ok(());
    }
    Err(StoreError::Installation(format!(
        "a change of the installation key is among what is lost. Without it the store wants the key with the fingerprint {}, and {} has {}: \
         put your copy of the older key there first, or restore a backup",
        show_fingerprint(wanted),
        file.display(),
        show_fingerprint(found)
    )))
}

fn tell(loss: &Loss, accepted: bool) -> Result<(), Failure> {
    output::line(&format!("The store is damaged: {}.", loss.problem))?;
    match loss.commits {
        Some(commits) => output::line(&format!("Commits that are lost: {commits}."))?,
        None => output::line("No loss is known, but nobody can tell for certain.")?,
    }
    if let Some((first, last)) = loss.places {
        output::line(&format!("Events that are lost: {} (places {first} to {last} of the log).", last + 1 - first))?;
    }
    for event in &loss.events {
        output::line(&format!("  {} {} of {} at {}", event.kind, event.id, event.tenant_id, event.at))?;
    }
    if !accepted {
        return Ok(());
    }
    output::line(&format!("The damaged files and a list of what is lost are in {}.", loss.evidence.display()))?;
    output::line("The store is closed in order now; start it with `tenantd serve`.")
}
