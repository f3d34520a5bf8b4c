//! The portal access of a contact, on their page: give it, show the link once, take it away.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::Scope;

use super::contact::{self, contact};
use super::{Contact, is_correctable};
use crate::{
    components::{card, curl, facts, page_head},
    desk::{Content, Reply},
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

#[derive(Debug, Deserialize)]
pub(super) struct PortalAccess {
    has_access: bool,
    has_password: bool,
    email: Option<String>,
    given_at: Option<String>,
    last_login_at: Option<String>,
    password_link: Option<String>,
    password_token_expires_at: Option<String>,
}

fn api(contact: &Contact) -> String {
    format!("{}/portal-access", contact.api())
}

/// Whether the reader may let contacts sign in, who then read and answer tickets.
pub(crate) fn may_open_portal(visitor: &Visitor<'_>) -> bool {
    [Scope::DirectoryWrite, Scope::TicketsRead, Scope::TicketsWrite].into_iter().all(|scope| visitor.may(scope))
}

/// The access of a contact, if the reader may see it.
pub(super) async fn read(visitor: &Visitor<'_>, contact: &Contact) -> Result<Option<PortalAccess>, Refusal> {
    visitor.read_if_allowed(api(contact)).await
}

pub(super) fn access_card(access: &PortalAccess, contact: &Contact, visitor: &Visitor<'_>) -> Markup {
    let path = format!("{}/portal-access", contact.path());
    card(
        "Portal access",
        &html! {
            @if access.has_access {
                (facts(&[
                    ("Signs in as", access.email.as_ref().map(|email| html! { (email) })),
                    ("Since", access.given_at.as_ref().map(|at| visitor.clock.absolute(at))),
                    ("Password", Some(html! { @if access.has_password { "Set" } @else { "Not set yet" } })),
                    ("Last signed in", access.last_login_at.as_ref().map(|at| visitor.clock.relative(at))),
                ]))
            } @else {
                p.muted { "This contact cannot sign in to the portal." }
            }
            div.actions {
                @if may_open_portal(visitor) {
                    form method="post" action=(path) {
                        (visitor.tokens())
                        button.button { @if access.has_access { "New password link" } @else { "Give access" } }
                    }
                }
                @if access.has_access && visitor.may(Scope::DirectoryWrite) {
                    form method="post" action={ (path) "/remove" } {
                        (visitor.tokens())
                        button.danger { "Take access away" }
                    }
                }
                (curl(visitor.visit.base_url, "PUT", &api(contact), None))
            }
        },
    )
}

pub(crate) async fn give_portal_access(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let contact = contact(&visitor).await?;
    match visitor.act(Method::PUT, api(&contact), None).await {
        Ok(answer) => Ok(link_page(&visitor, &contact, &parsed(answer.body)?)),
        Err(refusal) if is_correctable(&refusal) => contact::page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

pub(crate) async fn remove_portal_access(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let contact = contact(&visitor).await?;
    match visitor.act(Method::DELETE, api(&contact), None).await {
        Ok(_) => Ok(Reply::SeeOther(contact.path())),
        Err(refusal) if is_correctable(&refusal) => contact::page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

/// The page that shows the link once.
fn link_page(visitor: &Visitor<'_>, contact: &Contact, access: &PortalAccess) -> Reply {
    let title = "Portal access";
    let body = html! {
        (contact.trail(true))
        (page_head(&html! { (title) }, &html! { "For " (contact.name) }, &html! {}))
        @if let Some(link) = &access.password_link {
            div.note role="status" {
                p { strong { "Copy this link now. It is not shown again." } }
                p.once { code { (link) } " " button.quiet type="button" data-copy hidden { "Copy" } }
                p {
                    "Give it to " (contact.name) " over a secure channel. It works once, "
                    @if let Some(until) = &access.password_token_expires_at { "until " (visitor.clock.absolute(until)) ", " }
                    "and replaces all earlier links. They then sign in at /portal."
                }
            }
        }
        div.actions { a.button.primary href=(contact.path()) { "Open the contact" } }
    };
    Reply::Page(Content::new(title, body).with_secret())
}
