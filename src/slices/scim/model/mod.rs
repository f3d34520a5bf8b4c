//! What provisioning knows about people and groups, and the rules that turn groups into roles.

pub(super) mod attribute;
pub(super) mod filter;
pub(super) mod patch;
pub(super) mod person;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use tenantd_base::{
    access::{Role, StaffRole},
    clock::Timestamp,
    id::{GroupId, OrganizationId, RoleId, TenantId, UserId},
};

pub(super) use person::{Email, Person};

pub(super) const MAX_GROUPS: usize = 1000;
pub(super) const MAX_MEMBERS: usize = 10_000;
/// How many people an event about the members of a group lists.
pub(super) const MAX_LISTED: usize = 100;
pub(super) const MAX_RULES: usize = 100;
pub(super) const MAX_LIMITS: usize = 100;
/// The maximum length of a text that a client sends, in characters.
pub(super) const MAX_TEXT: usize = 200;
pub(super) const MAX_EMAILS: usize = 10;

/// What a client has said about a person beyond their account. A staff account with a profile is managed by provisioning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Profile {
    pub(super) external_id: Option<String>,
    /// The name that the client knows the person by. `None`: the address of the account.
    pub(super) user_name: Option<String>,
    pub(super) formatted: Option<String>,
    pub(super) given_name: Option<String>,
    pub(super) family_name: Option<String>,
    pub(super) display_name: Option<String>,
    pub(super) emails: Vec<Email>,
    pub(super) locale: Option<String>,
    pub(super) timezone: Option<String>,
    /// Whether the role comes from the rules. An account that provisioning took over keeps its role until a rule first gives one.
    pub(super) ruled: bool,
    pub(super) since: Timestamp,
}

/// A group of people at the identity provider. It has no rights by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Group {
    #[serde(skip)]
    pub(super) tenant_id: TenantId,
    #[serde(skip)]
    pub(super) id: GroupId,
    pub(super) display_name: String,
    pub(super) external_id: Option<String>,
    pub(super) member_count: u32,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) version: u64,
}

/// The membership of a person in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) since: Timestamp,
}

/// Who joined and who left a group with a change. A person who joined and left again is in neither list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberChange {
    pub(super) added: BTreeSet<UserId>,
    pub(super) removed: BTreeSet<UserId>,
}

impl MemberChange {
    pub(super) fn add(&mut self, user: UserId) {
        if !self.removed.remove(&user) {
            self.added.insert(user);
        }
    }

    pub(super) fn remove(&mut self, user: UserId) {
        if !self.added.remove(&user) {
            self.removed.insert(user);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// All people whose membership changed.
    pub(super) fn people(&self) -> BTreeSet<UserId> {
        self.added.union(&self.removed).copied().collect()
    }
}

/// Roles that are still to be given again: to one person, or to all of a tenant, of whom `after` was the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) after: Option<UserId>,
}

/// Sets a member of an object.
pub(super) fn set(object: &mut Value, name: &str, member: impl Into<Value>) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), member.into());
    }
}

/// The role that a group gives, and the organizations that its members reach; `None` for the whole tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RoleRule {
    pub(super) group_id: GroupId,
    pub(super) role: StaffRole,
    pub(super) organization_ids: Option<Vec<OrganizationId>>,
}

/// The first rule whose group a person is in decides. Everybody else has the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RoleRules {
    pub(super) rules: Vec<RoleRule>,
    pub(super) default_role: StaffRole,
    pub(super) default_organization_ids: Option<Vec<OrganizationId>>,
    pub(super) version: u64,
}

impl Default for RoleRules {
    /// Until somebody decides, a provisioned person sees no record.
    fn default() -> Self {
        Self { rules: Vec::new(), default_role: Role::Viewer.into(), default_organization_ids: Some(Vec::new()), version: 0 }
    }
}

impl RoleRules {
    pub(super) fn names(&self, group: GroupId) -> bool {
        self.rules.iter().any(|rule| rule.group_id == group)
    }

    /// How many rules give a custom role. The default counts as one.
    pub(super) fn count_giving(&self, role: RoleId) -> u64 {
        self.roles().filter(|(_, given)| given.custom() == Some(role)).count() as u64
    }

    /// All roles of the rules, with their places in the body of a request.
    pub(super) fn roles(&self) -> impl Iterator<Item = (String, StaffRole)> {
        let listed = self.rules.iter().enumerate().map(|(place, rule)| (format!("/rules/{place}/role"), rule.role));
        listed.chain([("/default_role".to_owned(), self.default_role)])
    }

    /// All organizations of the rules, with their places in the body of a request.
    pub(super) fn organizations(&self) -> impl Iterator<Item = (String, OrganizationId)> {
        let numbered = |place: String, ids: &Option<Vec<OrganizationId>>| {
            let ids: Vec<OrganizationId> = ids.iter().flatten().copied().collect();
            ids.into_iter().enumerate().map(move |(at, id)| (format!("{place}/{at}"), id))
        };
        let listed = self
            .rules
            .iter()
            .enumerate()
            .flat_map(move |(place, rule)| numbered(format!("/rules/{place}/organization_ids"), &rule.organization_ids));
        listed.chain(numbered("/default_organization_ids".to_owned(), &self.default_organization_ids))
    }
}

/// A change of a group. Members are changed in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupEdit {
    DisplayName(String),
    ExternalId(Option<String>),
    Add(Vec<UserId>),
    Remove(Vec<UserId>),
    Replace(Vec<UserId>),
}
