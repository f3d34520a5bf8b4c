//! Imports a whole tenant. The first line of the file identifies it as an export. The file is sent twice: first to check it, then
//! to import it.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use clap::Args;
use data_encoding::BASE64;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use tenantd_base::secrets::{PublicKey, Secret};
use tenantd_transfer as transfer;

use super::{
    super::{
        Common, Failure,
        export::{key_of, passphrase},
        output,
    },
    PIECES,
    connection::Target,
    progress,
};
use crate::app::admin_socket;

const PIECE: usize = 64 << 10;
/// The maximum length of the first line of an export.
const MAX_HEADER: u64 = 64 << 10;

/// The first line of the file. `None` if the file is not the export of a tenant.
pub(super) fn header(path: &Path) -> Result<Option<Value>, Failure> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let fail = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let mut line = Vec::new();
    BufReader::new(File::open(path).map_err(fail)?).take(MAX_HEADER).read_until(b'\n', &mut line).map_err(fail)?;
    let header: Option<Value> = serde_json::from_slice(&line).ok();
    Ok(header.filter(|header| header.get("format").is_some_and(|format| format == transfer::FORMAT)))
}

/// The flags that decide which signatures are trusted.
#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// For an export of a tenant: the public key of the exporting installation as printed by `tenantd public-key`, or a file with
    /// it. You can repeat this flag.
    #[arg(long, value_name = "KEY|FILE", conflicts_with_all = ["tenant", "url", "kind", "format", "accept_unverified"])]
    trusted_key: Vec<String>,
    /// For an export of a tenant: import it without verifying its signature. Its API keys, passwords, identity providers,
    /// workflows, webhooks and cloud providers are imported disabled.
    #[arg(long, conflicts_with_all = ["tenant", "url", "kind", "format"])]
    accept_unverified: bool,
    /// For an export of a tenant: allow an evaluation tenant of another installation. Evaluation tenants can connect to this host.
    #[arg(long, conflicts_with_all = ["tenant", "url", "kind", "format"])]
    allow_evaluation: bool,
}

impl TrustArgs {
    pub(super) fn is_given(&self) -> bool {
        !self.trusted_key.is_empty() || self.accept_unverified || self.allow_evaluation
    }

    /// The keys in hexadecimal, in the format of the server.
    fn keys(&self) -> Result<Vec<String>, Failure> {
        let read = |given: &String| {
            let in_file = || std::fs::read_to_string(given).ok().and_then(|text| parse_key(text.trim()));
            let key = parse_key(given).or_else(in_file);
            let missing = || {
                format!(
                    "{given}: no public key or file with one; expected 64 hexadecimal digits as printed by `tenantd public-key`"
                )
            };
            key.map(|key| key.to_string()).ok_or_else(|| Failure::Usage(missing()))
        };
        self.trusted_key.iter().map(read).collect()
    }
}

/// Parses a key in hexadecimal, or in Base64 as written by other tools.
fn parse_key(text: &str) -> Option<PublicKey> {
    text.parse().ok().or_else(|| BASE64.decode(text.as_bytes()).ok().and_then(|bytes| PublicKey::from_bytes(&bytes).ok()))
}

/// The options of the import of a tenant.
pub(super) struct ImportOptions {
    pub(super) slug: Option<String>,
    pub(super) passphrase_file: Option<PathBuf>,
    pub(super) trust: TrustArgs,
}

pub(super) async fn run(common: &Common, path: &Path, header: &Value, options: ImportOptions) -> Result<(), Failure> {
    let key = match (&options.passphrase_file, header.get("salt").and_then(Value::as_str)) {
        (Some(file), Some(salt)) => Some(key_of(&passphrase(file)?, salt)?),
        (Some(_), None) => return Err(Failure::Failed("this export contains no secrets: leave out --passphrase-file".to_owned())),
        (None, _) => None,
    };
    let trusted = options.trust.keys()?;
    let request = |mode: &str| {
        json!({
            "mode": mode,
            "slug": options.slug,
            "key": key.as_ref().map(Secret::expose),
            "trusted_keys": trusted,
            "accept_unverified": options.trust.accept_unverified,
            "allow_evaluation": options.trust.allow_evaluation,
        })
    };
    let checked = send(common, path, &request("check")).await?;
    ensure_accepted(&checked)?;
    let imported = send(common, path, &request("import")).await?;
    ensure_accepted(&imported)?;
    if common.json {
        return output::json(&imported);
    }
    let counts = imported.get("counts").and_then(Value::as_object).into_iter().flatten();
    let records: u64 = counts.filter_map(|(_, count)| count.as_u64()).sum();
    let name = output::text(header, "/tenant/name");
    output::line(&format!("Imported {name} ({}) with {records} records.", output::text(&imported, "/tenant_id")))?;
    if imported.get("verified").is_some_and(|verified| verified == false) {
        output::line("The signature of the file was not verified, so these were imported disabled:")?;
        for off in imported.get("switched_off").and_then(Value::as_array).into_iter().flatten() {
            output::line(&format!("  {}", switched_off(off)))?;
        }
    }
    for note in imported.get("notes").and_then(Value::as_array).into_iter().flatten() {
        output::line(&output::text(note, ""))?;
    }
    Ok(())
}

/// One line of the list, such as `2 API keys: Export, Import`.
fn switched_off(off: &Value) -> String {
    let (what, count) = (output::text(off, "/what"), off.get("count").and_then(Value::as_u64).unwrap_or_default());
    let names: Vec<&str> = off.get("names").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let more = if (names.len() as u64) < count { ", …" } else { "" };
    format!("{count} {what}: {}{more}", names.join(", "))
}

/// Fails if the server refused the import.
fn ensure_accepted(answer: &Value) -> Result<(), Failure> {
    if answer.get("done").is_some_and(|done| done == true) {
        return Ok(());
    }
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        return Err(Failure::Failed(format!("{error}. Nothing was imported")));
    }
    let mut text = "the tenant conflicts with this installation. Nothing was imported".to_owned();
    for conflict in answer.get("conflicts").and_then(Value::as_array).into_iter().flatten() {
        text.push_str(&format!("\n  line {}: {}", output::text(conflict, "/line"), output::text(conflict, "/message")));
    }
    if answer.get("more_conflicts").and_then(Value::as_u64).unwrap_or(0) > 0 {
        text.push_str("\n  …");
    }
    Err(Failure::Failed(text))
}

/// Sends the options and then the file. Returns the single line of the response.
async fn send(common: &Common, path: &Path, options: &Value) -> Result<Value, Failure> {
    let fail = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(|error| fail(path, error))?;
    file.rewind().map_err(|error| fail(path, error))?;
    let bar = progress(file.metadata().ok().map(|metadata| metadata.len()));
    let (sender, pieces) = mpsc::channel::<Bytes>(PIECES);
    let first = Bytes::from(format!("{options}\n"));
    let reading = tokio::task::spawn_blocking({
        let (bar, path) = (bar.clone(), path.to_owned());
        move || send_pieces(file, first, &sender, &bar).map_err(|error| fail(&path, error))
    });
    let socket = admin_socket(&common.settings(&[])?.data.directory);
    let answer = Target::Socket { path: socket, target: "/internal/admin/import".to_owned() }.send(pieces).await;
    bar.finish_and_clear();
    // If the server stopped reading, reading the file failed as a consequence. Report the server's error first.
    let answer = answer?;
    reading.await.map_err(|error| Failure::Failed(error.to_string()))??;
    answer
        .failures
        .into_iter()
        .next()
        .ok_or_else(|| Failure::Failed("the response of the server is incomplete; import the file again".to_owned()))
}

/// Sends the pieces of the file. Stops early if the receiver is closed.
fn send_pieces(mut file: File, first: Bytes, sender: &mpsc::Sender<Bytes>, bar: &ProgressBar) -> std::io::Result<()> {
    if sender.blocking_send(first).is_err() {
        return Ok(());
    }
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let length = file.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
        if length == 0 || sender.blocking_send(Bytes::from(piece)).is_err() {
            return Ok(());
        }
        bar.inc(length as u64);
    }
}
