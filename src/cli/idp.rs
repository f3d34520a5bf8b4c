//! `tenantd idp`: lifts enforced single sign-on of a tenant, on the running server or offline.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{
    Common, Failure,
    client::{Client, OfflineArgs},
    output,
};

#[derive(Debug, Args)]
pub(super) struct IdpCommand {
    #[command(flatten)]
    args: OfflineArgs,
    #[command(subcommand)]
    command: Idp,
}

#[derive(Debug, Subcommand)]
enum Idp {
    /// Lift enforced single sign-on, so that staff of a tenant can sign in with their passwords again.
    Relax {
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
        /// The id of the identity provider. When absent, all providers of the tenant.
        #[arg(long, value_name = "ID")]
        provider: Option<String>,
    },
}

impl IdpCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::connect(common, self.args).await?;
        let Idp::Relax { tenant, provider } = self.command;
        let mut path = format!("/internal/admin/tenants/{}/identity-providers/relax", client.tenant_id(&tenant).await?);
        if let Some(provider) = provider {
            let provider: String = form_urlencoded::byte_serialize(provider.as_bytes()).collect();
            path = format!("{path}?identity_provider_id={provider}");
        }
        let relaxed = client.post(&path, None).await?;
        if common.json {
            return output::json(&relaxed);
        }
        let providers = relaxed.get("identity_providers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if providers.is_empty() {
            return output::line("no provider of the tenant enforces single sign-on");
        }
        for provider in providers {
            output::line(&format!("{}: no longer enforced", output::text(provider, "/name")))?;
        }
        Ok(())
    }
}
