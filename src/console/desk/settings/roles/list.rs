//! The list of roles.

use maud::{Markup, html};

use tenantd_base::access::{self, Scope, TenantKind};

use super::{API, PATH, Role, SETTINGS, all};
use crate::{
    components::{card, curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, optional, trail},
        settings::{scopes::summary, users::role_name},
    },
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let roles = all(&visitor).await?;
    let is_platform = visitor.reader.tenant_kind == TenantKind::Platform;
    let head = page_head(
        &html! { "Roles" },
        &html! { (counted(roles.len() as u64, "role of your own", "roles of your own")) },
        &html! {
            (curl(visitor.visit.base_url, "GET", API, None))
            @if visitor.may(Scope::UsersWrite) && !is_platform { a.button.primary href={ (PATH) "/new" } { "New role" } }
        },
    );
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (head)
        @if roles.is_empty() {
            (empty(if is_platform {
                "The platform tenant has operators only."
            } else {
                "There are no roles of your own. Create one if the built-in roles give a person too much or too little."
            }))
        } @else {
            (table(&roles, &visitor))
        }
        (card("Built-in roles", &built_in(is_platform)))
    };
    Ok(Reply::Page(Content::new("Roles", body).live("role.*")))
}

fn table(roles: &[Role], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Roles" {
            table.list data-rows {
                thead { tr { @for head in ["Name", "Description", "Scopes", "Changed"] { th scope="col" { (head) } } } }
                tbody {
                    @for role in roles {
                        tr {
                            td.main { a href=(role.path()) data-record { (role.name) } }
                            td { (optional(role.description.as_deref())) }
                            td.name { (summary(&role.scopes)) }
                            td.time { (visitor.clock.relative(&role.updated_at)) }
                        }
                    }
                }
            }
        }
    }
}

fn built_in(is_platform: bool) -> Markup {
    let exists = |role: &&access::Role| (**role == access::Role::Operator) == is_platform;
    html! {
        ul.lines {
            @for role in access::Role::ALL.iter().filter(exists) {
                li.row {
                    strong { (role_name(role.name())) }
                    a href={ "/settings/users?role=" (role.name()) } { "Members" }
                }
            }
        }
        p.muted { a href="/documentation/scopes/" { "What each role permits" } }
    }
}
