//! `tenantd backup` and `tenantd restore`: a snapshot of the live store, and an installation from one.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{Common, Failure, client::Client, output};
use crate::{
    app::key_source,
    kernel::{
        secrets::InstallationKey,
        store::{DataDirectory, StoreError, write_private_file},
    },
};

#[derive(Debug, Args)]
pub(super) struct Backup {
    /// Where to write the snapshot; nothing may be there yet. The server writes it, as the user it runs as.
    file: PathBuf,
}

impl Backup {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let path = std::path::absolute(&self.file).map_err(|error| Failure::Failed(error.to_string()))?;
        let client = Client::new(common)?;
        let report = client.post("/internal/admin/backup", Some(&json!({"path": path.display().to_string()}))).await?;
        if common.json {
            return output::json(&report);
        }
        let count = |name: &str| output::text(&report, name);
        output::line(&format!("{} records, {} bytes written to {}.", count("/records"), count("/bytes"), path.display()))?;
        output::line("The installation key is not in it: keep a copy of the key apart from the snapshot.")
    }
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The snapshot.
    file: PathBuf,
    /// The installation key that the snapshot's secrets are sealed under. Needed unless it is configured or in place already.
    #[arg(long, value_name = "FILE")]
    installation_key: Option<PathBuf>,
}

impl Restore {
    pub(super) fn run(self, common: &Common) -> Result<(), Failure> {
        let config = common.settings(&[])?;
        let data = DataDirectory::lock(&config.data.directory).map_err(|error| error.to_string())?;
        let source = key_source(&config, data.path());
        let key_path = self.installation_key.as_ref().unwrap_or(&source.path);
        let key = InstallationKey::load(key_path).map_err(|error| {
            Failure::Failed(format!("{error}; name the snapshot's installation key with --installation-key FILE"))
        })?;
        let restored = data.restore(&self.file, |fingerprint| {
            if fingerprint == key.fingerprint() {
                return Ok(());
            }
            Err(StoreError::Installation(format!("{} is not the key that this snapshot was made with", key_path.display())))
        });
        restored.map_err(|error| error.to_string())?;
        if source.may_create && *key_path != source.path {
            write_private_file(&source.path, key.to_file().as_bytes()).map_err(|error| error.to_string())?;
        }
        let directory = data.path().display().to_string();
        if common.json {
            return output::json(&json!({"data_directory": directory}));
        }
        output::line(&format!("The installation is restored in {directory}; start it with `tenantd serve`."))
    }
}
