//! What can go wrong with a question for figures.

use tenantd_base::{access::Grants, fault::Fault};
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AnalyticsError {
    #[error("the question is not valid")]
    Invalid(Vec<Fault>),
    #[error("the metrics count what the caller may not read")]
    NotHeld(Grants),
    #[error(transparent)]
    Store(#[from] StoreError),
}
