//! The contacts of an organization, and a new one.

use http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use tenantd_base::access::Scope;

use super::{
    CONTACTS_API, Contact, Organization, PATH, RecordForm, choices, counted, is_correctable, optional, or_none, organization,
    pages, trail,
};
use crate::{
    components::{Tone, badge, curl, empty, page_head, words},
    desk::{Content, Reply, records::List},
    form::{Control, Fields, Shown, options},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const STATUSES: [&str; 2] = ["active", "disabled"];
const SORTS: [(&str, &str); 3] = [("name", "Name"), ("-updated_at", "Last changed"), ("-created_at", "Newest")];

/// All contacts of an organization.
pub(crate) async fn contacts(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let organization = organization(&visitor).await?;
    let path = format!("{}/contacts", organization.path());
    let query = visitor.query();
    let sorted = query.clone().or("sort", "name").with("organization_id", &organization.id);
    let target = sorted.clone().or("limit", "50").with("include_total", "true").at(CONTACTS_API);
    let list: List<Contact> = visitor.read(&target).await?;
    let total = list.page.total.unwrap_or_default();
    let head = page_head(
        &html! { "Contacts of " (organization.name) },
        &html! { (counted(total, "contact", "contacts")) },
        &html! {
            a.button href=(sorted.without("cursor").without("limit").with("format", "csv").at(CONTACTS_API)) download { "CSV" }
            (curl(visitor.visit.base_url, "GET", &target, None))
            @if visitor.may(Scope::DirectoryWrite) { a.button.primary href={ (path) "/new" } { "New contact" } }
        },
    );
    let body = html! {
        (trail(&[(PATH, "Organizations"), (organization.path().as_str(), organization.name.as_str())]))
        (head)
        (filter(&query, &path))
        @if list.data.is_empty() {
            (empty("No contact matches. Remove a filter, or create a contact."))
        } @else {
            (table(&list.data, &visitor))
        }
        (pages(&query, &path, list.data.len(), &list.page))
    };
    Ok(Reply::Page(Content::new(format!("Contacts of {}", organization.name), body)))
}

fn filter(query: &Query, path: &str) -> Markup {
    let sorts: Vec<(String, String)> = SORTS.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect();
    let statuses = or_none("Any", choices(&STATUSES));
    let kept = query.pairs().filter(|(name, _)| !matches!(*name, "q" | "status" | "sort" | "cursor"));
    html! {
        form.filter method="get" action=(path) role="search" aria-label="Filter contacts" data-filter {
            label { "Words" input type="search" name="q" value=(query.first("q")) maxlength="200"; }
            label { "Status" select name="status" { (options(&statuses, query.first("status"))) } }
            label { "Sort" select name="sort" { (options(&sorts, query.first("sort"))) } }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

pub(crate) fn status_badge(status: &str) -> Markup {
    badge(if status == "active" { Tone::Good } else { Tone::Neutral }, &words(status))
}

pub(super) fn table(contacts: &[Contact], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Contacts" {
            table.list data-rows {
                thead { tr { @for head in ["Name", "Email address", "Status", "Changed"] { th scope="col" { (head) } } } }
                tbody {
                    @for contact in contacts {
                        tr {
                            td.main { a href={ "/contacts/" (contact.id) } data-record { (contact.name) } }
                            td { (optional(contact.email.as_deref())) }
                            td { (status_badge(&contact.status)) }
                            td.time { (visitor.clock.relative(&contact.updated_at)) }
                        }
                    }
                }
            }
        }
    }
}

pub(crate) async fn new_contact(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let organization = organization(&visitor).await?;
    Ok(new_page(&visitor, &organization, &Fields::default(), None))
}

pub(crate) async fn create_contact(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let organization = organization(&visitor).await?;
    let fields = visitor.fields();
    let mut body = fields.filled(&["name", "email", "external_id"]);
    body.insert("organization_id".to_owned(), organization.id.clone().into());
    match visitor.act(Method::POST, CONTACTS_API, Some(Value::Object(body))).await {
        Ok(answer) => {
            let id = answer.body.get("id").and_then(Value::as_str).unwrap_or_default();
            Ok(Reply::SeeOther(format!("/contacts/{id}")))
        }
        Err(refusal) if is_correctable(&refusal) => Ok(new_page(&visitor, &organization, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn new_page(visitor: &Visitor<'_>, organization: &Organization, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let example = json!({"name": "Grace Hopper", "email": "grace@acme.example", "organization_id": organization.id});
    let form = RecordForm {
        title: "New contact".to_owned(),
        below: "A person at the organization, who does not sign in.",
        trail: trail(&[(PATH, "Organizations"), (organization.path().as_str(), organization.name.as_str())]),
        action: format!("{}/contacts/new", organization.path()),
        cancel: organization.path(),
        button: "Create contact",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", CONTACTS_API, Some(&example)),
    };
    let shown = Shown { fields, refusal };
    form.page(visitor, shown, &inputs(shown))
}

/// The fields that a new contact and a known one have.
pub(super) fn inputs(shown: Shown<'_>) -> Markup {
    html! {
        (shown.field("name", "Full name", Control::Input("text"), "", true))
        (shown.field("email", "Email address", Control::Input("email"), "Each address belongs to one contact or user.", false))
        (shown.field("external_id", "External ID", Control::Input("text"), "The ID of the contact in the system that it comes from.", false))
    }
}
