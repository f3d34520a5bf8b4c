//! `tenantd key`: manages API keys of a tenant, on the running server or offline.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    Common, Failure,
    client::{Client, OfflineArgs},
    output,
};

#[derive(Debug, Args)]
pub(super) struct KeyCommand {
    #[command(flatten)]
    args: OfflineArgs,
    #[command(subcommand)]
    command: Key,
}

#[derive(Debug, Subcommand)]
enum Key {
    /// Create an API key and print it. It is not shown again.
    Create {
        /// The display name of the key.
        name: String,
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
        /// A scope of the key, such as tickets:read, or `*` for all scopes. You can repeat this flag.
        #[arg(long = "scope", value_name = "SCOPE", required = true)]
        scopes: Vec<String>,
        /// The number of days until the key expires. Default: `api_keys.default_expires_days`.
        #[arg(long, value_name = "DAYS")]
        expires_days: Option<u32>,
    },
    /// List the API keys of a tenant.
    List {
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
    },
    /// Revoke an API key immediately.
    Revoke {
        /// The id of the key.
        id: String,
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
    },
}

async fn path(client: &Client, tenant: &str) -> Result<String, Failure> {
    Ok(format!("/internal/admin/tenants/{}/api-keys", client.tenant_id(tenant).await?))
}

impl KeyCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::connect(common, self.args).await?;
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
