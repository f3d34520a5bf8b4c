//! `tenantd man`: the manual pages, made from the declarations that the arguments are read by, with what those do not tell: files,
//! environment, exit codes.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use serde_json::json;

use super::{Arguments, Common, Failure, output};

const FILES: [(&str, &str); 9] = [
    ("/etc/tenantd/tenantd.toml", "The configuration, unless --config names another. Every key has a default."),
    ("/var/lib/tenantd", "The data directory, unless data.directory or --data-dir names another."),
    ("<data directory>/tenantd.redb, tenantd.journal, tenantd.witness, installation.id", "The store: these files belong together."),
    (
        "<data directory>/tenantd.reserve",
        "Disk space that the store uses when the disk is full. The server makes it again when there is room.",
    ),
    (
        "<data directory>/installation.key",
        "What secrets are sealed with and checkpoints signed with, unless it is configured or a credential of systemd. It is in no snapshot: keep a copy apart.",
    ),
    (
        "<data directory>/installation.key.next",
        "The key that takes the place of that one, while tenantd rotate-key is under way; where the key comes from outside, until it was put in place there.",
    ),
    (
        "<data directory>/initial-operator-password",
        "The first operator's password, made on the first start. Remove it when it is read.",
    ),
    ("<data directory>/admin.sock", "The admin socket: whoever may open it may operate the installation."),
    ("<data directory>/search", "The search index, which is built anew when it is missing."),
];
const ENVIRONMENT: [(&str, &str); 3] = [
    ("TENANTD_CONFIG", "The configuration file."),
    (
        "TENANTD_SECTION__KEY",
        "A setting, such as TENANTD_LISTEN__ADDRESS for listen.address. Stands over the file; flags stand over both.",
    ),
    ("CREDENTIALS_DIRECTORY", "Set by systemd: its credential installation-key is the installation key."),
];
const EXIT_CODES: [(&str, &str); 5] =
    [("0", "Done."), ("1", "Failed."), ("2", "Wrong usage."), ("3", "The server is not running."), ("4", "Denied.")];

#[derive(Debug, Args)]
pub(super) struct ManPages {
    /// Write a page for each command to this directory, in place of printing the main page.
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl ManPages {
    pub(super) fn run(self, common: &Common) -> Result<(), Failure> {
        let mut command = without_help(Arguments::command());
        // Gives the commands below their full names, and the flags that all of them have.
        command.build();
        let Some(directory) = self.out else {
            let page = page(&command)?;
            let page = String::from_utf8_lossy(&page);
            return if common.json { output::json(&json!({"page": page})) } else { output::line(page.trim_end()) };
        };
        let mut written = Vec::new();
        write_pages(&command, &directory, &mut written)?;
        if common.json { output::json(&json!({"files": written})) } else { Ok(()) }
    }
}

/// The help commands have no pages.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// A page for the command and for each below it: `tenantd-key-create.1`.
fn write_pages(command: &Command, directory: &Path, files: &mut Vec<String>) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = directory.join(format!("{name}.1"));
    let page = page(command)?;
    let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, page));
    written.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    files.push(path.display().to_string());
    command.get_subcommands().try_for_each(|below| write_pages(below, directory, files))
}

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(error.to_string());
    let mut page = Vec::new();
    Man::new(command.clone()).manual("tenantd manual").render(&mut page).map_err(failed)?;
    let mut more = Roff::new();
    section(&mut more, "FILES", &FILES);
    section(&mut more, "ENVIRONMENT", &ENVIRONMENT);
    section(&mut more, "EXIT STATUS", &EXIT_CODES);
    more.to_writer(&mut page).map_err(failed)?;
    Ok(page)
}

fn section(page: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    page.control("SH", [title]);
    for (name, what) in entries {
        page.control("TP", []);
        page.text([bold(*name)]);
        page.text([roman(*what)]);
    }
}
