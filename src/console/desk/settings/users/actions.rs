//! Acts on a user: a link for a new password, the end of all sessions, the end of the link to an identity provider, and removal.

use http::Method;
use maud::html;

use super::{PATH, User, WithLink, one, user};
use crate::{
    components::page_head,
    desk::{
        Content, Reply,
        organizations::{Deletion, is_correctable},
        settings::parts::with_copy,
    },
    query::segment,
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// The page of the user again, or with why the API refused.
async fn follow<T>(visitor: Visitor<'_>, user: &User, outcome: Result<T, Refusal>) -> Result<Reply, Refusal> {
    match outcome {
        Ok(_) => Ok(Reply::SeeOther(user.path())),
        Err(refusal) if is_correctable(&refusal) => one::page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

pub(crate) async fn end_sessions(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let user = user(&visitor).await?;
    let outcome = visitor.act(Method::DELETE, format!("{}/sessions", user.api()), None).await;
    follow(visitor, &user, outcome).await
}

pub(crate) async fn reset_factors(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let user = user(&visitor).await?;
    let outcome = visitor.act(Method::DELETE, format!("{}/factors", user.api()), None).await;
    follow(visitor, &user, outcome).await
}

pub(crate) async fn end_session(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let user = user(&visitor).await?;
    let target = format!("{}/sessions/{}", user.api(), segment(visitor.part("session_id")));
    let outcome = visitor.act(Method::DELETE, target, None).await;
    follow(visitor, &user, outcome).await
}

pub(crate) async fn unlink(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let user = user(&visitor).await?;
    let outcome = visitor.act(Method::DELETE, format!("{}/sso", user.api()), None).await;
    follow(visitor, &user, outcome).await
}

pub(crate) async fn issue_password_link(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let user = user(&visitor).await?;
    match visitor.act(Method::POST, format!("{}/reset-password", user.api()), None).await {
        Ok(answer) => Ok(link_page(&visitor, &parsed(answer.body)?, "New password link")),
        outcome => follow(visitor, &user, outcome).await,
    }
}

/// The page that shows the link once.
pub(super) fn link_page(visitor: &Visitor<'_>, issued: &WithLink, title: &str) -> Reply {
    let user = &issued.user;
    let body = html! {
        (user.trail())
        (page_head(&html! { (title) }, &html! { "For " (user.name) }, &html! {}))
        @if let Some(link) = &issued.password_link {
            div.note role="status" {
                p { strong { "Copy this link now. It is not shown again." } }
                (with_copy(link))
                p {
                    "Give it to " (user.name) " over a secure channel. It works once, "
                    @if let Some(until) = &issued.password_token_expires_at { "until " (visitor.clock.absolute(until)) ", " }
                    "and replaces all earlier links."
                }
            }
        }
        div.actions { a.button.primary href=(user.path()) { "Open the user" } a.button href=(PATH) { "All users" } }
    };
    Reply::Page(Content::new(title, body).with_secret())
}

pub(crate) async fn show_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    Ok(deletion(&user(&visitor).await?).show(&visitor))
}

pub(crate) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    deletion(&user(&visitor).await?).act(&visitor).await
}

fn deletion(user: &User) -> Deletion<'_> {
    Deletion {
        name: &user.name,
        version: user.version,
        trail: user.trail(),
        path: user.path(),
        api: user.api(),
        list: PATH.to_owned(),
        consequence: if user.is_staff() {
            "Removes the user and ends their sessions. API keys that they own are paused. This cannot be undone."
        } else {
            "Removes the contact. This cannot be undone."
        },
        heir: "",
        heirs: Vec::new(),
    }
}
