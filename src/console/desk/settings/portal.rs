//! Whether contacts can sign in to the portal.

use http::Method;
use maud::html;
use serde::Deserialize;
use serde_json::json;

use tenantd_base::access::Scope;

use super::PATH as SETTINGS;
use crate::{
    components::{curl, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, may_open_portal, trail},
    },
    form::{Fields, Shown, VERSION},
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/admin/portal";
const PATH: &str = "/settings/portal";

#[derive(Debug, Deserialize)]
struct Settings {
    enabled: bool,
    version: u64,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let body = json!({"enabled": visitor.fields().has("enabled")});
    match visitor.act(Method::PUT, API, Some(body)).await {
        Ok(_) => Ok(Reply::SeeOther(format!("{PATH}?saved=true"))),
        Err(refusal) if is_correctable(&refusal) => page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let settings: Settings = visitor.read(API).await?;
    let fields = Fields::default();
    let below = html! { "Contacts of your customers sign in at /portal, and see, open and answer their own tickets." };
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (page_head(&html! { "Portal" }, &below, &curl(visitor.visit.base_url, "GET", API, None)))
        @if visitor.query().first("saved") == "true" { p.note role="status" { "The settings are saved." } }
        @if visitor.may(Scope::UsersWrite) && (settings.enabled || may_open_portal(visitor)) {
            form.stack method="post" action=(PATH) {
                (visitor.tokens())
                input type="hidden" name=(VERSION) value=(settings.version);
                (Shown { fields: &fields, refusal }.summary())
                label.check { input type="checkbox" name="enabled" value="true" checked[settings.enabled]; " Contacts that have access can sign in" }
                p.hint {
                    "Give a contact access on their page. Without it, nobody can sign in. "
                    "Turning the portal off ends the sessions of contacts and the links for their passwords."
                }
                div.actions { button { "Save" } (curl(visitor.visit.base_url, "PUT", API, Some(&json!({"enabled": true})))) }
            }
        } @else {
            p { @if settings.enabled { "The portal is on." } @else { "The portal is off." } }
        }
    };
    let content = Content::new("Portal", body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}
