//! The import of a whole tenant, which is told by the first line of its file. The file is sent twice: to be checked, and to be taken in.

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
/// A first line that is longer is not that of an export.
const MAX_HEADER: u64 = 64 << 10;

/// The first line of a file that is the export of a tenant.
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

/// Whose word counts for the export of a tenant.
#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// For the export of a tenant: the public key of the installation that it comes from, as `tenantd public-key` prints it there, or a
    /// file with it. Can be given several times.
    #[arg(long, value_name = "KEY|FILE", conflicts_with_all = ["tenant", "url", "kind", "format", "accept_unverified"])]
    trusted_key: Vec<String>,
    /// For the export of a tenant: import it without checking who it is from. Its API keys, passwords, identity providers, workflows,
    /// webhooks and cloud providers arrive switched off.
    #[arg(long, conflicts_with_all = ["tenant", "url", "kind", "format"])]
    accept_unverified: bool,
    /// For the export of a tenant: let another installation's file bring an evaluation tenant, which may connect to this machine.
    #[arg(long, conflicts_with_all = ["tenant", "url", "kind", "format"])]
    allow_evaluation: bool,
}

impl TrustArgs {
    pub(super) fn is_given(&self) -> bool {
        !self.trusted_key.is_empty() || self.accept_unverified || self.allow_evaluation
    }

    /// The keys in hexadecimal, as the server takes them.
    fn keys(&self) -> Result<Vec<String>, Failure> {
        let read = |given: &String| {
            let in_file = || std::fs::read_to_string(given).ok().and_then(|text| parse_key(text.trim()));
            let key = parse_key(given).or_else(in_file);
            let missing = || {
                format!("{given}: no public key, and no file with one: 64 hexadecimal digits, as `tenantd public-key` prints them")
            };
            key.map(|key| key.to_string()).ok_or_else(|| Failure::Usage(missing()))
        };
        self.trusted_key.iter().map(read).collect()
    }
}

/// A key in hexadecimal, or in Base64 as other tools write it.
fn parse_key(text: &str) -> Option<PublicKey> {
    text.parse().ok().or_else(|| BASE64.decode(text.as_bytes()).ok().and_then(|bytes| PublicKey::from_bytes(&bytes).ok()))
}

/// How the tenant is to be taken in.
pub(super) struct Wanted {
    pub(super) slug: Option<String>,
    pub(super) passphrase_file: Option<PathBuf>,
    pub(super) trust: TrustArgs,
}

pub(super) async fn run(common: &Common, path: &Path, header: &Value, wanted: Wanted) -> Result<(), Failure> {
    let key = match (&wanted.passphrase_file, header.get("salt").and_then(Value::as_str)) {
        (Some(file), Some(salt)) => Some(key_of(&passphrase(file)?, salt)?),
        (Some(_), None) => return Err(Failure::Failed("secrets were left out of this export: it needs no passphrase".to_owned())),
        (None, _) => None,
    };
    let trusted = wanted.trust.keys()?;
    let order = |mode: &str| {
        json!({
            "mode": mode,
            "slug": wanted.slug,
            "key": key.as_ref().map(Secret::expose),
            "trusted_keys": trusted,
            "accept_unverified": wanted.trust.accept_unverified,
            "allow_evaluation": wanted.trust.allow_evaluation,
        })
    };
    let checked = send(common, path, &order("check")).await?;
    refuse(&checked)?;
    let imported = send(common, path, &order("import")).await?;
    refuse(&imported)?;
    if common.json {
        return output::json(&imported);
    }
    let counts = imported.get("counts").and_then(Value::as_object).into_iter().flatten();
    let records: u64 = counts.filter_map(|(_, count)| count.as_u64()).sum();
    let name = output::text(header, "/tenant/name");
    output::line(&format!("{name} ({}) is here, with {records} records.", output::text(&imported, "/tenant_id")))?;
    if imported.get("verified").is_some_and(|verified| verified == false) {
        output::line("Nobody vouches for the file, so nothing of it acts. Switched off:")?;
        for off in imported.get("switched_off").and_then(Value::as_array).into_iter().flatten() {
            output::line(&format!("  {}", switched_off(off)))?;
        }
    }
    for note in imported.get("notes").and_then(Value::as_array).into_iter().flatten() {
        output::line(&output::text(note, ""))?;
    }
    Ok(())
}

/// Such as `2 API keys: Export, Import`.
fn switched_off(off: &Value) -> String {
    let (what, count) = (output::text(off, "/what"), off.get("count").and_then(Value::as_u64).unwrap_or_default());
    let names: Vec<&str> = off.get("names").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let more = if (names.len() as u64) < count { ", …" } else { "" };
    format!("{count} {what}: {}{more}", names.join(", "))
}

/// What the server has against it.
fn refuse(answer: &Value) -> Result<(), Failure> {
    if answer.get("done").is_some_and(|done| done == true) {
        return Ok(());
    }
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        return Err(Failure::Failed(format!("{error}. Nothing was imported")));
    }
    let mut text = "the tenant does not fit into this installation, and nothing was imported".to_owned();
    for conflict in answer.get("conflicts").and_then(Value::as_array).into_iter().flatten() {
        text.push_str(&format!("\n  line {}: {}", output::text(conflict, "/line"), output::text(conflict, "/message")));
    }
    if answer.get("more_conflicts").and_then(Value::as_u64).unwrap_or(0) > 0 {
        text.push_str("\n  …");
    }
    Err(Failure::Failed(text))
}

/// Sends an order and the file behind it; the one line of the answer.
async fn send(common: &Common, path: &Path, order: &Value) -> Result<Value, Failure> {
    let fail = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(|error| fail(path, error))?;
    file.rewind().map_err(|error| fail(path, error))?;
    let bar = progress(file.metadata().ok().map(|metadata| metadata.len()));
    let (sender, pieces) = mpsc::channel::<Bytes>(PIECES);
    let first = Bytes::from(format!("{order}\n"));
    let reading = tokio::task::spawn_blocking({
        let (bar, path) = (bar.clone(), path.to_owned());
        move || pass_on(file, first, &sender, &bar).map_err(|error| fail(&path, error))
    });
    let socket = admin_socket(&common.settings(&[])?.data.directory);
    let answer = Target::Socket { path: socket, target: "/internal/admin/import".to_owned() }.send(pieces).await;
    bar.finish_and_clear();
    // A server that has stopped reading is the reason, and a reader that could not go on is its consequence.
    let answer = answer?;
    reading.await.map_err(|error| Failure::Failed(error.to_string()))??;
    answer.failures.into_iter().next().ok_or_else(|| Failure::Failed("the server's answer was cut off".to_owned()))
}

/// Hands on the pieces of the file. Ends early when nobody takes them any more.
fn pass_on(mut file: File, first: Bytes, sender: &mpsc::Sender<Bytes>, bar: &ProgressBar) -> std::io::Result<()> {
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
