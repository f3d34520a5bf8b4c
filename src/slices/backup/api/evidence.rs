//! Evidence: a signed statement about the backups of organizations. Anyone with the public key can verify it.
//!
//! **Invariant:** the signature covers the exact bytes of the statement, which are inside the signature. A verifier does not have
//! to serialize JSON in the same way.

use data_encoding::BASE64URL_NOPAD;
use poem_openapi::Object;
use serde::Serialize;
use serde_json::json;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::Principal,
    clock::Timestamp,
    id::TenantId,
    secrets::{SignatureError, Signer},
};
use tenantd_directory::OrganizationReference;

use super::{
    super::{
        error::BackupError,
        listing::ReportRow,
        model::{KeySource, State, Window},
    },
    aggregate_wire::{BackupDevices, BackupJobCounts, BackupRule321, devices},
};

/// The facts about one organization that insurers ask for.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct EvidenceRow {
    /// The organization.
    organization: OrganizationReference,
    /// The overall state of the organization's backups.
    state: State,
    /// The score of the organization. Absent if it has none.
    score: Option<u8>,
    /// The number of devices by protection.
    devices: BackupDevices,
    /// The number of eligible devices whose newest restore point is within the objective.
    devices_within_rpo: u64,
    /// The number of eligible devices whose newest restore point is older than the objective, or that have had none for longer than
    /// the objective.
    devices_breaching_rpo: u64,
    /// The number of eligible devices without any restore point. They are not within their objective; after its time they count as
    /// breaching too.
    devices_never_backed_up: u64,
    /// The recovery point objective for servers, in minutes.
    rpo_minutes_server: u32,
    /// The recovery point objective for workstations, in minutes.
    rpo_minutes_workstation: u32,
    /// When a backup last succeeded. Absent if none did.
    last_success_at: Option<Timestamp>,
    /// The jobs of the last 30 days.
    jobs_30d: BackupJobCounts,
    /// The time of the last restore test. Absent if there was none.
    last_restore_test_at: Option<Timestamp>,
    /// The maximum number of days between restore tests.
    restore_test_every_days: u32,
    /// Whether the backups meet the 3-2-1 rule.
    rule_321: BackupRule321,
    /// The longest lock in days, over all targets with a restore point from the last 30 days. 0 for no lock.
    immutable_days: u32,
    /// The number of days for which the retention keeps restore points.
    retention_days: u32,
    /// Whether backups are encrypted at rest, according to the configuration.
    encrypted_at_rest: bool,
    /// Who holds the encryption keys, according to the configuration. Absent without encryption at rest.
    key_source: Option<KeySource>,
}

/// The statement: its author, its time and its content.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct EvidenceStatement {
    /// The type of the statement: `tenantd.backup.evidence`.
    kind: String,
    /// The version of the statement format.
    format: u8,
    /// The ID of the tenant that makes the statement.
    tenant_id: TenantId,
    /// The name of the tenant.
    tenant_name: String,
    /// The time of the statement.
    as_of: Timestamp,
    /// The facts about each organization.
    organizations: Vec<EvidenceRow>,
}

/// A statement with its signature.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupEvidence {
    /// The statement in readable form.
    pub(super) statement: EvidenceStatement,
    /// The same statement as a JSON Web Signature in compact form, signed with Ed25519.
    pub(super) jws: String,
    /// The ID of the signing key in `/documentation/keys/`.
    pub(super) key_id: String,
}

fn row(shown: ReportRow, now: Timestamp) -> EvidenceRow {
    let (assessment, organization) = (shown.assessment, shown.organization);
    let (rollup, policy) = (&assessment.rollup, &assessment.policy);
    EvidenceRow {
        organization: organization.into(),
        state: assessment.state,
        score: assessment.breakdown.as_ref().map(|breakdown| breakdown.score),
        devices: devices(&rollup.share),
        devices_within_rpo: rollup.share.rpo_ok + rollup.share.rpo_at_risk,
        devices_breaching_rpo: rollup.share.rpo_breached,
        devices_never_backed_up: rollup.share.never_backed_up,
        rpo_minutes_server: policy.objectives.rpo_minutes.server,
        rpo_minutes_workstation: policy.objectives.rpo_minutes.workstation,
        last_success_at: rollup.last_success_at,
        jobs_30d: rollup.jobs(Window::Month, now).into(),
        last_restore_test_at: rollup.last_verified_at,
        restore_test_every_days: policy.verification.restore_test_every_days,
        rule_321: assessment.rule.into(),
        immutable_days: assessment.rule.immutable_days,
        retention_days: policy.retention.span_days(),
        encrypted_at_rest: policy.encryption.at_rest,
        key_source: policy.encryption.key_source,
    }
}

/// Builds and signs the statement about these organizations.
pub(super) fn make(
    shown: Vec<ReportRow>,
    principal: &Principal,
    now: Timestamp,
    signer: &Signer,
) -> Result<BackupEvidence, BackupError> {
    let failed = |error: SignatureError| BackupError::Signing(error.to_string());
    let statement = EvidenceStatement {
        kind: "tenantd.backup.evidence".to_owned(),
        format: 1,
        tenant_id: principal.tenant_id,
        tenant_name: principal.tenant_name.clone(),
        as_of: now,
        organizations: shown.into_iter().map(|shown| row(shown, now)).collect(),
    };
    let key_id = signer.public_key().map_err(failed)?.key_id();
    let header = json!({"alg": "EdDSA", "kid": key_id, "typ": "JOSE"});
    let encode = |bytes: Vec<u8>| BASE64URL_NOPAD.encode(&bytes);
    let content = format!("{}.{}", encode(serde_json::to_vec(&header)?), encode(serde_json::to_vec(&statement)?));
    let signature = signer.sign(content.as_bytes()).map_err(failed)?;
    let jws = format!("{content}.{}", BASE64URL_NOPAD.encode(signature.as_bytes()));
    Ok(BackupEvidence { statement, jws, key_id })
}
