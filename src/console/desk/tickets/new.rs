//! A new ticket: first its organization, then the rest. Similar tickets are shown before another is created.

use std::collections::BTreeSet;

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_base::access::Scope;

use super::{
    KINDS, TicketRow,
    forms::{lines, renamed, wrong},
    people::{self, Choices, or_none},
    queue::PRIORITIES,
    status_badge,
};
use crate::{
    components::{curl, page_head, words},
    desk::{
        Content, Reply,
        find::find,
        records::{List, Named},
    },
    form::{Control, Fields, Shown},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/psa/tickets";
const PATH: &str = "/tickets/new";
/// What a link to the page can fill in.
const PREFILLED: [&str; 8] = ["subject", "description", "contact_id", "device", "type", "priority", "assignee_id", "tags"];
/// Similar tickets that the page shows.
const MAX_SIMILAR: usize = 5;

#[derive(Debug, Deserialize)]
struct Owned {
    name: String,
    organization: Option<Named>,
}

pub(crate) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let mut fields = Fields::default();
    fields.set("type", "incident");
    fields.set("priority", "medium");
    for name in PREFILLED.into_iter().filter(|name| !query.first(name).is_empty()) {
        fields.set(name, query.first(name));
    }
    let mut organization = None;
    if !query.first("device_id").is_empty() {
        let target = format!("/api/directory/devices/{}", segment(query.first("device_id")));
        let device: Option<Owned> = visitor.read_if_allowed(target).await?;
        if let Some(device) = device {
            fields.set("device", device.name);
            organization = device.organization;
        }
    }
    let asked = Some(query.first("organization_id")).filter(|id| !id.is_empty()).unwrap_or(query.first("organization"));
    if organization.is_none() && !asked.is_empty() {
        match organization_of(&visitor, asked).await? {
            Ok(found) => organization = Some(found),
            Err(message) => return choose(&visitor, Some(&wrong("organization", &message))).await,
        }
    }
    match organization {
        Some(organization) => page(&visitor, &organization, &fields, None, &[]).await,
        None => choose(&visitor, None).await,
    }
}

/// The organization with a name or an ID. A reader who may not see the directory needs the ID.
async fn organization_of(visitor: &Visitor<'_>, text: &str) -> Result<Result<Named, String>, Refusal> {
    find(visitor, "organizations", text, None).await
}

pub(crate) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let organization = match organization_of(&visitor, fields.get("organization_id")).await? {
        Ok(organization) => organization,
        Err(message) => return choose(&visitor, Some(&wrong("organization", &message))).await,
    };
    let mut body = fields.filled(&["type", "priority", "assignee_id"]);
    body.insert("organization_id".to_owned(), organization.id.as_str().into());
    body.insert("subject".to_owned(), fields.get("subject").into());
    body.insert("tags".to_owned(), fields.each_line("tags").into());
    if !fields.get("description").is_empty() {
        body.insert("description".to_owned(), lines(fields.get("description")).into());
    }
    if !fields.get("contact_id").is_empty() {
        match find(&visitor, "contacts", fields.get("contact_id"), Some(&organization.id)).await? {
            Ok(contact) => drop(body.insert("contact_id".to_owned(), contact.id.into())),
            Err(message) => return page(&visitor, &organization, &fields, Some(&wrong("contact_id", &message)), &[]).await,
        }
    }
    if !fields.get("device").is_empty() {
        match find(&visitor, "devices", fields.get("device"), Some(&organization.id)).await? {
            Ok(device) => drop(body.insert("device_id".to_owned(), device.id.into())),
            Err(message) => return page(&visitor, &organization, &fields, Some(&wrong("device", &message)), &[]).await,
        }
    }
    if fields.get("confirmed").is_empty() {
        let mut similar = similar(&visitor, &organization.id, fields.get("subject")).await?;
        // What is newer than the form is no surprise: most often it is the ticket that the form has already created.
        let opened_at = fields.get("opened_at");
        similar.retain(|ticket| opened_at.is_empty() || ticket.created_at.as_str() < opened_at);
        if !similar.is_empty() {
            return page(&visitor, &organization, &fields, None, &similar).await;
        }
    }
    match visitor.act(Method::POST, API, Some(Value::Object(body))).await {
        Ok(answer) => {
            let reference = answer.body.get("ref").and_then(Value::as_str).unwrap_or_default();
            Ok(Reply::SeeOther(format!("/tickets/{reference}")))
        }
        Err(refusal) if refusal.status.is_client_error() => {
            let refusal = renamed(refusal, &[("/device_id", "device"), ("/device_ids", "device")]);
            page(&visitor, &organization, &fields, Some(&refusal), &[]).await
        }
        Err(refusal) => Err(refusal),
    }
}

/// The words of a subject by which two subjects are compared.
fn significant(subject: &str) -> BTreeSet<String> {
    let words = subject.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| word.chars().count() > 2).map(str::to_lowercase).collect()
}

/// Whether two subjects have at least half of their words in common.
fn is_similar(one: &str, other: &str) -> bool {
    let (one, other) = (significant(one), significant(other));
    let (common, all) = (one.intersection(&other).count(), one.union(&other).count());
    common > 0 && common * 2 >= all
}

/// Unfinished tickets of the organization with a similar subject.
async fn similar(visitor: &Visitor<'_>, organization: &str, subject: &str) -> Result<Vec<TicketRow>, Refusal> {
    if !visitor.may(Scope::TicketsRead) {
        return Ok(Vec::new());
    }
    let mut found: Vec<TicketRow> = Vec::new();
    let mut longest: Vec<String> = significant(subject).into_iter().collect();
    longest.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    // The search finds only tickets that have all words, so each word is searched by itself.
    for word in longest.into_iter().take(2) {
        let query = Query::parse("status_category=open&status_category=waiting&limit=50");
        let query = query.with("organization_id", organization).with("q", &word.chars().take(200).collect::<String>());
        let tickets: Option<List<TicketRow>> = visitor.read_if_allowed(query.at(API)).await?;
        for ticket in tickets.map_or_else(Vec::new, |list| list.data) {
            if is_similar(subject, &ticket.subject) && !found.iter().any(|known| known.id == ticket.id) {
                found.push(ticket);
            }
        }
    }
    found.truncate(MAX_SIMILAR);
    Ok(found)
}

fn trail() -> Markup {
    html! {
        nav.trail aria-label="Breadcrumb" {
            a href="/tickets" { "Tickets" } span aria-hidden="true" { "/" } span aria-current="page" { "New ticket" }
        }
    }
}

/// The first step: the organization.
async fn choose(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let list: Option<List<Named>> = visitor.read_if_allowed("/api/directory/organizations?sort=name&limit=200").await?;
    let are_none = list.as_ref().is_some_and(|list| list.data.is_empty());
    let names = list.map_or_else(Vec::new, |list| list.data);
    let problem = refusal.and_then(|refusal| refusal.about("organization"));
    let kept = query.pairs().filter(|(name, _)| !matches!(*name, "organization" | "organization_id" | "device_id"));
    let body = html! {
        (trail())
        h1 { "New ticket" }
        @if are_none {
            p { "A ticket belongs to an organization, and you see none yet. " a href="/organizations" { "Create one first" } }
        }
        form.record-form method="get" action=(PATH) {
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            div.field {
                label for="organization" { "Organization" }
                input id="organization" name="organization" type="text" list="organizations" required autocomplete="off" value=(query.first("organization"))
                    aria-invalid=[problem.map(|_| "true")] aria-describedby=(if problem.is_some() { "organization-problem organization-hint" } else { "organization-hint" });
                datalist #organizations { @for organization in &names { option value=(organization.name) {} } }
                @if let Some(problem) = problem { p.problem #organization-problem role="alert" { (problem) } }
                p.hint #organization-hint { "The whole name or the ID." }
            }
            div.actions { button.primary { "Continue" } a.button href="/tickets" { "Cancel" } }
        }
    };
    let content = Content::new("New ticket", body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

/// The second step: everything else.
async fn page(
    visitor: &Visitor<'_>,
    organization: &Named,
    fields: &Fields,
    refusal: Option<&Refusal>,
    similar: &[TicketRow],
) -> Result<Reply, Refusal> {
    let people = or_none("Nobody", &people::assignees(visitor).await?);
    let contacts: Option<Choices> = people::contacts(visitor, &organization.id).await?;
    let choices = |values: &[&str]| values.iter().map(|value| ((*value).to_owned(), words(value))).collect::<Choices>();
    let (priorities, kinds) = (choices(&PRIORITIES), choices(&KINDS));
    let (form, opened_at) = (Shown { fields, refusal }, visitor.visit.now.to_string());
    let example = json!({"organization_id": organization.id, "subject": "Printer on the second floor jams", "priority": "medium"});
    let body = html! {
        (trail())
        (page_head(
            &html! { "New ticket" },
            &html! { "For " (organization.name) " · " a href=(PATH) { "Choose another organization" } },
            &curl(visitor.visit.base_url, "POST", API, Some(&example)),
        ))
        form.record-form method="post" action=(PATH) {
            (visitor.tokens())
            input type="hidden" name="organization_id" value=(organization.id);
            input type="hidden" name="opened_at" value=(if fields.get("opened_at").is_empty() { &opened_at } else { fields.get("opened_at") });
            (form.summary())
            (warning(similar))
            (form.field("subject", "Subject", Control::Input("text"), "", true))
            (form.field("description", "Description", Control::Text { rows: 8 }, "", false))
            @if let Some(contacts) = &contacts {
                (people::contact_field(&form, contacts, "Who reported it."))
            }
            (form.field("device", "Device", Control::Input("text"), "The whole name or the ID.", false))
            (form.field("type", "Type", Control::Choice(&kinds), "", true))
            (form.field("priority", "Priority", Control::Choice(&priorities), "", true))
            (form.field("assignee_id", "Assignee", Control::Choice(&people), "", false))
            (form.field("tags", "Tags", Control::Text { rows: 2 }, "One tag on each line.", false))
            div.actions {
                button.primary { @if similar.is_empty() { "Create the ticket" } @else { "Create anyway" } }
                a.button href="/tickets" { "Cancel" }
            }
        }
    };
    let content = Content::new("New ticket", body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

/// The tickets that may be about the same. Sending the form again creates the ticket nevertheless.
fn warning(similar: &[TicketRow]) -> Markup {
    html! {
        @if !similar.is_empty() {
            input type="hidden" name="confirmed" value="yes";
            div.notice role="alert" {
                strong { "This organization has similar tickets that are not done." }
                ul {
                    @for ticket in similar {
                        li { a href={ "/tickets/" (ticket.reference) } { (ticket.reference) " " (ticket.subject) } " " (status_badge(&ticket.status)) }
                    }
                }
                p { "Use one of them, or create another ticket." }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_with_half_of_their_words_in_common_are_similar() {
        assert!(is_similar("Printer on floor 2 jams", "The printer jams"));
        assert!(is_similar("VPN drops", "vpn drops every hour"));
        assert!(!is_similar("Printer jams", "Mailbox is full"));
        assert!(!is_similar("", ""));
    }
}
