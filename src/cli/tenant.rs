//! `tenantd tenant`: tenants of the running server.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Common, Failure, client::Client, output};

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
}

const FIELDS: [(&str, &str); 9] = [
    ("id", "/id"),
    ("name", "/name"),
    ("slug", "/slug"),
    ("kind", "/kind"),
    ("status", "/status"),
    ("created at", "/created_at"),
    ("its time", "/clock/now"),
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
            Self::Show { tenant } => client.get(&path(&client, &tenant, "").await?).await?,
            Self::Suspend { tenant } => client.post(&path(&client, &tenant, "/suspend").await?, None).await?,
            Self::Resume { tenant } => client.post(&path(&client, &tenant, "/resume").await?, None).await?,
        };
        if common.json { output::json(&tenant) } else { output::record(&tenant, &FIELDS) }
    }
}

async fn path(client: &Client, tenant: &str, action: &str) -> Result<String, Failure> {
    Ok(format!("/api/platform/tenants/{}{action}", client.tenant_id(tenant).await?))
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
