//! OpenStack: Keystone v3 and Nova, with a microversion that reports the flavors of servers and accepts tags in an order (Pike,
//! 2017).
//!
//! | field of an order | meaning |
//! |---|---|
//! | `region` | a region of the catalog |
//! | `zone` | an availability zone of Nova |
//! | `size` | the name or id of a flavor |
//! | `image` | the id of an image |
//! | `network` | the id of a network; by default Nova finds or creates the project's own |
//! | `ssh_keys` | the name of one key pair |
//! | `tags` | metadata |
//!
//! Nova has no idempotency token. The order's token is in the metadata of the server and is one of its tags, by which the server is
//! found. A configured `endpoint` replaces the Nova endpoints of the catalog.

mod answers;
mod keystone;

use data_encoding::BASE64;
use http::HeaderName;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    super::model::{CloudVm, Failure, FailureClass, Order},
    Access, Adapter, Answer, FleetPage, Identity, Rehearsal, VmPlace,
    client::{Call, unusable},
    tokens::Tokens,
    wire::{invalid_order, order_tags, pending_vm, query, segment},
};
use answers::{CreatedServer, Flavors, Limits, OneServer, Server, ServerPage, failure};
use keystone::KeystoneToken;

const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const API_VERSION: HeaderName = HeaderName::from_static("openstack-api-version");
const MICROVERSION: &str = "compute 2.52";
const PAGE: &str = "100";

#[derive(Debug)]
pub(super) struct OpenStack {
    tokens: Tokens<KeystoneToken>,
}

/// The position in the list of all regions.
#[derive(Debug, Serialize, Deserialize)]
struct Walk {
    /// The remaining regions, starting with the current one.
    regions: Vec<String>,
    marker: Option<String>,
}

/// A request to Nova in a region.
#[derive(Debug)]
struct NovaRequest<'a> {
    region: &'a str,
    path: String,
    /// The body of an order. Absent for a read.
    body: Option<Value>,
}

impl<'a> NovaRequest<'a> {
    fn get(region: &'a str, path: impl Into<String>) -> Self {
        Self { region, path: path.into(), body: None }
    }
}

impl OpenStack {
    pub(super) fn new() -> Self {
        Self { tokens: Tokens::new() }
    }

    async fn ask<T: DeserializeOwned>(&self, access: &Access, request: NovaRequest<'_>) -> Result<T, Failure> {
        let make = |token: &KeystoneToken| {
            let url = format!("{}{}", token.compute(access, request.region)?, request.path);
            let call = match &request.body {
                Some(body) => Call::post(url).json(body)?,
                None => Call::get(url),
            };
            call.secret_header(AUTH_TOKEN, token.id.expose())?.header(API_VERSION, MICROVERSION)
        };
        let reply = self.tokens.send(access, make).await?;
        if reply.is_success() { reply.json() } else { Err(failure(&reply)) }
    }

    async fn walk(&self, access: &Access, from: Option<&str>) -> Result<FleetPage, Failure> {
        let Walk { regions, marker } = match from {
            Some(from) => serde_json::from_str(from).map_err(|error| unusable(&error.to_string()))?,
            None => Walk { regions: self.tokens.current(access).await?.regions(access), marker: None },
        };
        let Some((region, later)) = regions.split_first() else {
            let message = "the catalog has no compute service that this credential can see";
            return Err(Failure::new(FailureClass::NotFound, "no_compute_service", message));
        };
        let pairs: Vec<_> = [("limit", PAGE)].into_iter().chain(marker.as_deref().map(|marker| ("marker", marker))).collect();
        let page: ServerPage = self.ask(access, NovaRequest::get(region, format!("/servers/detail{}", query(&pairs)))).await?;
        let marker = page.next_marker()?;
        let page = FleetPage::read(page.servers, |server| server.into_vm(region));
        let rest = if marker.is_some() { regions.clone() } else { later.to_vec() };
        let next = (!rest.is_empty()).then_some(Walk { regions: rest, marker });
        let next = next.map(|walk| serde_json::to_string(&walk)).transpose().map_err(|error| unusable(&error.to_string()))?;
        Ok(page.and_next(next))
    }

    async fn read(&self, access: &Access, region: &str, id: &str) -> Result<Option<CloudVm>, Failure> {
        match self.ask::<OneServer<Server>>(access, NovaRequest::get(region, format!("/servers/{}", segment(id)))).await {
            Ok(found) => Ok(Some(found.server.into_vm(region)?)),
            Err(failure) if failure.class == FailureClass::NotFound && failure.code == "itemNotFound" => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The id of a flavor, from its name or id. People use names, but Nova requires ids.
    async fn flavor(&self, access: &Access, order: &Order) -> Result<String, Failure> {
        let Flavors { flavors } = self.ask(access, NovaRequest::get(&order.region, "/flavors")).await?;
        let named = flavors.iter().find(|flavor| flavor.name == order.size);
        let found = named.or_else(|| flavors.iter().find(|flavor| flavor.id == order.size));
        found.map(|flavor| flavor.id.clone()).ok_or_else(|| {
            let message = format!("the region {} has no flavor {}", order.region, order.size);
            Failure::new(FailureClass::NotFound, "unknown_size", message)
        })
    }

    async fn create(&self, access: &Access, order: &Order) -> Result<CloudVm, Failure> {
        check(order)?;
        let flavor = self.flavor(access, order).await?;
        let body = Some(body_of(order, &flavor));
        let created: OneServer<CreatedServer> =
            self.ask(access, NovaRequest { region: &order.region, path: "/servers".to_owned(), body }).await?;
        let id = created.server.id;
        // The order was accepted. It is not a failure if the server cannot be read yet.
        let seen = self.read(access, &order.region, &id).await.unwrap_or_else(|failure| {
            tracing::debug!(code = failure.code, "a new server cannot be read yet");
            None
        });
        Ok(seen.unwrap_or_else(|| pending_vm(order, id, "BUILD")))
    }
}

impl Adapter for OpenStack {
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity> {
        Box::pin(async move {
            let token = self.tokens.renew(access).await?;
            Ok(Identity(format!("{} in {}", token.user, token.project)))
        })
    }

    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage> {
        Box::pin(self.walk(access, from))
    }

    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>> {
        Box::pin(self.read(access, &place.region, &place.provider_vm_id))
    }

    /// Checks flavors and quotas. The policies of a cloud cannot be read.
    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal> {
        Box::pin(async move {
            let Some(order) = order else { return Ok(Rehearsal::CannotTell) };
            check(order)?;
            self.flavor(access, order).await?;
            let limits: Limits = self.ask(access, NovaRequest::get(&order.region, "/limits")).await?;
            if !limits.have_room() {
                let message = "the quota of instances in the project is used up";
                return Err(Failure::new(FailureClass::QuotaExceeded, "instances", message));
            }
            Ok(Rehearsal::CannotTell)
        })
    }

    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let path = format!("/servers/detail{}", query(&[("tags", &order.token.to_string())]));
            let page: ServerPage = self.ask(access, NovaRequest::get(&order.region, path)).await?;
            FleetPage::read(page.servers, |server| server.into_vm(&order.region)).only()
        })
    }

    fn provision<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, CloudVm> {
        Box::pin(self.create(access, order))
    }
}

fn check(order: &Order) -> Result<(), Failure> {
    if order.ssh_keys.len() > 1 {
        return Err(invalid_order("too_many_ssh_keys", "Nova accepts one key pair per server: name only one in ssh_keys"));
    }
    Ok(())
}

fn body_of(order: &Order, flavor: &str) -> Value {
    let networks = order.network.as_ref().map_or_else(|| json!("auto"), |id| json!([{"uuid": id}]));
    let mut server = json!({
        "name": order.name,
        "imageRef": order.image,
        "flavorRef": flavor,
        "networks": networks,
        "metadata": order_tags(order),
        "tags": [order.token.to_string()],
    });
    let optional = [
        ("availability_zone", order.zone.clone()),
        ("key_name", order.ssh_keys.first().cloned()),
        ("user_data", order.user_data.as_ref().map(|data| BASE64.encode(data.expose().as_bytes()))),
    ];
    for (name, value) in optional {
        if let (Some(value), Some(server)) = (value, server.as_object_mut()) {
            server.insert(name.to_owned(), json!(value));
        }
    }
    json!({"server": server})
}
