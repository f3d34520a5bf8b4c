//! `tenantd tenant`: tenants of the running server.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Common, Failure, client::Client, output};
use crate::kernel::clock::{Clock, Timestamp};

#[derive(Debug, Subcommand)]
pub(super) enum Tenant {
    /// Create a tenant.
    Create {
        /// The customer's name.
        name: String,
        /// A short name for commands; made from the name when absent.
        #[arg(long)]
        slug: Option<String>,
    },
    /// List all tenants.
    List,
    /// Show a tenant.
    Show {
        /// Its id or slug.
        tenant: String,
    },
    /// Refuse every request of a tenant until it is resumed.
    Suspend {
        /// Its id or slug.
        tenant: String,
    },
    /// Let a suspended tenant go on.
    Resume {
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
        /// Do not wait until everything is gone.
        #[arg(long)]
        no_wait: bool,
    },
}

/// How often a command that waits asks how far the server is.
const POLL: Duration = Duration::from_millis(200);

const FIELDS: [(&str, &str); 10] = [
    ("id", "/id"),
    ("name", "/name"),
    ("slug", "/slug"),
    ("kind", "/kind"),
    ("status", "/status"),
    ("created at", "/created_at"),
    ("expires at", "/expires_at"),
    ("days left", "/days_left"),
    ("events", "/activity/events"),
    ("last event", "/activity/last_event_at"),
];

impl Tenant {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::new(common)?;
        let tenant = match self {
            Self::List => return list(&client, common.json).await,
            Self::Create { name, slug } => {
                let mut body = json!({"name": name});
                if let (Some(slug), Some(body)) = (slug, body.as_object_mut()) {
                    body.insert("slug".to_owned(), json!(slug));
                }
                client.post("/api/platform/tenants", Some(&body)).await?
            }
            Self::Show { tenant } => with_days_left(client.get(&path(&client, &tenant, "").await?).await?),
            Self::Suspend { tenant } => client.post(&path(&client, &tenant, "/suspend").await?, None).await?,
            Self::Resume { tenant } => client.post(&path(&client, &tenant, "/resume").await?, None).await?,
            Self::Delete { tenant, confirm, no_wait, .. } => {
                return delete(&client, common.json, &tenant, confirm, !no_wait).await;
            }
        };
        if common.json { output::json(&tenant) } else { output::record(&tenant, &FIELDS) }
    }
}

async fn path(client: &Client, tenant: &str, action: &str) -> Result<String, Failure> {
    Ok(format!("/api/platform/tenants/{}{action}", client.tenant_id(tenant).await?))
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
