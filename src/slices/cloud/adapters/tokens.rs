//! A cache of access tokens that credentials were exchanged for. An entry may be lost at any time; the token is then requested
//! again.
//!
//! **Invariant:** a token is found only by a digest of the credential that it was issued for. A token that the provider refuses is
//! not used again.

use std::{sync::Arc, time::Duration};

use http::StatusCode;

use tenantd_base::{cache::Cache, clock::Timestamp, secrets::digest};

use super::{
    super::model::Failure,
    Access, Answer,
    client::{Call, Reply, unusable},
};

/// The capacity of the cache.
const MAX_TOKENS: u64 = 1_000;
/// A token is not used in its last minute, because a request takes time to arrive.
const MARGIN: Duration = Duration::from_mins(1);

/// The token of a kind, and the request for it.
pub(super) trait Token: Sized + Send + Sync + 'static {
    fn issue(access: &Access) -> Answer<'_, Issued<Self>>;
}

/// A new token and its lifetime.
#[derive(Debug)]
pub(super) struct Issued<T> {
    pub(super) token: T,
    pub(super) lifetime: Duration,
}

#[derive(Debug)]
struct CachedToken<T> {
    token: Arc<T>,
    until: Timestamp,
}

impl<T> Clone for CachedToken<T> {
    fn clone(&self) -> Self {
        Self { token: self.token.clone(), until: self.until }
    }
}

#[derive(Debug)]
pub(super) struct Tokens<T: Token>(Cache<[u8; 32], CachedToken<T>>);

impl<T: Token> Tokens<T> {
    pub(super) fn new() -> Self {
        Self(Cache::new(MAX_TOKENS))
    }

    /// Sends the call that `make` builds with a token. If a cached token is refused, sends it again with a new one.
    pub(super) async fn send(
        &self,
        access: &Access,
        make: impl Fn(&T) -> Result<Call, Failure> + Send + Sync,
    ) -> Result<Reply, Failure> {
        if let Some(cached) = self.cached(access)? {
            let reply = access.client.send(make(&cached)?).await?;
            if reply.status != StatusCode::UNAUTHORIZED {
                return Ok(reply);
            }
        }
        let fresh = self.renew(access).await?;
        let reply = access.client.send(make(&fresh)?).await?;
        if reply.status == StatusCode::UNAUTHORIZED {
            self.0.remove(&key(access)?);
        }
        Ok(reply)
    }

    /// The cached token, or a new one.
    pub(super) async fn current(&self, access: &Access) -> Result<Arc<T>, Failure> {
        match self.cached(access)? {
            Some(cached) => Ok(cached),
            None => self.renew(access).await,
        }
    }

    /// A new token, regardless of the cache. Verifications use it.
    pub(super) async fn renew(&self, access: &Access) -> Result<Arc<T>, Failure> {
        let key = key(access)?;
        self.0.remove(&key);
        let Issued { token, lifetime } = T::issue(access).await?;
        let token = Arc::new(token);
        let until = access.client.now() + lifetime.saturating_sub(MARGIN);
        self.0.insert(key, CachedToken { token: token.clone(), until });
        Ok(token)
    }

    fn cached(&self, access: &Access) -> Result<Option<Arc<T>>, Failure> {
        let cached = self.0.get(&key(access)?).filter(|cached| access.client.now() < cached.until);
        Ok(cached.map(|cached| cached.token))
    }
}

/// A digest of the credential and its target.
pub(super) fn key(access: &Access) -> Result<[u8; 32], Failure> {
    let secret = access.credential.sealable().map_err(|error| unusable(&error.to_string()))?;
    let config = &access.config;
    let parts = [
        access.tenant_id.to_string(),
        config.endpoint.clone().unwrap_or_default(),
        config.auth_url.clone().unwrap_or_default(),
        config.regions.first().cloned().unwrap_or_default(),
    ];
    let place: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    Ok(digest(&[&digest(place.as_bytes())[..], secret.expose().as_bytes()].concat()))
}
