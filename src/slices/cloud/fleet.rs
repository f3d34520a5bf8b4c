//! Lists of VMs. The VMs of a tenant are cached in memory until a VM of any tenant changes. A filter scans this cache, so syncs
//! have no index to keep up to date.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{CloudProviderId, OperationId, OrganizationId, TenantId, VmId},
    vocabulary::vocabulary,
};
use tenantd_store::{Read, Store, StoreError, VersionedCache, catalog};

use super::{
    model::{Provider, ProviderKind, SyncState, Vm, VmState},
    repo::{providers, vms},
};

/// The number of tenants whose fleets are cached.
const CACHED_FLEETS: u64 = 64;

/// A tenant's VMs, newest first.
type Fleet = Vec<Arc<Vm>>;

#[derive(Debug)]
pub(super) struct Fleets(VersionedCache<TenantId, Fleet, 1>);

impl Fleets {
    pub(super) fn new() -> Self {
        Self(VersionedCache::new([catalog::VMS], CACHED_FLEETS))
    }

    fn get(&self, store: &Store, tenant: TenantId) -> Result<Arc<Fleet>, StoreError> {
        self.0.get(store, tenant, || {
            let mut fleet: Fleet = store.read(|tx| vms::of_tenant(tx, tenant))?.into_iter().map(Arc::new).collect();
            fleet.sort_unstable_by_key(|vm| std::cmp::Reverse(vm.id));
            Ok(fleet)
        })
    }
}

/// A provider with the state of its syncs.
#[derive(Clone, Debug)]
pub(super) struct SyncedProvider {
    pub(super) provider: Provider,
    pub(super) sync: SyncState,
}

impl SyncedProvider {
    pub(super) fn read(tx: &impl Read, tenant: TenantId, id: CloudProviderId) -> Result<Option<Self>, StoreError> {
        let Some(provider) = providers::get(tx, (tenant, id))? else { return Ok(None) };
        Ok(Some(Self { provider, sync: providers::sync(tx, (tenant, id))? }))
    }

    pub(super) fn organization(&self, vm: &Vm) -> Option<OrganizationId> {
        vm.organization_id.or(self.provider.organization_id)
    }

    /// When the cloud last reported the VM.
    pub(super) fn last_synced(&self, vm: &Vm) -> Timestamp {
        let reported = vm.last_seen_at.or(if vm.missed == 0 { self.sync.last_at } else { None });
        reported.map_or(vm.discovered_at, |reported| reported.max(vm.discovered_at))
    }

    /// Whether the stored data of the VM may be out of date.
    pub(super) fn is_stale(&self, vm: &Vm, now: Timestamp) -> bool {
        vm.ended_at.is_none()
            && vm.is_known()
            && (vm.missed > 0 || !self.provider.enabled || self.provider.is_stale(&self.sync, now))
    }
}

vocabulary! {
    GroupBy:
    Provider "provider", Region "region", State "state", Size "size", Organization "organization",
}

#[derive(Clone, Debug, Default)]
pub(super) struct VmQuery {
    pub(super) reach: Reach,
    pub(super) provider_ids: Vec<CloudProviderId>,
    pub(super) kinds: Vec<ProviderKind>,
    pub(super) organization_ids: Vec<OrganizationId>,
    pub(super) states: Vec<VmState>,
    pub(super) regions: Vec<String>,
    /// For each key, the VM must have one of the values.
    pub(super) tags: BTreeMap<String, Vec<String>>,
    /// A substring of the name, in lower case.
    pub(super) name: Option<String>,
    pub(super) ips: Vec<IpAddr>,
    pub(super) stale: Option<bool>,
    pub(super) operation_ids: Vec<OperationId>,
}

fn wanted<T: PartialEq>(list: &[T], value: &T) -> bool {
    list.is_empty() || list.contains(value)
}

impl VmQuery {
    fn matches(&self, vm: &Vm, known: &SyncedProvider, now: Timestamp) -> bool {
        let organization = known.organization(vm);
        let facts = &vm.facts;
        self.reach.covers(organization)
            && wanted(&self.provider_ids, &vm.provider_id)
            && wanted(&self.kinds, &known.provider.kind)
            && (self.organization_ids.is_empty() || organization.is_some_and(|id| self.organization_ids.contains(&id)))
            && wanted(&self.states, &facts.state)
            && wanted(&self.regions, &facts.region)
            && self.tags.iter().all(|(key, values)| facts.tags.get(key).is_some_and(|value| values.contains(value)))
            && self.name.as_deref().is_none_or(|part| facts.name.to_lowercase().contains(part))
            && (self.ips.is_empty() || facts.private_ips.iter().chain(&facts.public_ips).any(|ip| self.ips.contains(ip)))
            && self.stale.is_none_or(|stale| stale == known.is_stale(vm, now))
            && (self.operation_ids.is_empty() || vm.operation_id.is_some_and(|id| self.operation_ids.contains(&id)))
    }
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct VmPage {
    pub(super) vms: Vec<Arc<Vm>>,
    /// The last VM of the page, if more VMs follow.
    pub(super) last: Option<VmId>,
    pub(super) total: Option<u64>,
    /// The number of VMs for each value of the `group_by` field.
    pub(super) groups: Option<BTreeMap<String, u64>>,
    pub(super) known: HashMap<CloudProviderId, SyncedProvider>,
}

/// The page to return.
#[derive(Clone, Copy, Debug)]
pub(super) struct VmSlice {
    pub(super) after: Option<VmId>,
    pub(super) limit: usize,
    pub(super) count: bool,
    pub(super) group_by: Option<GroupBy>,
}

impl Fleets {
    pub(super) fn list(
        &self,
        store: &Store,
        tenant: TenantId,
        query: &VmQuery,
        slice: VmSlice,
        now: Timestamp,
    ) -> Result<VmPage, StoreError> {
        let known: HashMap<CloudProviderId, SyncedProvider> = store.read(|tx| {
            let found = providers::list(tx, tenant)?.into_iter().map(|provider| {
                let sync = providers::sync(tx, (tenant, provider.id))?;
                Ok((provider.id, SyncedProvider { provider, sync }))
            });
            found.collect::<Result<_, StoreError>>()
        })?;
        let fleet = self.get(store, tenant)?;
        // Skips the VMs of a deleted provider: a background task removes their rows.
        let matching = fleet.iter().filter_map(|vm| {
            let known = known.get(&vm.provider_id)?;
            query.matches(vm, known, now).then_some((vm, known))
        });
        let all = slice.count || slice.group_by.is_some();
        let (mut page, mut more, mut total) = (Vec::with_capacity(slice.limit), false, 0);
        let mut groups: BTreeMap<String, u64> = BTreeMap::new();
        for (vm, known) in matching {
            total += 1;
            if let Some(group_by) = slice.group_by {
                *groups.entry(group_of(vm, known, group_by)).or_default() += 1;
            }
            if slice.after.is_none_or(|after| vm.id < after) {
                if page.len() < slice.limit {
                    page.push(vm.clone());
                } else {
                    more = true;
                    if !all {
                        break;
                    }
                }
            }
        }
        Ok(VmPage {
            last: page.last().filter(|_| more).map(|vm| vm.id),
            vms: page,
            total: slice.count.then_some(total),
            groups: slice.group_by.map(|_| groups),
            known,
        })
    }
}

/// The value of the field. Empty for a VM without one.
fn group_of(vm: &Vm, known: &SyncedProvider, group_by: GroupBy) -> String {
    match group_by {
        GroupBy::Provider => vm.provider_id.to_string(),
        GroupBy::Region => vm.facts.region.clone(),
        GroupBy::State => vm.facts.state.name().to_owned(),
        GroupBy::Size => vm.facts.size.id.clone(),
        GroupBy::Organization => known.organization(vm).map(|id| id.to_string()).unwrap_or_default(),
    }
}
