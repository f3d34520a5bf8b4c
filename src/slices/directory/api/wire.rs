//! Organizations and people as clients see them, and how other records refer to them.

use poem_openapi::Object;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::Role,
    clock::Timestamp,
    id::{IdentityProviderId, OrganizationId, UserId},
};
use tenantd_http::wire::Word;
use tenantd_store::events::{Describe, Described};

use super::super::model::{self, PersonKind, PersonLabel, Standing, UserStatus};

/// An organization that a record refers to.
#[derive(Clone, Debug, Object, Serialize)]
pub struct OrganizationReference {
    pub id: OrganizationId,
    pub name: String,
}

impl From<model::OrganizationLabel> for OrganizationReference {
    fn from(label: model::OrganizationLabel) -> Self {
        Self { id: label.id, name: label.name }
    }
}

/// Someone that a record refers to.
#[derive(Clone, Debug, Object, Serialize)]
pub struct PersonReference {
    pub id: UserId,
    pub name: String,
}

impl From<PersonLabel> for PersonReference {
    fn from(label: PersonLabel) -> Self {
        Self { id: label.id, name: label.name }
    }
}

/// Who a member of staff is at an identity provider.
#[derive(Clone, Debug, Object, Serialize)]
pub struct UserSso {
    /// The identity provider that they have signed in through.
    pub identity_provider_id: IdentityProviderId,
    /// The provider's own address.
    pub issuer: String,
    /// What the provider knows them by.
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

/// Someone who works for the tenant, or a contact at one of its organizations.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(rename = "User", skip_serializing_if_is_none, example)]
pub struct UserView {
    pub id: UserId,
    /// The id in the system that the user comes from.
    pub external_id: Option<String>,
    #[oai(validator(max_length = 254))]
    pub email: Option<String>,
    pub name: String,
    pub kind: PersonKind,
    /// Of staff.
    pub role: Option<Role>,
    /// Of a contact.
    pub organization: Option<OrganizationReference>,
    pub status: Word<UserStatus>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When the user last signed in.
    pub last_login_at: Option<Timestamp>,
    /// Of staff who have signed in through an identity provider.
    pub sso: Option<UserSso>,
    /// Counts the changes of this record.
    pub version: u64,
}

impl UserView {
    pub fn new(user: model::User, organization: Option<model::OrganizationLabel>) -> Self {
        Self {
            id: user.id,
            kind: match user.standing {
                Standing::Staff { .. } => PersonKind::Staff,
                Standing::Contact { .. } => PersonKind::Contact,
            },
            role: user.role(),
            organization: organization.map(OrganizationReference::from),
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

impl Describe<Option<&model::OrganizationLabel>> for model::User {
    fn describe(&self, organization: Option<&model::OrganizationLabel>) -> Described {
        to_raw_value(&UserView::new(self.clone(), organization.cloned()))
    }
}

/// A customer of the tenant.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct Organization {
    /// The organization.
    pub(super) id: OrganizationId,
    /// The id in the system that the organization comes from.
    pub(super) external_id: Option<String>,
    /// The name.
    pub(super) name: String,
    /// When the record was created.
    pub(super) created_at: Timestamp,
    /// When the record last changed.
    pub(super) updated_at: Timestamp,
    /// Counts the changes of this record.
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

/// Someone at an organization of the tenant, who does not sign in.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct Contact {
    /// The contact.
    pub(super) id: UserId,
    /// The id in the system that the contact comes from.
    pub(super) external_id: Option<String>,
    /// The name.
    pub(super) name: String,
    /// The e-mail address.
    pub(super) email: Option<String>,
    /// The organization that the contact belongs to.
    pub(super) organization: Option<OrganizationReference>,
    /// Whether the contact is still active.
    pub(super) status: Word<UserStatus>,
    /// When the record was created.
    pub(super) created_at: Timestamp,
    /// When the record last changed.
    pub(super) updated_at: Timestamp,
    /// Counts the changes of this record.
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
