//! `tenantd completions`: what a shell needs to complete the arguments of this command.

use clap::{Args, CommandFactory, ValueEnum};

use super::{Arguments, Failure, output};

/// A shell that completions can be made for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

#[derive(Debug, Args)]
pub(super) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Result<(), Failure> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Fish => clap_complete::Shell::Fish,
            Shell::Zsh => clap_complete::Shell::Zsh,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "tenantd", &mut script);
        output::line(String::from_utf8_lossy(&script).trim_end())
    }
}
