//! The conversation about a ticket and its history, as one list by time.

use maud::{Markup, html};

use super::{
    changes::Teller,
    one::View,
    record::{Author, Comment, Event, History, Names, Ticket},
};
use crate::{
    components::{Tone, avatar, badge},
    desk::records::List,
    moment::Clock,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const PAGE_LENGTH: usize = 100;
const HISTORY_LENGTH: usize = 200;
/// The pages of the history that one page of the conversation reads.
const HISTORY_PAGES: usize = 2;

/// What a page shows of the conversation: the newest entries, or those before a time.
pub(super) struct Conversation {
    entries: Vec<Entry>,
    /// The query of the page with the entries before these.
    older: Option<Query>,
    is_newest: bool,
    /// The log does not have the first events any more.
    is_truncated: bool,
}

struct Entry {
    at: String,
    content: EntryContent,
}

enum EntryContent {
    Comment(Comment),
    Event { actor: Author, sentence: Markup },
}

/// Comments from a cursor on, the newest first.
struct Comments {
    data: Vec<Comment>,
    next: Option<String>,
}

/// Events from a cursor on, the newest first.
struct Events {
    data: Vec<Event>,
    names: Names,
    /// The cursor of the last page that was read; empty for the first one.
    last_page: String,
    next: Option<String>,
    is_truncated: bool,
}

impl Conversation {
    pub(super) async fn read(visitor: &Visitor<'_>, target: &str) -> Result<Self, Refusal> {
        let asked = visitor.query();
        let comments = Comments::read(visitor, target, asked.first("comments")).await?;
        let events = Events::read(visitor, target, asked.first("history"), comments.start()).await?;
        // Times of the API have one form, so their texts have the order of the times. What is older than a gap belongs to the next page.
        let start = comments.start().max(events.start()).map(ToOwned::to_owned);
        let older = start.as_ref().map(|start| {
            let is_before = |at: &str| at < start.as_str();
            let left = |left: bool, this: &str, next: Option<&String>| {
                if left { this.to_owned() } else { next.cloned().unwrap_or_default() }
            };
            let comments_left = comments.data.iter().any(|comment| is_before(&comment.created_at));
            let events_left = events.data.iter().any(|event| is_before(&event.timestamp));
            let way = Query::default().with("before", start);
            let way = way
                .with("comments", &left(comments_left || comments.next.is_none(), asked.first("comments"), comments.next.as_ref()));
            way.with("history", &left(events_left || events.next.is_none(), &events.last_page, events.next.as_ref())).filled()
        });
        let before = asked.first("before");
        let is_shown = |at: &str| start.as_deref().is_none_or(|start| at >= start) && (before.is_empty() || at < before);
        let teller = Teller { names: &events.names, clock: visitor.clock };
        let mut entries: Vec<Entry> = comments.data.into_iter().map(Entry::comment).collect();
        entries.reverse();
        entries.extend(events.data.into_iter().rev().filter_map(|event| Entry::event(event, &teller)));
        entries.retain(|entry| is_shown(&entry.at));
        // The order is stable: a comment comes before the changes that it caused.
        entries.sort_by(|one, other| one.at.cmp(&other.at));
        Ok(Self { entries, older, is_newest: before.is_empty(), is_truncated: events.is_truncated })
    }
}

impl Comments {
    async fn read(visitor: &Visitor<'_>, target: &str, cursor: &str) -> Result<Self, Refusal> {
        let query = Query::default().with("order", "desc").with("limit", &PAGE_LENGTH.to_string()).with("cursor", cursor).filled();
        let list: List<Comment> = visitor.read(query.at(&format!("{target}/comments"))).await?;
        Ok(Self { data: list.data, next: list.page.next_cursor })
    }

    /// The time of the oldest of these comments, if there are older ones.
    fn start(&self) -> Option<&str> {
        self.data.last().filter(|_| self.next.is_some()).map(|comment| comment.created_at.as_str())
    }
}

impl Events {
    /// Reads events until `start`, but at most [`HISTORY_PAGES`] pages.
    async fn read(visitor: &Visitor<'_>, target: &str, cursor: &str, start: Option<&str>) -> Result<Self, Refusal> {
        let query = Query::default().with("order", "desc").with("limit", &HISTORY_LENGTH.to_string());
        let mut found = Self {
            data: Vec::new(),
            names: Names::default(),
            last_page: String::new(),
            next: Some(cursor.to_owned()),
            is_truncated: false,
        };
        for _ in 0..HISTORY_PAGES {
            let Some(cursor) = found.next.take() else { break };
            let history: History =
                visitor.read(query.clone().with("cursor", &cursor).filled().at(&format!("{target}/history"))).await?;
            history.data.iter().filter_map(|event| event.data.ticket.as_ref()).for_each(|snapshot| found.names.learn(snapshot));
            found.data.extend(history.data);
            (found.last_page, found.next, found.is_truncated) = (cursor, history.page.next_cursor, history.truncated);
            let reached = found.data.last().map(|event| event.timestamp.as_str());
            if reached.zip(start).is_some_and(|(reached, start)| reached < start) {
                break;
            }
        }
        Ok(found)
    }

    /// The time of the oldest of these events, if there are older ones.
    fn start(&self) -> Option<&str> {
        self.data.last().filter(|_| self.next.is_some()).map(|event| event.timestamp.as_str())
    }
}

impl Entry {
    fn comment(comment: Comment) -> Self {
        Self { at: comment.created_at.clone(), content: EntryContent::Comment(comment) }
    }

    fn event(event: Event, teller: &Teller<'_>) -> Option<Self> {
        let sentence = teller.sentence(&event)?;
        Some(Self { at: event.timestamp, content: EntryContent::Event { actor: event.actor, sentence } })
    }
}

impl View<'_> {
    pub(super) fn timeline(&self) -> Markup {
        let conversation = self.conversation;
        html! {
            ol.timeline #conversation {
                (self.opening())
                @if let Some(older) = &conversation.older {
                    li.gap { a.button href={ (older.at(&self.path(""))) "#conversation" } rel="prev" { "Earlier" } }
                } @else if conversation.is_truncated {
                    li.gap { p.muted { "The log does not have the oldest changes any more." } }
                }
                @for entry in &conversation.entries {
                    @match &entry.content {
                        EntryContent::Comment(comment) => (self.comment(comment)),
                        EntryContent::Event { actor, sentence } => (event_line(actor, sentence, &entry.at, self.visitor.clock)),
                    }
                }
                @if !conversation.is_newest {
                    li.gap { a.button href={ (self.path("")) "#reply" } rel="next" { "Newest" } }
                }
            }
        }
    }

    /// The description, as the first message.
    fn opening(&self) -> Markup {
        let Ticket { contact, created_by, created_at, description, source, .. } = self.ticket;
        let name = contact.as_ref().map_or(created_by.name.as_str(), |contact| contact.name.as_str());
        html! {
            li.entry.comment {
                (avatar(name))
                div {
                    p.by { strong { (name) } " " span.muted { "via " (source_words(source)) " · " (self.visitor.clock.relative(created_at)) } }
                    @match description {
                        Some(description) => div.text { (description) },
                        None => p.muted { "The ticket has no description." },
                    }
                }
            }
        }
    }

    fn comment(&self, comment: &Comment) -> Markup {
        let Comment { id, body, visibility, contact, created_at, created_by } = comment;
        let name = contact.as_ref().map_or(created_by.name.as_str(), |contact| contact.name.as_str());
        let is_contact = contact.is_some() || self.ticket.contact.as_ref().is_some_and(|contact| contact.id == created_by.id);
        let is_internal = visibility == "internal";
        let (class, tone, word) = match (is_internal, is_contact) {
            (true, _) => ("entry comment internal", Tone::Warn, "Internal note"),
            (false, true) => ("entry comment", Tone::Neutral, "From the customer"),
            (false, false) => ("entry comment public", Tone::Accent, "Public reply"),
        };
        html! {
            li class=(class) id=(id) {
                (avatar(name))
                div {
                    p.by {
                        strong { (name) }
                        @if contact.is_none() && !created_by.role().is_empty() { " " span.muted { (created_by.role()) } }
                        " " (badge(tone, word)) " " span.muted { (self.visitor.clock.relative(created_at)) }
                    }
                    div.text { (body) }
                }
            }
        }
    }
}

fn event_line(actor: &Author, sentence: &Markup, at: &str, clock: &Clock) -> Markup {
    html! {
        li.entry.event {
            span.mark aria-hidden="true" { "•" }
            p {
                strong { (actor.name) }
                @if !actor.role().is_empty() { " (" (actor.role()) ")" }
                @if actor.kind == "system" { ": " } @else { " " }
                (sentence)
                span.muted { " · " (clock.relative(at)) }
            }
        }
    }
}

/// How a ticket came in, after `via`.
fn source_words(source: &str) -> String {
    match source {
        "email" => "email".to_owned(),
        "api" => "the API or the console".to_owned(),
        "portal" => "the portal".to_owned(),
        "backup" => "the backup reports".to_owned(),
        "cloud" => "a cloud provider".to_owned(),
        "workflow" => "a workflow".to_owned(),
        other => other.replace('_', " "),
    }
}
