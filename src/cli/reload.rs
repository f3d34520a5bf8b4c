//! `tenantd reload`: reloads the configuration of the running server, and prints the errors if that fails.

use clap::Args;

use super::{Common, Failure, client::Client, output};

#[derive(Debug, Args)]
pub(super) struct Reload;

impl Reload {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let done = Client::new(common)?.post("/internal/admin/reload", None).await?;
        if common.json {
            return output::json(&done);
        }
        output::line("The server has reloaded its settings.")?;
        match output::text(&done, "/needs_restart").as_str() {
            "" => Ok(()),
            keys => output::line(&format!("Restart the server to apply these: {keys}")),
        }
    }
}
