//! The page of a VM: facts, addresses, tags, the dates of its life, and the devices with its addresses.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    OPERATIONS_PATH, VMS_API, VMS_PATH,
    kinds::title_of,
    vm::{Size, Vm, state_badge},
};
use crate::{
    components::{Tone, badge, card, curl, facts, page_head},
    desk::{
        Content, Reply,
        devices::{DEVICES_API, DeviceRow, device_rows},
        organizations::trail,
        records::List,
    },
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let target = format!("{VMS_API}/{}", segment(visitor.part("id")));
    let vm: Vm = visitor.read(&target).await?;
    let devices = devices(&vm, &visitor).await?;
    let body = html! {
        (trail(&[(VMS_PATH, "Virtual machines")]))
        (head(&vm, &target, &visitor))
        @if let Some(note) = &vm.state_note { p.note { strong { "State: " } (note) } }
        @if vm.stale { p.note { "The provider has not reported this VM for some time, so this page may be out of date. Look at the provider, or sync it." } }
        div.split {
            div {
                (card("Addresses", &addresses(&vm, &visitor)))
                @if let Some(devices) = &devices { (card("Devices", &device_list(devices, &vm, &visitor))) }
                (card("Tags", &tags(&vm)))
                @if !vm.unreadable.is_empty() { (card("Not readable", &unreadable(&vm))) }
            }
            div {
                (card("Details", &details(&vm, &visitor)))
                (card("Lifecycle", &lifecycle(&vm, &visitor)))
            }
        }
    };
    Ok(Reply::Page(Content::new(vm.name.clone(), body).live_about("vm.*", &vm.id)))
}

fn head(vm: &Vm, target: &str, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { (vm.name) },
        &html! {
            (state_badge(&vm.state))
            @if vm.stale { " " (badge(Tone::Warn, "Stale")) }
            " at " (vm.provider.link(visitor))
            @if let Some(organization) = &vm.organization { " for " (organization.link("organizations")) }
        },
        &html! {
            (curl(visitor.visit.base_url, "GET", target, None))
            @if visitor.may(Scope::VmsWrite) { a.button href=(similar(vm)) { "Order a similar VM" } }
        },
    )
}

/// The order form with the values of this VM.
fn similar(vm: &Vm) -> String {
    let size = vm.size.as_ref().map(|size| size.id.clone());
    let values = [("region", &vm.region), ("zone", &vm.zone), ("size", &size), ("image", &vm.image)];
    let given = values.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let query = Query::default().with("provider_id", &vm.provider.id);
    given.fold(query, |query, (name, value)| query.with(name, value)).at("/vms/new")
}

/// The devices that have an address of the VM. `None` if the reader may not see devices, or if the VM has no address.
async fn devices(vm: &Vm, visitor: &Visitor<'_>) -> Result<Option<List<DeviceRow>>, Refusal> {
    if !visitor.may(Scope::DirectoryRead) || vm.addresses().next().is_none() {
        return Ok(None);
    }
    visitor.read_if_allowed(with_addresses(vm).with("limit", "5").at(DEVICES_API)).await
}

/// The devices with these addresses. Private addresses repeat, so a VM of an organization is compared with its devices only.
fn with_addresses(vm: &Vm) -> Query {
    let ips = vm.addresses().take(100).fold(Query::default(), |query, ip| query.and("ip", ip));
    match &vm.organization {
        Some(organization) => ips.with("organization_id", &organization.id),
        None => ips,
    }
}

fn device_list(devices: &List<DeviceRow>, vm: &Vm, visitor: &Visitor<'_>) -> Markup {
    html! {
        @if devices.data.is_empty() {
            p.muted { "No device has an address of this VM. Install the agent on the VM to see its inventory." }
        } @else {
            (device_rows(&devices.data, vm.organization.is_none(), visitor))
            p.muted { "These devices have an address of this VM." }
            @if devices.page.next_cursor.is_some() { p { a href=(with_addresses(vm).at("/devices")) { "Show all devices with these addresses" } } }
        }
    }
}

fn addresses(vm: &Vm, visitor: &Visitor<'_>) -> Markup {
    let list = |ips: &[String]| (!ips.is_empty()).then(|| html! { ul.plain { @for ip in ips { li { code { (ip) } } } } });
    let search = vm.addresses().next().map(|ip| Query::default().with("q", ip).at("/search"));
    html! {
        @if vm.addresses().next().is_none() {
            p.muted { "The provider reports no addresses." }
        } @else {
            (facts(&[("Public", list(&vm.public_ips)), ("Private", list(&vm.private_ips))]))
        }
        @if let Some(search) = search.filter(|_| visitor.may(Scope::SearchRead)) { p { a href=(search) { "Search for the address" } } }
    }
}

fn tags(vm: &Vm) -> Markup {
    let path = |key: &str, value: &str| match value {
        "" => Query::default().with("tag", key).at(VMS_PATH),
        value => Query::default().with(&format!("tag.{key}"), value).at(VMS_PATH),
    };
    html! {
        @if vm.tags.is_empty() {
            p.muted { "No tags." }
        } @else {
            ul.plain {
                @for (key, value) in &vm.tags {
                    li { a href=(path(key, value)) { (key) @if !value.is_empty() { "=" (value) } } }
                }
            }
            p.muted { "Each tag leads to all VMs that have it." }
        }
    }
}

fn unreadable(vm: &Vm) -> Markup {
    html! {
        p { "The provider answered values that tenantd could not read." }
        ul { @for field in &vm.unreadable { li { code { (field.field) } ": " (field.reason) } } }
    }
}

fn details(vm: &Vm, visitor: &Visitor<'_>) -> Markup {
    let text = |value: &Option<String>| value.as_ref().map(|value| html! { (value) });
    let code = |value: &Option<String>| value.as_ref().map(|value| html! { code { (value) } });
    facts(&[
        ("Provider", Some(html! { (vm.provider.link(visitor)) " " span.muted { (title_of(&vm.provider.kind)) } })),
        ("State there", Some(html! { code { (vm.provider_state) } })),
        ("Region", text(&vm.region)),
        ("Zone", text(&vm.zone)),
        ("Size", vm.size.as_ref().map(Size::title).map(|title| html! { (title) })),
        ("Image", code(&vm.image)),
        ("ID there", code(&vm.provider_vm_id)),
        ("ID", Some(html! { code { (vm.id) } })),
    ])
}

fn lifecycle(vm: &Vm, visitor: &Visitor<'_>) -> Markup {
    let clock = visitor.clock;
    let optional = |at: &Option<String>| at.as_ref().map(|at| clock.absolute(at));
    let operation = vm.operation_id.as_ref().map(|id| html! { a href={ (OPERATIONS_PATH) "/" (id) } { "The order" } });
    facts(&[
        ("Ordered by", operation),
        ("Launched", optional(&vm.launched_at)),
        ("Found", Some(clock.absolute(&vm.discovered_at))),
        ("Changed", Some(clock.relative(&vm.updated_at))),
        ("Last synced", Some(clock.relative(&vm.last_synced_at))),
        ("Ended", optional(&vm.ended_at)),
    ])
}
