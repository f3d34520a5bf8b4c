//! `tenantd completions`: prints the completion script of a shell.

use clap::{Args, CommandFactory, ValueEnum};

use super::{Arguments, Common, Failure, output};

/// The supported shells.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell that completes the arguments of `tenantd`.
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, common: &Common) -> Result<(), Failure> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Fish => clap_complete::Shell::Fish,
            Shell::Zsh => clap_complete::Shell::Zsh,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "tenantd", &mut script);
        let script = String::from_utf8_lossy(&script);
        if common.json {
            return output::json(&serde_json::json!({"shell": shell.to_string(), "script": script}));
        }
        output::line(script.trim_end())
    }
}
