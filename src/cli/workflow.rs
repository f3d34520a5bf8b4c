//! `tenantd workflow`: what an operator does about a workflow of a tenant that harms the installation.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{
    Common, Failure,
    client::{Client, Reach},
    output,
};

#[derive(Debug, Args)]
pub(super) struct WorkflowCommand {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Workflow,
}

#[derive(Debug, Subcommand)]
enum Workflow {
    /// List the workflows of a tenant, without their definitions.
    List {
        /// The tenant's id or slug.
        #[arg(long)]
        tenant: String,
    },
    /// Keep events, schedules and people from starting a workflow. Runs under way continue.
    Disable {
        /// The workflow's id.
        id: String,
        /// The tenant's id or slug.
        #[arg(long)]
        tenant: String,
    },
}

async fn path(client: &Client, tenant: &str) -> Result<String, Failure> {
    Ok(format!("/internal/admin/tenants/{}/workflows", client.tenant_id(tenant).await?))
}

impl WorkflowCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::reach(common, self.reach).await?;
        match self.command {
            Workflow::List { tenant } => {
                let found = client.get(&path(&client, &tenant).await?).await?;
                if common.json {
                    return output::json(&found);
                }
                let rows: Vec<Value> = found.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
                let columns = [
                    ("ID", "/id"),
                    ("KEY", "/key"),
                    ("ENABLED", "/enabled"),
                    ("EVENTS", "/events"),
                    ("NEXT RUN", "/next_run_at"),
                    ("NAME", "/name"),
                ];
                output::table(&rows, &columns)
            }
            Workflow::Disable { id, tenant } => {
                let workflow = client.post(&format!("{}/{id}/disable", path(&client, &tenant).await?), None).await?;
                if common.json {
                    return output::json(&workflow);
                }
                output::record(&workflow, &[("id", "/id"), ("key", "/key"), ("name", "/name"), ("enabled", "/enabled")])
            }
        }
    }
}
