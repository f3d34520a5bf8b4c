//! The export and import of providers, VMs and operations when a tenant moves to another installation. A provider is disabled after
//! the import, and not synced, if its credential is missing or the file is not verified. An operation that has not ended is not
//! exported: two installations would both send its orders.

use serde_json::Value;

use tenantd_base::{access::TenantKind, id::TenantId, secrets::Secret};
use tenantd_egress::{Audience, Egress, TargetUrl, check_ca_pem};
use tenantd_store::portable::{Arrival, Carrier, Check, PortError, Portable};

use super::{
    super::{
        adapters::SIMULATED_VMS,
        model::{Credential, Operation, OperationWork, Provider, ProviderConfig, SyncState, Vm, read_credential},
    },
    operations::OPERATIONS,
    providers::{PROVIDERS, ProviderKey, SYNCS, credential_place},
    vms::VMS,
};

/// The limits on the data of a VM, far above the values of any cloud.
const MAX_TEXT: usize = 4096;
const MAX_TAGS: usize = 1000;
const MAX_ADDRESSES: usize = 1000;

/// The limits of the API, for records that an import brings.
pub(crate) struct Rules {
    pub(crate) max_providers: u64,
    pub(crate) egress: Egress,
    pub(crate) provider: Check<Value>,
    pub(crate) config: Check<ProviderConfig>,
    pub(crate) credential: Check<Value>,
}

/// The key of a record must match the ids in the record: the record is stored under the ids that it contains.
fn check_key<K: PartialEq>(key: &K, named: &K) -> Result<(), PortError> {
    if key == named { Ok(()) } else { Err(PortError::wrong("its key does not match the ids in it")) }
}

pub(crate) fn portable(rules: Rules) -> Vec<Box<dyn Portable>> {
    let Rules { max_providers, egress, provider, config, credential } = rules;
    vec![
        Carrier::plain("simulated_vm", &SIMULATED_VMS, |_, _, _| Ok(())).boxed(),
        Carrier::turning(
            "cloud_operation",
            &OPERATIONS,
            |_, key, operation: Operation| Ok(operation.status.has_ended().then_some((key, operation))),
            |_, key, operation: Operation| {
                check_operation(key, &operation)?;
                Ok(Some((key, operation)))
            },
        )
        .boxed(),
        Carrier::turning(
            "vm",
            &VMS,
            |_, key, vm| Ok(Some((key, vm))),
            |_, key, vm: Vm| {
                check_key(&key, &(vm.tenant_id, vm.provider_id, vm.id))?;
                Ok(Some((key, vm)))
            },
        )
        .examined(|_, _, vm| check_vm(vm))
        .boxed(),
        Carrier::turning(
            "cloud_provider",
            &PROVIDERS,
            |departure, key, mut provider: Provider| {
                let target = provider.target().digest();
                departure.secret(credential_place(&key, target), &mut provider.credential.sealed)?;
                Ok(Some((key, provider)))
            },
            move |arrival, key, provider| arrive(arrival, key, provider, &credential),
        )
        .within(provider)
        .at_most(max_providers)
        .examined(move |arrival, _, provider| {
            config(&provider.config).map_err(|reason| PortError::Wrong(format!("config: {reason}")))?;
            check_config(&egress, arrival.tenant_kind, provider)
        })
        .boxed(),
        Carrier::turning(
            "cloud_sync",
            &SYNCS,
            |_, key, sync| Ok(Some((key, sync))),
            |arrival, key: ProviderKey, mut sync: SyncState| {
                if arrival.without_secret.contains(key.1.as_bytes()) {
                    sync.due_at = None;
                }
                Ok(Some((key, sync)))
            },
        )
        .kept_by(|tx, key, sync| {
            if PROVIDERS.get(tx, key)?.is_none() {
                return Err(PortError::Wrong(format!("it belongs to {}, which is not in the file", key.1)));
            }
            Ok(SYNCS.put(tx, key, sync)?)
        })
        .boxed(),
    ]
}

/// Checks that an operation has ended and contains no secrets.
fn check_operation(key: (TenantId, tenantd_base::id::OperationId), operation: &Operation) -> Result<(), PortError> {
    check_key(&key, &(operation.tenant_id, operation.id))?;
    let has_user_data = match &operation.work {
        OperationWork::Provision { spec, .. } => spec.user_data.is_some(),
        OperationWork::Refresh { .. } => false,
    };
    if !operation.status.has_ended() || operation.due_at.is_some() || operation.ended_at.is_none() || has_user_data {
        return Err(PortError::wrong("an operation that has not ended cannot be imported"));
    }
    Ok(())
}

fn check_vm(vm: &Vm) -> Result<(), PortError> {
    let facts = &vm.facts;
    let texts = [&facts.provider_vm_id, &facts.name, &facts.provider_state, &facts.region, &facts.size.id];
    let optional = [&facts.state_note, &facts.zone, &facts.image].into_iter().flatten();
    let unread = facts.unread.iter().flat_map(|unread| [&unread.field, &unread.reason]);
    let tags = facts.tags.iter().flat_map(|(name, value)| [name, value]);
    let long = texts.into_iter().chain(optional).chain(tags).chain(unread).any(|text| text.len() > MAX_TEXT);
    if long
        || facts.tags.len().max(facts.unread.len()) > MAX_TAGS
        || facts.private_ips.len() + facts.public_ips.len() > MAX_ADDRESSES
    {
        return Err(PortError::wrong("it has a text that is too long, too many tags or too many addresses"));
    }
    Ok(())
}

/// Applies the rules of the service to the configuration of a provider.
fn check_config(egress: &Egress, kind: TenantKind, provider: &Provider) -> Result<(), PortError> {
    let (strange, missing) = provider.config.invalid_fields(provider.kind);
    if let Some(field) = strange.first().or(missing.first()) {
        let reason = format!("config: {} does not fit a provider of the kind {}", field.name(), provider.kind.name());
        return Err(PortError::Wrong(reason));
    }
    for (field, url) in provider.config.targets() {
        let url = TargetUrl::parse(url).map_err(|problem| PortError::Wrong(format!("config: {} {problem}", field.name())))?;
        let audience = Audience { allow_loopback: kind == TenantKind::Evaluation };
        let blocked = |_| PortError::Wrong(format!("config: the address of {} is not allowed as a target", field.name()));
        egress.vet_address(&url, audience).map_err(blocked)?;
    }
    if let Some(Err(problem)) = provider.config.ca_certificate_pem.as_deref().map(check_ca_pem) {
        return Err(PortError::Wrong(format!("config: the certificate {problem}")));
    }
    Ok(())
}

fn arrive(
    arrival: &mut Arrival,
    key: ProviderKey,
    mut provider: Provider,
    bounds: &impl Fn(&Value) -> Result<(), String>,
) -> Result<Option<(ProviderKey, Provider)>, PortError> {
    check_key(&key, &(provider.tenant_id, provider.id))?;
    let target = provider.target().digest();
    let (place, open) = (credential_place(&key, target), Credential::None {});
    match arrival.secret(place, &mut provider.credential.sealed)? {
        Some(secret) => check_credential(&provider, &secret, bounds)?,
        None if provider.credential.type_name == open.type_name() => {
            // This credential contains no secret.
            let sealable = open.sealable().map_err(PortError::wrong)?;
            check_credential(&provider, &sealable, bounds)?;
            provider.credential.sealed = arrival.seal(place, &sealable)?;
        }
        None => {
            provider.credential.sealed = arrival.seal(place, &Secret::new(""))?;
            provider.enabled = false;
            arrival.without_secret.push(*key.1.as_bytes());
            arrival.note(format!("The cloud provider {} is disabled until you set its credential.", provider.name));
        }
    }
    if !arrival.is_verified() {
        provider.enabled = false;
        arrival.without_secret.push(*key.1.as_bytes());
        arrival.switch_off("cloud providers", &provider.name);
    }
    Ok(Some((key, provider)))
}

/// The secret must be a credential of the provider's kind, within the limits of the API.
fn check_credential(provider: &Provider, secret: &Secret, bounds: &impl Fn(&Value) -> Result<(), String>) -> Result<(), PortError> {
    let wrong = || PortError::Wrong(format!("its credential is not a valid credential of the kind {}", provider.kind.name()));
    let given: Value = serde_json::from_str(secret.expose()).map_err(|_| wrong())?;
    bounds(&given).map_err(|_| wrong())?;
    let Value::Object(fields) = given else { return Err(wrong()) };
    let read = read_credential(provider.kind, fields).map_err(|_| wrong())?;
    if read.type_name() == provider.credential.type_name { Ok(()) } else { Err(wrong()) }
}
