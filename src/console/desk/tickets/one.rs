//! The page of a ticket: its conversation and history, its details, and what the reader can do with it.

use maud::{Markup, html};
use serde_json::{Value, json};

use tenantd_base::access::Scope;

use super::{
    COUNTED, TicketRow,
    forms::{Panel, Sent},
    people::{self, Choices},
    priority_badge,
    record::{Ticket, TimeEntry},
    status_badge,
    timeline::Conversation,
};
use crate::{
    components::{card, curl, page_head},
    desk::{
        Content, Reply,
        records::{Count, List, Named},
    },
    form::{Control, Fields, Shown},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

/// What the page shows.
pub(super) struct View<'a> {
    pub(super) visitor: &'a Visitor<'a>,
    pub(super) ticket: &'a Ticket,
    pub(super) conversation: &'a Conversation,
    pub(super) time_entries: &'a [TimeEntry],
    /// The first children, and how many there are.
    pub(super) children: &'a [TicketRow],
    pub(super) all_children: u64,
    /// Open and waiting tickets of the organization.
    pub(super) unfinished: Count,
    pub(super) may_write: bool,
    pub(super) people: &'a [(String, String)],
    pub(super) contacts: Option<&'a [(String, String)]>,
    /// A form that was refused.
    pub(super) sent: Option<&'a Sent>,
}

/// The path of the ticket in the API, as the reader named it.
pub(super) fn target(visitor: &Visitor<'_>) -> String {
    format!("/api/psa/tickets/{}", segment(visitor.part("id")))
}

/// The path of the page of the ticket.
pub(super) fn path(visitor: &Visitor<'_>) -> String {
    format!("/tickets/{}", segment(visitor.part("id")))
}

pub(crate) async fn ticket(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

/// Shows the ticket, with a form that was refused.
pub(super) async fn page(visitor: &Visitor<'_>, sent: Option<&Sent>) -> Result<Reply, Refusal> {
    let target = target(visitor);
    let ticket: Ticket = visitor.read(target.clone()).await?;
    let conversation = Conversation::read(visitor, &target).await?;
    let entries: List<TimeEntry> = visitor.read(format!("{target}/time-entries?limit=200")).await?;
    let children: List<TicketRow> =
        visitor.read(children_of(&ticket.id).with("limit", "10").with("include_total", "true").at("/api/psa/tickets")).await?;
    let unfinished: List<Value> =
        visitor.read(unfinished(&ticket.organization.id).with("count_up_to", COUNTED).at("/api/psa/tickets")).await?;
    let may_write = visitor.may(Scope::TicketsWrite);
    let mut people = if may_write { people::assignees(visitor).await? } else { Choices::new() };
    let mut contacts = if may_write { people::contacts(visitor, &ticket.organization.id).await? } else { None };
    if let Some(Named { id, name }) = &ticket.assignee {
        people::with(&mut people, id, name);
    }
    if let (Some(contacts), Some(contact)) = (&mut contacts, &ticket.contact) {
        people::with(contacts, &contact.id, &contact.name);
    }
    let view = View {
        visitor,
        ticket: &ticket,
        conversation: &conversation,
        time_entries: &entries.data,
        children: &children.data,
        all_children: children.page.total.unwrap_or_default(),
        unfinished: unfinished.count(),
        may_write,
        people: &people,
        contacts: contacts.as_deref(),
        sent,
    };
    let content =
        Content::new(format!("{} {}", ticket.reference, ticket.subject), view.render()).live_about("ticket.*", &ticket.id);
    Ok(Reply::Page(match sent {
        Some(sent) => content.refused(&sent.refusal),
        None => content,
    }))
}

/// The children of a ticket in the queue.
pub(super) fn children_of(id: &str) -> Query {
    Query::default().with("parent_id", id).with("sort", "number")
}

/// The open and waiting tickets of an organization.
pub(super) fn unfinished(organization: &str) -> Query {
    let query = Query::parse("status_category=open&status_category=waiting&limit=1");
    query.with("organization_id", organization)
}

impl View<'_> {
    fn render(&self) -> Markup {
        html! {
            nav.trail aria-label="Breadcrumb" {
                a href="/tickets" { "Tickets" } span aria-hidden="true" { "/" } span aria-current="page" { (self.ticket.reference) }
            }
            (self.head())
            @if let Some(target) = &self.ticket.merged_into {
                p.notice role="note" { "This ticket was merged into " (target.show()) ". Continue there." }
            }
            @if let Some(sent) = self.sent.filter(|sent| sent.panel == Panel::Status) {
                (Shown { fields: &sent.fields, refusal: Some(&sent.refusal) }.summary())
            }
            div.split {
                div {
                    (card("Conversation and history", &html! {
                        (self.timeline())
                        @if self.may_write { (self.reply()) }
                    }))
                }
                div { (self.cards()) }
            }
        }
    }

    fn head(&self) -> Markup {
        let Ticket { reference, subject, status, priority, created_by, contact, created_at, .. } = self.ticket;
        let opened_by = contact.as_ref().map_or(created_by.name.as_str(), |contact| contact.name.as_str());
        let below = html! {
            (status_badge(status)) " " (priority_badge(priority)) " "
            (self.organization()) " · opened by " (opened_by) " " (self.visitor.clock.relative(created_at))
        };
        let actions = html! {
            (self.transitions())
            (curl(self.visitor.visit.base_url, "GET", &format!("/api/psa/tickets/{reference}"), None))
        };
        page_head(&html! { (subject) }, &below, &actions)
    }

    /// The organization, as a link if the reader may open it.
    pub(super) fn organization(&self) -> Markup {
        self.named(&self.ticket.organization, "organizations")
    }

    /// A record of the directory, as a link if the reader may open it.
    pub(super) fn named(&self, named: &Named, area: &str) -> Markup {
        if self.visitor.may(Scope::DirectoryRead) {
            named.link(area)
        } else {
            html! { (named.name) }
        }
    }

    /// A path below the page of the ticket.
    pub(super) fn path(&self, rest: &str) -> String {
        format!("/tickets/{}{rest}", self.ticket.reference)
    }

    /// A form of the page: as it was sent if it was refused, else with the values to begin with.
    pub(super) fn form<'f>(&'f self, panel: Panel, start: &'f Fields) -> Shown<'f> {
        match self.sent.filter(|sent| sent.panel == panel) {
            Some(sent) => Shown { fields: &sent.fields, refusal: Some(&sent.refusal) },
            None => Shown { fields: start, refusal: None },
        }
    }

    /// Whether a form is shown open because it was refused.
    pub(super) fn is_open(&self, panel: Panel) -> bool {
        self.sent.is_some_and(|sent| sent.panel == panel)
    }

    fn reply(&self) -> Markup {
        let start = Fields::default();
        let form = self.form(Panel::Reply, &start);
        let is_public = form.fields.get("visibility") == "public";
        let to = self.ticket.contact.as_ref().map_or("the customer", |contact| contact.name.as_str());
        let example = json!({"body": "We will be there at ten.", "visibility": "public"});
        let api = format!("/api/psa/tickets/{}/comments", self.ticket.reference);
        html! {
            form.reply #reply method="post" action=(self.path("/replies")) {
                (self.visitor.tokens())
                (form.summary())
                (form.field("body", "Reply or note", Control::Text { rows: 5 }, "", true))
                fieldset.choices {
                    legend { "Who can read it" }
                    label { input type="radio" name="visibility" value="internal" checked[!is_public]; " Internal note: only your team" }
                    label { input type="radio" name="visibility" value="public" checked[is_public]; " Public reply: your team and " (to) }
                }
                (form.field("reply_minutes", "Minutes spent", Control::Input("number"), "Adds a time entry: billable, remote work.", false))
                div.actions { button.primary { "Send" } }
            }
            (curl(self.visitor.visit.base_url, "POST", &api, Some(&example)))
        }
    }
}
