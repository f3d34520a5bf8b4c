//! A provider: a cloud with a credential, and the status of both.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{CloudProviderId, OrganizationId, TenantId},
    secrets::Sealed,
    vocabulary::vocabulary,
};
use tenantd_egress::SecretTarget;

use super::{
    failure::Failure,
    kind::{ProviderConfig, ProviderKind},
    verification::{Outcome, Verification},
    vm::CloudVm,
};

/// VMs are stale after this many intervals without a successful sync of their provider.
const STALE_INTERVALS: u32 = 3;
/// The maximum growth of the pause while a provider fails, as a power of two, and the longest pause.
const MAX_BACKOFF: u32 = 4;
const MAX_PAUSE: Duration = Duration::from_hours(1);

/// A stored credential: the part that may be shown, and the sealed rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredCredential {
    pub(crate) type_name: String,
    pub(crate) hint: Option<String>,
    pub(crate) set_at: Timestamp,
    pub(crate) sealed: Sealed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Provider {
    pub(crate) id: CloudProviderId,
    pub(crate) tenant_id: TenantId,
    pub(crate) name: String,
    pub(crate) kind: ProviderKind,
    pub(crate) organization_id: Option<OrganizationId>,
    pub(crate) enabled: bool,
    pub(crate) config: ProviderConfig,
    pub(crate) credential: StoredCredential,
    /// The last verification. It does not change the version of the record.
    pub(crate) verification: Option<Verification>,
    pub(crate) interval_seconds: u32,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) version: u64,
}

vocabulary! {
    ProviderStatus:
    Unverified "unverified", Verified "verified", Degraded "degraded", Invalid "invalid", Unreachable "unreachable",
    Disabled "disabled",
}

/// The error of the last sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SyncError {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) outcome: Outcome,
    pub(crate) at: Timestamp,
}

impl SyncError {
    pub(crate) fn new(failure: &Failure, at: Timestamp) -> Self {
        Self { code: failure.class.name().to_owned(), message: failure.message.clone(), outcome: failure.class.outcome(), at }
    }
}

/// The data that the last sync could not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SyncGaps {
    /// The number of VMs that are listed with missing fields.
    pub(crate) partial: u64,
    /// The number of entries that are not listed because they have no readable id.
    pub(crate) skipped: u64,
    /// The first reasons, at most `MAX_REASONS`.
    pub(crate) reasons: Vec<String>,
}

impl SyncGaps {
    const MAX_REASONS: usize = 5;

    /// `None` when everything was read.
    pub(crate) fn of(vms: &[CloudVm], skipped: &[String]) -> Option<Self> {
        let partial = vms.iter().filter(|vm| !vm.unread.is_empty());
        let of_vm =
            |vm: &CloudVm| vm.unread.first().map(|first| format!("{}: {}: {}", vm.provider_vm_id, first.field, first.reason));
        let reasons = skipped.iter().cloned().chain(partial.clone().filter_map(of_vm)).take(Self::MAX_REASONS).collect();
        let gaps = Self { partial: partial.count() as u64, skipped: skipped.len() as u64, reasons };
        (gaps != Self::default()).then_some(gaps)
    }
}

/// The results of a provider's syncs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SyncState {
    /// The start of the last successful sync.
    pub(crate) last_at: Option<Timestamp>,
    /// The number of VMs that the last successful sync found.
    pub(crate) vm_count: u64,
    /// The error of the last sync, if it failed.
    pub(crate) error: Option<SyncError>,
    /// The number of consecutive failures.
    pub(crate) failures: u32,
    /// When the next sync starts. `None` while the provider is disabled.
    pub(crate) due_at: Option<Timestamp>,
    /// The gaps of the last successful sync.
    #[serde(default)]
    pub(crate) gaps: Option<SyncGaps>,
}

impl Provider {
    /// The target that the credential is bound to.
    pub(crate) fn target(&self) -> SecretTarget {
        self.config.target()
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_secs(self.interval_seconds.into())
    }

    /// The status according to the last verification, or to the last sync if it failed later.
    pub(crate) fn status(&self, sync: &SyncState) -> ProviderStatus {
        if !self.enabled {
            return ProviderStatus::Disabled;
        }
        let verified_at = self.verification.as_ref().map(|verification| verification.at);
        let failed = sync.error.as_ref().filter(|error| verified_at.is_none_or(|at| error.at >= at));
        let outcome = failed.map(|error| error.outcome).or_else(|| Some(self.verification.as_ref()?.outcome));
        match outcome {
            None => ProviderStatus::Unverified,
            Some(Outcome::Valid) if sync.gaps.is_some() => ProviderStatus::Degraded,
            Some(Outcome::Valid) => ProviderStatus::Verified,
            Some(Outcome::ValidLimited | Outcome::RateLimited | Outcome::ProviderError) => ProviderStatus::Degraded,
            Some(Outcome::InvalidCredentials | Outcome::InsufficientPermissions | Outcome::ClockSkew) => ProviderStatus::Invalid,
            Some(Outcome::Unreachable | Outcome::TlsError | Outcome::Timeout) => ProviderStatus::Unreachable,
        }
    }

    /// Whether the stored data of the provider's VMs is out of date.
    pub(crate) fn is_stale(&self, sync: &SyncState, now: Timestamp) -> bool {
        sync.last_at.is_none_or(|at| now.since(at) > self.interval() * STALE_INTERVALS)
    }

    /// The pause after a sync, without jitter. It grows with every consecutive failure.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        (self.interval() * (1 << failures.min(MAX_BACKOFF))).min(MAX_PAUSE.max(self.interval()))
    }
}
