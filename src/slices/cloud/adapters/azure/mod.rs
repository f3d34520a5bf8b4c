//! Azure: virtual machines by Resource Manager. The fleet is that of the whole subscription.
//!
//! | of an order | means here |
//! |---|---|
//! | `region` | a location, such as `westeurope` |
//! | `zone` | the number of a zone: `1`, `2` or `3` |
//! | `size` | a size of VM, such as `Standard_B2s` |
//! | `image` | `publisher:offer:sku:version`, or the id of an image |
//! | `network` | the id of a subnet, or `network/subnet` in the resource group; required |
//! | `ssh_keys` | public keys of the user `azureuser`; at least one |
//! | `user_data` | custom data, which cloud-init reads |
//! | `tags` | tags |
//!
//! VMs are created in the `resource_group` of the configuration, with an interface and a disk that go when they go, and without a public
//! address. A VM is created under its name and only when there is none of that name; the order's token is a tag of it.

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
    wire::{is_wanted, order_tags, query, segment, unfit_order, wrong_credential},
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
/// Of interfaces that are created with their machine.
const INLINE_NETWORK_VERSION: &str = "2020-11-01";
const CREATE: &str = "Microsoft.Compute/virtualMachines/write";
const ADMIN: &str = "azureuser";
/// The most that is read of one list beside the machines, and of the interfaces of one machine.
const MOST_ENTRIES: usize = 50_000;
const MOST_INTERFACES: usize = 8;
/// How many subscriptions and locations are remembered, and for how long.
const KNOWN_SUBSCRIPTIONS: u64 = 50;
const KNOWN_LOCATIONS: u64 = 200;
const SURROUNDINGS_KEPT: Duration = Duration::from_mins(10);
const SIZES_KEPT: Duration = Duration::from_hours(24);

/// What machines do not say of themselves in a list, by their ids and by those of their interfaces.
#[derive(Debug, Default)]
struct Surroundings {
    views: HashMap<String, Field<InstanceView>>,
    addresses: HashMap<String, Addresses>,
}

/// Processors and MiB by the names of sizes.
type Sizes = HashMap<String, (u32, u64)>;

#[derive(Debug)]
pub(super) struct Azure {
    tokens: Tokens<AccessToken>,
    /// Read with the first part of a fleet, for the parts after it.
    surroundings: Cache<[u8; 32], Arc<Surroundings>>,
    sizes: Cache<String, Arc<Sizes>>,
}

impl Azure {
    pub(super) fn new() -> Self {
        let surroundings = Cache::expiring(KNOWN_SUBSCRIPTIONS, SURROUNDINGS_KEPT);
        let sizes = Cache::expiring(KNOWN_LOCATIONS, SIZES_KEPT);
        Self { tokens: Tokens::new(), surroundings, sizes }
    }

    async fn send(&self, access: &Access, call: Call) -> Result<Reply, Failure> {
        self.tokens.send(access, |token| call.clone().bearer(token.0.expose())).await
    }

    async fn ask<T: DeserializeOwned>(&self, access: &Access, path: &str) -> Result<T, Failure> {
        let reply = self.send(access, Call::get(format!("{}{path}", access.endpoint(API)))).await?;
        if reply.is_success() { reply.json() } else { Err(failure(&reply)) }
    }

    /// All entries of a list that can be read.
    async fn ask_all<T: DeserializeOwned>(&self, access: &Access, path: &str) -> Result<Vec<T>, Failure> {
        let mut page: Page<T> = self.ask(access, path).await?;
        let mut all = std::mem::take(&mut page.value);
        while let Some(next) = page.next_link.as_deref().filter(|_| all.len() < MOST_ENTRIES) {
            page = self.ask(access, path_of(access, next)?).await?;
            all.append(&mut page.value);
        }
        let readable = |entry: Field<T>| match entry {
            Field::Read(entry) => Some(entry),
            Field::Absent => None,
            Field::Unreadable(reason) => {
                tracing::debug!(reason, "an entry of a list cannot be read");
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
            // Whoever may see machines need not see networks.
            Err(failure) if failure.class == FailureClass::InsufficientPermissions => {
                tracing::debug!(code = failure.code, "addresses of machines are not told");
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
        let kept = if from.is_some() { self.surroundings.get(&key(access)?) } else { None };
        let surroundings = match kept {
            Some(kept) => kept,
            None => self.read_surroundings(access).await?,
        };
        let start = listing(access, "Microsoft.Compute/virtualMachines", COMPUTE_VERSION, &[])?;
        let page: Page<Machine> = self.ask(access, from.unwrap_or(&start)).await?;
        let next_link = page.next_link;
        let complete = |mut machine: Machine| {
            if let Some(view) = machine.key().and_then(|key| surroundings.views.get(&key)) {
                machine.see(view.clone());
            }
            let interfaces = machine.interfaces();
            let mut vm = machine.into_vm()?;
            for addresses in interfaces.iter().filter_map(|id| surroundings.addresses.get(id)) {
                add_addresses(&mut vm, addresses.clone());
            }
            Ok(vm)
        };
        let mut page = FleetPage::read(page.value, complete).keep(|vm| is_wanted(access, vm));
        for vm in &mut page.vms {
            self.measure(access, vm).await;
        }
        let next = next_link.as_deref().map(|link| path_of(access, link)).transpose()?;
        Ok(page.and_next(next.map(str::to_owned)))
    }

    /// One machine with all that is known of it, by the path of its id.
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
        for id in interfaces.iter().take(MOST_INTERFACES) {
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

    /// The sizes that a location has.
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

    /// Fills in what the size of the VM has. A VM without is an answer too.
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
            Err(failure) => tracing::debug!(code = failure.code, "sizes of machines are not told"),
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
                let message = format!("no role of the service principal has the action {CREATE}");
                Err(Failure::new(FailureClass::InsufficientPermissions, "AuthorizationFailed", message))
            }
            // It may not even ask what it may.
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
                // A role in a resource group alone does not show the subscription.
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
                    let message = format!("{} has no size {}", order.region, order.size);
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
            // Without this a machine of the same name, whoever has it, would be changed.
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

/// The path of a link to the next part of a list. One that leads elsewhere is not followed: the token would go with it.
fn path_of<'a>(access: &Access, link: &'a str) -> Result<&'a str, Failure> {
    let endpoint = access.endpoint(API);
    let host_and_path = link.strip_prefix(&endpoint).or_else(|| link.strip_prefix(&format!("{endpoint}:443")));
    host_and_path.filter(|path| path.starts_with('/')).ok_or_else(|| unusable("a link to the next part leads to another server"))
}

fn group(access: &Access) -> Result<&str, Failure> {
    let missing =
        || unfit_order("no_resource_group", "the provider's config.resource_group says where VMs are created: it is not set");
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
        return Err(unfit_order("bad_image", format!("{image} is neither publisher:offer:sku:version nor the id of an image")));
    };
    Ok(json!({"publisher": publisher, "offer": offer, "sku": sku, "version": version}))
}

fn subnet_id(access: &Access, order: &Order) -> Result<String, Failure> {
    let network = order.network.as_deref().unwrap_or_default();
    if network.starts_with('/') {
        return Ok(network.to_owned());
    }
    let Some((network, subnet)) = network.split_once('/') else {
        let message = "Azure needs a subnet: network is its id, or network/subnet in the resource group";
        return Err(unfit_order("bad_network", message));
    };
    let (subscription, group) = (subscription(access)?, group(access)?);
    Ok(format!(
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network/virtualNetworks/{network}/subnets/{subnet}"
    ))
}

fn body_of(access: &Access, order: &Order) -> Result<Value, Failure> {
    if order.ssh_keys.is_empty() {
        return Err(unfit_order(
            "no_ssh_key",
            format!("Azure lets nobody in without a key: ssh_keys has the public keys of {ADMIN}"),
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

/// What Azure's codes mean. `None` for one that says no more than the status.
fn class_of(code: &str, message: &str) -> Option<FailureClass> {
    Some(match code {
        // The subscription is a part of the credential.
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
