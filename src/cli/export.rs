//! `tenantd export`: exports a tenant to a file that another installation can import. It streams the export to the file, and
//! removes an incomplete file.

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
    /// The id or slug of the tenant.
    #[arg(long)]
    tenant: String,
    /// The path of the new file, which must not exist yet. Default: standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A file with a passphrase that seals the secrets. Without it, secrets are left out, and records that need them are imported
    /// paused or disabled.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

/// Reads the passphrase from a file, without the line end.
pub(super) fn passphrase(path: &Path) -> Result<Secret, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(Failure::Failed(format!("{}: the file contains no passphrase", path.display())));
    }
    Ok(Secret::new(text))
}

/// Derives the key from a passphrase, in the format of the server.
pub(super) fn key_of(passphrase: &Secret, salt: &str) -> Result<Secret, Failure> {
    let bytes = HEXLOWER.decode(salt.as_bytes()).ok().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let salt = bytes.ok_or_else(|| Failure::Failed("the export's salt is not 32 hexadecimal digits".to_owned()))?;
    let key = InstallationKey::from_passphrase(passphrase, &salt)?;
    Ok(Secret::new(key.to_file().trim()))
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("the request to the server failed: {error}"))
}

impl Export {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let mut body = json!({});
        if let (Some(path), Some(body)) = (&self.passphrase_file, body.as_object_mut()) {
            let salt = HEXLOWER.encode(&Entropy::from_os().bytes::<16>());
            let key = key_of(&passphrase(path)?, &salt)?;
            body.insert("salt".to_owned(), json!(salt));
            body.insert("key".to_owned(), json!(key.expose()));
        }
        let id = Client::new(common)?.tenant_id(&self.tenant).await?;
        let socket = admin_socket(&common.settings(&[])?.data.directory);
        let stream = request_export(&socket, &format!("/internal/admin/tenants/{id}/export"), &body).await?;
        let Some(path) = &self.output else {
            let mut out = std::io::stdout();
            let bar = ProgressBar::hidden();
            return copy(stream, &mut out, &bar).await.map(drop);
        };
        let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let bar = progress(None);
        let written = copy(stream, &mut file, &bar).await;
        bar.finish_and_clear();
        let written = written.and_then(|written| file.sync_all().map_err(failed).map(|()| written));
        let written = written.inspect_err(|_| remove(path))?;
        if common.json {
            return output::json(&json!({
                "tenant_id": id, "file": path, "bytes": written.bytes, "lines": written.lines, "counts": written.end.get("counts"),
                "sha256": written.end.get("sha256"), "secrets": if self.passphrase_file.is_some() { "sealed" } else { "left_out" },
                "public_key": written.signer,
            }));
        }
        output::line(&format!("Wrote {} lines ({} bytes) to {}.", written.lines, written.bytes, path.display()))?;
        if self.passphrase_file.is_none() {
            output::line(
                "Secrets were left out, so records that need them are imported paused or disabled. To include secrets, use --passphrase-file.",
            )?;
        }
        output::line("The file contains password hashes and digests of API keys. Protect it like the installation.")?;
        output::line(&format!(
            "This installation signed the file. Import it into another installation with --trusted-key {}",
            written.signer.as_deref().unwrap_or_default()
        ))
    }
}

fn remove(path: &Path) {
    // An incomplete export is useless. The error that is already reported is more important than a failure here.
    drop(std::fs::remove_file(path));
}

async fn request_export(socket: &Path, path: &str, body: &Value) -> Result<Incoming, Failure> {
    let stream = UnixStream::connect(socket).await.map_err(|error| client::connect_failure(socket, &error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let request = Request::builder().method(Method::POST).uri(path).header("host", "localhost");
    let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body.to_string())));
    let response = sender.send_request(request.map_err(broken)?).await.map_err(broken)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response.into_body());
    }
    let body = response.into_body().collect().await.map_err(broken)?.to_bytes();
    Err(client::problem_failure(status, &serde_json::from_slice(&body).unwrap_or_default()))
}

/// The result of a complete export.
struct Written {
    bytes: u64,
    lines: u64,
    /// The line after the last record.
    end: Value,
    /// The public key in the first line.
    signer: Option<String>,
}

/// Copies the stream. Parses only the first line and the last two. The end line and its signature prove that the export is
/// complete.
async fn copy(mut body: Incoming, out: &mut impl Write, bar: &ProgressBar) -> Result<Written, Failure> {
    let (mut bytes, mut lines, mut signer) = (0, 0, None);
    let (mut before, mut last, mut line) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let cut = |error: hyper::Error| Failure::Failed(format!("the export was interrupted: {error}; export again"));
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
        return Err(Failure::Failed("the export is incomplete; export again".to_owned()));
    }
    Ok(Written { bytes, lines, end, signer })
}

fn parse(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap_or_default()
}
