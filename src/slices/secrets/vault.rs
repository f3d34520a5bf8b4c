//! The only access to the values of secrets, for a request that is about to be sent.

use std::time::Duration;

use tenantd_base::{
    clocks::Clocks,
    id::{TenantId, WorkflowId},
    secrets::{SealError, Sealer, Secret},
};
use tenantd_egress::TargetUrl;
use tenantd_store::{Store, StoreError};

use super::repo::{self, SecretKey, sealed_place};

/// The accuracy of the last-use time: tenantd writes it at most once in this interval.
const BETWEEN_USES: Duration = Duration::from_mins(1);

/// The workflow that requests a value, and the URL to which it will send it.
#[derive(Clone, Copy, Debug)]
pub struct RevealRequest<'a> {
    pub tenant_id: TenantId,
    pub workflow_id: WorkflowId,
    pub url: &'a TargetUrl,
}

/// Why the vault refuses a value. Reveals nothing about a secret except its name.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the secret {0} does not exist")]
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
    /// The error code in the step's record.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "secret_not_found",
            Self::Workflow(_) => "secret_not_permitted",
            Self::Host { .. } => "secret_wrong_host",
            Self::NoValue(_) | Self::Sealing(_) => "secret_without_value",
            Self::Store(_) => "unavailable",
        }
    }

    /// Whether a retry can succeed without anyone changing anything.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// Opens the values of secrets for callers that send them.
#[derive(Clone, Debug)]
pub struct Vault {
    pub(super) store: Store,
    pub(super) clocks: Clocks,
    pub(super) sealer: Sealer,
}

impl Vault {
    /// Returns the value of a secret if this workflow may send it to this server.
    pub async fn reveal(&self, request: RevealRequest<'_>, name: &str) -> Result<Secret, Refusal> {
        let now = self.clocks.now(request.tenant_id);
        let (key, value, last_use) = self.store.read(|tx| {
            // Workflow definitions must match the case of the name.
            let found = repo::by_name(tx, request.tenant_id, name)?.filter(|secret| secret.name == name);
            let secret = found.ok_or_else(|| Refusal::NotFound(name.to_owned()))?;
            if !secret.permits(request.workflow_id) {
                return Err(Refusal::Workflow(name.to_owned()));
            }
            if !secret.hosts.iter().any(|host| host.is(request.url)) {
                return Err(Refusal::Host { name: name.to_owned(), origin: request.url.origin() });
            }
            let key: SecretKey = (secret.tenant_id, secret.id);
            let value = self.sealer.open(sealed_place(&key, &secret.hosts), &secret.value)?;
            Ok((key, value, repo::last_use(tx, key)?))
        })?;
        if value.expose().is_empty() {
            return Err(Refusal::NoValue(name.to_owned()));
        }
        if last_use.is_none_or(|last| now >= last + BETWEEN_USES) {
            self.store.write_derived(move |tx| repo::record_use(tx, key, now)).await?;
        }
        Ok(value)
    }
}
