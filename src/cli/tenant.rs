//! `tenantd tenant`: manages tenants, on the running server or offline.

use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use tenantd_base::{
    clock::{Clock, Timestamp},
    quotas::Quota,
};

use super::{
    Common, Failure,
    client::{Client, OfflineArgs},
    output,
};

#[derive(Debug, Args)]
pub(super) struct TenantCommand {
    #[command(flatten)]
    args: OfflineArgs,
    #[command(subcommand)]
    command: Tenant,
}

#[derive(Debug, Subcommand)]
enum Tenant {
    /// Create a tenant.
    Create {
        /// The display name of the tenant.
        name: String,
        /// The short name in commands. Default: derived from the name.
        #[arg(long)]
        slug: Option<String>,
        #[command(flatten)]
        sample: Sample,
    },
    /// List all tenants.
    List,
    /// Show a tenant.
    Show {
        /// The id or slug of the tenant.
        tenant: String,
    },
    /// Suspend a tenant: refuse its requests and stop its workflows and deliveries until you resume it.
    Suspend {
        /// The id or slug of the tenant.
        tenant: String,
    },
    /// Resume a suspended tenant.
    Resume {
        /// The id or slug of the tenant.
        tenant: String,
    },
    /// Show the usage of a tenant, and change its limits.
    Quotas {
        /// The id or slug of the tenant.
        tenant: String,
        /// Set a limit for this tenant, such as records=50000. You can repeat this flag.
        #[arg(long, value_name = "QUOTA=LIMIT", value_parser = limit)]
        set: Vec<(String, u64)>,
        /// Reset a quota to the limit of the installation. You can repeat this flag.
        #[arg(long, value_name = "QUOTA")]
        reset: Vec<String>,
    },
    /// Reset an evaluation tenant to its initial sample data. Its password and its API key keep working.
    Reset {
        /// The id or slug of the tenant.
        tenant: String,
    },
    /// Delete a tenant and all of its data permanently.
    Delete {
        /// The id or slug of the tenant.
        tenant: String,
        /// The slug of the tenant, to confirm the deletion.
        #[arg(long, value_name = "SLUG", required_unless_present = "yes")]
        confirm: Option<String>,
        /// Delete without confirmation.
        #[arg(long, conflicts_with = "confirm")]
        yes: bool,
        /// Do not wait until all data is deleted. A stopped server deletes it after its next start.
        #[arg(long)]
        no_wait: bool,
    },
}

/// The options of an evaluation tenant and its sample data.
#[derive(Debug, Args)]
struct Sample {
    /// Create an evaluation tenant with sample data.
    #[arg(long)]
    evaluation: bool,
    /// The seed of the sample data. A different seed generates different data.
    #[arg(long, value_name = "NUMBER", requires = "evaluation")]
    seed: Option<u32>,
    /// The number of organizations.
    #[arg(long, value_name = "COUNT", requires = "evaluation")]
    organizations: Option<u32>,
    /// The number of devices of all organizations together.
    #[arg(long, value_name = "COUNT", requires = "evaluation")]
    devices: Option<u32>,
    /// The number of tickets.
    #[arg(long, value_name = "COUNT", requires = "evaluation")]
    tickets: Option<u32>,
    /// The number of days until the tenant is deleted automatically.
    #[arg(long, value_name = "DAYS", requires = "evaluation")]
    expires_days: Option<u32>,
    /// The time at which the sample data ends, such as 2026-01-31T12:00:00Z. The same numbers, slug and time generate the same
    /// records with the same ids.
    #[arg(long, value_name = "TIME", requires = "evaluation")]
    at: Option<String>,
}

/// The interval at which a waiting command polls the server.
const POLL: Duration = Duration::from_millis(200);

const EVALUATION_FIELDS: [(&str, &str); 7] = [
    ("id", "/tenant/id"),
    ("slug", "/tenant/slug"),
    ("expires at", "/tenant/expires_at"),
    ("days left", "/tenant/days_left"),
    ("sign in as", "/email"),
    ("password", "/password"),
    ("API key", "/api_key"),
];

const FIELDS: [(&str, &str); 11] = [
    ("id", "/id"),
    ("name", "/name"),
    ("slug", "/slug"),
    ("kind", "/kind"),
    ("status", "/status"),
    ("created at", "/created_at"),
    ("expires at", "/expires_at"),
    ("days left", "/days_left"),
    ("current time", "/clock/now"),
    ("events", "/activity/events"),
    ("last event", "/activity/last_event_at"),
];

impl TenantCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let needs_server = matches!(&self.command, Tenant::Reset { .. })
            || matches!(&self.command, Tenant::Create { sample, .. } if sample.evaluation);
        if self.args.offline && needs_server {
            return Err(Failure::Usage(
                "the sample data of an evaluation tenant needs the running server: leave out --offline".to_owned(),
            ));
        }
        let client = Client::connect(common, self.args).await?;
        self.command.run(&client, common).await
    }
}

impl Tenant {
    async fn run(self, client: &Client, common: &Common) -> Result<(), Failure> {
        let tenant = match self {
            Self::List => return list(client, common.json).await,
            Self::Create { name, slug, sample } if sample.evaluation => {
                return evaluate(client, common.json, &name, slug.as_deref(), &sample).await;
            }
            Self::Create { name, slug, .. } => {
                client.post("/api/platform/tenants", Some(&present([("name", json!(name)), ("slug", json!(slug))]))).await?
            }
            Self::Reset { tenant } => {
                let path = path(client, &tenant, "").await?;
                client.post(&format!("{path}/reset"), None).await?;
                with_days_left(until_ready(client, &path).await?)
            }
            Self::Show { tenant } => with_days_left(client.get(&path(client, &tenant, "").await?).await?),
            Self::Suspend { tenant } => client.post(&path(client, &tenant, "/suspend").await?, None).await?,
            Self::Resume { tenant } => client.post(&path(client, &tenant, "/resume").await?, None).await?,
            Self::Quotas { tenant, set, reset } => return quotas(client, common.json, &tenant, set, &reset).await,
            Self::Delete { tenant, confirm, no_wait, .. } => {
                return delete(client, common.json, &tenant, confirm, !no_wait && !client.is_offline()).await;
            }
        };
        if common.json { output::json(&tenant) } else { output::record(&tenant, &FIELDS) }
    }
}

/// Parses `QUOTA=LIMIT`.
fn limit(text: &str) -> Result<(String, u64), String> {
    let (quota, limit) = text.split_once('=').ok_or("expected QUOTA=LIMIT, such as records=50000")?;
    let limit = limit.parse().map_err(|error| format!("{limit} is not a valid limit: {error}"))?;
    known_quota(quota).map(|quota| (quota.to_owned(), limit))
}

fn known_quota(name: &str) -> Result<&str, String> {
    if Quota::parse(name).is_some() {
        return Ok(name);
    }
    Err(format!("there is no quota {name}; the quotas are {}", Quota::NAMES.join(", ")))
}

/// Changes the limits of a tenant if requested, and prints its quotas.
async fn quotas(client: &Client, as_json: bool, tenant: &str, set: Vec<(String, u64)>, reset: &[String]) -> Result<(), Failure> {
    for name in reset {
        known_quota(name).map_err(Failure::Usage)?;
    }
    let path = path(client, tenant, "/quotas").await?;
    let mut shown = client.get(&path).await?;
    if !set.is_empty() || !reset.is_empty() {
        let rows = shown.pointer("/quotas").and_then(Value::as_array).into_iter().flatten();
        let own = rows.filter(|row| row["own_limit"] == true).map(|row| (output::text(row, "/quota"), row["limit"].clone()));
        let mut limits: serde_json::Map<String, Value> = own.filter(|(name, _)| !reset.contains(name)).collect();
        limits.extend(set.into_iter().map(|(name, limit)| (name, json!(limit))));
        shown = client.put(&path, &Value::Object(limits)).await?;
    }
    if as_json {
        return output::json(&shown);
    }
    let rows = shown.pointer("/quotas").and_then(Value::as_array).cloned().unwrap_or_default();
    output::table(
        &rows,
        &[("QUOTA", "/quota"), ("USED", "/used"), ("LIMIT", "/limit"), ("PERCENT", "/percent"), ("STATUS", "/status")],
    )
}

async fn path(client: &Client, tenant: &str, action: &str) -> Result<String, Failure> {
    Ok(format!("/api/platform/tenants/{}{action}", client.tenant_id(tenant).await?))
}

/// An object with the fields that are not null.
fn present<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Creates an evaluation tenant, waits until it has its sample data, and prints its credentials.
async fn evaluate(client: &Client, as_json: bool, name: &str, slug: Option<&str>, sample: &Sample) -> Result<(), Failure> {
    let spec = present([
        ("seed", json!(sample.seed)),
        ("organizations", json!(sample.organizations)),
        ("devices", json!(sample.devices)),
        ("tickets", json!(sample.tickets)),
        ("at", json!(sample.at)),
    ]);
    let body =
        present([("name", json!(name)), ("slug", json!(slug)), ("expires_days", json!(sample.expires_days)), ("sample", spec)]);
    let mut made = client.post("/api/platform/evaluations", Some(&body)).await?;
    let path = format!("/api/platform/tenants/{}", output::text(&made, "/tenant/id"));
    let tenant = until_ready(client, &path).await?;
    if let Some(made) = made.as_object_mut() {
        made.insert("tenant".to_owned(), with_days_left(tenant));
    }
    if as_json {
        return output::json(&made);
    }
    output::record(&made, &EVALUATION_FIELDS)?;
    output::line("\nThe password and the API key are not shown again.")
}

/// Waits until a tenant has its sample data, and shows the progress on standard error.
async fn until_ready(client: &Client, path: &str) -> Result<Value, Failure> {
    let bar = ProgressBar::new_spinner();
    loop {
        let tenant = client.get(path).await?;
        if !matches!(tenant.get("status").and_then(Value::as_str), Some("preparing" | "filling")) {
            bar.finish_and_clear();
            return Ok(tenant);
        }
        bar.set_message(format!("creating the sample data: {} events so far", output::text(&tenant, "/activity/events")));
        bar.tick();
        tokio::time::sleep(POLL).await;
    }
}

/// Adds the number of whole days until an evaluation tenant is deleted.
fn with_days_left(mut tenant: Value) -> Value {
    let end = tenant.get("expires_at").and_then(Value::as_str).and_then(Timestamp::parse);
    if let (Some(end), Some(fields)) = (end, tenant.as_object_mut()) {
        fields.insert("days_left".to_owned(), json!(end.since(Clock::System.now()).as_secs() / 86_400));
    }
    tenant
}

async fn delete(client: &Client, as_json: bool, tenant: &str, confirm: Option<String>, wait: bool) -> Result<(), Failure> {
    let path = path(client, tenant, "").await?;
    let known = client.get(&path).await?;
    let slug = confirm.unwrap_or_else(|| output::text(&known, "/slug"));
    let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("confirm", &slug).finish();
    let deleting = client.delete(&format!("{path}?{query}")).await?;
    if !wait {
        return if as_json { output::json(&deleting) } else { output::record(&deleting, &FIELDS) };
    }
    let id = output::text(&known, "/id");
    while client.has(&path).await? {
        tokio::time::sleep(POLL).await;
    }
    if as_json {
        return output::json(&json!({"id": id, "slug": slug, "deleted": true}));
    }
    output::line(&format!("Deleted the tenant {slug} ({id}) and all of its data."))
}

async fn list(client: &Client, as_json: bool) -> Result<(), Failure> {
    let mut tenants: Vec<Value> = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let cursor = next.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = client.get(&format!("/api/platform/tenants?limit=200{cursor}")).await?;
        tenants.extend(page.get("data").and_then(Value::as_array).into_iter().flatten().cloned());
        next = page.pointer("/page/next_cursor").and_then(Value::as_str).map(str::to_owned);
        if next.is_none() {
            break;
        }
    }
    if as_json {
        return output::json(&json!({"data": tenants}));
    }
    output::table(&tenants, &[("ID", "/id"), ("SLUG", "/slug"), ("KIND", "/kind"), ("STATUS", "/status"), ("NAME", "/name")])
}
