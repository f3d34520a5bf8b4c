//! A delivery: one event to one endpoint, with its attempts. This module decides what follows from an attempt, based on the
//! response and the endpoint's retry schedule. Other modules send and store.

use std::{net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    entropy::Entropy,
    id::{DeliveryId, EventId, WebhookId},
    secrets::digest,
    vocabulary::vocabulary,
};

use super::{
    model::DisabledReason,
    schedule::{self, RetrySchedule},
};

/// How many attempts a delivery keeps; the oldest are dropped first. No schedule has this many.
pub const MAX_ATTEMPTS_KEPT: usize = 32;
/// How many bytes of a response body an attempt keeps.
pub const MAX_BODY_KEPT: usize = 4096;

vocabulary! {
    /// The state of a delivery. `Pending` waits for its first attempt, or for one that a caller requested.
    DeliveryStatus:
    Pending "pending", Retrying "retrying", Delivered "delivered", Exhausted "exhausted", Aborted "aborted", Skipped "skipped",
    Expired "expired",
}

impl DeliveryStatus {
    pub fn is_settled(self) -> bool {
        !matches!(self, Self::Pending | Self::Retrying)
    }
}

vocabulary! {
    /// Why an attempt is made. `Probe` is the first attempt after the circuit breaker's wait.
    Trigger:
    Auto "auto", Manual "manual", Replay "replay", Test "test", Probe "probe",
}

vocabulary! {
    /// What follows from an attempt. `Disabled`: it failed and disabled the endpoint. `Failed`: a test failed; tests are not
    /// retried.
    Decision:
    Delivered "delivered", Retry "retry", Exhausted "exhausted", Aborted "aborted", Disabled "disabled", Failed "failed",
}

vocabulary! {
    /// Why there was no response. `Interrupted`: tenantd stopped during the attempt.
    AttemptError:
    Dns "dns", Blocked "blocked", Connect "connect", Tls "tls", Timeout "timeout", Reset "reset", Protocol "protocol",
    Interrupted "interrupted",
}

/// How long the phases of an attempt took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    pub dns: u32,
    pub connect: u32,
    pub tls: u32,
    pub first_byte: u32,
    pub total: u32,
}

/// An instruction from the receiver, in addition to its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directive {
    DisableEndpoint,
    AbortMessage,
}

/// The result of sending once.
#[derive(Clone, Debug)]
pub struct Sent {
    pub started_at: Timestamp,
    pub durations: Durations,
    pub remote_ip: Option<IpAddr>,
    pub result: Result<u16, AttemptError>,
    pub body: Vec<u8>,
    /// Whether the response was longer than `body`.
    pub body_truncated: bool,
    pub retry_after: Option<String>,
    pub directive: Option<Directive>,
    /// Whether the store has a row for this attempt.
    pub noted: bool,
}

impl Sent {
    pub fn failed(started_at: Timestamp, error: AttemptError) -> Self {
        Self {
            started_at,
            durations: Durations::default(),
            remote_ip: None,
            result: Err(error),
            body: Vec::new(),
            body_truncated: false,
            retry_after: None,
            directive: None,
            noted: false,
        }
    }

    pub fn status(&self) -> Option<u16> {
        self.result.ok()
    }

    /// Whether the receiver accepted the event.
    pub fn is_success(&self) -> bool {
        self.status().is_some_and(|status| (200..300).contains(&status))
    }
}

/// A stored attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub number: u32,
    pub trigger: Trigger,
    pub started_at: Timestamp,
    pub durations: Durations,
    pub remote_ip: Option<IpAddr>,
    pub status: Option<u16>,
    pub error: Option<AttemptError>,
    pub body: Vec<u8>,
    pub body_truncated: bool,
    pub retry_after_seconds: Option<u32>,
    pub decision: Decision,
    pub next_attempt_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub event_id: EventId,
    pub kind: String,
    pub event_at: Timestamp,
    pub status: DeliveryStatus,
    /// The trigger of the next attempt.
    pub trigger: Trigger,
    /// The newest attempts, in order.
    pub attempts: Vec<Attempt>,
    pub attempt_count: u32,
    /// Attempts in the current run of the schedule. A redelivery restarts it.
    pub round: u32,
    pub next_attempt_at: Option<Timestamp>,
    pub skipped_reason: Option<DisabledReason>,
    pub settled_at: Option<Timestamp>,
    /// The resource that the event is about, if the endpoint keeps the order.
    pub resource: Option<String>,
    /// The event's number in the tenant's sequence.
    pub number: u64,
}

/// What follows from an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    pub next_attempt_at: Option<Timestamp>,
    pub hint: Option<Duration>,
    pub disables: Option<DisabledReason>,
}

impl Verdict {
    fn settled(decision: Decision) -> Self {
        Self { decision, next_attempt_at: None, hint: None, disables: None }
    }
}

/// Statuses for which tenantd honors `Retry-After`.
const PATIENT_STATUSES: [u16; 4] = [429, 502, 503, 504];

/// Decides what follows from an attempt that ended at `now`. `round` includes this attempt.
pub fn decide(sent: &Sent, schedule: RetrySchedule, round: u32, now: Timestamp, entropy: &mut Entropy) -> Verdict {
    let disabled = |reason| Verdict { disables: Some(reason), ..Verdict::settled(Decision::Disabled) };
    let delivered = sent.is_success();
    match sent.directive {
        // The receiver accepted this event, even if it wants no more.
        Some(Directive::DisableEndpoint) if delivered => {
            return Verdict { decision: Decision::Delivered, ..disabled(DisabledReason::Receiver) };
        }
        Some(Directive::DisableEndpoint) => return disabled(DisabledReason::Receiver),
        Some(Directive::AbortMessage) if !delivered => return Verdict::settled(Decision::Aborted),
        _ => {}
    }
    if delivered {
        return Verdict::settled(Decision::Delivered);
    }
    if sent.status() == Some(410) {
        return disabled(DisabledReason::Gone);
    }
    let patient = sent.status().is_some_and(|status| PATIENT_STATUSES.contains(&status));
    let hint = sent.retry_after.as_deref().filter(|_| patient).and_then(|text| schedule::retry_after(text, now));
    match schedule.delay_after(round, entropy) {
        None => Verdict { hint, ..Verdict::settled(Decision::Exhausted) },
        Some(delay) => {
            let next = now + hint.map_or(delay, |hint| hint.max(delay));
            Verdict { decision: Decision::Retry, next_attempt_at: Some(next), hint, disables: None }
        }
    }
}

impl Delivery {
    pub fn new((event_id, number): (EventId, u64), kind: &str, event_at: Timestamp, resource: Option<String>) -> Self {
        Self {
            event_id,
            kind: kind.to_owned(),
            event_at,
            status: DeliveryStatus::Pending,
            trigger: Trigger::Auto,
            attempts: Vec::new(),
            attempt_count: 0,
            round: 0,
            next_attempt_at: None,
            skipped_reason: None,
            settled_at: None,
            resource,
            number,
        }
    }

    /// Records an attempt that a stop of tenantd interrupted. The next attempt is due at `now`, with the same trigger and at the
    /// same position in the schedule.
    pub fn interrupt(&mut self, started_at: Timestamp, trigger: Trigger, now: Timestamp) {
        let (round, next) = (self.round, self.trigger);
        let verdict = Verdict { decision: Decision::Retry, next_attempt_at: Some(now), hint: None, disables: None };
        self.record(Sent::failed(started_at, AttemptError::Interrupted), trigger, verdict, now);
        (self.round, self.trigger) = (round, next);
    }

    /// Records an attempt.
    pub fn record(&mut self, sent: Sent, trigger: Trigger, verdict: Verdict, now: Timestamp) {
        self.attempt_count += 1;
        self.round += 1;
        if self.attempts.len() == MAX_ATTEMPTS_KEPT {
            self.attempts.remove(0);
        }
        self.attempts.push(Attempt {
            number: self.attempt_count,
            trigger,
            started_at: sent.started_at,
            durations: sent.durations,
            remote_ip: sent.remote_ip,
            status: sent.status(),
            error: sent.result.err(),
            body: sent.body,
            body_truncated: sent.body_truncated,
            retry_after_seconds: verdict.hint.map(|hint| u32::try_from(hint.as_secs()).unwrap_or(u32::MAX)),
            decision: verdict.decision,
            next_attempt_at: verdict.next_attempt_at,
        });
        self.next_attempt_at = verdict.next_attempt_at;
        self.trigger = Trigger::Auto;
        self.status = match verdict.decision {
            Decision::Delivered => DeliveryStatus::Delivered,
            Decision::Retry => DeliveryStatus::Retrying,
            Decision::Exhausted | Decision::Failed => DeliveryStatus::Exhausted,
            Decision::Aborted => DeliveryStatus::Aborted,
            Decision::Disabled => {
                self.skipped_reason = verdict.disables;
                DeliveryStatus::Skipped
            }
        };
        self.settled_at = self.status.is_settled().then_some(now);
    }

    /// Schedules an attempt at `at` and restarts the retry schedule.
    pub fn request_attempt(&mut self, trigger: Trigger, at: Timestamp) {
        self.status = DeliveryStatus::Pending;
        self.trigger = trigger;
        self.round = 0;
        self.next_attempt_at = Some(at);
        self.skipped_reason = None;
        self.settled_at = None;
    }

    pub fn give_up(&mut self, status: DeliveryStatus, reason: Option<DisabledReason>, now: Timestamp) {
        self.status = status;
        self.skipped_reason = reason;
        self.next_attempt_at = None;
        self.settled_at = Some(now);
    }
}

/// How many bits of an id hold the event's number: enough for ten million events a second for a year.
const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// The id of the delivery of an event to an endpoint. It contains the event's number, so a lookup needs no index. It also contains
/// some bits of the endpoint's id, so it identifies one delivery only.
pub fn delivery_id(endpoint: WebhookId, event_at: Timestamp, number: u64) -> DeliveryId {
    let mixed = digest(endpoint.as_bytes());
    let [_, _, low @ ..] = (number & NUMBER_MASK).to_be_bytes();
    let mut random = [0; 10];
    for (slot, byte) in random.iter_mut().zip(mixed.into_iter().take(4).chain(low)) {
        *slot = byte;
    }
    DeliveryId::from_random(event_at, random)
}

/// The event number that a delivery id contains.
pub fn number_of(id: DeliveryId) -> u64 {
    let [_, _, _, _, _, _, _, _, low @ ..] = *id.as_bytes();
    u64::from_be_bytes(low) & NUMBER_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(status: u16) -> Sent {
        Sent { result: Ok(status), ..Sent::failed(Timestamp::EPOCH, AttemptError::Reset) }
    }

    #[test]
    fn an_id_contains_the_event_number_and_depends_on_the_endpoint() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let [one, two] = [[1; 16], [2; 16]].map(WebhookId::from_bytes);
        for number in [1, 77, 65_536, (1 << 48) - 1] {
            assert_eq!(number_of(delivery_id(one, at, number)), number);
            assert_ne!(delivery_id(one, at, number), delivery_id(two, at, number));
        }
        assert_eq!(delivery_id(one, at, 5).as_bytes()[6] >> 4, 7, "a UUIDv7");
    }

    #[test]
    fn the_response_decides_what_follows() {
        let mut entropy = Entropy::from_seed(1);
        let now = Timestamp::from_millis(1_767_225_600_000);
        let mut verdict = |sent: &Sent, round: u32| decide(sent, RetrySchedule::Standard, round, now, &mut entropy);
        for status in [200, 201, 204, 299] {
            assert_eq!(verdict(&sent(status), 1).decision, Decision::Delivered, "{status}");
        }
        for status in [100, 301, 302, 307, 400, 401, 404, 408, 429, 500, 503, 599] {
            let verdict = verdict(&sent(status), 1);
            assert_eq!(verdict.decision, Decision::Retry, "{status}");
            assert!(verdict.next_attempt_at.unwrap() >= now + Duration::from_secs(5));
        }
        assert_eq!(verdict(&sent(410), 1).disables, Some(DisabledReason::Gone));
        assert_eq!(verdict(&sent(500), 11).decision, Decision::Exhausted);
        let with = |status: u16, directive: Directive| Sent { directive: Some(directive), ..sent(status) };
        assert_eq!(verdict(&with(500, Directive::AbortMessage), 1).decision, Decision::Aborted);
        assert_eq!(verdict(&with(200, Directive::AbortMessage), 1).decision, Decision::Delivered);
        let disabled = verdict(&with(200, Directive::DisableEndpoint), 1);
        assert_eq!((disabled.decision, disabled.disables), (Decision::Delivered, Some(DisabledReason::Receiver)));
        let hinted = |status: u16| Sent { retry_after: Some("600".to_owned()), ..sent(status) };
        assert_eq!(verdict(&hinted(503), 1).next_attempt_at, Some(now + Duration::from_mins(10)));
        assert!(verdict(&hinted(500), 1).next_attempt_at.unwrap() < now + Duration::from_secs(6));
        assert!(verdict(&hinted(503), 5).next_attempt_at.unwrap() >= now + Duration::from_hours(2));
    }
}
