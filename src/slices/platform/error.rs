//! What can go wrong with tenants.

use std::time::Duration;

use crate::kernel::store::StoreError;

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
    #[error("the platform's own tenant cannot be suspended")]
    PlatformTenant,
    #[error("the tenant's clock cannot be advanced: {0}")]
    SharedClock(&'static str),
    #[error("a clock is at most {} days ahead", .0.as_secs() / 86_400)]
    ClockLimit(Duration),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
