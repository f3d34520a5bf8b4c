//! Asks once more who calls: after a wait, and before every piece of an answer that takes long. Rights that are lost meanwhile do not count.

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

/// The caller that the credential of a request stands for now.
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

/// A caller whom a request was let in for.
pub(super) struct Again {
    pub(super) authenticator: Arc<dyn Authenticator>,
    pub(super) clocks: Clocks,
    pub(super) headers: HeaderMap,
    pub(super) client: Client,
    pub(super) secure: bool,
    /// The rights that the answer is made with.
    pub(super) held: Arc<Principal>,
}

impl Again {
    /// Whether the caller still has the rights that the answer is made with.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let from = (self.client, self.secure);
        let now = authenticate(self.authenticator.as_ref(), &self.headers, from, &self.clocks.read())?;
        now.lost(self.held.grants, &self.held.reach).map_or(Ok(()), |lost| Err(lost.into()))
    }
}
