//! How a tenant stands with a quota.

use tenantd_base::{id::TenantId, quotas::Quota, vocabulary::vocabulary};

/// A tenant is warned at this share of a limit, in percent.
const WARNED_AT: u64 = 80;

/// What a tenant uses of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub quota: Quota,
    pub limit: u64,
    /// Absent for what is only counted while it goes on.
    pub used: Option<u64>,
    /// Whether the operator has set the limit for this tenant.
    pub own: bool,
}

/// What a tenant uses of all quotas.
#[derive(Clone, Copy, Debug)]
pub(super) struct TenantStandings<'a> {
    pub(super) tenant_id: TenantId,
    pub(super) standings: &'a [Standing],
}

vocabulary! {
    /// How near a limit is.
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
    /// The share of the limit that is used, in percent, rounded down. A limit of 0 is always used up.
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
