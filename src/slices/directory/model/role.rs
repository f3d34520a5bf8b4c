//! Roles that a tenant creates next to the built-in ones: a name for a set of scopes.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::{Generation, Grants, Role},
    change::Change,
    clock::Timestamp,
    id::{RoleId, TenantId},
};

/// The most roles that a tenant can create.
pub(crate) const MAX_ROLES: usize = 100;
/// The most members of a role. A change of its scopes considers each of them in one transaction.
pub(crate) const MAX_MEMBERS: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomRole {
    #[serde(skip)]
    pub tenant_id: TenantId,
    #[serde(skip)]
    pub id: RoleId,
    /// Unique in the tenant, ignoring case.
    pub name: String,
    pub description: Option<String>,
    /// Scopes and wildcards.
    pub scopes: Vec<String>,
    /// The scopes that the wildcards stand for.
    pub generation: Generation,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: u64,
}

impl CustomRole {
    /// The scopes of the role. No role of a tenant has more than an administrator.
    pub fn grants(&self) -> Grants {
        let named = Grants::from_patterns_of(self.generation, self.scopes.iter().map(String::as_str));
        named.intersection(Role::Admin.grants())
    }
}

/// A role to create.
#[derive(Clone, Debug)]
pub struct NewRole {
    pub name: String,
    pub description: Option<String>,
    pub scopes: Vec<String>,
}

/// A change to a role.
#[derive(Clone, Debug, Default)]
pub struct RoleChange {
    pub name: Option<String>,
    pub description: Change<String>,
    pub scopes: Option<Vec<String>>,
}

/// The name of a role, for records that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleLabel {
    pub id: RoleId,
    pub name: String,
}

#[cfg(test)]
mod tests {
    use tenantd_base::access::Scope;

    use super::*;

    #[test]
    fn a_role_has_no_more_than_an_administrator() {
        let at = Timestamp::EPOCH;
        let mut role = CustomRole {
            tenant_id: TenantId::default(),
            id: RoleId::default(),
            name: "Everything".to_owned(),
            description: None,
            scopes: vec!["*".to_owned(), "platform:read".to_owned()],
            generation: Generation::CURRENT,
            created_at: at,
            updated_at: at,
            version: 1,
        };
        assert_eq!(role.grants(), Role::Admin.grants());
        role.generation = Generation(0);
        assert!(!role.grants().allows(Scope::SecretsUse), "a wildcard keeps the scopes of its generation");
    }
}
