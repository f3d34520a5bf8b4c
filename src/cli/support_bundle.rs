//! `tenantd support-bundle`: collects diagnostics for support in one file, from a running server or from the data directory of a
//! stopped one.
//!
//! **Invariant:** the bundle contains no secrets and no tenant data. Each part has only sizes, counts and fixed texts. Nothing is copied
//! from a record, a request path or an error text.

mod tar;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args;
use serde_json::{Value, json};

use tenantd_base::{clock::Clock, config::Config};
use tenantd_store::{Store, StoreError, table_sizes};

use super::{Common, Failure, check::check_store, client::Client, offline, output};

/// The unit properties that the bundle contains.
const UNIT_PROPERTIES: &str = "--property=LoadState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainCode,\
                               ActiveEnterTimestamp,InactiveEnterTimestamp,MemoryPeak,MemoryCurrent,FragmentPath";
const UNITS: [&str; 4] = ["tenantd.service", "tenantd.socket", "tenantd-snapshot.service", "tenantd-snapshot.timer"];

#[derive(Debug, Args)]
pub(super) struct SupportBundle {
    /// The path of the new tar file, which must not exist yet.
    file: PathBuf,
}

/// The parts of a bundle and their contents.
const PARTS: [(&str, &str); 9] = [
    ("about.json", "version, host, and whether the server runs"),
    ("settings.json", "the effective settings, without the secrets in the files that they refer to"),
    ("files.json", "sizes of the files in the data directory, and the free space of the disk"),
    ("tables.json", "rows and bytes of every table"),
    ("check.json", "whether the store is intact, and the number of problems of each table"),
    ("units.txt", "the state of the systemd units"),
    ("log.txt", "the last log lines of a running server, without requests, names and error texts"),
    ("metrics.txt", "the metrics of a running server"),
    ("health.json", "the status history of a running server, and its incidents"),
];

impl SupportBundle {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let config = common.settings(&[])?;
        let client = Client::new(common)?;
        if !common.json {
            output::line("The bundle contains no secrets and no tenant data:")?;
            for (name, what) in PARTS {
                output::line(&format!("  {name:<14} {what}"))?;
            }
        }
        let running = client.is_running();
        let mut files = vec![
            ("about.json".to_owned(), pretty(&about(running))),
            ("settings.json".to_owned(), pretty(&settings(&config)?)),
            ("files.json".to_owned(), pretty(&disk(&config.data.directory))),
            ("units.txt".to_owned(), units().into_bytes()),
        ];
        let more = if running { of_server(&client).await? } else { of_directory(common).await? };
        files.extend(more.into_iter().map(|(name, content)| (name.to_owned(), content)));
        let seconds = u64::try_from(Clock::System.now().as_millis() / 1000).unwrap_or_default();
        let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", self.file.display()));
        let bytes = tar::write(&self.file, "tenantd-support", &files, seconds).map_err(failed)?;
        if common.json {
            let parts: Vec<Value> = files.iter().map(|(name, content)| json!({"name": name, "bytes": content.len()})).collect();
            return output::json(&json!({"path": self.file.display().to_string(), "bytes": bytes, "files": parts}));
        }
        output::line(&format!("Wrote {bytes} bytes to {}. Review the file before you send it.", self.file.display()))
    }
}

type Part = (&'static str, Vec<u8>);

async fn of_server(client: &Client) -> Result<Vec<Part>, Failure> {
    let facts = client.get("/internal/admin/support").await?;
    let check = client.post("/internal/admin/check", None).await?;
    let lines: Vec<&str> = facts.get("log").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let tables = json!({
        "tables": facts.get("tables"),
        "platform_audit_records": facts.get("platform_audit_records"),
    });
    Ok(vec![
        ("tables.json", pretty(&tables)),
        ("check.json", pretty(&without_keys(&check))),
        ("log.txt", format!("{}\n", lines.join("\n")).into_bytes()),
        ("metrics.txt", client.text("/metrics").await?.into_bytes()),
        ("health.json", client.text("/status/").await?.into_bytes()),
    ])
}

async fn of_directory(common: &Common) -> Result<Vec<Part>, Failure> {
    let (_data, store) = offline::open(common)?;
    let check = check_store(&store).await?;
    Ok(vec![("tables.json", pretty(&tables(&store)?)), ("check.json", pretty(&without_keys(&check)))])
}

fn tables(store: &Store) -> Result<Value, Failure> {
    let sizes = store.read(table_sizes).map_err(|error: StoreError| Failure::Failed(error.to_string()))?;
    let shown =
        sizes.iter().map(|size| json!({"name": size.name, "segments": size.segments, "rows": size.rows, "bytes": size.bytes}));
    Ok(json!({"tables": shown.collect::<Vec<_>>()}))
}

/// Counts the problems by the beginning of their text. The rest can contain tenant data: keys, and values of damaged bytes.
fn without_keys(report: &Value) -> Value {
    let problems = report.get("problems").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut counted = std::collections::BTreeMap::<&str, u64>::new();
    for problem in problems {
        let beginning = problem.split_once(" at key ").map_or(problem, |(beginning, _)| beginning);
        *counted.entry(beginning).or_default() += 1;
    }
    json!({
        "clean": report.get("clean"),
        "records": report.get("records"),
        "index_entries": report.get("index_entries"),
        "problems": counted,
        "more_problems": report.get("more_problems"),
    })
}

fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

fn about(running: bool) -> Value {
    let system = rustix::system::uname();
    let host = rustix::system::sysinfo();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "debug_build": cfg!(debug_assertions),
        "architecture": std::env::consts::ARCH,
        "server_running": running,
        "made_at": Clock::System.now().to_string(),
        "system": format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
        "processors": std::thread::available_parallelism().map(usize::from).unwrap_or_default(),
        "memory_units": host.totalram,
        "memory_unit_bytes": host.mem_unit,
        "host_uptime_seconds": host.uptime,
    })
}

/// Words in names of settings that contain secrets. No setting has one of these names today, because secrets are in files.
const SECRET_WORDS: [&str; 5] = ["password", "secret", "token", "credential", "private"];

fn settings(config: &Config) -> Result<Value, Failure> {
    let mut shown = serde_json::to_value(config).map_err(|error| Failure::Failed(error.to_string()))?;
    hide(&mut shown);
    Ok(shown)
}

fn hide(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else { return };
    for (name, field) in fields {
        let is_path = name.ends_with("_file");
        if field.is_string() && !is_path && SECRET_WORDS.iter().any(|word| name.contains(word)) {
            *field = json!("****");
        }
        hide(field);
    }
}

fn disk(directory: &Path) -> Value {
    let mut files = serde_json::Map::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        files.insert(entry.file_name().to_string_lossy().into_owned(), json!(size(&entry.path())));
    }
    let room = rustix::fs::statvfs(directory).ok().map(|disk| {
        json!({"bytes": disk.f_blocks * disk.f_frsize, "free_bytes": disk.f_bavail * disk.f_frsize, "free_files": disk.f_favail})
    });
    json!({"directory": directory.display().to_string(), "files": files, "disk": room})
}

/// The size of a file, or of all files of a directory.
fn size(path: &Path) -> u64 {
    if path.is_dir() {
        return std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum();
    }
    std::fs::symlink_metadata(path).map_or(0, |data| data.len())
}

fn units() -> String {
    match Command::new("systemctl").arg("show").arg(UNIT_PROPERTIES).args(UNITS).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(_) => "systemd does not answer on this host.\n".to_owned(),
        Err(_) => "This host has no systemctl.\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_counted_and_secret_settings_hidden() {
        let problem = |key: &str| format!("table users is damaged at key {key}: unknown variant `canary`");
        let report = json!({"clean": false, "problems": [problem("00"), problem("01"), "table x has 1 entries"]});
        let shown = without_keys(&report);
        assert_eq!(shown["problems"], json!({"table users is damaged": 2, "table x has 1 entries": 1}));
        let mut settings = json!({"a": {"smtp_password": "canary", "metrics_token_file": "/t", "password_hashes": 2}});
        hide(&mut settings);
        assert_eq!(settings, json!({"a": {"smtp_password": "****", "metrics_token_file": "/t", "password_hashes": 2}}));
    }
}
