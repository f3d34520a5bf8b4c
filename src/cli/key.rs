//! `tenantd key`: API keys of a tenant of the running server, or of one that is stopped.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    Common, Failure,
    client::{Client, Reach},
    output,
};

#[derive(Debug, Args)]
pub(super) struct KeyCommand {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Key,
}

#[derive(Debug, Subcommand)]
enum Key {
    /// Create an API key and print its plaintext, this once.
    Create {
        /// A label for people.
        name: String,
        /// The tenant's id or slug.
        #[arg(long)]
        tenant: String,
        /// What the key allows, such as tickets:read. Repeat it for several scopes; `*` stands for all.
        #[arg(long = "scope", value_name = "SCOPE", required = true)]
        scopes: Vec<String>,
        /// Days until the key ends.
        #[arg(long, value_name = "DAYS")]
        expires_days: Option<u32>,
    },
    /// List the API keys of a tenant.
    List {
        /// The tenant's id or slug.
        #[arg(long)]
        tenant: String,
    },
    /// Revoke an API key at once.
    Revoke {
        /// The key's id.
        id: String,
        /// The tenant's id or slug.
        #[arg(long)]
        tenant: String,
    },
}

async fn path(client: &Client, tenant: &str) -> Result<String, Failure> {
    Ok(format!("/internal/admin/tenants/{}/api-keys", client.tenant_id(tenant).await?))
}

impl KeyCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::reach(common, self.reach).await?;
        let (key, fields) = match self.command {
            Key::List { tenant } => return list(&client, &tenant, common.json).await,
            Key::Create { name, tenant, scopes, expires_days } => {
                let mut body = json!({"name": name, "scopes": scopes});
                if let (Some(days), Some(body)) = (expires_days, body.as_object_mut()) {
                    body.insert("expires_days".to_owned(), json!(days));
                }
                let key = client.post(&path(&client, &tenant).await?, Some(&body)).await?;
                (key, vec![("id", "/id"), ("name", "/name"), ("scopes", "/scopes"), ("expires at", "/expires_at"), ("key", "/key")])
            }
            Key::Revoke { id, tenant } => {
                let key = client.delete(&format!("{}/{id}", path(&client, &tenant).await?)).await?;
                (key, vec![("id", "/id"), ("name", "/name"), ("status", "/status"), ("revoked at", "/revoked_at")])
            }
        };
        if common.json { output::json(&key) } else { output::record(&key, &fields) }
    }
}

async fn list(client: &Client, tenant: &str, as_json: bool) -> Result<(), Failure> {
    let keys = client.get(&path(client, tenant).await?).await?;
    if as_json {
        return output::json(&keys);
    }
    let rows: Vec<Value> = keys.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
    output::table(
        &rows,
        &[
            ("ID", "/id"),
            ("NAME", "/name"),
            ("STATUS", "/status"),
            ("SCOPES", "/scopes"),
            ("EXPIRES", "/expires_at"),
            ("LAST USED", "/last_used_at"),
        ],
    )
}
