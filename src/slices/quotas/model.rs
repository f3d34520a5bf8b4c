//! The limit and the use of a quota.

use tenantd_base::{id::TenantId, quotas::Quota, vocabulary::vocabulary};

/// The share of a limit at which a tenant is warned, in percent.
const WARNED_AT: u64 = 80;

/// A tenant's limit and use of one quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub quota: Quota,
    pub limit: u64,
    /// `None` for streams, which are counted only while they are open.
    pub used: Option<u64>,
    /// Whether the operator set the limit for this tenant.
    pub own: bool,
}

/// A tenant's limits and use of all quotas.
#[derive(Clone, Copy, Debug)]
pub(super) struct TenantStandings<'a> {
    pub(super) tenant_id: TenantId,
    pub(super) standings: &'a [Standing],
}

vocabulary! {
    /// How close the use is to the limit.
    #[derive(Default)]
    Level:
    #[default]
    Ok "ok",
    /// 80 % or more is used.
    Near "near",
    /// Requests that create something are refused.
    Reached "reached",
}

impl Standing {
    /// Returns the used share of the limit in percent, rounded down. A limit of 0 is always reached.
    pub fn percent(&self) -> Option<u64> {
        let used = u128::from(self.used?);
        Some(match u128::from(self.limit) {
            0 => 100,
            limit => u64::try_from(used * 100 / limit).unwrap_or(u64::MAX),
        })
    }

    pub(super) fn level(&self) -> Level {
        match self.percent() {
            Some(100..) => Level::Reached,
            Some(WARNED_AT..) => Level::Near,
            _ => Level::Ok,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_near_a_limit_from_80_percent() {
        let level = |limit, used| Standing { quota: Quota::Records, limit, used, own: false }.level();
        assert_eq!(level(10, Some(7)), Level::Ok);
        assert_eq!(level(10, Some(8)), Level::Near);
        assert_eq!(level(10, Some(10)), Level::Reached);
        assert_eq!(level(u64::MAX, Some(u64::MAX - 1)), Level::Near);
        assert_eq!(level(0, Some(0)), Level::Reached);
        assert_eq!(level(0, None), Level::Ok);
    }
}
