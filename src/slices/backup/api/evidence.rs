//! Evidence: a statement on how organizations are backed up, with a signature that anybody can check who has the public key.
//!
//! **Invariant:** what is signed is the statement byte for byte, inside of the signature's own form; nobody has to write JSON again in the same
//! way to check it.

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
        listing::Shown,
        model::{KeySource, State, Window},
    },
    aggregate_wire::{BackupDevices, BackupJobCounts, BackupRule321, devices},
};

/// What an insurer asks for of one organization.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct EvidenceRow {
    organization: OrganizationReference,
    state: State,
    /// The score of the organization.
    score: Option<u8>,
    /// How many devices are to be backed up.
    devices: BackupDevices,
    /// Eligible devices that have a restore point, and whose newest one is as new as the objective demands.
    devices_within_rpo: u64,
    /// Eligible devices whose newest restore point is older than the objective allows, or that have had none for as long.
    devices_breaching_rpo: u64,
    /// Eligible devices that have no restore point. They are not within their objective; after its time they breach it.
    devices_never_backed_up: u64,
    /// The objective for servers, in minutes.
    rpo_minutes_server: u32,
    /// The objective for workstations, in minutes.
    rpo_minutes_workstation: u32,
    /// When the newest restore point was made.
    last_success_at: Option<Timestamp>,
    /// Jobs of the last 30 days.
    jobs_30d: BackupJobCounts,
    /// When a restore was last tested.
    last_restore_test_at: Option<Timestamp>,
    /// How often a restore must be tested, in days.
    restore_test_every_days: u32,
    rule_321: BackupRule321,
    /// The longest time for which a target locks restore points, of those targets to which one was written in the last 30 days.
    immutable_days: u32,
    /// How far back restore points are kept.
    retention_days: u32,
    /// As it is set.
    encrypted_at_rest: bool,
    key_source: Option<KeySource>,
}

/// What is stated, by whom, and when.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct EvidenceStatement {
    /// `tenantd.backup.evidence`.
    kind: String,
    /// Of the form of this statement.
    format: u8,
    tenant_id: TenantId,
    /// The name of the tenant.
    tenant_name: String,
    /// The time that the figures are of.
    as_of: Timestamp,
    organizations: Vec<EvidenceRow>,
}

/// A statement with its signature.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupEvidence {
    pub(super) statement: EvidenceStatement,
    /// The same statement, signed: a JSON Web Signature in its compact form, by Ed25519.
    pub(super) jws: String,
    /// Which key of `/documentation/keys/` has signed.
    pub(super) key_id: String,
}

fn row(shown: Shown, now: Timestamp) -> EvidenceRow {
    let (weighed, organization) = (shown.weighed, shown.organization);
    let (rollup, policy) = (&weighed.rollup, &weighed.policy);
    EvidenceRow {
        organization: organization.into(),
        state: weighed.state,
        score: weighed.weighing.as_ref().map(|weighing| weighing.score),
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
        rule_321: weighed.rule.into(),
        immutable_days: weighed.rule.immutable_days,
        retention_days: policy.retention.span_days(),
        encrypted_at_rest: policy.encryption.at_rest,
        key_source: policy.encryption.key_source,
    }
}

/// The statement on these organizations, signed.
pub(super) fn make(
    shown: Vec<Shown>,
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
