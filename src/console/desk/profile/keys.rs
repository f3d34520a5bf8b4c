//! The personal API keys of the reader: a list with buttons that revoke one, and the form that creates one.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use tenantd_base::access::{Grants, Identity};

use crate::{
    components::{Tone, badge, card, curl, empty, page_head, words},
    desk::{
        Content, Reply,
        organizations::{RecordForm, is_correctable, trail},
        records::List,
        settings::{scopes, shown_once},
    },
    form::{Control, Fields, Shown},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) const PATH: &str = "/profile/keys";
const API: &str = "/api/auth/own-keys";
const NEW: &str = "/profile/keys/new";

#[derive(Debug, Deserialize)]
struct Key {
    id: String,
    name: String,
    prefix: String,
    last_four: String,
    scopes: Vec<String>,
    status: String,
    expires_at: String,
    last_used_at: Option<String>,
}

impl Key {
    fn badge(&self) -> Markup {
        let tone = match self.status.as_str() {
            "active" => Tone::Good,
            "expiring" => Tone::Warn,
            "expired" | "revoked" => Tone::Bad,
            _ => Tone::Neutral,
        };
        badge(tone, &words(&self.status))
    }

    fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "expired" | "revoked")
    }
}

fn is_person(visitor: &Visitor<'_>) -> bool {
    matches!(visitor.reader.identity, Identity::User { .. })
}

/// The page for an API key, which has no keys of its own.
fn for_programs() -> Reply {
    let body = html! { h1 { "Your API keys" } (empty("Only people have personal API keys.")) };
    Reply::Page(Content::new("Your API keys", body))
}

/// What leads from the profile to the keys.
pub(super) fn link() -> Markup {
    card(
        "API keys",
        &html! {
            p { "A personal key lets your own scripts act for you, with no more than your rights." }
            div.actions { a.button href=(PATH) { "Your API keys" } }
        },
    )
}

pub(crate) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    if !is_person(&visitor) {
        return Ok(for_programs());
    }
    let target = format!("{API}?limit=200");
    let keys = visitor.read::<List<Key>>(&target).await?.data;
    let body = html! {
        (trail(&[("/profile", "Your profile")]))
        (page_head(
            &html! { "Your API keys" },
            &html! { "They act for you, with no more than the rights that you have at that moment." },
            &html! { (curl(visitor.visit.base_url, "GET", &target, None)) a.button.primary href=(NEW) { "New key" } },
        ))
        @if keys.is_empty() { (empty("You have no personal API keys.")) } @else { (table(&keys, &visitor)) }
    };
    Ok(Reply::Page(Content::new("Your API keys", body)))
}

fn table(keys: &[Key], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Your API keys" {
            table.list {
                thead { tr { @for head in ["Name", "State", "Scopes", "Last used", "Expires", ""] { th scope="col" { (head) } } } }
                tbody {
                    @for key in keys {
                        tr {
                            td.main { (key.name) br; code { (key.prefix) "…" (key.last_four) } }
                            td { (key.badge()) }
                            td.name { (scopes::summary(&key.scopes)) }
                            td.time {
                                @match &key.last_used_at {
                                    Some(time) => { (visitor.clock.relative(time)) }
                                    None => { span.muted { "Never used" } }
                                }
                            }
                            td.time { (visitor.clock.relative(&key.expires_at)) }
                            td {
                                @if !key.has_ended() {
                                    form method="post" action={ (PATH) "/" (key.id) "/revoke" } {
                                        (visitor.tokens())
                                        button.quiet.danger aria-label={ "Revoke the key " (key.name) } { "Revoke" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(crate) async fn revoke(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    visitor.act(Method::DELETE, format!("{API}/{}", segment(visitor.part("id"))), None).await?;
    Ok(Reply::SeeOther(PATH.to_owned()))
}

pub(crate) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    if !is_person(&visitor) {
        return Ok(for_programs());
    }
    let chosen = scopes::asked(&visitor.query(), offered(&visitor));
    let fields = Fields::new(&scopes::fields(chosen).collect::<Vec<_>>());
    Ok(new_page(&visitor, &fields, None))
}

pub(crate) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    match visitor.act(Method::POST, API, Some(Value::Object(body(&fields)))).await {
        Ok(answer) => {
            let more = html! { div.actions { a.button href=(PATH) { "Your API keys" } } };
            shown_once(&visitor, &answer.body, (&trail(&[("/profile", "Your profile"), (PATH, "API keys")]), &more))
        }
        Err(refusal) if is_correctable(&refusal) => Ok(new_page(&visitor, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

/// A personal key never has the scopes over credentials.
fn offered(visitor: &Visitor<'_>) -> Grants {
    visitor.reader.grants.without(Grants::OVER_CREDENTIALS)
}

fn body(fields: &Fields) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("name".to_owned(), fields.get("name").into());
    body.insert(scopes::FIELD.to_owned(), fields.all(scopes::FIELD).into());
    let days = fields.get("expires_days");
    if !days.is_empty() {
        // The API says what is wrong with text that is no number.
        body.insert("expires_days".to_owned(), days.parse::<u32>().map_or_else(|_| days.into(), Value::from));
    }
    let networks = fields.words("allowed_ips");
    if !networks.is_empty() {
        body.insert("allowed_ips".to_owned(), networks.into());
    }
    body
}

fn new_page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let example = json!({"name": "Laptop", "scopes": ["tickets:read"], "expires_days": 30});
    let form = RecordForm {
        title: "New personal API key".to_owned(),
        below: "For a script of your own. The next page shows the key, once.",
        trail: trail(&[("/profile", "Your profile"), (PATH, "API keys")]),
        action: NEW.to_owned(),
        cancel: PATH.to_owned(),
        button: "Create key",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", API, Some(&example)),
    };
    let shown = Shown { fields, refusal };
    let networks =
        "The addresses and networks from which the key works, with commas between them, such as 203.0.113.0/24. Empty: any.";
    let hint = "What the key may do, as long as you may do it too.";
    let inputs = html! {
        p.hint { "Begin with a set of scopes:" }
        (scopes::presets(NEW, scopes::chosen(fields), offered(visitor)))
        (shown.field("name", "Name", Control::Input("text"), "What you recognize the key by.", true))
        (shown.field("expires_days", "Days until it expires", Control::Input("number"), "Empty: the default of the operator, at first 90.", false))
        (scopes::picker(shown, offered(visitor), hint))
        (shown.field("allowed_ips", "Networks", Control::Input("text"), networks, false))
    };
    form.page(visitor, shown, &inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_without_limits_asks_for_none() {
        let pairs = [("name", "Laptop"), ("scopes", "tickets:read"), ("expires_days", ""), ("allowed_ips", " ")];
        let fields = Fields::new(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(Value::Object(body(&fields)), json!({"name": "Laptop", "scopes": ["tickets:read"]}));
        let mut fields = fields;
        fields.set("expires_days", "soon");
        fields.set("allowed_ips", "10.0.0.0/8, ::1");
        let expected =
            json!({"name": "Laptop", "scopes": ["tickets:read"], "expires_days": "soon", "allowed_ips": ["10.0.0.0/8", "::1"]});
        assert_eq!(Value::Object(body(&fields)), expected);
    }
}
