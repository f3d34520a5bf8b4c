//! `tenantd config`: prints and validates the configuration.

use clap::Subcommand;

use super::{Common, Failure, output};

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Validate the configuration as the service does, and print every problem.
    Check,
    /// Print the effective configuration, from defaults, file and environment.
    Show,
}

impl ConfigCommand {
    pub(super) fn run(self, common: &Common) -> Result<(), Failure> {
        let config = common.settings(&[])?;
        match self {
            Self::Check if common.json => output::json(&serde_json::json!({"valid": true})),
            Self::Check => output::line("The configuration is valid."),
            Self::Show if common.json => {
                let value = serde_json::to_value(&config).map_err(|error| Failure::Failed(error.to_string()))?;
                output::json(&value)
            }
            Self::Show => output::line(toml::to_string(&config).map_err(|error| Failure::Failed(error.to_string()))?.trim_end()),
        }
    }
}
