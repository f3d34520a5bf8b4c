//! The two clocks of a ticket: until the first response and until the resolution. They run while the ticket is open, pause
//! while it waits, and stop when it is done.
//!
//! **Invariant:** a running clock contains the times at which it becomes at risk and breached, so timers and readers need no
//! calendar. **Invariant:** [`Sla::advance`] is called before any other change, so a threshold that has passed is always
//! reported.

use serde::{Deserialize, Serialize};

use tenantd_base::clock::Timestamp;

use super::{
    calendar::Calendar,
    policy::{SlaPolicy, Target},
};
use crate::model::{Priority, SlaState, Status, StatusCategory};

const MINUTE: i64 = 60_000;

/// The target that a clock measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    FirstResponse,
    Resolution,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrossingKind {
    AtRisk,
    Breached,
}

/// A clock passed a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    pub target_kind: TargetKind,
    pub kind: CrossingKind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlaClock {
    pub target_minutes: u32,
    round_the_clock: bool,
    /// The milliseconds that counted before the clock last started.
    consumed: i64,
    runs_since: Option<Timestamp>,
    at_risk_at: Option<Timestamp>,
    /// Set while the clock runs. Stays set once the ticket is late.
    pub due_at: Option<Timestamp>,
    pub met_at: Option<Timestamp>,
    pub at_risk: bool,
    pub breached: bool,
}

impl SlaClock {
    fn new(target_minutes: u32, round_the_clock: bool) -> Self {
        Self {
            target_minutes,
            round_the_clock,
            consumed: 0,
            runs_since: None,
            at_risk_at: None,
            due_at: None,
            met_at: None,
            at_risk: false,
            breached: false,
        }
    }

    fn allowed(&self) -> i64 {
        i64::from(self.target_minutes) * MINUTE
    }

    /// The time until the clock is at risk: three quarters.
    fn safe(&self) -> i64 {
        self.allowed() / 4 * 3
    }

    fn run(&mut self, calendar: &Calendar, now: Timestamp) {
        if self.met_at.is_some() || self.runs_since.is_some() {
            return;
        }
        self.runs_since = Some(now);
        // A pause does not change the time of the breach.
        if self.breached && self.due_at.is_some() {
            return;
        }
        let at = |budget: i64| match budget - self.consumed {
            left if self.round_the_clock => Timestamp::from_millis(now.as_millis() + left),
            left if left < 0 => calendar.before(now, -left),
            left => calendar.after(now, left),
        };
        (self.at_risk_at, self.due_at) = (Some(at(self.safe())), Some(at(self.allowed())));
    }

    fn stop(&mut self, calendar: &Calendar, now: Timestamp) {
        if let Some(since) = self.runs_since.take() {
            self.consumed +=
                if self.round_the_clock { (now.as_millis() - since.as_millis()).max(0) } else { calendar.between(since, now) };
        }
        if !self.breached {
            (self.at_risk_at, self.due_at) = (None, None);
        }
    }

    fn meet(&mut self, calendar: &Calendar, now: Timestamp) {
        if self.met_at.is_none() {
            self.stop(calendar, now);
            self.met_at = Some(now);
        }
    }

    /// Changes the target. The consumed time stays consumed. A threshold that is ahead again can be crossed again.
    fn retarget(&mut self, minutes: u32, round_the_clock: bool, calendar: &Calendar, now: Timestamp) {
        if self.met_at.is_some() {
            return;
        }
        let runs = self.runs_since.is_some();
        self.stop(calendar, now);
        (self.target_minutes, self.round_the_clock) = (minutes, round_the_clock);
        self.at_risk &= self.consumed >= self.safe();
        self.breached &= self.consumed >= self.allowed();
        (self.at_risk_at, self.due_at) = (None, None);
        if runs {
            self.run(calendar, now);
        }
    }

    fn advance(&mut self, target_kind: TargetKind, now: Timestamp, crossings: &mut Vec<Crossing>) {
        if !self.at_risk && self.at_risk_at.is_some_and(|at| at <= now) {
            self.at_risk = true;
            crossings.push(Crossing { target_kind, kind: CrossingKind::AtRisk });
        }
        if !self.breached && self.due_at.is_some_and(|at| at <= now) {
            self.breached = true;
            crossings.push(Crossing { target_kind, kind: CrossingKind::Breached });
        }
    }

    fn next_crossing(&self) -> Option<Timestamp> {
        let at_risk = self.at_risk_at.filter(|_| !self.at_risk);
        at_risk.into_iter().chain(self.due_at.filter(|_| !self.breached)).min()
    }
}

/// The state of a ticket's service levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sla {
    pub state: SlaState,
    pub first_response: SlaClock,
    pub resolution: SlaClock,
    /// The total milliseconds of finished waits.
    paused: i64,
    paused_since: Option<Timestamp>,
}

impl Sla {
    /// The clocks of a new ticket.
    pub fn start(policy: &SlaPolicy, priority: Priority, now: Timestamp) -> Self {
        let Target { first_response_minutes, resolution_minutes, round_the_clock } = policy.target(priority);
        let mut sla = Self {
            state: SlaState::OnTrack,
            first_response: SlaClock::new(first_response_minutes, round_the_clock),
            resolution: SlaClock::new(resolution_minutes, round_the_clock),
            paused: 0,
            paused_since: None,
        };
        let calendar = policy.calendar();
        sla.first_response.run(&calendar, now);
        sla.resolution.run(&calendar, now);
        sla
    }

    /// Records the thresholds that have passed by now.
    pub fn advance(&mut self, status: Status, now: Timestamp) -> Vec<Crossing> {
        let mut crossings = Vec::new();
        self.first_response.advance(TargetKind::FirstResponse, now, &mut crossings);
        self.resolution.advance(TargetKind::Resolution, now, &mut crossings);
        self.settle(status);
        crossings
    }

    /// When [`Sla::advance`] will next record something.
    pub fn next_crossing(&self) -> Option<Timestamp> {
        self.first_response.next_crossing().into_iter().chain(self.resolution.next_crossing()).min()
    }

    pub fn first_responded(&mut self, policy: &SlaPolicy, status: Status, now: Timestamp) {
        self.first_response.meet(&policy.calendar(), now);
        self.settle(status);
    }

    pub fn status_changed(&mut self, policy: &SlaPolicy, priority: Priority, from: Status, to: Status, now: Timestamp) {
        let calendar = policy.calendar();
        if let Some(since) = self.paused_since.take() {
            self.paused += (now.as_millis() - since.as_millis()).max(0);
        }
        match to.category() {
            StatusCategory::Open => {
                if from == Status::Resolved {
                    let target = policy.target(priority);
                    self.resolution = SlaClock::new(target.resolution_minutes, target.round_the_clock);
                }
                self.first_response.run(&calendar, now);
                self.resolution.run(&calendar, now);
            }
            StatusCategory::Waiting => {
                self.paused_since = Some(now);
                self.first_response.stop(&calendar, now);
                self.resolution.stop(&calendar, now);
            }
            StatusCategory::Done => {
                self.first_response.stop(&calendar, now);
                if to == Status::Resolved {
                    self.resolution.meet(&calendar, now);
                } else {
                    self.resolution.stop(&calendar, now);
                }
            }
        }
        self.settle(to);
    }

    pub fn priority_changed(&mut self, policy: &SlaPolicy, status: Status, priority: Priority, now: Timestamp) {
        let (calendar, target) = (policy.calendar(), policy.target(priority));
        self.first_response.retarget(target.first_response_minutes, target.round_the_clock, &calendar, now);
        self.resolution.retarget(target.resolution_minutes, target.round_the_clock, &calendar, now);
        self.settle(status);
    }

    /// The total waiting time until now, in whole minutes.
    pub fn paused_minutes(&self, now: Timestamp) -> u64 {
        let current = self.paused_since.map_or(0, |since| (now.as_millis() - since.as_millis()).max(0));
        u64::try_from((self.paused + current) / MINUTE).unwrap_or(0)
    }

    /// Updates the state. A breach is permanent.
    fn settle(&mut self, status: Status) {
        let at_risk = |clock: &SlaClock| clock.at_risk && clock.met_at.is_none();
        self.state = if self.first_response.breached || self.resolution.breached {
            SlaState::Breached
        } else {
            match (status, status.category()) {
                (Status::Resolved | Status::Closed, _) => SlaState::Met,
                (_, StatusCategory::Done) => SlaState::None,
                (_, StatusCategory::Waiting) => SlaState::Paused,
                (_, StatusCategory::Open) if at_risk(&self.first_response) || at_risk(&self.resolution) => SlaState::AtRisk,
                (_, StatusCategory::Open) => SlaState::OnTrack,
            }
        };
    }
}
