//! `tenantd init`: creates the installation as the first start does, without starting the server.

use std::io::Read;

use clap::Args;

use tenantd_base::{clock::Clock, secrets::Secret};
use tenantd_store::DataDirectory;

use super::{Common, Failure, output};
use crate::app::{self, App, Operator};

#[derive(Debug, Args)]
pub(super) struct Init {
    /// The email address of the first operator. Default: operator@localhost.localdomain.
    #[arg(long, value_name = "EMAIL")]
    operator_email: Option<String>,
    /// Read the password of the operator from standard input. Default: write a random password to a file.
    #[arg(long)]
    password_stdin: bool,
}

impl Init {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let config = common.settings(&[])?;
        let password = if self.password_stdin { Some(read_secret()?) } else { None };
        let random = password.is_none();
        let default = Operator::default();
        let operator = Operator { email: self.operator_email.unwrap_or(default.email), password };
        let email = operator.email.clone();
        let data = DataDirectory::lock(&config.data.directory).map_err(|error| error.to_string())?;
        app::prepare_installation(&config, &data).map_err(|error| error.to_string())?;
        let directory = data.path().to_owned();
        drop(App::open(config, data, Clock::System, operator, None).await?);
        let shown = directory.display();
        if common.json {
            return output::json(&serde_json::json!({"data_directory": shown.to_string(), "operator_email": email}));
        }
        output::line(&format!("Created the installation in {shown}. Its operator is {email}."))?;
        if random {
            output::line(&format!(
                "The password is in {shown}/initial-operator-password and works for 72 hours. Sign in, change it in your profile, and \
                 remove the file."
            ))?;
        }
        output::line(&format!(
            "Keep a copy of {shown}/installation.key in a safe place, separate from backups. Without it, backups are useless."
        ))
    }
}

/// Reads a secret from the first line of standard input.
pub(super) fn read_secret() -> Result<Secret, Failure> {
    let mut text = String::new();
    std::io::stdin().take(4096).read_to_string(&mut text).map_err(|error| Failure::Failed(error.to_string()))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(Failure::Failed("standard input contains no password".to_owned()));
    }
    Ok(Secret::new(line))
}
