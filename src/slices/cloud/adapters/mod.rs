//! The interface to the clouds: one small trait, one file or folder per kind. An adapter translates our calls into requests of its
//! API, the responses into [`CloudVm`]s and the errors into [`Failure`]s. It keeps only state that it can obtain again.
//!
//! **Boundary:** every request goes through [`Client`], and so through the kernel's egress. The client handles retries, time limits
//! and the names of transport errors. The adapter decides what a status or a body means. Nothing here writes to the store, except
//! for the simulated cloud, whose tables represent another party's machines.
//!
//! The header of each adapter explains the fields of an order. The table lists how an order is found again, what a rehearsal
//! checks, and what the adapter was tested against:
//!
//! | kind | API | the order's token is sent as | a rehearsal checks | tested against |
//! |---|---|---|---|---|
//! | aws | EC2 Query, STS | the client token, and a tag | the permission to create and the order itself, by a dry run | moto |
//! | azure | Resource Manager, Entra ID | a tag; names are unique | size, and the permission to create by roles | a strict fake |
//! | gcp | Compute Engine v1, OAuth 2.0 | the `requestId`, and a label | type, and the permission to create | a strict fake |
//! | openstack | Keystone v3, Nova 2.52 | a tag, and metadata | flavor and quota; not the permission to create | a strict fake |
//! | proxmox | Proxmox VE `api2` | the description, finally a tag | template, node, and the permission to create | a strict fake |
//! | hetzner | Cloud API v1 | a label | location, type, image, and the permission to create | a strict fake |
//! | digitalocean | API v2 | a tag | size, image; finds a missing permission only | a strict fake |
//! | simulated | none | its key | everything | itself |
//!
//! A strict fake is a server in `tests/` that implements the documented requests and responses and fails the test for any other
//! request. It proves that an adapter follows the documentation, not that the provider does.

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

/// The future that an adapter's method returns.
pub(super) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// The target and the credential of an adapter's calls. Created for every piece of work, with its time limit.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) tenant_id: TenantId,
    /// Absent for a provider that is not stored.
    pub(super) provider_id: Option<CloudProviderId>,
    pub(super) config: ProviderConfig,
    pub(super) credential: Credential,
    pub(super) client: Client,
}

impl Access {
    /// The configured endpoint, or else `usual`, without trailing slashes.
    pub(super) fn endpoint(&self, usual: &str) -> String {
        self.config.endpoint.as_deref().unwrap_or(usual).trim_end_matches('/').to_owned()
    }
}

/// The account of the credential as the provider reports it, such as its id and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity(pub(super) String);

/// A page of VMs.
#[derive(Clone, Debug, Default)]
pub(super) struct FleetPage {
    pub(super) vms: Vec<CloudVm>,
    /// The start of the next page, in the adapter's own format. With several regions, the pages cover one region after another.
    pub(super) next: Option<String>,
    /// The reasons why entries are missing that may be VMs: they have no readable id, or their part of the cloud did not respond.
    pub(super) skipped: Vec<String>,
}

impl FleetPage {
    fn skip(&mut self, reason: &str) {
        self.skipped.push(bounded(reason, UnreadField::MAX_REASON));
    }
}

/// The id and the location of a VM. Some APIs find a VM only by both.
#[derive(Clone, Debug)]
pub(super) struct VmPlace {
    pub(super) provider_vm_id: String,
    pub(super) region: String,
    pub(super) zone: Option<String>,
}

/// The result of checking a creation without creating anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rehearsal {
    Allowed,
    /// The API has no way to check.
    CannotTell,
}

/// One kind of cloud.
pub(super) trait Adapter: fmt::Debug + Send + Sync + 'static {
    /// Sends the cheapest request that succeeds only with a valid credential.
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity>;

    /// Returns the page of VMs that starts at `from`. `None` is the first page.
    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage>;

    /// Returns one VM, or `None` if the provider does not have it.
    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>>;

    /// Checks whether the provider would accept this order or, without an order, any order. Creates nothing. A missing permission
    /// is a failure of the class `InsufficientPermissions`.
    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal>;

    /// Returns the VM that an earlier [`Self::provision`] of this order created, if any.
    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>>;

    /// Creates the VM. The order's token is sent with it, so that one order never creates two VMs: as the API's own idempotency
    /// token if it has one, otherwise as a tag, a label or the name, by which [`Self::find`] finds the VM. Every attempt but the
    /// first is preceded by [`Self::find`].
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
