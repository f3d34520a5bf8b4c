//! `tenantd check`: verifies every record and index of the store or of a snapshot.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use tenantd_store::Store;

use super::{Common, Failure, client::Client, offline, output};
use crate::app::checked_tables;

#[derive(Debug, Args)]
pub(super) struct Check {
    /// A snapshot. Default: the store of the running server, or of the data directory if no server runs.
    file: Option<PathBuf>,
}

impl Check {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::new(common)?;
        let report = match &self.file {
            Some(file) => check_store(&offline::open_snapshot(file)?).await?,
            None if client.is_running() => client.post("/internal/admin/check", None).await?,
            None => {
                let (_data, store) = offline::open(common)?;
                check_store(&store).await?
            }
        };
        let clean = report.get("clean") == Some(&Value::Bool(true));
        if common.json {
            output::json(&report)?;
        } else {
            let count = |name: &str| output::text(&report, name);
            output::line(&format!("Verified {} records and {} index entries.", count("/records"), count("/index_entries")))?;
            for problem in report.get("problems").and_then(Value::as_array).into_iter().flatten() {
                output::line(problem.as_str().unwrap_or_default())?;
            }
        }
        if clean {
            return if common.json { Ok(()) } else { output::line("The store is sound.") };
        }
        Err(Failure::Failed("the store is damaged; restore a snapshot that passes `tenantd check`".to_owned()))
    }
}

pub(super) async fn check_store(store: &Store) -> Result<Value, Failure> {
    let report = store.check(checked_tables()).await.map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(json!({
        "clean": report.is_clean(),
        "records": report.records,
        "index_entries": report.index_entries,
        "problems": report.problems,
        "more_problems": report.more_problems,
    }))
}
