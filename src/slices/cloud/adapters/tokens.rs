//! Access tokens that a credential is exchanged for, kept for as long as they count. What is kept can be lost at any time: a token is
//! then asked for again.
//!
//! **Invariant:** a token is found only by the credential that it was given for, of which a digest is kept; one that the provider
//! refuses is not used again.

use std::{sync::Arc, time::Duration};

use http::StatusCode;

use tenantd_base::{cache::Cache, clock::Timestamp, secrets::digest};

use super::{
    super::model::Failure,
    Access, Answer,
    client::{Call, Reply, unusable},
};

/// The most tokens that are kept.
const MOST_TOKENS: u64 = 1_000;
/// A token is not used in its last minute: the request has a way to go.
const MARGIN: Duration = Duration::from_mins(1);

/// A kind's token, and how it is asked for.
pub(super) trait Token: Sized + Send + Sync + 'static {
    fn issue(access: &Access) -> Answer<'_, Issued<Self>>;
}

/// A token that was just given, and for how long.
#[derive(Debug)]
pub(super) struct Issued<T> {
    pub(super) token: T,
    pub(super) lifetime: Duration,
}

#[derive(Debug)]
struct Kept<T> {
    token: Arc<T>,
    until: Timestamp,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { token: self.token.clone(), until: self.until }
    }
}

#[derive(Debug)]
pub(super) struct Tokens<T: Token>(Cache<[u8; 32], Kept<T>>);

impl<T: Token> Tokens<T> {
    pub(super) fn new() -> Self {
        Self(Cache::new(MOST_TOKENS))
    }

    /// Sends what `make` makes with a token. When a kept token is refused, once more with a new one.
    pub(super) async fn send(
        &self,
        access: &Access,
        make: impl Fn(&T) -> Result<Call, Failure> + Send + Sync,
    ) -> Result<Reply, Failure> {
        if let Some(kept) = self.kept(access)? {
            let reply = access.client.send(make(&kept)?).await?;
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

    /// The token that is kept, or a new one.
    pub(super) async fn current(&self, access: &Access) -> Result<Arc<T>, Failure> {
        match self.kept(access)? {
            Some(kept) => Ok(kept),
            None => self.renew(access).await,
        }
    }

    /// A new token, whatever is kept: for trying a credential.
    pub(super) async fn renew(&self, access: &Access) -> Result<Arc<T>, Failure> {
        let key = key(access)?;
        self.0.remove(&key);
        let Issued { token, lifetime } = T::issue(access).await?;
        let token = Arc::new(token);
        let until = access.client.now() + lifetime.saturating_sub(MARGIN);
        self.0.insert(key, Kept { token: token.clone(), until });
        Ok(token)
    }

    fn kept(&self, access: &Access) -> Result<Option<Arc<T>>, Failure> {
        let kept = self.0.get(&key(access)?).filter(|kept| access.client.now() < kept.until);
        Ok(kept.map(|kept| kept.token))
    }
}

/// The credential, and where it is shown.
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
