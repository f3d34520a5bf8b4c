//! The seam to the clouds: one small trait, one file a kind. An adapter turns our few questions into its API's requests, the answers
//! into [`CloudVm`]s, and the errors into [`Failure`]s; it keeps nothing that cannot be had again.
//!
//! **Boundary:** everything goes out through [`Client`], and so through the kernel's egress. Retries, time limits and the names of
//! transport errors are the client's; what a status or a body means is the adapter's. Nothing here writes to the store, but for the
//! simulated cloud, whose tables stand for somebody else's machines.
//!
//! What the words of an order mean to a kind is at the head of its file. By what an order is found again, what can be rehearsed, and
//! what the kind was run against:
//!
//! | kind | API | an order's token is | a rehearsal tells | run against |
//! |---|---|---|---|---|
//! | aws | EC2 Query, STS | the client token, and a tag | the right to create and the order itself, by a dry run | moto |
//! | azure | Resource Manager, Entra ID | a tag; a name is taken once | size, and the right to create by the roles | a strict fake |
//! | gcp | Compute Engine v1, OAuth 2.0 | the `requestId`, and a label | type, and the right to create by its permission | a strict fake |
//! | openstack | Keystone v3, Nova 2.52 | a tag, and metadata | flavor and quota; not the right to create | a strict fake |
//! | proxmox | Proxmox VE `api2` | the description, and at last a tag | template, node, and the right to create | a strict fake |
//! | hetzner | Cloud API v1 | a label | location, type, image, and the right to create | a strict fake |
//! | digitalocean | API v2 | a tag | size, image; a missing right, not an existing one | a strict fake |
//! | simulated | none | its key | everything | itself |
//!
//! A strict fake is a server in `tests/` that has the documented requests and answers and fails the test for any other request. It shows
//! that an adapter speaks as the documentation says, and not that the provider does.

mod aws;
mod azure;
mod client;
mod digitalocean;
mod fields;
mod gcp;
mod hetzner;
mod oauth;
mod openstack;
mod proxmox;
mod simulated;
mod tokens;
mod verify;
mod wire;

#[cfg(test)]
mod tests;

use std::{fmt, future::Future, pin::Pin};

use tenantd_base::{
    clocks::Clocks,
    id::{CloudProviderId, TenantId},
};
use tenantd_store::Store;

use super::model::{CloudVm, Credential, Failure, Order, ProviderConfig, ProviderKind, UnreadField, bounded};

pub(super) use client::{Client, ClientParts};
pub(super) use simulated::SIMULATED_VMS;
pub(super) use verify::verify;

/// What an adapter comes back with, sooner or later.
pub(super) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// Whom an adapter calls, and as whom. Made anew for every piece of work, with the time that it has.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) tenant_id: TenantId,
    /// Absent for a provider that is tried before it is stored.
    pub(super) provider_id: Option<CloudProviderId>,
    pub(super) config: ProviderConfig,
    pub(super) credential: Credential,
    pub(super) client: Client,
}

impl Access {
    /// The configured endpoint without a slash at its end, or the one that the kind has by itself.
    pub(super) fn endpoint(&self, usual: &str) -> String {
        self.config.endpoint.as_deref().unwrap_or(usual).trim_end_matches('/').to_owned()
    }
}

/// Who the provider says that we are, such as an account and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity(pub(super) String);

/// A part of a fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct FleetPage {
    pub(super) vms: Vec<CloudVm>,
    /// Where the next part begins, in the adapter's own words. A fleet of several regions goes through them in turn.
    pub(super) next: Option<String>,
    /// Why entries are not among the VMs that may be VMs: they have no readable id, or their part of the cloud did not answer.
    pub(super) skipped: Vec<String>,
}

impl FleetPage {
    fn skip(&mut self, reason: &str) {
        self.skipped.push(bounded(reason, UnreadField::MAX_REASON));
    }
}

/// Which VM is meant. Some APIs find a VM only where it is.
#[derive(Clone, Debug)]
pub(super) struct VmPlace {
    pub(super) provider_vm_id: String,
    pub(super) region: String,
    pub(super) zone: Option<String>,
}

/// What could be found out about a creation without creating anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rehearsal {
    Allowed,
    /// The API has no way to ask.
    CannotTell,
}

/// One kind of cloud.
pub(super) trait Adapter: fmt::Debug + Send + Sync + 'static {
    /// The cheapest request that only a valid credential passes.
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity>;

    /// The part of the fleet that begins at `from`, the whole fleet beginning at `None`.
    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage>;

    /// `None` when the provider has no such VM (any more).
    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>>;

    /// Whether an order like this would be taken; without one, whether any would. Creates nothing. A missing right is a failure of
    /// the class `InsufficientPermissions`.
    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal>;

    /// What an earlier [`Self::provision`] of this order has created, if it has.
    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>>;

    /// Creates the VM. The order's token goes out with it, so that the same order never creates two: as the API's own idempotency token
    /// where it has one, otherwise as a tag, a label or the name, by which [`Self::find`] finds it. It is asked before every attempt
    /// but the first.
    fn provision<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, CloudVm>;
}

/// All kinds of clouds.
#[derive(Debug)]
pub(super) struct Adapters {
    aws: aws::Aws,
    azure: azure::Azure,
    digitalocean: digitalocean::DigitalOcean,
    gcp: gcp::Gcp,
    hetzner: hetzner::Hetzner,
    openstack: openstack::OpenStack,
    proxmox: proxmox::Proxmox,
    simulated: simulated::Simulated,
}

impl Adapters {
    pub(super) fn new(store: Store, clocks: Clocks) -> Self {
        Self {
            aws: aws::Aws::new(),
            azure: azure::Azure::new(),
            digitalocean: digitalocean::DigitalOcean,
            gcp: gcp::Gcp::new(),
            hetzner: hetzner::Hetzner,
            openstack: openstack::OpenStack::new(),
            proxmox: proxmox::Proxmox,
            simulated: simulated::Simulated::new(store, clocks),
        }
    }

    pub(super) fn get(&self, kind: ProviderKind) -> &dyn Adapter {
        match kind {
            ProviderKind::Aws => &self.aws,
            ProviderKind::Azure => &self.azure,
            ProviderKind::Digitalocean => &self.digitalocean,
            ProviderKind::Gcp => &self.gcp,
            ProviderKind::Hetzner => &self.hetzner,
            ProviderKind::Openstack => &self.openstack,
            ProviderKind::Proxmox => &self.proxmox,
            ProviderKind::Simulated => &self.simulated,
        }
    }
}
