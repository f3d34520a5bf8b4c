//! Webhooks on the wire.

mod admin;
mod collection;
mod deliveries;
mod delivery_wire;
mod examples;
mod operations;
mod record;
mod vocabulary;
mod wire;

pub(super) use admin::AdminWebhooksApi;
pub(super) use collection::WebhooksApi;
pub(super) use deliveries::DeliveriesApi;
pub(super) use operations::OperationsApi;
pub(super) use record::WebhookApi;
pub(super) use wire::{describe, endpoint_fields};

use poem_openapi::Tags;

use wire::Webhook;

use tenantd_base::clock::Timestamp;
use tenantd_http::problem::{Code, FieldError, Problem};
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
    /// Endpoints that get events as they happen, and what was delivered to them.
    Webhooks,
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::NotFound | WebhookError::NoDelivery | WebhookError::NoOperation => Self::plain(Code::NotFound),
            WebhookError::NotReadable(lacking) => Self::from(*lacking),
            WebhookError::LimitReached { most } => Self::new(
                Code::LimitReached,
                format!("The tenant has {most} webhook endpoints, which is the most; delete one that is not needed."),
            ),
            WebhookError::TooManyReplays { most } => {
                Self::new(Code::LimitReached, format!("{most} replays of this endpoint are under way; wait for one to end."))
            }
            WebhookError::UnknownEvents(_)
            | WebhookError::BadUrl(_)
            | WebhookError::BadHeaders(_)
            | WebhookError::BadCertificate(_)
            | WebhookError::Several(_)
            | WebhookError::EmptyRange => Self::invalid(field_errors(error)),
            WebhookError::Blocked(_) => {
                let mut problem = Self::new(Code::TargetNotAllowed, "The address of the URL is not allowed as a target.");
                problem.errors.push(FieldError::pointer("/url", "target_not_allowed", "the address is not allowed as a target"));
                problem
            }
            WebhookError::WrongState(status) => Self::new(Code::InvalidTransition, wrong_state(status)),
            WebhookError::EventGone => {
                Self::new(Code::InvalidTransition, "The event is past its retention, so there is nothing left to send.")
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
        EndpointStatus::Disabled(_) => "The endpoint is disabled; enable it first.",
        EndpointStatus::Paused => "The endpoint is paused; resume it instead.",
        EndpointStatus::Active => "The endpoint is active.",
    }
}

/// What is wrong with the input, field by field.
fn field_errors(error: WebhookError) -> Vec<FieldError> {
    match error {
        WebhookError::UnknownEvents(unknown) => unknown
            .into_iter()
            .map(|event| {
                let message = format!("{} is no kind of event", event.given);
                FieldError::pointer(format!("/events/{}", event.place), "unknown_event", message).with_suggestion(event.suggestion)
            })
            .collect(),
        WebhookError::BadUrl(problem) => vec![FieldError::pointer("/url", "wrong_form", format!("the URL {problem}"))],
        WebhookError::BadHeaders(problems) => problems
            .into_iter()
            .map(|(name, problem)| FieldError::pointer("/headers", "not_allowed", format!("{name} {problem}")))
            .collect(),
        WebhookError::BadCertificate(problem) => {
            vec![FieldError::pointer("/ca_certificate_pem", "wrong_form", format!("the certificate {problem}"))]
        }
        WebhookError::Several(errors) => errors.into_iter().flat_map(field_errors).collect(),
        WebhookError::EmptyRange => {
            vec![FieldError::pointer("", "empty_range", "no event lies in this range; events past their retention are gone")]
        }
        other => vec![FieldError::pointer("", "not_valid", other.to_string())],
    }
}

/// An endpoint as it is shown, with what waits for it.
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
