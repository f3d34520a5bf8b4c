//! Devices: found by name, host name, addresses, serial number, make, system and tags. Their packages are the type `software`.

use tenantd_base::id::{DeviceId, TenantId};
use tenantd_directory::{self as directory, Device, Lifecycle, Network, OperatingSystem};
use tenantd_store::{ReadTx, StoreError};

use super::{
    super::{
        model::{Attribute, Document, Kind, RecordId, State},
        text,
    },
    After, Scanned, Source, joined, scanned,
};

pub(super) struct Devices;

fn state(lifecycle: Lifecycle) -> State {
    match lifecycle {
        Lifecycle::Active => State::Active,
        Lifecycle::Spare => State::Spare,
        Lifecycle::InRepair => State::InRepair,
        Lifecycle::Retired => State::Retired,
        Lifecycle::Missing => State::Missing,
    }
}

/// The values for `os:`: the family, and each run of leading words of the name and version.
fn systems(os: &OperatingSystem) -> Vec<String> {
    let full = [os.name.as_deref(), os.version.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let mut values = vec![text::whole(os.family.name())];
    let mut so_far = String::new();
    for word in text::tokens(&full) {
        if !so_far.is_empty() {
            so_far.push(' ');
        }
        so_far.push_str(&word);
        values.push(so_far.clone());
    }
    values.sort_unstable();
    values.dedup();
    values
}

/// Host names and network addresses, without duplicates.
fn network_names(network: &Network) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let Some(hostname) = &network.hostname {
        found.push(("hostname", hostname.clone()));
        found.extend(hostname.split_once('.').map(|(host, _)| ("hostname", host.to_owned())));
    }
    let addresses = network.primary_ip.iter().chain(&network.public_ip).chain(network.interfaces.iter().flat_map(|one| &one.ips));
    found.extend(addresses.map(|address| ("ip", address.split('/').next().unwrap_or(address).to_owned())));
    found.extend(network.interfaces.iter().filter_map(|one| one.mac.clone()).map(|mac| ("mac", mac)));
    found.sort_unstable();
    found.dedup();
    found
}

fn document(device: Device) -> Document {
    let details = device.details;
    let mut texts = Vec::new();
    let mut identifiers = details.network.as_ref().map(network_names).unwrap_or_default();
    let mut attributes: Vec<(Attribute, String)> = Vec::new();
    let (mut make, mut system) = (None, None);
    if let Some(hardware) = details.hardware {
        make = joined([Some(
            [hardware.manufacturer.as_deref(), hardware.model.as_deref()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" ")
                .as_str(),
        )]);
        texts.extend(hardware.manufacturer.map(|value| ("manufacturer", value)));
        texts.extend(hardware.model.map(|value| ("model", value)));
        identifiers.extend(hardware.serial.map(|serial| ("serial", serial)));
    }
    if let Some(os) = details.os {
        attributes.extend(systems(&os).into_iter().map(|value| (Attribute::Os, value)));
        system = os.name.map(|name| os.version.map_or(name.clone(), |version| format!("{name} {version}")));
        texts.extend(system.clone().map(|value| ("os", value)));
    }
    identifiers.extend(device.external_id.map(|id| ("external_id", id)));
    for (field, value) in &identifiers {
        let attribute = match *field {
            "ip" => Attribute::Ip,
            "mac" => Attribute::Mac,
            "serial" => Attribute::Serial,
            _ => continue,
        };
        let value = if attribute == Attribute::Serial { text::serial(value) } else { text::identifier(value) };
        attributes.push((attribute, value));
    }
    attributes.extend(details.tags.iter().map(|tag| (Attribute::Tag, text::fold(tag))));
    texts.extend(details.tags.into_iter().map(|tag| ("tag", tag)));
    texts.extend(device.site.map(|site| ("site", site)));
    texts.extend(details.custom_fields.into_values().map(|value| ("custom_field", value)));
    let mut software: Vec<String> = details.software.into_iter().map(|package| package.name).collect();
    software.sort_unstable();
    software.dedup();
    Document {
        tenant_id: device.tenant_id,
        kind: Kind::Device,
        id: *device.id.as_bytes(),
        shown_id: device.id.to_string(),
        name: device.name,
        subtitle: joined([make.as_deref(), system.as_deref()]),
        texts,
        identifiers,
        attributes,
        software,
        organization_id: Some(device.organization_id),
        state: Some(state(device.lifecycle)),
        updated_at: device.updated_at,
    }
}

impl Source for Devices {
    fn kind(&self) -> Kind {
        Kind::Device
    }

    fn subject(&self) -> &'static str {
        "device"
    }

    fn read_id(&self, text: &str) -> Option<RecordId> {
        text.parse::<DeviceId>().ok().map(|id| *id.as_bytes())
    }

    fn load(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Option<Document>, StoreError> {
        Ok(directory::device_record(tx, tenant, DeviceId::from_bytes(id))?.map(document))
    }

    fn scan(&self, tx: &ReadTx, after: Option<After>, limit: usize) -> Result<Scanned, StoreError> {
        let after = after.map(|(tenant, id)| (tenant, DeviceId::from_bytes(id.to_be_bytes())));
        let records = directory::devices_after(tx, after, limit)?;
        scanned(records, limit, |one| (one.tenant_id, u128::from_be_bytes(*one.id.as_bytes())), |one| Ok(Some(document(one))))
    }
}
