//! Authenticates the caller again: after a wait, and before every piece of a long answer. Rights that the caller loses meanwhile no
//! longer count.

use std::sync::Arc;

use http::HeaderMap;

use tenantd_base::{
    access::Principal,
    clocks::{Clocks, Reading},
};

use super::{
    context::Client,
    credentials::{self, Authenticator, Credential},
    problem::Problem,
};

/// The caller that the credential of a request identifies now.
pub(super) fn authenticate(
    authenticator: &dyn Authenticator,
    headers: &HeaderMap,
    (client, secure): (Client, bool),
    clocks: &Reading,
) -> Result<Arc<Principal>, Problem> {
    match credentials::find(headers, secure)? {
        None => Err(credentials::missing()),
        Some(Credential::ApiKey(key)) => Ok(authenticator.api_key(&key, client.address(), clocks)?),
        Some(Credential::Session(token)) => Ok(authenticator.session(&token, clocks.installation())?),
    }
}

/// What is needed to authenticate the caller of a request again.
pub(super) struct Recheck {
    pub(super) authenticator: Arc<dyn Authenticator>,
    pub(super) clocks: Clocks,
    pub(super) headers: HeaderMap,
    pub(super) client: Client,
    pub(super) secure: bool,
    /// The rights that the answer is produced with.
    pub(super) held: Arc<Principal>,
}

impl Recheck {
    /// Fails if the caller has lost any of the rights that the answer is produced with.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let from = (self.client, self.secure);
        let now = authenticate(self.authenticator.as_ref(), &self.headers, from, &self.clocks.read())?;
        now.lost(self.held.grants, &self.held.reach).map_or(Ok(()), |lost| Err(lost.into()))
    }
}
