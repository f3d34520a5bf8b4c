//! The parts of a device's page.

use maud::{Markup, html};

use super::{
    PATH,
    filters::software_filter,
    list,
    record::{Device, Disk, Interface, Package, Volume, memory_size, size, state_badge},
};
use crate::{
    components::{Tone, badge, bar, facts, table},
    desk::organizations::{counted, name_of, optional},
    moment::Clock,
    query::Query,
    visitor::Visitor,
};

/// The most packages that a page shows.
const MOST_PACKAGES: usize = 100;

fn text(value: Option<&str>) -> Option<Markup> {
    value.map(|value| html! { (value) })
}

fn unknown(what: &str) -> Markup {
    html! { p.muted { "No source has reported " (what) "." } }
}

pub(super) fn details(device: &Device, clock: &Clock) -> Markup {
    let fixed = facts(&[
        ("Lifecycle", Some(html! { (name_of(&device.lifecycle)) })),
        ("Organization", Some(device.organization.link("organizations"))),
        ("Site", text(device.site.as_deref())),
        ("Owner", device.owner.as_ref().map(|owner| owner.link("contacts"))),
        ("Tags", (!device.tags.is_empty()).then(|| html! { @for tag in &device.tags { (badge(Tone::Neutral, tag)) " " } })),
        ("External ID", device.external_id.as_deref().map(|id| html! { code { (id) } })),
        ("ID", Some(html! { code { (device.id) } })),
        ("Created", Some(clock.absolute(&device.created_at))),
        ("Changed", Some(clock.relative(&device.updated_at))),
    ]);
    html! {
        (fixed)
        @if !device.custom_fields.is_empty() {
            h3 { "Custom fields" }
            dl.facts-list { @for (name, value) in &device.custom_fields { div { dt { (name) } dd { (value) } } } }
        }
    }
}

pub(super) fn agent(device: &Device, visitor: &Visitor<'_>) -> Markup {
    let known = facts(&[
        ("Status", Some(list::agent(&device.agent, visitor))),
        ("Version", text(device.agent.version.as_deref())),
        ("Data collected", device.collected_at.as_deref().map(|time| visitor.clock.relative(time))),
    ]);
    html! {
        (known)
        @if let Some(id) = &device.external_id {
            p.muted { "A source maintains this device as " code { (id) } ". Whatever it sends replaces the value here." }
        }
    }
}

pub(super) fn system(device: &Device, clock: &Clock) -> Markup {
    let Some(system) = &device.os else { return unknown("the operating system") };
    facts(&[
        ("Name", Some(html! { (system.title()) })),
        ("Family", Some(html! { (name_of(&system.family)) })),
        ("Build", text(system.build.as_deref())),
        ("Support ends", system.eol_at.as_deref().map(|time| ending(time, "unsupported", clock))),
        ("Last start", system.last_boot_at.as_deref().map(|time| clock.relative(time))),
        (
            "Restart needed",
            system.reboot_required.map(|is_needed| {
                if is_needed {
                    badge(Tone::Warn, "Yes")
                } else {
                    html! { "No" }
                }
            }),
        ),
    ])
}

/// A day on which something ends, with a badge if it has passed.
fn ending(time: &str, word: &str, clock: &Clock) -> Markup {
    let is_over = clock.left(time).is_some_and(|(_, is_over)| is_over);
    html! { (clock.absolute(time)) @if is_over { " " (badge(Tone::Bad, word)) } }
}

pub(super) fn updates(device: &Device, clock: &Clock) -> Markup {
    let Some(updates) = &device.patch else { return unknown("updates") };
    facts(&[
        ("Status", Some(state_badge(&updates.status))),
        ("Missing, critical", Some(html! { (updates.missing_critical) })),
        ("Missing, other", Some(html! { (updates.missing_other) })),
        ("Last scan", updates.last_scan_at.as_deref().map(|time| clock.relative(time))),
    ])
}

pub(super) fn backup(device: &Device, clock: &Clock) -> Markup {
    let Some(backup) = &device.backup else { return html! { p.muted { "tenantd has not evaluated the backups yet." } } };
    facts(&[
        ("Status", Some(backup.badge())),
        (
            "Newest restore point",
            Some(backup.last_success_at.as_ref().map_or_else(|| html! { "none" }, |time| clock.relative(time))),
        ),
    ])
}

pub(super) fn warranty(device: &Device, clock: &Clock) -> Markup {
    let Some(warranty) = &device.warranty else { return unknown("a warranty") };
    facts(&[
        ("Status", Some(state_badge(&warranty.status))),
        ("Ends", warranty.ends_at.as_deref().map(|time| clock.absolute(time))),
    ])
}

pub(super) fn security(device: &Device) -> Markup {
    let Some(security) = &device.security else { return unknown("security software") };
    let on_off = |is_on: bool| if is_on { badge(Tone::Good, "On") } else { badge(Tone::Bad, "Off") };
    facts(&[
        ("Antivirus", text(security.antivirus.as_deref())),
        ("Firewall", security.firewall.map(on_off)),
        ("Disk encryption", security.disk_encryption.map(on_off)),
    ])
}

pub(super) fn hardware(device: &Device) -> Markup {
    let Some(hardware) = &device.hardware else { return unknown("hardware") };
    let cpu = hardware.cpu.as_ref();
    let known = facts(&[
        ("Manufacturer", text(hardware.manufacturer.as_deref())),
        ("Model", text(hardware.model.as_deref())),
        ("Serial number", hardware.serial.as_deref().map(|serial| html! { code { (serial) } })),
        ("Processor", text(cpu.and_then(|cpu| cpu.model.as_deref()))),
        ("Cores", cpu.and_then(|cpu| cpu.cores).map(|cores| html! { (cores) })),
        ("Memory", hardware.memory_bytes.map(|bytes| html! { (memory_size(bytes)) })),
    ]);
    html! {
        (known)
        @if !hardware.volumes.is_empty() { h3 { "Volumes" } (volumes(&hardware.volumes)) }
        @if !hardware.disks.is_empty() { h3 { "Disks" } (disks(&hardware.disks)) }
    }
}

fn volumes(volumes: &[Volume]) -> Markup {
    let encryption = |is_encrypted: Option<bool>| match is_encrypted {
        Some(true) => badge(Tone::Good, "Encrypted"),
        Some(false) => badge(Tone::Warn, "Not encrypted"),
        None => optional(None),
    };
    let row = |volume: &Volume| vec![html! { (volume.name) }, used(volume), encryption(volume.encrypted)];
    table("Volumes", &["Name", "Used", "Encryption"], &volumes.iter().map(row).collect::<Vec<_>>())
}

fn used(volume: &Volume) -> Markup {
    let (Some(bytes), Some(free)) = (volume.bytes, volume.free_bytes) else {
        return optional(volume.bytes.map(size).as_deref());
    };
    let used = bytes.saturating_sub(free);
    let percent = used.saturating_mul(100).checked_div(bytes).and_then(|percent| u32::try_from(percent).ok()).unwrap_or_default();
    let tone = match percent {
        90.. => Tone::Bad,
        80..90 => Tone::Warn,
        _ => Tone::Good,
    };
    bar(percent, tone, &format!("{percent} % of {}, {} free", size(bytes), size(free)))
}

fn disks(disks: &[Disk]) -> Markup {
    let row = |disk: &Disk| {
        let kind = disk.kind.as_deref().map(str::to_uppercase);
        vec![optional(disk.model.as_deref()), optional(kind.as_deref()), optional(disk.bytes.map(size).as_deref())]
    };
    table("Disks", &["Model", "Kind", "Size"], &disks.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn network(device: &Device) -> Markup {
    let Some(network) = &device.network else { return unknown("the network") };
    let address = |text: Option<&str>| text.map(|text| html! { code { (text) } });
    let known = facts(&[
        ("Host name", address(network.hostname.as_deref())),
        ("Primary IP address", address(network.primary_ip.as_deref())),
        ("Public IP address", address(network.public_ip.as_deref())),
    ]);
    let row = |interface: &Interface| {
        vec![
            optional(interface.name.as_deref()),
            address(interface.mac.as_deref()).unwrap_or_else(|| optional(None)),
            html! { @for ip in &interface.ips { code { (ip) } " " } },
        ]
    };
    html! {
        (known)
        @if !network.interfaces.is_empty() {
            h3 { "Interfaces" }
            (table("Interfaces", &["Name", "MAC address", "IP addresses"], &network.interfaces.iter().map(row).collect::<Vec<_>>()))
        }
    }
}

/// The packages whose name or publisher contains a text.
pub(super) fn software(device: &Device, wanted: &str) -> Markup {
    if device.software.is_empty() {
        return unknown("software");
    }
    let text = wanted.to_lowercase();
    let has_text = |value: &str| value.to_lowercase().contains(&text);
    let matches = |package: &&Package| has_text(&package.name) || package.publisher.as_deref().is_some_and(has_text);
    let found: Vec<&Package> = device.software.iter().filter(matches).collect();
    let count = found.len();
    html! {
        form.filter method="get" action={ (device.path()) "#software" } role="search" aria-label="Find a program" {
            label { "Find a program" input type="search" name="software" value=(wanted) maxlength="200"; }
            button { "Find" }
        }
        p.muted #software {
            (counted(count as u64, "package", "packages"))
            @if count > MOST_PACKAGES { ". The page shows the first " (MOST_PACKAGES) ": find a program to see the others" }
            "."
        }
        @if found.is_empty() {
            p { "No package matches. Use fewer letters." }
        } @else {
            (table("Software", &["Name", "Version", "Publisher"], &found.into_iter().take(MOST_PACKAGES).map(row).collect::<Vec<_>>()))
        }
    }
}

fn row(package: &Package) -> Vec<Markup> {
    let devices = software_filter(&package.name).map(|filter| Query::default().with("software", &filter).at(PATH));
    let name = html! {
        @if let Some(devices) = devices { a href=(devices) title="Devices with this program" { (package.name) } } @else { (package.name) }
    };
    vec![name, optional(package.version.as_deref()), optional(package.publisher.as_deref())]
}
