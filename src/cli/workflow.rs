//! `tenantd workflow`: lists and disables workflows of a tenant that harm the installation.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{
    Common, Failure,
    client::{Client, OfflineArgs},
    output,
};

#[derive(Debug, Args)]
pub(super) struct WorkflowCommand {
    #[command(flatten)]
    args: OfflineArgs,
    #[command(subcommand)]
    command: Workflow,
}

#[derive(Debug, Subcommand)]
enum Workflow {
    /// List the workflows of a tenant, without their definitions.
    List {
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
    },
    /// Disable a workflow, so that events, schedules and users cannot start it. Runs in progress continue.
    Disable {
        /// The id of the workflow.
        id: String,
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
    },
}

async fn path(client: &Client, tenant: &str) -> Result<String, Failure> {
    Ok(format!("/internal/admin/tenants/{}/workflows", client.tenant_id(tenant).await?))
}

impl WorkflowCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::connect(common, self.args).await?;
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
