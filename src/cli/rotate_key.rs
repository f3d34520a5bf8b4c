//! `tenantd rotate-key`: replaces the installation key, on the running server, or in the data directory if no server runs. After an
//! interruption, the next start or the next call continues the rotation.

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use tenantd_base::{clock::Clock, secrets::show_fingerprint};
use tenantd_store::{KeyFiles, Progress, Rotation, StoreError, keys_in_force};

use super::{Common, Failure, client::Client, offline, output};
use crate::app::{key_source, sealed_tables};

/// The interval at which the command polls the progress of a running server.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const PATH: &str = "/internal/admin/key-rotation";

#[derive(Debug, Args)]
pub(super) struct RotateKey {}

/// A counter on a terminal. It is hidden elsewhere.
fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} records resealed {elapsed}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

impl RotateKey {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::new(common)?;
        let bar = progress();
        let done = if client.is_running() { online(&client, &bar).await } else { offline(common, &bar).await };
        bar.finish_and_clear();
        let done = done?;
        if common.json {
            return output::json(&done);
        }
        let text = |pointer: &str| output::text(&done, pointer);
        output::line(&format!("Replaced the installation key {} with {}.", text("/previous_fingerprint"), text("/fingerprint")))?;
        if let Some(action) = done.get("operator_action").and_then(Value::as_str) {
            output::line(action)?;
        }
        output::line(&format!(
            "Keep a copy of the new key, and create a new snapshot. Older snapshots need the key {}: keep a copy of it too.",
            text("/previous_fingerprint")
        ))
    }
}

fn rotation_result(previous: &str, fingerprint: &str, operator_action: Option<&str>) -> Value {
    let mut result = json!({"previous_fingerprint": previous, "fingerprint": fingerprint});
    if let (Some(action), Some(result)) = (operator_action, result.as_object_mut()) {
        result.insert("operator_action".to_owned(), json!(action));
    }
    result
}

async fn online(client: &Client, bar: &ProgressBar) -> Result<Value, Failure> {
    let text = |status: &Value, name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let before = text(&client.get(PATH).await?, "fingerprint");
    client.post(PATH, None).await?;
    loop {
        let status = client.get(PATH).await?;
        if status.get("under_way") == Some(&Value::Bool(false)) {
            return Ok(rotation_result(
                &before,
                &text(&status, "fingerprint"),
                status.get("operator_action").and_then(Value::as_str),
            ));
        }
        bar.set_position(status.get("resealed").and_then(Value::as_u64).unwrap_or_default());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn offline(common: &Common, bar: &ProgressBar) -> Result<Value, Failure> {
    let fail = |error: StoreError| Failure::Failed(error.to_string());
    let config = common.settings(&[])?;
    let (data, store) = offline::open(common)?;
    let files = KeyFiles::new(key_source(&config, data.path()), data.path());
    let (_, sealer) = keys_in_force(&store, &files).map_err(fail)?;
    let rotation = Rotation { store, clock: Clock::System, sealer, files, tables: sealed_tables() };
    let before = rotation.status().map_err(fail)?.fingerprint;
    rotation.begin().await.map_err(fail)?;
    while rotation.advance().await.map_err(fail)? == Progress::More {
        let resealed = rotation.status().map_err(fail)?.under_way.map_or(0, |progress| progress.resealed);
        bar.set_position(resealed);
    }
    let after = rotation.status().map_err(fail)?;
    Ok(rotation_result(&show_fingerprint(before), &show_fingerprint(after.fingerprint), after.operator_action.as_deref()))
}
