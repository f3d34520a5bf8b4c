//! The reader's own profile: who they are, what they may do, their time zone, the look, their password, their API keys and their
//! sessions.

mod keys;
mod password;
mod sessions;

use http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use tenantd_base::access::Identity;
use tenantd_http::pages::SECOND_FACTOR;

use super::{Content, Reply, frame::role};
pub(super) use keys::{create as create_key, list as list_keys, new as new_key, revoke as revoke_key};
pub(super) use password::{change as change_password, show as show_password};
pub(super) use sessions::{end as end_session, end_others as end_other_sessions};

use crate::{
    components::{Tone, badge, card, curl, facts, page_head},
    form::{Control, Fields, Shown, VERSION},
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/auth/preferences";
const THEMES: [(&str, &str); 3] = [("system", "As the device"), ("light", "Light"), ("dark", "Dark")];

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let mut fields = Fields::default();
    fields.set("time_zone", visitor.preferences.time_zone.clone().unwrap_or_default());
    fields.set("theme", if visitor.preferences.theme.is_empty() { "system" } else { &visitor.preferences.theme });
    page(&visitor, &fields, None).await
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let body = Value::Object(fields.patch(&["time_zone", "theme"]));
    match visitor.act(Method::PATCH, API, Some(body)).await {
        Ok(_) => Ok(Reply::SeeOther("/profile?saved=true".to_owned())),
        Err(refusal) if refusal.status.is_client_error() => page(&visitor, &fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let (is_person, is_contact) = (visitor.reader.has_session(), visitor.reader.is_contact());
    let own_sessions = if is_person { sessions::read(visitor).await? } else { Vec::new() };
    let body = html! {
        (page_head(&html! { (visitor.name()) }, &html! { (visitor.reader.tenant_name) }, &curl(visitor.visit.base_url, "GET", "/api/auth/session", None)))
        @if visitor.query().first("saved") == "true" { p.note role="status" { "Your settings are saved." } }
        @if visitor.query().first("password") == "changed" {
            p.note role="status" { "Your password is changed. You are signed out on all other devices." }
        }
        (card("You", &who(visitor)))
        @if is_person {
            (card("Password", &html! {
                p { "Change it when somebody else may know it. It does not expire." }
                div.actions { a.button href=(password::PATH) { "Change your password" } }
            }))
            (card("Second factor and passkeys", &html! {
                p { "An authenticator app or a passkey protects your account if somebody learns your password. A passkey also replaces the password." }
                div.actions { a.button href=(SECOND_FACTOR) { "Your second factors and passkeys" } }
            }))
            (keys::link())
            (sessions::shown(visitor, &own_sessions))
            @if !is_contact { (card("How pages look", &settings(visitor, Shown { fields, refusal }))) }
        }
        @if !is_contact { (card("What you may do", &html! {
            p { "Your role and the operator decide this. " a href="/documentation/scopes/" { "What each scope permits" } }
            p.badges { @for scope in visitor.reader.grants.iter() { (badge(Tone::Neutral, scope.name())) " " } }
        })) }
    };
    let content = Content::new("Profile", body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn who(visitor: &Visitor<'_>) -> Markup {
    let text = |text: &str| Some(html! { (text) });
    match &visitor.reader.identity {
        Identity::User { email, name, .. } => facts(&[
            ("Name", text(name)),
            ("E-mail address", text(email)),
            ("Role", text(role(&visitor.reader.identity))),
            ("Tenant", text(&visitor.reader.tenant_name)),
        ]),
        Identity::ApiKey { name, .. } => facts(&[("API key", text(name)), ("Tenant", text(&visitor.reader.tenant_name))]),
        Identity::Contact { email, name, .. } => facts(&[("Name", text(name)), ("E-mail address", text(email))]),
        Identity::LocalOperator => facts(&[("Operator of this host", text(&visitor.reader.tenant_name))]),
    }
}

fn settings(visitor: &Visitor<'_>, shown: Shown<'_>) -> Markup {
    let themes: Vec<(String, String)> = THEMES.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect();
    let hint = "An IANA name such as Europe/Berlin. Empty: the zone of the browser.";
    html! {
        form.stack method="post" action="/profile" {
            (visitor.tokens())
            input type="hidden" name=(VERSION) value=(visitor.preferences.version);
            (shown.summary())
            (shown.field("time_zone", "Time zone", Control::Input("text"), hint, false))
            (shown.field("theme", "Colors", Control::Choice(&themes), "", true))
            div.actions { button { "Save" } (curl(visitor.visit.base_url, "PATCH", API, Some(&json!({"time_zone": "Europe/Berlin"})))) }
        }
    }
}
