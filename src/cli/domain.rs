//! `tenantd domain`: approves mail domains of tenants, on the running server or offline.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{
    Common, Failure,
    client::{Client, OfflineArgs},
    output,
};

#[derive(Debug, Args)]
pub(super) struct DomainCommand {
    #[command(flatten)]
    args: OfflineArgs,
    #[command(subcommand)]
    command: Domain,
}

#[derive(Debug, Subcommand)]
enum Domain {
    /// Approve a mail domain for the identity provider of a tenant, without a DNS record.
    Approve {
        /// The mail domain, such as acme.com.
        domain: String,
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
        /// The id of the identity provider. Required if the tenant has several and none of them claims the domain.
        #[arg(long, value_name = "ID")]
        provider: Option<String>,
    },
}

impl DomainCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::connect(common, self.args).await?;
        let Domain::Approve { domain, tenant, provider } = self.command;
        let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let mut path = format!("/internal/admin/tenants/{}/domains/{}/approve", client.tenant_id(&tenant).await?, encode(&domain));
        if let Some(provider) = provider {
            path = format!("{path}?identity_provider_id={}", encode(&provider));
        }
        let provider = client.post(&path, None).await?;
        if common.json {
            return output::json(&provider);
        }
        output::record(&provider, &[("identity provider", "/name"), ("id", "/id")])?;
        for claim in provider.get("domain_claims").and_then(Value::as_array).into_iter().flatten() {
            let state = if claim.get("proven").is_some_and(|proven| proven == true) { "proven" } else { "not proven" };
            output::line(&format!("{}: {state}", output::text(claim, "/domain")))?;
        }
        Ok(())
    }
}
