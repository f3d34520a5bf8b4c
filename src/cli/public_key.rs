//! `tenantd public-key`: prints the public keys that verify signatures of this installation. It needs only the installation key, no
//! server.

use clap::{Args, ValueEnum};
use serde_json::json;

use tenantd_audit as audit;
use tenantd_base::secrets::{InstallationKey, PublicKey, SignatureError};
use tenantd_transfer as transfer;

use super::{Common, Failure, output};
use crate::app::key_source;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Purpose {
    /// Exports of tenants, for `tenantd import --trusted-key`.
    TenantExport,
    /// Checkpoints of the audit, for `tenantd audit verify --public-key`.
    Audit,
}

#[derive(Debug, Args)]
pub(super) struct PublicKeyCommand {
    /// What the key verifies.
    #[arg(long, value_enum, default_value = "tenant-export")]
    purpose: Purpose,
}

impl PublicKeyCommand {
    pub(super) fn run(self, common: &Common) -> Result<(), Failure> {
        let config = common.settings(&[])?;
        let key = InstallationKey::load(&key_source(&config, &config.data.directory).path)?;
        let key = self.derive(&key).map_err(|error| Failure::Failed(error.to_string()))?;
        if common.json {
            output::json(&json!({"public_key": key.to_string(), "key_id": key.key_id()}))
        } else {
            output::line(&key.to_string())
        }
    }

    fn derive(&self, key: &InstallationKey) -> Result<PublicKey, SignatureError> {
        match self.purpose {
            Purpose::TenantExport => Ok(transfer::public_key(key)?.1),
            Purpose::Audit => audit::public_key(key),
        }
    }
}
