//! What can go wrong with a question for figures.

use tenantd_base::access::Grants;
use tenantd_store::StoreError;

/// A parameter that cannot be used, in the words of whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) parameter: &'static str,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) allowed: Vec<String>,
    pub(super) suggestion: Option<String>,
}

impl Fault {
    pub(super) fn new(parameter: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        Self { parameter, code, message: message.into(), allowed: Vec::new(), suggestion: None }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AnalyticsError {
    #[error("the question is not valid")]
    Invalid(Vec<InvalidParameter>),
    #[error("the metrics count what the caller may not read")]
    NotHeld(Grants),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Seen from outside only as a part of the error.
#[derive(Debug)]
pub struct InvalidParameter(pub(super) Fault);

impl From<Vec<Fault>> for AnalyticsError {
    fn from(faults: Vec<Fault>) -> Self {
        Self::Invalid(faults.into_iter().map(InvalidParameter).collect())
    }
}
