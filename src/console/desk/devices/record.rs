//! Devices as the API answers them.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use super::{DEVICES_API, PATH};
use crate::{
    components::{Tone, badge},
    desk::{organizations::name_of, records::Named},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

/// A device in a list.
#[derive(Debug, Deserialize)]
pub(crate) struct DeviceRow {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) class: String,
    pub(super) lifecycle: String,
    pub(super) organization: Named,
    pub(super) os: Option<System>,
    pub(super) agent: Agent,
    pub(super) patch: Option<Updates>,
    pub(super) backup: Option<Backup>,
    pub(super) health: String,
}

/// A device with all that is known of it.
#[derive(Debug, Deserialize)]
pub(super) struct Device {
    pub(super) id: String,
    pub(super) external_id: Option<String>,
    pub(super) name: String,
    pub(super) class: String,
    pub(super) lifecycle: String,
    pub(super) organization: Named,
    pub(super) site: Option<String>,
    pub(super) owner: Option<Named>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) custom_fields: BTreeMap<String, String>,
    pub(super) agent: Agent,
    pub(super) hardware: Option<Hardware>,
    pub(super) os: Option<System>,
    pub(super) network: Option<Network>,
    pub(super) security: Option<Security>,
    pub(super) patch: Option<Updates>,
    #[serde(default)]
    pub(super) software: Vec<Package>,
    pub(super) warranty: Option<Warranty>,
    pub(super) backup: Option<Backup>,
    pub(super) health: String,
    pub(super) collected_at: Option<String>,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) version: u64,
}

impl Device {
    pub(super) fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    pub(super) fn api(&self) -> String {
        format!("{DEVICES_API}/{}", self.id)
    }
}

/// The device that the path names.
pub(super) async fn device(visitor: &Visitor<'_>) -> Result<Device, Refusal> {
    visitor.read(format!("{DEVICES_API}/{}", segment(visitor.part("id")))).await
}

#[derive(Debug, Deserialize)]
pub(super) struct Agent {
    pub(super) status: String,
    pub(super) version: Option<String>,
    pub(super) last_seen_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct System {
    pub(super) family: String,
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) build: Option<String>,
    pub(super) reboot_required: Option<bool>,
    pub(super) eol_at: Option<String>,
    pub(super) last_boot_at: Option<String>,
}

impl System {
    /// The name with the version, such as `Windows 11 Pro 24H2`.
    pub(super) fn title(&self) -> String {
        let name = self.name.clone().unwrap_or_else(|| name_of(&self.family));
        self.version.as_ref().map_or_else(|| name.clone(), |version| format!("{name} {version}"))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Hardware {
    pub(super) manufacturer: Option<String>,
    pub(super) model: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) cpu: Option<Cpu>,
    #[serde(default)]
    pub(super) disks: Vec<Disk>,
    #[serde(default)]
    pub(super) volumes: Vec<Volume>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cpu {
    pub(super) model: Option<String>,
    pub(super) cores: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Disk {
    pub(super) model: Option<String>,
    pub(super) bytes: Option<u64>,
    pub(super) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) bytes: Option<u64>,
    pub(super) free_bytes: Option<u64>,
    pub(super) encrypted: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Network {
    pub(super) hostname: Option<String>,
    pub(super) primary_ip: Option<String>,
    pub(super) public_ip: Option<String>,
    #[serde(default)]
    pub(super) interfaces: Vec<Interface>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Interface {
    pub(super) name: Option<String>,
    pub(super) mac: Option<String>,
    #[serde(default)]
    pub(super) ips: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Security {
    pub(super) antivirus: Option<String>,
    pub(super) firewall: Option<bool>,
    pub(super) disk_encryption: Option<bool>,
}

/// The state of operating system updates.
#[derive(Debug, Deserialize)]
pub(super) struct Updates {
    pub(super) status: String,
    pub(super) missing_critical: u64,
    pub(super) missing_other: u64,
    pub(super) last_scan_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) publisher: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Warranty {
    pub(super) status: String,
    pub(super) ends_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Backup {
    pub(crate) eligible: bool,
    pub(crate) protected: bool,
    pub(crate) last_success_at: Option<String>,
}

impl Backup {
    pub(crate) fn badge(&self) -> Markup {
        match (self.eligible, self.protected) {
            (true, true) => badge(Tone::Good, "Protected"),
            (true, false) => badge(Tone::Bad, "Not protected"),
            (false, _) => html! { span.muted { "Not needed" } },
        }
    }
}

/// A state of a device, its agent, its updates or its warranty.
pub(super) fn state_badge(state: &str) -> Markup {
    let tone = match state {
        "online" | "healthy" | "compliant" | "active" => Tone::Good,
        "offline" | "needs_attention" | "pending" | "reboot_pending" | "expiring_soon" | "in_repair" => Tone::Warn,
        "overdue" | "unhealthy" | "failing" | "expired" | "missing" => Tone::Bad,
        _ => Tone::Neutral,
    };
    badge(tone, &name_of(state))
}

/// A size in the units in which disks are sold.
pub(crate) fn size(bytes: u64) -> String {
    scaled(bytes, 1000.0, ["B", "kB", "MB", "GB", "TB", "PB"])
}

/// A size in the units in which memory is sold.
pub(crate) fn memory_size(bytes: u64) -> String {
    scaled(bytes, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

fn scaled(bytes: u64, base: f64, units: [&str; 6]) -> String {
    let mut value = bytes as f64;
    let mut units = units.into_iter();
    let mut unit = units.next().unwrap_or_default();
    for next in units {
        if value < base {
            break;
        }
        value /= base;
        unit = next;
    }
    let text = format!("{value:.1}");
    format!("{} {unit}", text.trim_end_matches(".0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_people_use() {
        assert_eq!((size(512_000_000_000), size(1_500), size(0)), ("512 GB".to_owned(), "1.5 kB".to_owned(), "0 B".to_owned()));
        assert_eq!(memory_size(34_359_738_368), "32 GiB");
    }
}
