//! What can go wrong with identity providers and with signing in through them.

use tenantd_auth::{AuthError, RefusalReason};
use tenantd_base::{secrets::SealError, versions::Stale};
use tenantd_directory::DirectoryError;
use tenantd_egress::Blocked;
use tenantd_store::StoreError;

use super::model::{DomainProblem, IssuerProblem};

#[derive(Debug, thiserror::Error)]
pub enum SsoError {
    #[error("there is no such identity provider")]
    NotFound,
    /// No provider, one that has not proven the domain, a disabled one, or one of a suspended tenant. The error does not say which.
    #[error("there is no single sign-on for this domain")]
    NoProvider,
    /// Another provider has proven it, or its people work for another tenant. The answer says neither which of the two nor whose it is.
    #[error("the domain {0} is not available")]
    DomainTaken(String),
    /// The record that proves the domain is not in DNS.
    #[error("there is no TXT record {name} with the value {value}")]
    DomainNotProven { name: String, value: String },
    #[error("no identity provider of the tenant claims this domain")]
    DomainNotClaimed,
    #[error("the provider has {most} domains already")]
    TooManyDomains { most: usize },
    #[error("DNS did not answer: {0}")]
    Dns(String),
    /// The tenant has a look-up under way, or too many others have.
    #[error("too many domains are being verified")]
    LookupsBusy,
    #[error("the tenant has {most} identity providers already")]
    LimitReached { most: usize },
    #[error("the provider's address is not allowed: {0}")]
    NotAllowed(#[from] Blocked),
    /// Everything that is wrong with the input.
    #[error("{} things are wrong with the input", .0.len())]
    Invalid(Vec<Fault>),
    #[error("the sign-on is refused: {}", .0.name())]
    Refused(RefusalReason),
    /// The cause is for the log; it holds no token.
    #[error("the identity provider cannot be used: {0}")]
    ProviderError(String),
    #[error("the identity provider takes too long")]
    ProviderTimeout,
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error(transparent)]
    Sealing(#[from] SealError),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One thing that is wrong with the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A domain, and its place in the list; `None` where there is only one.
    Domain(Option<usize>, DomainProblem),
    Issuer(IssuerProblem),
    /// The issuer changes its server, and the client secret did not come along.
    SecretNeeded,
    Scope(usize),
    NoOpenidScope,
    DefaultRole,
    ReturnTo,
    LoginHint,
}

impl From<DirectoryError> for SsoError {
    fn from(error: DirectoryError) -> Self {
        Self::Auth(error.into())
    }
}
