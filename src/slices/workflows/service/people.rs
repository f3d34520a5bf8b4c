//! The people behind runs and approvals. An approval must come from another person: a key counts as the person responsible for it,
//! and does not count without one.

use std::collections::BTreeSet;

use tenantd_api_keys::person_behind;
use tenantd_base::{
    access::{Scope, TenantKind},
    id::{RunId, TenantId, UserId},
};
use tenantd_directory::{self as directory, UserStatus};
use tenantd_store::{Read, events::Actor};

use super::super::{
    definition::Approval,
    error::WorkflowError,
    model::{Run, RunTrigger, StepResult},
    repo::{self, workflows::VersionRecord},
};

/// How many earlier runs are examined.
const MAX_RUNS: usize = 64;

/// The people who requested a run: those who started it, caused its event, or wrote steps of its definition. Includes the same
/// people of the runs that it retries, that called it, and that caused its event.
pub(super) fn requesters(tx: &impl Read, run: &Run) -> Result<BTreeSet<UserId>, WorkflowError> {
    let tenant = run.tenant_id;
    let (mut people, mut seen, mut open) = (BTreeSet::new(), BTreeSet::from([run.id]), vec![run.clone()]);
    while let Some(run) = open.pop() {
        let event = repo::runs::inputs(tx, (tenant, run.id))?.event.map(|event| event.0).unwrap_or_default();
        let caused_by: Option<Actor> = event.get("actor").and_then(|actor| serde_json::from_value(actor.clone()).ok());
        let version = repo::workflows::version(tx, tenant, run.workflow_id, run.workflow_version)?;
        let authors = version.into_iter().flat_map(VersionRecord::authors);
        for actor in [Some(run.started_by), caused_by].into_iter().flatten().chain(authors) {
            people.extend(person_behind(tx, tenant, &actor)?);
        }
        let caller = if let RunTrigger::Call { run, .. } = run.trigger { Some(run) } else { None };
        let causing: Option<RunId> = event.pointer("/cause/run_id").and_then(|id| id.as_str()?.parse().ok());
        for id in [run.retry_of, caller, causing].into_iter().flatten() {
            if seen.len() < MAX_RUNS && seen.insert(id) {
                open.extend(repo::runs::get(tx, (tenant, id))?);
            }
        }
    }
    Ok(people)
}

/// The people whose approvals of a step count. An older release did not store them.
pub(super) fn approvers(tx: &impl Read, tenant: TenantId, row: &StepResult) -> Result<Vec<UserId>, WorkflowError> {
    let mut found = row.approvers.clone();
    for decision in row.decisions.iter().filter(|decision| decision.approved && row.approvers.is_empty()) {
        let person = person_behind(tx, tenant, &decision.by)?;
        found.extend(person.filter(|person| !found.contains(person)));
    }
    Ok(found)
}

/// Whether a person who approved may still approve.
pub(super) fn still_approves(tx: &impl Read, tenant: TenantId, approval: &Approval, person: UserId) -> Result<bool, WorkflowError> {
    let user = directory::user(tx, tenant, person)?.filter(|user| user.status == UserStatus::Active);
    let Some((user, role)) = user.and_then(|user| user.role().map(|role| (user, role))) else { return Ok(false) };
    if !approval.roles.is_empty() {
        return Ok(approval.roles.iter().any(|allowed| *allowed == role.to_string()));
    }
    // People of the platform tenant do not approve in other tenants.
    let authority = directory::staff_authority(tx, &user, TenantKind::Standard)?;
    Ok(authority.is_some_and(|authority| authority.scopes().allows(Scope::WorkflowsApprove)))
}
