//! The page that shows a key once, after it was created or rotated.

use maud::{Markup, html};
use serde_json::Value;

use super::{Key, PATH};
use crate::{
    components::{card, code_block, page_head},
    desk::{Content, Reply, settings::parts::with_copy},
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// The page with a new key of the tenant, or with a rotated one.
pub(super) fn page(visitor: &Visitor<'_>, answer: Value, title: &str) -> Result<Reply, Refusal> {
    let secret = plaintext(&answer).to_owned();
    let key: Key = parsed(answer)?;
    let body = html! {
        (key.trail())
        (page_head(&html! { (title) }, &html! { (key.name) " expires " (visitor.clock.relative(&key.expires_at)) }, &html! {}))
        (once(&secret))
        @if let Some(until) = &key.previous_expires_at {
            p.note { "The old key works until " (visitor.clock.absolute(until)) ". Give the new one to the program before." }
        }
        (example(visitor, &secret, key.allowed_ips.as_deref()))
        div.actions { a.button.primary href=(key.path()) { "Open the key" } a.button href=(PATH) { "All keys" } }
    };
    Ok(Reply::Page(Content::new(title, body).with_secret()))
}

/// The page with a new key of a person. `around` is what comes before and after the key.
pub(crate) fn shown_once(visitor: &Visitor<'_>, answer: &Value, around: (&Markup, &Markup)) -> Result<Reply, Refusal> {
    let networks: Option<Vec<String>> = parsed(answer.get("allowed_ips").cloned().unwrap_or_default())?;
    let secret = plaintext(answer);
    let body = html! {
        (around.0)
        (page_head(&html! { "Key created" }, &html! {}, &html! {}))
        (once(secret))
        (example(visitor, secret, networks.as_deref()))
        (around.1)
    };
    Ok(Reply::Page(Content::new("Key created", body).with_secret()))
}

fn plaintext(answer: &Value) -> &str {
    answer.get("key").and_then(Value::as_str).unwrap_or_default()
}

fn once(secret: &str) -> Markup {
    html! {
        div.note role="status" {
            p { strong { "Copy the key now. It is not shown again." } }
            (with_copy(secret))
            p { "Keep it where the program reads its secrets, never in its code." }
        }
    }
}

/// A request that every key may make.
fn example(visitor: &Visitor<'_>, secret: &str, networks: Option<&[String]>) -> Markup {
    let body = html! {
        p { "The answer says who the key is and what it may do. All " strong { "Copy as curl" } " lines of the console read the key from the same variable." }
        div { (code_block("sh", &lines(visitor.visit.base_url, secret))) button.quiet type="button" data-copy hidden { "Copy" } }
        @if let Some(networks) = networks { p.muted { "The key works only from " (networks.join(", ")) "." } }
    };
    card("Try it", &body)
}

fn lines(base_url: &str, secret: &str) -> String {
    format!("export TENANTD_KEY='{secret}'\ncurl -H \"Authorization: Bearer $TENANTD_KEY\" '{base_url}/api/auth/session'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_sets_the_variable_that_it_uses() {
        let expected = "export TENANTD_KEY='tck_live_a'\ncurl -H \"Authorization: Bearer $TENANTD_KEY\" 'http://localhost:8472/api/auth/session'";
        assert_eq!(lines("http://localhost:8472", "tck_live_a"), expected);
    }
}
