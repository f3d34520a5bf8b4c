//! `tenantd export`: all of a tenant as a file that another installation imports. The stream goes to the file as it comes; a file that is
//! not whole is removed.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use clap::Args;
use data_encoding::HEXLOWER;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use tenantd_base::{
    entropy::Entropy,
    secrets::{InstallationKey, Secret},
};

use super::{
    Common, Failure,
    client::{self, Client},
    import::progress,
    output,
};
use crate::app::admin_socket;

#[derive(Debug, Args)]
pub(super) struct Export {
    /// The tenant's id or slug.
    #[arg(long)]
    tenant: String,
    /// Where to write the export; nothing may be there yet. Standard output when absent.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A file with a passphrase that secrets are sealed under. Without it they are left out, and what needs them arrives paused or disabled.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

/// The passphrase of a file, without the end of its line.
pub(super) fn passphrase(path: &Path) -> Result<Secret, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(Failure::Failed(format!("{}: there is no passphrase in it", path.display())));
    }
    Ok(Secret::new(text))
}

/// The key of a passphrase, as the server takes it.
pub(super) fn key_of(passphrase: &Secret, salt: &str) -> Result<Secret, Failure> {
    let bytes = HEXLOWER.decode(salt.as_bytes()).ok().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let salt = bytes.ok_or_else(|| Failure::Failed("the export's salt is not 32 hexadecimal digits".to_owned()))?;
    let key = InstallationKey::from_passphrase(passphrase, &salt)?;
    Ok(Secret::new(key.to_file().trim()))
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("the server does not answer: {error}"))
}

impl Export {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let mut order = json!({});
        if let (Some(path), Some(order)) = (&self.passphrase_file, order.as_object_mut()) {
            let salt = HEXLOWER.encode(&Entropy::from_os().bytes::<16>());
            let key = key_of(&passphrase(path)?, &salt)?;
            order.insert("salt".to_owned(), json!(salt));
            order.insert("key".to_owned(), json!(key.expose()));
        }
        let id = Client::new(common)?.tenant_id(&self.tenant).await?;
        let socket = admin_socket(&common.settings(&[])?.data.directory);
        let body = ask(&socket, &format!("/internal/admin/tenants/{id}/export"), &order).await?;
        let Some(path) = &self.output else {
            let mut out = std::io::stdout();
            let bar = ProgressBar::hidden();
            return take(body, &mut out, &bar).await.map(drop);
        };
        let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let bar = progress(None);
        let taken = take(body, &mut file, &bar).await;
        bar.finish_and_clear();
        let taken = taken.and_then(|taken| file.sync_all().map_err(failed).map(|()| taken));
        let taken = taken.inspect_err(|_| remove(path))?;
        if common.json {
            return output::json(&json!({
                "tenant_id": id, "file": path, "bytes": taken.bytes, "lines": taken.lines, "counts": taken.end.get("counts"),
                "sha256": taken.end.get("sha256"), "secrets": if self.passphrase_file.is_some() { "sealed" } else { "left_out" },
                "public_key": taken.signer,
            }));
        }
        output::line(&format!("{} lines, {} bytes written to {}.", taken.lines, taken.bytes, path.display()))?;
        if self.passphrase_file.is_none() {
            output::line(
                "Secrets were left out: what needs them arrives paused or disabled. --passphrase-file seals them into the file.",
            )?;
        }
        output::line("Password hashes and digests of API keys are in it: keep it as you keep the installation.")?;
        output::line(&format!(
            "It is signed by this installation. Another one imports it with --trusted-key {}",
            taken.signer.as_deref().unwrap_or_default()
        ))
    }
}

fn remove(path: &Path) {
    // What is there is a part of an export, which is of no use; why it is one is told already.
    drop(std::fs::remove_file(path));
}

async fn ask(socket: &Path, path: &str, order: &Value) -> Result<Incoming, Failure> {
    let stream = UnixStream::connect(socket).await.map_err(|error| client::connect_failure(socket, &error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let request = Request::builder().method(Method::POST).uri(path).header("host", "localhost");
    let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(order.to_string())));
    let response = sender.send_request(request.map_err(broken)?).await.map_err(broken)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response.into_body());
    }
    let body = response.into_body().collect().await.map_err(broken)?.to_bytes();
    Err(client::problem_failure(status, &serde_json::from_slice(&body).unwrap_or_default()))
}

/// What was written.
struct Taken {
    bytes: u64,
    lines: u64,
    /// The line behind the last record.
    end: Value,
    /// The public key that the first line names.
    signer: Option<String>,
}

/// Writes the stream as it comes. Only the first line and the last two are looked at: the end and its signature say that all came.
async fn take(mut body: Incoming, out: &mut impl Write, bar: &ProgressBar) -> Result<Taken, Failure> {
    let (mut bytes, mut lines, mut signer) = (0, 0, None);
    let (mut before, mut last, mut line) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let cut = |error: hyper::Error| Failure::Failed(format!("the export was cut off: {error}"));
        let Ok(piece) = frame.map_err(cut)?.into_data() else { continue };
        out.write_all(&piece).map_err(|error| error.to_string())?;
        bytes += piece.len() as u64;
        bar.inc(piece.len() as u64);
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.ends_with(b"\n") {
                lines += 1;
                before = std::mem::replace(&mut last, std::mem::take(&mut line));
                if lines == 1 {
                    signer = parse(&last).get("signer").and_then(Value::as_str).map(str::to_owned);
                }
            }
        }
    }
    out.flush().map_err(|error| error.to_string())?;
    let (end, signature) = (parse(&before), parse(&last));
    let is = |line: &Value, wanted: &str| line.get("type").is_some_and(|kind| kind == wanted);
    if !is(&end, "end") || !is(&signature, "signature") || !line.is_empty() {
        return Err(Failure::Failed("the export was cut off: export it again".to_owned()));
    }
    Ok(Taken { bytes, lines, end, signer })
}

fn parse(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap_or_default()
}
