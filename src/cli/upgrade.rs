//! `tenantd upgrade check`: shows what the first start of this release will do with the store, without changing anything.

use std::path::Path;

use clap::Subcommand;
use serde_json::{Value, json};

use tenantd_base::config::Config;
use tenantd_store::{FORMAT, Installation, StoreError, migration_path};
use tenantd_upkeep::{self as upkeep, Places, Room};

use super::{Common, Failure, client::Client, offline, output};
use crate::app::upgrade::STEPS;

/// The assumed minimum speed of an upgrade: bytes that are read, written and verified per second.
const BYTES_PER_SECOND: u64 = 16 << 20;

#[derive(Debug, Subcommand)]
pub(super) enum Upgrade {
    /// Show the format of the store, the steps of an upgrade to this release, and whether there is enough disk space.
    Check,
}

impl Upgrade {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let Self::Check = self;
        let (config, client) = (common.settings(&[])?, Client::new(common)?);
        let failed = |error: StoreError| Failure::Failed(error.to_string());
        let (found, store_file) = if client.is_running() {
            let store = client.get("/internal/admin/store").await?;
            let format = store.get("format").and_then(Value::as_u64).and_then(|format| u32::try_from(format).ok());
            let format = format.ok_or_else(|| Failure::Failed("the server does not report the format of its store".to_owned()))?;
            (format, offline::store_file(&config.data.directory))
        } else {
            let (data, store) = offline::open(common)?;
            (store.read(Installation::read).map_err(failed)?.format, data.store_file())
        };
        let plan = plan(&config, found, &store_file);
        let possible = plan.get("problem").is_none();
        if common.json {
            output::json(&plan)?;
        } else {
            print_plan(&plan)?;
        }
        match plan.get("problem").and_then(Value::as_str) {
            Some(problem) if !possible => Err(Failure::Failed(problem.to_owned())),
            _ => Ok(()),
        }
    }
}

fn plan(config: &Config, found: u32, store_file: &Path) -> Value {
    let mut plan = json!({"found_format": found, "writes_format": FORMAT, "version": env!("CARGO_PKG_VERSION")});
    let mut add = |name: &str, value: Value| plan.as_object_mut().map(|plan| plan.insert(name.to_owned(), value));
    let path = match migration_path(found, STEPS) {
        Ok(path) => path,
        Err(error) => {
            add("problem", error.to_string().into());
            return plan;
        }
    };
    add("through_formats", path.clone().into());
    if path.is_empty() {
        return plan;
    }
    let directory = upkeep::snapshot_directory(&config.snapshots, &config.data.directory);
    let bytes = std::fs::metadata(store_file).map_or(0, |data| data.len());
    add("about_seconds", (1 + bytes / BYTES_PER_SECOND * (path.len() as u64 + 1)).into());
    if !config.snapshots.before_upgrade {
        return plan;
    }
    add("snapshot_directory", directory.display().to_string().into());
    // The first snapshot creates the directory. Until then, check its nearest existing ancestor.
    let place = directory.ancestors().find(|place| place.exists()).unwrap_or(&config.data.directory);
    let places = Places { data: config.data.directory.clone(), store_file: store_file.to_owned() };
    match upkeep::room(config, &places, &place.join("snapshot")) {
        Ok(Room { needed, free }) => {
            add("snapshot_bytes", needed.into());
            add("free_bytes", free.into());
            if free < needed {
                let problem = format!(
                    "not enough space for the snapshot before the upgrade: it needs up to {needed} bytes, but only {free} are free"
                );
                add("problem", problem.into());
            }
        }
        Err(error) => {
            add("problem", format!("{}: {error}", place.display()).into());
        }
    }
    plan
}

fn print_plan(plan: &Value) -> Result<(), Failure> {
    let text = |name: &str| output::text(plan, name);
    output::line(&format!(
        "The store has format {}. This release, {}, writes format {}.",
        text("/found_format"),
        text("/version"),
        text("/writes_format")
    ))?;
    let through = plan.get("through_formats").and_then(Value::as_array).map_or(0, Vec::len);
    if plan.get("through_formats").is_some() && through == 0 {
        return output::line("There is nothing to do.");
    }
    if through > 0 {
        output::line(&format!(
            "The first start upgrades it through these formats: {}. The upgrade takes about {} seconds.",
            text("/through_formats"),
            text("/about_seconds")
        ))?;
    }
    match plan.get("snapshot_directory") {
        Some(_) => output::line(&format!(
            "Before the upgrade, it writes a snapshot to {}. The snapshot needs up to {} bytes, and {} are free.",
            text("/snapshot_directory"),
            text("/snapshot_bytes"),
            text("/free_bytes")
        )),
        None if through > 0 => output::line("It writes no snapshot before the upgrade, because snapshots.before_upgrade is false."),
        None => Ok(()),
    }
}
