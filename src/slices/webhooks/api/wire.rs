//! Webhook endpoints as clients see and send them.

use std::collections::BTreeMap;

use poem_openapi::Object;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{change::Change, clock::Timestamp, fault::Fault, id::WebhookId, secrets::Secret};
use tenantd_egress::{TargetUrl, check_ca_pem, without_query};
use tenantd_http::{shape::Shape, wire::Word};
use tenantd_store::events::{Describe, Described};

use super::{
    super::{
        error::bad_url,
        health::HealthState,
        model::{self, CustomHeaders, DisabledReason, EndpointStatus, EventFilter, NewEndpoint, Ordering},
        repo::EndpointState,
        schedule::RetrySchedule,
        service::{EndpointChange, WantedStatus},
    },
    delivery_wire::MissedEvents,
};

pub(super) const DEFAULT_TIMEOUT_SECONDS: u32 = 20;

fn status_parts(status: EndpointStatus) -> (WantedStatus, Option<Word<DisabledReason>>) {
    match status {
        EndpointStatus::Active => (WantedStatus::Active, None),
        EndpointStatus::Paused => (WantedStatus::Paused, None),
        EndpointStatus::Disabled(reason) => (WantedStatus::Disabled, Some(reason.into())),
    }
}

/// How deliveries to the endpoint are going.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WebhookHealth {
    pub(super) state: HealthState,
    /// Failed attempts since the last success.
    pub(super) consecutive_failures: u32,
    /// When it last succeeded.
    pub(super) last_success_at: Option<Timestamp>,
    /// When it last failed.
    pub(super) last_failure_at: Option<Timestamp>,
    /// The HTTP status of the last attempt that was answered.
    pub(super) last_status: Option<u16>,
    /// Deliveries that wait for an attempt.
    pub(super) pending: u64,
    /// When the event happened that waits for the next attempt.
    pub(super) oldest_pending_at: Option<Timestamp>,
    /// Deliveries that were given up because too many waited.
    pub(super) shed: u64,
}

/// What an event must have beside its kind. A list that is absent asks for nothing.
#[skip_serializing_none]
#[derive(Debug, Clone, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WebhookFilter {
    /// Events of records of these organizations. Each must exist when you add it.
    #[oai(validator(min_items = 1, max_items = 100))]
    pub(super) organization_ids: Option<Vec<String>>,
    /// Events of tickets with these priorities: `critical`, `high`, `medium` or `low`.
    #[oai(validator(min_items = 1, max_items = 16))]
    pub(super) priorities: Option<Vec<String>>,
    /// Not what these users (`usr_…`), API keys (`key_…`) or workflows (`wfl_…`) did: an integration leaves its own changes out. Each
    /// must exist when you add it. `system` is tenantd itself, and `local_operator` the operator on its machine.
    #[oai(validator(min_items = 1, max_items = 100))]
    pub(super) exclude_actor_ids: Option<Vec<String>>,
}

impl From<WebhookFilter> for EventFilter {
    fn from(filter: WebhookFilter) -> Self {
        Self {
            organization_ids: filter.organization_ids.unwrap_or_default(),
            priorities: filter.priorities.unwrap_or_default(),
            exclude_actor_ids: filter.exclude_actor_ids.unwrap_or_default(),
        }
    }
}

fn show_filter(filter: EventFilter) -> Option<WebhookFilter> {
    let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
    (!filter.is_empty()).then(|| WebhookFilter {
        organization_ids: some(filter.organization_ids),
        priorities: some(filter.priorities),
        exclude_actor_ids: some(filter.exclude_actor_ids),
    })
}

/// A webhook endpoint, without its secret and the values of its headers.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct Webhook {
    pub(super) id: WebhookId,
    pub(super) name: String,
    /// Where deliveries are sent to. Events show it without its query.
    pub(super) url: String,
    /// The kinds of events that it gets: exact ones, `ticket.*`, or `*`.
    pub(super) events: Vec<String>,
    pub(super) description: Option<String>,
    pub(super) filter: Option<WebhookFilter>,
    /// The names of the custom headers. Their values can be set but not read.
    pub(super) header_names: Vec<String>,
    pub(super) status: WantedStatus,
    pub(super) disabled_reason: Option<Word<DisabledReason>>,
    pub(super) ordering: Word<Ordering>,
    /// How long one delivery may take, from the look-up of the name to the end of the answer.
    pub(super) timeout_seconds: u32,
    /// How many deliveries are sent in a second.
    pub(super) rate_limit_per_second: Option<u32>,
    pub(super) retry: Word<RetrySchedule>,
    /// The certificate authority that the endpoint is verified with, as PEM.
    pub(super) ca_certificate_pem: Option<String>,
    /// The beginning of the secret, to recognise it by.
    pub(super) secret_hint: String,
    /// When the secret was last replaced.
    pub(super) secret_rotated_at: Option<Timestamp>,
    /// Until when deliveries are signed with the secret before the rotation too.
    pub(super) previous_secret_expires_at: Option<Timestamp>,
    pub(super) health: WebhookHealth,
    /// What it did not get while it was disabled. Only the answer to the request that enables it has this.
    pub(super) missed: Option<MissedEvents>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// Counts the changes of this record. Deliveries do not count.
    pub(super) version: u64,
}

impl Webhook {
    pub(super) fn new(endpoint: model::Endpoint, state: &EndpointState, oldest: Option<Timestamp>, now: Timestamp) -> Self {
        let (status, disabled_reason) = status_parts(endpoint.status);
        let health = state.health;
        Self {
            id: endpoint.id,
            name: endpoint.name,
            url: endpoint.url,
            events: endpoint.events,
            description: endpoint.description,
            filter: show_filter(endpoint.filter),
            header_names: endpoint.header_names,
            status,
            disabled_reason,
            ordering: endpoint.ordering.into(),
            timeout_seconds: endpoint.timeout_seconds,
            rate_limit_per_second: endpoint.rate_limit_per_second,
            retry: endpoint.retry.into(),
            ca_certificate_pem: endpoint.ca_certificate_pem,
            secret_hint: endpoint.secret_hint,
            secret_rotated_at: endpoint.secret_rotated_at,
            previous_secret_expires_at: endpoint.previous.map(|(_, end)| end).filter(|end| now < *end),
            health: WebhookHealth {
                state: health.state(),
                consecutive_failures: health.consecutive_failures,
                last_success_at: health.last_success_at,
                last_failure_at: health.last_failure_at,
                last_status: health.last_status,
                pending: state.pending,
                oldest_pending_at: oldest,
                shed: state.shed,
            },
            missed: None,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
            version: endpoint.version,
        }
    }
}

impl Describe<(&EndpointState, Timestamp)> for model::Endpoint {
    fn describe(&self, (state, now): (&EndpointState, Timestamp)) -> Described {
        let mut shown = Webhook::new(self.clone(), state, None, now);
        // Events have more readers than endpoints, and a query is often a token.
        without_query(&self.url).clone_into(&mut shown.url);
        to_raw_value(&shown)
    }
}

/// A webhook endpoint with its secret, shown this once.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookWithSecret {
    /// Signs the deliveries, by Standard Webhooks. It cannot be had again: keep it safe.
    pub(super) secret: String,
    #[oai(flatten)]
    #[serde(flatten)]
    pub(super) record: Webhook,
}

impl WebhookWithSecret {
    pub(super) fn new(endpoint: model::Endpoint, state: &EndpointState, secret: &Secret, now: Timestamp) -> Self {
        Self { secret: secret.expose().to_owned(), record: Webhook::new(endpoint, state, None, now) }
    }
}

/// An endpoint to create.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateWebhook {
    /// A label for people.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: String,
    /// Where deliveries are sent to: http or https, without a user name, password or fragment.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) url: String,
    /// The kinds of events that it gets: exact ones, `ticket.*`, or `*`.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    pub(super) events: Vec<String>,
    #[oai(validator(max_length = 1000))]
    pub(super) description: Option<String>,
    pub(super) filter: Option<WebhookFilter>,
    /// Headers that every delivery carries, at most 16. The values cannot be read later, and are sent to the scheme, host and port of
    /// `url` only.
    pub(super) headers: Option<BTreeMap<String, String>>,
    /// `none` when absent.
    pub(super) ordering: Option<Word<Ordering>>,
    /// 20 when absent.
    #[oai(validator(minimum(value = "1"), maximum(value = "60")))]
    pub(super) timeout_seconds: Option<u32>,
    /// The most deliveries that start in any second. An attempt counts until a second after its end. No limit when absent. Tests do not count.
    #[oai(validator(minimum(value = "1"), maximum(value = "1000")))]
    pub(super) rate_limit_per_second: Option<u32>,
    /// `standard` when absent.
    pub(super) retry: Option<Word<RetrySchedule>>,
    /// PEM of the certificate authorities to believe for this endpoint, in place of the usual ones.
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) ca_certificate_pem: Option<String>,
}

/// The bounds of an endpoint's fields, for one that comes with a whole tenant.
pub(crate) fn endpoint_fields() -> Result<Shape, String> {
    let fields = ["name", "url", "events", "description", "timeout_seconds", "rate_limit_per_second", "ca_certificate_pem"];
    Shape::fields::<CreateWebhook>(&fields)
}

/// Gathers what several checks find.
#[derive(Default)]
struct Checks(Vec<Fault>);

impl Checks {
    /// The checked value; a default in place of one that is wrong.
    fn note<T: Default>(&mut self, checked: Result<T, Vec<Fault>>) -> T {
        checked.unwrap_or_else(|faults| {
            self.0.extend(faults);
            T::default()
        })
    }
}

/// The URL in the form in which it is judged and dialled.
fn check_url(text: &str) -> Result<String, Vec<Fault>> {
    TargetUrl::parse(text).map(|url| url.as_str().to_owned()).map_err(bad_url)
}

fn check_certificate(pem: String) -> Result<String, Vec<Fault>> {
    let fault = |problem: String| vec![Fault::new("/ca_certificate_pem", "wrong_form", format!("the certificate {problem}"))];
    check_ca_pem(&pem).map_err(fault).map(|()| pem)
}

impl From<CreateWebhook> for NewEndpoint {
    fn from(body: CreateWebhook) -> Self {
        let mut checks = Checks::default();
        let url = checks.note(check_url(&body.url));
        let headers = checks.note(CustomHeaders::parse(body.headers.unwrap_or_default()));
        let ca_certificate_pem = checks.note(body.ca_certificate_pem.map(check_certificate).transpose());
        Self {
            name: body.name,
            url,
            description: body.description,
            events: body.events,
            filter: body.filter.map(Into::into).unwrap_or_default(),
            headers,
            ordering: body.ordering.map_or(Ordering::None, Into::into),
            timeout_seconds: body.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS),
            rate_limit_per_second: body.rate_limit_per_second,
            retry: body.retry.map_or(RetrySchedule::Standard, Into::into),
            ca_certificate_pem,
            faults: checks.0,
        }
    }
}

/// A change of an endpoint. What is absent stays as it is; `null` clears.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateWebhook {
    /// The endpoint, unless the path or the query names it.
    pub(super) id: Option<WebhookId>,
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: Option<String>,
    /// Where events are sent.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) url: Option<String>,
    /// The kinds of events to deliver.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    pub(super) events: Option<Vec<String>>,
    #[oai(validator(max_length = 1000))]
    pub(super) description: Change<String>,
    pub(super) filter: Change<WebhookFilter>,
    /// Replaces all custom headers. Send them again whenever you change the scheme, host or port of `url`, or `ca_certificate_pem`:
    /// tenantd removes stored values that were given for another target.
    pub(super) headers: Change<BTreeMap<String, String>>,
    pub(super) status: Option<WantedStatus>,
    pub(super) ordering: Option<Word<Ordering>>,
    /// How long to wait for an answer, in seconds.
    #[oai(validator(minimum(value = "1"), maximum(value = "60")))]
    pub(super) timeout_seconds: Option<u32>,
    /// How many deliveries are sent in a second.
    #[oai(validator(minimum(value = "1"), maximum(value = "1000")))]
    pub(super) rate_limit_per_second: Change<u32>,
    pub(super) retry: Option<Word<RetrySchedule>>,
    /// The certificate authority that the endpoint is verified with, as PEM.
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) ca_certificate_pem: Change<String>,
}

impl From<UpdateWebhook> for EndpointChange {
    fn from(body: UpdateWebhook) -> Self {
        let mut checks = Checks::default();
        let url = checks.note(body.url.as_deref().map(check_url).transpose());
        let headers = checks.note(body.headers.try_map(CustomHeaders::parse));
        let ca_certificate_pem = checks.note(body.ca_certificate_pem.try_map(check_certificate));
        Self {
            name: body.name,
            url,
            description: body.description,
            events: body.events,
            filter: body.filter.map(Into::into),
            headers,
            ordering: body.ordering.map(Into::into),
            timeout_seconds: body.timeout_seconds,
            rate_limit_per_second: body.rate_limit_per_second,
            retry: body.retry.map(Into::into),
            ca_certificate_pem,
            status: body.status,
            faults: checks.0,
        }
    }
}

/// How a secret is rotated.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct RotateWebhookSecret {
    /// How long deliveries are signed with the old secret too. A day when absent.
    #[oai(validator(minimum(value = "0"), maximum(value = "604800")))]
    pub(super) grace_seconds: Option<u32>,
}
