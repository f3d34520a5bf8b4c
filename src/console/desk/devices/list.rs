//! The list of devices.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    DEVICES_API, DeviceRow, PATH,
    filters::{Offered, VIEWS, controls, filters_only},
    groups, packages,
    record::{Agent, System, state_badge},
};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, name_of, optional, organization_choices, pages},
        records::List,
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// The list, or the devices counted by a field, or the packages that match.
pub(crate) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    show(visitor, None).await
}

pub(crate) async fn save_view(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    follow(visitor, VIEWS.save(&visitor).await).await
}

pub(crate) async fn delete_view(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    follow(visitor, VIEWS.delete(&visitor).await).await
}

/// Leads on to a path, or shows the devices with what was refused.
async fn follow(visitor: Visitor<'_>, outcome: Result<String, Refusal>) -> Result<Reply, Refusal> {
    match outcome {
        Ok(path) => Ok(Reply::SeeOther(path)),
        Err(refusal) if refusal.status.is_client_error() => show(visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn show(visitor: Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let offered = Offered { organizations: organization_choices(&visitor, None).await?, views: VIEWS.saved(&visitor).await? };
    let controls = controls(&query, &offered, &visitor, refusal);
    let content = if !query.first("group_by").is_empty() {
        groups::show(visitor, &query, &controls).await?
    } else if query.first("rows") == "software" {
        packages::show(visitor, &query, &controls).await?
    } else {
        devices(visitor, &query, &controls).await?
    };
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn nothing(query: &Query, may_write: bool) -> &'static str {
    match (*query == Query::default(), may_write) {
        (true, true) => {
            "There are no devices yet. Create one, send them from your agents, or import them with the command tenantd import."
        }
        (true, false) => "There are no devices that you may see.",
        (false, _) => "No device matches. Remove a filter.",
    }
}

async fn devices(visitor: Visitor<'_>, query: &Query, controls: &Markup) -> Result<Content, Refusal> {
    let sorted = query.clone().or("sort", "name");
    let target = sorted.clone().or("limit", "50").with("include_total", "true").at(DEVICES_API);
    let devices: List<DeviceRow> = visitor.read(&target).await?;
    let total = devices.page.total.unwrap_or_default();
    let has_software = !query.first("software").is_empty() && visitor.may(Scope::InventoryRead);
    let head = page_head(
        &html! { "Devices" },
        &html! { (counted(total, "device", "devices")) },
        &html! {
            @if has_software { a.button href=(filters_only(query).with("rows", "software").at(PATH)) { "Show the packages" } }
            a.button href=(sorted.without("cursor").without("limit").with("format", "csv").at(DEVICES_API)) download { "CSV" }
            (curl(visitor.visit.base_url, "GET", &target, None))
            @if visitor.may(Scope::DirectoryWrite) { a.button.primary href="/devices/new" { "New device" } }
        },
    );
    let body = html! {
        (head)
        (controls)
        @if devices.data.is_empty() {
            (empty(nothing(query, visitor.may(Scope::DirectoryWrite))))
        } @else {
            (device_rows(&devices.data, true, &visitor))
        }
        (pages(query, PATH, devices.data.len(), &devices.page))
    };
    Ok(Content::new("Devices", body).live("device.*"))
}

/// Devices as a table, with their organization if they can have different ones.
pub(crate) fn device_rows(devices: &[DeviceRow], with_organization: bool, visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Devices" {
            table.list data-rows {
                thead { tr {
                    @for head in ["Device", "Class"] { th scope="col" { (head) } }
                    @if with_organization { th scope="col" { "Organization" } }
                    @for head in ["System", "Agent", "Updates", "Backup", "Health"] { th scope="col" { (head) } }
                } }
                tbody {
                    @for device in devices {
                        tr {
                            td.main {
                                a href={ (PATH) "/" (device.id) } data-record { (device.name) }
                                @if device.lifecycle != "active" { " " (state_badge(&device.lifecycle)) }
                            }
                            td { (name_of(&device.class)) }
                            @if with_organization { td.name { (device.organization.link("organizations")) } }
                            td.name { (optional(device.os.as_ref().map(System::title).as_deref())) }
                            td { (agent(&device.agent, visitor)) }
                            td { @match &device.patch { Some(updates) => { (state_badge(&updates.status)) } None => { (optional(None)) } } }
                            td { @match &device.backup { Some(backup) => { (backup.badge()) } None => { (optional(None)) } } }
                            td { (state_badge(&device.health)) }
                        }
                    }
                }
            }
        }
    }
}

/// The state of an agent, with the time when it was last seen.
pub(super) fn agent(agent: &Agent, visitor: &Visitor<'_>) -> Markup {
    html! {
        (state_badge(&agent.status))
        @if let Some(seen) = &agent.last_seen_at { " " (visitor.clock.relative(seen)) }
    }
}
