//! Identity providers and single sign-on on the wire, and the pages for people who sign in.

mod collection;
mod domains;
mod examples;
mod password_pages;
mod record;
mod sign_in_pages;
mod sign_on;
mod trial;
mod wire;

pub(super) use collection::ProvidersApi;
pub(super) use domains::AdminDomainsApi;
pub(super) use password_pages::PasswordPages;
pub(super) use record::{Desk, ProviderApi};
pub(super) use sign_in_pages::SignInPages;
pub(super) use sign_on::SignOnApi;
pub(super) use trial::TrialApi;
pub(super) use wire::provider_fields;

use poem_openapi::Tags;
use serde_json::json;

use tenantd_auth::RefusalReason;
use tenantd_http::problem::{Code, FieldError, Problem};

use super::error::SsoError;

#[derive(Tags)]
enum Area {
    /// Where a tenant's staff sign in from.
    IdentityProviders,
}

impl From<SsoError> for Problem {
    fn from(error: SsoError) -> Self {
        match error {
            SsoError::NotFound => Self::plain(Code::NotFound),
            SsoError::NoProvider => Self::plain(Code::SsoProviderNotFound),
            SsoError::DomainTaken(domain) => {
                let detail = format!("The domain {domain} is not available here. If it is yours, ask the operator to approve it.");
                let mut problem = Self::new(Code::AlreadyExists, detail);
                problem.errors.push(FieldError::pointer("/domains", "already_exists", format!("{domain} is not available")));
                problem
            }
            SsoError::DomainNotProven { name, value } => {
                let detail = format!("DNS has no TXT record {name} with the value {value} yet.");
                Self::new(Code::DomainNotProven, detail).with("record", json!({"type": "TXT", "name": name, "value": value}))
            }
            SsoError::DomainNotClaimed => Self::new(
                Code::NotFound,
                "No identity provider of the tenant claims this domain. If the tenant has several, name one as identity_provider_id.",
            ),
            SsoError::TooManyDomains { most } => {
                Self::new(Code::LimitReached, format!("An identity provider has at most {most} domains."))
            }
            SsoError::Dns(reason) => Self::new(
                Code::ProviderError,
                format!("DNS did not answer: {reason}. Try again, or ask the operator to approve the domain."),
            ),
            SsoError::LookupsBusy => {
                Self::new(Code::RateLimited, "Another domain is being verified, or a provider is being tested.").retry_after(1)
            }
            SsoError::LimitReached { most } => {
                Self::new(Code::LimitReached, format!("A tenant has at most {most} identity providers."))
            }
            SsoError::NotAllowed(_) => {
                let mut problem = Self::plain(Code::TargetNotAllowed);
                problem.errors.push(FieldError::pointer("/issuer", "target_not_allowed", "the address is not allowed as a target"));
                problem
            }
            SsoError::Invalid(faults) => faults.into(),
            SsoError::Refused(reason) | SsoError::RefusedByProvider { reason, cause: _ } => {
                Self::new(Code::InvalidCredentials, explain(reason))
                    .with("reason", reason.name())
                    .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\"")
            }
            SsoError::ProviderError(cause) => {
                Self::new(Code::ProviderError, "The identity provider does not answer as it should.").because(cause)
            }
            SsoError::ProviderTimeout => Self::new(Code::ProviderTimeout, "The identity provider takes too long to answer."),
            SsoError::Auth(error) => error.into(),
            SsoError::Stale(stale) => stale.into(),
            SsoError::Sealing(error) => Self::internal(error),
            SsoError::Event(error) => Self::internal(error),
            SsoError::Store(error) => error.into(),
        }
    }
}

/// What is told to the person in front of the browser.
pub(super) fn explain(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::StateMismatch | RefusalReason::Replayed | RefusalReason::SignOnExpired => {
            "This sign-in was begun in another browser, was finished already, or took too long. Begin it again."
        }
        RefusalReason::ProviderRefused => "Your identity provider did not sign you in. Begin again, or ask whoever runs it.",
        RefusalReason::EmailMissing | RefusalReason::EmailNotVerified => {
            "Your identity provider does not vouch for your e-mail address. Ask whoever runs it."
        }
        RefusalReason::ForeignDomain => "Your e-mail address is not of a domain that this identity provider answers for.",
        RefusalReason::NoAccount => "You have no account here. Ask an administrator to create one.",
        RefusalReason::AccountDisabled => "Your account is disabled. Ask an administrator.",
        RefusalReason::AddressTaken | RefusalReason::OtherIdentity => {
            "Your e-mail address belongs to another account here. Ask an administrator."
        }
        RefusalReason::WrongPassword | RefusalReason::Throttled | RefusalReason::TenantSuspended => {
            "E-mail address or password is wrong."
        }
        RefusalReason::ProviderGone
        | RefusalReason::ProviderUnavailable
        | RefusalReason::CodeRefused
        | RefusalReason::WrongIssuer
        | RefusalReason::WrongAudience
        | RefusalReason::WrongNonce
        | RefusalReason::TokenExpired
        | RefusalReason::BadSignature
        | RefusalReason::BadToken => {
            "The answer of your identity provider cannot be accepted. Begin again, or ask an administrator."
        }
    }
}
