//! The health of an endpoint: the circuit breaker, which allows one probe at a time, and the rule that disables an endpoint that
//! never answers. Pure rules; `ledger.rs` stores the result.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, vocabulary::vocabulary};

/// The number of consecutive failures that opens the breaker.
const FAILURES_UNTIL_OPEN: u32 = 5;
const FIRST_PROBE: Duration = Duration::from_secs(30);
const LONGEST_PROBE: Duration = Duration::from_hours(1);
/// An endpoint is disabled after this long without a success, if at least `DISABLE_FAILED_EVENTS` events have failed.
const DISABLE_AFTER: Duration = Duration::from_hours(5 * 24);
const DISABLE_FAILED_EVENTS: u32 = 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub consecutive_failures: u32,
    pub last_success_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    pub last_status: Option<u16>,
    /// The first failure since the last success.
    failing_since: Option<Timestamp>,
    /// Events whose first attempt failed since then.
    failed_events: u32,
    breaker: Option<Breaker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Breaker {
    failed_probes: u32,
    /// When the next probe is allowed.
    until: Timestamp,
}

vocabulary! {
    HealthState:
    Healthy "healthy", Degraded "degraded", Failing "failing",
}

/// Whether an attempt is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    /// One attempt, to find out whether the endpoint works again.
    Probe,
    ClosedUntil(Timestamp),
}

impl Health {
    pub fn state(&self) -> HealthState {
        match self.consecutive_failures {
            0 => HealthState::Healthy,
            failures if failures < FAILURES_UNTIL_OPEN => HealthState::Degraded,
            _ => HealthState::Failing,
        }
    }

    pub fn gate(&self, now: Timestamp) -> Gate {
        match self.breaker {
            None => Gate::Open,
            Some(breaker) if now >= breaker.until => Gate::Probe,
            Some(breaker) => Gate::ClosedUntil(breaker.until),
        }
    }

    pub fn succeeded(&mut self, now: Timestamp, status: Option<u16>) {
        *self = Self { last_success_at: Some(now), last_failure_at: self.last_failure_at, last_status: status, ..Self::default() };
    }

    pub fn failed(&mut self, now: Timestamp, status: Option<u16>, is_first_attempt: bool) {
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        self.last_failure_at = Some(now);
        self.last_status = status;
        self.failing_since = self.failing_since.or(Some(now));
        self.failed_events = self.failed_events.saturating_add(u32::from(is_first_attempt));
        if self.consecutive_failures >= FAILURES_UNTIL_OPEN {
            // Attempts that were in progress when the breaker opened do not count as failed probes.
            let failed_probes = match self.breaker {
                None => 0,
                Some(breaker) if now >= breaker.until => breaker.failed_probes + 1,
                Some(_) => return,
            };
            let wait = FIRST_PROBE.saturating_mul(1 << failed_probes.min(16)).min(LONGEST_PROBE);
            self.breaker = Some(Breaker { failed_probes, until: now + wait });
        }
    }

    /// Whether the endpoint has failed for so long that tenantd disables it.
    pub fn should_be_disabled(&self, now: Timestamp) -> bool {
        let since = self.failing_since.filter(|_| self.failed_events >= DISABLE_FAILED_EVENTS);
        since.is_some_and(|since| now.since(since) >= DISABLE_AFTER)
    }

    /// Clears the failures when a caller resumes or enables the endpoint, or changes its target. The last results stay visible.
    pub fn without_failures(self) -> Self {
        Self {
            last_success_at: self.last_success_at,
            last_failure_at: self.last_failure_at,
            last_status: self.last_status,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_breaker_opens_after_five_failures_and_doubles_its_wait() {
        let mut health = Health::default();
        for _ in 0..4 {
            health.failed(at(0), Some(500), true);
            assert_eq!((health.gate(at(0)), health.state()), (Gate::Open, HealthState::Degraded));
        }
        health.failed(at(0), Some(500), true);
        assert_eq!((health.gate(at(29)), health.state()), (Gate::ClosedUntil(at(30)), HealthState::Failing));
        // A late failure changes nothing.
        health.failed(at(10), None, true);
        assert_eq!(health.gate(at(30)), Gate::Probe);
        let (mut now, mut waits) = (30, Vec::new());
        for _ in 0..9 {
            health.failed(at(now), None, false);
            let Gate::ClosedUntil(until) = health.gate(at(now)) else { panic!("open") };
            waits.push(until.since(at(now)).as_secs());
            now += until.since(at(now)).as_secs();
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        health.succeeded(at(now), Some(200));
        assert_eq!((health.gate(at(now)), health.state()), (Gate::Open, HealthState::Healthy));
    }

    #[test]
    fn an_endpoint_is_disabled_after_five_days_and_twenty_events() {
        let days = |days: u64| at(days * 86_400);
        let mut health = Health::default();
        for _ in 0..19 {
            health.failed(days(0), None, true);
        }
        assert!(!health.should_be_disabled(days(9)));
        health.failed(days(4), None, true);
        assert!(!health.should_be_disabled(days(4)) && health.should_be_disabled(days(5)));
        health.succeeded(days(5), Some(204));
        assert!(!health.should_be_disabled(days(50)));
    }
}
