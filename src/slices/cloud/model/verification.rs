//! The result of verifying a credential.

use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, vocabulary::vocabulary};

vocabulary! {
    Outcome as variants:
    Valid "valid",
    /// The credential can list VMs but not create them.
    ValidLimited "valid_limited",
    InvalidCredentials "invalid_credentials", InsufficientPermissions "insufficient_permissions", Unreachable "unreachable",
    TlsError "tls_error", ClockSkew "clock_skew", RateLimited "rate_limited", ProviderError "provider_error", Timeout "timeout",
}

impl Outcome {
    pub(crate) const fn is_valid(self) -> bool {
        matches!(self, Self::Valid | Self::ValidLimited)
    }

    pub(crate) const fn is_transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::RateLimited | Self::ProviderError | Self::Timeout)
    }
}

vocabulary! {
    CheckName as variants:
    Dns "dns", Tcp "tcp", Tls "tls", Authenticate "authenticate", ListVms "list_vms", Provision "provision",
}

vocabulary! {
    CheckStatus as variants:
    Passed "passed", Failed "failed", Skipped "skipped",
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) name: CheckName,
    pub(crate) status: CheckStatus,
    pub(crate) ms: u32,
    pub(crate) code: Option<String>,
    pub(crate) remedy: Option<String>,
}

impl Check {
    pub(crate) fn passed(name: CheckName, ms: u32) -> Self {
        Self { name, status: CheckStatus::Passed, ms, code: None, remedy: None }
    }

    pub(crate) fn skipped(name: CheckName) -> Self {
        Self { name, status: CheckStatus::Skipped, ms: 0, code: None, remedy: None }
    }

    pub(crate) fn failed(name: CheckName, ms: u32, code: &str, remedy: &str) -> Self {
        Self { name, status: CheckStatus::Failed, ms, code: Some(code.to_owned()), remedy: Some(remedy.to_owned()) }
    }
}

vocabulary! {
    /// A warning about a verification that did not fail.
    Warning as variants:
    /// No VMs were found, often because of a wrong project, subscription or region.
    EmptyInventory "empty_inventory",
    /// The API has no way to check whether the credential may create VMs.
    ProvisionNotChecked "provision_not_checked",
    /// Some VMs could not be read completely.
    IncompleteInventory "incomplete_inventory",
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Capabilities {
    pub(crate) read: bool,
    pub(crate) provision: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verification {
    pub(crate) at: Timestamp,
    pub(crate) outcome: Outcome,
    /// The account of the credential, as the provider reports it.
    pub(crate) identity: Option<String>,
    pub(crate) checks: Vec<Check>,
    pub(crate) capabilities: Capabilities,
    pub(crate) warnings: Vec<Warning>,
    /// The provider's message about the failure.
    pub(crate) message: Option<String>,
}
