//! Providers and verifications as clients see them.

use data_encoding::HEXLOWER;
use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    clock::Timestamp,
    id::{CloudProviderId, TenantId},
};
use tenantd_directory::{self as directory, OrganizationReference};
use tenantd_http::wire::Word;
use tenantd_store::{Read, StoreError};

use super::super::{
    fleet::Known,
    model::{self, CheckName, CheckStatus, Outcome, ProviderKind, ProviderStatus, SimulatedFailure, Warning},
};

/// How a provider is reached. Which fields there are depends on the kind.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ProviderConfig {
    /// In place of the kind's own API. Must be reachable by the same rules as webhook receivers. Proxmox cannot be without.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) endpoint: Option<String>,
    /// The regions to look at. All that the account has when absent, where the API tells them.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    pub(super) regions: Option<Vec<String>>,
    /// PEM of the certificate authorities to believe in place of the usual ones.
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) ca_certificate_pem: Option<String>,
    /// Proxmox: the SHA-256 of the server's certificate in hexadecimal, colons allowed, which is then believed without an authority.
    #[oai(validator(min_length = 64, max_length = 95))]
    pub(super) tls_fingerprint: Option<String>,
    /// openstack: the address of Keystone. azure: in place of its sign-on service.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) auth_url: Option<String>,
    /// Azure: where new VMs are put.
    #[oai(validator(min_length = 1, max_length = 90))]
    pub(super) resource_group: Option<String>,
    /// Simulated: what its fleet follows from.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub(super) seed: Option<u64>,
    /// Simulated: how long every answer takes.
    #[oai(validator(minimum(value = "0"), maximum(value = "600000")))]
    pub(super) latency_ms: Option<u32>,
    pub(super) fail: Option<Word<SimulatedFailure>>,
    /// Simulated: how many VMs are there from the start. 12 when absent.
    #[oai(validator(minimum(value = "0"), maximum(value = "10000")))]
    pub(super) vm_count: Option<u32>,
    /// Simulated: how many VMs there can be. 100 when absent.
    #[oai(validator(minimum(value = "0"), maximum(value = "20000")))]
    pub(super) quota: Option<u32>,
}

impl From<model::ProviderConfig> for ProviderConfig {
    fn from(config: model::ProviderConfig) -> Self {
        Self {
            endpoint: config.endpoint,
            regions: (!config.regions.is_empty()).then_some(config.regions),
            ca_certificate_pem: config.ca_certificate_pem,
            tls_fingerprint: config.tls_fingerprint.map(|pin| HEXLOWER.encode(&pin)),
            auth_url: config.auth_url,
            resource_group: config.resource_group,
            seed: config.seed,
            latency_ms: config.latency_ms,
            fail: config.fail.map(Into::into),
            vm_count: config.vm_count,
            quota: config.quota,
        }
    }
}

/// What may be shown of a credential.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct CredentialSummary {
    /// The form that it has, such as `access_key`.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) type_name: String,
    /// What people recognise it by.
    pub(super) hint: Option<String>,
    /// When the credential was set.
    pub(super) set_at: Timestamp,
}

/// One thing that a verification tried.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct VerificationCheck {
    pub(super) name: Word<CheckName>,
    pub(super) status: Word<CheckStatus>,
    /// How long it took.
    pub(super) ms: u32,
    /// The provider's own code where it has one.
    pub(super) code: Option<String>,
    /// What was found. A failed check always has one, and so does every check of a dry run.
    pub(super) message: Option<String>,
    /// What to do about it.
    pub(super) remedy: Option<String>,
}

impl VerificationCheck {
    pub(super) fn new(check: model::Check, message: Option<String>) -> Self {
        let model::Check { name, status, ms, code, remedy } = check;
        Self { name: name.into(), status: status.into(), ms, code, message, remedy }
    }
}

/// What is worth knowing though nothing failed.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct VerificationWarning {
    pub(super) code: Word<Warning>,
}

/// What the credential can do.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct Capabilities {
    /// Whether VMs can be listed.
    pub(super) read: bool,
    /// Whether VMs can be created.
    pub(super) provision: bool,
}

/// What came of trying a credential.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ProviderVerification {
    pub(super) outcome: Word<Outcome>,
    /// Whether it could go well at another time without anybody doing something about it.
    pub(super) transient: bool,
    /// Who the provider says that we are.
    pub(super) identity: Option<String>,
    /// The provider's message about what failed.
    pub(super) message: Option<String>,
    pub(super) checks: Vec<VerificationCheck>,
    pub(super) capabilities: Capabilities,
    pub(super) warnings: Vec<VerificationWarning>,
    /// When the provider was verified.
    pub(super) verified_at: Timestamp,
}

impl From<model::Verification> for ProviderVerification {
    fn from(verification: model::Verification) -> Self {
        let message = verification.message.clone();
        let check = |check: model::Check| {
            let message = message.clone().filter(|_| check.status == CheckStatus::Failed);
            VerificationCheck::new(check, message)
        };
        Self {
            outcome: verification.outcome.into(),
            transient: verification.outcome.is_transient(),
            identity: verification.identity,
            message: verification.message,
            checks: verification.checks.into_iter().map(check).collect(),
            capabilities: Capabilities { read: verification.capabilities.read, provision: verification.capabilities.provision },
            warnings: verification.warnings.into_iter().map(|code| VerificationWarning { code: code.into() }).collect(),
            verified_at: verification.at,
        }
    }
}

/// `pending` until the first; `ok`; `failed`; `disabled` with its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum SyncStateName {
    Pending,
    Ok,
    Failed,
    Disabled,
}

/// Why the last sync failed.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct SyncProblem {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) at: Timestamp,
}

/// What the last sync could not read of the provider's answers.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct UnreadableVms {
    /// VMs that are listed with fields missing: `unreadable` of each VM names them.
    pub(super) partial: u64,
    /// Entries that are not listed, because they have no readable id or their part of the cloud did not answer. While there are any,
    /// VMs that are missing from the fleet do not become `terminated`.
    pub(super) skipped: u64,
    /// The first reasons, at most five.
    pub(super) reasons: Vec<String>,
}

/// How the provider's VMs are kept up to date.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ProviderSync {
    pub(super) state: SyncStateName,
    /// The last that went well.
    pub(super) last_at: Option<Timestamp>,
    /// VMs that the provider told of then.
    pub(super) vm_count: u64,
    /// Absent when everything was read. Otherwise the status of the provider is `degraded`.
    pub(super) unreadable: Option<UnreadableVms>,
    pub(super) error: Option<SyncProblem>,
    /// How often the provider is synced, in seconds.
    pub(super) interval_seconds: u32,
    /// When the next sync is due.
    pub(super) next_at: Option<Timestamp>,
}

/// A cloud provider, without its credential.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CloudProvider {
    pub(super) id: CloudProviderId,
    /// Unique in the tenant.
    pub(super) name: String,
    pub(super) kind: Word<ProviderKind>,
    /// Whose VMs these are, where they are one organization's.
    pub(super) organization: Option<OrganizationReference>,
    /// A disabled one is not synced, and takes no orders.
    pub(super) enabled: bool,
    pub(super) config: ProviderConfig,
    pub(super) credential: CredentialSummary,
    pub(super) status: ProviderStatus,
    /// The last one. It counts as no change of the record, and neither do syncs.
    pub(super) verification: Option<ProviderVerification>,
    pub(super) sync: ProviderSync,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// Counts the changes of this record.
    pub(super) version: u64,
}

/// The organization with its name; what the directory no longer has is shown by its id.
pub(super) fn organization(
    tx: &impl Read,
    tenant: TenantId,
    id: Option<tenantd_base::id::OrganizationId>,
) -> Result<Option<OrganizationReference>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    let label = directory::organization(tx, tenant, id)?;
    Ok(Some(label.map_or_else(|| OrganizationReference { id, name: id.to_string() }, Into::into)))
}

impl CloudProvider {
    pub(super) fn new(tx: &impl Read, known: Known) -> Result<Self, StoreError> {
        let Known { provider, sync } = known;
        let status = provider.status(&sync);
        let state = match &sync {
            _ if !provider.enabled => SyncStateName::Disabled,
            sync if sync.error.is_some() => SyncStateName::Failed,
            sync if sync.last_at.is_some() => SyncStateName::Ok,
            _ => SyncStateName::Pending,
        };
        Ok(Self {
            organization: organization(tx, provider.tenant_id, provider.organization_id)?,
            id: provider.id,
            name: provider.name,
            kind: provider.kind.into(),
            enabled: provider.enabled,
            config: provider.config.into(),
            credential: CredentialSummary {
                type_name: provider.credential.type_name,
                hint: provider.credential.hint,
                set_at: provider.credential.set_at,
            },
            status,
            verification: provider.verification.map(Into::into),
            sync: ProviderSync {
                state,
                last_at: sync.last_at,
                vm_count: sync.vm_count,
                unreadable: sync.gaps.map(|gaps| UnreadableVms {
                    partial: gaps.partial,
                    skipped: gaps.skipped,
                    reasons: gaps.reasons,
                }),
                error: sync.error.map(|error| SyncProblem { code: error.code, message: error.message, at: error.at }),
                interval_seconds: provider.interval_seconds,
                next_at: sync.due_at,
            },
            created_at: provider.created_at,
            updated_at: provider.updated_at,
            version: provider.version,
        })
    }
}
