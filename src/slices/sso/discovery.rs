//! What providers say of themselves, and their keys: read once an hour, and the keys also when a token names one that is not among them. Many
//! sign-ons at once cause one look.
//!
//! **Invariant:** tokens that somebody makes up cannot make us ask a provider more often than every half minute.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use tokio::sync::Mutex;

use tenantd_base::{cache::Cache, clock::Timestamp};
use tenantd_egress::EgressError;

use super::{
    error::SsoError,
    model::provider_url,
    token::Keys,
    transport::{Transport, TransportError},
};

const FRESH: Duration = Duration::from_hours(1);
const BETWEEN_KEYS: Duration = Duration::from_secs(30);
const MAX_KNOWN: u64 = 1000;

/// What a provider says of itself, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    /// How it lets clients prove who they are. Without a word on it, a provider takes the header.
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) userinfo_endpoint: Option<String>,
    jwks_uri: String,
}

/// What is known of a provider.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) metadata: Metadata,
    pub(super) keys: Keys,
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
        Self { known: Cache::new(MAX_KNOWN) }
    }

    fn slot(&self, transport: &Transport, issuer: &str) -> Slot {
        self.known.get_or_insert((issuer.to_owned(), transport.audience.allow_loopback), Slot::default())
    }

    pub(super) async fn known(&self, transport: &Transport, issuer: &str, now: Timestamp) -> Result<Arc<Known>, SsoError> {
        let slot = self.slot(transport, issuer);
        let mut known = slot.lock().await;
        if let Some(known) = known.as_ref().filter(|known| now < known.read_at + FRESH) {
            return Ok(known.clone());
        }
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let document = document(transport, &url).await?;
        let metadata: Metadata = serde_json::from_slice(&document).map_err(|error| unreadable("discovery", &error))?;
        if metadata.issuer != issuer {
            return Err(SsoError::ProviderError("the provider's discovery is that of another issuer".to_owned()));
        }
        // Where the browser is sent is not vetted by the way out, so it is here.
        provider_url(&metadata.authorization_endpoint)
            .map_err(|error| SsoError::ProviderError(format!("the provider's authorization_endpoint {error}")))?;
        let keys = read_keys(transport, &metadata).await?;
        let fresh = Arc::new(Known { metadata, keys, read_at: now, keys_read_at: now });
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
        let keys = read_keys(transport, &before.metadata).await?;
        let renewed = Arc::new(Known { metadata: before.metadata.clone(), keys, read_at: before.read_at, keys_read_at: now });
        *slot = Some(renewed.clone());
        Ok(Some(renewed))
    }
}

async fn read_keys(transport: &Transport, metadata: &Metadata) -> Result<Keys, SsoError> {
    Keys::read(&document(transport, &metadata.jwks_uri).await?).map_err(|error| unreadable("key set", &error))
}

async fn document(transport: &Transport, url: &str) -> Result<Bytes, SsoError> {
    let answer = transport.get(url, None).await.map_err(unreachable_provider)?;
    if answer.status != StatusCode::OK {
        return Err(SsoError::ProviderError(format!("the discovery was answered with {}", answer.status)));
    }
    Ok(answer.body)
}

/// Both documents are public, so the error may name what is wrong with them.
fn unreadable(what: &str, error: &serde_json::Error) -> SsoError {
    SsoError::ProviderError(format!("the provider's {what} cannot be read: {error}"))
}

pub(super) fn unreachable_provider(error: TransportError) -> SsoError {
    match error {
        TransportError::Egress(EgressError::Timeout) => SsoError::ProviderTimeout,
        error => SsoError::ProviderError(error.to_string()),
    }
}
