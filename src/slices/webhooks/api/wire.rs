//! The wire types of webhook endpoints.

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

/// The health of an endpoint and its waiting deliveries.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WebhookHealth {
    pub(super) state: HealthState,
    /// The number of consecutive failed attempts since the last success.
    pub(super) consecutive_failures: u32,
    /// When an attempt last succeeded. Absent if none has.
    pub(super) last_success_at: Option<Timestamp>,
    /// When an attempt last failed. Absent if none has.
    pub(super) last_failure_at: Option<Timestamp>,
    /// The HTTP status of the last attempt that got a response.
    pub(super) last_status: Option<u16>,
    /// The number of deliveries that wait for an attempt.
    pub(super) pending: u64,
    /// When the event of the next waiting delivery happened. Absent if none waits.
    pub(super) oldest_pending_at: Option<Timestamp>,
    /// The number of deliveries that tenantd gave up because too many waited.
    pub(super) shed: u64,
}

/// Conditions on an event besides its kind. A list that is absent matches every event.
#[skip_serializing_none]
#[derive(Debug, Clone, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct WebhookFilter {
    /// Match events of records of these organizations. Each must exist when you add it.
    #[oai(validator(min_items = 1, max_items = 100))]
    pub(super) organization_ids: Option<Vec<String>>,
    /// Match events of tickets with these priorities: `critical`, `high`, `medium` or `low`.
    #[oai(validator(min_items = 1, max_items = 16))]
    pub(super) priorities: Option<Vec<String>>,
    /// Exclude events caused by these users (`usr_…`), API keys (`key_…`) or workflows (`wfl_…`). An integration can exclude its
    /// own changes this way. Each must exist when you add it. `system` is tenantd itself, and `local_operator` is the operator on
    /// its machine.
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
    /// A name for people.
    pub(super) name: String,
    /// The URL that deliveries are sent to. Events show it without its query.
    pub(super) url: String,
    /// The kinds of events that the endpoint receives: exact names, patterns such as `ticket.*`, or `*`.
    pub(super) events: Vec<String>,
    pub(super) description: Option<String>,
    pub(super) filter: Option<WebhookFilter>,
    /// The names of the custom headers. You can set their values but not read them.
    pub(super) header_names: Vec<String>,
    pub(super) status: WantedStatus,
    /// Why the endpoint is disabled. Absent unless `status` is `disabled`.
    pub(super) disabled_reason: Option<Word<DisabledReason>>,
    pub(super) ordering: Word<Ordering>,
    /// The limit for one delivery in seconds, from the DNS lookup to the end of the response.
    pub(super) timeout_seconds: u32,
    /// The maximum number of deliveries per second. No limit when absent.
    pub(super) rate_limit_per_second: Option<u32>,
    pub(super) retry: Word<RetrySchedule>,
    /// The PEM certificates of the authorities that the endpoint is verified with, instead of the usual ones.
    pub(super) ca_certificate_pem: Option<String>,
    /// The beginning of the secret, to recognize it by.
    pub(super) secret_hint: String,
    /// When the secret was last rotated. Absent if it never was.
    pub(super) secret_rotated_at: Option<Timestamp>,
    /// Until when deliveries are also signed with the previous secret. Absent outside of a rotation.
    pub(super) previous_secret_expires_at: Option<Timestamp>,
    pub(super) health: WebhookHealth,
    /// The events that the endpoint missed while it was disabled. Present only in the response to the request that enables it.
    pub(super) missed: Option<MissedEvents>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// Increases with every change of this record. Deliveries do not change it.
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
        // Events have more readers than endpoints, and a query often contains a token.
        without_query(&self.url).clone_into(&mut shown.url);
        to_raw_value(&shown)
    }
}

/// A webhook endpoint with its secret, which tenantd shows only once.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct WebhookWithSecret {
    /// The secret that signs the deliveries, by Standard Webhooks. Store it safely: you cannot read it again.
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

/// A webhook endpoint to create.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateWebhook {
    /// A name for people.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: String,
    /// The http or https URL that deliveries are sent to, without a user name, password or fragment.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) url: String,
    /// The kinds of events that the endpoint receives: exact names, patterns such as `ticket.*`, or `*`.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    pub(super) events: Vec<String>,
    #[oai(validator(max_length = 1000))]
    pub(super) description: Option<String>,
    pub(super) filter: Option<WebhookFilter>,
    /// Custom headers for every delivery, at most 16. You cannot read the values later. tenantd sends them only to the scheme, host
    /// and port of `url`.
    pub(super) headers: Option<BTreeMap<String, String>>,
    /// The order of deliveries. Defaults to `none`.
    pub(super) ordering: Option<Word<Ordering>>,
    /// The limit for one delivery in seconds. Defaults to 20.
    #[oai(validator(minimum(value = "1"), maximum(value = "60")))]
    pub(super) timeout_seconds: Option<u32>,
    /// The maximum number of deliveries that start in any second. An attempt counts until one second after its end. No limit when
    /// absent. Tests do not count.
    #[oai(validator(minimum(value = "1"), maximum(value = "1000")))]
    pub(super) rate_limit_per_second: Option<u32>,
    /// The retry schedule. Defaults to `standard`.
    pub(super) retry: Option<Word<RetrySchedule>>,
    /// The PEM certificates of the authorities that the endpoint is verified with, instead of the usual ones.
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) ca_certificate_pem: Option<String>,
}

/// The limits of an endpoint's fields, for endpoints in a tenant import.
pub(crate) fn endpoint_fields() -> Result<Shape, String> {
    let fields = ["name", "url", "events", "description", "timeout_seconds", "rate_limit_per_second", "ca_certificate_pem"];
    Shape::fields::<CreateWebhook>(&fields)
}

/// Collects the faults of several checks.
#[derive(Default)]
struct Checks(Vec<Fault>);

impl Checks {
    /// Returns the checked value, or the default if it is invalid.
    fn note<T: Default>(&mut self, checked: Result<T, Vec<Fault>>) -> T {
        checked.unwrap_or_else(|faults| {
            self.0.extend(faults);
            T::default()
        })
    }
}

/// Normalizes the URL to the form that is checked and connected to.
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

/// Changes to an endpoint. Absent fields keep their values; `null` clears a field.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateWebhook {
    /// The id of the endpoint. Leave it out if the path or the query has it.
    pub(super) id: Option<WebhookId>,
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: Option<String>,
    /// The URL that deliveries are sent to.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) url: Option<String>,
    /// The kinds of events that the endpoint receives: exact names, patterns such as `ticket.*`, or `*`.
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
    /// The limit for one delivery in seconds.
    #[oai(validator(minimum(value = "1"), maximum(value = "60")))]
    pub(super) timeout_seconds: Option<u32>,
    /// The maximum number of deliveries per second. `null` removes the limit.
    #[oai(validator(minimum(value = "1"), maximum(value = "1000")))]
    pub(super) rate_limit_per_second: Change<u32>,
    pub(super) retry: Option<Word<RetrySchedule>>,
    /// The PEM certificates of the authorities that the endpoint is verified with. `null` restores the usual ones.
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) ca_certificate_pem: Change<String>,
}

impl UpdateWebhook {
    /// Whether the events go to the same server as before, verified in the same way.
    pub(super) fn keeps_target(&self) -> bool {
        self.url.is_none() && self.ca_certificate_pem == Change::Keep
    }
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

/// How to rotate a secret.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct RotateWebhookSecret {
    /// How long deliveries are also signed with the old secret, in seconds. Defaults to one day.
    #[oai(validator(minimum(value = "0"), maximum(value = "604800")))]
    pub(super) grace_seconds: Option<u32>,
}
