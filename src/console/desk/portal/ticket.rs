//! A ticket of the contact: its conversation, and what they can do with it.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::{API, PATH, Ticket};
use crate::{
    components::{Tone, avatar, badge, card, facts, page_head, words},
    desk::{
        Content, Reply,
        organizations::trail,
        records::List,
        tickets::{lines, status_badge},
    },
    form::{Control, Fields, Shown},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

const PAGE_LENGTH: &str = "200";

#[derive(Debug, Deserialize)]
struct Comment {
    id: String,
    body: String,
    author: Author,
    created_at: String,
}

#[derive(Debug, Deserialize)]
struct Author {
    kind: String,
    name: String,
}

/// The path of the ticket in the API.
fn target(visitor: &Visitor<'_>) -> String {
    format!("{API}/{}", segment(visitor.part("id")))
}

/// The path of the page.
fn own_path(visitor: &Visitor<'_>) -> String {
    format!("/portal/tickets/{}", segment(visitor.part("id")))
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, &Fields::default(), None).await
}

pub(super) async fn reply(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let body = json!({"body": lines(fields.get("body"))});
    let outcome = visitor.act(Method::POST, format!("{}/comments", target(&visitor)), Some(body)).await;
    finish(&visitor, &fields, outcome.map(drop)).await
}

pub(super) async fn close(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let outcome = visitor.act(Method::POST, format!("{}/close", target(&visitor)), None).await;
    finish(&visitor, &Fields::default(), outcome.map(drop)).await
}

pub(super) async fn reopen(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let outcome = visitor.act(Method::POST, format!("{}/reopen", target(&visitor)), None).await;
    finish(&visitor, &Fields::default(), outcome.map(drop)).await
}

/// Shows the ticket again after a form, or the form with what is wrong.
async fn finish(visitor: &Visitor<'_>, fields: &Fields, outcome: Result<(), Refusal>) -> Result<Reply, Refusal> {
    match outcome {
        Ok(()) => Ok(Reply::SeeOther(format!("{}#reply", own_path(visitor)))),
        Err(refusal) if refusal.status.is_client_error() => page(visitor, fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let ticket: Ticket = visitor.read(target(visitor)).await?;
    let asked = Query::default().with("limit", PAGE_LENGTH).with("cursor", visitor.query().first("cursor")).filled();
    let comments: List<Comment> = visitor.read(asked.at(&format!("{}/comments", target(visitor)))).await?;
    let later = comments.page.next_cursor.as_deref().map(|next| Query::default().with("cursor", next).at(&ticket.path()));
    let shown = Shown { fields, refusal };
    let below =
        html! { (status_badge(&ticket.status)) " " (ticket.reference) " · created " (visitor.clock.relative(&ticket.created_at)) };
    let body = html! {
        (trail(&[(PATH, "Your tickets")]))
        (page_head(&html! { (ticket.subject) }, &below, &actions(&ticket, visitor)))
        (card("Conversation", &html! {
            ol.timeline #conversation {
                @if visitor.query().first("cursor").is_empty() {
                    li.entry.comment {
                        (avatar(visitor.name()))
                        div {
                            p.by { strong { "Description" } " " span.muted { (visitor.clock.relative(&ticket.created_at)) } }
                            @match &ticket.description {
                                Some(description) => div.text { (description) },
                                None => p.muted { "The ticket has no description." },
                            }
                        }
                    }
                }
                @for comment in &comments.data { (entry(comment, visitor)) }
                @if let Some(later) = &later { li.gap { a.button href=(later) rel="next" { "Later" } } }
            }
            (reply_form(&ticket, visitor, shown))
        }))
        (card("Details", &facts(&[
            ("Priority", Some(html! { (words(&ticket.priority)) })),
            ("Assigned to", ticket.assignee_name.as_ref().map(|name| html! { (name) })),
            ("Status changed", Some(visitor.clock.absolute(&ticket.status_changed_at))),
        ])))
    };
    let content = Content::new(format!("{} {}", ticket.reference, ticket.subject), body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn actions(ticket: &Ticket, visitor: &Visitor<'_>) -> Markup {
    let button = |rest: &str, title: &str| {
        html! {
            form method="post" action={ (ticket.path()) (rest) } { (visitor.tokens()) button.button { (title) } }
        }
    };
    html! {
        @if ticket.can_reopen { (button("/reopen", "Reopen")) }
        @if ticket.can_close { (button("/close", "Close the ticket")) }
    }
}

fn entry(comment: &Comment, visitor: &Visitor<'_>) -> Markup {
    let Comment { id, body, author, created_at } = comment;
    let (class, tone, word) = match author.kind.as_str() {
        "you" => ("entry comment", Tone::Neutral, "You"),
        "contact" => ("entry comment", Tone::Neutral, "Your organization"),
        _ => ("entry comment public", Tone::Accent, "Support"),
    };
    html! {
        li class=(class) id=(id) {
            (avatar(&author.name))
            div {
                p.by { strong { (author.name) } " " (badge(tone, word)) " " span.muted { (visitor.clock.relative(created_at)) } }
                div.text { (body) }
            }
        }
    }
}

fn reply_form(ticket: &Ticket, visitor: &Visitor<'_>, shown: Shown<'_>) -> Markup {
    html! {
        @if ticket.can_comment {
            form.reply #reply method="post" action={ (ticket.path()) "/replies" } {
                (visitor.tokens())
                (shown.summary())
                (shown.field("body", "Your answer", Control::Text { rows: 5 }, "", true))
                div.actions { button.primary { "Send" } }
            }
        } @else {
            (shown.summary())
            p.muted #reply { "This ticket takes no more answers. Create another one if you need help." }
        }
    }
}
