//! `tenantd reindex`: rebuilds the search index from the store, on the running server, or in the data directory if no server runs.

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use tenantd_base::clock::Clock;
use tenantd_search::Search;

use super::{Common, Failure, client::Client, offline, output};
use crate::app::search_directory;

/// The interval at which the command polls the progress of a running server.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub(super) struct Reindex {}

/// A counter on a terminal. It is hidden elsewhere.
fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} documents {per_sec} {elapsed}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

impl Reindex {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::new(common)?;
        let bar = progress();
        let documents = if client.is_running() { online(&client, &bar).await } else { offline(common, &bar).await };
        bar.finish_and_clear();
        let documents = documents?;
        if common.json {
            return output::json(&json!({"documents": documents}));
        }
        output::line(&format!("Rebuilt the search index: {documents} documents."))
    }
}

async fn online(client: &Client, bar: &ProgressBar) -> Result<u64, Failure> {
    let number = |status: &Value, name: &str| status.get(name).and_then(Value::as_u64).unwrap_or_default();
    let before = number(&client.get("/internal/admin/search").await?, "rebuilds");
    client.post("/internal/admin/search/reindex", None).await?;
    loop {
        let status = client.get("/internal/admin/search").await?;
        if number(&status, "rebuilds") > before && status.get("building") == Some(&Value::Bool(false)) {
            return Ok(number(&status, "documents"));
        }
        bar.set_position(number(&status, "built"));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn offline(common: &Common, bar: &ProgressBar) -> Result<u64, Failure> {
    let (data, store) = offline::open(common)?;
    let search = Search::new(store, Clock::System, search_directory(data.path()));
    let bar = bar.clone();
    let built = tokio::task::spawn_blocking(move || search.build_offline(|documents| bar.set_position(documents)));
    let built = built.await.map_err(|error| Failure::Failed(error.to_string()))?;
    built.map_err(|error| Failure::Failed(error.to_string()))
}
