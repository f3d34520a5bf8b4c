//! What can go wrong on the way out, in the words of an attempt's record. The details are safe to show to the tenant: they tell of
//! the target, never why the address policy refused it.

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
    #[error("the time limit is over")]
    Timeout,
    #[error("the connection was closed before the answer was complete")]
    Reset,
    #[error("not a usable HTTP answer: {0}")]
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

/// The address policy does not let this target be reached. It says no more on purpose: the reason would map the operator's
/// network for the tenant. The operator's log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target_not_allowed")]
pub struct Blocked;
