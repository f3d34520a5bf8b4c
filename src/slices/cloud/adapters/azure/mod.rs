//! Azure: virtual machines through Resource Manager. The fleet contains all VMs of the subscription.
//!
//! | field of an order | meaning |
//! |---|---|
//! | `region` | a location, such as `westeurope` |
//! | `zone` | the number of a zone: `1`, `2` or `3` |
//! | `size` | a VM size, such as `Standard_B2s` |
//! | `image` | `publisher:offer:sku:version` or the id of an image |
//! | `network` | the id of a subnet, or `network/subnet` in the resource group; required |
//! | `ssh_keys` | public keys of the user `azureuser`; at least one |
//! | `user_data` | custom data, which cloud-init reads |
//! | `tags` | tags |
//!
//! VMs are created in the `resource_group` of the configuration, without a public address. Their interface and disk are deleted
//! together with them. A VM is created only if no VM has its name. The order's token is a tag of the VM.

mod answers;
mod login;

use std::{collections::HashMap, sync::Arc, time::Duration};

use data_encoding::BASE64;
use http::{Method, header};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use tenantd_base::cache::Cache;

use super::{
    super::model::{CloudVm, Credential, Failure, FailureClass, Order, OrderToken},
    Access, Adapter, Answer, FleetPage, Identity, Rehearsal, VmPlace,
    client::{Call, Reply, unusable},
    fields::Field,
    tokens::{Tokens, key},
    wire::{invalid_order, is_in_regions, order_tags, query, segment, wrong_credential},
};
use answers::{
    Addresses, ErrorAnswer, InstanceView, Interface, Machine, MachineSize, Page, Permission, PublicAddress, Subscription,
    add_addresses,
};
use login::AccessToken;

const API: &str = "https://management.azure.com";
const COMPUTE_VERSION: &str = "2024-07-01";
const NETWORK_VERSION: &str = "2024-05-01";
const SUBSCRIPTION_VERSION: &str = "2022-12-01";
const PERMISSION_VERSION: &str = "2022-04-01";
/// The API version for interfaces that are created together with their machine.
const INLINE_NETWORK_VERSION: &str = "2020-11-01";
const CREATE: &str = "Microsoft.Compute/virtualMachines/write";
const ADMIN: &str = "azureuser";
/// The limits on the entries of one list except that of the machines, and on the interfaces of one machine.
const MAX_ENTRIES: usize = 50_000;
const MAX_INTERFACES: usize = 8;
/// The capacities of the caches, and how long their entries are kept.
const KNOWN_SUBSCRIPTIONS: u64 = 50;
const KNOWN_LOCATIONS: u64 = 200;
const SURROUNDINGS_TTL: Duration = Duration::from_mins(10);
const SIZES_TTL: Duration = Duration::from_hours(24);

/// The data that the list of machines omits, by the ids of machines and of interfaces.
#[derive(Debug, Default)]
struct Surroundings {
    views: HashMap<String, Field<InstanceView>>,
    addresses: HashMap<String, Addresses>,
}

/// The virtual CPUs and the memory in MiB, by the name of the size.
type Sizes = HashMap<String, (u32, u64)>;

#[derive(Debug)]
pub(super) struct Azure {
    tokens: Tokens<AccessToken>,
    /// Read with the first page of VMs and used for the later pages.
    surroundings: Cache<[u8; 32], Arc<Surroundings>>,
    sizes: Cache<String, Arc<Sizes>>,
}

impl Azure {
    pub(super) fn new() -> Self {
        let surroundings = Cache::expiring(KNOWN_SUBSCRIPTIONS, SURROUNDINGS_TTL);
        let sizes = Cache::expiring(KNOWN_LOCATIONS, SIZES_TTL);
        Self { tokens: Tokens::new(), surroundings, sizes }
    }

    async fn send(&self, access: &Access, call: Call) -> Result<Reply, Failure> {
        self.tokens.send(access, |token| call.clone().bearer(token.0.expose())).await
    }

    async fn ask<T: DeserializeOwned>(&self, access: &Access, path: &str) -> Result<T, Failure> {
        let reply = self.send(access, Call::get(format!("{}{path}", access.endpoint(API)))).await?;
        if reply.is_success() { reply.json() } else { Err(failure(&reply)) }
    }

    /// All readable entries of a list.
    async fn ask_all<T: DeserializeOwned>(&self, access: &Access, path: &str) -> Result<Vec<T>, Failure> {
        let mut page: Page<T> = self.ask(access, path).await?;
        let mut all = std::mem::take(&mut page.value);
        while let Some(next) = page.next_link.as_deref().filter(|_| all.len() < MAX_ENTRIES) {
            page = self.ask(access, path_of(access, next)?).await?;
            all.append(&mut page.value);
        }
        let readable = |entry: Field<T>| match entry {
            Field::Read(entry) => Some(entry),
            Field::Absent => None,
            Field::Unreadable(reason) => {
                tracing::debug!(reason, "an entry of a list could not be read");
                None
            }
        };
        Ok(all.into_iter().filter_map(readable).collect())
    }

    async fn read_surroundings(&self, access: &Access) -> Result<Arc<Surroundings>, Failure> {
        let machines: Vec<Machine> = self
            .ask_all(access, &listing(access, "Microsoft.Compute/virtualMachines", COMPUTE_VERSION, &[("statusOnly", "true")])?)
            .await?;
        let views = machines.into_iter().filter_map(|machine| Some((machine.key()?, machine.into_view()))).collect();
        let addresses = match self.read_addresses(access).await {
            Ok(addresses) => addresses,
            // A credential that may read machines may lack permission for networks.
            Err(failure) if failure.class == FailureClass::InsufficientPermissions => {
                tracing::debug!(code = failure.code, "the addresses of machines could not be read");
                HashMap::new()
            }
            Err(failure) => return Err(failure),
        };
        let surroundings = Arc::new(Surroundings { views, addresses });
        self.surroundings.insert(key(access)?, surroundings.clone());
        Ok(surroundings)
    }

    async fn read_addresses(&self, access: &Access) -> Result<HashMap<String, Addresses>, Failure> {
        let path = listing(access, "Microsoft.Network/publicIPAddresses", NETWORK_VERSION, &[])?;
        let public: Vec<PublicAddress> = self.ask_all(access, &path).await?;
        let public: HashMap<String, Field<String>> =
            public.into_iter().map(|public| (public.id.to_lowercase(), public.address())).collect();
        let path = listing(access, "Microsoft.Network/networkInterfaces", NETWORK_VERSION, &[])?;
        let interfaces: Vec<Interface> = self.ask_all(access, &path).await?;
        let addresses = |interface: Interface| {
            let id = interface.id.to_lowercase();
            (id, interface.addresses(|id| public.get(id).cloned().unwrap_or_default()))
        };
        Ok(interfaces.into_iter().map(addresses).collect())
    }

    async fn walk(&self, access: &Access, from: Option<&str>) -> Result<FleetPage, Failure> {
        let cached = if from.is_some() { self.surroundings.get(&key(access)?) } else { None };
        let surroundings = match cached {
            Some(cached) => cached,
            None => self.read_surroundings(access).await?,
        };
        let start = listing(access, "Microsoft.Compute/virtualMachines", COMPUTE_VERSION, &[])?;
        let page: Page<Machine> = self.ask(access, from.unwrap_or(&start)).await?;
        let next_link = page.next_link;
        let complete = |mut machine: Machine| {
            if let Some(view) = machine.key().and_then(|key| surroundings.views.get(&key)) {
                machine.set_view(view.clone());
            }
            let interfaces = machine.interfaces();
            let mut vm = machine.into_vm()?;
            for addresses in interfaces.iter().filter_map(|id| surroundings.addresses.get(id)) {
                add_addresses(&mut vm, addresses.clone());
            }
            Ok(vm)
        };
        let mut page = FleetPage::read(page.value, complete).keep(|vm| is_in_regions(access, vm));
        for vm in &mut page.vms {
            self.measure(access, vm).await;
        }
        let next = next_link.as_deref().map(|link| path_of(access, link)).transpose()?;
        Ok(page.and_next(next.map(str::to_owned)))
    }

    /// One machine with its instance view, by its id, which is a path.
    async fn read(&self, access: &Access, id: &str) -> Result<Option<Machine>, Failure> {
        let path = format!("{id}{}", query(&[("api-version", COMPUTE_VERSION), ("$expand", "instanceView")]));
        match self.ask(access, &path).await {
            Ok(machine) => Ok(Some(machine)),
            Err(failure) if failure.class == FailureClass::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn complete(&self, access: &Access, machine: Machine) -> Result<CloudVm, Failure> {
        let interfaces = machine.interfaces();
        let mut vm = machine.into_vm()?;
        for id in interfaces.iter().take(MAX_INTERFACES) {
            let expanded = [("api-version", NETWORK_VERSION), ("$expand", "ipConfigurations/publicIPAddress")];
            match self.ask::<Interface>(access, &format!("{id}{}", query(&expanded))).await {
                Ok(interface) => add_addresses(&mut vm, interface.addresses(|_| Field::Absent)),
                Err(failure) if matches!(failure.class, FailureClass::InsufficientPermissions | FailureClass::NotFound) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.measure(access, &mut vm).await;
        Ok(vm)
    }

    /// The sizes of a location.
    async fn sizes(&self, access: &Access, location: &str) -> Result<Arc<Sizes>, Failure> {
        let place = format!("{} {location}", access.endpoint(API));
        if let Some(known) = self.sizes.get(&place) {
            return Ok(known);
        }
        let kind = format!("Microsoft.Compute/locations/{}/vmSizes", segment(location));
        let sizes: Vec<MachineSize> = self.ask_all(access, &listing(access, &kind, COMPUTE_VERSION, &[])?).await?;
        let sizes = sizes.into_iter().map(|size| (size.name, (size.number_of_cores, size.memory_in_mb)));
        let sizes: Arc<Sizes> = Arc::new(sizes.collect());
        self.sizes.insert(place, sizes.clone());
        Ok(sizes)
    }

    /// Fills in the virtual CPUs and the memory of a VM. If sizes cannot be read, the VM stays without them.
    async fn measure(&self, access: &Access, vm: &mut CloudVm) {
        if vm.region.is_empty() {
            return;
        }
        match self.sizes(access, &vm.region).await {
            Ok(sizes) => {
                let measures = sizes.get(&vm.size.id);
                vm.size.vcpus = measures.map(|(cores, _)| *cores);
                vm.size.memory_bytes = measures.map(|(_, mib)| mib << 20);
            }
            Err(failure) => tracing::debug!(code = failure.code, "the sizes of machines could not be read"),
        }
    }

    async fn may_create(&self, access: &Access) -> Result<Rehearsal, Failure> {
        let group = access.config.resource_group.as_deref().map(|group| format!("/resourceGroups/{}", segment(group)));
        let scope = format!("/subscriptions/{}{}", segment(subscription(access)?), group.unwrap_or_default());
        let path =
            format!("{scope}/providers/Microsoft.Authorization/permissions{}", query(&[("api-version", PERMISSION_VERSION)]));
        match self.ask_all::<Permission>(access, &path).await {
            Ok(permissions) if permissions.iter().any(|permission| permission.allows(CREATE)) => Ok(Rehearsal::Allowed),
            Ok(_) => {
                let message = format!("no role of the service principal allows the action {CREATE}");
                Err(Failure::new(FailureClass::InsufficientPermissions, "AuthorizationFailed", message))
            }
            // The service principal may not read its own permissions.
            Err(failure) if failure.class == FailureClass::InsufficientPermissions => Ok(Rehearsal::CannotTell),
            Err(failure) => Err(failure),
        }
    }
}

impl Adapter for Azure {
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity> {
        Box::pin(async move {
            self.tokens.renew(access).await?;
            let path =
                format!("/subscriptions/{}{}", segment(subscription(access)?), query(&[("api-version", SUBSCRIPTION_VERSION)]));
            let who = access.credential.hint().unwrap_or_default();
            match self.ask::<Subscription>(access, &path).await {
                Ok(subscription) => Ok(Identity(format!("{who} in {}", subscription.display_name))),
                // A role in a single resource group does not include the subscription.
                Err(failure) if failure.class == FailureClass::InsufficientPermissions => Ok(Identity(who)),
                Err(failure) => Err(failure),
            }
        })
    }

    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage> {
        Box::pin(self.walk(access, from))
    }

    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            match self.read(access, &place.provider_vm_id).await? {
                Some(machine) => self.complete(access, machine).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal> {
        Box::pin(async move {
            if let Some(order) = order {
                body_of(access, order)?;
                if !self.sizes(access, &order.region).await?.contains_key(&order.size) {
                    let message = format!("the location {} has no size {}", order.region, order.size);
                    return Err(Failure::new(FailureClass::NotFound, "unknown_size", message));
                }
            }
            self.may_create(access).await
        })
    }

    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let found = self.read(access, &id_of(access, order)?).await?;
            let token = order.token.to_string();
            match found.filter(|machine| machine.tag(OrderToken::TAG) == Some(&token)) {
                Some(machine) => self.complete(access, machine).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn provision<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, CloudVm> {
        Box::pin(async move {
            let url = format!("{}{}{}", access.endpoint(API), id_of(access, order)?, query(&[("api-version", COMPUTE_VERSION)]));
            let call = Call { method: Method::PUT, ..Call::post(url) }.json(&body_of(access, order)?)?;
            // Without this header, the request would change an existing machine with the same name.
            let reply = self.send(access, call.header(header::IF_NONE_MATCH, "*")?).await?;
            if reply.is_success() { Ok(reply.json::<Machine>()?.into_vm()?) } else { Err(failure(&reply)) }
        })
    }
}

fn subscription(access: &Access) -> Result<&str, Failure> {
    match &access.credential {
        Credential::ServicePrincipal { subscription_id, .. } => Ok(subscription_id),
        _ => Err(wrong_credential()),
    }
}

/// The path of the list of all resources of a kind in the subscription.
fn listing(access: &Access, kind: &str, version: &str, more: &[(&str, &str)]) -> Result<String, Failure> {
    let pairs: Vec<(&str, &str)> = [("api-version", version)].into_iter().chain(more.iter().copied()).collect();
    Ok(format!("/subscriptions/{}/providers/{kind}{}", segment(subscription(access)?), query(&pairs)))
}

/// The path of a link to the next page. A link to another server is not followed, because the request would send the token there.
fn path_of<'a>(access: &Access, link: &'a str) -> Result<&'a str, Failure> {
    let endpoint = access.endpoint(API);
    let host_and_path = link.strip_prefix(&endpoint).or_else(|| link.strip_prefix(&format!("{endpoint}:443")));
    host_and_path.filter(|path| path.starts_with('/')).ok_or_else(|| unusable("the link to the next page leads to another server"))
}

fn group(access: &Access) -> Result<&str, Failure> {
    let missing = || {
        invalid_order(
            "no_resource_group",
            "config.resource_group of the provider is not set: set it to the resource group for new VMs",
        )
    };
    access.config.resource_group.as_deref().ok_or_else(missing)
}

fn id_of(access: &Access, order: &Order) -> Result<String, Failure> {
    let (subscription, group) = (segment(subscription(access)?), segment(group(access)?));
    let name = segment(&order.name);
    Ok(format!("/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute/virtualMachines/{name}"))
}

fn image_reference(image: &str) -> Result<Value, Failure> {
    if image.starts_with('/') {
        return Ok(json!({"id": image}));
    }
    let parts: Vec<&str> = image.split(':').collect();
    let [publisher, offer, sku, version] = parts.as_slice() else {
        return Err(invalid_order(
            "bad_image",
            format!("{image} is not an image: use publisher:offer:sku:version or the id of an image"),
        ));
    };
    Ok(json!({"publisher": publisher, "offer": offer, "sku": sku, "version": version}))
}

fn subnet_id(access: &Access, order: &Order) -> Result<String, Failure> {
    let network = order.network.as_deref().unwrap_or_default();
    if network.starts_with('/') {
        return Ok(network.to_owned());
    }
    let Some((network, subnet)) = network.split_once('/') else {
        let message = "Azure requires a subnet: set network to its id, or to network/subnet in the resource group";
        return Err(invalid_order("bad_network", message));
    };
    let (subscription, group) = (subscription(access)?, group(access)?);
    Ok(format!(
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network/virtualNetworks/{network}/subnets/{subnet}"
    ))
}

fn body_of(access: &Access, order: &Order) -> Result<Value, Failure> {
    if order.ssh_keys.is_empty() {
        return Err(invalid_order(
            "no_ssh_key",
            format!("Azure requires at least one SSH key: set ssh_keys to the public keys of the user {ADMIN}"),
        ));
    }
    let path = format!("/home/{ADMIN}/.ssh/authorized_keys");
    let keys: Vec<Value> = order.ssh_keys.iter().map(|key| json!({"path": path, "keyData": key})).collect();
    let mut os = json!({
        "computerName": order.name,
        "adminUsername": ADMIN,
        "linuxConfiguration": {"disablePasswordAuthentication": true, "ssh": {"publicKeys": keys}},
    });
    if let (Some(data), Some(os)) = (&order.user_data, os.as_object_mut()) {
        os.insert("customData".to_owned(), json!(BASE64.encode(data.expose().as_bytes())));
    }
    let interface = json!({
        "name": format!("{}-nic", order.name),
        "properties": {
            "primary": true,
            "deleteOption": "Delete",
            "ipConfigurations": [{"name": "primary", "properties": {"primary": true, "subnet": {"id": subnet_id(access, order)?}}}],
        },
    });
    let mut body = json!({
        "location": order.region,
        "tags": order_tags(order),
        "properties": {
            "hardwareProfile": {"vmSize": order.size},
            "storageProfile": {
                "imageReference": image_reference(&order.image)?,
                "osDisk": {"createOption": "FromImage", "deleteOption": "Delete"},
            },
            "osProfile": os,
            "networkProfile": {"networkApiVersion": INLINE_NETWORK_VERSION, "networkInterfaceConfigurations": [interface]},
        },
    });
    if let (Some(zone), Some(body)) = (&order.zone, body.as_object_mut()) {
        body.insert("zones".to_owned(), json!([zone]));
    }
    Ok(body)
}

fn failure(reply: &Reply) -> Failure {
    let ErrorAnswer { error } = reply.json().unwrap_or_default();
    let class = class_of(&error.code, &error.message).unwrap_or_else(|| reply.class());
    reply.failure(class, &error.code, &error.message)
}

/// The class of an Azure error code. `None` if the code says no more than the status.
fn class_of(code: &str, message: &str) -> Option<FailureClass> {
    Some(match code {
        // The subscription is part of the credential.
        "SubscriptionNotFound" | "InvalidSubscriptionId" => FailureClass::InvalidCredentials,
        "OperationNotAllowed" if message.to_lowercase().contains("quota") => FailureClass::QuotaExceeded,
        "QuotaExceeded"
        | "SkuNotAvailable"
        | "AllocationFailed"
        | "ZonalAllocationFailed"
        | "OverconstrainedAllocationRequest"
        | "OverconstrainedZonalAllocationRequest" => FailureClass::QuotaExceeded,
        _ => return None,
    })
}
