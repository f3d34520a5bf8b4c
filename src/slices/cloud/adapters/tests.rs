//! Tests the adapters against servers on loopback that implement the documented wire formats of their providers and accept nothing
//! else (`provider.rs`). No adapter was tested against its real provider, because there are no accounts for it.

mod azure;
#[path = "../../../kernel/egress/tests/certificates.rs"]
#[allow(dead_code, reason = "shared with the tests of egress")]
mod certificates;
mod digitalocean;
mod gcp;
mod hetzner;
mod openstack;
mod provider;
mod proxmox;
#[path = "../../../kernel/egress/tests/receiver.rs"]
#[allow(dead_code, reason = "shared with the tests of egress")]
mod receiver;
mod transport;

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use provider::{Provider, Step};

use tenantd_base::{
    clock::{Clock, Timestamp},
    config,
    id::{OperationId, TenantId},
    secrets::Secret,
};
use tenantd_egress::{Audience, Egress};

use super::{
    super::model::{CloudVm, Credential, FailureClass, Order, OrderToken, ProviderConfig, ProviderKind, read_credential},
    Access, Adapter, Client, ClientParts, FleetPage, Identity, Rehearsal, VmPlace,
};

/// More than enough for a server that responds at once.
const AMPLE: Duration = Duration::from_secs(20);
/// The time of all these tests.
const NOW: &str = "2026-01-31T12:00:00Z";
const NOW_SECONDS: i64 = 1_769_860_800;

fn now() -> Timestamp {
    Timestamp::parse(NOW).unwrap()
}

fn credential(kind: ProviderKind, fields: Value) -> Credential {
    read_credential(kind, fields.as_object().unwrap().clone()).unwrap()
}

fn access(config: ProviderConfig, credential: Credential) -> Access {
    access_for(config, credential, Clock::movable(now()), AMPLE)
}

fn access_for(config: ProviderConfig, credential: Credential, clock: Clock, time: Duration) -> Access {
    let settings = config::load(None, [], &[]).unwrap().egress;
    let parts = ClientParts {
        egress: Egress::new(&settings, &[]).unwrap(),
        clock,
        audience: Audience { allow_loopback: true },
        ca_pem: config.ca_certificate_pem.as_deref().map(Into::into),
        pinned_certificate: config.tls_fingerprint,
    };
    let client = Client::new(parts, time);
    Access { tenant_id: TenantId::from_bytes([1; 16]), provider_id: None, config, credential, client }
}

/// A basic order, which each test adapts to its kind.
fn order(region: &str, size: &str, image: &str) -> Order {
    Order {
        token: OrderToken { operation: OperationId::from_bytes([7; 16]), index: 3 },
        name: "web-01".to_owned(),
        region: region.to_owned(),
        zone: None,
        size: size.to_owned(),
        image: image.to_owned(),
        network: None,
        ssh_keys: Vec::new(),
        user_data: Some(Secret::new("#cloud-config\n")),
        tags: BTreeMap::from([("role".to_owned(), "web".to_owned())]),
    }
}

fn token() -> String {
    order("", "", "").token.to_string()
}

fn place(id: &str, region: &str, zone: Option<&str>) -> VmPlace {
    VmPlace { provider_vm_id: id.to_owned(), region: region.to_owned(), zone: zone.map(str::to_owned) }
}

/// All VMs, with the number of pages.
async fn whole_fleet(adapter: &dyn Adapter, access: &Access) -> (Vec<CloudVm>, usize) {
    let (mut vms, mut pages, mut from) = (Vec::new(), 0, None);
    loop {
        let FleetPage { vms: mut part, next, skipped } = adapter.list(access, from.as_deref()).await.unwrap();
        assert_eq!(skipped, Vec::<String>::new());
        vms.append(&mut part);
        pages += 1;
        from = next;
        if from.is_none() {
            return (vms, pages);
        }
    }
}

/// The names of the VM's unread fields.
fn unread(vm: &CloudVm) -> Vec<&str> {
    vm.unread.iter().map(|unread| unread.field.as_str()).collect()
}

fn texts(addresses: &[std::net::IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
