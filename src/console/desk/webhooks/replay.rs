//! Sends past events again: the form for a range, and the progress.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    body::number,
    parts::{instant, local},
    record::{Endpoint, endpoint},
};
use crate::{
    components::{Tone, badge, bar, card, curl, facts, page_head, words},
    desk::{
        Content, Reply,
        organizations::{RecordForm, counted, is_correctable},
    },
    form::{Control, Fields, Shown},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

const ONLY: [(&str, &str); 3] = [
    ("missing", "Missing: skipped or never tried"),
    ("failed", "Failed: exhausted, aborted or expired"),
    ("all", "All, also those that were delivered"),
];

#[derive(Debug, Deserialize)]
struct Replay {
    id: String,
    status: String,
    progress: u32,
    from_seq: u64,
    to_seq: u64,
    since: Option<String>,
    until: Option<String>,
    only: String,
    queued: u64,
    created_at: String,
    updated_at: String,
}

#[derive(Debug, Deserialize)]
struct Feed {
    data: Vec<Event>,
}

/// An event of the feed.
#[derive(Debug, Deserialize)]
struct Event {
    seq: u64,
    timestamp: String,
}

/// The form. The URL can have its values, such as those of the events that a disabled endpoint missed.
pub(super) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    let query = visitor.query();
    let mut fields = Fields::default();
    for name in ["from_seq", "to_seq"] {
        fields.set(name, query.first(name));
    }
    for name in ["since", "until"] {
        fields.set(name, local(query.first(name), visitor.clock));
    }
    fields.set("only", query.clone().or("only", "failed").first("only"));
    Ok(page(&visitor, &endpoint, &fields, None).await)
}

pub(super) async fn start(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    let fields = visitor.fields();
    let range = range(&fields, &visitor);
    match visitor.act(Method::POST, format!("{}/replay", endpoint.api()), Some(range)).await {
        Ok(answer) => {
            let id = answer.body.get("id").and_then(Value::as_str).unwrap_or_default();
            Ok(Reply::SeeOther(format!("{}/replays/{}", endpoint.path(), segment(id))))
        }
        Err(refusal) if is_correctable(&refusal) => Ok(page(&visitor, &endpoint, &fields, Some(&refusal)).await),
        Err(refusal) => Err(refusal),
    }
}

/// The events that the form asks for.
fn range(fields: &Fields, visitor: &Visitor<'_>) -> Value {
    let mut range: Map<String, Value> = fields.filled(&["only"]);
    for name in ["from_seq", "to_seq"].into_iter().filter(|name| !fields.get(name).is_empty()) {
        range.insert(name.to_owned(), number(fields.get(name)));
    }
    for name in ["since", "until"].into_iter().filter(|name| !fields.get(name).is_empty()) {
        range.insert(name.to_owned(), instant(fields.get(name), visitor.clock).into());
    }
    Value::Object(range)
}

/// The oldest event that can be sent again. `None` if the reader may not see it, or if there is none.
async fn oldest_event(visitor: &Visitor<'_>) -> Option<Event> {
    let found: Option<Feed> = visitor.read_if_allowed("/api/events?limit=1").await.ok()?;
    found?.data.into_iter().next()
}

async fn page(visitor: &Visitor<'_>, endpoint: &Endpoint, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let missed = visitor.query().first("missed").parse::<u64>().ok().filter(|missed| *missed > 0);
    let example = json!({"only": "failed", "since": "2026-01-31T09:30:00Z"});
    let form = RecordForm {
        title: format!("Replay events to {}", endpoint.name),
        below: "tenantd sends past events again, in the background. Only events that you and the owner of the endpoint may read are sent.",
        trail: endpoint.trail(),
        action: format!("{}/replay", endpoint.path()),
        cancel: endpoint.path(),
        button: "Start the replay",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", &format!("{}/replay", endpoint.api()), Some(&example)),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        @if let Some(missed) = missed {
            p.note role="status" {
                "The endpoint is enabled. It missed " (counted(missed, "event", "events")) " while it was disabled. Send them now, or cancel."
            }
        }
        p.hint {
            "An endpoint has at most four replays that are not finished. "
            @match oldest_event(visitor).await {
                Some(event) => { "The oldest event that tenantd still has is number " (event.seq) " of " (visitor.clock.absolute(&event.timestamp)) "." }
                None => { "Events past their retention are gone." }
            }
        }
        (inputs(shown))
    };
    form.page(visitor, shown, &inputs)
}

fn inputs(shown: Shown<'_>) -> Markup {
    let only = ONLY.map(|(value, words)| (value.to_owned(), words.to_owned()));
    let time = Control::Input("datetime-local");
    let number = Control::Input("number");
    html! {
        (shown.field("only", "Which events", Control::Choice(&only), "By the state of their deliveries.", true))
        (shown.field("since", "From", time, "In your time zone. Enter this or the number of the first event.", false))
        (shown.field("from_seq", "Number of the first event", number, "The delivery log shows the number of each event.", false))
        (shown.field("until", "Until", time, "Leave it empty to send everything up to now.", false))
        (shown.field("to_seq", "Number of the last event", number, "Enter this or a time, not both.", false))
    }
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    let target = format!("{}/replays/{}", endpoint.api(), segment(visitor.part("operation")));
    let replay: Replay = visitor.read(&target).await?;
    let path = format!("{}/replays/{}", endpoint.path(), segment(&replay.id));
    let body = html! {
        (endpoint.trail())
        (page_head(
            &html! { "Replay to " (endpoint.name) },
            &html! { (replay.badge()) " started " (visitor.clock.relative(&replay.created_at)) },
            &html! {
                @if !replay.is_finished() { a.button.primary href=(path) { "Show the progress now" } }
                (curl(visitor.visit.base_url, "GET", &target, None))
            },
        ))
        (card("Progress", &replay.progress(&endpoint, &visitor)))
    };
    Ok(Reply::Page(Content::new(format!("Replay to {}", endpoint.name), body)))
}

impl Replay {
    fn is_finished(&self) -> bool {
        matches!(self.status.as_str(), "succeeded" | "cancelled")
    }

    /// The events that are examined.
    fn range(&self) -> u64 {
        (self.to_seq + 1).saturating_sub(self.from_seq)
    }

    fn badge(&self) -> Markup {
        match self.status.as_str() {
            "succeeded" => badge(Tone::Good, "Finished"),
            "cancelled" => badge(Tone::Warn, "Canceled"),
            other => badge(Tone::Accent, &words(other)),
        }
    }

    fn progress(&self, endpoint: &Endpoint, visitor: &Visitor<'_>) -> Markup {
        let only = ONLY.iter().find(|(value, _)| *value == self.only).map_or(self.only.as_str(), |(_, words)| words);
        let waiting = Query::default().with("status", "pending,retrying").at(&format!("{}/deliveries", endpoint.path()));
        html! {
            p { (bar(self.progress, if self.is_finished() { Tone::Good } else { Tone::Accent }, &format!("{} % of the events examined", self.progress))) }
            (facts(&[
                ("Queued", Some(html! { (counted(self.queued, "delivery", "deliveries")) })),
                ("Range", Some(html! { "Numbers " (self.from_seq) " to " (self.to_seq) ", " (counted(self.range(), "event", "events")) })),
                ("From", self.since.as_deref().map(|time| visitor.clock.absolute(time))),
                ("Until", self.until.as_deref().map(|time| visitor.clock.absolute(time))),
                ("Which", Some(html! { (only) })),
                ("Changed", Some(visitor.clock.relative(&self.updated_at))),
            ]))
            @if !self.is_finished() { p.muted { "This page shows the progress at the time when you open it." } }
            p { "tenantd sends the queued deliveries in the background. The delivery log shows which of them still wait." }
            div.actions {
                a.button href=(waiting) { "Waiting deliveries" }
                a.button href=(endpoint.path()) { "Back to the endpoint" }
            }
        }
    }
}
