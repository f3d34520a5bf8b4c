//! The page of a delivery: the request, every attempt with its response, and the form that sends it again.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::{access::Scope, clock::Timestamp};

use super::{
    attempt::{Attempt, result},
    kinds::Event,
    parts::{button, copyable, second},
    record::{Endpoint, disabled_because, endpoint, target},
};
use crate::{
    components::{Tone, badge, card, curl, facts, method, page_head, table, words},
    desk::{
        Content, Reply,
        organizations::{counted, is_correctable, trail},
    },
    form::{Fields, Shown},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

/// The states of a delivery.
pub(super) const STATUSES: [&str; 7] = ["pending", "retrying", "delivered", "exhausted", "aborted", "skipped", "expired"];
/// tenantd shortens a larger body.
const MAX_BODY: usize = 256 << 10;

#[derive(Debug, Deserialize)]
pub(super) struct Delivery {
    pub(super) id: String,
    event_id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) seq: u64,
    status: String,
    pub(super) attempt_count: u32,
    pub(super) last_status: Option<u16>,
    pub(super) last_error: Option<String>,
    skipped_reason: Option<String>,
    pub(super) created_at: String,
    settled_at: Option<String>,
    pub(super) next_attempt_at: Option<String>,
    /// Absent in a list.
    #[serde(default)]
    attempts: Vec<Attempt>,
}

/// A page of the event feed.
#[derive(Debug, Deserialize)]
struct Feed {
    data: Vec<Event>,
}

impl Delivery {
    pub(super) fn badge(&self) -> Markup {
        let tone = match self.status.as_str() {
            "delivered" => Tone::Good,
            "pending" => Tone::Accent,
            "retrying" | "skipped" => Tone::Warn,
            _ => Tone::Bad,
        };
        badge(tone, &words(&self.status))
    }

    /// When the next attempt is due.
    pub(super) fn next(&self, endpoint: &Endpoint, visitor: &Visitor<'_>) -> Markup {
        let Some(at) = &self.next_attempt_at else { return html! { span.muted { "–" } } };
        let is_due = Timestamp::parse(at).is_some_and(|at| at <= visitor.clock.now);
        match endpoint.status.as_str() {
            "active" if is_due => html! { "Due" },
            "active" => visitor.clock.relative(at),
            _ => html! { "Waits for the endpoint" },
        }
    }

    /// What the state means, in a sentence.
    fn meaning(&self) -> String {
        match self.status.as_str() {
            "pending" => "The delivery waits for its next attempt.".to_owned(),
            "retrying" => "The last attempt failed. tenantd retries by the schedule of the endpoint.".to_owned(),
            "delivered" => "The receiver accepted the event.".to_owned(),
            "exhausted" => "All attempts failed. Correct the receiver, then redeliver.".to_owned(),
            "aborted" => "The receiver asked tenantd to give up this event.".to_owned(),
            "skipped" => {
                let reason = self.skipped_reason.as_deref().map(disabled_because).unwrap_or_default();
                format!("tenantd did not send the event. {reason}")
            }
            "expired" => "tenantd gave up, because too many deliveries waited or the event was past its retention.".to_owned(),
            other => words(other),
        }
    }
}

/// The delivery that the path names, in the API.
fn api(visitor: &Visitor<'_>) -> String {
    format!("{}/deliveries/{}", target(visitor), segment(visitor.part("delivery")))
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

pub(super) async fn redeliver(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    match visitor.act(Method::POST, format!("{}/redeliver", api(&visitor)), None).await {
        Ok(_) => {
            let (id, delivery) = (segment(visitor.part("id")), segment(visitor.part("delivery")));
            Ok(Reply::SeeOther(format!("{}/{id}/deliveries/{delivery}", super::PATH)))
        }
        Err(refusal) if is_correctable(&refusal) => page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(visitor).await?;
    let delivery: Delivery = visitor.read(api(visitor)).await?;
    let event = event(&delivery, visitor).await?;
    let log = format!("{}/deliveries", endpoint.path());
    let body = html! {
        (trail(&[(super::PATH, "Webhooks"), (endpoint.path().as_str(), endpoint.name.as_str()), (log.as_str(), "Deliveries")]))
        (head(&delivery, &log, visitor))
        (Shown { fields: &Fields::default(), refusal }.summary())
        div.split {
            div {
                (card("Attempts", &attempts(&delivery, visitor)))
                (card("Request", &request(&endpoint, &delivery, event.as_ref())))
            }
            div {
                @if visitor.may(Scope::WebhooksWrite) { (card("Send it again", &again(&delivery, &log, visitor))) }
                (card("Details", &details(&endpoint, &delivery, visitor)))
            }
        }
    };
    let content = Content::new(format!("Delivery of {}", delivery.kind), body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

/// The event in the feed; nothing if the reader may not read it, or if it is past its retention.
async fn event(delivery: &Delivery, visitor: &Visitor<'_>) -> Result<Option<Event>, Refusal> {
    if !visitor.may(Scope::EventsRead) {
        return Ok(None);
    }
    let after = delivery.seq.saturating_sub(1);
    let feed: Option<Feed> = visitor.read_if_allowed(format!("/api/events?after={after}&limit=1")).await?;
    Ok(feed.and_then(|feed| feed.data.into_iter().find(|event| event.id == delivery.event_id)))
}

fn head(delivery: &Delivery, log: &str, visitor: &Visitor<'_>) -> Markup {
    let (api, path) = (api(visitor), format!("{log}/{}", segment(&delivery.id)));
    page_head(
        &html! { (delivery.kind) },
        &html! { (delivery.badge()) " " (delivery.meaning()) },
        &html! {
            a.button href=(path) { "Reload" }
            (curl(visitor.visit.base_url, "GET", &api, None))
        },
    )
}

fn again(delivery: &Delivery, log: &str, visitor: &Visitor<'_>) -> Markup {
    let action = format!("{log}/{}/redeliver", segment(&delivery.id));
    html! {
        p { "Sends the event now, in any state of the delivery, and starts the retry schedule again. The event keeps its ID." }
        div.actions {
            (button(visitor, &action, "primary", "Redeliver"))
            (curl(visitor.visit.base_url, "POST", &format!("{}/redeliver", api(visitor)), None))
        }
    }
}

fn attempts(delivery: &Delivery, visitor: &Visitor<'_>) -> Markup {
    let (kept, made) = (delivery.attempts.len() as u64, u64::from(delivery.attempt_count));
    html! {
        @if delivery.attempts.is_empty() {
            p.muted { "No attempt yet." }
        } @else {
            ul.lines {
                @for (place, attempt) in delivery.attempts.iter().rev().enumerate() {
                    li { (attempt.folded(place == 0, visitor.clock)) }
                }
            }
        }
        @if made > kept { p.muted { "tenantd keeps the newest " (kept) " of " (counted(made, "attempt", "attempts")) "." } }
    }
}

fn details(endpoint: &Endpoint, delivery: &Delivery, visitor: &Visitor<'_>) -> Markup {
    let catalog = Query::default().with("q", &delivery.kind).at(&format!("{}/events", super::PATH));
    let time = |text: Option<&str>| text.map(|text| second(text, visitor.clock));
    facts(&[
        ("Delivery", Some(html! { code { (delivery.id) } })),
        ("Event", Some(html! { code { (delivery.event_id) } })),
        ("Kind", Some(html! { a href=(catalog) { (delivery.kind) } })),
        ("Number", Some(html! { (delivery.seq) })),
        ("Last response", Some(result(delivery.last_status, delivery.last_error.as_deref()))),
        ("Attempts", Some(html! { (delivery.attempt_count) })),
        ("Happened", time(Some(&delivery.created_at))),
        ("Next attempt", delivery.next_attempt_at.as_ref().map(|_| delivery.next(endpoint, visitor))),
        ("Finished", time(delivery.settled_at.as_deref())),
    ])
}

/// The request as the receiver gets it. tenantd keeps neither signatures nor the values of custom headers in clear text.
fn request(endpoint: &Endpoint, delivery: &Delivery, event: Option<&Event>) -> Markup {
    let newest = delivery.attempts.last().and_then(|attempt| Timestamp::parse(&attempt.started_at));
    let started = newest.map_or_else(|| "the seconds of its start since 1970".to_owned(), |at| at.as_seconds().to_string());
    let mut headers = vec![
        ("content-type".to_owned(), html! { code { "application/json" } }),
        ("user-agent".to_owned(), html! { code { "tenantd/" (env!("CARGO_PKG_VERSION")) } }),
        ("webhook-id".to_owned(), html! { code { (delivery.event_id) } " the same for every attempt" }),
        ("webhook-timestamp".to_owned(), html! { code { (started) } " new for every attempt" }),
        ("webhook-signature".to_owned(), html! { code { "v1,…" } " new for every attempt, not stored" }),
    ];
    headers.extend(endpoint.header_names.iter().map(|name| (name.clone(), html! { span.muted { "value hidden" } })));
    let rows: Vec<Vec<Markup>> = headers.into_iter().map(|(name, value)| vec![html! { code { (name) } }, value]).collect();
    html! {
        p { (method("POST")) " " code { (endpoint.url) } }
        (table("Headers of the request", &["Header", "Value"], &rows))
        @match event {
            Some(event) => {
                p.muted { "Body, with line breaks for reading. The receiver gets it without them." }
                @if event.size() > MAX_BODY { p.note { "The receiver gets a shortened body, because this one has more than 256 KiB." } }
                (copyable("json", &event.pretty()))
            }
            None => { p.muted { "The body is not shown: you may not read the event, or it is past its retention." } }
        }
    }
}
