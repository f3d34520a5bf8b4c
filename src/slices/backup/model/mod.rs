//! Types and rules of backups: settings, device postures, sums and scores. No store, no clock, no wire types.

mod config;
mod job;
mod posture;
mod retention;
mod rollup;
mod schedule;
mod score;

pub use config::{
    Alarm, Encryption, KeySource, Minutes, Notifications, Objectives, OwnConfig, Policy, Retention, Rhythm, Schedule, Scope,
    Target, TargetKind, Verification, Workload, resolve,
};
pub use job::Job;
#[cfg(test)]
pub use posture::Standing;
pub use posture::{Posture, Rpo, Share, Trouble};
pub use rollup::{Counts, Outcome, Rollup, Tally, Window, day_of};
pub use score::{Cap, Rule321, ScoreBreakdown, State, compute_score, rule_321, state};
