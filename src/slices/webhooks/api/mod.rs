//! The API of webhooks.

mod admin;
mod collection;
mod deliveries;
mod delivery_wire;
mod examples;
mod operations;
mod published;
mod record;
mod vocabulary;
mod wire;

pub(super) use admin::AdminWebhooksApi;
pub(super) use collection::WebhooksApi;
pub(super) use deliveries::DeliveriesApi;
pub(super) use operations::OperationsApi;
pub(super) use published::webhooks;
pub(super) use record::WebhookApi;
pub(super) use wire::endpoint_fields;

use poem_openapi::Tags;

use wire::Webhook;

use tenantd_base::clock::Timestamp;
use tenantd_http::problem::{Code, Problem};
use tenantd_store::Read;

use super::{
    Core,
    error::WebhookError,
    ledger,
    model::{Endpoint, EndpointStatus},
    repo::{self, EndpointKey},
};

#[derive(Tags)]
enum Area {
    /// Endpoints that receive events as they happen, and the deliveries to them.
    Webhooks,
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::NotFound | WebhookError::NoDelivery | WebhookError::NoOperation => Self::plain(Code::NotFound),
            WebhookError::NotReadable(lacking) => Self::from(*lacking),
            WebhookError::LimitReached { most } => Self::new(
                Code::LimitReached,
                format!(
                    "The tenant already has {most} webhook endpoints, which is the limit. Delete an endpoint that you no longer need."
                ),
            ),
            WebhookError::TooManyReplays { most } => Self::new(
                Code::LimitReached,
                format!("This endpoint already has {most} replays in progress, which is the limit. Wait for one to finish."),
            ),
            WebhookError::Invalid(faults) => faults.into(),
            WebhookError::WrongState(status) => Self::new(Code::InvalidTransition, wrong_state(status)),
            WebhookError::EventGone => {
                Self::new(Code::InvalidTransition, "The event is past its retention, so its body is no longer available.")
            }
            WebhookError::Stale(stale) => stale.into(),
            WebhookError::Event(error) => Self::internal(error),
            WebhookError::Sealing(error) => Self::internal(error),
            WebhookError::Store(error) => error.into(),
        }
    }
}

fn wrong_state(status: EndpointStatus) -> &'static str {
    match status {
        EndpointStatus::Disabled(_) => "The endpoint is disabled. Enable it first.",
        EndpointStatus::Paused => "The endpoint is paused, not disabled. Resume it instead.",
        EndpointStatus::Active => "The endpoint is already active.",
    }
}

/// The wire form of an endpoint, including its waiting deliveries.
fn show(core: &Core, tx: &impl Read, endpoint: Endpoint, now: Timestamp) -> Result<Webhook, WebhookError> {
    let key: EndpointKey = (endpoint.tenant_id, endpoint.id);
    let mut state = repo::state(tx, key)?;
    let oldest = match ledger::next_due(tx, key)? {
        Some((_, seq)) => ledger::get(tx, key, seq)?.map(|delivery| delivery.event_at),
        None => None,
    };
    state.pending += core.dispatch.waiting_here(key);
    Ok(Webhook::new(endpoint, &state, oldest, now))
}
