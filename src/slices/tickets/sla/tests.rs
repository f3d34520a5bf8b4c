//! Tests the clocks of a ticket against a model that counts minute by minute.

use proptest::prelude::*;

use tenantd_base::clock::Timestamp;

use super::*;
use crate::model::{Priority, SlaState, Status};

const MINUTE: i64 = 60_000;

const MODEL_ZONE: &str = "America/New_York";

fn at(minute: i64) -> Timestamp {
    Timestamp::from_millis(minute * MINUTE)
}

/// The time that a resolution clock has consumed, determined by asking the calendar about every single minute.
struct MinuteModel {
    policy: SlaPolicy,
    consumed: i64,
    at_risk_at: Option<i64>,
    breached_at: Option<i64>,
}

impl MinuteModel {
    fn walk(&mut self, target: Target, running: bool, from: i64, to: i64) {
        let calendar = self.policy.calendar();
        for minute in from..to {
            let counts = target.round_the_clock || calendar.between(at(minute), at(minute + 1)) > 0;
            if running && counts {
                self.consumed += 1;
                if self.consumed * 4 == i64::from(target.resolution_minutes) * 3 {
                    self.at_risk_at = Some(minute + 1);
                }
                if self.consumed == i64::from(target.resolution_minutes) {
                    self.breached_at = Some(minute + 1);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_clock_with_pauses_crosses_when_the_model_does(
        start in prop_oneof![29_360_000_i64..29_390_000, 29_560_000_i64..29_585_000, 29_900_000_i64..29_950_000],
        steps in proptest::collection::vec((1_i64..2_500, any::<bool>()), 1..8),
        priority in proptest::sample::select(Priority::ALL),
    ) {
        let policy = SlaPolicy::standard(MODEL_ZONE);
        let target = policy.target(priority);
        let mut model = MinuteModel { policy: policy.clone(), consumed: 0, at_risk_at: None, breached_at: None };
        let mut sla = Sla::start(&policy, priority, at(start));
        let (mut status, mut now) = (Status::Open, start);
        let (mut at_risk_at, mut breached_at) = (None, None);
        for (minutes, wait) in steps {
            let end = now + minutes;
            model.walk(target, status == Status::Open, now, end);
            // Like a timer: each crossing at its own time.
            while let Some(next) = sla.next_crossing().filter(|next| *next <= at(end)) {
                for crossing in sla.advance(status, next).iter().filter(|crossing| crossing.target_kind == TargetKind::Resolution) {
                    let seen = if crossing.kind == CrossingKind::AtRisk { &mut at_risk_at } else { &mut breached_at };
                    prop_assert_eq!(*seen, None, "a crossing came twice");
                    *seen = Some(next.as_millis() / MINUTE);
                }
            }
            now = end;
            let next = if wait { Status::WaitingVendor } else { Status::Open };
            if next != status {
                sla.status_changed(&policy, priority, status, next, at(now));
                status = next;
            }
        }
        prop_assert_eq!(at_risk_at, model.at_risk_at);
        prop_assert_eq!(breached_at, model.breached_at);
    }
}

#[test]
fn a_wait_moves_the_due_time_by_its_working_hours() {
    let policy = SlaPolicy::standard("UTC");
    // Thursday, January 1, 2026, 09:00.
    let nine = Timestamp::parse("2026-01-01T09:00:00Z").unwrap();
    let hour = |hours: i64| Timestamp::from_millis(nine.as_millis() + hours * 60 * MINUTE);
    let mut sla = Sla::start(&policy, Priority::High, nine);
    assert_eq!(sla.resolution.due_at, Some(hour(8)));
    sla.status_changed(&policy, Priority::High, Status::New, Status::WaitingCustomer, hour(2));
    assert_eq!((sla.state, sla.resolution.due_at), (SlaState::Paused, None));
    assert_eq!(sla.advance(Status::WaitingCustomer, hour(200)), []);
    sla.status_changed(&policy, Priority::High, Status::WaitingCustomer, Status::Open, hour(25));
    // Six hours are left, from Friday 10:00.
    assert_eq!(sla.resolution.due_at, Some(hour(31)));
    assert_eq!(sla.paused_minutes(hour(25)), 23 * 60);
}

#[test]
fn reopening_restarts_the_resolution_clock_only() {
    let policy = SlaPolicy::standard("UTC");
    let start = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    let minute = |minutes: i64| Timestamp::from_millis(start.as_millis() + minutes * MINUTE);
    let mut sla = Sla::start(&policy, Priority::Critical, start);
    let crossed: Vec<CrossingKind> = sla.advance(Status::New, minute(20)).iter().map(|crossing| crossing.kind).collect();
    assert_eq!(crossed, [CrossingKind::AtRisk, CrossingKind::Breached]);
    sla.first_responded(&policy, Status::New, minute(21));
    sla.status_changed(&policy, Priority::Critical, Status::New, Status::Resolved, minute(30));
    assert_eq!((sla.state, sla.resolution.met_at), (SlaState::Breached, Some(minute(30))));
    sla.status_changed(&policy, Priority::Critical, Status::Resolved, Status::Open, minute(40));
    assert_eq!(sla.resolution.due_at, Some(minute(40 + 240)));
}

#[test]
fn a_new_priority_keeps_the_consumed_time() {
    let policy = SlaPolicy::standard("UTC");
    let nine = Timestamp::parse("2026-01-01T09:00:00Z").unwrap();
    let minute = |minutes: i64| Timestamp::from_millis(nine.as_millis() + minutes * MINUTE);
    let mut sla = Sla::start(&policy, Priority::Low, nine);
    sla.priority_changed(&policy, Status::New, Priority::Critical, minute(60));
    assert_eq!(sla.resolution.due_at, Some(minute(240)));
    assert_eq!(sla.first_response.due_at, Some(minute(15)), "the target is now 15 minutes");
    assert_eq!(sla.advance(Status::New, minute(60)).len(), 2);
}

#[test]
fn a_pause_keeps_the_delay_of_a_late_ticket() {
    let policy = SlaPolicy::standard("UTC");
    // Thursday, January 1, 2026, 09:00. The target is eight working hours.
    let nine = Timestamp::parse("2026-01-01T09:00:00Z").unwrap();
    let hour = |hours: i64| Timestamp::from_millis(nine.as_millis() + hours * 60 * MINUTE);
    let mut sla = Sla::start(&policy, Priority::High, nine);
    // Friday 11:00, two working hours late.
    assert_eq!(sla.advance(Status::Open, hour(26)).len(), 4);
    sla.status_changed(&policy, Priority::High, Status::Open, Status::OnHold, hour(26));
    assert_eq!((sla.state, sla.resolution.due_at), (SlaState::Breached, Some(hour(8))));
    sla.status_changed(&policy, Priority::High, Status::OnHold, Status::Open, hour(98));
    assert_eq!(sla.resolution.due_at, Some(hour(8)), "it was due on Thursday at 17:00");
    assert_eq!(sla.advance(Status::Open, hour(99)), [], "a breach is reported once");
    // Monday 12:00, three working hours late. Four hours round the clock would have ended seven hours earlier.
    sla.priority_changed(&policy, Status::Open, Priority::Critical, hour(99));
    assert_eq!(sla.resolution.due_at, Some(hour(99 - 7)));
}
