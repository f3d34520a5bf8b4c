//! The errors of outgoing requests, with the codes of an attempt's record. The details are safe to show to the tenant: they
//! describe the target, but never why the address policy refused it.

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    #[error("the name cannot be resolved: {0}")]
    Dns(String),
    #[error(transparent)]
    Blocked(#[from] Blocked),
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("TLS: {0}")]
    Tls(String),
    #[error("the request timed out")]
    Timeout,
    #[error("the connection was closed before the answer was complete")]
    Reset,
    #[error("the answer is not valid HTTP: {0}")]
    Protocol(String),
}

impl EgressError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Dns(_) => "dns",
            Self::Blocked(_) => "blocked",
            Self::Connect(_) => "connect",
            Self::Tls(_) => "tls",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Protocol(_) => "protocol",
        }
    }
}

/// The address policy refuses this target. The error gives no reason, because the reason would reveal the operator's network to the
/// tenant. The operator's log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target_not_allowed")]
pub struct Blocked;
