//! Creates and changes organizations, and removes those without members.

use serde_json::json;

use tenantd_base::{
    access::{Grants, Reach, Scope},
    id::{OrganizationId, TenantId},
    versions::ExpectedVersion,
};
use tenantd_store::{
    Read, WriteTx,
    events::{Act, Changes, Describe, EventKind},
};

use super::{
    super::{
        error::DirectoryError,
        model::{NewOrganization, Organization, OrganizationChange},
        repo::organizations as repo,
    },
    Directory, announce,
};

pub(crate) static ORGANIZATION_CREATED: EventKind = EventKind {
    name: "organization.created",
    summary: "An organization was created.",
    subject: "organization",
    schema: "Organization",
    reads: Grants::of(&[Scope::InventoryRead]),
    has_changes: false,
};
pub(crate) static ORGANIZATION_UPDATED: EventKind =
    EventKind { name: "organization.updated", summary: "An organization was changed.", has_changes: true, ..ORGANIZATION_CREATED };
pub(crate) static ORGANIZATION_REMOVED: EventKind =
    EventKind { name: "organization.removed", summary: "An organization was removed.", ..ORGANIZATION_CREATED };

impl Directory {
    pub fn create_organization(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        new: &NewOrganization,
    ) -> Result<Organization, DirectoryError> {
        check_external_id(tx, act, new.external_id.as_deref(), None)?;
        let organization = Organization {
            id: OrganizationId::new(act.now, &mut act.entropy),
            tenant_id: act.tenant_id,
            external_id: new.external_id.clone(),
            name: new.name.clone(),
            created_at: act.now,
            updated_at: act.now,
            version: 1,
        };
        repo::put(tx, &organization)?;
        announce_organization(tx, act, &ORGANIZATION_CREATED, &organization, None)?;
        Ok(organization)
    }

    /// Stores the changes in `after`. Returns `None` if nothing differs.
    pub(crate) fn change_organization(
        tx: &mut WriteTx,
        act: &mut Act,
        before: &Organization,
        mut after: Organization,
    ) -> Result<Option<Organization>, DirectoryError> {
        if after == *before {
            return Ok(None);
        }
        if after.external_id != before.external_id {
            check_external_id(tx, act, after.external_id.as_deref(), Some(after.id))?;
        }
        after.updated_at = act.now;
        after.version += 1;
        repo::put(tx, &after)?;
        let fields = |one: &Organization| json!({"name": one.name, "external_id": one.external_id});
        let changes = Changes::between(&fields(before), &fields(&after));
        announce_organization(tx, act, &ORGANIZATION_UPDATED, &after, Some(changes))?;
        Ok(Some(after))
    }

    pub(crate) fn update_organization(
        tx: &mut WriteTx,
        act: &mut Act,
        id: OrganizationId,
        expected: &ExpectedVersion,
        change: &OrganizationChange,
    ) -> Result<Organization, DirectoryError> {
        let before = find_organization(tx, act.tenant_id, &act.reach, id)?;
        expected.check(before.version)?;
        let mut after = before.clone();
        after.name = change.name.clone().unwrap_or(after.name);
        after.external_id = change.external_id.clone().apply(after.external_id);
        Ok(Self::change_organization(tx, act, &before, after)?.unwrap_or(before))
    }

    pub fn remove_organization(&self, tx: &mut WriteTx, act: &mut Act, id: OrganizationId) -> Result<(), DirectoryError> {
        let organization = repo::get(tx, act.tenant_id, id)?.ok_or(DirectoryError::NotFound)?;
        let members = repo::members(tx, (act.tenant_id, id))?;
        if members.devices > 0 || members.contacts > 0 {
            let found = vec![("devices", members.devices), ("contacts", members.contacts)];
            return Err(DirectoryError::InUse { found, unseen: false });
        }
        repo::remove(tx, (act.tenant_id, id))?;
        announce_organization(tx, act, &ORGANIZATION_REMOVED, &organization, None)
    }
}

/// The organization, if it is within reach.
pub(crate) fn find_organization(
    tx: &impl Read,
    tenant: TenantId,
    reach: &Reach,
    id: OrganizationId,
) -> Result<Organization, DirectoryError> {
    repo::get(tx, tenant, id)?.filter(|_| reach.covers(Some(id))).ok_or(DirectoryError::NotFound)
}

/// Checks that no other organization has this external ID.
fn check_external_id(
    tx: &impl Read,
    act: &Act,
    external_id: Option<&str>,
    own: Option<OrganizationId>,
) -> Result<(), DirectoryError> {
    let Some(external_id) = external_id else { return Ok(()) };
    match repo::find_external(tx, act.tenant_id, external_id)? {
        Some(id) if Some(id) != own => Err(DirectoryError::ExternalIdTaken),
        _ => Ok(()),
    }
}

fn announce_organization(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    organization: &Organization,
    changes: Option<Changes>,
) -> Result<(), DirectoryError> {
    let shown = organization.describe(())?;
    announce(tx, act, kind, (organization.id.to_string(), organization.version), &shown, changes)
}
