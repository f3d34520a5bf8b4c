//! Proxmox VE: the virtual machines of a cluster, without containers and templates.
//!
//! | field of an order | meaning |
//! |---|---|
//! | `region` | the node that runs the machine |
//! | `zone` | not accepted: nodes have no zones |
//! | `size` | virtual CPUs and MiB, such as `2x4096` |
//! | `image` | the VMID of a template, which is cloned as a linked clone |
//! | `network` | a bridge, such as `vmbr1`; by default the template's |
//! | `ssh_keys` | public keys, for cloud-init |
//! | `user_data` | not accepted: the API does not support it |
//! | `tags` | tags in the form `key.value`, because tags of Proxmox VE have no values |
//!
//! Proxmox VE has no idempotency token; `creation.rs` explains how an order is found. Addresses come from the guest agent if it is
//! enabled, otherwise from the cloud-init settings.

mod answers;
mod creation;

use futures_util::{StreamExt, stream};
use http::header;
use serde::de::DeserializeOwned;

use super::{
    super::model::{CloudVm, Credential, Failure, FailureClass, Order, UnreadField, bounded},
    Access, Adapter, Answer, FleetPage, Identity, Rehearsal, VmPlace,
    client::{Call, unusable},
    fields::Field,
    wire::{invalid_order, segment, wrong_credential},
};
use answers::{CurrentStatus, Data, Details, Guest, GuestConfig, Node, Permissions, Version, failure};
use creation::{Plan, create, order_tag, template_of};

/// The guests of one page. Each guest needs separate requests, `CONCURRENT_REQUESTS` of which run concurrently.
const PAGE: usize = 20;
const CONCURRENT_REQUESTS: usize = 10;
const READ: &str = "VM.Audit";
const CREATE: &str = "VM.Allocate";

#[derive(Clone, Copy, Debug)]
pub(super) struct Proxmox;

impl Adapter for Proxmox {
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity> {
        Box::pin(async move {
            let Version { version } = ask(access, get(access, "/version")?).await?;
            Ok(Identity(format!("{} on Proxmox VE {version}", access.credential.hint().unwrap_or_default())))
        })
    }

    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage> {
        Box::pin(async move {
            let Guests { list: mut guests, skipped } = guests(access).await?;
            if guests.is_empty() && skipped.is_empty() {
                // A token without privileges is not refused. It sees an empty list.
                check_privilege(access, READ).await?;
            }
            let after: Option<u64> = from.and_then(|from| from.parse().ok());
            guests.retain(|guest| guest.is_machine() && after.is_none_or(|after| guest.vmid > after));
            guests.sort_unstable_by_key(|guest| guest.vmid);
            let more = guests.len() > PAGE;
            guests.truncate(PAGE);
            let next = guests.last().filter(|_| more).map(|guest| guest.vmid.to_string());
            let details = stream::iter(guests.into_iter().map(|guest| describe(access, guest, None))).buffered(CONCURRENT_REQUESTS);
            let vms: Vec<Result<CloudVm, Failure>> = details.collect().await;
            // Every page reads the whole list, so only the last page reports the skipped entries.
            let skipped = if next.is_none() { skipped } else { Vec::new() };
            Ok(FleetPage { vms: vms.into_iter().collect::<Result<_, _>>()?, next, skipped })
        })
    }

    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            match place.provider_vm_id.parse() {
                Ok(id) => show(access, id).await,
                Err(_) => Ok(None),
            }
        })
    }

    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal> {
        Box::pin(async move {
            if let Some(order) = order {
                let plan = Plan::read(order)?;
                template_of(&plan, &guests(access).await?.list)?;
                let nodes: Vec<Node> = ask(access, get(access, "/cluster/resources?type=node")?).await?;
                if !nodes.iter().any(|node| node.node == order.region) {
                    let message = format!("the cluster has no node {}", order.region);
                    return Err(Failure::new(FailureClass::NotFound, "unknown_region", message));
                }
            }
            check_privilege(access, CREATE).await?;
            Ok(Rehearsal::Allowed)
        })
    }

    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let tag = order_tag(order);
            match guests(access).await?.find(|guest| guest.is_machine() && guest.has_tag(&tag))? {
                Some(guest) => describe(access, guest, None).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn provision<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, CloudVm> {
        Box::pin(create(access, order))
    }
}

fn url(access: &Access, path: &str) -> Result<String, Failure> {
    let endpoint = access.config.endpoint.as_deref().map(|url| url.trim_end_matches('/'));
    let endpoint = endpoint
        .ok_or_else(|| invalid_order("no_endpoint", "config.endpoint is not set: set it to the URL of the Proxmox VE API"))?;
    Ok(format!("{}/api2/json{path}", endpoint.strip_suffix("/api2/json").unwrap_or(endpoint)))
}

fn get(access: &Access, path: &str) -> Result<Call, Failure> {
    Ok(Call::get(url(access, path)?))
}

async fn ask<T: DeserializeOwned>(access: &Access, call: Call) -> Result<T, Failure> {
    let Credential::ApiToken { token_id, token_secret } = &access.credential else { return Err(wrong_credential()) };
    let authorization = format!("PVEAPIToken={token_id}={}", token_secret.expose());
    let reply = access.client.send(call.secret_header(header::AUTHORIZATION, &authorization)?).await?;
    if reply.is_success() { Ok(reply.json::<Data<T>>()?.data) } else { Err(failure(&reply)) }
}

/// All guests in the cluster that the token can see.
#[derive(Debug, Default)]
struct Guests {
    list: Vec<Guest>,
    /// The reasons why entries were skipped.
    skipped: Vec<String>,
}

impl Guests {
    /// The first guest that fits. An unreadable entry may be that guest, so the search then fails instead of returning `None`.
    fn find(self, fits: impl Fn(&Guest) -> bool) -> Result<Option<Guest>, Failure> {
        match (self.list.into_iter().find(fits), self.skipped.first()) {
            (None, Some(reason)) => Err(unusable(reason)),
            (found, _) => Ok(found),
        }
    }
}

async fn guests(access: &Access) -> Result<Guests, Failure> {
    let entries: Vec<Field<Guest>> = ask(access, get(access, "/cluster/resources?type=vm")?).await?;
    let mut guests = Guests::default();
    for entry in entries {
        match entry {
            Field::Read(guest) => guests.list.push(guest),
            Field::Absent => {}
            Field::Unreadable(reason) => guests.skipped.push(bounded(&format!("a guest: {reason}"), UnreadField::MAX_REASON)),
        }
    }
    Ok(guests)
}

fn guest_path(guest: &Guest) -> String {
    format!("/nodes/{}/qemu/{}", segment(&guest.node), guest.vmid)
}

async fn config_of(access: &Access, guest: &Guest) -> Result<GuestConfig, Failure> {
    ask(access, get(access, &format!("{}/config", guest_path(guest)))?).await
}

/// A machine by its VMID, with the status from its node.
async fn show(access: &Access, id: u64) -> Result<Option<CloudVm>, Failure> {
    let Some(mut guest) = guests(access).await?.find(|guest| guest.is_machine() && guest.vmid == id)? else {
        return Ok(None);
    };
    let path = format!("{}/status/current", guest_path(&guest));
    match ask::<CurrentStatus>(access, get(access, &path)?).await {
        Ok(current) => {
            guest.update(&current);
            describe(access, guest, Some(&current)).await.map(Some)
        }
        Err(failure) if failure.class == FailureClass::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A guest with its settings and addresses. If the node does not return the settings, the guest is listed without them and notes
/// it. An agent that does not respond is common and not a fault.
async fn describe(access: &Access, guest: Guest, current: Option<&CurrentStatus>) -> Result<CloudVm, Failure> {
    let path = guest_path(&guest);
    let mut details = Details::default();
    match guest_result(ask::<GuestConfig>(access, once(get(access, &format!("{path}/config"))?)).await)? {
        Ok(config) => details.config = config,
        Err(failure) => {
            for field in ["private_ips", "launched_at"] {
                details.unread.note(field, "config", &access.credential.conceal(&failure.message));
            }
        }
    }
    if guest.is_running() && details.config.has_agent() {
        let asked = ask(access, once(get(access, &format!("{path}/agent/network-get-interfaces"))?)).await;
        details.agent = guest_result(asked)?.unwrap_or_default();
    }
    Ok(guest.into_vm(current, details))
}

/// A read that is not retried. A missing agent looks like a server failure, and retries for many guests would take too long.
fn once(call: Call) -> Call {
    Call { repeatable: false, ..call }
}

/// The result of a request about one guest. A failure that would affect every guest fails the whole request.
fn guest_result<T>(outcome: Result<T, Failure>) -> Result<Result<T, Failure>, Failure> {
    match outcome {
        Err(failure) => match failure.class {
            FailureClass::InsufficientPermissions
            | FailureClass::NotFound
            | FailureClass::ProviderError
            | FailureClass::Timeout
            | FailureClass::InvalidRequest => {
                tracing::debug!(code = failure.code, "the details of a guest could not be read");
                Ok(Err(failure))
            }
            _ => Err(failure),
        },
        Ok(value) => Ok(Ok(value)),
    }
}

async fn check_privilege(access: &Access, privilege: &str) -> Result<(), Failure> {
    let permissions: Permissions = ask(access, get(access, "/access/permissions")?).await?;
    if permissions.have(privilege) {
        return Ok(());
    }
    let message = format!("the token lacks the privilege {privilege}; a token with privilege separation needs its own permissions");
    Err(Failure::new(FailureClass::InsufficientPermissions, "missing_privilege", message))
}
