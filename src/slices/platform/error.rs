//! What can go wrong with tenants.

use std::time::Duration;

use tenantd_base::versions::Stale;
use tenantd_store::StoreError;

use super::model::TenantStatus;

#[derive(Debug, thiserror::Error)]
pub enum TenantError {
    #[error("there is no such tenant")]
    NotFound,
    #[error("the slug {0} is taken")]
    SlugTaken(String),
    #[error("{0}")]
    BadSlug(&'static str),
    #[error("no slug can be made from the name")]
    SlugNeeded,
    #[error("the platform's own tenant cannot be suspended or deleted")]
    PlatformTenant,
    #[error("{0}: {1}")]
    BadStory(&'static str, String),
    #[error("only an evaluation tenant with a sample can be reset")]
    NoStory,
    /// Whoever fills a tenant could not go on.
    #[error("the tenant could not be filled: {0}")]
    Filling(String),
    #[error("the tenant is {}", .0.name())]
    Busy(TenantStatus),
    #[error("the slug to confirm with is {slug}")]
    NotConfirmed { slug: String },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("the tenant's clock cannot be advanced: {0}")]
    SharedClock(&'static str),
    #[error("a clock is at most {} days ahead", .0.as_secs() / 86_400)]
    ClockLimit(Duration),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
