//! Selects the organizations of a list.

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError};

use super::{
    super::{
        model::Organization,
        repo::organizations::{self as repo, ORGANIZATIONS},
    },
    filters::{Folded, fold},
    order::{Listing, RecordId, ScannedRecord, SortField},
};

/// An absent filter or an empty list matches everything.
#[derive(Clone, Debug)]
pub(crate) struct OrganizationQuery {
    pub(crate) tenant_id: TenantId,
    pub(crate) reach: Reach,
    pub(crate) names: Vec<Folded>,
    pub(crate) external_ids: Vec<String>,
    pub(crate) text: Option<Folded>,
    pub(crate) created_after: Option<Timestamp>,
    pub(crate) created_before: Option<Timestamp>,
    pub(crate) updated_after: Option<Timestamp>,
    pub(crate) updated_before: Option<Timestamp>,
}

impl OrganizationQuery {
    fn matches(&self, organization: &Organization) -> bool {
        let external_id = organization.external_id.as_ref();
        let mentions = |text: &Folded| text.is_in(&organization.name) || external_id.is_some_and(|id| text.is_in(id));
        self.reach.covers(Some(organization.id))
            && (self.names.is_empty() || self.names.iter().any(|name| name.is(&organization.name)))
            && (self.external_ids.is_empty() || external_id.is_some_and(|id| self.external_ids.contains(id)))
            && self.created_after.is_none_or(|time| organization.created_at > time)
            && self.created_before.is_none_or(|time| organization.created_at < time)
            && self.updated_after.is_none_or(|time| organization.updated_at > time)
            && self.updated_before.is_none_or(|time| organization.updated_at < time)
            && self.text.as_ref().is_none_or(mentions)
    }
}

impl Listing for OrganizationQuery {
    type Record = Organization;

    fn walk(
        &self,
        tx: &impl Read,
        after: Option<RecordId>,
        direction: Direction,
        mut visit: impl FnMut(ScannedRecord<Organization>) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        let mut range = KeyRange::prefix(&self.tenant_id.to_bytes());
        if let Some(after) = after {
            range = range.after(&(self.tenant_id, after).to_bytes(), direction);
        }
        ORGANIZATIONS.scan(tx, &range, direction, |_, organization| {
            let id = *organization.id.as_bytes();
            visit((id, 1, Some(organization).filter(|organization| self.matches(organization))))
        })
    }

    fn get(&self, tx: &impl Read, id: RecordId) -> Result<Option<Organization>, StoreError> {
        repo::get(tx, self.tenant_id, OrganizationId::from_bytes(id))
    }

    fn value(organization: &Organization, field: SortField) -> Vec<u8> {
        match field {
            SortField::Name => fold(&organization.name).into_bytes(),
            SortField::UpdatedAt => organization.updated_at.to_bytes(),
            SortField::CreatedAt | SortField::LastSeenAt => organization.created_at.to_bytes(),
        }
    }

    fn bytes(organization: &Organization) -> usize {
        200 + organization.name.len()
    }
}
