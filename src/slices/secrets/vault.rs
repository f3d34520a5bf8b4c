//! The one way to the value of a secret: for a request that is about to be sent.

use std::time::Duration;

use tenantd_base::{
    clocks::Clocks,
    id::{TenantId, WorkflowId},
    secrets::{SealError, Sealer, Secret},
};
use tenantd_egress::TargetUrl;
use tenantd_store::{Store, StoreError};

use super::repo::{self, SecretKey, sealed_place};

/// How exact the time of the last use is: it is not written more often than this.
const BETWEEN_USES: Duration = Duration::from_mins(1);

/// Who asks, and where the value would go.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub tenant_id: TenantId,
    pub workflow_id: WorkflowId,
    pub url: &'a TargetUrl,
}

/// Why a value is not given. Nothing here tells more of a secret than its name.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no secret {0}")]
    NotFound(String),
    #[error("the secret {0} does not permit this workflow")]
    Workflow(String),
    #[error("the secret {name} may not be sent to {origin}")]
    Host { name: String, origin: String },
    #[error("the secret {0} has no value yet: rotate it")]
    NoValue(String),
    #[error(transparent)]
    Sealing(#[from] SealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Refusal {
    /// What the record of a step has as its code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "secret_not_found",
            Self::Workflow(_) => "secret_not_permitted",
            Self::Host { .. } => "secret_wrong_host",
            Self::NoValue(_) | Self::Sealing(_) => "secret_without_value",
            Self::Store(_) => "unavailable",
        }
    }

    /// Whether the same could go well at another time, with nobody doing anything about it.
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// Opens the values of secrets for those who send them.
#[derive(Clone, Debug)]
pub struct Vault {
    pub(super) store: Store,
    pub(super) clocks: Clocks,
    pub(super) sealer: Sealer,
}

impl Vault {
    /// The value of a secret, if this workflow may send it to this server.
    pub async fn reveal(&self, asked: Asked<'_>, name: &str) -> Result<Secret, Refusal> {
        let now = self.clocks.now(asked.tenant_id);
        let (key, value, last_use) = self.store.read(|tx| {
            // Definitions name secrets as they are spelled.
            let found = repo::by_name(tx, asked.tenant_id, name)?.filter(|secret| secret.name == name);
            let secret = found.ok_or_else(|| Refusal::NotFound(name.to_owned()))?;
            if !secret.permits(asked.workflow_id) {
                return Err(Refusal::Workflow(name.to_owned()));
            }
            if !secret.hosts.iter().any(|host| host.is(asked.url)) {
                return Err(Refusal::Host { name: name.to_owned(), origin: asked.url.origin() });
            }
            let key: SecretKey = (secret.tenant_id, secret.id);
            let value = self.sealer.open(sealed_place(&key, &secret.hosts), &secret.value)?;
            Ok((key, value, repo::last_use(tx, key)?))
        })?;
        if value.expose().is_empty() {
            return Err(Refusal::NoValue(name.to_owned()));
        }
        if last_use.is_none_or(|last| now >= last + BETWEEN_USES) {
            self.store.write_derived(move |tx| repo::note_use(tx, key, now)).await?;
        }
        Ok(value)
    }
}
