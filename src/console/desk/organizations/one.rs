//! The page of an organization: its contacts, devices, open tickets and backups.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{CONTACTS_API, Contact, Organization, PATH, backup, contacts, counted, organization, tickets, tickets_card, trail};
use crate::{
    components::{card, curl, facts, page_head},
    desk::{
        Content, Reply,
        devices::{DEVICES_API, DeviceRow, device_rows},
        records::List,
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let organization = organization(&visitor).await?;
    let below = |sort: &str| Query::default().with("organization_id", &organization.id).with("sort", sort).with("limit", "20");
    let contacts: List<Contact> = visitor.read(below("name").with("include_total", "true").at(CONTACTS_API)).await?;
    let devices: List<DeviceRow> = visitor.read(below("name").with("include_total", "true").at(DEVICES_API)).await?;
    let open = Query::default().with("organization_id", &organization.id).with("status_category", "open");
    let open_tickets = tickets(&visitor, &open).await?;
    let protection = backup::protection(&visitor, &organization).await?;
    let body = html! {
        (trail(&[(PATH, "Organizations")]))
        (head(&organization, &visitor))
        div.split {
            div {
                @if let Some(tickets) = &open_tickets { (tickets_card("Open tickets", tickets, &open, &visitor)) }
                (contacts_card(&organization, &contacts, &visitor))
                (devices_card(&organization, &devices, &visitor))
            }
            div {
                (details(&organization, &visitor))
                @if let Some(protection) = &protection { (protection.card(&organization, &visitor)) }
            }
        }
    };
    Ok(Reply::Page(Content::new(organization.name.clone(), body).live_about("organization.*", &organization.id)))
}

fn head(organization: &Organization, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { (organization.name) },
        &html! { "Organization since " (visitor.clock.absolute(&organization.created_at)) },
        &html! {
            (curl(visitor.visit.base_url, "GET", &organization.api(), None))
            @if visitor.may(Scope::DirectoryWrite) {
                a.button href={ (organization.path()) "/edit" } { "Edit" }
                a.button href={ (organization.path()) "/delete" } { "Delete" }
            }
            @if visitor.may(Scope::TicketsWrite) {
                a.button.primary href={ "/tickets/new?organization_id=" (organization.id) } { "New ticket" }
            }
        },
    )
}

fn details(organization: &Organization, visitor: &Visitor<'_>) -> Markup {
    let body = facts(&[
        ("ID", Some(html! { code { (organization.id) } })),
        ("External ID", organization.external_id.as_deref().map(|id| html! { code { (id) } })),
        ("Changed", Some(visitor.clock.relative(&organization.updated_at))),
    ]);
    card("Details", &body)
}

fn contacts_card(organization: &Organization, list: &List<Contact>, visitor: &Visitor<'_>) -> Markup {
    let all = format!("{}/contacts", organization.path());
    let body = html! {
        @if list.data.is_empty() {
            p.muted { "No contacts." }
        } @else {
            (contacts::table(&list.data, visitor))
        }
        div.actions {
            @if let Some(total) = list.page.total.filter(|total| *total > 0) { a href=(all) { "Show " (counted(total, "contact", "contacts")) } }
            @if visitor.may(Scope::DirectoryWrite) { a.button href={ (all) "/new" } { "New contact" } }
        }
    };
    card("Contacts", &body)
}

fn devices_card(organization: &Organization, list: &List<DeviceRow>, visitor: &Visitor<'_>) -> Markup {
    let total = list.page.total.unwrap_or_default();
    let body = html! {
        @if list.data.is_empty() {
            p.muted { "No devices." }
        } @else {
            (device_rows(&list.data, false, visitor))
            p { a href={ "/devices?organization_id=" (organization.id) } { "Show " (counted(total, "device", "devices")) } }
        }
    };
    card("Devices", &body)
}
