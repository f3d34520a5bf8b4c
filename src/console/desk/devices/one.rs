//! The page of a device.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    PATH, history,
    record::{Device, device, state_badge},
    sections,
};
use crate::{
    components::{card, curl, page_head},
    desk::{
        Content, Reply,
        organizations::{name_of, tickets, tickets_card, trail},
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let device = device(&visitor).await?;
    let with_it = Query::default().with("device_id", &device.id);
    let found = tickets(&visitor, &with_it).await?;
    let history = history::history(&visitor, &device).await?;
    let clock = visitor.clock;
    let body = html! {
        (trail(&[(PATH, "Devices")]))
        (head(&device, &visitor))
        div.split {
            div {
                @if let Some(tickets) = &found { (tickets_card("Tickets", tickets, &with_it, &visitor)) }
                (card("Hardware", &sections::hardware(&device)))
                (card("Network", &sections::network(&device)))
                (card("Software", &sections::software(&device, visitor.query().first("software"))))
            }
            div {
                (card("Details", &sections::details(&device, clock)))
                (card("Agent", &sections::agent(&device, &visitor)))
                (card("System", &sections::system(&device, clock)))
                (card("Updates", &sections::updates(&device, clock)))
                (card("Backup", &html! { (sections::backup(&device, clock)) @if let Some(history) = &history { (history.show()) } }))
                (card("Warranty", &sections::warranty(&device, clock)))
                (card("Security", &sections::security(&device)))
            }
        }
    };
    Ok(Reply::Page(Content::new(device.name.clone(), body).live_about("device.* backup.job.*", &device.id)))
}

fn head(device: &Device, visitor: &Visitor<'_>) -> Markup {
    let new_ticket = Query::default().with("organization_id", &device.organization.id).with("device_id", &device.id);
    page_head(
        &html! { (device.name) },
        &html! {
            (state_badge(&device.health)) " " (name_of(&device.class)) " at " (device.organization.link("organizations"))
        },
        &html! {
            (curl(visitor.visit.base_url, "GET", &device.api(), None))
            @if visitor.may(Scope::DirectoryWrite) {
                a.button href={ (device.path()) "/edit" } { "Edit" }
                a.button href={ (device.path()) "/delete" } { "Delete" }
            }
            @if visitor.may(Scope::TicketsWrite) { a.button.primary href=(new_ticket.at("/tickets/new")) { "New ticket" } }
        },
    )
}
