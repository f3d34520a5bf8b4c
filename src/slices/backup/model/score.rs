//! The backup score of an organization, from 0 to 100. Uses integers only: each part is rounded down to whole points, and the score
//! is their sum or the lowest cap that applies.

use std::time::Duration;

use tenantd_base::{clock::Timestamp, vocabulary::vocabulary};

use super::{
    config::{Policy, TargetKind},
    posture::PROTECTED_FOR,
    rollup::{Rollup, Window},
};

const DAY: Duration = Duration::from_hours(24);
/// A restore test older than this does not count.
const TEST_TOO_OLD_DAYS: u32 = 90;

vocabulary! {
    State:
    Healthy "healthy", Warning "warning", Critical "critical", Unprotected "unprotected", Unknown "unknown",
}

vocabulary! {
    /// The reason for a limit of the score.
    Cap:
    RestoreTestTooOld "restore_test_too_old", ServerRpoBreachedTwice "server_rpo_breached_twice",
    UnprotectedServer "unprotected_server",
}

impl Cap {
    pub const fn most(self) -> u8 {
        match self {
            Self::RestoreTestTooOld => 79,
            Self::ServerRpoBreachedTwice => 59,
            Self::UnprotectedServer => 49,
        }
    }
}

/// The 3-2-1 rule: three copies on two media, one of them offsite. The original data is a copy on a local medium. A target counts
/// if a restore point was written to it within 30 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule321 {
    pub copies: u32,
    pub media: u32,
    pub offsite: bool,
    /// The longest lock of these targets in days; 0 for no lock.
    pub immutable_days: u32,
}

impl Rule321 {
    pub fn immutable(self) -> bool {
        self.immutable_days > 0
    }

    pub fn compliant(self) -> bool {
        self.copies >= 3 && self.media >= 2 && self.offsite
    }
}

pub fn rule_321(rollup: &Rollup, policy: &Policy, now: Timestamp) -> Rule321 {
    let written = |name: &str| rollup.targets.iter().any(|(known, at)| known == name && now < *at + PROTECTED_FOR);
    let (mut kinds, mut rule) = (vec![TargetKind::Local], Rule321 { copies: 1, media: 1, offsite: false, immutable_days: 0 });
    for target in policy.targets.iter().filter(|target| written(&target.name)) {
        rule.copies += 1;
        rule.offsite |= target.offsite;
        rule.immutable_days = rule.immutable_days.max(target.immutable_days);
        if !kinds.contains(&target.kind) {
            kinds.push(target.kind);
            rule.media += 1;
        }
    }
    rule
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreBreakdown {
    pub coverage: u8,
    pub recency: u8,
    pub success: u8,
    pub verification: u8,
    pub resilience: u8,
    pub caps: Vec<Cap>,
    pub score: u8,
}

/// `most` multiplied by a fraction, rounded down.
fn portion(most: u64, part: u64, whole: u64) -> u8 {
    u8::try_from((most * part).checked_div(whole).unwrap_or(0)).unwrap_or(u8::MAX)
}

/// Returns `None` if no device is eligible or there was never a job.
pub fn compute_score(rollup: &Rollup, policy: &Policy, now: Timestamp) -> Option<ScoreBreakdown> {
    let share = &rollup.share;
    if share.eligible == 0 || !rollup.has_jobs {
        return None;
    }
    let (good, all) = rollup.jobs(Window::Week, now).rate();
    let untested = rollup.last_verified_at.map(|at| now.since(at));
    let every = DAY * policy.verification.restore_test_every_days;
    let rule = rule_321(rollup, policy, now);
    let resilience = [(rule.copies >= 3, 3), (rule.media >= 2, 2), (rule.offsite, 3), (rule.immutable(), 2)];
    let [coverage, recency, success, verification, resilience] = [
        portion(25, share.protected, share.eligible),
        portion(30, share.credit, 2 * share.weight),
        portion(15, good, all),
        match untested {
            Some(age) if age <= every => 20,
            Some(age) if age <= every * 2 => 10,
            _ => 0,
        },
        resilience.iter().filter(|(is_so, _)| *is_so).map(|(_, points)| points).sum(),
    ];
    let caps: Vec<Cap> = [
        (untested.is_none_or(|age| age > DAY * TEST_TOO_OLD_DAYS), Cap::RestoreTestTooOld),
        (share.servers_breached_twice > 0, Cap::ServerRpoBreachedTwice),
        (share.unprotected_servers > 0, Cap::UnprotectedServer),
    ]
    .into_iter()
    .filter_map(|(applies, cap)| applies.then_some(cap))
    .collect();
    let sum = coverage + recency + success + verification + resilience;
    let score = caps.iter().map(|cap| cap.most()).fold(sum, u8::min);
    Some(ScoreBreakdown { coverage, recency, success, verification, resilience, caps, score })
}

pub fn state(rollup: &Rollup, breakdown: Option<&ScoreBreakdown>) -> State {
    match breakdown.map(|breakdown| breakdown.score) {
        None => State::Unknown,
        Some(_) if rollup.share.protected == 0 => State::Unprotected,
        Some(80..) => State::Healthy,
        Some(60..) => State::Warning,
        Some(_) => State::Critical,
    }
}
