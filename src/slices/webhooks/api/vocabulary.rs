//! The schemas of the webhook words in JSON and in parameters. The model defines the words.

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
    WantedStatus, "WebhookStatus", "`active`: receives deliveries. `paused`: events wait. `disabled`: events are recorded as skipped.";
    HealthState, "WebhookHealthState", "`healthy`: no attempt has failed since the last success. `degraded`: one to four attempts in a row failed. `failing`: five or more attempts in a row failed.";
    DeliveryStatus, "DeliveryStatus", "`pending` and `retrying` wait for an attempt. `delivered`: the receiver accepted the event. `exhausted`: all retries failed, or a test failed. `aborted`: the receiver asked for it. `skipped`:\nthe endpoint was disabled. `expired`: given up because too many waited or the event was past its retention.";
    Trigger, "AttemptTrigger", "Why the attempt was made. `auto`: by the schedule. `manual`: by a redelivery. `replay`: by a replay. `test`: by a test. `probe`: to find out whether a failing endpoint works again.";
    Decision, "AttemptDecision", "What followed from the attempt. `disabled`: the attempt failed and the endpoint was disabled. `failed`: a test failed; tests are not retried.";
    AttemptError, "DeliveryError", "Why there was no response. `blocked`: the address is not allowed. `interrupted`: tenantd stopped during the attempt.";
    Only, "ReplayOnly", "`failed`: exhausted, aborted or expired. `missing`: skipped or never tried. `all`: both of these, and delivered events.";
    ReplayStatus, "ReplayStatus";
}

word_type! {
    stored:
    Ordering, "WebhookOrdering", "`none`: as fast as possible. `per_resource`: an event is sent after every earlier event of the same resource is settled.";
    RetrySchedule, "WebhookRetry", "`standard`: 11 attempts over 76 hours. `fast`: 9 within 15 minutes. `long`: 14 over a week.";
    DisabledReason, "WebhookDisabledReason", "`gone`: the receiver answered 410. `failures`: no delivery succeeded for days. `receiver`: the receiver's response asked for it. `operator`: a user or key disabled it.\n`not_readable`, of a delivery: the endpoint's owner may not read the event.";
}
