//! Groups and their members.

use std::collections::BTreeSet;

use serde_json::json;

use tenantd_base::{
    access::{Grants, Scope},
    id::{GroupId, TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::{
    super::{
        error::{Reason, ScimError},
        model::{Group, GroupEdit, MAX_GROUPS, MAX_MEMBERS, Member, MemberChange, Person},
        repo,
    },
    Service, rules, staff,
};

/// The member of an event's data that says who joined and who left.
pub(crate) const MEMBERS: &str = "members";

pub(crate) static GROUP_CREATED: EventKind = EventKind {
    name: "group.created",
    summary: "An identity provider created a group of staff.",
    subject: "group",
    schema: "ProvisionedGroup",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};
pub(crate) static GROUP_UPDATED: EventKind = EventKind {
    name: "group.updated",
    summary: "An identity provider changed a group of staff or its members.",
    has_changes: true,
    ..GROUP_CREATED
};
pub(crate) static GROUP_REMOVED: EventKind =
    EventKind { name: "group.removed", summary: "An identity provider removed a group of staff.", ..GROUP_CREATED };

impl Service {
    pub(crate) fn create_group(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        (display_name, external_id): (&str, Option<&str>),
        members: &[UserId],
    ) -> Result<Group, ScimError> {
        self.users.check_provisioner(tx, act)?;
        check_name(tx, act.tenant_id, display_name)?;
        if repo::groups(tx, act.tenant_id)?.len() >= MAX_GROUPS {
            return Err(ScimError::TooManyGroups { most: MAX_GROUPS });
        }
        let mut group = Group {
            tenant_id: act.tenant_id,
            id: GroupId::new(act.now, &mut act.entropy),
            display_name: display_name.to_owned(),
            external_id: external_id.map(str::to_owned),
            member_count: 0,
            created_at: act.now,
            updated_at: act.now,
            version: 1,
        };
        let mut moved = MemberChange::default();
        add(tx, act, &mut group, members, &mut moved)?;
        repo::put_group(tx, &group)?;
        announce(tx, act, &GROUP_CREATED, &group, &moved, None)?;
        Ok(group)
    }

    pub(crate) fn update_group(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: GroupId,
        expected: &ExpectedVersion,
        edits: &[GroupEdit],
    ) -> Result<Group, ScimError> {
        self.users.check_provisioner(tx, act)?;
        let before = repo::group(tx, (act.tenant_id, id))?.ok_or(ScimError::NotFound)?;
        expected.check(before.version)?;
        let (mut after, mut moved) = (before.clone(), MemberChange::default());
        for edit in edits {
            match edit {
                GroupEdit::DisplayName(name) => {
                    if !name.eq_ignore_ascii_case(&before.display_name) {
                        check_name_of(tx, &after, name)?;
                    }
                    after.display_name.clone_from(name);
                }
                GroupEdit::ExternalId(external_id) => after.external_id.clone_from(external_id),
                GroupEdit::Add(members) => add(tx, act, &mut after, members, &mut moved)?,
                GroupEdit::Remove(members) => remove(tx, &mut after, members, &mut moved)?,
                GroupEdit::Replace(members) => {
                    let wanted: BTreeSet<UserId> = members.iter().copied().collect();
                    let gone: Vec<UserId> =
                        repo::members(tx, (act.tenant_id, id))?.into_iter().filter(|member| !wanted.contains(member)).collect();
                    remove(tx, &mut after, &gone, &mut moved)?;
                    add(tx, act, &mut after, members, &mut moved)?;
                }
            }
        }
        if after == before && moved.is_empty() {
            return Ok(before);
        }
        after.updated_at = act.now;
        after.version += 1;
        repo::put_group(tx, &after)?;
        let fields = |group: &Group| {
            let Group { display_name, external_id, member_count, .. } = group;
            json!({"display_name": display_name, "external_id": external_id, "member_count": member_count})
        };
        announce(tx, act, &GROUP_UPDATED, &after, &moved, Some(&Changes::between(&fields(&before), &fields(&after))))?;
        if repo::rules(tx, act.tenant_id)?.names(id) {
            self.settle_members(tx, act, &moved.people())?;
        }
        Ok(after)
    }

    /// Removes a group together with the rules for it.
    pub(crate) fn remove_group(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: GroupId,
        expected: &ExpectedVersion,
    ) -> Result<(), ScimError> {
        self.users.check_provisioner(tx, act)?;
        let group = repo::group(tx, (act.tenant_id, id))?.ok_or(ScimError::NotFound)?;
        expected.check(group.version)?;
        let removed: BTreeSet<UserId> = repo::members(tx, (act.tenant_id, id))?.into_iter().collect();
        for member in &removed {
            repo::MEMBERS.remove(tx, &(act.tenant_id, id, *member))?;
        }
        repo::GROUPS.remove(tx, &(act.tenant_id, id))?;
        let moved = MemberChange { removed, ..MemberChange::default() };
        announce(tx, act, &GROUP_REMOVED, &group, &moved, None)?;
        if rules::forget_group(tx, act, id)? {
            self.settle_members(tx, act, &moved.removed)?;
        }
        Ok(())
    }
}

fn taken() -> ScimError {
    ScimError::new(Reason::Uniqueness, "Another group already has this displayName. Names are not case-sensitive.")
}

fn check_name(tx: &impl Read, tenant: TenantId, name: &str) -> Result<(), ScimError> {
    if repo::group_named(tx, tenant, name)?.is_some() { Err(taken()) } else { Ok(()) }
}

fn check_name_of(tx: &impl Read, group: &Group, name: &str) -> Result<(), ScimError> {
    let other = repo::group_named(tx, group.tenant_id, name)?.is_some_and(|other| other.id != group.id);
    if other { Err(taken()) } else { Ok(()) }
}

/// Adds people to a group. A person who was not managed is managed from now on.
fn add(tx: &mut WriteTx, act: &mut Act, group: &mut Group, people: &[UserId], moved: &mut MemberChange) -> Result<(), ScimError> {
    for user in people {
        let key = (act.tenant_id, group.id, *user);
        if repo::MEMBERS.get(tx, &key)?.is_some() {
            continue;
        }
        let found = staff(tx, act.tenant_id, *user)?;
        let found = found.ok_or_else(|| ScimError::value(format!("The member {user} does not exist.")))?;
        if group.member_count as usize >= MAX_MEMBERS {
            return Err(ScimError::new(Reason::TooMany, format!("A group can have at most {MAX_MEMBERS} members.")));
        }
        if repo::profile(tx, (act.tenant_id, *user))?.is_none() {
            let address = found.email.clone().unwrap_or_default();
            let profile = Person::of(&found, None).profile(&address, false, act.now);
            repo::PROFILES.put(tx, &(act.tenant_id, *user), &profile)?;
        }
        repo::MEMBERS.put(tx, &key, &Member { since: act.now })?;
        group.member_count += 1;
        moved.add(*user);
    }
    Ok(())
}

fn remove(tx: &mut WriteTx, group: &mut Group, people: &[UserId], moved: &mut MemberChange) -> Result<(), ScimError> {
    for user in people {
        if repo::MEMBERS.remove(tx, &(group.tenant_id, group.id, *user))?.is_some() {
            group.member_count = group.member_count.saturating_sub(1);
            moved.remove(*user);
        }
    }
    Ok(())
}

fn announce(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    group: &Group,
    moved: &MemberChange,
    changes: Option<&Changes>,
) -> Result<(), ScimError> {
    let (shown, members) = (group.describe(())?, moved.describe(())?);
    let draft = Draft::new(kind, group.id.to_string(), group.version, &shown).with_changes(changes).with(MEMBERS, &members);
    events::append(tx, act, &draft)?;
    Ok(())
}
