//! The errors of tenant operations.

use std::time::Duration;

use tenantd_base::versions::Stale;
use tenantd_store::StoreError;

use super::model::TenantStatus;

#[derive(Debug, thiserror::Error)]
pub enum TenantError {
    #[error("tenant not found")]
    NotFound,
    #[error("the slug {0} is already in use")]
    SlugTaken(String),
    #[error("{0}")]
    BadSlug(&'static str),
    #[error("cannot derive a slug from the name")]
    SlugNeeded,
    #[error("the platform tenant cannot be suspended or deleted")]
    PlatformTenant,
    #[error("{0}: {1}")]
    InvalidSample(&'static str, String),
    #[error("only an evaluation tenant with sample data can be reset")]
    NoSample,
    /// The sample data could not be generated.
    #[error("cannot fill the tenant with sample data: {0}")]
    FillFailed(String),
    /// The same request works in a moment.
    #[error("{0}")]
    NotNow(&'static str),
    #[error("the tenant has the status {}", .0.name())]
    Busy(TenantStatus),
    #[error("confirm the deletion with the slug {slug}")]
    NotConfirmed { slug: String },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("the tenant's clock cannot be advanced: {0}")]
    SharedClock(&'static str),
    #[error("a tenant's clock can be at most {} days ahead", .0.as_secs() / 86_400)]
    ClockLimit(Duration),
    #[error("cannot write an event: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
