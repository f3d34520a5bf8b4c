//! `tenantd import`: sends a file of organizations, contacts or devices to a running server. It streams the file, so memory use
//! does not depend on the file size. It is safe to send a file again: unchanged records stay unchanged. If the first line shows
//! that the file is an export of `tenantd export`, the import creates a tenant.

mod connection;
mod rows;
mod tenant;

use std::path::PathBuf;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use connection::{Answer, Target};
use rows::{Format, Rows};

use tenantd_base::secrets::Secret;

use super::{Common, Failure, client::Client, output};
use crate::app::admin_socket;

/// The maximum number of failures that are printed.
const SHOWN_FAILURES: usize = 20;
/// The maximum number of pieces of the file that wait to be sent.
const PIECES: usize = 4;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Organization,
    User,
    Device,
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file to import, or - for standard input: CSV with dotted headers such as os.family, NDJSON with one object per line, or
    /// an export of a whole tenant.
    file: PathBuf,
    /// The kind of records without a column or field named kind.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// The format of the file. Default: CSV if the name ends in .csv, otherwise NDJSON.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The id or slug of the tenant. Imports over the admin socket of the server on this host.
    #[arg(long, conflicts_with = "url")]
    tenant: Option<String>,
    /// The URL of a server, such as `https://ops.example.com`. Imports with an API key that has the scope ingest:write.
    #[arg(long)]
    url: Option<String>,
    /// A file with the API key. Default: the environment variable `TENANTD_API_KEY`.
    #[arg(long, value_name = "FILE", requires = "url")]
    api_key_file: Option<PathBuf>,
    /// A PEM file of certificate authorities to trust for https, or the certificate of the server itself.
    #[arg(long, value_name = "FILE", requires = "url")]
    ca_file: Option<PathBuf>,
    /// For an export of a tenant: the slug of the new tenant. Default: the slug in the export.
    #[arg(long, conflicts_with_all = ["tenant", "url", "kind", "format"])]
    slug: Option<String>,
    /// For an export of a tenant: a file with the passphrase that seals its secrets.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tenant", "url", "kind", "format"])]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    trust: tenant::TrustArgs,
}

impl Import {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if let Some(header) = tenant::header(&self.file)? {
            if self.tenant.is_some() || self.url.is_some() {
                let text = "this file is the export of a whole tenant and creates a new tenant: leave out --tenant and --url";
                return Err(Failure::Usage(text.to_owned()));
            }
            let options = tenant::ImportOptions { slug: self.slug, passphrase_file: self.passphrase_file, trust: self.trust };
            return tenant::run(common, &self.file, &header, options).await;
        }
        if self.slug.is_some() || self.passphrase_file.is_some() || self.trust.is_given() {
            let text = "--slug, --passphrase-file, --trusted-key, --accept-unverified and --allow-evaluation work only with the export of a \
                        tenant, and this file is not one: leave them out";
            return Err(Failure::Usage(text.to_owned()));
        }
        let target = self.target(common).await?;
        let kind = self.kind.and_then(|kind| kind.to_possible_value()).map(|kind| kind.get_name().to_owned());
        let rows = Rows::open(&self.file, self.format, kind)?;
        let (bar, noun) = (progress(rows.length()), rows.noun());
        let (sender, pieces) = mpsc::channel::<Bytes>(PIECES);
        let reading = tokio::task::spawn_blocking({
            let bar = bar.clone();
            move || rows.send(&sender, &bar)
        });
        let answer = target.send(pieces).await;
        bar.finish_and_clear();
        // If the server stopped reading, reading the file failed as a consequence. Report the server's error first.
        let answer = answer?;
        let read = reading.await.map_err(|error| Failure::Failed(error.to_string()))?;
        read?;
        print_summary(common, noun, &answer)
    }

    async fn target(&self, common: &Common) -> Result<Target, Failure> {
        if let Some(tenant) = &self.tenant {
            let id = Client::new(common)?.tenant_id(tenant).await?;
            let config = common.settings(&[])?;
            let target = format!("/internal/admin/tenants/{id}/ingest?answer=errors");
            return Ok(Target::Socket { path: admin_socket(&config.data.directory), target });
        }
        let missing = "specify the destination: --tenant for the server on this host, or --url for another server";
        let url = self.url.clone().ok_or_else(|| Failure::Usage(missing.to_owned()))?;
        Ok(Target::Server { url, key: self.api_key()?, ca_file: self.ca_file.clone() })
    }

    fn api_key(&self) -> Result<Secret, Failure> {
        if let Some(path) = &self.api_key_file {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            return Ok(Secret::new(text.trim()));
        }
        let missing = "no API key: specify a file with --api-key-file, or set TENANTD_API_KEY";
        std::env::var("TENANTD_API_KEY").map(Secret::new).map_err(|_| Failure::Failed(missing.to_owned()))
    }
}

/// A progress bar on a terminal. It is hidden elsewhere.
pub(super) fn progress(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {bytes_per_sec}"),
    };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn print_summary(common: &Common, noun: &str, answer: &Answer) -> Result<(), Failure> {
    let Some(end) = &answer.end else {
        return Err(Failure::Failed(
            "the response of the server is incomplete. The records that it imported are kept. Import the file again".to_owned(),
        ));
    };
    if common.json {
        let mut summary = end.clone();
        if let Some(summary) = summary.as_object_mut() {
            summary.remove("_end");
            summary.insert("failures".to_owned(), json!(answer.failures));
        }
        output::json(&summary)?;
    } else {
        let fields = [
            ("created", "/created"),
            ("updated", "/updated"),
            ("unchanged", "/unchanged"),
            ("removed", "/removed"),
            ("failed", "/failed"),
        ];
        output::record(end, &fields)?;
    }
    let failed = end.get("failed").and_then(Value::as_u64).unwrap_or(0);
    let stopped = end.pointer("/error/message").and_then(Value::as_str);
    if failed == 0 && stopped.is_none() {
        return Ok(());
    }
    let mut text = stopped.map_or_else(|| format!("{failed} of the {noun}s were not imported"), str::to_owned);
    for failure in &answer.failures {
        let (number, message) = (output::text(failure, "/line"), output::text(failure, "/error/message"));
        let place = failure.pointer("/error/pointer").and_then(Value::as_str).filter(|place| !place.is_empty());
        text.push_str(&format!("\n  {noun} {number}: {}{message}", place.map(|place| format!("{place}: ")).unwrap_or_default()));
    }
    if failed > answer.failures.len() as u64 {
        text.push_str("\n  …");
    }
    Err(Failure::Failed(text))
}
