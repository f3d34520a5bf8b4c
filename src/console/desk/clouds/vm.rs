//! VMs as the API answers them, and VMs as a table.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::Scope;

use super::{PATH, VMS_PATH, kinds::title_of};
use crate::{
    components::{Tone, badge, words},
    desk::{devices::memory_size, organizations::optional, records::Named},
    visitor::Visitor,
};

pub(super) const STATES: [&str; 11] = [
    "running",
    "provisioning",
    "starting",
    "rebooting",
    "stopping",
    "stopped",
    "suspended",
    "terminating",
    "terminated",
    "error",
    "unknown",
];

#[derive(Debug, Deserialize)]
pub(super) struct Vm {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) provider: ProviderLink,
    pub(super) provider_vm_id: Option<String>,
    pub(super) state: String,
    pub(super) provider_state: String,
    pub(super) state_note: Option<String>,
    pub(super) organization: Option<Named>,
    pub(super) region: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) size: Option<Size>,
    pub(super) image: Option<String>,
    #[serde(default)]
    pub(super) private_ips: Vec<String>,
    #[serde(default)]
    pub(super) public_ips: Vec<String>,
    #[serde(default)]
    pub(super) tags: BTreeMap<String, String>,
    pub(super) launched_at: Option<String>,
    pub(super) discovered_at: String,
    pub(super) last_synced_at: String,
    pub(super) ended_at: Option<String>,
    pub(super) updated_at: String,
    pub(super) stale: bool,
    #[serde(default)]
    pub(super) unreadable: Vec<UnreadableField>,
    pub(super) operation_id: Option<String>,
}

/// The provider of a VM.
#[derive(Debug, Deserialize)]
pub(super) struct ProviderLink {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: String,
}

impl ProviderLink {
    /// The name, as a link if the reader may see providers.
    pub(super) fn link(&self, visitor: &Visitor<'_>) -> Markup {
        provider_link(&self.id, &self.name, visitor)
    }
}

pub(super) fn provider_link(id: &str, name: &str, visitor: &Visitor<'_>) -> Markup {
    html! { @if visitor.may(Scope::ProvidersRead) { a href={ (PATH) "/" (id) } { (name) } } @else { (name) } }
}

#[derive(Debug, Deserialize)]
pub(super) struct Size {
    pub(super) id: String,
    vcpus: Option<u32>,
    memory_bytes: Option<u64>,
}

impl Size {
    /// The size with what it stands for, such as `t3.small (2 CPUs, 2 GiB)`.
    pub(super) fn title(&self) -> String {
        let cpus = self.vcpus.map(|count| format!("{count} CPU{}", if count == 1 { "" } else { "s" }));
        let parts: Vec<String> = cpus.into_iter().chain(self.memory_bytes.map(memory_size)).collect();
        if parts.is_empty() { self.id.clone() } else { format!("{} ({})", self.id, parts.join(", ")) }
    }
}

/// A field that tenantd could not read, and why.
#[derive(Debug, Deserialize)]
pub(super) struct UnreadableField {
    pub(super) field: String,
    pub(super) reason: String,
}

impl Vm {
    pub(super) fn path(&self) -> String {
        format!("{VMS_PATH}/{}", self.id)
    }

    /// All addresses, the public ones first.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.public_ips.iter().chain(&self.private_ips).map(String::as_str)
    }

    /// The region, with the zone if it is known.
    pub(super) fn place(&self) -> Option<String> {
        match (&self.region, &self.zone) {
            (Some(region), Some(zone)) if zone.starts_with(region.as_str()) => Some(zone.clone()),
            (Some(region), Some(zone)) => Some(format!("{region}, {zone}")),
            (region, zone) => region.as_ref().or(zone.as_ref()).cloned(),
        }
    }
}

pub(super) fn state_badge(state: &str) -> Markup {
    let tone = match state {
        "running" => Tone::Good,
        "provisioning" | "starting" | "rebooting" | "stopping" | "terminating" => Tone::Accent,
        "unknown" => Tone::Warn,
        "error" => Tone::Bad,
        _ => Tone::Neutral,
    };
    badge(tone, &words(state))
}

/// VMs as a table, with their provider if they can have different ones.
pub(super) fn vm_rows(vms: &[Vm], with_provider: bool, visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Virtual machines" {
            table.list data-rows {
                thead { tr {
                    @for head in ["Name", "State"] { th scope="col" { (head) } }
                    @if with_provider { th scope="col" { "Provider" } }
                    @for head in ["Organization", "Region", "Size", "Addresses", "Synced"] { th scope="col" { (head) } }
                } }
                tbody {
                    @for vm in vms {
                        tr {
                            td.main { a href=(vm.path()) data-record { (vm.name) } }
                            td {
                                (state_badge(&vm.state))
                                @if vm.stale { " " (badge(Tone::Warn, "Stale")) }
                            }
                            @if with_provider { td.name { (vm.provider.link(visitor)) " " small { (title_of(&vm.provider.kind)) } } }
                            td.name {
                                @match &vm.organization {
                                    Some(organization) => { (organization.link("organizations")) }
                                    None => { (optional(None)) }
                                }
                            }
                            td { (optional(vm.place().as_deref())) }
                            td { (optional(vm.size.as_ref().map(|size| size.id.as_str()))) }
                            td {
                                @match vm.addresses().next() {
                                    Some(address) => { code { (address) } @let more = vm.addresses().count() - 1; @if more > 0 { " +" (more) } }
                                    None => { (optional(None)) }
                                }
                            }
                            td.time { (visitor.clock.relative(&vm.last_synced_at)) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_says_what_is_known_of_it() {
        let size = |vcpus, memory_bytes| Size { id: "t3.small".to_owned(), vcpus, memory_bytes }.title();
        assert_eq!(size(Some(2), Some(2 << 30)), "t3.small (2 CPUs, 2 GiB)");
        assert_eq!(size(Some(1), None), "t3.small (1 CPU)");
        assert_eq!(size(None, None), "t3.small");
    }
}
