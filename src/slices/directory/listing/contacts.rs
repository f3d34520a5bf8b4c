//! Selects the contacts of a list. Skips staff, which the API of users lists.

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{OrganizationId, TenantId, UserId},
};
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError};

use super::{
    super::{
        model::{User, UserStatus},
        repo::users::{self as repo, USERS},
    },
    filters::{Folded, fold},
    order::{Listing, RecordId, ScannedRecord, SortField},
};

/// An absent filter or an empty list matches everything.
#[derive(Clone, Debug)]
pub(crate) struct ContactQuery {
    pub(crate) tenant_id: TenantId,
    pub(crate) reach: Reach,
    pub(crate) organizations: Vec<OrganizationId>,
    pub(crate) names: Vec<Folded>,
    /// Normalized.
    pub(crate) emails: Vec<String>,
    pub(crate) external_ids: Vec<String>,
    pub(crate) statuses: Vec<UserStatus>,
    pub(crate) text: Option<Folded>,
    pub(crate) created_after: Option<Timestamp>,
    pub(crate) created_before: Option<Timestamp>,
    pub(crate) updated_after: Option<Timestamp>,
    pub(crate) updated_before: Option<Timestamp>,
}

fn one_of<T: PartialEq>(wanted: &[T], value: Option<&T>) -> bool {
    wanted.is_empty() || value.is_some_and(|value| wanted.contains(value))
}

impl ContactQuery {
    fn matches(&self, user: &User) -> bool {
        let mentions = |text: &Folded| {
            text.is_in(&user.name) || user.email.iter().chain(&user.external_id).any(|identifier| text.is_in(identifier))
        };
        user.role().is_none()
            && self.reach.covers(user.organization_id())
            && one_of(&self.organizations, user.organization_id().as_ref())
            && (self.names.is_empty() || self.names.iter().any(|name| name.is(&user.name)))
            && one_of(&self.emails, user.email.as_ref())
            && one_of(&self.external_ids, user.external_id.as_ref())
            && one_of(&self.statuses, Some(&user.status))
            && self.created_after.is_none_or(|time| user.created_at > time)
            && self.created_before.is_none_or(|time| user.created_at < time)
            && self.updated_after.is_none_or(|time| user.updated_at > time)
            && self.updated_before.is_none_or(|time| user.updated_at < time)
            && self.text.as_ref().is_none_or(mentions)
    }
}

impl Listing for ContactQuery {
    type Record = User;

    fn walk(
        &self,
        tx: &impl Read,
        after: Option<RecordId>,
        direction: Direction,
        mut visit: impl FnMut(ScannedRecord<User>) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        let mut range = KeyRange::prefix(&self.tenant_id.to_bytes());
        if let Some(after) = after {
            range = range.after(&(self.tenant_id, after).to_bytes(), direction);
        }
        USERS.scan(tx, &range, direction, |_, user| {
            let id = *user.id.as_bytes();
            visit((id, 1, Some(user).filter(|user| self.matches(user))))
        })
    }

    fn get(&self, tx: &impl Read, id: RecordId) -> Result<Option<User>, StoreError> {
        repo::get(tx, self.tenant_id, UserId::from_bytes(id))
    }

    fn value(user: &User, field: SortField) -> Vec<u8> {
        match field {
            SortField::Name => fold(&user.name).into_bytes(),
            SortField::UpdatedAt => user.updated_at.to_bytes(),
            SortField::CreatedAt | SortField::LastSeenAt => user.created_at.to_bytes(),
        }
    }

    fn bytes(user: &User) -> usize {
        300 + user.name.len()
    }
}
