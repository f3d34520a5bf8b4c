//! The command line, one file a command. Output is for people, or JSON with `--json`; errors go to standard error with what to do next,
//! with `--json` as `{"error": {"code", "exit_code", "message"}}`.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the server is not running, 4 denied.

mod audit;
mod backup;
mod backup_key;
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

/// The exit code for arguments that cannot be used.
const USAGE: u8 = 2;

/// Why a command ends with another code than 0.
#[derive(Debug)]
pub enum Failure {
    Failed(String),
    /// Arguments that do not go together, or not with the file that they name.
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

    /// The same for scripts.
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
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the server is not running, 4 denied.")]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command understands.
#[derive(Debug, Args)]
struct Common {
    /// The configuration file.
    #[arg(long, global = true, value_name = "FILE", env = "TENANTD_CONFIG")]
    config: Option<PathBuf>,
    /// The data directory, in place of the configured one.
    #[arg(long, global = true, value_name = "DIRECTORY", env = "TENANTD_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Print JSON for scripts.
    #[arg(long, global = true)]
    json: bool,
}

impl Common {
    /// The settings from defaults, file, environment and `flags`.
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
    /// Try tenantd: a fresh installation with an evaluation tenant, on loopback.
    #[command(after_help = "Examples:\n  tenantd demo\n  tenantd demo --data-dir ./demo --listen 127.0.0.1:9000")]
    Demo(demo::Demo),
    /// Run the service.
    #[command(
        after_help = "Examples:\n  tenantd serve --data-dir ./data --listen 127.0.0.1:8443\n  tenantd serve --config /etc/tenantd/tenantd.toml"
    )]
    Serve(serve::Serve),
    /// Let the running server take up its settings anew: certificates, log level, limits, trusted proxies.
    Reload(reload::Reload),
    /// Make the installation in the data directory without serving.
    Init(init::Init),
    /// Manage tenants.
    #[command(
        after_help = "Examples:\n  tenantd tenant create Acme\n  tenantd tenant create Trial --evaluation --seed 7\n  tenantd tenant list"
    )]
    Tenant(tenant::TenantCommand),
    /// Let time pass in an evaluation tenant.
    #[command(subcommand)]
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
    /// Stop workflows of a tenant.
    Workflow(workflow::WorkflowCommand),
    /// Send a file of organizations, contacts or devices to a server, or take in a tenant that was exported.
    Import(import::Import),
    /// Write all of a tenant to a file that another installation imports.
    Export(export::Export),
    /// Print the key that others check the signatures of this installation with.
    PublicKey(public_key::PublicKeyCommand),
    /// Show a tenant's events as a webhook receiver gets them.
    Listen(listen::Listen),
    /// Write a consistent snapshot of the running server's store.
    #[command(after_help = "Examples:\n  tenantd backup /backups/today.snapshot\n  tenantd backup --directory /backups --keep 7")]
    Backup(backup::Backup),
    /// Make a key for backups that leave this host.
    BackupKey(backup_key::BackupKey),
    /// Make an installation from a snapshot, in an empty data directory.
    Restore(backup::Restore),
    /// Restore a snapshot for a trial: checked, opened, timed, and removed again.
    Drill(drill::Drill),
    /// Check every record and index of the store, or of a snapshot.
    Check(check::Check),
    /// Look at what an upgrade will do.
    #[command(subcommand)]
    Upgrade(upgrade::Upgrade),
    /// Prove that the audit is what was written.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Build the search index anew from the store.
    Reindex(reindex::Reindex),
    /// Go on without what a damaged journal has lost.
    Repair(repair::Repair),
    /// Give the free space of the store's file back. The server must be stopped.
    Compact(compact::Compact),
    /// Let a new installation key take the place of the old one.
    RotateKey(rotate_key::RotateKey),
    /// Write a file for whoever helps with a trouble: sizes, counts, settings; no secret, and nothing that a tenant wrote.
    SupportBundle(support_bundle::SupportBundle),
    /// Print the OpenAPI document.
    Openapi(openapi::Openapi),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print the completions for a shell.
    Completions(completions::Completions),
    /// Print the manual page, or write all of them to a directory.
    Man(man::ManPages),
}

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let json = arguments.common.json;
    // What a command writes holds records and secrets; only manual pages are for everybody.
    if !matches!(arguments.command, Command::Man(_)) {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::Failed(format!("the runtime does not start: {error}")), json),
    };
    match runtime.block_on(dispatch(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, json),
    }
}

/// Prints help and the version where they were asked for, and what is wrong with the arguments otherwise.
fn refuse(error: &clap::Error) -> ExitCode {
    let asked_for = !error.use_stderr();
    if !asked_for && std::env::args_os().any(|argument| argument == "--json") {
        return tell_error("usage", USAGE, error.render().to_string().trim());
    }
    // A reader that has gone away is no failure of ours.
    drop(error.print());
    if asked_for { ExitCode::SUCCESS } else { ExitCode::from(USAGE) }
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
        return tell_error(failure.name(), failure.code(), failure.text());
    }
    print_error(&format!("tenantd: {}", failure.text()));
    ExitCode::from(failure.code())
}

/// An error for scripts: one line of JSON.
fn tell_error(name: &str, code: u8, message: &str) -> ExitCode {
    print_error(&serde_json::json!({"error": {"code": name, "exit_code": code, "message": message}}).to_string());
    ExitCode::from(code)
}

#[allow(clippy::print_stderr, reason = "this is where errors of the command line go")]
fn print_error(text: &str) {
    eprintln!("{text}");
}
