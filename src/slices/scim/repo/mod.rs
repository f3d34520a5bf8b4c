//! The tables of provisioning. Keys begin with the tenant.

pub(super) mod portable;

use tenantd_base::id::{GroupId, TenantId, UserId};
use tenantd_store::{Counts, Direction, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::model::{Group, Member, Pending, Profile, RoleRules};

pub(super) type PersonKey = (TenantId, UserId);
pub(super) type GroupKey = (TenantId, GroupId);
pub(super) type MemberKey = (TenantId, GroupId, UserId);

impl Record for Profile {
    const VERSION: u8 = 1;
}

/// What an entry of the index over names stands for.
const EXTERNAL_ID: u8 = 1;
const USER_NAME: u8 = 2;

/// Finds people by the names that clients use: external ids, and user names that are not the address of the account.
static PROFILES_BY_NAME: Index<PersonKey, Profile> = Index {
    table: catalog::PROVISIONED_BY_NAME,
    unique: false,
    keys: |(tenant, _), profile| {
        let external = profile.external_id.iter().map(|id| (*tenant, EXTERNAL_ID, id.clone()).to_bytes());
        let named = profile.user_name.iter().map(|name| (*tenant, USER_NAME, name.to_lowercase()).to_bytes());
        external.chain(named).collect()
    },
};
pub(super) static PROFILES: Table<PersonKey, Profile> =
    Table::new(catalog::PROVISIONED, &[&PROFILES_BY_NAME]).counting(Counts::Records);

impl Record for Group {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.id) = Key::from_bytes(key)?;
        Some(())
    }
}

static GROUPS_BY_NAME: Index<GroupKey, Group> = Index {
    table: catalog::PROVISIONED_GROUPS_BY_NAME,
    unique: true,
    keys: |(tenant, _), group| vec![(*tenant, group.display_name.to_lowercase()).to_bytes()],
};
pub(super) static GROUPS: Table<GroupKey, Group> =
    Table::new(catalog::PROVISIONED_GROUPS, &[&GROUPS_BY_NAME]).counting(Counts::Records);

impl Record for Member {
    const VERSION: u8 = 1;
}

static MEMBERS_BY_USER: Index<MemberKey, Member> = Index {
    table: catalog::PROVISIONED_MEMBERS_BY_USER,
    unique: false,
    keys: |(tenant, _, user), _| vec![(*tenant, *user).to_bytes()],
};
pub(super) static MEMBERS: Table<MemberKey, Member> =
    Table::new(catalog::PROVISIONED_MEMBERS, &[&MEMBERS_BY_USER]).counting(Counts::Bytes);

impl Record for RoleRules {
    const VERSION: u8 = 1;
}

pub(super) static RULES: Table<TenantId, RoleRules> = Table::new(catalog::PROVISIONING_RULES, &[]);

impl Record for Pending {
    const VERSION: u8 = 1;
}

pub(super) static PENDING: Table<PersonKey, Pending> = Table::new(catalog::PROVISIONING_PENDING, &[]);

/// The key of the row that stands for all people of a tenant.
pub(super) fn everybody(tenant: TenantId) -> PersonKey {
    (tenant, UserId::default())
}

/// Notes that all people of a tenant get their roles again.
pub(super) fn queue_everybody(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    PENDING.put(tx, &everybody(tenant), &Pending { after: None })
}

pub(super) fn profile(tx: &impl Read, key: PersonKey) -> Result<Option<Profile>, StoreError> {
    PROFILES.get(tx, &key)
}

fn people_named(tx: &impl Read, tenant: TenantId, what: u8, name: String) -> Result<Vec<UserId>, StoreError> {
    let found = PROFILES_BY_NAME.list(tx, &KeyRange::prefix(&(tenant, what, name).to_bytes()), MOST_NAMED)?;
    Ok(found.into_iter().map(|(_, user)| user).collect())
}

/// More people with the same external id are not found by it.
const MOST_NAMED: usize = 100;

pub(super) fn by_external_id(tx: &impl Read, tenant: TenantId, id: &str) -> Result<Vec<UserId>, StoreError> {
    people_named(tx, tenant, EXTERNAL_ID, id.to_owned())
}

/// The people with this user name, ignoring case, among those whose user name is not their address.
pub(super) fn by_user_name(tx: &impl Read, tenant: TenantId, name: &str) -> Result<Vec<UserId>, StoreError> {
    people_named(tx, tenant, USER_NAME, name.to_lowercase())
}

/// The managed people after one of them, at most `limit`.
pub(super) fn people_after(
    tx: &impl Read,
    tenant: TenantId,
    after: Option<UserId>,
    limit: usize,
) -> Result<Vec<UserId>, StoreError> {
    let range = KeyRange::prefix(&tenant.to_bytes());
    let range = after.map_or(range.clone(), |after| range.after(&(tenant, after).to_bytes(), Direction::Forward));
    Ok(PROFILES.list(tx, &range, limit)?.into_iter().map(|((_, user), _)| user).collect())
}

pub(super) fn group(tx: &impl Read, key: GroupKey) -> Result<Option<Group>, StoreError> {
    GROUPS.get(tx, &key)
}

pub(super) fn group_named(tx: &impl Read, tenant: TenantId, name: &str) -> Result<Option<Group>, StoreError> {
    match GROUPS_BY_NAME.find(tx, &(tenant, name.to_lowercase()).to_bytes())? {
        Some(key) => group(tx, key),
        None => Ok(None),
    }
}

/// The groups of a tenant, oldest first. Their number is limited.
pub(super) fn groups(tx: &impl Read, tenant: TenantId) -> Result<Vec<Group>, StoreError> {
    let found = GROUPS.list(tx, &KeyRange::prefix(&tenant.to_bytes()), usize::MAX)?;
    Ok(found.into_iter().map(|(_, group)| group).collect())
}

pub(super) fn put_group(tx: &mut WriteTx, group: &Group) -> Result<(), StoreError> {
    GROUPS.put(tx, &(group.tenant_id, group.id), group)
}

/// The members of a group. Their number is limited.
pub(super) fn members(tx: &impl Read, (tenant, group): GroupKey) -> Result<Vec<UserId>, StoreError> {
    let mut found = Vec::new();
    MEMBERS.scan(tx, &KeyRange::prefix(&(tenant, group).to_bytes()), Direction::Forward, |(_, _, user), _| {
        found.push(user);
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// The groups of a person. A tenant has a limited number of groups.
pub(super) fn groups_of(tx: &impl Read, (tenant, user): PersonKey) -> Result<Vec<GroupId>, StoreError> {
    let found = MEMBERS_BY_USER.list(tx, &KeyRange::prefix(&(tenant, user).to_bytes()), usize::MAX)?;
    Ok(found.into_iter().map(|(_, group, _)| group).collect())
}

pub(super) fn rules(tx: &impl Read, tenant: TenantId) -> Result<RoleRules, StoreError> {
    Ok(RULES.get(tx, &tenant)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        access::{Role, StaffRole},
        clock::Timestamp,
        id::{OrganizationId, RoleId},
    };
    use tenantd_store::codec::assert_golden;

    use super::*;
    use crate::model::{Email, RoleRule};

    #[test]
    fn stored_records_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let text = |text: &str| Some(text.to_owned());
        let profile = Profile {
            external_id: text("7"),
            user_name: text("ada"),
            formatted: text("Ada Byron"),
            given_name: text("Ada"),
            family_name: text("Byron"),
            display_name: None,
            emails: vec![Email { value: "ada@example.com".to_owned(), kind: text("work"), primary: Some(true) }],
            locale: text("en-GB"),
            timezone: None,
            ruled: true,
            since: at,
        };
        assert_golden("provisioned", &profile);
        let group = Group {
            tenant_id: TenantId::from_bytes([2; 16]),
            id: GroupId::from_bytes([1; 16]),
            display_name: "Service desk".to_owned(),
            external_id: text("g-1"),
            member_count: 3,
            created_at: at,
            updated_at: at,
            version: 2,
        };
        assert_golden("provisioned_group", &group);
        assert_golden("provisioned_member", &Member { since: at });
        let rule = RoleRule {
            group_id: GroupId::from_bytes([1; 16]),
            role: StaffRole::Custom(RoleId::from_bytes([5; 16])),
            organization_ids: Some(vec![OrganizationId::from_bytes([3; 16])]),
        };
        let rules = RoleRules { rules: vec![rule], default_role: Role::Viewer.into(), default_organization_ids: None, version: 4 };
        assert_golden("provisioning_rules", &rules);
        assert_golden("provisioning_pending", &Pending { after: Some(UserId::from_bytes([6; 16])) });
    }
}
