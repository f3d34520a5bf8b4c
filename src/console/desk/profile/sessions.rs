//! The sessions of the reader: where they are signed in, and buttons that end a session.

use std::cmp::Reverse;

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    components::{Tone, badge, card, curl, words},
    desk::{Reply, records::List},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/auth/sessions";
const PROFILE: &str = "/profile";

#[derive(Debug, Deserialize)]
pub(super) struct Session {
    id: String,
    created_at: String,
    last_seen_at: String,
    device: String,
    ip_address: Option<String>,
    methods: Vec<String>,
    is_current: bool,
}

/// The newest first, after the one of this browser.
pub(super) async fn read(visitor: &Visitor<'_>) -> Result<Vec<Session>, Refusal> {
    let mut sessions = visitor.read::<List<Session>>(format!("{API}?limit=200")).await?.data;
    sessions.sort_by_cached_key(|session| (!session.is_current, Reverse(session.last_seen_at.clone())));
    Ok(sessions)
}

pub(crate) async fn end(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    visitor.act(Method::DELETE, format!("{API}/{}", segment(visitor.part("id"))), None).await?;
    Ok(Reply::SeeOther(PROFILE.to_owned()))
}

pub(crate) async fn end_others(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    visitor.act(Method::DELETE, API, None).await?;
    Ok(Reply::SeeOther(PROFILE.to_owned()))
}

pub(super) fn shown(visitor: &Visitor<'_>, sessions: &[Session]) -> Markup {
    let body = html! {
        div.scroll tabindex="0" role="group" aria-label="Where you are signed in" {
            table.list {
                thead { tr { @for head in ["Device", "Signed in", "Last used", "Address", "Action"] { th scope="col" { (head) } } } }
                tbody { @for session in sessions { (row(visitor, session)) } }
            }
        }
        div.actions {
            @if sessions.len() > 1 {
                form method="post" action="/profile/sessions/end" {
                    (visitor.tokens())
                    button.danger { "End all other sessions" }
                }
            }
            (curl(visitor.visit.base_url, "GET", API, None))
        }
    };
    card("Where you are signed in", &body)
}

fn row(visitor: &Visitor<'_>, session: &Session) -> Markup {
    let method = session.methods.iter().map(|method| words(method)).collect::<Vec<_>>().join(", ");
    html! {
        tr {
            td.main { (session.device) @if session.is_current { " " (badge(Tone::Good, "This session")) } }
            td.time { (visitor.clock.absolute(&session.created_at)) @if !method.is_empty() { br; small.muted { (method) } } }
            td.time { (visitor.clock.relative(&session.last_seen_at)) }
            td { @if let Some(address) = &session.ip_address { code { (address) } } }
            td {
                @if !session.is_current {
                    form method="post" action={ "/profile/sessions/" (session.id) "/end" } {
                        (visitor.tokens())
                        button.quiet aria-label={ "End the session of " (session.device) } { "End" }
                    }
                }
            }
        }
    }
}
