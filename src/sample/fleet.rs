//! Generates the devices of an organization, as agents and scanners would describe them now.
//!
//! The submodules contain tables of models, systems and software. This file combines them. The same random numbers give the same
//! devices.

mod models;
mod packages;
mod state;
mod systems;

use tenantd_base::{
    clock::Timestamp,
    entropy::Entropy,
    id::{OrganizationId, UserId},
};
use tenantd_directory::{
    Cpu, Details, Device, DeviceClass, Disk, Hardware, Interface, Lifecycle, Network, OperatingSystem, Software, Volume,
};

use self::{
    models::{MODELS, Model, Runs},
    packages::{On, PACKAGES, Package},
    systems::{SYSTEMS, System},
};
use super::{pick, tags, words::SITES};

const GIB: u64 = 1 << 30;

/// The organization of the devices, and the current time.
pub(super) struct Home<'a> {
    pub(super) organization_id: OrganizationId,
    /// Part of the device names.
    pub(super) short: &'a str,
    /// The number of its network.
    pub(super) network: u64,
    pub(super) people: &'a [UserId],
    pub(super) now: Timestamp,
}

/// Generates the next device of an organization.
pub(super) fn device(random: &mut Entropy, home: &Home<'_>, number: u64) -> Option<Device> {
    let model = weighted(random, MODELS.iter().map(|model| (model, model.weight)))?;
    let fitting = SYSTEMS.iter().filter(|system| system.runs == model.runs);
    let system = weighted(random, fitting.map(|system| (system, system.weight)));
    let name = format!("{}-{}-{:02}", prefix(model), home.short, number + 1);
    let state = state::State::draw(random, has_agent(model), home.now);
    let os = system.map(|system| operating_system(system, &state));
    let details = Details {
        tags: tags(random),
        custom_fields: [("asset_tag".to_owned(), format!("A-{:05}", random.below(100_000)))].into(),
        hardware: Some(hardware(random, model, os.as_ref())),
        network: Some(network(random, home, model, &name, number)),
        software: system.map(|system| software(random, model.class, system)).unwrap_or_default(),
        security: state.security(random, model.class),
        patch: state.patch(),
        warranty: Some(state.warranty(model.class)),
        os,
    };
    let personal = matches!(model.class, DeviceClass::Workstation | DeviceClass::Mobile);
    Some(Device {
        external_id: Some(format!("sample-{name}")),
        health: state.health(&details, home.now),
        name,
        class: model.class,
        lifecycle: lifecycle(random),
        organization_id: home.organization_id,
        site: pick(random, &SITES).map(|site| (*site).to_owned()),
        owner_id: pick(random, home.people).copied().filter(|_| personal),
        agent_version: state.last_seen_at.map(|_| if random.below(4) == 0 { "5.1.8" } else { "5.2.1" }.to_owned()),
        last_seen_at: state.last_seen_at,
        collected_at: state.collected_at,
        details,
        ..Device::default()
    })
}

/// Picks one of the choices with a probability in proportion to its weight.
fn weighted<'a, T>(random: &mut Entropy, choices: impl Iterator<Item = (&'a T, u64)> + Clone) -> Option<&'a T> {
    let mut left = random.below(choices.clone().map(|(_, weight)| weight).sum());
    for (choice, weight) in choices {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return Some(choice),
        }
    }
    None
}

fn prefix(model: &Model) -> &'static str {
    match (model.class, model.runs) {
        (DeviceClass::Workstation, Runs::Macos) => "mac",
        (DeviceClass::Workstation, _) => "ws",
        (DeviceClass::Server, _) => "srv",
        (DeviceClass::Vm, _) => "vm",
        (DeviceClass::Hypervisor, _) => "esx",
        (DeviceClass::Network, _) => "net",
        (DeviceClass::Printer, _) => "prn",
        (DeviceClass::Mobile, _) => "mob",
        (DeviceClass::Storage, _) => "nas",
        (DeviceClass::Iot | DeviceClass::Other, _) => "iot",
    }
}

fn has_agent(model: &Model) -> bool {
    matches!(model.runs, Runs::WindowsClient | Runs::WindowsServer | Runs::Linux | Runs::Macos | Runs::Esxi)
}

fn lifecycle(random: &mut Entropy) -> Lifecycle {
    match random.below(100) {
        0..90 => Lifecycle::Active,
        90..94 => Lifecycle::Spare,
        94..97 => Lifecycle::InRepair,
        97..99 => Lifecycle::Retired,
        _ => Lifecycle::Missing,
    }
}

fn operating_system(system: &System, state: &state::State) -> OperatingSystem {
    OperatingSystem {
        family: system.family,
        name: Some(system.name.to_owned()),
        version: Some(system.version.to_owned()),
        build: system.build.map(str::to_owned),
        reboot_required: Some(state.reboot_required()),
        eol_at: system.eol.and_then(Timestamp::parse),
        last_boot_at: state.last_boot_at,
    }
}

/// A serial number in the format of the manufacturer.
fn serial(random: &mut Entropy, pattern: &str) -> String {
    // Without letters that look like digits.
    let letters: Vec<char> = "ABCDEFGHJKLMNPQRSTUVWXYZ".chars().collect();
    let digits: Vec<char> = ('0'..='9').collect();
    let sign = |sign: char| {
        let choices = match sign {
            '@' => &letters,
            '*' if random.below(3) == 0 => &letters,
            '#' | '*' => &digits,
            other => return other,
        };
        pick(random, choices).copied().unwrap_or(sign)
    };
    pattern.chars().map(sign).collect()
}

fn hardware(random: &mut Entropy, model: &Model, os: Option<&OperatingSystem>) -> Hardware {
    let disks: Vec<Disk> = model
        .disks
        .iter()
        .map(|(name, gigabytes, kind)| Disk {
            model: Some((*name).to_owned()),
            bytes: Some(gigabytes * 1_000_000_000),
            kind: Some((*kind).to_owned()),
        })
        .collect();
    let space: u64 = disks.iter().filter_map(|disk| disk.bytes).sum();
    Hardware {
        manufacturer: Some(model.manufacturer.to_owned()),
        model: Some(model.name.to_owned()),
        serial: Some(serial(random, model.serial)),
        cpu: model.cpu.map(|(name, cores)| Cpu { model: Some(name.to_owned()), cores: Some(cores) }),
        memory_bytes: pick(random, model.memory_gib).map(|gib| gib * GIB),
        volumes: if os.is_some() { volumes(random, model, space) } else { Vec::new() },
        disks,
    }
}

fn volumes(random: &mut Entropy, model: &Model, space: u64) -> Vec<Volume> {
    let (names, encrypted_percent): (&[&str], u64) = match (model.runs, model.class) {
        (Runs::WindowsClient, _) => (&["C:"], 78),
        (Runs::WindowsServer, _) => (&["C:", "D:"], 30),
        (Runs::Macos, _) => (&["Macintosh HD"], 92),
        (Runs::Linux, DeviceClass::Workstation) => (&["/"], 85),
        (Runs::Linux, _) => (&["/", "/var"], 15),
        (Runs::Esxi, _) => (&["datastore1"], 5),
        (Runs::Firmware(_), DeviceClass::Storage) => (&["volume1"], 40),
        _ => (&[], 0),
    };
    let each = space / (names.len() as u64).max(1);
    let encrypted = random.below(100) < encrypted_percent;
    let mut volume = |name: &&str| Volume {
        name: (*name).to_owned(),
        bytes: Some(each),
        // One of twelve is nearly full.
        free_bytes: Some(if random.below(12) == 0 { each / 50 } else { each / 100 * (10 + random.below(75)) }),
        encrypted: Some(encrypted),
    };
    names.iter().map(&mut volume).collect()
}

fn network(random: &mut Entropy, home: &Home<'_>, model: &Model, name: &str, number: u64) -> Network {
    let part = match model.class {
        DeviceClass::Server | DeviceClass::Vm | DeviceClass::Hypervisor | DeviceClass::Storage => 10,
        DeviceClass::Network => 1,
        DeviceClass::Printer | DeviceClass::Iot | DeviceClass::Other => 30,
        DeviceClass::Workstation => 20,
        DeviceClass::Mobile => 40,
    };
    let address = format!("10.{}.{part}.{}", 20 + home.network, 10 + number);
    let [first, second, third] = model.oui;
    let mut interface = |name: &str, ips: Vec<String>| {
        let [fourth, fifth, sixth] = random.bytes();
        let mac = format!("{first:02X}:{second:02X}:{third:02X}:{fourth:02X}:{fifth:02X}:{sixth:02X}");
        Interface { name: Some(name.to_owned()), mac: Some(mac), ips }
    };
    let (wired, second_name) = match model.runs {
        Runs::WindowsClient => ("Ethernet", Some("Wi-Fi")),
        Runs::WindowsServer => ("Ethernet0", None),
        Runs::Macos => ("en0", Some("en1")),
        Runs::Linux => ("ens192", None),
        Runs::Esxi => ("vmk0", Some("vmnic1")),
        Runs::Ios | Runs::Android => ("wlan0", None),
        Runs::Firmware(_) => ("mgmt0", None),
    };
    let mut interfaces = vec![interface(wired, vec![address.clone()])];
    interfaces.extend(second_name.map(|name| interface(name, Vec::new())));
    Network {
        hostname: Some(name.to_owned()),
        primary_ip: Some(address),
        public_ip: Some(format!("203.0.113.{}", 10 + home.network)),
        interfaces,
    }
}

fn software(random: &mut Entropy, class: DeviceClass, system: &System) -> Vec<Software> {
    let is_server = matches!(class, DeviceClass::Server | DeviceClass::Vm);
    let is_desk = class == DeviceClass::Workstation;
    let fits = |package: &&Package| {
        let here = match package.on {
            On::Servers => is_server,
            On::Desks => is_desk,
            On::Both => is_server || is_desk,
        };
        here && package.families.contains(&system.family)
    };
    let mut found = Vec::new();
    for package in PACKAGES.iter().filter(fits) {
        if random.below(100) >= package.percent {
            continue;
        }
        // Most packages are up to date.
        let version = if random.below(100) < 62 { package.versions.first() } else { pick(random, package.versions) };
        found.push(Software {
            name: package.name.to_owned(),
            version: version.map(|version| (*version).to_owned()),
            publisher: Some(package.publisher.to_owned()),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tenantd_directory::OsFamily;

    use super::*;

    fn fleet(seed: u64) -> Vec<Device> {
        let mut random = Entropy::from_seed(seed);
        let home = Home {
            organization_id: OrganizationId::from_bytes([1; 16]),
            short: "acme",
            network: 3,
            people: &[UserId::from_bytes([2; 16])],
            now: Timestamp::from_millis(1_767_225_600_000),
        };
        (0..200).map(|number| device(&mut random, &home, number).unwrap()).collect()
    }

    #[test]
    fn devices_depend_only_on_the_seed() {
        let text = |devices: &[Device]| format!("{devices:?}");
        assert_eq!(text(&fleet(1)), text(&fleet(1)));
        assert_ne!(text(&fleet(1)), text(&fleet(2)));
    }

    #[test]
    fn a_fleet_has_consistent_devices_of_every_class() {
        let devices = fleet(1);
        let classes: BTreeSet<String> = devices.iter().map(|device| format!("{:?}", device.class)).collect();
        assert_eq!(classes.len(), 9, "{classes:?}");
        let external: BTreeSet<&String> = devices.iter().filter_map(|device| device.external_id.as_ref()).collect();
        assert_eq!(external.len(), devices.len(), "external ids are unique");
        for device in &devices {
            let os = device.details.os.as_ref();
            let family = os.map(|os| os.family);
            let maker = device.details.hardware.as_ref().and_then(|hardware| hardware.manufacturer.as_deref());
            assert_eq!(family == Some(OsFamily::Macos), maker == Some("Apple Inc.") && device.class == DeviceClass::Workstation);
            assert_eq!(family == Some(OsFamily::Esxi), device.class == DeviceClass::Hypervisor);
            if family != Some(OsFamily::Linux) && family != Some(OsFamily::Windows) && family != Some(OsFamily::Macos) {
                assert!(device.details.software.is_empty());
            }
            assert!(device.agent_version.is_some() == device.last_seen_at.is_some());
        }
        assert!(SYSTEMS.iter().all(|system| system.eol.is_none_or(|day| Timestamp::parse(day).is_some())));
    }
}
