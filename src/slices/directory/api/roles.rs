//! The errors of custom roles on the wire. `auth` has their API.

use serde_json::{Map, Value};

use tenantd_http::problem::{Code, FieldError, Problem};

use super::super::error::RoleError;

impl From<RoleError> for Problem {
    fn from(error: RoleError) -> Self {
        let invalid = |pointer: &str, code: &str, message: &str| Self::invalid(vec![FieldError::pointer(pointer, code, message)]);
        let limits = |code: &str, message: &str| invalid("/organization_ids", code, message);
        match error {
            RoleError::Unknown => invalid(
                "/role",
                "unknown_reference",
                "the custom role does not exist; GET /api/admin/roles lists the roles of the tenant",
            ),
            RoleError::NameTaken => Self::new(
                Code::AlreadyExists,
                "A role with this name already exists. Case, accents and spaces do not distinguish names. Choose another name.",
            ),
            RoleError::BuiltInName => {
                Self::new(Code::AlreadyExists, "A built-in role has this name, so people would confuse them. Choose another name.")
            }
            RoleError::TooMany { most } => {
                Self::new(Code::LimitReached, format!("A tenant can have at most {most} roles. Delete a role that nobody has."))
            }
            RoleError::Full { most } => Self::new(
                Code::LimitReached,
                format!("A role can have at most {most} members. Create a second role with the same scopes."),
            ),
            RoleError::InUse { users, rules } => in_use(users, rules),
            RoleError::ContactLimits => {
                limits("not_allowed", "not allowed for a contact, who belongs to one organization; use organization_id")
            }
            RoleError::OperatorLimits => {
                limits("not_allowed", "not allowed for an operator, because the platform tenant has no organizations")
            }
            RoleError::UnknownLimit(id) => limits("unknown_reference", &format!("the organization {id} does not exist")),
        }
    }
}

/// Says what refers to a role, and how to end that.
fn in_use(users: u64, rules: u64) -> Problem {
    let of_users = format!("Users with this role: {users}. Give them another one with PUT /api/admin/users/{{id}}.");
    let of_rules =
        format!("Role rules of provisioning that give it: {rules}. Change them with PUT /api/admin/provisioning/role-rules.");
    let found = [("users", users, of_users), ("role_rules", rules, of_rules)];
    let found: Vec<_> = found.into_iter().filter(|(_, count, _)| *count > 0).collect();
    let dependents: Map<String, Value> = found.iter().map(|(name, count, _)| ((*name).to_owned(), (*count).into())).collect();
    let detail: Vec<&str> = found.iter().map(|(_, _, remedy)| remedy.as_str()).collect();
    Problem::new(Code::InUse, detail.join(" ")).with("dependents", dependents)
}
