//! What providers say of themselves, and their keys: read once an hour, and the keys also when a token names one that is not among them. Many
//! sign-ons at once cause one look.
//!
//! **Invariant:** tokens that somebody makes up cannot make us ask a provider more often than every half minute.

use std::{sync::Arc, time::Duration};

use moka::sync::Cache;
use openidconnect::{
    DiscoveryError, IssuerUrl,
    core::{CoreJsonWebKeySet, CoreProviderMetadata},
};
use tokio::sync::Mutex;

use tenantd_base::clock::Timestamp;
use tenantd_egress::EgressError;

use super::{
    error::SsoError,
    model::provider_url,
    transport::{Transport, TransportError},
};

const FRESH: Duration = Duration::from_hours(1);
const BETWEEN_KEYS: Duration = Duration::from_secs(30);
const MAX_KNOWN: u64 = 1000;

/// What is known of a provider.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) metadata: CoreProviderMetadata,
    read_at: Timestamp,
    keys_read_at: Timestamp,
}

type Slot = Arc<Mutex<Option<Arc<Known>>>>;

/// By issuer, and by whether the tenant may have it on this machine: one tenant's look is not another's.
type SlotKey = (String, bool);

#[derive(Clone, Debug)]
pub(super) struct Discovery {
    known: Cache<SlotKey, Slot>,
}

impl Discovery {
    pub(super) fn new() -> Self {
        Self { known: Cache::builder().max_capacity(MAX_KNOWN).build() }
    }

    fn slot(&self, transport: &Transport, issuer: &str) -> Slot {
        self.known.get_with((issuer.to_owned(), transport.audience.allow_loopback), Slot::default)
    }

    pub(super) async fn known(&self, transport: &Transport, issuer: &str, now: Timestamp) -> Result<Arc<Known>, SsoError> {
        let slot = self.slot(transport, issuer);
        let mut known = slot.lock().await;
        if let Some(known) = known.as_ref().filter(|known| now < known.read_at + FRESH) {
            return Ok(known.clone());
        }
        let url = IssuerUrl::new(issuer.to_owned()).map_err(|error| SsoError::ProviderError(error.to_string()))?;
        let metadata = CoreProviderMetadata::discover_async(url, transport).await.map_err(failed)?;
        check_endpoints(&metadata)?;
        let fresh = Arc::new(Known { metadata, read_at: now, keys_read_at: now });
        *known = Some(fresh.clone());
        Ok(fresh)
    }

    /// What is known, with the keys that the provider has now. `None` when they were read a moment ago.
    pub(super) async fn with_new_keys(
        &self,
        transport: &Transport,
        issuer: &str,
        now: Timestamp,
    ) -> Result<Option<Arc<Known>>, SsoError> {
        let slot = self.slot(transport, issuer);
        let mut slot = slot.lock().await;
        let Some(before) = slot.as_ref().filter(|known| now >= known.keys_read_at + BETWEEN_KEYS) else { return Ok(None) };
        let keys = CoreJsonWebKeySet::fetch_async(before.metadata.jwks_uri(), transport).await.map_err(failed)?;
        let metadata = before.metadata.clone().set_jwks(keys);
        let renewed = Arc::new(Known { metadata, read_at: before.read_at, keys_read_at: now });
        *slot = Some(renewed.clone());
        Ok(Some(renewed))
    }
}

/// Where the browser is sent is not vetted by the way out, so it is here.
fn check_endpoints(metadata: &CoreProviderMetadata) -> Result<(), SsoError> {
    let problem = |what: &str, problem: &dyn std::fmt::Display| SsoError::ProviderError(format!("the provider's {what} {problem}"));
    provider_url(metadata.authorization_endpoint().as_str()).map_err(|error| problem("authorization_endpoint", &error))?;
    if metadata.token_endpoint().is_none() {
        return Err(problem("token_endpoint", &"is missing"));
    }
    Ok(())
}

/// The crate's errors can hold whole answers; only what is ours is told.
fn failed(error: DiscoveryError<TransportError>) -> SsoError {
    match error {
        DiscoveryError::Request(error) => unreachable_provider(error),
        DiscoveryError::Response(status, ..) => SsoError::ProviderError(format!("the discovery was answered with {status}")),
        DiscoveryError::Validation(problem) => SsoError::ProviderError(problem),
        DiscoveryError::Parse(_) => SsoError::ProviderError("the discovery is not what it should be".to_owned()),
        _ => SsoError::ProviderError("the discovery failed".to_owned()),
    }
}

pub(super) fn unreachable_provider(error: TransportError) -> SsoError {
    match error {
        TransportError::Egress(EgressError::Timeout) => SsoError::ProviderTimeout,
        error => SsoError::ProviderError(error.to_string()),
    }
}
