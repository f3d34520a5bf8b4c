//! The page of a secret, and its deletion.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{NamedSecret, PATH, SETTINGS, secret, workflows};
use crate::{
    components::{card, code, curl, facts, page_head},
    desk::{
        Content, Reply,
        organizations::{Deletion, optional, trail},
        settings::parts::{author, with_copy},
    },
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let secret = secret(&visitor).await?;
    let workflows = if secret.workflow_ids.is_some() { workflows(&visitor).await? } else { Vec::new() };
    let body = html! {
        (trail(&[(SETTINGS, "Settings"), (PATH, "Secrets")]))
        (head(&secret, &visitor))
        div.split {
            div { (card("Use", &usage(&secret, &workflows, &visitor))) }
            div { (card("Details", &details(&secret, &visitor))) }
        }
    };
    Ok(Reply::Page(Content::new(secret.name.clone(), body).live_about("secret.*", &secret.id)))
}

fn head(secret: &NamedSecret, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { (secret.name) },
        &html! { @if let Some(description) = &secret.description { (description) } @else { "Secret for workflow steps" } },
        &html! {
            (curl(visitor.visit.base_url, "GET", &secret.api(), None))
            a.button href={ (secret.path()) "/edit" } { "Edit" }
            a.button href={ (secret.path()) "/rotate" } { "Replace the value" }
            a.button href={ (secret.path()) "/delete" } { "Delete" }
        },
    )
}

/// How steps use the secret, and which of them may.
fn usage(secret: &NamedSecret, workflows: &[(String, String)], visitor: &Visitor<'_>) -> Markup {
    html! {
        p { "Steps of the type " code { "http.request" } " write it in headers and bodies:" }
        (with_copy(&secret.expression()))
        (facts(&[
            ("Servers", Some(html! { @for host in &secret.hosts { (code(host)) " " } })),
            ("Workflows", Some(permitted(secret.workflow_ids.as_deref(), workflows, visitor))),
        ]))
        p.muted { "The value leaves tenantd only in requests to these servers. It never appears in a response, an event, a run or a log." }
    }
}

fn permitted(ids: Option<&[String]>, workflows: &[(String, String)], visitor: &Visitor<'_>) -> Markup {
    let may_open = visitor.may(Scope::WorkflowsRead);
    let name = |id: &String| workflows.iter().find(|(known, _)| known == id).map_or_else(|| id.clone(), |(_, name)| name.clone());
    html! {
        @match ids {
            None => { "All workflows may use it." }
            Some([]) => { "No workflow may use it." }
            Some(ids) => {
                @for (place, id) in ids.iter().enumerate() {
                    @if place > 0 { ", " }
                    @if may_open { a href={ "/workflows/" (id) } { (name(id)) } } @else { (name(id)) }
                }
            }
        }
    }
}

fn details(secret: &NamedSecret, visitor: &Visitor<'_>) -> Markup {
    let last_used = secret.last_used_at.as_deref().map(|time| visitor.clock.relative(time));
    facts(&[
        ("Last used", Some(last_used.unwrap_or_else(|| optional(None)))),
        ("Value set", Some(visitor.clock.relative(secret.rotated_at.as_deref().unwrap_or(&secret.created_at)))),
        ("Created", Some(visitor.clock.absolute(&secret.created_at))),
        ("Created by", Some(author(&secret.created_by, visitor))),
        ("Changed", Some(visitor.clock.relative(&secret.updated_at))),
        ("ID", Some(code(&secret.id))),
    ])
}

pub(crate) async fn show_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    Ok(deletion(&secret(&visitor).await?).show(&visitor))
}

pub(crate) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    deletion(&secret(&visitor).await?).act(&visitor).await
}

fn deletion(secret: &NamedSecret) -> Deletion<'_> {
    Deletion {
        name: &secret.name,
        version: secret.version,
        trail: secret.trail(),
        path: secret.path(),
        api: secret.api(),
        list: PATH.to_owned(),
        consequence: "Workflow steps that use the secret fail from now on. The value cannot be restored.",
        heir: "",
        heirs: Vec::new(),
    }
}
