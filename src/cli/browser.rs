//! Opens a page in the browser.

use std::{
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

/// The program of the platform that opens an address in the default browser.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens the address without a shell, and does not wait. If the browser cannot be opened, says so on standard error.
pub(super) fn open(url: &str) {
    let mut command = Command::new(OPENER);
    // In a group of its own, the browser does not get the Ctrl-C that stops the server.
    command.arg(url).process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // The program may run as long as the browser. The thread does not keep this process alive.
        Ok(mut opener) => drop(std::thread::spawn(move || match opener.wait() {
            Ok(status) if status.success() => {}
            Ok(status) => report(&status.to_string()),
            Err(error) => report(&error.to_string()),
        })),
        Err(error) => report(&error.to_string()),
    }
}

#[allow(clippy::print_stderr, reason = "standard output is for the credentials")]
fn report(problem: &str) {
    eprintln!("{OPENER} did not open the link: {problem}. Open it yourself.");
}
