//! The errors of identity providers and of signing in through them.

use tenantd_auth::{AuthError, RefusalReason};
use tenantd_base::{fault::Fault, secrets::SealError, versions::Stale};
use tenantd_directory::DirectoryError;
use tenantd_store::StoreError;

use super::model::{DomainProblem, IssuerProblem};

#[derive(Debug, thiserror::Error)]
pub enum SsoError {
    #[error("the identity provider was not found")]
    NotFound,
    /// There is no provider, it has not proven the domain, it is disabled, or its tenant is suspended. The error does not reveal
    /// which.
    #[error("single sign-on is not available for this domain")]
    NoProvider,
    /// Another provider has proven the domain, or another tenant has staff with such addresses. The error reveals neither the case
    /// nor the owner.
    #[error("the domain {0} is not available")]
    DomainTaken(String),
    /// DNS does not contain the record that proves the domain.
    #[error("DNS has no TXT record {name} with the value {value}")]
    DomainNotProven { name: String, value: String },
    #[error("no identity provider of the tenant claims this domain")]
    DomainNotClaimed,
    #[error("the provider already has {most} domains, which is the limit")]
    TooManyDomains { most: usize },
    #[error("the DNS lookup failed: {0}")]
    Dns(String),
    /// The tenant has a running lookup, or the installation has reached its limit.
    #[error("too many domains are being verified at the same time")]
    LookupsBusy,
    #[error("the tenant already has {most} identity providers, which is the limit")]
    LimitReached { most: usize },
    /// All faults of the input.
    #[error("the input has {} faults", .0.len())]
    Invalid(Vec<Fault>),
    #[error("the provider enforces single sign-on")]
    Enforced,
    #[error("the provider enforces single sign-on and must keep its issuer, client and a proven domain")]
    EnforcedIdentity,
    /// A logout token that is not valid, or was used before, or a provider that does not exist. The error does not reveal which.
    #[error("the logout token is not valid")]
    BadLogoutToken,
    /// A front-channel logout whose issuer is not that of the provider, or a provider that does not exist. The error does not reveal
    /// which.
    #[error("the provider of the logout is not known")]
    BadLogoutIssuer,
    #[error("the session was not started by an identity provider")]
    NoSignOn,
    #[error("the sign-on is refused: {}", .0.name())]
    Refused(RefusalReason),
    /// The provider refused the sign-on. `cause` is its shortened error code and contains no token.
    #[error("the sign-on is refused: {}: {cause}", .reason.name())]
    RefusedByProvider { reason: RefusalReason, cause: String },
    /// The cause is for the log and for administrators. It contains no token.
    #[error("the identity provider cannot be used: {0}")]
    ProviderError(String),
    #[error("the identity provider did not respond in time")]
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

/// `place` is the index of the domain in the list. `None` if there is no list.
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

/// The fault of an issuer that the address policy refuses. The tenant does not learn why.
pub(super) fn refused_issuer() -> Fault {
    Fault::new("/issuer", "target_not_allowed", "the address is not allowed as a target")
}

/// The fault for a change of the issuer's server without the client secret in the request.
pub(super) fn secret_needed() -> Fault {
    let message = "the stored client secret is bound to the issuer's scheme, host and port: to change these, send the secret again";
    Fault::new("/client_secret", "required", message)
}

pub(super) fn bad_scope(place: usize) -> Fault {
    Fault::new(format!("/scopes/{place}"), "wrong_form", "must be a valid OAuth 2.0 scope")
}

pub(super) fn no_openid_scope() -> Fault {
    Fault::new("/scopes", "required", "must contain the scope openid")
}

pub(super) fn bad_default_role() -> Fault {
    Fault::new("/default_role", "not_allowed", "operator is a role of the platform tenant, and the only role there")
}

pub(super) fn bad_mapped_role(place: usize) -> Fault {
    let message = "operator is a role of the platform tenant, and the only role there";
    Fault::new(format!("/role_mappings/{place}/role"), "not_allowed", message)
}

pub(super) fn no_target() -> Fault {
    let message = "name a domain, or tenant and identity_provider_id; to confirm the session that you have, send fresh";
    Fault::new("/domain", "required", message)
}

pub(super) fn bad_return_to() -> Fault {
    Fault::new("/return_to", "wrong_form", "return_to must be a path of this site, such as /tickets")
}

pub(super) fn bad_login_hint() -> Fault {
    Fault::new("/login_hint", "wrong_form", "login_hint must be 1 to 254 bytes on one line")
}
