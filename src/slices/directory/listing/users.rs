//! Lists of people: in creation order, with filters and a position to continue from. Staff have their own index, because a tenant
//! may have a hundred thousand contacts.

use tenantd_base::{
    access::StaffRole,
    id::{OrganizationId, TenantId},
};
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError};

use super::super::{
    model::{Standing, User, UserStatus},
    repo::users::{self, STAFF, USERS},
};

/// Selects users. An absent filter matches everything.
#[derive(Clone, Debug)]
pub struct UserQuery {
    pub tenant_id: TenantId,
    pub staff: Option<bool>,
    pub role: Option<StaffRole>,
    pub status: Option<UserStatus>,
    pub organization_id: Option<OrganizationId>,
    /// Matches a part of the name or the email address. In lower case.
    pub text: Option<String>,
    pub direction: Direction,
}

impl UserQuery {
    fn matches(&self, user: &User) -> bool {
        let is_staff = matches!(user.standing, Standing::Staff { .. });
        let contains =
            |text: &str| user.name.to_lowercase().contains(text) || user.email.as_deref().is_some_and(|email| email.contains(text));
        self.staff.is_none_or(|staff| staff == is_staff)
            && self.role.is_none_or(|role| user.role() == Some(role))
            && self.status.is_none_or(|status| user.status == status)
            && self.organization_id.is_none_or(|id| user.organization_id() == Some(id))
            && self.text.as_deref().is_none_or(contains)
    }

    /// Visits the users after a position, which is an ID.
    fn walk(
        &self,
        tx: &impl Read,
        after: Option<&[u8]>,
        mut visit: impl FnMut(User) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        let prefix = self.tenant_id.to_bytes();
        let only_staff = self.staff == Some(true) || self.role.is_some();
        // Index entries contain the tenant twice: as the index key, and in the key of the user.
        let start = if only_staff { [&prefix[..], &prefix[..]].concat() } else { prefix.clone() };
        let mut range = KeyRange::prefix(&prefix);
        if let Some(after) = after {
            range = range.after(&[&start[..], after].concat(), self.direction);
        }
        if only_staff {
            STAFF.scan(tx, &range, self.direction, |(tenant, id), _| match users::get(tx, tenant, id)? {
                Some(user) => visit(user),
                None => Ok(Flow::Continue),
            })
        } else {
            USERS.scan(tx, &range, self.direction, |_, user| visit(user))
        }
    }
}

/// A page of users.
#[derive(Debug)]
pub struct UserPage {
    pub users: Vec<User>,
    /// The position of the last user, if there are more.
    pub last: Option<Vec<u8>>,
    pub total: Option<u64>,
}

pub fn list_users(
    tx: &impl Read,
    query: &UserQuery,
    after: Option<&[u8]>,
    limit: usize,
    count: bool,
) -> Result<UserPage, StoreError> {
    let mut page = UserPage { users: Vec::with_capacity(limit.min(200)), last: None, total: None };
    query.walk(tx, after, |user| {
        if !query.matches(&user) {
            return Ok(Flow::Continue);
        }
        if page.users.len() == limit {
            page.last = page.users.last().map(|last| last.id.to_bytes());
            return Ok(Flow::Stop);
        }
        page.users.push(user);
        Ok(Flow::Continue)
    })?;
    if count {
        let mut total = 0;
        query.walk(tx, None, |user| {
            total += u64::from(query.matches(&user));
            Ok(Flow::Continue)
        })?;
        page.total = Some(total);
    }
    Ok(page)
}
