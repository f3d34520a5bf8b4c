//! `tenantd man`: generates the manual pages from the declarations of the arguments, and adds files, environment variables and exit
//! codes.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use serde_json::json;

use super::{Arguments, Common, Failure, output};

const FILES: [(&str, &str); 9] = [
    ("/etc/tenantd/tenantd.toml", "The configuration file. --config specifies another one. Every key has a default."),
    ("/var/lib/tenantd", "The data directory. data.directory or --data-dir specifies another one."),
    ("<data directory>/tenantd.redb, tenantd.journal, tenantd.witness, installation.id", "The store. These files belong together."),
    (
        "<data directory>/tenantd.reserve",
        "Reserved disk space that the store uses if the disk is full. The server recreates the file when there is free space.",
    ),
    (
        "<data directory>/installation.key",
        "The installation key, which seals secrets and signs checkpoints. secrets.installation_key_file or a systemd credential specifies another one. Snapshots do not contain it: keep a separate copy.",
    ),
    (
        "<data directory>/installation.key.next",
        "The new installation key during tenantd rotate-key. If the key comes from outside of the data directory, the file stays until you put the new key in place.",
    ),
    (
        "<data directory>/initial-operator-password",
        "The initial password of the first operator, created on the first start. It works for 72 hours: sign in, change it in your profile, and remove the file. Later, tenantd user reset-password makes a link.",
    ),
    ("<data directory>/admin.sock", "The admin socket. Anyone who can open it can operate the installation."),
    ("<data directory>/search", "The search index. The server rebuilds it if it is missing."),
];
const ENVIRONMENT: [(&str, &str); 3] = [
    ("TENANTD_CONFIG", "The configuration file."),
    (
        "TENANTD_SECTION__KEY",
        "A setting, such as TENANTD_LISTEN__ADDRESS for listen.address. Overrides the configuration file. Flags override both.",
    ),
    ("CREDENTIALS_DIRECTORY", "Set by systemd. Its credential installation-key is the installation key."),
];
const EXIT_CODES: [(&str, &str); 5] =
    [("0", "Done."), ("1", "Failed."), ("2", "Invalid usage."), ("3", "The server is not running."), ("4", "Denied.")];

#[derive(Debug, Args)]
pub(super) struct ManPages {
    /// Write one page per command to this directory instead of printing the main page.
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl ManPages {
    pub(super) fn run(self, common: &Common) -> Result<(), Failure> {
        let mut command = without_help(Arguments::command());
        // Gives the subcommands their full names and the global flags.
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

/// Removes the help subcommands, because they have no pages.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Writes the pages of the command and of its subcommands, such as `tenantd-key-create.1`.
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
