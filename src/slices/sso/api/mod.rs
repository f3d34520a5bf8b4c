//! The HTTP API for identity providers and single sign-on.

mod addresses;
mod collection;
mod domains;
mod examples;
mod record;
mod relax;
mod rules;
mod sign_off;
mod sign_on;
mod trial;
mod wire;

pub(super) use collection::ProvidersApi;
pub(super) use domains::AdminDomainsApi;
pub(super) use record::{ApiState, ProviderApi};
pub(super) use relax::AdminRelaxApi;
pub(super) use sign_off::SignOffApi;
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
    /// Manage the identity providers that a tenant's staff sign in through.
    IdentityProviders,
}

impl From<SsoError> for Problem {
    fn from(error: SsoError) -> Self {
        match error {
            SsoError::NotFound => Self::plain(Code::NotFound),
            SsoError::NoProvider => Self::plain(Code::SsoProviderNotFound),
            SsoError::DomainTaken(domain) => {
                let detail = format!("The domain {domain} is not available. If you own it, ask the operator to approve it.");
                let mut problem = Self::new(Code::AlreadyExists, detail);
                problem.errors.push(FieldError::pointer("/domains", "already_exists", format!("{domain} is not available")));
                problem
            }
            SsoError::DomainNotProven { name, value } => {
                let detail = format!(
                    "DNS has no TXT record {name} with the value {value}. Publish the record and retry when DNS returns it."
                );
                Self::new(Code::DomainNotProven, detail).with("record", json!({"type": "TXT", "name": name, "value": value}))
            }
            SsoError::DomainNotClaimed => Self::new(
                Code::NotFound,
                "No identity provider of the tenant claims this domain. To choose a provider, send identity_provider_id.",
            ),
            SsoError::TooManyDomains { most } => Self::new(
                Code::LimitReached,
                format!("An identity provider can have at most {most} domains. Remove one that you no longer need."),
            ),
            SsoError::Dns(reason) => Self::new(
                Code::ProviderError,
                format!("The DNS lookup failed: {reason}. Retry, or ask the operator to approve the domain."),
            ),
            SsoError::LookupsBusy => Self::new(
                Code::RateLimited,
                "Another domain verification or provider test is still running. Retry when it has ended.",
            )
            .retry_after(1),
            SsoError::LimitReached { most } => Self::new(
                Code::LimitReached,
                format!("A tenant can have at most {most} identity providers. Delete one that you no longer need."),
            ),
            SsoError::Enforced => Self::new(
                Code::InvalidTransition,
                "The provider enforces single sign-on. Set `enforcement` to `off`, then delete the provider.",
            ),
            SsoError::EnforcedIdentity => Self::new(
                Code::InvalidTransition,
                "The provider enforces single sign-on, and nobody has signed in through what you change it to. Set `enforcement` to `off`, \
                 change the issuer, the client or the domains, make a test sign-in, then enforce it again.",
            ),
            SsoError::BadLogoutToken => Self::new(
                Code::MalformedRequest,
                "The logout token is not valid: it must be signed by this provider for this client, be new, and be used once.",
            ),
            SsoError::BadLogoutIssuer => Self::new(
                Code::MalformedRequest,
                "`iss` must be the issuer of this identity provider, exactly as in its discovery document.",
            ),
            SsoError::NoSignOn => Self::new(
                Code::InvalidTransition,
                "Your session was not started through an identity provider. Confirm with your password instead.",
            ),
            SsoError::Invalid(faults) => faults.into(),
            SsoError::Refused(reason) | SsoError::RefusedByProvider { reason, cause: _ } => {
                Self::new(Code::InvalidCredentials, explain(reason))
                    .with("reason", reason.name())
                    .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\"")
            }
            SsoError::ProviderError(cause) => {
                Self::new(Code::ProviderError, "The identity provider returned an invalid response.").because(cause)
            }
            SsoError::ProviderTimeout => {
                Self::new(Code::ProviderTimeout, "The identity provider did not respond in time. Retry later.")
            }
            SsoError::Auth(error) => error.into(),
            SsoError::Stale(stale) => stale.into(),
            SsoError::Sealing(error) => Self::internal(error),
            SsoError::Event(error) => Self::internal(error),
            SsoError::Store(error) => error.into(),
        }
    }
}

/// The message for the person who signs in.
pub(super) fn explain(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::StateMismatch | RefusalReason::Replayed | RefusalReason::SignOnExpired => {
            "This sign-in was started in another browser, is already finished, or took too long. Start again."
        }
        RefusalReason::ProviderRefused => "Your identity provider did not sign you in. Start again, or ask its administrator.",
        RefusalReason::EmailMissing | RefusalReason::EmailNotVerified => {
            "Your identity provider did not confirm your e-mail address. Ask its administrator."
        }
        RefusalReason::ForeignDomain => {
            "The domain of your e-mail address does not belong to this identity provider. Ask an administrator."
        }
        RefusalReason::NotFresh => {
            "Your identity provider did not ask you to sign in again, or did not report when you did. Start again, or ask an administrator."
        }
        RefusalReason::WeakSignOn => {
            "You did not sign in to your identity provider in a way that is strong enough here. Start again, and use your second factor."
        }
        RefusalReason::NoMappedGroup => "None of your groups has access here. Ask the administrator of your identity provider.",
        RefusalReason::UnusableGroups => "Your identity provider did not send a usable list of your groups. Ask its administrator.",
        RefusalReason::SingleSignOnRequired => "Sign in through your organization.",
        RefusalReason::NoAccount => "You have no account here. Ask an administrator to create one.",
        RefusalReason::AccountDisabled => "Your account is disabled. Ask an administrator to enable it.",
        RefusalReason::AddressTaken | RefusalReason::OtherIdentity => {
            "Your e-mail address belongs to another account here. Ask an administrator."
        }
        RefusalReason::WrongPassword
        | RefusalReason::WrongCode
        | RefusalReason::WrongPasskey
        | RefusalReason::PasswordExpired
        | RefusalReason::Throttled
        | RefusalReason::TenantSuspended
        | RefusalReason::BadLink => "E-mail address or password is wrong.",
        RefusalReason::ProviderGone
        | RefusalReason::ProviderUnavailable
        | RefusalReason::CodeRefused
        | RefusalReason::WrongIssuer
        | RefusalReason::WrongAudience
        | RefusalReason::WrongNonce
        | RefusalReason::TokenExpired
        | RefusalReason::BadSignature
        | RefusalReason::BadToken => "The response of your identity provider is not valid. Start again, or ask an administrator.",
    }
}
