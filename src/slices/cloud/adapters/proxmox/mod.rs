//! Proxmox VE: the virtual machines of a cluster. Containers and templates are not among them.
//!
//! | of an order | means here |
//! |---|---|
//! | `region` | the node that the machine is put on |
//! | `zone` | not taken: a node has no zones |
//! | `size` | processors and MiB, such as `2x4096` |
//! | `image` | the VMID of a template, of which a linked clone is made |
//! | `network` | a bridge, such as `vmbr1`; without one the template's |
//! | `ssh_keys` | public keys, for cloud-init |
//! | `user_data` | not taken: the API has no way to hand it over |
//! | `tags` | tags in the form `key.value`, since those of Proxmox VE have no values |
//!
//! Proxmox VE has no idempotency token: `creation.rs` says how an order is found again. Addresses come from the guest agent, where one is
//! enabled, or else from the settings for cloud-init.

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
    wire::{segment, unfit_order, wrong_credential},
};
use answers::{CurrentStatus, Data, Details, Guest, GuestConfig, Node, Permissions, Version, failure};
use creation::{Plan, create, order_tag, template_of};

/// Guests of one page. Each is asked about by itself, some at a time.
const PAGE: usize = 20;
const AT_A_TIME: usize = 10;
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
                // A token without rights is not refused: it sees nothing.
                check_privilege(access, READ).await?;
            }
            let after: Option<u64> = from.and_then(|from| from.parse().ok());
            guests.retain(|guest| guest.is_machine() && after.is_none_or(|after| guest.vmid > after));
            guests.sort_unstable_by_key(|guest| guest.vmid);
            let more = guests.len() > PAGE;
            guests.truncate(PAGE);
            let next = guests.last().filter(|_| more).map(|guest| guest.vmid.to_string());
            let details = stream::iter(guests.into_iter().map(|guest| describe(access, guest, None))).buffered(AT_A_TIME);
            let vms: Vec<Result<CloudVm, Failure>> = details.collect().await;
            // Every page reads the whole list: what is skipped is counted with the last one.
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
    let endpoint = endpoint.ok_or_else(|| unfit_order("no_endpoint", "config.endpoint is not set"))?;
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

/// All guests that the token sees, wherever in the cluster they are.
#[derive(Debug, Default)]
struct Guests {
    list: Vec<Guest>,
    /// Why entries are not among them.
    skipped: Vec<String>,
}

impl Guests {
    /// The guest that fits. An entry that cannot be read may be the one: then nobody can say that there is none.
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

/// A machine by its number, with what its node knows of it.
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

/// A guest with its settings and addresses. A guest whose node does not give its settings is listed without them, and says so. An agent
/// that does not answer is common and no fault.
async fn describe(access: &Access, guest: Guest, current: Option<&CurrentStatus>) -> Result<CloudVm, Failure> {
    let path = guest_path(&guest);
    let mut details = Details::default();
    match told(ask::<GuestConfig>(access, once(get(access, &format!("{path}/config"))?)).await)? {
        Ok(config) => details.config = config,
        Err(failure) => {
            for field in ["private_ips", "launched_at"] {
                details.unread.note(field, "config", &access.credential.conceal(&failure.message));
            }
        }
    }
    if guest.is_running() && details.config.has_agent() {
        let asked = ask(access, once(get(access, &format!("{path}/agent/network-get-interfaces"))?)).await;
        details.agent = told(asked)?.unwrap_or_default();
    }
    Ok(guest.into_vm(current, details))
}

/// A read that is not repeated: an agent that does not answer is a failure of the server, and there are many of them.
fn once(call: Call) -> Call {
    Call { repeatable: false, ..call }
}

/// What became of a question about one guest. What would fail for every guest is a failure of the whole.
fn told<T>(outcome: Result<T, Failure>) -> Result<Result<T, Failure>, Failure> {
    match outcome {
        Err(failure) => match failure.class {
            FailureClass::InsufficientPermissions
            | FailureClass::NotFound
            | FailureClass::ProviderError
            | FailureClass::Timeout
            | FailureClass::InvalidRequest => {
                tracing::debug!(code = failure.code, "details of a guest are not told");
                Ok(Err(failure))
            }
            _ => Err(failure),
        },
        Ok(told) => Ok(Ok(told)),
    }
}

async fn check_privilege(access: &Access, privilege: &str) -> Result<(), Failure> {
    let permissions: Permissions = ask(access, get(access, "/access/permissions")?).await?;
    if permissions.have(privilege) {
        return Ok(());
    }
    let message = format!("the token does not have {privilege}; a token with privilege separation needs rights of its own");
    Err(Failure::new(FailureClass::InsufficientPermissions, "missing_privilege", message))
}
