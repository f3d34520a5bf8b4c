//! Helpers that several kinds share: parts of URLs, unchanged fields of orders, classification of addresses. **Boundary:** the
//! meaning of a response is not here, because it differs between kinds.

use std::{collections::BTreeMap, net::IpAddr};

use tenantd_egress::{Class, classify};

use super::{
    super::model::{CloudVm, Credential, Failure, FailureClass, Order, OrderToken, Size, VmState},
    Access,
    client::{Call, Reply},
};

/// The state note of a VM that moves to another host.
pub(super) const MIGRATING: &str = "The provider is moving it to another host.";

/// Encodes a text as one path segment.
pub(super) fn segment(text: &str) -> String {
    // A plus in the text is already encoded, so each remaining plus is a space.
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// `?name=value&…`
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("?{}", text.replace('+', "%20"))
}

/// The credential has the form of another kind. The API prevents this case.
pub(super) fn wrong_credential() -> Failure {
    Failure::new(FailureClass::InvalidCredentials, "wrong_type", "this kind of cloud does not accept a credential of this type")
}

/// Sends a call with the bearer token of the credential.
pub(super) async fn as_bearer(access: &Access, call: Call) -> Result<Reply, Failure> {
    let Credential::BearerToken { api_token } = &access.credential else { return Err(wrong_credential()) };
    access.client.send(call.bearer(api_token.expose())?).await
}

/// The failure for an order that this kind of cloud cannot carry out, found before anything is sent.
pub(super) fn invalid_order(code: &str, message: impl Into<String>) -> Failure {
    Failure::new(FailureClass::InvalidRequest, code, message)
}

/// The order's tags with the tag that carries its token.
pub(super) fn order_tags(order: &Order) -> BTreeMap<String, String> {
    let mut tags = order.tags.clone();
    tags.insert(OrderToken::TAG.to_owned(), order.token.to_string());
    tags
}

/// An ordered VM that the provider does not list yet.
pub(super) fn pending_vm(order: &Order, provider_vm_id: String, provider_state: &str) -> CloudVm {
    CloudVm {
        provider_vm_id,
        name: order.name.clone(),
        state: VmState::Provisioning,
        provider_state: provider_state.to_owned(),
        state_note: None,
        region: order.region.clone(),
        zone: order.zone.clone(),
        size: Size { id: order.size.clone(), vcpus: None, memory_bytes: None },
        image: Some(order.image.clone()),
        private_ips: Vec::new(),
        public_ips: Vec::new(),
        tags: order_tags(order),
        launched_at: None,
        unread: Vec::new(),
    }
}

/// Whether the VM is in a configured region. True if no regions are configured or the VM's region is unreadable.
pub(super) fn is_in_regions(access: &Access, vm: &CloudVm) -> bool {
    let regions = &access.config.regions;
    regions.is_empty() || vm.region.is_empty() || regions.contains(&vm.region)
}

/// Adds an address to the private or public ones by its class. Some APIs do not say which it is.
pub(super) fn add_address(vm: &mut CloudVm, address: IpAddr) {
    let private = matches!(classify(address), Class::Private);
    let place = if private { &mut vm.private_ips } else { &mut vm.public_ips };
    if !place.contains(&address) {
        place.push(address);
    }
}

/// Whether the address can be reached from other hosts. Excludes loopback, unspecified, multicast and link-local addresses.
pub(super) fn is_reachable(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || link_local)
}
