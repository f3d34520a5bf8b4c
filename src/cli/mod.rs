//! The command line, with one file per command. Output is text for people, or JSON with `--json`. Errors go to standard error and
//! say what to do next. With `--json` they have the form `{"error": {"code", "exit_code", "message"}}`.
//!
//! Exit codes: 0 done, 1 failed, 2 invalid usage, 3 the server is not running, 4 denied.

mod audit;
mod backup;
mod backup_key;
mod browser;
mod check;
mod client;
mod clock;
mod compact;
mod completions;
mod config;
mod demo;
mod domain;
mod drill;
mod export;
mod idp;
mod import;
mod init;
mod key;
mod last_resort;
mod listen;
mod man;
mod offline;
mod offsite;
mod openapi;
mod output;
mod public_key;
mod reindex;
mod reload;
mod repair;
mod rotate_key;
mod serve;
mod support_bundle;
mod tenant;
mod upgrade;
mod user;
mod watchdog;
mod workflow;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

use tenantd_base::config::{Config, load};

/// The exit code for invalid arguments.
const USAGE: u8 = 2;

/// The failure of a command. It determines the exit code.
#[derive(Debug)]
pub enum Failure {
    Failed(String),
    /// Arguments that contradict each other or the file that they refer to.
    Usage(String),
    NotRunning(String),
    Denied(String),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NotRunning(_) => 3,
            Self::Denied(_) => 4,
        }
    }

    /// The code for scripts.
    fn name(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Usage(_) => "usage",
            Self::NotRunning(_) => "not_running",
            Self::Denied(_) => "denied",
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Failed(text) | Self::Usage(text) | Self::NotRunning(text) | Self::Denied(text) => text,
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

#[derive(Debug, Parser)]
#[command(name = "tenantd", version, about, long_about = None)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 invalid usage, 3 the server is not running, 4 denied.")]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// The flags of all commands.
#[derive(Debug, Args)]
struct Common {
    /// The configuration file. Default: /etc/tenantd/tenantd.toml, if it exists.
    #[arg(long, global = true, value_name = "FILE", env = "TENANTD_CONFIG")]
    config: Option<PathBuf>,
    /// The data directory. Default: `data.directory` of the configuration. `demo` uses a temporary directory by default.
    #[arg(long, global = true, value_name = "DIRECTORY", env = "TENANTD_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    json: bool,
}

impl Common {
    /// Loads the configuration from defaults, file, environment and `flags`.
    fn settings(&self, flags: &[(&str, String)]) -> Result<Config, Failure> {
        let mut flags = flags.to_vec();
        if let Some(directory) = &self.data_dir {
            flags.push(("data.directory", directory.display().to_string()));
        }
        let installed = PathBuf::from("/etc/tenantd/tenantd.toml");
        let file = self.config.clone().or_else(|| installed.exists().then_some(installed));
        load(file.as_deref(), std::env::vars(), &flags).map_err(|error| Failure::Failed(error.to_string()))
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try tenantd: run a new installation with sample data on loopback.
    #[command(after_help = "Examples:\n  tenantd demo --open\n  tenantd demo --data-dir ./demo --listen 127.0.0.1:9000")]
    Demo(demo::Demo),
    /// Run the server.
    #[command(
        after_help = "Examples:\n  tenantd serve --data-dir ./data --listen 127.0.0.1:8443\n  tenantd serve --config /etc/tenantd/tenantd.toml"
    )]
    Serve(serve::Serve),
    /// Reload the configuration of the running server: certificates, log level, limits, trusted proxies.
    Reload(reload::Reload),
    /// Create the installation in the data directory without starting the server.
    Init(init::Init),
    /// Manage tenants.
    #[command(
        after_help = "Examples:\n  tenantd tenant create Acme\n  tenantd tenant create Trial --evaluation --seed 7\n  tenantd tenant list"
    )]
    Tenant(tenant::TenantCommand),
    /// Advance the clock of an evaluation tenant.
    #[command(subcommand, after_help = "Example:\n  tenantd clock advance 3d --tenant trial")]
    Clock(clock::ClockCommand),
    /// Manage users of a tenant.
    #[command(
        after_help = "Examples:\n  tenantd user create ada@acme.example --tenant acme --role admin\n  tenantd user reset-password ada@acme.example"
    )]
    User(user::UserCommand),
    /// Manage API keys of a tenant.
    #[command(
        after_help = "Examples:\n  tenantd key create Reports --tenant acme --scope tickets:read --scope analytics:read\n  tenantd key list --tenant acme"
    )]
    Key(key::KeyCommand),
    /// Approve mail domains that tenants claim for single sign-on.
    Domain(domain::DomainCommand),
    /// Lift enforced single sign-on of a tenant.
    Idp(idp::IdpCommand),
    /// List and disable workflows of a tenant.
    Workflow(workflow::WorkflowCommand),
    /// Import organizations, contacts or devices, or an exported tenant.
    #[command(after_help = "Examples:\n  tenantd import devices.csv --kind device --tenant acme\n  tenantd import acme.ndjson")]
    Import(import::Import),
    /// Export a tenant to a file that another installation can import.
    #[command(after_help = "Example:\n  tenantd export --tenant acme --output acme.ndjson")]
    Export(export::Export),
    /// Print the public key that verifies signatures of this installation.
    PublicKey(public_key::PublicKeyCommand),
    /// Print the events of a tenant as a webhook receiver gets them.
    #[command(after_help = "Examples:\n  tenantd listen\n  tenantd listen --events 'ticket.*' --forward http://127.0.0.1:9000/")]
    Listen(listen::Listen),
    /// Write a consistent snapshot of the running server's store.
    #[command(after_help = "Examples:\n  tenantd backup /backups/today.snapshot\n  tenantd backup --directory /backups --keep 7")]
    Backup(backup::Backup),
    /// Create a key pair for off-site backups.
    BackupKey(backup_key::BackupKey),
    /// Restore a snapshot or an off-site backup into an empty data directory.
    #[command(
        after_help = "Example:\n  tenantd restore /backups/today.snapshot --data-dir ./restored --installation-key ./installation.key"
    )]
    Restore(backup::Restore),
    /// Test that a snapshot can be restored: restore, verify, open, time and remove it.
    Drill(drill::Drill),
    /// Verify every record and index of the store or of a snapshot.
    Check(check::Check),
    /// Show what an upgrade will do.
    #[command(subcommand)]
    Upgrade(upgrade::Upgrade),
    /// Verify that the audit is unchanged.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Rebuild the search index from the store.
    Reindex(reindex::Reindex),
    /// Repair a store with a damaged journal, without the lost changes.
    Repair(repair::Repair),
    /// Return the free space of the store file to the file system. The server must be stopped.
    Compact(compact::Compact),
    /// Replace the installation key with a new one.
    RotateKey(rotate_key::RotateKey),
    /// Write a support bundle with sizes, counts and settings. It contains no secrets and no tenant data.
    SupportBundle(support_bundle::SupportBundle),
    /// Print the OpenAPI document.
    Openapi(openapi::Openapi),
    /// Check and print the configuration.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print the completion script of a shell.
    Completions(completions::Completions),
    /// Print the manual page, or write all manual pages to a directory.
    Man(man::ManPages),
}

/// Runs the command of the process arguments.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let json = arguments.common.json;
    // Files that commands write contain records and secrets. Only manual pages are for all users.
    if !matches!(arguments.command, Command::Man(_)) {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::Failed(format!("cannot start the runtime: {error}")), json),
    };
    match runtime.block_on(dispatch(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, json),
    }
}

/// Prints the help or the version if requested, otherwise the errors of the arguments.
fn refuse(error: &clap::Error) -> ExitCode {
    let is_requested = !error.use_stderr();
    if !is_requested && std::env::args_os().any(|argument| argument == "--json") {
        return report_json("usage", USAGE, error.render().to_string().trim());
    }
    // A closed pipe is not an error.
    drop(error.print());
    if is_requested { ExitCode::SUCCESS } else { ExitCode::from(USAGE) }
}

async fn dispatch(arguments: Arguments) -> Result<(), Failure> {
    let common = arguments.common;
    match arguments.command {
        Command::Demo(command) => Box::pin(command.run(&common)).await,
        Command::Serve(command) => Box::pin(command.run(&common)).await,
        Command::Reload(command) => command.run(&common).await,
        Command::Init(command) => command.run(&common).await,
        Command::Tenant(command) => Box::pin(command.run(&common)).await,
        Command::Clock(command) => command.run(&common).await,
        Command::User(command) => Box::pin(command.run(&common)).await,
        Command::Key(command) => Box::pin(command.run(&common)).await,
        Command::Domain(command) => Box::pin(command.run(&common)).await,
        Command::Idp(command) => Box::pin(command.run(&common)).await,
        Command::Workflow(command) => Box::pin(command.run(&common)).await,
        Command::Import(command) => Box::pin(command.run(&common)).await,
        Command::Export(command) => command.run(&common).await,
        Command::PublicKey(command) => command.run(&common),
        Command::Listen(command) => command.run(&common).await,
        Command::Backup(command) => command.run(&common).await,
        Command::BackupKey(command) => command.run(&common),
        Command::Restore(command) => Box::pin(command.run(&common)).await,
        Command::Drill(command) => Box::pin(command.run(&common)).await,
        Command::Check(command) => command.run(&common).await,
        Command::Upgrade(command) => command.run(&common).await,
        Command::Audit(command) => command.run(&common).await,
        Command::Reindex(command) => command.run(&common).await,
        Command::Repair(command) => command.run(&common).await,
        Command::Compact(command) => command.run(&common).await,
        Command::RotateKey(command) => command.run(&common).await,
        Command::SupportBundle(command) => command.run(&common).await,
        Command::Openapi(command) => command.run(&common),
        Command::Config(command) => command.run(&common),
        Command::Completions(command) => command.run(&common),
        Command::Man(command) => command.run(&common),
    }
}

fn report(failure: &Failure, json: bool) -> ExitCode {
    if json {
        return report_json(failure.name(), failure.code(), failure.text());
    }
    print_error(&format!("tenantd: {}", failure.text()));
    ExitCode::from(failure.code())
}

/// Reports an error to scripts as one line of JSON.
fn report_json(name: &str, code: u8, message: &str) -> ExitCode {
    print_error(&serde_json::json!({"error": {"code": name, "exit_code": code, "message": message}}).to_string());
    ExitCode::from(code)
}

#[allow(clippy::print_stderr, reason = "errors of commands go to standard error")]
fn print_error(text: &str) {
    eprintln!("{text}");
}
