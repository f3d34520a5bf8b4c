//! Users: the people who sign in, their roles, sessions and passwords. Contacts are users too, who do not sign in.

mod actions;
mod edit;
mod list;
mod new;
mod one;

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::{Role, TenantKind};

use super::PATH as SETTINGS;
use crate::{
    desk::{
        organizations::{optional, trail},
        records::Named,
    },
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) use actions::{delete, end_sessions, issue_password_link, show_deletion, unlink};
pub(super) use edit::{change, edit};
pub(super) use list::list;
pub(super) use new::{create, new};
pub(super) use one::show;

const API: &str = "/api/admin/users";
const PATH: &str = "/settings/users";

#[derive(Debug, Deserialize)]
struct User {
    id: String,
    email: Option<String>,
    external_id: Option<String>,
    name: String,
    kind: String,
    role: Option<String>,
    organization: Option<Named>,
    status: String,
    sso: Option<Sso>,
    last_login_at: Option<String>,
    created_at: String,
    updated_at: String,
    version: u64,
}

/// The account of a user at an identity provider.
#[derive(Debug, Deserialize)]
struct Sso {
    identity_provider_id: String,
    issuer: String,
    subject: String,
    linked_at: String,
}

/// A user with a link to set their password.
#[derive(Deserialize)]
struct WithLink {
    #[serde(flatten)]
    user: User,
    password_link: Option<String>,
    password_token_expires_at: Option<String>,
}

impl User {
    fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    fn api(&self) -> String {
        format!("{API}/{}", self.id)
    }

    /// Staff sign in, contacts do not.
    fn is_staff(&self) -> bool {
        self.kind == "staff"
    }

    fn trail(&self) -> Markup {
        trail(&[(SETTINGS, "Settings"), (PATH, "Users"), (self.path().as_str(), self.name.as_str())])
    }

    /// The role of staff, or the organization of a contact.
    fn place(&self) -> Markup {
        match (&self.role, &self.organization) {
            (Some(role), _) => html! { (role_name(role)) },
            (None, Some(organization)) => html! { "Contact at " (organization.link("organizations")) },
            (None, None) if self.is_staff() => optional(None),
            (None, None) => html! { "Contact" },
        }
    }
}

/// The user that the path names.
async fn user(visitor: &Visitor<'_>) -> Result<User, Refusal> {
    visitor.read(format!("{API}/{}", segment(visitor.part("id")))).await
}

fn role_name(role: &str) -> &str {
    match Role::parse(role) {
        Some(Role::Admin) => "Administrator",
        Some(Role::Technician) => "Technician",
        Some(Role::Viewer) => "Viewer",
        Some(Role::Operator) => "Operator",
        None => role,
    }
}

fn role_purpose(role: Role) -> &'static str {
    match role {
        Role::Admin => "everything in this tenant",
        Role::Technician => "reads, works on tickets, starts workflows, orders virtual machines",
        Role::Viewer => "reads, and changes nothing",
        Role::Operator => "operates the installation",
    }
}

/// The roles that the reader may give. Nobody gives more than they have. The current role of a user is always among them.
fn roles(visitor: &Visitor<'_>, current: Option<&str>) -> Vec<(String, String)> {
    let kind = visitor.reader.tenant_kind;
    let may_give = |role: Role| {
        let exists = role != Role::Operator || kind == TenantKind::Platform;
        exists && visitor.reader.grants.covers(role.grants_in(kind))
    };
    let offered = Role::ALL.iter().copied().filter(|role| Some(role.name()) == current || may_give(*role));
    offered.map(|role| (role.name().to_owned(), format!("{}: {}", role_name(role.name()), role_purpose(role)))).collect()
}
