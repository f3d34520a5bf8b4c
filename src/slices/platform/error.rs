//! What can go wrong with tenants.

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
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
