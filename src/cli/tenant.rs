//! `tenantd tenant`: tenants of the running server, or of one that is stopped.

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
    client::{Client, Reach},
    output,
};

#[derive(Debug, Args)]
pub(super) struct TenantCommand {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Tenant,
}

#[derive(Debug, Subcommand)]
enum Tenant {
    /// Create a tenant.
    Create {
        /// The customer's name.
        name: String,
        /// A short name for commands; made from the name when absent.
        #[arg(long)]
        slug: Option<String>,
        #[command(flatten)]
        sample: Sample,
    },
    /// List all tenants.
    List,
    /// Show a tenant.
    Show {
        /// Its id or slug.
        tenant: String,
    },
    /// Refuse every request of a tenant, and stop its workflows and deliveries, until it is resumed.
    Suspend {
        /// Its id or slug.
        tenant: String,
    },
    /// Let a suspended tenant go on.
    Resume {
        /// Its id or slug.
        tenant: String,
    },
    /// Show what a tenant uses of its quotas, and set its limits.
    Quotas {
        /// Its id or slug.
        tenant: String,
        /// A limit for this tenant, such as records=50000. Can be given several times.
        #[arg(long, value_name = "QUOTA=LIMIT", value_parser = limit)]
        set: Vec<(String, u64)>,
        /// Give a quota the limit of the installation again. Can be given several times.
        #[arg(long, value_name = "QUOTA")]
        reset: Vec<String>,
    },
    /// Make an evaluation tenant what it was after its creation. Its sign-in and its API key go on working.
    Reset {
        /// Its id or slug.
        tenant: String,
    },
    /// Remove a tenant with everything that belongs to it, for good.
    Delete {
        /// Its id or slug.
        tenant: String,
        /// The tenant's slug once more, so that it is not another one.
        #[arg(long, value_name = "SLUG", required_unless_present = "yes")]
        confirm: Option<String>,
        /// Do not ask for the slug.
        #[arg(long, conflicts_with = "confirm")]
        yes: bool,
        /// Do not wait until everything is gone. A stopped server removes it after its next start.
        #[arg(long)]
        no_wait: bool,
    },
}

/// What an evaluation tenant is made from.
#[derive(Debug, Args)]
struct Sample {
    /// An evaluation tenant, filled with an invented story.
    #[arg(long)]
    evaluation: bool,
    /// Another number tells another story.
    #[arg(long, value_name = "NUMBER", requires = "evaluation")]
    seed: Option<u32>,
    /// Customers in the story.
    #[arg(long, value_name = "COUNT", requires = "evaluation")]
    organizations: Option<u32>,
    /// Devices of all customers.
    #[arg(long, value_name = "COUNT", requires = "evaluation")]
    devices: Option<u32>,
    /// Tickets of the story.
    #[arg(long, value_name = "COUNT", requires = "evaluation")]
    tickets: Option<u32>,
    /// Days until the tenant removes itself.
    #[arg(long, value_name = "DAYS", requires = "evaluation")]
    expires_days: Option<u32>,
    /// When the story ends, such as 2026-01-31T12:00:00Z. The same numbers, slug and time give the same records with the same ids.
    #[arg(long, value_name = "TIME", requires = "evaluation")]
    at: Option<String>,
}

/// How often a command that waits asks how far the server is.
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
    ("its time", "/clock/now"),
    ("events", "/activity/events"),
    ("last event", "/activity/last_event_at"),
];

impl TenantCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let needs_server = matches!(&self.command, Tenant::Reset { .. })
            || matches!(&self.command, Tenant::Create { sample, .. } if sample.evaluation);
        if self.reach.offline && needs_server {
            return Err(Failure::Usage("an evaluation tenant is filled by the running server: leave --offline out".to_owned()));
        }
        let client = Client::reach(common, self.reach).await?;
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
                until_ready(client, &path).await?
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

/// Reads `QUOTA=LIMIT`.
fn limit(text: &str) -> Result<(String, u64), String> {
    let (quota, limit) = text.split_once('=').ok_or("write QUOTA=LIMIT, such as records=50000")?;
    let limit = limit.parse().map_err(|error| format!("the limit {limit}: {error}"))?;
    known_quota(quota).map(|quota| (quota.to_owned(), limit))
}

fn known_quota(name: &str) -> Result<&str, String> {
    if Quota::parse(name).is_some() {
        return Ok(name);
    }
    Err(format!("there is no quota {name}; the quotas are {}", Quota::NAMES.join(", ")))
}

/// Shows the quotas of a tenant, after it has changed its limits if it is asked to.
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

/// An object of what is given.
fn present<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Creates an evaluation tenant, waits until it is filled, and tells what its visitor gets in with.
async fn evaluate(client: &Client, as_json: bool, name: &str, slug: Option<&str>, sample: &Sample) -> Result<(), Failure> {
    let story = present([
        ("seed", json!(sample.seed)),
        ("organizations", json!(sample.organizations)),
        ("devices", json!(sample.devices)),
        ("tickets", json!(sample.tickets)),
        ("at", json!(sample.at)),
    ]);
    let body =
        present([("name", json!(name)), ("slug", json!(slug)), ("expires_days", json!(sample.expires_days)), ("sample", story)]);
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

/// Waits until a tenant is filled, and shows on the error output how far that is.
async fn until_ready(client: &Client, path: &str) -> Result<Value, Failure> {
    let bar = ProgressBar::new_spinner();
    loop {
        let tenant = client.get(path).await?;
        if tenant.get("status").and_then(Value::as_str) != Some("preparing") {
            bar.finish_and_clear();
            return Ok(tenant);
        }
        bar.set_message(format!("filling the tenant: {} events so far", output::text(&tenant, "/activity/events")));
        bar.tick();
        tokio::time::sleep(POLL).await;
    }
}

/// Adds for how many whole days an evaluation tenant still is there.
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
    output::line(&format!("The tenant {slug} ({id}) and everything in it are gone."))
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
