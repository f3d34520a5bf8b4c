//! The page of a user: facts, sessions, single sign-on, and what one can do.

use std::cmp::Reverse;

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::{Identity, Scope};

use super::{User, user};
use crate::{
    components::{card, curl, facts, page_head},
    desk::{
        Content, Reply,
        organizations::{optional, status_badge},
        records::{List, Named},
        settings::{
            parts::{Action, actions_card},
            rights,
        },
    },
    form::{Fields, Shown},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

#[derive(Debug, Deserialize)]
struct Session {
    id: String,
    device: String,
    ip_address: Option<String>,
    #[serde(rename = "created_at")]
    created: String,
    #[serde(rename = "last_seen_at")]
    last_seen: String,
    #[serde(rename = "expires_at")]
    end: String,
}

pub(crate) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

/// The page, with why an action was refused.
pub(super) async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let user = user(visitor).await?;
    let sessions = if user.is_staff() { sessions(visitor, &user).await? } else { None };
    let rights = if user.is_staff() { rights::read(visitor, &user.api()).await? } else { None };
    let fields = Fields::default();
    let alert = Shown { fields: &fields, refusal };
    let body = html! {
        (super::trail(&[(super::SETTINGS, "Settings"), (super::PATH, "Users")]))
        (head(&user, visitor))
        (alert.summary())
        div.split {
            div {
                @if let Some(sessions) = &sessions { (sessions_card(sessions, &user, visitor)) }
                (rights::rights_card(rights.as_ref(), &user.api(), visitor))
                @if user.is_staff() && visitor.may(Scope::UsersWrite) { (actions_card("Actions", &actions(&user, sessions.as_deref(), visitor))) }
            }
            div {
                (card("Details", &details(&user, visitor)))
                (single_sign_on(&user, visitor))
            }
        }
    };
    let content = Content::new(user.name.clone(), body).live_about("user.* auth.login auth.sessions_ended", &user.id);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

async fn sessions(visitor: &Visitor<'_>, user: &User) -> Result<Option<Vec<Session>>, Refusal> {
    let list = visitor.read_if_allowed::<List<Session>>(format!("{}/sessions?limit=200", user.api())).await?;
    let mut sessions = list.map(|list| list.data);
    if let Some(sessions) = &mut sessions {
        sessions.sort_by_cached_key(|session| Reverse(session.last_seen.clone()));
    }
    Ok(sessions)
}

/// Whether the reader is this user.
fn is_reader(user: &User, visitor: &Visitor<'_>) -> bool {
    matches!(&visitor.reader.identity, Identity::User { id, .. } if id.to_string() == user.id)
}

fn head(user: &User, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { (user.name) },
        &html! { (status_badge(&user.status)) " " (user.place()) @if is_reader(user, visitor) { " · This is you" } },
        &html! {
            (curl(visitor.visit.base_url, "GET", &user.api(), None))
            @if !user.is_staff() && visitor.may(Scope::DirectoryRead) { a.button href={ "/contacts/" (user.id) } { "Open the contact" } }
            @if visitor.may(Scope::UsersWrite) {
                a.button href={ (user.path()) "/edit" } { "Edit" }
                a.button href={ (user.path()) "/delete" } { "Delete" }
            }
        },
    )
}

fn details(user: &User, visitor: &Visitor<'_>) -> Markup {
    let keys = Query::default().with("created_by", &user.id).at("/settings/keys");
    facts(&[
        ("Email address", Some(optional(user.email.as_deref()))),
        ("Records", user.organizations.as_ref().map(|organizations| limits(organizations))),
        ("External ID", user.external_id.as_deref().map(|id| html! { code { (id) } })),
        ("ID", Some(html! { code { (user.id) } })),
        ("Last sign-in", user.last_login_at.as_deref().map(|time| visitor.clock.relative(time))),
        ("Created", Some(visitor.clock.absolute(&user.created_at))),
        ("Changed", Some(visitor.clock.relative(&user.updated_at))),
        (
            "API keys",
            (user.is_staff() && visitor.may(Scope::ApiKeysRead)).then(|| html! { a href=(keys) { "Keys that this user created" } }),
        ),
    ])
}

/// The organizations that a member of staff is limited to.
fn limits(organizations: &[Named]) -> Markup {
    html! {
        @if organizations.is_empty() { "None: the organizations of this person no longer exist." }
        @for (place, organization) in organizations.iter().enumerate() {
            @if place > 0 { ", " }
            (organization.link("organizations"))
        }
    }
}

fn single_sign_on(user: &User, visitor: &Visitor<'_>) -> Markup {
    let Some(sso) = &user.sso else { return html! {} };
    let provider = format!("/settings/identity-providers/{}", sso.identity_provider_id);
    let body = facts(&[
        ("Provider", Some(html! { a href=(provider) { (sso.issuer) } })),
        ("Account", Some(html! { code { (sso.subject) } })),
        ("Linked", Some(visitor.clock.relative(&sso.linked_at))),
    ]);
    card("Single sign-on", &body)
}

fn sessions_card(sessions: &[Session], user: &User, visitor: &Visitor<'_>) -> Markup {
    let body = html! {
        @if sessions.is_empty() {
            p.muted { "No sessions. " (user.name) " is not signed in." }
        } @else {
            div.scroll tabindex="0" role="group" aria-label="Sessions" {
                table.list {
                    thead { tr { @for head in ["Device", "Signed in", "Last used", "Ends at the latest", "Action"] { th scope="col" { (head) } } } }
                    tbody {
                        @for session in sessions {
                            tr {
                                td.main { (session.device) @if let Some(address) = &session.ip_address { br; code { (address) } } }
                                td.time { (visitor.clock.absolute(&session.created)) }
                                td.time { "used " (visitor.clock.relative(&session.last_seen)) }
                                td.time { "ends " (visitor.clock.relative(&session.end)) }
                                td {
                                    @if visitor.may(Scope::UsersWrite) {
                                        form method="post" action={ (user.path()) "/sessions/" (session.id) "/end" } {
                                            (visitor.tokens())
                                            button.quiet aria-label={ "End the session of " (session.device) } { "End" }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    card("Sessions", &body)
}

/// What the reader can do with staff.
fn actions(user: &User, sessions: Option<&[Session]>, visitor: &Visitor<'_>) -> Vec<Action> {
    let (path, api, base_url) = (user.path(), user.api(), visitor.visit.base_url);
    let button = |place: &str, words: &str, is_danger: bool| {
        html! {
            form method="post" action={ (path) "/" (place) } {
                (visitor.tokens())
                button.danger[is_danger] { (words) }
            }
        }
    };
    let password = Action {
        title: "New password",
        effect: "Makes a link with which the person sets a new password. The old password works until then.",
        control: button("password", "Make a link", false),
        curl: curl(base_url, "POST", &format!("{api}/reset-password"), None),
    };
    let end = Action {
        title: "End all sessions",
        effect: if is_reader(user, visitor) {
            "Signs you out everywhere, also here."
        } else {
            "Signs the person out everywhere. They can sign in again."
        },
        control: button("sessions", "End all sessions", true),
        curl: curl(base_url, "DELETE", &format!("{api}/sessions"), None),
    };
    let factors = Action {
        title: "Remove second factors",
        effect: "For a person who has lost theirs. Make sure who is asking: their password alone signs in then. Ends their sessions.",
        control: button("factors", "Remove second factors", true),
        curl: curl(base_url, "DELETE", &format!("{api}/factors"), None),
    };
    let unlink = Action {
        title: "Unlink single sign-on",
        effect: "For a person with a new account at the provider. Ends their sessions. If they have no other way to sign in, their \
                 personal keys are revoked. The next sign-on links them again.",
        control: button("sso", "Unlink", true),
        curl: curl(base_url, "DELETE", &format!("{api}/sso"), None),
    };
    let has_sessions = sessions.is_some_and(|sessions| !sessions.is_empty());
    let offered = [(true, password), (has_sessions, end), (true, factors), (user.sso.is_some(), unlink)];
    offered.into_iter().filter(|(is_offered, _)| *is_offered).map(|(_, action)| action).collect()
}
