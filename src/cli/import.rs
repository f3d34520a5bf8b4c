//! `tenantd import`: sends a file of organizations, contacts or devices to a running server, as a stream: a file of any size takes
//! the memory of a few pieces of it. Sending a file again is safe; what has not changed is left alone. A file that `tenantd export` has
//! written is told by its first line, and becomes a tenant.

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

/// How many failures are printed one by one.
const SHOWN_FAILURES: usize = 20;
/// Pieces of the file that wait to be sent.
const PIECES: usize = 4;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Organization,
    User,
    Device,
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// A CSV file with dotted headers such as os.family, or a file with one JSON object a line; - for standard input. Or the export of a
    /// whole tenant, which needs no other arguments.
    file: PathBuf,
    /// What the records are, where the file does not say so in a column or field named kind.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// How the file is written. Told by its name when absent; standard input is NDJSON.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The tenant's id or slug, to import over the admin socket of the server on this host.
    #[arg(long, conflicts_with = "url")]
    tenant: Option<String>,
    /// The address of a server, such as `https://ops.example.com`, to import with an API key that has the scope ingest:write.
    #[arg(long)]
    url: Option<String>,
    /// A file with the API key; else it is taken from the environment variable `TENANTD_API_KEY`.
    #[arg(long, value_name = "FILE", requires = "url")]
    api_key_file: Option<PathBuf>,
    /// A PEM file of the certificate authorities, or of the server's own certificate, to trust for https.
    #[arg(long, value_name = "FILE", requires = "url")]
    ca_file: Option<PathBuf>,
    /// For the export of a tenant: a short name for it here, in place of the one that it had.
    #[arg(long, conflicts_with_all = ["tenant", "url", "kind", "format"])]
    slug: Option<String>,
    /// For the export of a tenant: a file with the passphrase that its secrets are sealed under.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tenant", "url", "kind", "format"])]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    trust: tenant::TrustArgs,
}

impl Import {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if let Some(header) = tenant::header(&self.file)? {
            if self.tenant.is_some() || self.url.is_some() {
                let text = "this is the export of a whole tenant, which becomes a tenant of its own: leave out --tenant and --url";
                return Err(Failure::Usage(text.to_owned()));
            }
            let wanted = tenant::Wanted { slug: self.slug, passphrase_file: self.passphrase_file, trust: self.trust };
            return tenant::run(common, &self.file, &header, wanted).await;
        }
        if self.slug.is_some() || self.passphrase_file.is_some() || self.trust.is_given() {
            let text = "--slug, --passphrase-file, --trusted-key, --accept-unverified and --allow-evaluation are for the export of a \
                        tenant, which this is not";
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
        // A server that has stopped reading is the reason, and a reader that could not go on is its consequence.
        let answer = answer?;
        let read = reading.await.map_err(|error| Failure::Failed(error.to_string()))?;
        read?;
        tell(common, noun, &answer)
    }

    async fn target(&self, common: &Common) -> Result<Target, Failure> {
        if let Some(tenant) = &self.tenant {
            let id = Client::new(common)?.tenant_id(tenant).await?;
            let config = common.settings(&[])?;
            let target = format!("/internal/admin/tenants/{id}/ingest?answer=errors");
            return Ok(Target::Socket { path: admin_socket(&config.data.directory), target });
        }
        let missing = "name where to: --tenant for the server on this host, or --url for one elsewhere";
        let url = self.url.clone().ok_or_else(|| Failure::Usage(missing.to_owned()))?;
        Ok(Target::Server { url, key: self.api_key()?, ca_file: self.ca_file.clone() })
    }

    fn api_key(&self) -> Result<Secret, Failure> {
        if let Some(path) = &self.api_key_file {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            return Ok(Secret::new(text.trim()));
        }
        let missing = "no API key: name a file with --api-key-file, or set TENANTD_API_KEY";
        std::env::var("TENANTD_API_KEY").map(Secret::new).map_err(|_| Failure::Failed(missing.to_owned()))
    }
}

/// A bar on a terminal; nothing elsewhere.
pub(super) fn progress(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {bytes_per_sec}"),
    };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn tell(common: &Common, noun: &str, answer: &Answer) -> Result<(), Failure> {
    let Some(end) = &answer.end else {
        return Err(Failure::Failed(
            "the server's answer was cut off; what it had taken up stays. Import the file again".to_owned(),
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
    let mut text = stopped.map_or_else(|| format!("{failed} of the {noun}s were not taken up"), str::to_owned);
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
