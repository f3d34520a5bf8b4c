//! Quotas: how much of the installation one tenant may use. Defines their names, their limits, and the error for exceeding one.
//!
//! The store counts the use of each tenant and refuses a write that exceeds a quota (`Usage` in `tenantd_store`). Slices query the
//! limits of quotas that only they can count.

use serde::{Deserialize, Serialize};

use super::vocabulary::vocabulary;

vocabulary! {
    /// A resource whose use is limited per tenant.
    Quota:
    /// Events since midnight UTC.
    EventsPerDay "events_per_day",
    /// Records of all kinds.
    Records "records",
    /// The bytes that records and events use.
    StoredBytes "stored_bytes",
    /// Workflows that are not archived.
    Workflows "workflows",
    /// Runs that have not ended.
    ConcurrentRuns "concurrent_runs",
    /// Imports, and exports of each kind, that run at the same time.
    Streams "streams",
}

impl Quota {
    /// The quotas that the store counts with every write.
    pub const COUNTED: [Self; 3] = [Self::EventsPerDay, Self::Records, Self::StoredBytes];

    /// What a tenant can do when the quota is used up.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::EventsPerDay => "The count starts again at midnight UTC.",
            Self::Records | Self::StoredBytes => "Delete records that you no longer need.",
            Self::Workflows => "Delete a workflow that you no longer need.",
            Self::ConcurrentRuns => "Cancel runs that you no longer need, or wait until some end.",
            Self::Streams => "Wait until one of them ends.",
        }
    }
}

/// A limit for each quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quotas {
    pub events_per_day: u64,
    pub records: u64,
    pub stored_bytes: u64,
    pub workflows: u64,
    pub concurrent_runs: u64,
    pub streams: u64,
}

impl Quotas {
    pub const UNLIMITED: Self = Self {
        events_per_day: u64::MAX,
        records: u64::MAX,
        stored_bytes: u64::MAX,
        workflows: u64::MAX,
        concurrent_runs: u64::MAX,
        streams: u64::MAX,
    };

    pub const fn limit(&self, quota: Quota) -> u64 {
        match quota {
            Quota::EventsPerDay => self.events_per_day,
            Quota::Records => self.records,
            Quota::StoredBytes => self.stored_bytes,
            Quota::Workflows => self.workflows,
            Quota::ConcurrentRuns => self.concurrent_runs,
            Quota::Streams => self.streams,
        }
    }

    fn set(&mut self, quota: Quota, limit: u64) {
        match quota {
            Quota::EventsPerDay => self.events_per_day = limit,
            Quota::Records => self.records = limit,
            Quota::StoredBytes => self.stored_bytes = limit,
            Quota::Workflows => self.workflows = limit,
            Quota::ConcurrentRuns => self.concurrent_runs = limit,
            Quota::Streams => self.streams = limit,
        }
    }

    /// These limits, with those that the operator has set for one tenant.
    pub fn with(mut self, overrides: &[(Quota, u64)]) -> Self {
        for (quota, limit) in overrides {
            self.set(*quota, *limit);
        }
        self
    }
}

/// How much of its quotas an action of a tenant may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowance {
    /// For actions that create something: up to the limit.
    Quota,
    /// For actions that change something: ten percent more, so that a tenant at its limit can still stop what uses the quota.
    Reserve,
    /// For deletions, and for actions of tenantd and of the operator.
    #[default]
    Unlimited,
}

impl Allowance {
    /// The most that may be used; `None` without a limit.
    pub const fn of(self, limit: u64) -> Option<u64> {
        match self {
            Self::Quota => Some(limit),
            Self::Reserve => Some(limit.saturating_add(limit / 10)),
            Self::Unlimited => None,
        }
    }
}

/// The tenant would use more than its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tenant uses {used} of its quota {}, whose limit is {limit}", .quota.name())]
pub struct QuotaExceeded {
    pub quota: Quota,
    pub limit: u64,
    pub used: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_replace_the_limits_that_they_name() {
        let defaults = Quotas { records: 5, ..Quotas::UNLIMITED };
        let own = defaults.with(&[(Quota::Workflows, 3), (Quota::EventsPerDay, 0)]);
        assert_eq!((own.workflows, own.events_per_day, own.records), (3, 0, 5));
        assert!(Quota::ALL.iter().all(|quota| Quotas::UNLIMITED.with(&[(*quota, 7)]).limit(*quota) == 7));
    }

    #[test]
    fn only_changes_may_use_the_reserve() {
        assert_eq!(Allowance::Quota.of(1000), Some(1000));
        assert_eq!(Allowance::Reserve.of(1000), Some(1100));
        assert_eq!(Allowance::Reserve.of(u64::MAX), Some(u64::MAX));
        assert_eq!(Allowance::Unlimited.of(0), None);
    }
}
