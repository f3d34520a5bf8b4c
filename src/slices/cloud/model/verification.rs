//! What came of trying a credential.

use serde::{Deserialize, Serialize};

use crate::kernel::clock::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Outcome {
    Valid,
    /// It can read and not create.
    ValidLimited,
    InvalidCredentials,
    InsufficientPermissions,
    Unreachable,
    TlsError,
    ClockSkew,
    RateLimited,
    ProviderError,
    Timeout,
}

impl Outcome {
    pub(in super::super) const fn is_valid(self) -> bool {
        matches!(self, Self::Valid | Self::ValidLimited)
    }

    pub(in super::super) const fn is_transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::RateLimited | Self::ProviderError | Self::Timeout)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum CheckName {
    Dns,
    Tcp,
    Tls,
    Authenticate,
    ListVms,
    Provision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum CheckStatus {
    Passed,
    Failed,
    Skipped,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Check {
    pub(in super::super) name: CheckName,
    pub(in super::super) status: CheckStatus,
    pub(in super::super) ms: u32,
    pub(in super::super) code: Option<String>,
    pub(in super::super) remedy: Option<String>,
}

impl Check {
    pub(in super::super) fn passed(name: CheckName, ms: u32) -> Self {
        Self { name, status: CheckStatus::Passed, ms, code: None, remedy: None }
    }

    pub(in super::super) fn skipped(name: CheckName) -> Self {
        Self { name, status: CheckStatus::Skipped, ms: 0, code: None, remedy: None }
    }

    pub(in super::super) fn failed(name: CheckName, ms: u32, code: &str, remedy: &str) -> Self {
        Self { name, status: CheckStatus::Failed, ms, code: Some(code.to_owned()), remedy: Some(remedy.to_owned()) }
    }
}

/// What is worth knowing though nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Warning {
    /// There is no VM: often the wrong project, subscription or region.
    EmptyInventory,
    /// The API has no way to ask whether this credential may create VMs.
    ProvisionNotChecked,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Capabilities {
    pub(in super::super) read: bool,
    pub(in super::super) provision: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Verification {
    pub(in super::super) at: Timestamp,
    pub(in super::super) outcome: Outcome,
    /// Who the provider says that we are.
    pub(in super::super) identity: Option<String>,
    pub(in super::super) checks: Vec<Check>,
    pub(in super::super) capabilities: Capabilities,
    pub(in super::super) warnings: Vec<Warning>,
    /// The provider's message about what failed.
    pub(in super::super) message: Option<String>,
}
