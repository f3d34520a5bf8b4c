//! Google Cloud: Compute Engine, REST API version 1.
//!
//! | field of an order | meaning |
//! |---|---|
//! | `region` | a region, such as `europe-west3` |
//! | `zone` | a zone of the region; by default the first one |
//! | `size` | a machine type, such as `e2-small` |
//! | `image` | `project/family`, such as `debian-cloud/debian-12`; a path with `/images/`; or the name of a project's image |
//! | `network` | the path of a subnetwork or the name of a network in the project; by default the network `default` |
//! | `ssh_keys` | public keys as `user:key`; the default user is `admin` |
//! | `user_data` | the metadata `user-data`, which cloud-init reads |
//! | `tags` | labels |
//!
//! Machines get no public address. The order's token is sent as the `requestId` and as a label, by which the machine is found.

mod answers;
mod login;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use tenantd_base::cache::Cache;

use super::{
    super::model::{CloudVm, Failure, FailureClass, Order, OrderToken},
    Access, Adapter, Answer, FleetPage, Identity, Rehearsal, VmPlace,
    client::{Call, Reply, unusable},
    tokens::Tokens,
    wire::{invalid_order, is_in_regions, order_tags, pending_vm, query, segment},
};
use answers::{ErrorAnswer, GrantedPermissions, Instance, InstancePage, MachineType, Operation, Region, region_of};
use login::{AccessToken, ServiceAccount, project};

const COMPUTE: &str = "https://compute.googleapis.com";
const RESOURCE_MANAGER: &str = "https://cloudresourcemanager.googleapis.com";
/// The maximum page size of the API.
const PAGE: &str = "500";
/// The page limit of a search. Pages without a match count too.
const MAX_PAGES: usize = 100;
const CREATE: &str = "compute.instances.create";
const KNOWN_TYPES: u64 = 5_000;
/// The maximum number of machine types that are requested for one page of machines.
const MAX_TYPES: usize = 50;
const ADMIN: &str = "admin";

/// The virtual CPUs and the memory in MiB.
type Measures = (u32, u64);

#[derive(Debug)]
pub(super) struct Gcp {
    tokens: Tokens<AccessToken>,
    /// Keyed by machine type. The values are the same for all projects.
    types: Cache<String, Measures>,
}

impl Gcp {
    pub(super) fn new() -> Self {
        Self { tokens: Tokens::new(), types: Cache::new(KNOWN_TYPES) }
    }

    async fn send<T: DeserializeOwned>(&self, access: &Access, call: Call) -> Result<T, Failure> {
        let reply = self.tokens.send(access, |token| call.clone().bearer(token.0.expose())).await?;
        if reply.is_success() { reply.json() } else { Err(failure(&reply)) }
    }

    async fn ask<T: DeserializeOwned>(&self, access: &Access, path: &str) -> Result<T, Failure> {
        self.send(access, Call::get(url(access, path)?)).await
    }

    async fn walk(&self, access: &Access, from: Option<&str>) -> Result<FleetPage, Failure> {
        let pairs: Vec<_> = [("maxResults", PAGE)].into_iter().chain(from.map(|token| ("pageToken", token))).collect();
        let mut page: InstancePage = self.ask(access, &format!("/aggregated/instances{}", query(&pairs))).await?;
        let next = page.next_page_token.take().filter(|token| !token.is_empty());
        let mut page = page.read().keep(|vm| is_in_regions(access, vm)).and_next(next);
        self.measure(access, &mut page.vms).await;
        Ok(page)
    }

    /// Fills in the virtual CPUs and the memory of the VMs. If a machine type cannot be read, the VM stays without them.
    async fn measure(&self, access: &Access, vms: &mut [CloudVm]) {
        let unknown = vms.iter().filter(|vm| self.types.get(&vm.size.id).is_none());
        let mut unknown: Vec<(String, String)> = unknown.filter_map(|vm| Some((vm.size.id.clone(), vm.zone.clone()?))).collect();
        unknown.sort_unstable();
        unknown.dedup_by(|one, other| one.0 == other.0);
        for (name, zone) in unknown.into_iter().take(MAX_TYPES) {
            match self.machine_type(access, &zone, &name).await {
                Ok(found) => self.types.insert(name, (found.guest_cpus, found.memory_mb)),
                Err(failure) => tracing::debug!(code = failure.code, "a machine type could not be read"),
            }
        }
        for vm in vms {
            let measures = self.types.get(&vm.size.id);
            vm.size.vcpus = measures.map(|(cpus, _)| cpus);
            vm.size.memory_bytes = measures.map(|(_, mib)| mib << 20);
        }
    }

    async fn machine_type(&self, access: &Access, zone: &str, name: &str) -> Result<MachineType, Failure> {
        self.ask(access, &format!("/zones/{}/machineTypes/{}", segment(zone), segment(name))).await
    }

    async fn read(&self, access: &Access, zone: &str, id: &str) -> Result<Option<CloudVm>, Failure> {
        match self.ask::<Instance>(access, &format!("/zones/{}/instances/{}", segment(zone), segment(id))).await {
            Ok(found) => {
                let mut vm = found.into_vm()?;
                self.measure(access, std::slice::from_mut(&mut vm)).await;
                Ok(Some(vm))
            }
            Err(failure) if failure.class == FailureClass::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn zone(&self, access: &Access, order: &Order) -> Result<String, Failure> {
        if let Some(zone) = &order.zone {
            if region_of(zone) != order.region {
                return Err(invalid_order("zone_not_in_region", format!("the zone {zone} is not in the region {}", order.region)));
            }
            return Ok(zone.clone());
        }
        let region: Region = self.ask(access, &format!("/regions/{}", segment(&order.region))).await?;
        region.first_zone().map(str::to_owned).ok_or_else(|| unusable("the region has no zones"))
    }

    async fn create(&self, access: &Access, order: &Order) -> Result<CloudVm, Failure> {
        let zone = self.zone(access, order).await?;
        let request = order.token.uuid().to_string();
        let path = format!("/zones/{}/instances{}", segment(&zone), query(&[("requestId", &request)]));
        let operation: Operation = self.send(access, Call::post(url(access, &path)?).json(&body_of(order, &zone))?).await?;
        if let Some(failure) = operation.failure() {
            return Err(failure);
        }
        let id =
            operation.target_id.clone().ok_or_else(|| unusable("the response to the order contains no id of the new machine"))?;
        self.follow(access, &zone, operation).await?;
        // The order was accepted. It is not a failure if the machine cannot be read yet.
        let seen = self.read(access, &zone, &id).await.unwrap_or_else(|failure| {
            tracing::debug!(code = failure.code, "a new machine cannot be read yet");
            None
        });
        Ok(seen.unwrap_or_else(|| CloudVm { zone: Some(zone), ..pending_vm(order, id, "PROVISIONING") }))
    }

    /// Waits briefly for the result of a creation, because a quota error appears only there.
    async fn follow(&self, access: &Access, zone: &str, operation: Operation) -> Result<(), Failure> {
        if operation.status == "DONE" {
            return Ok(());
        }
        let path = format!("/zones/{}/operations/{}/wait", segment(zone), segment(&operation.name));
        match self.send::<Operation>(access, Call::post(url(access, &path)?)).await {
            Ok(operation) => operation.failure().map_or(Ok(()), Err),
            Err(failure) => {
                tracing::debug!(code = failure.code, "the result of a creation could not be read yet");
                Ok(())
            }
        }
    }

    async fn may_create(&self, access: &Access) -> Result<Rehearsal, Failure> {
        let path = format!("/v1/projects/{}:testIamPermissions", segment(&project(access)?));
        let mut call =
            Call::post(format!("{}{path}", access.endpoint(RESOURCE_MANAGER))).json(&json!({"permissions": [CREATE]}))?;
        call.repeatable = true;
        match self.send::<GrantedPermissions>(access, call).await {
            Ok(granted) if granted.permissions.iter().any(|permission| permission == CREATE) => Ok(Rehearsal::Allowed),
            Ok(_) => {
                let message = format!("no role of the service account has the permission {CREATE}");
                Err(Failure::new(FailureClass::InsufficientPermissions, "forbidden", message))
            }
            // The project may not have enabled the API of this request.
            Err(failure) if failure.class == FailureClass::InsufficientPermissions => Ok(Rehearsal::CannotTell),
            Err(failure) => Err(failure),
        }
    }
}

impl Adapter for Gcp {
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity> {
        Box::pin(async move {
            let account = ServiceAccount::read(&access.credential)?;
            self.tokens.renew(access).await?;
            Ok(Identity(format!("{} in {}", account.client_email, project(access)?)))
        })
    }

    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage> {
        Box::pin(self.walk(access, from))
    }

    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let zone = place.zone.as_deref().ok_or_else(|| {
                invalid_order("no_zone", "the zone of the machine is unknown, and Compute Engine finds machines only by zone")
            })?;
            self.read(access, zone, &place.provider_vm_id).await
        })
    }

    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal> {
        Box::pin(async move {
            if let Some(order) = order {
                let zone = self.zone(access, order).await?;
                self.machine_type(access, &zone, &order.size).await?;
            }
            self.may_create(access).await
        })
    }

    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let filter = format!("labels.{} = \"{}\"", OrderToken::TAG, order.token);
            let mut token: Option<String> = None;
            for _ in 0..MAX_PAGES {
                let pairs: Vec<_> =
                    [("filter", filter.as_str())].into_iter().chain(token.as_deref().map(|token| ("pageToken", token))).collect();
                let mut page: InstancePage = self.ask(access, &format!("/aggregated/instances{}", query(&pairs))).await?;
                token = page.next_page_token.take().filter(|token| !token.is_empty());
                let found = page.read().only()?;
                if found.is_some() || token.is_none() {
                    return Ok(found);
                }
            }
            Err(unusable("the search for a machine exceeded its page limit"))
        })
    }

    fn provision<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, CloudVm> {
        Box::pin(self.create(access, order))
    }
}

/// The URL of a resource in the project.
fn url(access: &Access, path: &str) -> Result<String, Failure> {
    Ok(format!("{}/compute/v1/projects/{}{path}", access.endpoint(COMPUTE), segment(&project(access)?)))
}

fn source_image(image: &str) -> String {
    match image.split_once('/') {
        _ if image.contains("images/") => image.to_owned(),
        Some((project, family)) => format!("projects/{project}/global/images/family/{family}"),
        None => format!("global/images/{image}"),
    }
}

fn interface(network: Option<&str>) -> Value {
    match network {
        Some(subnetwork) if subnetwork.contains("subnetworks/") => json!({"subnetwork": subnetwork}),
        Some(network) if network.contains('/') => json!({"network": network}),
        network => json!({"network": format!("global/networks/{}", network.unwrap_or("default"))}),
    }
}

fn ssh_key_line(key: &str) -> String {
    // `user:ssh-ed25519 AAAA…`: a colon before the first space follows a user name.
    let has_user = key.split(' ').next().is_some_and(|word| word.contains(':'));
    if has_user { key.to_owned() } else { format!("{ADMIN}:{key}") }
}

fn body_of(order: &Order, zone: &str) -> Value {
    let mut metadata = Vec::new();
    if let Some(data) = &order.user_data {
        metadata.push(json!({"key": "user-data", "value": data.expose()}));
    }
    if !order.ssh_keys.is_empty() {
        let lines: Vec<String> = order.ssh_keys.iter().map(|key| ssh_key_line(key)).collect();
        metadata.push(json!({"key": "ssh-keys", "value": lines.join("\n")}));
    }
    json!({
        "name": order.name,
        "machineType": format!("zones/{zone}/machineTypes/{}", order.size),
        "labels": order_tags(order),
        "disks": [{"boot": true, "autoDelete": true, "initializeParams": {"sourceImage": source_image(&order.image)}}],
        "networkInterfaces": [interface(order.network.as_deref())],
        "metadata": {"items": metadata},
    })
}

fn failure(reply: &Reply) -> Failure {
    let (reason, message) = reply.json::<ErrorAnswer>().unwrap_or_default().parts();
    let class = match reason.as_str() {
        "rateLimitExceeded" | "userRateLimitExceeded" => FailureClass::RateLimited,
        "quotaExceeded" | "QUOTA_EXCEEDED" => FailureClass::QuotaExceeded,
        "alreadyExists" => FailureClass::InvalidRequest,
        _ => reply.class(),
    };
    reply.failure(class, &reason, &message)
}
