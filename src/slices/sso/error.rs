//! What can go wrong with identity providers and with signing in through them.

use tenantd_auth::{AuthError, RefusalReason};
use tenantd_base::{fault::Fault, secrets::SealError, versions::Stale};
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
    /// What the provider itself said, in a bounded form; it holds no token.
    #[error("the sign-on is refused: {}: {cause}", .reason.name())]
    RefusedByProvider { reason: RefusalReason, cause: String },
    /// The cause is for the log and for administrators; it holds no token.
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

impl From<DirectoryError> for SsoError {
    fn from(error: DirectoryError) -> Self {
        Self::Auth(error.into())
    }
}

/// `place` is that of the domain in the list; `None` where there is only one.
pub(super) fn bad_domain(place: Option<usize>, problem: DomainProblem) -> Fault {
    let pointer = place.map_or("/domain".to_owned(), |place| format!("/domains/{place}"));
    let fault = Fault::new(pointer, "wrong_form", problem.to_string());
    match problem {
        DomainProblem::Address { domain } => fault.with_suggestion(Some(domain)),
        DomainProblem::NoDomain => fault,
    }
}

pub(super) fn bad_issuer(problem: IssuerProblem) -> Fault {
    Fault::new("/issuer", "wrong_form", format!("the issuer {problem}"))
}

/// The issuer moves to another server, and the request lacks the client secret.
pub(super) fn secret_needed() -> Fault {
    let message = "the stored client secret is bound to the scheme, host and port of the issuer: send it again to change these";
    Fault::new("/client_secret", "required", message)
}

pub(super) fn bad_scope(place: usize) -> Fault {
    Fault::new(format!("/scopes/{place}"), "wrong_form", "this is not a scope of OAuth 2.0")
}

pub(super) fn no_openid_scope() -> Fault {
    Fault::new("/scopes", "required", "the scope openid is needed")
}

pub(super) fn bad_default_role() -> Fault {
    Fault::new("/default_role", "not_allowed", "operator is a role of the platform tenant, and the only one there")
}

pub(super) fn bad_return_to() -> Fault {
    Fault::new("/return_to", "wrong_form", "return_to must be a path of this site, such as /documentation/")
}

pub(super) fn bad_login_hint() -> Fault {
    Fault::new("/login_hint", "wrong_form", "login_hint must be 1 to 254 bytes on one line")
}
