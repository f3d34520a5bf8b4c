//! What can go wrong with tenants.

use super::model::TenantStatus;
use crate::kernel::{http::precondition::Stale, store::StoreError};

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
    #[error("the tenant is {}", .0.name())]
    Busy(TenantStatus),
    #[error("the slug to confirm with is {slug}")]
    NotConfirmed { slug: String },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
