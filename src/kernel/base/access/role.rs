//! Roles: the built-in ones, and the role of a member of staff, which is built-in or created by the tenant.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{
    super::{id::RoleId, vocabulary::vocabulary},
    Grants, TenantKind,
};

vocabulary! {
    /// The role of a person who signs in.
    Role:
    Admin "admin", Technician "technician", Viewer "viewer",
    /// Operates the installation. Lives in the platform tenant and sees no content of other tenants.
    Operator "operator",
}

impl Role {
    /// The scopes of the role in a tenant of this kind. The role of an operator has scopes only in the platform tenant.
    pub fn grants_in(self, kind: TenantKind) -> Grants {
        if self == Self::Operator && kind != TenantKind::Platform { Grants::NONE } else { self.grants() }
    }

    pub fn grants(self) -> Grants {
        let reads = Grants::from_patterns(["*:read"]);
        let administration = Grants::from_patterns(["api_keys:*", "webhooks:*", "platform:*"]);
        match self {
            Self::Operator => Grants::all(),
            Self::Admin => Grants::all().without(Grants::from_patterns(["platform:*"])),
            Self::Technician => {
                reads.without(administration).union(Grants::from_patterns(["tickets:write", "workflows:run", "vms:write"]))
            }
            Self::Viewer => reads.without(administration),
        }
    }
}

/// The role of a member of staff: a built-in one, or one that the tenant has created. As a text it is the name of the built-in role,
/// or the id of the custom one.
///
/// It grants nothing by itself: the scopes of a custom role are in the store, so rights are looked up where the user is read
/// (`staff_authority` of the directory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StaffRole {
    BuiltIn(Role),
    Custom(RoleId),
}

impl StaffRole {
    pub fn is(self, role: Role) -> bool {
        self == Self::BuiltIn(role)
    }

    pub fn custom(self) -> Option<RoleId> {
        match self {
            Self::BuiltIn(_) => None,
            Self::Custom(id) => Some(id),
        }
    }

    /// Whether the role administers its tenant: `admin`, or `operator` in the platform tenant.
    pub fn administers(self) -> bool {
        matches!(self, Self::BuiltIn(Role::Admin | Role::Operator))
    }
}

impl From<Role> for StaffRole {
    fn from(role: Role) -> Self {
        Self::BuiltIn(role)
    }
}

impl fmt::Display for StaffRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(role) => f.write_str(role.name()),
            Self::Custom(id) => id.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected admin, technician, viewer, operator, or the id of a custom role such as {}", RoleId::example())]
pub struct NotARole;

impl FromStr for StaffRole {
    type Err = NotARole;

    fn from_str(text: &str) -> Result<Self, NotARole> {
        let built_in = Role::parse(text).map(Self::BuiltIn);
        built_in.or_else(|| text.parse().ok().map(Self::Custom)).ok_or(NotARole)
    }
}

impl Serialize for StaffRole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StaffRole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Scope, *};

    #[test]
    fn a_role_reads_back_from_its_text() {
        let id = RoleId::from_bytes([7; 16]);
        for (role, text) in [(StaffRole::from(Role::Admin), "admin".to_owned()), (StaffRole::Custom(id), id.to_string())] {
            assert_eq!(role.to_string(), text);
            assert_eq!(text.parse(), Ok(role));
            assert_eq!(serde_json::to_value(role).unwrap(), text);
            assert_eq!(serde_json::from_value::<StaffRole>(text.into()).unwrap(), role);
        }
        for wrong in ["", "Admin", "custom", "usr_01k9z7w3v5e8g9m2n4p6r8t0x1"] {
            assert_eq!(wrong.parse::<StaffRole>(), Err(NotARole), "{wrong}");
        }
    }

    #[test]
    fn roles_have_the_documented_scopes() {
        assert!(!Role::Admin.grants().allows(Scope::PlatformRead));
        assert!(Role::Operator.grants().allows(Scope::PlatformRead));
        for (scope, technician, viewer) in [
            (Scope::TicketsRead, true, true),
            (Scope::TicketsWrite, true, false),
            (Scope::WorkflowsRun, true, false),
            (Scope::WorkflowsApprove, false, false),
            (Scope::ApiKeysRead, false, false),
            (Scope::WebhooksRead, false, false),
            (Scope::VmsWrite, true, false),
            (Scope::UsersWrite, false, false),
            (Scope::SecretsWrite, false, false),
            (Scope::SecretsUse, false, false),
            (Scope::DirectoryRead, true, true),
            (Scope::DirectoryWrite, false, false),
        ] {
            assert_eq!(Role::Technician.grants().allows(scope), technician, "{}", scope.name());
            assert_eq!(Role::Viewer.grants().allows(scope), viewer, "{}", scope.name());
        }
    }
}
