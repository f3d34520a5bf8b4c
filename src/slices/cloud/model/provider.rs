//! A provider: a cloud with a credential for it, and how it is doing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    failure::Failure,
    kind::{ProviderConfig, ProviderKind},
    verification::{Outcome, Verification},
};
use crate::kernel::{
    clock::Timestamp,
    egress::SecretTarget,
    id::{CloudProviderId, OrganizationId, TenantId},
    secrets::Sealed,
};

/// A VM is stale when its provider has not told of it for this many intervals.
const STALE_INTERVALS: u32 = 3;
/// How much the pause grows while a provider fails, as a power of two, and the longest that it gets.
const MOST_BACKOFF: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// A credential as it is kept: what may be shown of it, and the rest under seal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct StoredCredential {
    pub(in super::super) type_name: String,
    pub(in super::super) hint: Option<String>,
    pub(in super::super) set_at: Timestamp,
    pub(in super::super) sealed: Sealed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Provider {
    pub(in super::super) id: CloudProviderId,
    pub(in super::super) tenant_id: TenantId,
    pub(in super::super) name: String,
    pub(in super::super) kind: ProviderKind,
    pub(in super::super) organization_id: Option<OrganizationId>,
    pub(in super::super) enabled: bool,
    pub(in super::super) config: ProviderConfig,
    pub(in super::super) credential: StoredCredential,
    /// The last one. It counts as no change of the record.
    pub(in super::super) verification: Option<Verification>,
    pub(in super::super) interval_seconds: u32,
    pub(in super::super) created_at: Timestamp,
    pub(in super::super) updated_at: Timestamp,
    pub(in super::super) version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ProviderStatus {
    Unverified,
    Verified,
    Degraded,
    Invalid,
    Unreachable,
    Disabled,
}

/// Why the last sync failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct SyncError {
    pub(in super::super) code: String,
    pub(in super::super) message: String,
    pub(in super::super) outcome: Outcome,
    pub(in super::super) at: Timestamp,
}

impl SyncError {
    pub(in super::super) fn new(failure: &Failure, at: Timestamp) -> Self {
        Self { code: failure.class.name().to_owned(), message: failure.message.clone(), outcome: failure.class.outcome(), at }
    }
}

/// What the syncs of a provider came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct SyncState {
    /// The end of the last that went well.
    pub(in super::super) last_at: Option<Timestamp>,
    /// VMs that the provider told of then.
    pub(in super::super) vm_count: u64,
    /// Of the last one, when it failed.
    pub(in super::super) error: Option<SyncError>,
    /// In a row.
    pub(in super::super) failures: u32,
    /// When the next one begins; `None` while the provider is disabled.
    pub(in super::super) due_at: Option<Timestamp>,
}

impl Provider {
    /// The target that the credential belongs to.
    pub(in super::super) fn target(&self) -> SecretTarget {
        self.config.target()
    }

    pub(in super::super) fn interval(&self) -> Duration {
        Duration::from_secs(self.interval_seconds.into())
    }

    /// What the last verification and the last sync say, whichever is the later to find something wrong.
    pub(in super::super) fn status(&self, sync: &SyncState) -> ProviderStatus {
        if !self.enabled {
            return ProviderStatus::Disabled;
        }
        let verified_at = self.verification.as_ref().map(|verification| verification.at);
        let failed = sync.error.as_ref().filter(|error| verified_at.is_none_or(|at| error.at >= at));
        let outcome = failed.map(|error| error.outcome).or_else(|| Some(self.verification.as_ref()?.outcome));
        match outcome {
            None => ProviderStatus::Unverified,
            Some(Outcome::Valid) => ProviderStatus::Verified,
            Some(Outcome::ValidLimited | Outcome::RateLimited | Outcome::ProviderError) => ProviderStatus::Degraded,
            Some(Outcome::InvalidCredentials | Outcome::InsufficientPermissions | Outcome::ClockSkew) => ProviderStatus::Invalid,
            Some(Outcome::Unreachable | Outcome::TlsError | Outcome::Timeout) => ProviderStatus::Unreachable,
        }
    }

    /// Whether what is known of its VMs is too old to count on.
    pub(in super::super) fn is_stale(&self, sync: &SyncState, now: Timestamp) -> bool {
        sync.last_at.is_none_or(|at| now.since(at) > self.interval() * STALE_INTERVALS)
    }

    /// How long to wait after a sync, without jitter: longer with every failure in a row.
    pub(in super::super) fn pause(&self, failures: u32) -> Duration {
        (self.interval() * (1 << failures.min(MOST_BACKOFF))).min(LONGEST_PAUSE.max(self.interval()))
    }
}
