//! Users: the people who sign in, their roles, sessions and passwords. Contacts are users too, who do not sign in.

mod actions;
mod edit;
mod list;
mod new;
mod one;

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::{Role, TenantKind};

use super::{PATH as SETTINGS, parts::Limit};
use crate::{
    desk::{
        frame::built_in_role,
        organizations::{optional, trail},
        records::Named,
    },
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) use actions::{delete, end_session, end_sessions, issue_password_link, reset_factors, show_deletion, unlink};
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
    custom_role: Option<Named>,
    organization: Option<Named>,
    /// The organizations that a member of staff is limited to.
    organizations: Option<Vec<Named>>,
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

    /// The ids of the organizations that a member of staff is limited to.
    fn limits(&self) -> Option<Vec<String>> {
        let organizations = self.organizations.as_ref()?;
        Some(organizations.iter().map(|organization| organization.id.clone()).collect())
    }

    /// The role of staff, or the organization of a contact.
    fn place(&self) -> Markup {
        match (&self.role, &self.organization) {
            (Some(role), _) => html! { (self.custom_role.as_ref().map_or(role_name(role), |role| role.name.as_str())) },
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

pub(super) fn role_name(role: &str) -> &str {
    match Role::parse(role) {
        Some(role) => built_in_role(role),
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

/// Limits a member of staff to the records of some organizations.
const ORGANIZATIONS: Limit = Limit {
    decision: "reach",
    member: "organization_ids",
    label: "Records",
    options: ["All records of the tenant", "Only records of some organizations"],
    legend: "Organizations",
    hint: "A limited person loses all scopes that are not about records of organizations, such as users, keys and workflows.",
};

/// The built-in and custom roles that the reader may give.
async fn roles(visitor: &Visitor<'_>, current: Option<&str>) -> Result<Vec<(String, String)>, Refusal> {
    let mut offered = built_in_roles(visitor, current);
    for role in super::roles::all(visitor).await? {
        if Some(role.id.as_str()) == current || visitor.reader.grants.covers(role.grants()) {
            let purpose = role.description.as_deref().unwrap_or("custom role");
            offered.push((role.id.clone(), format!("{}: {purpose}", role.name)));
        }
    }
    Ok(offered)
}

/// The built-in roles that the reader may give. Nobody gives more than they have. The current role of a user is always among them.
fn built_in_roles(visitor: &Visitor<'_>, current: Option<&str>) -> Vec<(String, String)> {
    let kind = visitor.reader.tenant_kind;
    let may_give = |role: Role| {
        let exists = role != Role::Operator || kind == TenantKind::Platform;
        exists && visitor.reader.grants.covers(role.grants_in(kind))
    };
    let offered = Role::ALL.iter().copied().filter(|role| Some(role.name()) == current || may_give(*role));
    offered.map(|role| (role.name().to_owned(), format!("{}: {}", role_name(role.name()), role_purpose(role)))).collect()
}
