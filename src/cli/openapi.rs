//! `tenantd openapi`: prints the OpenAPI documents without a server.

use clap::Args;

use super::{Common, Failure, output};
use crate::app::{ingest_document, internal_document, public_document};

#[derive(Debug, Args)]
pub(super) struct Openapi {
    /// Print the document of the operations that only the admin socket serves.
    #[arg(long)]
    internal: bool,
    /// Print the document of the ingest API for agents and imports.
    #[arg(long, conflicts_with = "internal")]
    ingest: bool,
}

impl Openapi {
    pub(super) fn run(self, common: &Common) -> Result<(), Failure> {
        let config = common.settings(&[])?;
        let document = match (self.internal, self.ingest) {
            (true, _) => internal_document(&config),
            (_, true) => ingest_document(&config),
            _ => public_document(&config),
        }?;
        if common.json {
            return output::json(&document);
        }
        let text = serde_json::to_string_pretty(&document).map_err(|error| Failure::Failed(error.to_string()))?;
        output::line(&text)
    }
}
