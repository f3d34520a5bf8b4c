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

/// The comments of one page of the API.
const PAGE_LENGTH: &str = "100";
const HISTORY_LENGTH: &str = "200";

/// What a page shows of the conversation. A long conversation has several pages, numbered from the oldest.
pub(super) struct Conversation {
    entries: Vec<Entry>,
    older: Option<usize>,
    newer: Option<usize>,
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

/// Comments that follow each other, the oldest first.
struct Comments {
    data: Vec<Comment>,
    older: Option<usize>,
    newer: Option<usize>,
}

impl Conversation {
    /// Reads a page of the conversation; the newest unless the reader asks for another.
    pub(super) async fn read(visitor: &Visitor<'_>, target: &str) -> Result<Self, Refusal> {
        let asked: Option<usize> = visitor.query().first("page").parse().ok().filter(|page| *page > 0);
        let Comments { data, older, newer } = comments(visitor, &format!("{target}/comments"), asked).await?;
        let from = data.first().filter(|_| older.is_some()).map(|comment| comment.created_at.as_str());
        let to = data.last().filter(|_| newer.is_some()).map(|comment| comment.created_at.as_str());
        let (events, names, is_truncated) = events(visitor, &format!("{target}/history"), from, to).await?;
        let teller = Teller { names: &names, clock: visitor.clock };
        let mut entries: Vec<Entry> = data.into_iter().map(Entry::comment).collect();
        entries.extend(events.into_iter().filter_map(|event| Entry::event(event, &teller)));
        // The order is stable: a comment comes before the changes that it caused.
        entries.sort_by(|one, other| one.at.cmp(&other.at));
        Ok(Self { entries, older, newer, is_truncated })
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

/// The page of comments that was asked for, or the newest two.
async fn comments(visitor: &Visitor<'_>, target: &str, asked: Option<usize>) -> Result<Comments, Refusal> {
    let mut before: Vec<Comment> = Vec::new();
    let mut query = Query::default().with("limit", PAGE_LENGTH);
    let mut number: usize = 1;
    loop {
        let list: List<Comment> = visitor.read(query.at(target)).await?;
        let older = |first: usize| (first > 1).then(|| first - 1);
        match list.page.next_cursor {
            None => {
                before.extend(list.data);
                return Ok(Comments { data: before, older: older(number.saturating_sub(1)), newer: None });
            }
            Some(_) if asked == Some(number) => {
                return Ok(Comments { data: list.data, older: older(number), newer: Some(number + 1) });
            }
            Some(next) => query = query.with("cursor", &next),
        }
        before = list.data;
        number += 1;
    }
}

/// The events between two times, the names of the records in them, and whether the log has lost older events.
async fn events(
    visitor: &Visitor<'_>,
    target: &str,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<(Vec<Event>, Names, bool), Refusal> {
    let (mut events, mut names) = (Vec::new(), Names::default());
    let mut query = Query::default().with("limit", HISTORY_LENGTH);
    loop {
        let history: History = visitor.read(query.at(target)).await?;
        history.data.iter().filter_map(|event| event.data.ticket.as_ref()).for_each(|snapshot| names.learn(snapshot));
        // Times of the API have one form, so their texts have the order of the times.
        let is_shown = |event: &Event| {
            let at = event.timestamp.as_str();
            from.is_none_or(|from| at >= from) && to.is_none_or(|to| at <= to)
        };
        events.extend(history.data.into_iter().filter(is_shown));
        match history.page.next_cursor {
            Some(next) => query = query.with("cursor", &next),
            None => return Ok((events, names, history.truncated)),
        }
    }
}

impl View<'_> {
    pub(super) fn timeline(&self) -> Markup {
        let conversation = self.conversation;
        let page = |number: usize| format!("{}?page={number}#conversation", self.path(""));
        html! {
            ol.timeline #conversation {
                (self.opening())
                @if let Some(older) = conversation.older {
                    li.gap { a.button href=(page(older)) rel="prev" { "Older comments" } }
                } @else if conversation.is_truncated {
                    li.gap { p.muted { "The log does not have the oldest changes any more." } }
                }
                @for entry in &conversation.entries {
                    @match &entry.content {
                        EntryContent::Comment(comment) => (self.comment(comment)),
                        EntryContent::Event { actor, sentence } => (event_line(actor, sentence, &entry.at, self.visitor.clock)),
                    }
                }
                @if let Some(newer) = conversation.newer {
                    li.gap { a.button href=(page(newer)) rel="next" { "Newer comments" } " " a href={ (self.path("")) "#reply" } { "Newest" } }
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
