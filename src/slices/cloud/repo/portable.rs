//! Providers, their VMs and operations as they leave for another installation and arrive there. A provider without its credential
//! arrives disabled, and is not synced. An operation that has not ended stays: in two places it would order twice.

use super::{
    super::{adapters::SIMULATED_VMS, model::Credential},
    operations::OPERATIONS,
    providers::{PROVIDERS, ProviderKey, ProviderRecord, SYNCS, credential_place},
    vms::VMS,
};
use crate::kernel::{
    portable::{Arrival, Carrier, PortError, Portable},
    secrets::Secret,
};

pub(in super::super) fn portable() -> Vec<Box<dyn Portable>> {
    vec![
        Carrier::plain("simulated_vm", &SIMULATED_VMS),
        Carrier::turning(
            "cloud_operation",
            &OPERATIONS,
            |_, key, operation| Ok(operation.0.status.has_ended().then_some((key, operation))),
            |_, key, operation| Ok((key, operation)),
        ),
        Carrier::plain("vm", &VMS),
        Carrier::turning(
            "cloud_provider",
            &PROVIDERS,
            |departure, key, mut provider: ProviderRecord| {
                let target = provider.0.target().digest();
                departure.secret(credential_place(&key, target), &mut provider.0.credential.sealed)?;
                Ok(Some((key, provider)))
            },
            arrive,
        ),
        Carrier::turning(
            "cloud_sync",
            &SYNCS,
            |_, key, sync| Ok(Some((key, sync))),
            |arrival, key: ProviderKey, mut sync| {
                if arrival.bare.contains(key.1.as_bytes()) {
                    sync.0.due_at = None;
                }
                Ok((key, sync))
            },
        ),
    ]
}

fn arrive(
    arrival: &mut Arrival,
    key: ProviderKey,
    mut provider: ProviderRecord,
) -> Result<(ProviderKey, ProviderRecord), PortError> {
    let target = provider.0.target().digest();
    let (place, open) = (credential_place(&key, target), Credential::None {});
    let credential = &mut provider.0.credential;
    if arrival.secret(place, &mut credential.sealed)? {
        return Ok((key, provider));
    }
    if credential.type_name == open.type_name() {
        // There is no secret in it.
        let sealable = open.sealable().map_err(|error| PortError::Wrong(error.to_string()))?;
        credential.sealed = arrival.seal(place, &sealable)?;
        return Ok((key, provider));
    }
    credential.sealed = arrival.seal(place, &Secret::new(""))?;
    provider.0.enabled = false;
    arrival.bare.push(*key.1.as_bytes());
    arrival.note(format!("The cloud provider {} is disabled until it gets its credential.", provider.0.name));
    Ok((key, provider))
}
