//! The reader's own profile: who they are, what they may do, their time zone, the look, and their sessions.

use http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use tenantd_base::access::Identity;

use super::{Content, Reply};
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
    Ok(page(&visitor, &fields, None))
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let body = Value::Object(fields.patch(&["time_zone", "theme"]));
    match visitor.act(Method::PATCH, API, Some(body)).await {
        Ok(_) => Ok(Reply::SeeOther("/profile?saved=true".to_owned())),
        Err(refusal) if refusal.status.is_client_error() => Ok(page(&visitor, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let body = html! {
        (page_head(&html! { (visitor.name()) }, &html! { (visitor.reader.tenant_name) }, &curl(visitor.visit.base_url, "GET", "/api/auth/session", None)))
        @if visitor.query().first("saved") == "true" { p.note role="status" { "Your settings are saved." } }
        (card("You", &who(visitor)))
        @if matches!(visitor.reader.identity, Identity::User { .. }) { (card("How pages look", &settings(visitor, Shown { fields, refusal }))) }
        (card("What you may do", &html! {
            p { "Your role and the operator decide this. " a href="/documentation/scopes/" { "What each scope permits" } }
            p.badges { @for scope in visitor.reader.grants.iter() { (badge(Tone::Neutral, scope.name())) " " } }
        }))
    };
    let content = Content::new("Profile", body);
    Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    })
}

fn who(visitor: &Visitor<'_>) -> Markup {
    let text = |text: &str| Some(html! { (text) });
    match &visitor.reader.identity {
        Identity::User { email, name, role, .. } => facts(&[
            ("Name", text(name)),
            ("E-mail address", text(email)),
            ("Role", text(role.name())),
            ("Tenant", text(&visitor.reader.tenant_name)),
        ]),
        Identity::ApiKey { name, .. } => facts(&[("API key", text(name)), ("Tenant", text(&visitor.reader.tenant_name))]),
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
