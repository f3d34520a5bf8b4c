//! What can go wrong with identity providers and with signing in through them.

use super::model::{DomainProblem, IssuerProblem};
use crate::{
    kernel::{egress::Blocked, http::precondition::Stale, secrets::SealError, store::StoreError},
    slices::{
        auth::{AuthError, RefusalReason},
        directory::DirectoryError,
    },
};

#[derive(Debug, thiserror::Error)]
pub enum SsoError {
    #[error("there is no such identity provider")]
    NotFound,
    /// No provider, a disabled one, or one of a suspended tenant: nobody is told which.
    #[error("there is no single sign-on for this domain")]
    NoProvider,
    /// Whose the domain is, is nobody's business.
    #[error("the domain {0} belongs to a provider already")]
    DomainTaken(String),
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
