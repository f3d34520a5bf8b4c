//! Sends a test to an endpoint and shows the response.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    attempt::Attempt,
    parts::button,
    record::{Endpoint, endpoint},
};
use crate::{
    components::{Tone, badge, card, curl, page_head},
    desk::{Content, Reply, organizations::is_correctable},
    form::{Fields, Shown},
    query::Query,
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// The result of a test.
#[derive(Debug, Deserialize)]
struct Test {
    succeeded: bool,
    message: String,
    #[serde(flatten)]
    attempt: Attempt,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    let body = html! { p { "Send a test to see how the receiver responds." } };
    Ok(Reply::Page(page(&visitor, &endpoint, None, &body)))
}

pub(super) async fn send(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    match visitor.act(Method::POST, format!("{}/test", endpoint.api()), None).await {
        Ok(answer) => {
            let test: Test = parsed(answer.body)?;
            Ok(Reply::Page(page(&visitor, &endpoint, None, &response(&test, &endpoint, &visitor))))
        }
        Err(refusal) if is_correctable(&refusal) => {
            let content = page(&visitor, &endpoint, Some(&refusal), &html! {});
            Ok(Reply::Page(content.refused(&refusal)))
        }
        Err(refusal) => Err(refusal),
    }
}

fn page(visitor: &Visitor<'_>, endpoint: &Endpoint, refusal: Option<&Refusal>, below: &Markup) -> Content {
    let title = format!("Test of {}", endpoint.name);
    let body = html! {
        (endpoint.trail())
        (page_head(
            &html! { (title) },
            &html! { "Sends the event " code { "webhook.test" } " once, like a delivery. A failed test does not count against the endpoint." },
            &html! {
                (curl(visitor.visit.base_url, "POST", &format!("{}/test", endpoint.api()), None))
                (button(visitor, &format!("{}/test", endpoint.path()), "primary", "Send a test"))
            },
        ))
        (Shown { fields: &Fields::default(), refusal }.summary())
        (below)
    };
    Content::new(title, body)
}

fn response(test: &Test, endpoint: &Endpoint, visitor: &Visitor<'_>) -> Markup {
    let outcome = if test.succeeded { badge(Tone::Good, "Succeeded") } else { badge(Tone::Bad, "Failed") };
    let log = Query::default().with("type", "webhook.test").at(&format!("{}/deliveries", endpoint.path()));
    html! {
        div role="status" { p { (outcome) " " strong { (test.message) } } }
        (card("Attempt", &test.attempt.show(visitor.clock)))
        div.actions {
            a.button href=(log) { "Tests in the delivery log" }
            a.button href=(endpoint.path()) { "Back to the endpoint" }
        }
    }
}
