//! Organizations and people on the wire, and the references of other records to them.

use poem_openapi::Object;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::StaffRole,
    clock::Timestamp,
    id::{IdentityProviderId, OrganizationId, RoleId, UserId},
};
use tenantd_http::wire::Word;
use tenantd_store::events::{Describe, Described};

use super::super::model::{self, PersonKind, PersonLabel, Standing, UserStatus};

/// An organization that a record refers to.
#[derive(Clone, Debug, Object, Serialize)]
pub struct OrganizationReference {
    /// The ID of the organization.
    pub id: OrganizationId,
    /// The name of the organization.
    pub name: String,
}

impl From<model::OrganizationLabel> for OrganizationReference {
    fn from(label: model::OrganizationLabel) -> Self {
        Self { id: label.id, name: label.name }
    }
}

/// A person that a record refers to.
#[derive(Clone, Debug, Object, Serialize)]
pub struct PersonReference {
    /// The ID of the person.
    pub id: UserId,
    /// The full name of the person.
    pub name: String,
}

impl From<PersonLabel> for PersonReference {
    fn from(label: PersonLabel) -> Self {
        Self { id: label.id, name: label.name }
    }
}

/// The account of a staff member at an identity provider.
#[derive(Clone, Debug, Object, Serialize)]
pub struct UserSso {
    /// The ID of the identity provider through which they signed in.
    pub identity_provider_id: IdentityProviderId,
    /// The issuer URL of the provider.
    pub issuer: String,
    /// The provider's identifier for the user.
    pub subject: String,
    /// When the account was linked.
    pub linked_at: Timestamp,
}

impl From<model::LinkedIdentity> for UserSso {
    fn from(identity: model::LinkedIdentity) -> Self {
        let model::LinkedIdentity { identity_provider_id, issuer, subject, linked_at } = identity;
        Self { identity_provider_id, issuer, subject, linked_at }
    }
}

/// A custom role.
#[derive(Clone, Debug, Object, Serialize)]
pub struct RoleReference {
    /// The ID of the role.
    pub id: RoleId,
    /// The name of the role.
    pub name: String,
}

/// A role that the tenant created.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(rename = "CustomRole", skip_serializing_if_is_none, example)]
pub struct RoleView {
    /// The ID of the role. Users have it as their `role`.
    pub id: RoleId,
    /// The name of the role, unique in the tenant.
    pub name: String,
    /// What the role is for.
    pub description: Option<String>,
    /// The scopes of the role, and wildcards such as `tickets:*`.
    pub scopes: Vec<String>,
    /// All scopes that the role grants, with wildcards expanded. Wildcards stand for the scopes that existed when they were saved.
    pub granted_scopes: Vec<String>,
    /// When the record was created.
    pub created_at: Timestamp,
    /// When the record was last changed.
    pub updated_at: Timestamp,
    /// The version of the record. It increases with each change.
    pub version: u64,
}

impl From<model::CustomRole> for RoleView {
    fn from(role: model::CustomRole) -> Self {
        Self {
            granted_scopes: role.grants().iter().map(|scope| scope.name().to_owned()).collect(),
            id: role.id,
            name: role.name,
            description: role.description,
            scopes: role.scopes,
            created_at: role.created_at,
            updated_at: role.updated_at,
            version: role.version,
        }
    }
}

impl Describe<()> for model::CustomRole {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&RoleView::from(self.clone()))
    }
}

/// A staff member of the tenant, or a contact at one of its organizations.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(rename = "User", skip_serializing_if_is_none, example)]
pub struct UserView {
    /// The ID of the user.
    pub id: UserId,
    /// The ID of the user in its source system. Absent if it has none.
    pub external_id: Option<String>,
    /// The email address. Absent if it is unknown.
    #[oai(validator(max_length = 254))]
    pub email: Option<String>,
    /// The full name of the user.
    pub name: String,
    /// Whether the user is staff or a contact.
    pub kind: PersonKind,
    /// The role: `admin`, `technician`, `viewer`, `operator`, or the ID of a custom role. Only for staff.
    pub role: Option<StaffRole>,
    /// The custom role. Absent for staff with a built-in role, and for contacts.
    pub custom_role: Option<RoleReference>,
    /// The organizations that a member of staff is limited to. Absent: the whole tenant. Empty: none of them exists any more.
    pub organizations: Option<Vec<OrganizationReference>>,
    /// The organization. Only for contacts.
    pub organization: Option<OrganizationReference>,
    /// The status: `active` or `disabled`.
    pub status: Word<UserStatus>,
    /// When the record was created.
    pub created_at: Timestamp,
    /// When the record was last changed.
    pub updated_at: Timestamp,
    /// When the user last signed in. Absent if they never did.
    pub last_login_at: Option<Timestamp>,
    /// The linked account at an identity provider. Only for staff who signed in through one.
    pub sso: Option<UserSso>,
    /// The version of the record. It increases with each change.
    pub version: u64,
}

impl UserView {
    pub fn new(user: model::User, labels: model::UserLabels) -> Self {
        Self {
            id: user.id,
            kind: match user.standing {
                Standing::Staff { .. } => PersonKind::Staff,
                Standing::Contact { .. } => PersonKind::Contact,
            },
            role: user.role(),
            custom_role: labels.role.map(|role| RoleReference { id: role.id, name: role.name }),
            organizations: labels.organizations.map(|found| found.into_iter().map(OrganizationReference::from).collect()),
            organization: labels.organization.map(OrganizationReference::from),
            external_id: user.external_id,
            email: user.email,
            name: user.name,
            status: user.status.into(),
            created_at: user.created_at,
            updated_at: user.updated_at,
            last_login_at: user.last_login_at,
            sso: user.sso.map(UserSso::from),
            version: user.version,
        }
    }
}

impl Describe<&model::UserLabels> for model::User {
    fn describe(&self, labels: &model::UserLabels) -> Described {
        to_raw_value(&UserView::new(self.clone(), labels.clone()))
    }
}

/// A customer of the tenant.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct Organization {
    /// The ID of the organization.
    pub(super) id: OrganizationId,
    /// The ID of the organization in its source system. Absent if it has none.
    pub(super) external_id: Option<String>,
    /// The name of the organization.
    pub(super) name: String,
    /// When the record was created.
    pub(super) created_at: Timestamp,
    /// When the record was last changed.
    pub(super) updated_at: Timestamp,
    /// The version of the record. It increases with each change.
    pub(super) version: u64,
}

impl From<model::Organization> for Organization {
    fn from(organization: model::Organization) -> Self {
        let model::Organization { id, tenant_id: _, external_id, name, created_at, updated_at, version } = organization;
        Self { id, external_id, name, created_at, updated_at, version }
    }
}

impl Describe for model::Organization {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&Organization::from(self.clone()))
    }
}

/// A person at an organization of the tenant, who does not sign in.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct Contact {
    /// The ID of the contact.
    pub(super) id: UserId,
    /// The ID of the contact in its source system. Absent if it has none.
    pub(super) external_id: Option<String>,
    /// The full name of the contact.
    pub(super) name: String,
    /// The email address. Absent if it is unknown.
    pub(super) email: Option<String>,
    /// The organization to which the contact belongs. Absent if there is none.
    pub(super) organization: Option<OrganizationReference>,
    /// The status: `active` or `disabled`.
    pub(super) status: Word<UserStatus>,
    /// When the record was created.
    pub(super) created_at: Timestamp,
    /// When the record was last changed.
    pub(super) updated_at: Timestamp,
    /// The version of the record. It increases with each change.
    pub(super) version: u64,
}

impl Contact {
    pub(super) fn new(user: model::User, organization: Option<model::OrganizationLabel>) -> Self {
        Self {
            id: user.id,
            external_id: user.external_id,
            name: user.name,
            email: user.email,
            organization: organization.map(OrganizationReference::from),
            status: user.status.into(),
            created_at: user.created_at,
            updated_at: user.updated_at,
            version: user.version,
        }
    }
}
