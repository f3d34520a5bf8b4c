//! `tenantd backup-key`: creates a key pair for off-site backups. The recipient encrypts them and belongs in the configuration. The
//! identity decrypts them and belongs on another host.

use std::{io::Write, os::unix::fs::OpenOptionsExt, path::PathBuf};

use clap::Args;
use serde_json::json;

use tenantd_base::{clock::Clock, entropy::Entropy, secrets::Secret, secrets::age::Identity};

use super::{Common, Failure, output};

#[derive(Debug, Args)]
pub(super) struct BackupKey {
    /// The path of the new identity file, which must not exist yet. The identity decrypts backups. Move it to another host.
    file: PathBuf,
}

impl BackupKey {
    pub(super) fn run(self, common: &Common) -> Result<(), Failure> {
        let identity = Identity::generate(&mut Entropy::from_os());
        let recipient = identity.recipient().to_string();
        let secret = identity.to_text().map_err(|error| Failure::Failed(error.to_string()))?;
        let content = Secret::new(format!("# created: {}\n# public key: {recipient}\n{}\n", Clock::System.now(), secret.expose()));
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.file)?;
            file.write_all(content.expose().as_bytes())?;
            file.sync_all()
        };
        let shown = self.file.display().to_string();
        write().map_err(|error| Failure::Failed(format!("{shown}: {error}")))?;
        if common.json {
            return output::json(&json!({"recipient": recipient, "identity_file": shown}));
        }
        output::line(&recipient)?;
        output::line(&format!(
            "Add this recipient to offsite.recipients. Move {shown} to a safe place on another host. Without it, the backups cannot be decrypted."
        ))
    }
}
