//! What the pages of the directory share: the trail, the pages of a list, forms, and tables of tickets.

use http::StatusCode;
use maud::{Markup, html};

use tenantd_base::access::Scope;
use tenantd_http::problem::Code;

use crate::{
    components::{card, grouped, page_head, pager, words},
    desk::{
        Content, Reply,
        records::{List, PageInfo},
        tickets::{COUNTED, TicketRow, priority_badge, service_level, status_badge},
    },
    form::{Shown, VERSION},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const TICKETS_API: &str = "/api/psa/tickets";

/// The pages above a page: their paths and titles.
pub(crate) fn trail(links: &[(&str, &str)]) -> Markup {
    html! {
        nav.trail aria-label="Breadcrumb" {
            @for (place, (path, title)) in links.iter().enumerate() {
                @if place > 0 { span aria-hidden="true" { "/" } }
                a href=(path) { (title) }
            }
        }
    }
}

/// The way to the other pages of a list whose page is in the URL.
pub(crate) fn pages(query: &Query, path: &str, shown: usize, page: &PageInfo) -> Markup {
    let next = page.next_cursor.as_deref().map(|cursor| query.clone().with("cursor", cursor).at(path));
    let first = (!query.first("cursor").is_empty()).then(|| query.clone().without("cursor").at(path));
    pager(shown, page.total, next.as_deref(), first.as_deref())
}

/// A count with its noun, such as `1 device` or `3 devices`.
pub(crate) fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { several })
}

/// A text, or a dash if there is none.
pub(crate) fn optional(text: Option<&str>) -> Markup {
    html! {
        @match text {
            Some(text) => { (text) }
            None => { span.muted { "–" } }
        }
    }
}

/// Values of the API with their words, for a `select`.
pub(crate) fn choices(values: &[&str]) -> Vec<(String, String)> {
    values.iter().map(|value| ((*value).to_owned(), name_of(value))).collect()
}

/// Choices with one before them that has no value.
pub(crate) fn or_none(words: &str, choices: Vec<(String, String)>) -> Vec<(String, String)> {
    [vec![(String::new(), words.to_owned())], choices].concat()
}

/// A value of the API as people write it.
pub(crate) fn name_of(value: &str) -> String {
    match value {
        "vm" => "Virtual machine".to_owned(),
        "iot" => "IoT".to_owned(),
        "macos" => "macOS".to_owned(),
        "esxi" => "ESXi".to_owned(),
        "ios" => "iOS".to_owned(),
        "network_os" => "Network OS".to_owned(),
        other => words(other),
    }
}

/// The version that a form changes, as in the `ETag` of the record.
pub(crate) fn version_field(version: u64) -> Markup {
    html! { input type="hidden" name=(VERSION) value={ "v" (version) }; }
}

/// Whether the form is shown again with the refusal, so that the reader can correct it.
pub(crate) fn is_correctable(refusal: &Refusal) -> bool {
    refusal.status.is_client_error() && !matches!(refusal.status, StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND)
}

/// A page with one form that creates or changes a record.
pub(crate) struct RecordForm<'a> {
    pub(crate) title: String,
    pub(crate) below: &'a str,
    pub(crate) trail: Markup,
    /// Where the form is sent to.
    pub(crate) action: String,
    /// The page to go back to.
    pub(crate) cancel: String,
    /// The words of the button.
    pub(crate) button: &'a str,
    /// The version of the record that is changed.
    pub(crate) version: Option<u64>,
    /// The same as a request to the API.
    pub(crate) curl: Markup,
}

impl RecordForm<'_> {
    pub(crate) fn page(self, visitor: &Visitor<'_>, shown: Shown<'_>, inputs: &Markup) -> Reply {
        let has_conflict = shown.refusal.is_some_and(|refusal| refusal.is(Code::VersionConflict));
        let body = html! {
            (self.trail)
            (page_head(&html! { (self.title) }, &html! { (self.below) }, &self.curl))
            form.stack method="post" action=(self.action) {
                (visitor.tokens())
                @if let Some(version) = self.version { (version_field(version)) }
                (shown.summary())
                @if has_conflict {
                    p.note { "The record changed after you opened this form. " a href=(self.cancel) { "Look at the record" } ", then save again to replace its values with yours." }
                }
                (inputs)
                div.actions {
                    button.primary { (self.button) }
                    a.button href=(self.cancel) { "Cancel" }
                }
            }
        };
        let content = Content::new(self.title, body);
        Reply::Page(match shown.refusal {
            Some(refusal) => content.refused(refusal),
            None => content,
        })
    }
}

/// The tickets that match a query of the queue; nothing if the reader may not read tickets.
pub(crate) async fn tickets(visitor: &Visitor<'_>, query: &Query) -> Result<Option<List<TicketRow>>, Refusal> {
    if !visitor.may(Scope::TicketsRead) {
        return Ok(None);
    }
    visitor.read_if_allowed(query.clone().with("limit", "10").with("count_up_to", COUNTED).at(TICKETS_API)).await
}

/// A card with tickets, and the link to all of them in the queue.
pub(crate) fn tickets_card(title: &str, tickets: &List<TicketRow>, query: &Query, visitor: &Visitor<'_>) -> Markup {
    let body = html! {
        @if tickets.data.is_empty() && tickets.page.next_cursor.is_some() {
            p.muted { "None among the tickets that changed last. " a href=(query.at("/tickets")) { "Look further in the queue" } }
        } @else if tickets.data.is_empty() {
            p.muted { "None. Tickets appear here when they are opened." }
        } @else {
            div.scroll tabindex="0" role="group" aria-label=(title) {
                table.list data-rows {
                    thead { tr { @for head in ["Ticket", "Status", "Priority", "Service level", "Changed"] { th scope="col" { (head) } } } }
                    tbody {
                        @for ticket in &tickets.data {
                            tr {
                                td.main { code { (ticket.reference) } " " a href={ "/tickets/" (ticket.reference) } data-record { (ticket.subject) } }
                                td { (status_badge(&ticket.status)) }
                                td { (priority_badge(&ticket.priority)) }
                                td { (service_level(&ticket.sla, &ticket.created_at, visitor.clock)) }
                                td.time { (visitor.clock.relative(&ticket.updated_at)) }
                            }
                        }
                    }
                }
            }
            p { a href=(query.at("/tickets")) { "Show " (tickets.count().of("ticket", "tickets")) " in the queue" } }
        }
    };
    card(title, &body)
}
