//! Validates filters: priorities must be words of a closed list; organizations and actors must exist. A filter that names anything
//! else could never match, and nobody would notice. Entries that the stored filter already has are not checked again: a record that
//! was removed since must not block another change.

use tenantd_base::{
    fault::Fault,
    id::{ApiKeyId, Id, Kind, OrganizationId, TenantId, UserId, WorkflowId},
    vocabulary::nearest,
};
use tenantd_store::{StoreError, WriteTx, events::Act};

use super::model::EventFilter;

/// Whether a tenant has a record.
type Has<I> = fn(&WriteTx, TenantId, I) -> Result<bool, StoreError>;

/// Looks up the records of other slices that filters name. The composition root provides it.
#[derive(Clone, Copy, Debug)]
pub struct Lookups {
    pub has_organization: Has<OrganizationId>,
    pub has_user: Has<UserId>,
    pub has_api_key: Has<ApiKeyId>,
    pub has_workflow: Has<WorkflowId>,
    /// The priorities of tickets.
    pub priorities: &'static [&'static str],
}

/// Actors without a record: tenantd itself, and the operator on the machine.
const ACTORS_WITHOUT_RECORD: [&str; 2] = ["system", "local_operator"];

/// Returns every fault of a filter. `stored` is the endpoint's current filter.
pub(super) fn check(
    tx: &WriteTx,
    act: &Act,
    lookups: &Lookups,
    filter: &EventFilter,
    stored: &EventFilter,
) -> Result<Vec<Fault>, StoreError> {
    let mut faults = Vec::new();
    for (place, given) in new_entries(&filter.priorities, &stored.priorities) {
        if !lookups.priorities.contains(&given.as_str()) {
            let known = || lookups.priorities.iter().copied();
            let fault = Fault::new(format!("/filter/priorities/{place}"), "not_allowed", format!("{given} is not a priority"));
            faults.push(fault.with_allowed(known()).with_suggestion(nearest(given, known())));
        }
    }
    for (place, given) in new_entries(&filter.organization_ids, &stored.organization_ids) {
        let found = |id: OrganizationId| Ok(act.reach.covers(Some(id)) && (lookups.has_organization)(tx, act.tenant_id, id)?);
        faults.extend(check_id(given, &format!("/filter/organization_ids/{place}"), found)?);
    }
    for (place, given) in new_entries(&filter.exclude_actor_ids, &stored.exclude_actor_ids) {
        faults.extend(check_actor(tx, act.tenant_id, lookups, given, &format!("/filter/exclude_actor_ids/{place}"))?);
    }
    Ok(faults)
}

fn new_entries<'a>(given: &'a [String], stored: &'a [String]) -> impl Iterator<Item = (usize, &'a String)> {
    given.iter().enumerate().filter(|(_, entry)| !stored.contains(entry))
}

fn check_actor(tx: &WriteTx, tenant: TenantId, lookups: &Lookups, given: &str, pointer: &str) -> Result<Option<Fault>, StoreError> {
    match given.split_once('_').map(|(prefix, _)| prefix) {
        _ if ACTORS_WITHOUT_RECORD.contains(&given) => Ok(None),
        Some("usr") => check_id(given, pointer, |id| (lookups.has_user)(tx, tenant, id)),
        Some("key") => check_id(given, pointer, |id| (lookups.has_api_key)(tx, tenant, id)),
        Some("wfl") => check_id(given, pointer, |id| (lookups.has_workflow)(tx, tenant, id)),
        _ => {
            let message =
                "expected the id of a user (usr_…), an API key (key_…) or a workflow (wfl_…), or `system` or `local_operator`";
            Ok(Some(Fault::new(pointer, "wrong_form", message)))
        }
    }
}

fn check_id<K: Kind>(
    given: &str,
    pointer: &str,
    exists: impl FnOnce(Id<K>) -> Result<bool, StoreError>,
) -> Result<Option<Fault>, StoreError> {
    Ok(match given.parse::<Id<K>>() {
        Err(error) => Some(Fault::new(pointer, "wrong_form", error.to_string())),
        Ok(id) if exists(id)? => None,
        Ok(_) => Some(Fault::new(pointer, "unknown_reference", format!("{} with this id does not exist", K::NOUN))),
    })
}
