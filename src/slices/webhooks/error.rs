//! Errors of webhook endpoints and their deliveries.

use tenantd_base::{
    authority::Lacking,
    fault::{Fault, listed},
    secrets::SealError,
    versions::Stale,
};
use tenantd_egress::UrlProblem;
use tenantd_store::StoreError;

use super::model::EndpointStatus;

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The caller may read no event that a subscription names, or not the event to redeliver.
    #[error("the caller lacks {0}")]
    NotReadable(Box<Lacking>),
    #[error("the webhook endpoint does not exist")]
    NotFound,
    #[error("the delivery does not exist")]
    NoDelivery,
    #[error("the operation does not exist")]
    NoOperation,
    #[error("the tenant already has {most} endpoints")]
    LimitReached { most: usize },
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    /// The endpoint's state does not allow the operation.
    #[error("the endpoint is {0:?}")]
    WrongState(EndpointStatus),
    /// The event is past its retention, so its body was removed.
    #[error("the event is past its retention")]
    EventGone,
    #[error("the endpoint already has {most} replays in progress")]
    TooManyReplays { most: usize },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("could not write an event: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Sealing(#[from] SealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(super) fn bad_url(problem: UrlProblem) -> Vec<Fault> {
    vec![Fault::new("/url", "wrong_form", format!("the URL {problem}"))]
}

/// The fault of a URL that the address policy refuses. The tenant does not learn why.
pub(super) fn refused_url() -> Fault {
    Fault::new("/url", "target_not_allowed", "the address is not allowed as a target")
}
