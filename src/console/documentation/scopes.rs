//! The scopes of API keys, and the roles of people.

use maud::html;
use serde_json::{Value, json};

use tenantd_base::access::{Role, Scope};

use super::{Content, contents};
use crate::components::{code, table};

pub(super) const PATH: &str = "/documentation/scopes/";

fn scopes_of(role: Role) -> Vec<&'static str> {
    role.grants().iter().map(Scope::name).collect()
}

pub(super) fn json() -> Value {
    let scopes: Vec<Value> =
        Scope::ALL.iter().map(|scope| json!({"scope": scope.name(), "description": scope.description()})).collect();
    let roles: Vec<Value> = Role::ALL.iter().map(|role| json!({"role": role.name(), "scopes": scopes_of(*role)})).collect();
    json!({"data": scopes, "roles": roles})
}

pub(super) fn content() -> Content {
    let scopes: Vec<_> = Scope::ALL.iter().map(|scope| vec![code(scope.name()), html! { (scope.description()) }]).collect();
    let roles: Vec<_> = Role::ALL.iter().map(|role| vec![code(role.name()), html! { (scopes_of(*role).join(", ")) }]).collect();
    Content::new(
        "Scopes and roles",
        html! {
            h1 { "Scopes and roles" }
            p.lead { "An API key has scopes. A scope allows one action in one area." }
            p {
                "A wildcard stands for several scopes: " code { "tickets:*" } " for an area, " code { "*:read" } " for an action, " code { "*" }
                " for all. You cannot give a key a scope that you do not have."
            }
            (table("Scopes", &["scope", "allows"], &scopes))
            h2 #roles { "Roles" }
            p {
                "A person who signs in has the scopes of their role within their tenant. An operator runs the installation. Operators belong to a tenant
                of their own and cannot see the content of other tenants."
            }
            (table("Roles", &["role", "scopes"], &roles))
            p {
                "A tenant can create roles of its own (" code { "/api/admin/roles" } "), and limit a person to some organizations. A limited person
                keeps only the scopes over records of organizations."
            }
        },
    )
    .below(contents::PATH, "Documentation")
}
