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
#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    userinfo_endpoint: Option<String>,
    jwks_uri: String,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// What is kept of it.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    /// Whether a client can prove who it is in the form only, and not in the header.
    pub(super) secret_in_form: bool,
    pub(super) userinfo_endpoint: Option<String>,
    /// Whether its answers always name it (RFC 9207).
    pub(super) names_itself: bool,
    pub(super) jwks_uri: String,
}

impl Metadata {
    fn read(document: &[u8], issuer: &str) -> Result<Self, SsoError> {
        let found: Document = serde_json::from_slice(document).map_err(|error| unreadable("discovery", &error))?;
        if found.issuer != issuer {
            return Err(SsoError::ProviderError("the provider's discovery is that of another issuer".to_owned()));
        }
        // Where the browser is sent is not vetted by the way out, so it is here. The others are bounded by it.
        let named = [
            ("authorization_endpoint", Some(&found.authorization_endpoint)),
            ("token_endpoint", Some(&found.token_endpoint)),
            ("userinfo_endpoint", found.userinfo_endpoint.as_ref()),
            ("jwks_uri", Some(&found.jwks_uri)),
        ];
        for (name, url) in named {
            let checked = url.map_or(Ok(()), |url| provider_url(url).map(drop));
            checked.map_err(|error| SsoError::ProviderError(format!("the provider's {name} {error}")))?;
        }
        // Without a word on it, a provider takes the header.
        let methods = found.token_endpoint_auth_methods_supported.unwrap_or_default();
        let offers = |method: &str| methods.iter().any(|offered| offered == method);
        Ok(Self {
            secret_in_form: offers("client_secret_post") && !offers("client_secret_basic"),
            authorization_endpoint: found.authorization_endpoint,
            token_endpoint: found.token_endpoint,
            userinfo_endpoint: found.userinfo_endpoint,
            names_itself: found.authorization_response_iss_parameter_supported,
            jwks_uri: found.jwks_uri,
        })
    }
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
        Self { known: Cache::expiring(MAX_KNOWN, FRESH) }
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
        let metadata = read_metadata(transport, issuer).await?;
        let keys = read_keys(transport, &metadata).await?;
        let fresh = Arc::new(Known { metadata, keys, read_at: now, keys_read_at: now });
        *known = Some(fresh.clone());
        Ok(fresh)
    }

    /// What is known, with other keys than those of `tried`: the ones that somebody has read since, or those that the provider has now.
    /// `None` when its keys were read a moment ago.
    pub(super) async fn with_new_keys(
        &self,
        transport: &Transport,
        issuer: &str,
        tried: &Arc<Known>,
        now: Timestamp,
    ) -> Result<Option<Arc<Known>>, SsoError> {
        let slot = self.slot(transport, issuer);
        let mut slot = slot.lock().await;
        if let Some(newer) = slot.as_ref().filter(|known| !Arc::ptr_eq(known, tried)) {
            return Ok(Some(newer.clone()));
        }
        let Some(before) = slot.as_ref().filter(|known| now >= known.keys_read_at + BETWEEN_KEYS) else { return Ok(None) };
        let keys = read_keys(transport, &before.metadata).await?;
        let renewed = Arc::new(Known { metadata: before.metadata.clone(), keys, read_at: before.read_at, keys_read_at: now });
        *slot = Some(renewed.clone());
        Ok(Some(renewed))
    }
}

pub(super) async fn read_metadata(transport: &Transport, issuer: &str) -> Result<Metadata, SsoError> {
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    Metadata::read(&document(transport, &url).await?, issuer)
}

pub(super) async fn read_keys(transport: &Transport, metadata: &Metadata) -> Result<Keys, SsoError> {
    Keys::read(&document(transport, &metadata.jwks_uri).await?).map_err(|error| unreadable("key set", &error))
}

async fn document(transport: &Transport, url: &str) -> Result<Bytes, SsoError> {
    let answer = transport.get(url, None).await.map_err(unreachable_provider)?;
    if answer.status != StatusCode::OK {
        return Err(SsoError::ProviderError(format!("the discovery was answered with {}", answer.status)));
    }
    Ok(answer.body)
}

/// The error itself can hold a text of the document that is as long as the document.
fn unreadable(what: &str, error: &serde_json::Error) -> SsoError {
    let (kind, line, column) = (error.classify(), error.line(), error.column());
    SsoError::ProviderError(format!("the provider's {what} cannot be read: {kind:?} error in line {line}, column {column}"))
}

pub(super) fn unreachable_provider(error: TransportError) -> SsoError {
    match error {
        TransportError::Egress(EgressError::Timeout) => SsoError::ProviderTimeout,
        error => SsoError::ProviderError(error.to_string()),
    }
}
