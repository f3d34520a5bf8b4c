//! Hetzner Cloud, API v1. A token belongs to one project, is either read-only or has full access, and has no name.
//!
//! | field of an order | meaning |
//! |---|---|
//! | `region` | a location, such as `fsn1` |
//! | `zone` | not accepted: locations have no zones |
//! | `size` | a server type, such as `cx22` |
//! | `image` | the name or the id of an image, such as `debian-12` |
//! | `network` | the id of a private network, in addition to the public one |
//! | `ssh_keys` | names or ids of keys in the project |
//! | `tags` | labels |
//!
//! Hetzner has no idempotency token. The order's token becomes a label, by which the server is found.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    super::model::{CloudVm, Failure, FailureClass, Order, OrderToken, Size, VmState},
    Access, Adapter, Answer, FleetPage, Identity, Rehearsal, VmPlace,
    client::{Call, Reply, unusable},
    fields::{Field, Unidentified, Unread, id},
    wire::{MIGRATING, as_bearer, invalid_order, is_in_regions, order_tags, query, segment},
};

const API: &str = "https://api.hetzner.cloud";
/// The maximum page size of the API.
const PAGE: &str = "50";

#[derive(Clone, Copy, Debug)]
pub(super) struct Hetzner;

#[derive(Debug, Deserialize)]
struct ServerPage {
    servers: Vec<Field<Server>>,
    meta: Meta,
}

#[derive(Debug, Deserialize)]
struct Meta {
    pagination: Pagination,
}

#[derive(Debug, Deserialize)]
struct Pagination {
    next_page: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct OneServer {
    server: Server,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    id: Field<u64>,
    name: Field<String>,
    status: Field<String>,
    created: Field<String>,
    public_net: Field<PublicNet>,
    private_net: Field<Vec<Field<PrivateNet>>>,
    #[serde(rename = "server_type")]
    size: Field<ServerType>,
    location: Field<Location>,
    /// The older form of the location: servers used to report their datacenter instead.
    datacenter: Field<Datacenter>,
    image: Field<Image>,
    labels: Field<BTreeMap<String, Field<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PublicNet {
    ipv4: Field<Address>,
    ipv6: Field<Address>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    ip: Field<String>,
}

type PrivateNet = Address;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerType {
    name: Field<String>,
    cores: Field<u32>,
    /// In GB, may have a fraction.
    memory: Field<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Location {
    name: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Datacenter {
    location: Field<Location>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Image {
    id: Field<u64>,
    /// Only system images have a name.
    name: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ErrorAnswer {
    error: ErrorDetail,
}

#[derive(Debug, Default, Deserialize)]
struct ErrorDetail {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Adapter for Hetzner {
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity> {
        Box::pin(async move {
            ask::<Value>(access, get(access, &format!("/v1/locations{}", query(&[("per_page", "1")])))).await?;
            Ok(Identity(format!("token {}", access.credential.hint().unwrap_or_default())))
        })
    }

    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage> {
        Box::pin(async move {
            let pairs = [("page", from.unwrap_or("1")), ("per_page", PAGE)];
            let page: ServerPage = ask(access, get(access, &format!("/v1/servers{}", query(&pairs)))).await?;
            let next = page.meta.pagination.next_page.map(|next| next.to_string());
            Ok(FleetPage::read(page.servers, Server::into_vm).keep(|vm| is_in_regions(access, vm)).and_next(next))
        })
    }

    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let path = format!("/v1/servers/{}", segment(&place.provider_vm_id));
            match ask::<OneServer>(access, get(access, &path)).await {
                Ok(found) => Ok(Some(found.server.into_vm()?)),
                Err(failure) if failure.class == FailureClass::NotFound => Ok(None),
                Err(failure) => Err(failure),
            }
        })
    }

    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal> {
        Box::pin(async move {
            if let Some(order) = order {
                body_of(order)?;
                for (list, name, what) in [
                    ("locations", &order.region, "region"),
                    ("server_types", &order.size, "size"),
                    ("images", &order.image, "image"),
                ] {
                    check_name(access, list, name, what).await?;
                }
            }
            may_write(access).await
        })
    }

    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let selector = format!("{}=={}", OrderToken::TAG, order.token);
            let path = format!("/v1/servers{}", query(&[("label_selector", &selector)]));
            let page: ServerPage = ask(access, get(access, &path)).await?;
            FleetPage::read(page.servers, Server::into_vm).only()
        })
    }

    fn provision<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, CloudVm> {
        Box::pin(async move {
            let call = Call::post(url(access, "/v1/servers")).json(&body_of(order)?)?;
            let created: OneServer = ask(access, call).await?;
            Ok(created.server.into_vm()?)
        })
    }
}

fn url(access: &Access, path: &str) -> String {
    format!("{}{path}", access.endpoint(API))
}

fn get(access: &Access, path: &str) -> Call {
    Call::get(url(access, path))
}

async fn ask<T: DeserializeOwned>(access: &Access, call: Call) -> Result<T, Failure> {
    let reply = as_bearer(access, call).await?;
    if reply.is_success() { reply.json() } else { Err(failure(&reply)) }
}

/// Checks that the project knows the name. An id is not checked here: its use shows whether it exists.
async fn check_name(access: &Access, list: &str, name: &str, what: &str) -> Result<(), Failure> {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    let found: Map<String, Value> = ask(access, get(access, &format!("/v1/{list}{}", query(&[("name", name)])))).await?;
    if found.get(list).and_then(Value::as_array).is_some_and(|found| !found.is_empty()) {
        return Ok(());
    }
    Err(Failure::new(FailureClass::NotFound, format!("unknown_{what}"), format!("Hetzner has no {what} {name}")))
}

/// Hetzner refuses a read-only token by the method, before it reads the body. So an empty order shows whether the token may write.
async fn may_write(access: &Access) -> Result<Rehearsal, Failure> {
    let call = Call::post(url(access, "/v1/servers")).json(&json!({}))?;
    match ask::<Value>(access, call).await {
        Ok(_) => Err(unusable("the endpoint accepted an empty order")),
        Err(failure) if failure.code == "invalid_input" => Ok(Rehearsal::Allowed),
        Err(failure) => Err(failure),
    }
}

fn body_of(order: &Order) -> Result<Value, Failure> {
    if order.zone.is_some() {
        return Err(invalid_order("no_zones", "Hetzner has no zones: omit zone"));
    }
    let mut body = json!({
        "name": order.name,
        "location": order.region,
        "server_type": order.size,
        "image": order.image,
        "start_after_create": true,
        "labels": order_tags(order),
    });
    let mut add = |name: &str, value: Value| {
        body.as_object_mut().map(|body| body.insert(name.to_owned(), value));
    };
    if !order.ssh_keys.is_empty() {
        add("ssh_keys", json!(order.ssh_keys));
    }
    if let Some(network) = &order.network {
        let number: u64 = network.parse().map_err(|_| {
            invalid_order(
                "bad_network",
                format!("{network} is not the id of a network: use the number of a network in the project"),
            )
        })?;
        add("networks", json!([number]));
    }
    if let Some(data) = &order.user_data {
        add("user_data", json!(data.expose()));
    }
    Ok(body)
}

impl Server {
    fn into_vm(self) -> Result<CloudVm, Unidentified> {
        let id = id("id", self.id)?;
        let mut unread = Unread::default();
        let status = unread.required("state", "status", self.status);
        let state = state(&status);
        let datacenter = unread.optional("region", "datacenter", self.datacenter).unwrap_or_default();
        let location = unread.optional("region", "location", self.location);
        let location = location.or_else(|| unread.optional("region", "datacenter.location", datacenter.location));
        let region = location.and_then(|location| unread.optional("region", "location.name", location.name));
        let public = unread.optional("public_ips", "public_net", self.public_net).unwrap_or_default();
        let ipv4 = unread.optional("public_ips", "public_net.ipv4", public.ipv4).unwrap_or_default();
        let ipv6 = unread.optional("public_ips", "public_net.ipv6", public.ipv6).unwrap_or_default();
        let ipv4 = unread.address("public_ips", "public_net.ipv4.ip", ipv4.ip);
        let ipv6 = unread.optional("public_ips", "public_net.ipv6.ip", ipv6.ip.parse(first_host, "IPv6 network"));
        let private = unread.list("private_ips", "private_net", self.private_net);
        let private_ips = private.into_iter().filter_map(|net| unread.address("private_ips", "private_net.ip", net.ip)).collect();
        let image = unread.optional("image", "image", self.image).unwrap_or_default();
        let image_id = unread.optional("image", "image.id", image.id);
        let size = unread.required("size", "server_type", self.size);
        Ok(CloudVm {
            provider_vm_id: id,
            name: unread.required("name", "name", self.name),
            state,
            state_note: state_note(&status, state),
            provider_state: status,
            region: region.unwrap_or_default(),
            zone: None,
            size: Size {
                id: unread.required("size", "server_type.name", size.name),
                vcpus: unread.optional("size", "server_type.cores", size.cores),
                memory_bytes: unread.optional("size", "server_type.memory", size.memory).map(gigabytes),
            },
            image: unread.optional("image", "image.name", image.name).or_else(|| Some(image_id?.to_string())),
            private_ips,
            public_ips: [ipv4, ipv6].into_iter().flatten().collect(),
            tags: unread.tags("labels", self.labels),
            launched_at: unread.launched_at("created", self.created),
            unread: unread.into_fields(),
        })
    }
}

fn state(status: &str) -> VmState {
    match status {
        "initializing" | "rebuilding" => VmState::Provisioning,
        "starting" => VmState::Starting,
        // The server keeps running, or runs again, on another host.
        "running" | "migrating" => VmState::Running,
        "stopping" => VmState::Stopping,
        "off" => VmState::Stopped,
        "deleting" => VmState::Terminating,
        _ => VmState::Unknown,
    }
}

fn state_note(status: &str, state: VmState) -> Option<String> {
    match (status, state) {
        ("migrating", _) => Some(MIGRATING.to_owned()),
        (_, VmState::Stopped) => Some("A server that is off is still billed.".to_owned()),
        _ => None,
    }
}

/// A server has an IPv6 network and uses the first address in it.
fn first_host(network: &str) -> Option<IpAddr> {
    let network: ipnet::Ipv6Net = network.parse().ok()?;
    Some(IpAddr::V6((u128::from(network.network()) + 1).into()))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "memory sizes are far below the limits of the type")]
fn gigabytes(amount: f64) -> u64 {
    (amount * f64::from(1 << 30)) as u64
}

fn failure(reply: &Reply) -> Failure {
    let ErrorAnswer { error } = reply.json().unwrap_or_default();
    let class = class_of(&error.code).unwrap_or_else(|| reply.class());
    reply.failure(class, &error.code, &error.message)
}

/// The class of a Hetzner error code. `None` if the code says no more than the status.
fn class_of(code: &str) -> Option<FailureClass> {
    Some(match code {
        "unauthorized" => FailureClass::InvalidCredentials,
        "forbidden" | "token_readonly" => FailureClass::InsufficientPermissions,
        "rate_limit_exceeded" => FailureClass::RateLimited,
        "resource_limit_exceeded" | "resource_unavailable" | "placement_error" | "no_space_left_in_location" => {
            FailureClass::QuotaExceeded
        }
        "not_found" => FailureClass::NotFound,
        "invalid_input" | "json_error" | "uniqueness_error" | "invalid_server_type" | "unsupported_error" => {
            FailureClass::InvalidRequest
        }
        "service_error" | "server_error" | "bad_gateway" | "maintenance" | "locked" | "conflict" | "unknown_error" => {
            FailureClass::ProviderError
        }
        "timeout" => FailureClass::Timeout,
        _ => return None,
    })
}
