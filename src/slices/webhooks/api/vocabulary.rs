//! The words of webhooks as JSON and as parameters: the model's own types, with their schemas.

use tenantd_http::wire::word_type;

use super::super::{
    delivery::{AttemptError, Decision, DeliveryStatus, Trigger},
    health::HealthState,
    model::{DisabledReason, Ordering},
    replay::{Only, ReplayStatus},
    schedule::RetrySchedule,
    service::WantedStatus,
};

word_type! {
    WantedStatus, "WebhookStatus", "`active`: gets deliveries. `paused`: events wait. `disabled`: events are recorded as skipped.";
    HealthState, "WebhookHealthState", "`healthy`: the last delivery succeeded. `degraded`: some have failed since. `failing`: five or more in a row.";
    DeliveryStatus, "DeliveryStatus", "`pending` and `retrying` wait for an attempt. `exhausted`: the schedule is over, or a test failed. `aborted`: the receiver asked for it. `skipped`:\nthe endpoint was disabled. `expired`: given up because too many waited, or because the event is no longer kept.";
    Trigger, "AttemptTrigger", "Why the attempt was made. `probe`: to see whether an endpoint that failed is back.";
    Decision, "AttemptDecision", "What followed from the attempt. `disabled`: the endpoint was disabled with it. `failed`: a test, which is not repeated.";
    AttemptError, "DeliveryError", "Why there was no answer. `blocked`: the address is not allowed. `interrupted`: tenantd was stopped in the middle.";
    Only, "ReplayOnly", "`failed`: exhausted, aborted or expired. `missing`: skipped or never tried. `all`: these, and what was delivered too.";
    ReplayStatus, "ReplayStatus";
}

word_type! {
    stored:
    Ordering, "WebhookOrdering", "`none`: as fast as possible. `per_resource`: an event is sent when every earlier one of its resource is settled.";
    RetrySchedule, "WebhookRetry", "`standard`: 11 attempts over 76 hours. `fast`: 9 within 15 minutes. `long`: 14 over a week.";
    DisabledReason, "WebhookDisabledReason", "`gone`: it answered 410. `failures`: nothing succeeded for days. `receiver`: its answer asked for it. `operator`: somebody here did.\n`not_readable`, of a delivery: whom the endpoint acts for may not read the event.";
}
