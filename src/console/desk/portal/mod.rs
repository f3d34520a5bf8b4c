//! The portal: the pages for contacts of customers. They list, open and answer their own tickets, and manage their own account on the
//! pages of the profile. Staff do not see these pages, and contacts see no other ones.

mod new;
mod ticket;

use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;

use tenantd_http::pages::PORTAL as PATH;

use super::{Content, Reply, records::List, routes::Route, tickets::status_badge};
use crate::{
    components::{avatar, empty, page_head, pager},
    layout::head,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/portal/tickets";
const NEW: &str = "/portal/new";
const PROFILE: &str = "/profile";
/// The lists that the page offers: a category of statuses, and what to call it.
const CATEGORIES: [(&str, &str); 4] = [("", "All"), ("open", "In progress"), ("waiting", "Waiting"), ("done", "Done")];

/// The pages of the portal.
pub(super) const ROUTES: &[Route] = &[
    Route::shows(PATH, "list_portal_tickets", |visitor| Box::pin(list(visitor))),
    Route::both(NEW, "create_portal_ticket", |visitor| Box::pin(new::show(visitor)), |visitor| Box::pin(new::create(visitor))),
    Route::shows("/portal/tickets/{id}", "read_portal_ticket", |visitor| Box::pin(ticket::show(visitor))),
    Route::acts("/portal/tickets/{id}/replies", "create_portal_comment", |visitor| Box::pin(ticket::reply(visitor))),
    Route::acts("/portal/tickets/{id}/close", "close_portal_ticket", |visitor| Box::pin(ticket::close(visitor))),
    Route::acts("/portal/tickets/{id}/reopen", "reopen_portal_ticket", |visitor| Box::pin(ticket::reopen(visitor))),
];

#[derive(Debug, Deserialize)]
struct Ticket {
    #[serde(rename = "ref")]
    reference: String,
    subject: String,
    description: Option<String>,
    status: String,
    priority: String,
    assignee_name: Option<String>,
    created_at: String,
    status_changed_at: String,
    can_comment: bool,
    can_close: bool,
    can_reopen: bool,
}

impl Ticket {
    fn path(&self) -> String {
        format!("/portal/tickets/{}", self.reference)
    }
}

async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let asked = visitor.query();
    let (category, cursor) = (asked.first("status_category"), asked.first("cursor"));
    let wanted = Query::default().with("status_category", category).with("cursor", cursor).filled();
    let tickets: List<Ticket> = visitor.read(wanted.at(API)).await?;
    let of_category = |name: &str| Query::default().with("status_category", name).filled();
    let next = tickets.page.next_cursor.as_deref().map(|next| of_category(category).with("cursor", next).at(PATH));
    let first = (!cursor.is_empty()).then(|| of_category(category).at(PATH));
    let below = html! { "What you asked " (visitor.reader.tenant_name) " for." };
    let body = html! {
        (page_head(&html! { "Your tickets" }, &below, &html! { a.button.primary href=(NEW) { "New ticket" } }))
        nav aria-label="Status" {
            div.actions {
                @for (name, title) in CATEGORIES {
                    a.button href=(of_category(name).at(PATH)) aria-current=[(name == category).then_some("true")] { (title) }
                }
            }
        }
        @if tickets.data.is_empty() { (empty(if next.is_some() { "There is no ticket here so far." } else { "There is no ticket here." })) } @else { (table(&tickets.data, &visitor)) }
        (pager(tickets.data.len(), None, next.as_deref(), first.as_deref()))
    };
    Ok(Reply::Page(Content::new("Your tickets", body)))
}

fn table(tickets: &[Ticket], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Your tickets" {
            table.list {
                thead { tr { @for head in ["Ticket", "Status", "Created", "Status changed"] { th scope="col" { (head) } } } }
                tbody {
                    @for ticket in tickets {
                        tr {
                            td.main { a href=(ticket.path()) { (ticket.subject) } br; small.muted { (ticket.reference) } }
                            td { (status_badge(&ticket.status)) }
                            td.time { (visitor.clock.relative(&ticket.created_at)) }
                            td.time { (visitor.clock.relative(&ticket.status_changed_at)) }
                        }
                    }
                }
            }
        }
    }
}

/// The frame of every page that a contact sees: without the navigation of staff.
pub(super) fn frame(visitor: &Visitor<'_>, content: &Content) -> Markup {
    let current = |path: &str| (visitor.visit.path == path).then_some("page");
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&content.title))
            body.desk.portal {
                a.skip href="#content" { "Skip to content" }
                div.page {
                    header.top {
                        a.brand href=(PATH) { span.logo aria-hidden="true" {} (visitor.reader.tenant_name) }
                        nav.site aria-label="Main" {
                            @for (path, title) in [(PATH, "Tickets"), (NEW, "New ticket"), (PROFILE, "Profile")] {
                                a href=(path) aria-current=[current(path)] { (title) }
                            }
                        }
                        (avatar(visitor.name()))
                        form method="post" action="/sign-out" {
                            (visitor.tokens())
                            button.quiet { "Sign out" }
                        }
                    }
                    main #content tabindex="-1" { (content.body) }
                }
            }
        }
    }
}
