//! The words of webhooks as JSON and as parameters: the model's own types, with their schemas.

use tenantd_http::wire::word_type;

use super::super::{
    delivery::{AttemptError, Decision, DeliveryStatus, Trigger},
    health::HealthState,
    replay::Only,
    service::WantedStatus,
};

word_type! {
    WantedStatus, "WebhookStatus", "`active`: gets deliveries. `paused`: events wait. `disabled`: events are recorded as skipped.";
    HealthState, "WebhookHealthState", "`healthy`: the last delivery succeeded. `degraded`: some have failed since. `failing`: five or more in a row.";
    DeliveryStatus, "DeliveryStatus", "`pending` and `retrying` wait for an attempt. `exhausted`: the schedule is over. `aborted`: the receiver asked for it. `skipped`:\nthe endpoint was disabled. `expired`: given up because too many waited, or because the event is no longer kept.";
    Trigger, "AttemptTrigger", "Why the attempt was made. `probe`: to see whether an endpoint that failed is back.";
    Decision, "AttemptDecision", "What followed from the attempt. `disabled`: the endpoint was disabled with it.";
    AttemptError, "DeliveryError", "Why there was no answer. `blocked`: the address is not allowed. `interrupted`: tenantd was stopped in the middle.";
    Only, "ReplayOnly", "`failed`: exhausted, aborted or expired. `missing`: skipped or never tried. `all`: these, and what was delivered too.";
}
