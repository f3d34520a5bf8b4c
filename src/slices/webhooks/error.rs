//! What can go wrong with webhook endpoints and their deliveries.

use tenantd_base::{authority::Lacking, secrets::SealError, versions::Stale};
use tenantd_egress::{Blocked, UrlProblem};
use tenantd_store::StoreError;

use super::model::EndpointStatus;

/// A kind of event that does not exist, with the one that was probably meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEvent {
    /// Its place in the list.
    pub place: usize,
    pub given: String,
    pub suggestion: Option<String>,
}

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
    #[error("unknown kinds of events: {0:?}")]
    UnknownEvents(Vec<UnknownEvent>),
    #[error("the URL {0}")]
    BadUrl(UrlProblem),
    #[error(transparent)]
    Blocked(#[from] Blocked),
    #[error("headers that cannot be: {0:?}")]
    BadHeaders(Vec<(String, &'static str)>),
    #[error("the certificate {0}")]
    BadCertificate(String),
    #[error("several things are wrong")]
    Several(Vec<WebhookError>),
    /// The endpoint's state does not allow it.
    #[error("the endpoint is {0:?}")]
    WrongState(EndpointStatus),
    /// The event is past its retention, so that its body is gone.
    #[error("the event is no longer kept")]
    EventGone,
    #[error("the range of a replay is empty")]
    EmptyRange,
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
