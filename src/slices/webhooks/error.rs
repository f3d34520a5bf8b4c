//! What can go wrong with webhook endpoints and their deliveries.

use tenantd_base::{
    authority::Lacking,
    fault::{Fault, listed},
    secrets::SealError,
    versions::Stale,
};
use tenantd_egress::{Blocked, UrlProblem};
use tenantd_store::StoreError;

use super::model::EndpointStatus;

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The caller may read nothing of what a subscription asks for, or not the event that is to be sent again.
    #[error("the caller lacks {0}")]
    NotReadable(Box<Lacking>),
    #[error("there is no such webhook endpoint")]
    NotFound,
    #[error("there is no such delivery")]
    NoDelivery,
    #[error("there is no such operation")]
    NoOperation,
    #[error("the tenant has {most} endpoints already")]
    LimitReached { most: usize },
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The endpoint's state does not allow it.
    #[error("the endpoint is {0:?}")]
    WrongState(EndpointStatus),
    /// The event is past its retention, so that its body is gone.
    #[error("the event is no longer kept")]
    EventGone,
    #[error("the endpoint has {most} replays under way already")]
    TooManyReplays { most: usize },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Sealing(#[from] SealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(super) fn bad_url(problem: UrlProblem) -> Vec<Fault> {
    vec![Fault::new("/url", "wrong_form", format!("the URL {problem}"))]
}
