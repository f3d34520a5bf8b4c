//! The page of a role, and its deletion.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{PATH, Role, SETTINGS, role};
use crate::{
    components::{Tone, badge, card, code, curl, facts, page_head},
    desk::{
        Content, Reply,
        organizations::{Deletion, trail},
    },
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let role = role(&visitor).await?;
    let body = html! {
        (trail(&[(SETTINGS, "Settings"), (PATH, "Roles")]))
        (head(&role, &visitor))
        div.split {
            div { (card("What people with this role may do", &scopes(&role))) }
            div { (card("Details", &details(&role, &visitor))) }
        }
    };
    Ok(Reply::Page(Content::new(role.name.clone(), body).live_about("role.*", &role.id)))
}

fn head(role: &Role, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { (role.name) },
        &html! { @if let Some(description) = &role.description { (description) } @else { "Custom role" } },
        &html! {
            (curl(visitor.visit.base_url, "GET", &role.api(), None))
            a.button href=(role.members()) { "Members" }
            @if visitor.may(Scope::UsersWrite) {
                a.button href={ (role.path()) "/edit" } { "Edit" }
                a.button href={ (role.path()) "/delete" } { "Delete" }
            }
        },
    )
}

fn scopes(role: &Role) -> Markup {
    html! {
        p.badges { @for scope in &role.granted_scopes { (badge(Tone::Neutral, scope)) " " } }
        @if role.scopes != role.granted_scopes {
            p.muted { "Saved as " (role.scopes.join(", ")) ". A wildcard keeps the scopes that existed when it was saved." }
        }
        p { a href="/documentation/scopes/" { "What each scope permits" } }
    }
}

fn details(role: &Role, visitor: &Visitor<'_>) -> Markup {
    facts(&[
        ("Created", Some(visitor.clock.absolute(&role.created_at))),
        ("Changed", Some(visitor.clock.relative(&role.updated_at))),
        ("ID", Some(code(&role.id))),
    ])
}

pub(crate) async fn show_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    Ok(deletion(&role(&visitor).await?).show(&visitor))
}

pub(crate) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    deletion(&role(&visitor).await?).act(&visitor).await
}

fn deletion(role: &Role) -> Deletion<'_> {
    Deletion {
        name: &role.name,
        version: role.version,
        trail: role.trail(),
        path: role.path(),
        api: role.api(),
        list: PATH.to_owned(),
        consequence: "Only a role that nobody has can be deleted. Give its members another role first.",
        heir: "",
        heirs: Vec::new(),
    }
}
