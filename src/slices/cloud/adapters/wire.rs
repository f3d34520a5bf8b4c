//! Pieces that several kinds share: parts of URLs, what of an order goes out as it is, addresses by who can reach them. What an answer
//! means is not here: it is different for every kind.

use std::{collections::BTreeMap, net::IpAddr};

use tenantd_egress::{Class, classify};

use super::{
    super::model::{CloudVm, Credential, Failure, FailureClass, Order, OrderToken, Size, VmState},
    Access,
    client::{Call, Reply},
};

/// The note of a VM that is on its way to another host.
pub(super) const MIGRATING: &str = "The provider is moving it to another host.";

/// A text as one segment of a path.
pub(super) fn segment(text: &str) -> String {
    // A plus in the text is encoded, so those that are left stand for spaces.
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// `?name=value&…`
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("?{}", text.replace('+', "%20"))
}

/// The credential is of another kind's form. The API that takes them does not let it come to this.
pub(super) fn wrong_credential() -> Failure {
    Failure::new(FailureClass::InvalidCredentials, "wrong_type", "the credential is not of a type that this kind of cloud takes")
}

/// Sends a call with the token that is the whole credential of some kinds.
pub(super) async fn as_bearer(access: &Access, call: Call) -> Result<Reply, Failure> {
    let Credential::BearerToken { api_token } = &access.credential else { return Err(wrong_credential()) };
    access.client.send(call.bearer(api_token.expose())?).await
}

/// An order that this kind of cloud cannot carry out, found before anything is sent.
pub(super) fn unfit_order(code: &str, message: impl Into<String>) -> Failure {
    Failure::new(FailureClass::InvalidRequest, code, message)
}

/// The order's tags with the one by which it is found again.
pub(super) fn order_tags(order: &Order) -> BTreeMap<String, String> {
    let mut tags = order.tags.clone();
    tags.insert(OrderToken::TAG.to_owned(), order.token.to_string());
    tags
}

/// A VM that was ordered and that its provider does not show yet.
pub(super) fn announced(order: &Order, provider_vm_id: String, provider_state: &str) -> CloudVm {
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

/// Whether the configuration names no region, or that of the VM. A VM whose region cannot be read is wanted too.
pub(super) fn is_wanted(access: &Access, vm: &CloudVm) -> bool {
    let regions = &access.config.regions;
    regions.is_empty() || vm.region.is_empty() || regions.contains(&vm.region)
}

/// Puts an address where it belongs by what it is: some APIs do not tell.
pub(super) fn add_address(vm: &mut CloudVm, address: IpAddr) {
    let private = matches!(classify(address), Class::Private);
    let place = if private { &mut vm.private_ips } else { &mut vm.public_ips };
    if !place.contains(&address) {
        place.push(address);
    }
}

/// Whether a VM can be told by this address: not when it is the machine's own or of its link alone.
pub(super) fn is_reachable(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || link_local)
}
