//! Exports and imports named secrets. A secret that arrives without its value has none until someone rotates it. A secret from an
//! unverified file permits no workflow.

use serde_json::Value;

use tenantd_base::secrets::{SHORTEST_SECRET, Secret};
use tenantd_store::portable::{Arrival, Carrier, PortError, Portable, refuse_orphans};

use super::{
    super::model::{Host, MAX_SECRETS, MAX_VALUE, NamedSecret, is_name, sorted},
    SECRETS, SecretKey, USES, sealed_place,
};

/// `fields` checks a record against the limits of the API.
pub(crate) fn portable(fields: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static) -> Vec<Box<dyn Portable>> {
    let secrets = Carrier::turning(
        "secret",
        &SECRETS,
        |departure, key: SecretKey, mut secret: NamedSecret| {
            departure.secret(sealed_place(&key, &secret.hosts), &mut secret.value)?;
            Ok(Some((key, secret)))
        },
        arrive,
    );
    let uses = Carrier::plain("secret_use", &USES, |_, _, _| Ok(())).verified_by(|tx, arrival| {
        let exists = |key: &SecretKey| Ok(SECRETS.get(tx, key)?.is_some());
        refuse_orphans(tx, arrival.tenant, ("secret_use", &USES), |key| *key, exists)
    });
    vec![secrets.within(fields).at_most(MAX_SECRETS as u64).boxed(), uses.boxed()]
}

fn arrive(arrival: &mut Arrival, key: SecretKey, mut secret: NamedSecret) -> Result<Option<(SecretKey, NamedSecret)>, PortError> {
    check(&secret)?;
    let place = sealed_place(&key, &secret.hosts);
    match arrival.secret(place, &mut secret.value)? {
        Some(value) if !(SHORTEST_SECRET..=MAX_VALUE).contains(&value.expose().len()) => {
            return Err(PortError::wrong("value: too short or too long"));
        }
        Some(_) => {}
        None => {
            secret.value = arrival.seal(place, &Secret::new(""))?;
            arrival.note(format!("The secret {} has no value. Rotate it to set one.", secret.name));
        }
    }
    if !arrival.is_verified() {
        secret.workflow_ids = Some(Vec::new());
        arrival.switch_off("secrets", &secret.name);
    }
    Ok(Some((key, secret)))
}

/// Applies the same checks as the API.
fn check(secret: &NamedSecret) -> Result<(), PortError> {
    if !is_name(&secret.name) {
        return Err(PortError::wrong("name: not a valid secret name"));
    }
    let is_host = |host: &Host| Host::parse(host.as_str()).as_ref() == Ok(host);
    if secret.hosts.is_empty() || !secret.hosts.iter().all(is_host) || sorted(secret.hosts.clone()) != secret.hosts {
        return Err(PortError::wrong("hosts: must be canonical hosts, sorted and without duplicates"));
    }
    if secret.workflow_ids.as_ref().is_some_and(|ids| sorted(ids.clone()) != *ids) {
        return Err(PortError::wrong("workflow_ids: must be sorted and without duplicates"));
    }
    Ok(())
}
