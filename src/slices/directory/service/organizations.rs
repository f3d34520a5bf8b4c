//! Organizations are created, renamed, and removed once nothing belongs to them.

use serde_json::json;

use tenantd_base::{
    access::{Grants, Scope},
    id::OrganizationId,
};
use tenantd_store::{
    WriteTx,
    events::{Act, Changes, Describe, EventKind},
};

use super::{
    super::{
        error::DirectoryError,
        model::{NewOrganization, Organization},
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
        if let Some(external_id) = &new.external_id
            && repo::find_external(tx, act.tenant_id, external_id)?.is_some()
        {
            return Err(DirectoryError::ExternalIdTaken);
        }
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

    /// Takes up what differs in `after`. `None` when nothing does.
    pub(crate) fn change_organization(
        tx: &mut WriteTx,
        act: &mut Act,
        before: &Organization,
        mut after: Organization,
    ) -> Result<Option<Organization>, DirectoryError> {
        if after == *before {
            return Ok(None);
        }
        after.updated_at = act.now;
        after.version += 1;
        repo::put(tx, &after)?;
        let changes = Changes::between(&json!({"name": before.name}), &json!({"name": after.name}));
        announce_organization(tx, act, &ORGANIZATION_UPDATED, &after, Some(changes))?;
        Ok(Some(after))
    }

    pub fn remove_organization(&self, tx: &mut WriteTx, act: &mut Act, id: OrganizationId) -> Result<(), DirectoryError> {
        let organization = repo::get(tx, act.tenant_id, id)?.ok_or(DirectoryError::NotFound)?;
        let members = repo::members(tx, (act.tenant_id, id))?;
        if members.devices > 0 || members.contacts > 0 {
            return Err(DirectoryError::OrganizationInUse { devices: members.devices, contacts: members.contacts });
        }
        repo::remove(tx, (act.tenant_id, id))?;
        announce_organization(tx, act, &ORGANIZATION_REMOVED, &organization, None)
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
