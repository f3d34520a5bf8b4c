//! `tenantd init`: what the first start would do, without serving.

use std::io::Read;

use clap::Args;

use tenantd_base::{clock::Clock, secrets::Secret};
use tenantd_store::DataDirectory;

use super::{Common, Failure, output};
use crate::app::{self, App, Operator};

#[derive(Debug, Args)]
pub(super) struct Init {
    /// The e-mail address of the first operator.
    #[arg(long, value_name = "EMAIL")]
    operator_email: Option<String>,
    /// Read the operator's password from standard input, in place of a random one in a file.
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
        output::line(&format!("The installation is in {shown}. Its operator is {email}."))?;
        if random {
            output::line(&format!("The password is in {shown}/initial-operator-password; remove the file once you have it."))?;
        }
        output::line(&format!("Keep {shown}/installation.key safe and apart from backups: without it they cannot be used."))
    }
}

/// A secret from standard input, up to the end of its first line.
pub(super) fn read_secret() -> Result<Secret, Failure> {
    let mut text = String::new();
    std::io::stdin().take(4096).read_to_string(&mut text).map_err(|error| Failure::Failed(error.to_string()))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(Failure::Failed("no password came from standard input".to_owned()));
    }
    Ok(Secret::new(line))
}
