//! The page of an identity provider.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{PATH, Provider, SETTINGS, TITLE, Trial, provider, sections};
use crate::{
    components::{card, curl, page_head},
    desk::{
        Content, Reply,
        organizations::{trail, version_field},
    },
    form::{Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    Ok(page(&visitor, &provider, None, None))
}

/// The page of the provider, with what a form on it found or why it was refused.
pub(super) fn page(visitor: &Visitor<'_>, provider: &Provider, trial: Option<&Trial>, refusal: Option<&Refusal>) -> Reply {
    let fields = Fields::default();
    let may_write = visitor.may(Scope::UsersWrite);
    let body = html! {
        (trail(&[(SETTINGS, "Settings"), (PATH, TITLE)]))
        (head(provider, may_write, visitor))
        (Shown { fields: &fields, refusal }.summary())
        div.split {
            div {
                (card("Domains", &sections::domains(provider, visitor)))
                @if may_write { (card("Test", &sections::trials(provider, trial, visitor))) }
                (card("Sign-ons", &sections::history(provider, visitor)))
            }
            div {
                (card("Details", &sections::details(provider, visitor)))
                (card("Rules", &provider.rules.details()))
            }
        }
    };
    let content = Content::new(provider.name.clone(), body).live_about("identity_provider.*", &provider.id);
    Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    })
}

fn head(provider: &Provider, may_write: bool, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { (provider.name) },
        &html! { (sections::state_badge(provider.enabled)) " OpenID Connect" },
        &html! {
            (curl(visitor.visit.base_url, "GET", &provider.api(), None))
            @if may_write {
                a.button href={ (provider.path()) "/edit" } { "Edit" }
                (status_form(provider, visitor))
                a.button href={ (provider.path()) "/delete" } { "Delete" }
            }
        },
    )
}

fn status_form(provider: &Provider, visitor: &Visitor<'_>) -> Markup {
    html! {
        form method="post" action={ (provider.path()) "/status" } {
            (visitor.tokens())
            (version_field(provider.version))
            input type="hidden" name="enabled" value=(if provider.enabled { "false" } else { "true" });
            button { @if provider.enabled { "Disable" } @else { "Enable" } }
        }
    }
}
