//! People: the staff of a tenant, who sign in, and the contacts at its customers, who sign in only to the portal.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::{Reach, StaffRole},
    clock::Timestamp,
    id::{IdentityProviderId, OrganizationId, TenantId, UserId},
    vocabulary::vocabulary,
};

use super::{super::error::DirectoryError, organization::OrganizationLabel, role::RoleLabel};

vocabulary! {
    UserStatus as variants:
    Active "active", Disabled "disabled",
}

/// Whether a person is staff or a contact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// Works for the tenant and signs in.
    Staff {
        role: StaffRole,
        /// The organizations whose records the person reaches, in order; `None` for the whole tenant. An empty list reaches nothing.
        #[serde(default)]
        organization_ids: Option<Vec<OrganizationId>>,
    },
    /// A person at a customer.
    Contact { organization_id: Option<OrganizationId> },
}

/// The account of a staff member at an identity provider. The subject identifies the account. A provider never
/// reassigns it, unlike an email address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedIdentity {
    pub identity_provider_id: IdentityProviderId,
    pub issuer: String,
    pub subject: String,
    pub linked_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    #[serde(skip)]
    pub tenant_id: TenantId,
    #[serde(skip)]
    pub id: UserId,
    pub name: String,
    /// In the form of [`normalize_email`]. Unique in the tenant. Staff sign in with it, possibly at several tenants.
    pub email: Option<String>,
    /// The ID in the source system. Unique among the tenant's users.
    pub external_id: Option<String>,
    pub standing: Standing,
    pub status: UserStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub last_login_at: Option<Timestamp>,
    /// Only for staff who signed in through an identity provider.
    pub sso: Option<LinkedIdentity>,
    pub version: u64,
}

impl User {
    /// The role; `None` for contacts.
    pub fn role(&self) -> Option<StaffRole> {
        match self.standing {
            Standing::Staff { role, .. } => Some(role),
            Standing::Contact { .. } => None,
        }
    }

    /// The records that a member of staff reaches.
    pub fn reach(&self) -> Reach {
        match &self.standing {
            Standing::Staff { organization_ids: Some(ids), .. } => Reach::Organizations(ids.as_slice().into()),
            Standing::Staff { .. } | Standing::Contact { .. } => Reach::Everything,
        }
    }

    pub fn organization_id(&self) -> Option<OrganizationId> {
        match self.standing {
            Standing::Staff { .. } => None,
            Standing::Contact { organization_id } => organization_id,
        }
    }

    /// Whether the user is an active administrator of the whole tenant (or operator, in the platform tenant). A tenant always has
    /// at least one.
    pub fn is_active_admin(&self) -> bool {
        let administers = self.role().is_some_and(StaffRole::administers) && self.reach() == Reach::Everything;
        administers && self.status == UserStatus::Active
    }
}

/// A user to create.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub external_id: Option<String>,
    pub email: Option<String>,
    pub name: String,
    pub standing: Standing,
}

vocabulary! {
    PersonKind:
    Staff "staff", Contact "contact",
}

/// The name of a person, for records that refer to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonLabel {
    pub id: UserId,
    pub name: String,
    pub email: Option<String>,
    pub kind: PersonKind,
    pub organization_id: Option<OrganizationId>,
}

impl From<User> for PersonLabel {
    fn from(user: User) -> Self {
        let kind = if user.role().is_some() { PersonKind::Staff } else { PersonKind::Contact };
        Self { id: user.id, organization_id: user.organization_id(), name: user.name, email: user.email, kind }
    }
}

/// The names that a user record refers to.
#[derive(Clone, Debug, Default)]
pub struct UserLabels {
    /// The organization of a contact.
    pub organization: Option<OrganizationLabel>,
    /// The custom role of a member of staff.
    pub role: Option<RoleLabel>,
    /// The organizations that a member of staff is limited to, if they still exist.
    pub organizations: Option<Vec<OrganizationLabel>>,
}

const MAX_EMAIL: usize = 254;

/// Normalizes an email address for comparison and storage.
pub fn normalize_email(text: &str) -> Result<String, DirectoryError> {
    let email = text.trim().to_lowercase();
    // The dot of the root zone makes no other address.
    let email = email.strip_suffix('.').unwrap_or(&email).to_owned();
    let (local, domain) = email.split_once('@').ok_or(DirectoryError::BadEmail("must contain an @"))?;
    let plain =
        |part: &str| !part.is_empty() && !part.chars().any(|letter| letter.is_whitespace() || letter.is_control() || letter == '@');
    if !plain(local) || !plain(domain) || email.len() > MAX_EMAIL {
        return Err(DirectoryError::BadEmail("must be a valid email address"));
    }
    Ok(email)
}

/// The domain of a normalized address, in DNS form if possible.
pub fn mail_domain(email: &str) -> String {
    let domain = email.rsplit_once('@').map_or(email, |(_, domain)| domain);
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    match url::Host::parse(domain) {
        Ok(url::Host::Domain(ascii)) if !domain.contains('%') => ascii,
        _ => domain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_domains_are_normalized() {
        for (email, domain) in [
            ("ada@example.com", "example.com"),
            ("ada@example.com.", "example.com"),
            ("ada@münchen.example", "xn--mnchen-3ya.example"),
            ("ada@xn--mnchen-3ya.example", "xn--mnchen-3ya.example"),
            ("ada@[::1]", "[::1]"),
        ] {
            assert_eq!(mail_domain(email), domain, "{email}");
        }
    }

    #[test]
    fn email_addresses_are_normalized_and_invalid_ones_refused() {
        assert_eq!(normalize_email(" Ada@Example.COM ").unwrap(), "ada@example.com");
        assert_eq!(normalize_email("ada@example.com.").unwrap(), "ada@example.com");
        for bad in ["", "ada", "@x", "ada@", "a b@x", "a@b@c", "a@x\u{7}"] {
            assert!(normalize_email(bad).is_err(), "{bad:?}");
        }
    }
}
