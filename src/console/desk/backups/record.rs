//! The backup report as the API answers it.

use serde::Deserialize;

use crate::desk::{
    organizations::BackupIssue,
    records::{Named, PageInfo},
};

#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) data: Vec<Row>,
    pub(super) page: PageInfo,
    /// Missing if the filters are refused.
    #[serde(default)]
    pub(super) summary: Summary,
}

/// The totals over all organizations that match.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Summary {
    pub(super) organizations: u64,
    pub(super) states: States,
    pub(super) mean_score: Option<u64>,
    pub(super) devices: Devices,
    pub(super) rpo: Ages,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct States {
    pub(super) critical: u64,
    pub(super) unprotected: u64,
    pub(super) unknown: u64,
}

/// An organization.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) organization: Named,
    pub(super) as_of: String,
    pub(super) state: String,
    /// Absent if there was never a job or no device is eligible.
    pub(super) score: Option<u32>,
    pub(super) score_parts: Option<Parts>,
    pub(super) caps: Vec<Cap>,
    /// Only with `explain=true`.
    pub(super) explanation: Option<Explanation>,
    pub(super) devices: Devices,
    pub(super) last: Last,
    pub(super) rpo: Ages,
    pub(super) jobs: Jobs,
    pub(super) storage: Storage,
    pub(super) rule_321: Rule321,
    pub(super) verification: Tests,
    pub(super) issues: Vec<BackupIssue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Parts {
    coverage: u32,
    recency: u32,
    success: u32,
    verification: u32,
    resilience: u32,
}

impl Parts {
    /// The points in the order in which the parts are explained.
    pub(super) fn points(&self) -> [u32; 5] {
        [self.coverage, self.recency, self.success, self.verification, self.resilience]
    }
}

/// A reason why the score is limited.
#[derive(Debug, Deserialize)]
pub(super) struct Cap {
    pub(super) code: String,
    pub(super) most: u32,
}

/// What the points are computed from.
#[derive(Debug, Deserialize)]
pub(super) struct Explanation {
    pub(super) protected: u64,
    pub(super) eligible: u64,
    pub(super) recency_credit: u64,
    pub(super) recency_weight: u64,
    pub(super) jobs_good_7d: u64,
    pub(super) jobs_all_7d: u64,
    pub(super) restore_test_age_days: Option<u64>,
    pub(super) restore_test_every_days: u64,
    pub(super) copies: u64,
    pub(super) media: u64,
    pub(super) offsite: bool,
    pub(super) immutable: bool,
    pub(super) sum: u32,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Devices {
    pub(super) total: u64,
    pub(super) eligible: u64,
    pub(super) protected: u64,
    pub(super) unprotected: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Last {
    pub(super) success_at: Option<String>,
    pub(super) failure_at: Option<String>,
    pub(super) never_backed_up: u64,
}

/// Devices by the age of their newest restore point.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Ages {
    pub(super) ok: u64,
    pub(super) at_risk: u64,
    pub(super) breached: u64,
    pub(super) pending: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Jobs {
    #[serde(rename = "24h")]
    pub(super) hours_24: Option<Counts>,
    #[serde(rename = "7d")]
    pub(super) days_7: Option<Counts>,
    #[serde(rename = "30d")]
    pub(super) days_30: Option<Counts>,
}

impl Jobs {
    /// The windows of the answer with their names, the shortest first.
    pub(super) fn windows(&self) -> impl Iterator<Item = (&'static str, &Counts)> {
        let all = [("24 hours", &self.hours_24), ("7 days", &self.days_7), ("30 days", &self.days_30)];
        all.into_iter().filter_map(|(name, counts)| Some((name, counts.as_ref()?)))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Counts {
    pub(super) succeeded: u64,
    pub(super) warning: u64,
    pub(super) failed: u64,
    pub(super) missed: u64,
    pub(super) success_percent: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Storage {
    pub(super) protected_bytes: u64,
    pub(super) growth_30d_bytes: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Rule321 {
    pub(super) copies: u64,
    pub(super) media: u64,
    pub(super) offsite: bool,
    pub(super) immutable: bool,
    pub(super) compliant: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tests {
    pub(super) last_restore_test_at: Option<String>,
}
