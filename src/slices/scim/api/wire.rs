//! The bodies of the JSON API: groups, and the roles that they give.

use std::collections::BTreeSet;

use poem_openapi::Object;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::StaffRole,
    clock::Timestamp,
    id::{GroupId, OrganizationId, UserId},
};
use tenantd_http::shape::Shape;
use tenantd_store::events::{Describe, Described};

use super::super::{model, service::NewRules};

/// A group of staff that an identity provider provisions.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ProvisionedGroup {
    /// The id of the group.
    pub(super) id: GroupId,
    /// The name at the identity provider.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) display_name: String,
    /// The id at the identity provider. Absent if it sent none.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) external_id: Option<String>,
    /// How many people are in the group.
    pub(super) member_count: u32,
    /// When the group was created.
    pub(super) created_at: Timestamp,
    /// When the group or its members last changed.
    pub(super) updated_at: Timestamp,
    /// The version of the group. Every change increases it by one.
    pub(super) version: u64,
}

impl From<model::Group> for ProvisionedGroup {
    fn from(group: model::Group) -> Self {
        let model::Group { id, display_name, external_id, member_count, created_at, updated_at, version, .. } = group;
        Self { id, display_name, external_id, member_count, created_at, updated_at, version }
    }
}

impl Describe for model::Group {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&ProvisionedGroup::from(self.clone()))
    }
}

/// The people who joined or left a group with a change.
#[derive(Debug, Object, Serialize)]
pub(crate) struct GroupMemberChange {
    /// The ids of the first 100 people who joined.
    #[oai(validator(max_items = 100))]
    added: Vec<UserId>,
    /// How many people joined.
    added_count: u32,
    /// The ids of the first 100 people who left.
    #[oai(validator(max_items = 100))]
    removed: Vec<UserId>,
    /// How many people left.
    removed_count: u32,
}

impl Describe for model::MemberChange {
    fn describe(&self, (): ()) -> Described {
        let listed = |people: &BTreeSet<UserId>| people.iter().take(model::MAX_LISTED).copied().collect();
        let count = |people: &BTreeSet<UserId>| u32::try_from(people.len()).unwrap_or(u32::MAX);
        to_raw_value(&GroupMemberChange {
            added: listed(&self.added),
            added_count: count(&self.added),
            removed: listed(&self.removed),
            removed_count: count(&self.removed),
        })
    }
}

/// The limits for the fields of a stored group.
pub(crate) fn group_fields() -> Result<Shape, String> {
    Shape::fields::<ProvisionedGroup>(&["display_name", "external_id"])
}

/// The role that a group gives.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct RoleRule {
    /// The id of the group.
    pub(super) group_id: GroupId,
    /// The role that its members get: `admin`, `technician`, `viewer`, or the id of a custom role.
    pub(super) role: StaffRole,
    /// The organizations whose records its members reach. Absent: the whole tenant. Empty: none.
    #[oai(validator(max_items = 100, unique_items))]
    pub(super) organization_ids: Option<Vec<OrganizationId>>,
}

impl From<model::RoleRule> for RoleRule {
    fn from(rule: model::RoleRule) -> Self {
        let model::RoleRule { group_id, role, organization_ids } = rule;
        Self { group_id, role, organization_ids }
    }
}

/// The roles that groups of an identity provider give.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct RoleRules {
    /// The rules in their order. The first one whose group a person is in decides.
    pub(super) rules: Vec<RoleRule>,
    /// The role of provisioned people whom no rule is about.
    pub(super) default_role: StaffRole,
    /// The organizations whose records they reach. Absent: the whole tenant. Empty: none.
    pub(super) default_organization_ids: Option<Vec<OrganizationId>>,
    /// The version of the rules. It is 0 until somebody changes them, and every change increases it by one.
    pub(super) version: u64,
}

impl From<model::RoleRules> for RoleRules {
    fn from(rules: model::RoleRules) -> Self {
        let model::RoleRules { rules, default_role, default_organization_ids, version } = rules;
        Self { rules: rules.into_iter().map(RoleRule::from).collect(), default_role, default_organization_ids, version }
    }
}

impl Describe for model::RoleRules {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&RoleRules::from(self.clone()))
    }
}

/// The rules to set. They replace all rules.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ReplaceRoleRules {
    /// The rules in their order. The first one whose group a person is in decides.
    #[oai(validator(max_items = 100))]
    pub(super) rules: Vec<RoleRule>,
    /// The role of provisioned people whom no rule is about.
    pub(super) default_role: StaffRole,
    /// The organizations whose records they reach. Absent: the whole tenant. Empty: none.
    #[oai(validator(max_items = 100, unique_items))]
    pub(super) default_organization_ids: Option<Vec<OrganizationId>>,
}

impl From<ReplaceRoleRules> for NewRules {
    fn from(body: ReplaceRoleRules) -> Self {
        let ReplaceRoleRules { rules, default_role, default_organization_ids } = body;
        let rule = |RoleRule { group_id, role, organization_ids }| model::RoleRule { group_id, role, organization_ids };
        Self { rules: rules.into_iter().map(rule).collect(), default_role, default_organization_ids }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_event_lists_a_hundred_people_and_counts_all() {
        let people: BTreeSet<UserId> = (0..=100).map(|number| UserId::from_bytes([number; 16])).collect();
        let moved = model::MemberChange { added: people, ..model::MemberChange::default() };
        let shown: Value = serde_json::from_str(moved.describe(()).unwrap().get()).unwrap();
        let lengths = ["added", "removed"].map(|list| shown[list].as_array().unwrap().len());
        assert_eq!((lengths, &shown["added_count"], &shown["removed_count"]), ([100, 0], &101.into(), &0.into()));
    }
}
