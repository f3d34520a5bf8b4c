//! `tenantd domain`: the operator's word for mail domains of tenants, on the running server or on one that is stopped.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{
    Common, Failure,
    client::{Client, Reach},
    output,
};

#[derive(Debug, Args)]
pub(super) struct DomainCommand {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Domain,
}

#[derive(Debug, Subcommand)]
enum Domain {
    /// Let a tenant's identity provider answer for a domain, without a record in DNS.
    Approve {
        /// Such as acme.com.
        domain: String,
        /// The tenant's id or slug.
        #[arg(long)]
        tenant: String,
        /// The identity provider's id. Needed if none of them claims the domain and the tenant has several.
        #[arg(long, value_name = "ID")]
        provider: Option<String>,
    },
}

impl DomainCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::reach(common, self.reach).await?;
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
