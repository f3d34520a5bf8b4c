//! Errors of an analytics query.

use tenantd_base::{access::Grants, fault::Fault};
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AnalyticsError {
    #[error("the analytics query is not valid")]
    Invalid(Vec<Fault>),
    #[error("the caller lacks a scope that the requested metrics require")]
    NotHeld(Grants),
    #[error(transparent)]
    Store(#[from] StoreError),
}
