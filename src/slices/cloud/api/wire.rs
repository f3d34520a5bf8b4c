//! The wire types for providers and verifications.

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
    fleet::SyncedProvider,
    model::{self, CheckName, CheckStatus, Outcome, ProviderKind, ProviderStatus, SimulatedFailure, Warning},
};

/// The configuration of a provider. The accepted fields depend on the kind.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ProviderConfig {
    /// The base URL of the cloud's API, which replaces the kind's own. Required for proxmox. The same address rules apply as for
    /// webhook receivers.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) endpoint: Option<String>,
    /// The regions to list VMs in. When absent, all regions of the account if the API lists them, otherwise the default region.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    pub(super) regions: Option<Vec<String>>,
    /// The certificate authorities to trust instead of the default ones, in PEM format.
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) ca_certificate_pem: Option<String>,
    /// proxmox: the SHA-256 fingerprint of the server's certificate in hexadecimal, with or without colons. tenantd then trusts
    /// this certificate without an authority.
    #[oai(validator(min_length = 64, max_length = 95))]
    pub(super) tls_fingerprint: Option<String>,
    /// openstack: the URL of Keystone, which is required. azure: the URL of a sign-in service that replaces the public one.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) auth_url: Option<String>,
    /// azure: the resource group for new VMs.
    #[oai(validator(min_length = 1, max_length = 90))]
    pub(super) resource_group: Option<String>,
    /// simulated: the seed that determines the VMs. Defaults to 0.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub(super) seed: Option<u64>,
    /// simulated: the delay of every response, in milliseconds. Defaults to 0.
    #[oai(validator(minimum(value = "0"), maximum(value = "600000")))]
    pub(super) latency_ms: Option<u32>,
    pub(super) fail: Option<Word<SimulatedFailure>>,
    /// simulated: the number of initial VMs. Defaults to 12.
    #[oai(validator(minimum(value = "0"), maximum(value = "10000")))]
    pub(super) vm_count: Option<u32>,
    /// simulated: the maximum number of VMs. Defaults to 100.
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

/// The public part of a credential.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct CredentialSummary {
    /// The type of the credential, such as `access_key`.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) type_name: String,
    /// A part by which people recognize the credential, such as the shortened key id or the last characters of an API token.
    /// Absent when the credential has no such part.
    pub(super) hint: Option<String>,
    /// When the credential was set.
    pub(super) set_at: Timestamp,
}

/// One check of a verification or of a dry run.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct VerificationCheck {
    pub(super) name: Word<CheckName>,
    pub(super) status: Word<CheckStatus>,
    /// The duration of the check in milliseconds.
    pub(super) ms: u32,
    /// The code of the error, from the provider if it has one. Absent unless the check failed.
    pub(super) code: Option<String>,
    /// The result in words. Always present for a failed check and for every check of a dry run.
    pub(super) message: Option<String>,
    /// How to fix the problem. Absent unless the check failed.
    pub(super) remedy: Option<String>,
}

impl VerificationCheck {
    pub(super) fn new(check: model::Check, message: Option<String>) -> Self {
        let model::Check { name, status, ms, code, remedy } = check;
        Self { name: name.into(), status: status.into(), ms, code, message, remedy }
    }
}

/// A warning about a verification that did not fail.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct VerificationWarning {
    pub(super) code: Word<Warning>,
}

/// The permissions of the credential.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct Capabilities {
    /// Whether the credential can list VMs.
    pub(super) read: bool,
    /// Whether the credential can create VMs. Also `true` with the warning `provision_not_checked`.
    pub(super) provision: bool,
}

/// The result of verifying a credential.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ProviderVerification {
    pub(super) outcome: Word<Outcome>,
    /// Whether a retry may succeed later without any change.
    pub(super) transient: bool,
    /// The account that the credential belongs to, as the provider reports it.
    pub(super) identity: Option<String>,
    /// The provider's message about the failure. Absent when nothing failed.
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

/// `pending`: no sync yet. `ok`: the last sync succeeded. `failed`: the last sync failed. `disabled`: the provider is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum SyncStateName {
    Pending,
    Ok,
    Failed,
    Disabled,
}

/// The reason why the last sync failed.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct SyncProblem {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) at: Timestamp,
}

/// The parts of the provider's responses that the last sync could not read.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct UnreadableVms {
    /// The number of VMs that are listed with missing fields. The field `unreadable` of each VM names the fields.
    pub(super) partial: u64,
    /// The number of entries that are not listed, because they have no readable id or because their part of the cloud did not
    /// respond. While this is not 0, VMs that are missing from the provider's list do not become `terminated`.
    pub(super) skipped: u64,
    /// The first reasons, at most 5.
    pub(super) reasons: Vec<String>,
}

/// The state of the provider's syncs.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ProviderSync {
    pub(super) state: SyncStateName,
    /// When the last successful sync started. Absent before the first one.
    pub(super) last_at: Option<Timestamp>,
    /// The number of VMs that the last successful sync found.
    pub(super) vm_count: u64,
    /// Absent when the last successful sync read everything. Otherwise the status of a verified provider is `degraded`.
    pub(super) unreadable: Option<UnreadableVms>,
    pub(super) error: Option<SyncProblem>,
    /// The interval between two syncs, in seconds.
    pub(super) interval_seconds: u32,
    /// When the next sync is due. Absent while the provider is disabled.
    pub(super) next_at: Option<Timestamp>,
}

/// A cloud provider, without its credential.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CloudProvider {
    pub(super) id: CloudProviderId,
    /// The display name, unique in the tenant.
    pub(super) name: String,
    pub(super) kind: Word<ProviderKind>,
    /// The organization that the VMs belong to. Absent for a provider that several organizations share.
    pub(super) organization: Option<OrganizationReference>,
    /// Whether tenantd syncs the provider and accepts orders for it.
    pub(super) enabled: bool,
    pub(super) config: ProviderConfig,
    pub(super) credential: CredentialSummary,
    pub(super) status: ProviderStatus,
    /// The last verification. Verifications and syncs do not change the version of the provider.
    pub(super) verification: Option<ProviderVerification>,
    pub(super) sync: ProviderSync,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// The version of this record. Every change increments it.
    pub(super) version: u64,
}

/// The organization with its name. An organization that the directory no longer has is named by its id.
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
    pub(super) fn new(tx: &impl Read, known: SyncedProvider) -> Result<Self, StoreError> {
        let SyncedProvider { provider, sync } = known;
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
