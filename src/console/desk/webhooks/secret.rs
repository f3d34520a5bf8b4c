//! The signing secret: shown once after the creation or a rotation, with code that verifies deliveries.

use http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    PATH,
    body::number,
    parts::{copyable, second},
    record::{Endpoint, endpoint},
};
use crate::{
    components::{card, curl, facts, page_head},
    desk::{
        Content, Reply,
        organizations::{RecordForm, is_correctable, trail},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// Code that verifies a delivery: the language, its name in a code block, and the code.
const SNIPPETS: [(&str, &str, &str); 5] = [
    ("Python", "python", include_str!("snippets/python.txt")),
    ("Node", "js", include_str!("snippets/node.txt")),
    ("Go", "go", include_str!("snippets/go.txt")),
    ("Rust", "rust", include_str!("snippets/rust.txt")),
    ("PHP", "php", include_str!("snippets/php.txt")),
];
const GRACES: [(&str, &str); 4] =
    [("0", "Not at all: the old secret is no longer used"), ("3600", "One hour"), ("86400", "One day"), ("604800", "One week")];

/// The page with a new secret. It answers the form itself, so that the secret is in no URL.
pub(super) fn page(visitor: &Visitor<'_>, endpoint: &Endpoint, secret: &str, title: &str) -> Reply {
    let body = html! {
        (endpoint.trail())
        (page_head(
            &html! { (title) },
            &html! { "Deliveries to " code { (endpoint.url) } " are signed with this secret." },
            &html! { a.button.primary href=(endpoint.path()) { "Go to the endpoint" } },
        ))
        p.note role="status" { strong { "Copy the secret now. " } "tenantd does not show it again." }
        (card("Signing secret", &html! {
            div {
                pre tabindex="0" role="group" aria-label="Signing secret" { code { (secret) } }
                button type="button" class="quiet" data-copy hidden { "Copy" }
            }
            (facts(&[
                ("Old secret until", endpoint.previous_secret_expires_at.as_deref().map(|at| second(at, visitor.clock))),
            ]))
        }))
        (card("Verify deliveries", &snippets()))
    };
    Reply::Page(Content::new(title, body).with_secret())
}

/// The page with the code that verifies deliveries.
pub(super) async fn show_snippets(_visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let body = html! {
        (trail(&[(PATH, "Webhooks")]))
        (page_head(
            &html! { "Verify deliveries" },
            &html! { "Deliveries follow Standard Webhooks 1.0.0. Its official libraries verify them too." },
            &html! { a.button href="/documentation/guides/webhooks/" { "Guide" } },
        ))
        (card("Headers", &html! {
            (facts(&[
                ("webhook-id", Some(html! { "The ID of the event. It stays the same for every attempt: drop an event that you already have." })),
                ("webhook-timestamp", Some(html! { "The start of the attempt in seconds since 1970. Refuse a delivery that is more than five minutes old." })),
                ("webhook-signature", Some(html! {
                    code { "v1," } " and the base64 HMAC-SHA256 of " code { "id.timestamp.body" }
                    ". During a rotation there are two, with a space between them."
                })),
            ]))
        }))
        (card("Code", &snippets()))
    };
    Ok(Reply::Page(Content::new("Verify deliveries", body)))
}

fn snippets() -> Markup {
    html! {
        p { "Put the secret into the environment variable " code { "WEBHOOK_SECRET" } " of your receiver. Answer with a status from 200 to 299." }
        @for (place, (name, language, code)) in SNIPPETS.iter().enumerate() {
            details open[place == 0] {
                summary { (name) }
                (copyable(language, code))
            }
        }
    }
}

pub(super) async fn show_rotation(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    let mut fields = Fields::default();
    fields.set("grace_seconds", "86400");
    Ok(rotation(&visitor, &endpoint, &fields, None))
}

pub(super) async fn rotate(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    let fields = visitor.fields();
    let grace = json!({"grace_seconds": number(fields.get("grace_seconds"))});
    match visitor.act(Method::POST, format!("{}/rotate-secret", endpoint.api()), Some(grace)).await {
        Ok(answer) => {
            let secret = answer.body.get("secret").and_then(Value::as_str).unwrap_or_default().to_owned();
            let rotated: Endpoint = parsed(answer.body)?;
            Ok(page(&visitor, &rotated, &secret, &format!("New secret of {}", rotated.name)))
        }
        Err(refusal) if is_correctable(&refusal) => Ok(rotation(&visitor, &endpoint, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn rotation(visitor: &Visitor<'_>, endpoint: &Endpoint, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let graces = GRACES.map(|(value, words)| (value.to_owned(), words.to_owned()));
    let target = format!("{}/rotate-secret", endpoint.api());
    let form = RecordForm {
        title: format!("Rotate the secret of {}", endpoint.name),
        below: "Replaces the signing secret. The next page shows the new one, once.",
        trail: endpoint.trail(),
        action: format!("{}/rotate", endpoint.path()),
        cancel: endpoint.path(),
        button: "Rotate the secret",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", &target, Some(&json!({"grace_seconds": 86_400}))),
    };
    let shown = Shown { fields, refusal };
    let hint = "For this time deliveries carry both signatures, so that you can replace the secret without a gap.";
    let inputs = shown.field("grace_seconds", "Keep the old secret for", Control::Choice(&graces), hint, true);
    form.page(visitor, shown, &inputs)
}
