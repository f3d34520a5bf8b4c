//! `tenantd audit`: verifies that the audit is unchanged, on a running server, in a data directory, or in an export on another
//! machine. It also prints checkpoints to keep elsewhere.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use tenantd_audit::{self as audit, Checkpoint, ExportCheck, Verified, parse_checkpoint, show_checkpoint};
use tenantd_base::secrets::{InstallationKey, PublicKey};
use tenantd_store::{Store, StoreError};

use super::{Common, Failure, client::Client, offline, output};
use crate::app::key_source;

/// The first bytes of a store file.
const STORE_MAGIC: &[u8] = b"redb";
/// The maximum length of a line of an export.
const MAX_LINE: u64 = 1 << 20;

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// Verify every audit record, and report the first changed record of each tenant.
    Verify(Verify),
    /// Print the newest audit checkpoint of every tenant, one per line. Keep them on another host.
    Checkpoint,
    /// Print the public key that verifies the checkpoints of this installation.
    PublicKey,
}

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// An audit export (NDJSON without filters) or a snapshot. Default: the store of the running server, or of the data directory
    /// if no server runs.
    file: Option<PathBuf>,
    /// The public key of the installation, in hexadecimal. Required for a file on a host without the installation key.
    #[arg(long, value_name = "KEY")]
    public_key: Option<PublicKey>,
    /// A file with earlier checkpoints, one per line. The records that they cover must exist unchanged.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

impl AuditCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Verify(command) => command.run(common).await,
            Self::Checkpoint => checkpoint(common).await,
            Self::PublicKey => {
                let key = installation_public_key(common)?.to_string();
                if common.json { output::json(&json!({"public_key": key})) } else { output::line(&key) }
            }
        }
    }
}

fn installation_public_key(common: &Common) -> Result<PublicKey, Failure> {
    let config = common.settings(&[])?;
    let key = InstallationKey::load(&key_source(&config, &config.data.directory).path)?;
    audit::public_key(&key).map_err(|error| Failure::Failed(error.to_string()))
}

async fn checkpoint(common: &Common) -> Result<(), Failure> {
    let client = Client::new(common)?;
    let shown = if client.is_running() {
        let found = client.get("/internal/admin/audit/checkpoints").await?;
        found.get("data").and_then(Value::as_array).cloned().unwrap_or_default()
    } else {
        let key = installation_public_key(common)?;
        let (_data, store) = offline::open(common)?;
        let found = store.read(audit::checkpoints).map_err(|error: StoreError| error.to_string())?;
        let shown: Result<Vec<Value>, _> = found.iter().map(|checkpoint| show_checkpoint(checkpoint, &key)).collect();
        shown.map_err(|error| Failure::Failed(error.to_string()))?
    };
    if common.json { output::json(&json!({"data": shown})) } else { shown.iter().try_for_each(output::json) }
}

impl Verify {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let known = self.checkpoint.as_deref().map_or(Ok(Vec::new()), read_checkpoints)?;
        let client = Client::new(common)?;
        let report = match &self.file {
            Some(file) => {
                let key = self.public_key.map_or_else(|| installation_public_key(common), Ok).map_err(|failure| {
                    Failure::Failed(format!("{}; specify the public key of the installation with --public-key KEY", failure.text()))
                })?;
                show(&check_file(file, &key, &known)?)
            }
            None if client.is_running() => {
                let key = installation_public_key(common)?;
                let shown: Result<Vec<Value>, _> = known.iter().map(|checkpoint| show_checkpoint(checkpoint, &key)).collect();
                let checkpoints = shown.map_err(|error| Failure::Failed(error.to_string()))?;
                client.post("/internal/admin/audit/verify", Some(&json!({"checkpoints": checkpoints}))).await?
            }
            None => {
                let key = self.public_key.map_or_else(|| installation_public_key(common), Ok)?;
                let (_data, store) = offline::open(common)?;
                show(&check_store(&store, &key, &known)?)
            }
        };
        print_report(common, &report)
    }
}

fn print_report(common: &Common, report: &Value) -> Result<(), Failure> {
    let sound = report.get("sound") == Some(&Value::Bool(true));
    if common.json {
        output::json(report)?;
    } else {
        let count = |name: &str| output::text(report, name);
        let read = (count("/records"), count("/checkpoints"), count("/chains"));
        output::line(&format!("Verified {} records and {} checkpoints of {} tenants.", read.0, read.1, read.2))?;
        for found in report.get("breaks").and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| output::text(found, name);
            output::line(&format!("{}: record {}: {}", text("/tenant_id"), text("/number"), text("/reason")))?;
        }
    }
    match sound {
        true if common.json => Ok(()),
        true => output::line("The audit is unchanged."),
        false => Err(Failure::Failed("the audit was changed".to_owned())),
    }
}

fn show(verified: &Verified) -> Value {
    let shown = |found: &audit::Break| json!({"tenant_id": found.tenant_id, "number": found.number, "reason": found.reason});
    json!({
        "sound": verified.is_sound(),
        "chains": verified.chains,
        "records": verified.records,
        "checkpoints": verified.checkpoints,
        "breaks": verified.breaks.iter().map(shown).collect::<Vec<_>>(),
    })
}

fn check_store(store: &Store, key: &PublicKey, known: &[Checkpoint]) -> Result<Verified, Failure> {
    store.read(|tx| audit::verify(tx, key, known)).map_err(|error: StoreError| Failure::Failed(error.to_string()))
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::Failed(format!("{}: {error}", path.display()))
}

fn check_file(path: &Path, key: &PublicKey, known: &[Checkpoint]) -> Result<Verified, Failure> {
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(STORE_MAGIC.len() as u64).read_to_end(&mut start)).map_err(failed(path))?;
    if start == STORE_MAGIC {
        return check_store(&offline::open_snapshot(path)?, key, known);
    }
    let wrong = |reason: String| Failure::Failed(format!("{}: {reason}", path.display()));
    let mut check = ExportCheck::new(key, known);
    each_line(path, |line| check.line(line).map_err(wrong))?;
    check.end().map_err(wrong)
}

fn read_checkpoints(path: &Path) -> Result<Vec<Checkpoint>, Failure> {
    let mut found = Vec::new();
    each_line(path, |line| {
        let checkpoint = parse_checkpoint(line).map_err(|reason| Failure::Failed(format!("{}: {reason}", path.display())))?;
        found.push(checkpoint);
        Ok(())
    })?;
    Ok(found)
}

fn each_line(path: &Path, mut visit: impl FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut reader = BufReader::new(File::open(path).map_err(failed(path))?);
    loop {
        let mut line = String::new();
        let length = reader.by_ref().take(MAX_LINE).read_line(&mut line).map_err(failed(path))?;
        if length == 0 {
            return Ok(());
        }
        if length as u64 == MAX_LINE {
            return Err(Failure::Failed(format!(
                "{}: a line is longer than {MAX_LINE} bytes, so this is not an audit export",
                path.display()
            )));
        }
        visit(line.trim_end())?;
    }
}
