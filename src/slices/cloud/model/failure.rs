//! What can go wrong with a cloud, in the same words for every kind.

use std::time::Duration;

use super::{verification::Outcome, vm::bounded};

/// The longest message of a provider that is kept.
const MAX_MESSAGE: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureClass {
    InvalidCredentials,
    InsufficientPermissions,
    /// No such name, or nobody answers there.
    Unreachable,
    /// The address policy does not let it be reached.
    TargetNotAllowed,
    TlsError,
    ClockSkew,
    RateLimited,
    /// The provider failed, or said what we do not understand.
    ProviderError,
    Timeout,
    QuotaExceeded,
    /// What was asked for does not exist there.
    NotFound,
    /// What was asked for cannot be.
    InvalidRequest,
}

impl FailureClass {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::InvalidCredentials => "invalid_credentials",
            Self::InsufficientPermissions => "insufficient_permissions",
            Self::Unreachable => "unreachable",
            Self::TargetNotAllowed => "target_not_allowed",
            Self::TlsError => "tls_error",
            Self::ClockSkew => "clock_skew",
            Self::RateLimited => "rate_limited",
            Self::ProviderError => "provider_error",
            Self::Timeout => "timeout",
            Self::QuotaExceeded => "quota_exceeded",
            Self::NotFound => "not_found",
            Self::InvalidRequest => "invalid_request",
        }
    }

    /// Whether the same could go well at another time without anybody doing something about it.
    pub(crate) const fn is_transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::RateLimited | Self::ProviderError | Self::Timeout)
    }

    /// Whether a creation that ended like this may have happened all the same.
    pub(crate) const fn is_uncertain(self) -> bool {
        matches!(self, Self::Unreachable | Self::ProviderError | Self::Timeout)
    }

    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::InvalidCredentials => Outcome::InvalidCredentials,
            Self::InsufficientPermissions => Outcome::InsufficientPermissions,
            Self::Unreachable | Self::TargetNotAllowed => Outcome::Unreachable,
            Self::TlsError => Outcome::TlsError,
            Self::ClockSkew => Outcome::ClockSkew,
            Self::RateLimited => Outcome::RateLimited,
            Self::ProviderError | Self::QuotaExceeded | Self::NotFound | Self::InvalidRequest => Outcome::ProviderError,
            Self::Timeout => Outcome::Timeout,
        }
    }

    /// What can be done about it.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::InvalidCredentials => "Check the credential for typing errors, and that it was not revoked or has ended.",
            Self::InsufficientPermissions => "Give the account of the credential the right to list and create VMs.",
            Self::Unreachable => "Check the endpoint's name and port, and that the network lets this server reach it.",
            Self::TargetNotAllowed => {
                "Use an address on the public Internet, or ask the operator to allow the network (`egress.allowed_networks`)."
            }
            Self::TlsError => "Check the endpoint's certificate; a private authority goes into `ca_certificate_pem`.",
            Self::ClockSkew => "Set this server's clock: the provider refuses requests from another time.",
            Self::RateLimited => "Wait; other users of the account may use up its rate.",
            Self::ProviderError => "Look at the provider's status page, and try again later.",
            Self::Timeout => "Try again later; check that nothing between here and there drops packets.",
            Self::QuotaExceeded => "Ask the provider for a higher quota, or remove what is no longer needed.",
            Self::NotFound => "Check the ids and the region: the provider does not know one of them.",
            Self::InvalidRequest => "Correct what the message names.",
        }
    }
}

/// A call to a cloud that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", class.name())]
pub(crate) struct Failure {
    pub(crate) class: FailureClass,
    /// The provider's own code where it has one, such as `AuthFailure`.
    pub(crate) code: String,
    pub(crate) message: String,
    /// When the provider wants to be asked again.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn new(class: FailureClass, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class, code: code.into(), message: bounded(&message.into(), MAX_MESSAGE), retry_after: None }
    }

    pub(crate) fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }
}
