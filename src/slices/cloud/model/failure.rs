//! The failures of clouds, in one classification for all kinds.

use std::time::Duration;

use super::{verification::Outcome, vm::bounded};

/// The maximum length of a provider's message. Longer messages are truncated.
const MAX_MESSAGE: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureClass {
    InvalidCredentials,
    InsufficientPermissions,
    /// The name does not resolve, or nothing responds at the address.
    Unreachable,
    /// The address policy does not allow the target.
    TargetNotAllowed,
    TlsError,
    ClockSkew,
    RateLimited,
    /// The provider failed, or its response could not be understood.
    ProviderError,
    Timeout,
    QuotaExceeded,
    /// The provider does not have the requested resource.
    NotFound,
    /// The provider cannot fulfill such a request.
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

    /// Whether a retry may succeed later without any change.
    pub(crate) const fn is_transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::RateLimited | Self::ProviderError | Self::Timeout)
    }

    /// Whether a VM may have been created despite this failure.
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

    /// How to fix the problem.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::InvalidCredentials => "Check that the credential has no typing errors and was not revoked or expired.",
            Self::InsufficientPermissions => "Give the credential's account the permission to list and create VMs.",
            Self::Unreachable => "Check the endpoint's name and port, and check that the network allows this server to reach it.",
            Self::TargetNotAllowed => {
                "Use an address on the public Internet, or ask the operator to allow the network (`egress.allowed_networks`)."
            }
            Self::TlsError => "Check the endpoint's certificate. For a private certificate authority, set `ca_certificate_pem`.",
            Self::ClockSkew => "Correct this server's clock. The provider refuses requests with a wrong time.",
            Self::RateLimited => "Retry later. Other users of the account may have used up its rate limit.",
            Self::ProviderError => "Check the provider's status page and retry later.",
            Self::Timeout => "Retry later. Check that no firewall between this server and the provider drops packets.",
            Self::QuotaExceeded => "Ask the provider for a higher quota, or delete resources that you no longer need.",
            Self::NotFound => "Check the ids and the region. The provider does not know one of them.",
            Self::InvalidRequest => "Correct the values that the message names.",
        }
    }
}

/// A failed call to a cloud.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", class.name())]
pub(crate) struct Failure {
    pub(crate) class: FailureClass,
    /// The provider's own error code if it has one, such as `AuthFailure`.
    pub(crate) code: String,
    pub(crate) message: String,
    /// How long to wait before a retry, as the provider requests.
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
