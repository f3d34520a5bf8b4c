//! The discovery documents and keys of providers, cached for an hour. The keys are also read again when a token names an unknown
//! key. Concurrent sign-ons share one request.
//!
//! **Invariant:** forged tokens cannot make tenantd request the keys of a provider more often than every 30 seconds.

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

const CACHE_TTL: Duration = Duration::from_hours(1);
const MIN_KEY_INTERVAL: Duration = Duration::from_secs(30);
const CACHE_CAPACITY: u64 = 1000;

/// The fields of a discovery document that are used.
#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    userinfo_endpoint: Option<String>,
    jwks_uri: String,
    end_session_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// The cached part of a discovery document.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    /// Whether the provider accepts the client secret only in the form and not in the header.
    pub(super) secret_in_form: bool,
    pub(super) userinfo_endpoint: Option<String>,
    /// Whether the provider always sends `iss` with the browser (RFC 9207).
    pub(super) sends_issuer: bool,
    pub(super) jwks_uri: String,
    /// Where a person signs out of the provider.
    pub(super) end_session_endpoint: Option<String>,
}

impl Metadata {
    fn read(document: &[u8], issuer: &str) -> Result<Self, SsoError> {
        let found: Document = serde_json::from_slice(document).map_err(|error| unreadable("discovery", &error))?;
        if found.issuer != issuer {
            return Err(SsoError::ProviderError("the discovery document names a different issuer".to_owned()));
        }
        // Egress vets the other URLs, but not the one that the browser is sent to. So all of them are checked here.
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
        // By default, providers accept the header.
        let methods = found.token_endpoint_auth_methods_supported.unwrap_or_default();
        let offers = |method: &str| methods.iter().any(|offered| offered == method);
        Ok(Self {
            secret_in_form: offers("client_secret_post") && !offers("client_secret_basic"),
            authorization_endpoint: found.authorization_endpoint,
            token_endpoint: found.token_endpoint,
            userinfo_endpoint: found.userinfo_endpoint,
            sends_issuer: found.authorization_response_iss_parameter_supported,
            jwks_uri: found.jwks_uri,
            end_session_endpoint: found.end_session_endpoint.filter(|url| provider_url(url).is_ok()),
        })
    }
}

/// The cached metadata and keys of a provider.
#[derive(Debug)]
pub(super) struct ProviderInfo {
    pub(super) metadata: Metadata,
    pub(super) keys: Keys,
    read_at: Timestamp,
    keys_read_at: Timestamp,
}

type Slot = Arc<Mutex<Option<Arc<ProviderInfo>>>>;

/// The issuer, and whether the tenant may use loopback addresses. The two cases do not share an entry.
type SlotKey = (String, bool);

#[derive(Clone, Debug)]
pub(super) struct Discovery {
    entries: Cache<SlotKey, Slot>,
}

impl Discovery {
    pub(super) fn new() -> Self {
        Self { entries: Cache::expiring(CACHE_CAPACITY, CACHE_TTL) }
    }

    fn slot(&self, transport: &Transport, issuer: &str) -> Slot {
        self.entries.get_or_insert((issuer.to_owned(), transport.audience.allow_loopback), Slot::default())
    }

    pub(super) async fn get(&self, transport: &Transport, issuer: &str, now: Timestamp) -> Result<Arc<ProviderInfo>, SsoError> {
        let slot = self.slot(transport, issuer);
        let mut known = slot.lock().await;
        if let Some(known) = known.as_ref().filter(|known| now < known.read_at + CACHE_TTL) {
            return Ok(known.clone());
        }
        let metadata = read_metadata(transport, issuer).await?;
        let keys = read_keys(transport, &metadata).await?;
        let fresh = Arc::new(ProviderInfo { metadata, keys, read_at: now, keys_read_at: now });
        *known = Some(fresh.clone());
        Ok(fresh)
    }

    /// The provider with different keys than `tried`: keys that were read since, or the current ones. `None` if the keys were read
    /// a moment ago.
    pub(super) async fn with_new_keys(
        &self,
        transport: &Transport,
        issuer: &str,
        tried: &Arc<ProviderInfo>,
        now: Timestamp,
    ) -> Result<Option<Arc<ProviderInfo>>, SsoError> {
        let slot = self.slot(transport, issuer);
        let mut slot = slot.lock().await;
        if let Some(newer) = slot.as_ref().filter(|known| !Arc::ptr_eq(known, tried)) {
            return Ok(Some(newer.clone()));
        }
        let Some(before) = slot.as_ref().filter(|known| now >= known.keys_read_at + MIN_KEY_INTERVAL) else { return Ok(None) };
        let keys = read_keys(transport, &before.metadata).await?;
        let renewed =
            Arc::new(ProviderInfo { metadata: before.metadata.clone(), keys, read_at: before.read_at, keys_read_at: now });
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
        return Err(SsoError::ProviderError(format!("the discovery endpoint returned {}", answer.status)));
    }
    Ok(answer.body)
}

/// Reports only the position of an error: its message can contain a large part of the document.
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
