//! A cloud in this process, for evaluation. The seed determines its VMs and the clock their states. It handles orders like a real
//! cloud and fails on demand.
//!
//! Ordered VMs are in a table of their own, which represents another party's machines. It is written in a separate transaction, so
//! a crash can happen between a creation and its record in tenantd, as with a real cloud.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    clocks::Clocks,
    entropy::Entropy,
    id::{CloudProviderId, OperationId, TenantId},
    secrets::digest,
};
use tenantd_store::{Direction, Flow, Key, KeyRange, Store, StoreError, Table, catalog, codec::Record};

use super::{
    super::model::{CloudVm, Failure, FailureClass, Order, OrderToken, SimulatedFailure, Size, VmState},
    Access, Adapter, Answer, FleetPage, Identity, Rehearsal, VmPlace,
};

const DEFAULT_VMS: u32 = 12;
const DEFAULT_QUOTA: u32 = 100;
const PAGE: usize = 50;
const DEFAULT_REGIONS: [&str; 2] = ["sim-east", "sim-west"];
/// Name, virtual CPUs and memory in GiB.
const SIZES: [(&str, u32, u64); 4] = [("sim.small", 1, 2), ("sim.medium", 2, 4), ("sim.large", 4, 16), ("sim.xlarge", 8, 32)];
const IMAGES: [&str; 4] = ["debian-13", "ubuntu-26.04", "rocky-10", "windows-2025"];
const ROLES: [&str; 8] = ["web", "db", "app", "mail", "files", "build", "monitor", "vpn"];
/// The ages at which an ordered VM leaves the states `provisioning` and `starting`.
const BUILDING: Duration = Duration::from_secs(2);
const STARTING: Duration = Duration::from_secs(5);
/// Some VMs are stopped at night: the hours (UTC) at which they start and stop, and the duration of the change.
const MORNING: i64 = 6;
const EVENING: i64 = 20;
const CHANGING_SECONDS: i64 = 120;
/// 2026-01-01T00:00:00Z.
const YEAR_START: i64 = 1_767_225_600_000;
const DAY: Duration = Duration::from_hours(24);

pub(crate) type SimulatedKey = (TenantId, CloudProviderId, OperationId, u32);

/// A VM that was ordered from a simulated cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimulatedVm {
    name: String,
    region: String,
    zone: Option<String>,
    size: String,
    image: String,
    tags: BTreeMap<String, String>,
    created_at: Timestamp,
}

impl Record for SimulatedVm {
    const VERSION: u8 = 1;
}

pub(crate) static SIMULATED_VMS: Table<SimulatedKey, SimulatedVm> = Table::new(catalog::SIMULATED_VMS, &[]);

#[derive(Clone, Debug)]
pub(super) struct Simulated {
    store: Store,
    clocks: Clocks,
}

impl Simulated {
    pub(super) fn new(store: Store, clocks: Clocks) -> Self {
        Self { store, clocks }
    }

    /// Applies the configured latency and the configured failure.
    async fn answer(&self, access: &Access) -> Result<(), Failure> {
        let latency = Duration::from_millis(access.config.latency_ms.unwrap_or_default().into());
        let left = access.client.left();
        tokio::time::sleep(latency.min(left)).await;
        if latency > left {
            return Err(simulated_failure(SimulatedFailure::Timeout));
        }
        match access.config.fail {
            None | Some(SimulatedFailure::ReadOnly | SimulatedFailure::QuotaExceeded) => Ok(()),
            Some(failure) => Err(simulated_failure(failure)),
        }
    }

    fn ordered(&self, access: &Access) -> Result<Vec<CloudVm>, Failure> {
        let Some(provider) = access.provider_id else { return Ok(Vec::new()) };
        let (now, prefix) = (self.clocks.now(access.tenant_id), (access.tenant_id, provider).to_bytes());
        let mut found = Vec::new();
        let scanned = self.store.read(|tx| {
            SIMULATED_VMS.scan(tx, &KeyRange::prefix(&prefix), Direction::Forward, |key, vm| {
                found.push(ordered_vm(access, key, vm, now));
                Ok(Flow::Continue)
            })
        });
        scanned.map_err(|error: StoreError| broken(&error))?;
        Ok(found)
    }

    fn fleet(&self, access: &Access) -> Result<Vec<CloudVm>, Failure> {
        let now = self.clocks.now(access.tenant_id);
        let initial = (0..access.config.vm_count.unwrap_or(DEFAULT_VMS)).map(|place| initial_vm(access, place, now));
        Ok(initial.chain(self.ordered(access)?).collect())
    }

    /// Checks whether this cloud accepts the order.
    fn validate(&self, access: &Access, order: &Order) -> Result<(), Failure> {
        let unknown = |what: &str, given: &str, known: Vec<&str>| {
            let message = format!("the {what} {given} was not found; use one of {}", known.join(", "));
            Err(Failure::new(FailureClass::InvalidRequest, format!("unknown_{what}"), message))
        };
        if !SIZES.iter().any(|(name, ..)| *name == order.size) {
            return unknown("size", &order.size, SIZES.iter().map(|(name, ..)| *name).collect());
        }
        if !IMAGES.contains(&order.image.as_str()) {
            return unknown("image", &order.image, IMAGES.to_vec());
        }
        let regions = regions(access);
        if !regions.contains(&order.region.as_str()) {
            return unknown("region", &order.region, regions);
        }
        self.check_quota(access)
    }

    fn check_quota(&self, access: &Access) -> Result<(), Failure> {
        match access.config.fail {
            Some(failure @ (SimulatedFailure::ReadOnly | SimulatedFailure::QuotaExceeded)) => Err(simulated_failure(failure)),
            _ if self.fleet(access)?.len() >= access.config.quota.unwrap_or(DEFAULT_QUOTA) as usize => {
                Err(simulated_failure(SimulatedFailure::QuotaExceeded))
            }
            _ => Ok(()),
        }
    }

    async fn create(&self, access: &Access, order: &Order) -> Result<CloudVm, Failure> {
        self.answer(access).await?;
        let Some(provider) = access.provider_id else { return Err(simulated_failure(SimulatedFailure::ReadOnly)) };
        let key: SimulatedKey = (access.tenant_id, provider, order.token.operation, order.token.index);
        let known = self.store.read(|tx| SIMULATED_VMS.get(tx, &key)).map_err(|error: StoreError| broken(&error))?;
        let now = self.clocks.now(access.tenant_id);
        if let Some(vm) = known {
            return Ok(ordered_vm(access, key, vm, now));
        }
        self.validate(access, order)?;
        let vm = SimulatedVm {
            name: order.name.clone(),
            region: order.region.clone(),
            zone: order.zone.clone(),
            size: order.size.clone(),
            image: order.image.clone(),
            tags: order.tags.clone(),
            created_at: now,
        };
        let stored = vm.clone();
        let written = self.store.write(move |tx| SIMULATED_VMS.put(tx, &key, &stored)).await;
        written.map_err(|error: StoreError| broken(&error))?;
        Ok(ordered_vm(access, key, vm, now))
    }
}

impl Adapter for Simulated {
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity> {
        Box::pin(async move {
            self.answer(access).await?;
            Ok(Identity(format!("simulated account {}", seed(access))))
        })
    }

    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage> {
        Box::pin(async move {
            self.answer(access).await?;
            let start: usize = from.and_then(|from| from.parse().ok()).unwrap_or_default();
            let fleet = self.fleet(access)?;
            let next = (fleet.len() > start + PAGE).then(|| (start + PAGE).to_string());
            Ok(FleetPage { vms: fleet.into_iter().skip(start).take(PAGE).collect(), next, skipped: Vec::new() })
        })
    }

    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            self.answer(access).await?;
            Ok(self.fleet(access)?.into_iter().find(|vm| vm.provider_vm_id == place.provider_vm_id))
        })
    }

    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal> {
        Box::pin(async move {
            self.answer(access).await?;
            match order {
                Some(order) => self.validate(access, order)?,
                None if access.config.fail == Some(SimulatedFailure::ReadOnly) => self.check_quota(access)?,
                None => {}
            }
            Ok(Rehearsal::Allowed)
        })
    }

    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            self.answer(access).await?;
            let wanted = order.token.to_string();
            Ok(self.ordered(access)?.into_iter().find(|vm| vm.tags.get(OrderToken::TAG) == Some(&wanted)))
        })
    }

    fn provision<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, CloudVm> {
        Box::pin(self.create(access, order))
    }
}

fn broken(error: &StoreError) -> Failure {
    Failure::new(FailureClass::ProviderError, "simulation", format!("the simulated cloud cannot access its data: {error}"))
}

fn simulated_failure(failure: SimulatedFailure) -> Failure {
    let (class, code) = match failure {
        SimulatedFailure::InvalidCredentials => (FailureClass::InvalidCredentials, "bad_key"),
        SimulatedFailure::InsufficientPermissions | SimulatedFailure::ReadOnly => {
            (FailureClass::InsufficientPermissions, "not_permitted")
        }
        SimulatedFailure::Unreachable => (FailureClass::Unreachable, "connect"),
        SimulatedFailure::TlsError => (FailureClass::TlsError, "tls"),
        SimulatedFailure::ClockSkew => (FailureClass::ClockSkew, "clock_skew"),
        SimulatedFailure::RateLimited => (FailureClass::RateLimited, "slow_down"),
        SimulatedFailure::ProviderError => (FailureClass::ProviderError, "out_of_order"),
        SimulatedFailure::Timeout => (FailureClass::Timeout, "timeout"),
        SimulatedFailure::QuotaExceeded => (FailureClass::QuotaExceeded, "quota"),
    };
    let retry_after = (class == FailureClass::RateLimited).then_some(Duration::from_secs(30));
    Failure::new(class, code, "the simulated cloud is configured to return this error, or its quota is used up")
        .with_retry_after(retry_after)
}

fn seed(access: &Access) -> u64 {
    access.config.seed.unwrap_or_default()
}

fn regions(access: &Access) -> Vec<&str> {
    if access.config.regions.is_empty() {
        return DEFAULT_REGIONS.to_vec();
    }
    access.config.regions.iter().map(String::as_str).collect()
}

/// A random entry of a list.
fn pick<T: Copy>(entropy: &mut Entropy, entries: &[T]) -> Option<T> {
    let place = entropy.below(entries.len() as u64);
    entries.get(usize::try_from(place).unwrap_or_default()).copied()
}

fn vm_id(seed: u64, what: &[u8]) -> String {
    let digest = digest(&[&seed.to_be_bytes()[..], what].concat());
    let short: u64 = digest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    format!("sim-{short:016x}")
}

fn size(id: &str) -> Size {
    let known = SIZES.iter().find(|(name, ..)| *name == id);
    Size { id: id.to_owned(), vcpus: known.map(|size| size.1), memory_bytes: known.map(|size| size.2 << 30) }
}

/// The initial VM at this index.
fn initial_vm(access: &Access, place: u32, now: Timestamp) -> CloudVm {
    let seed = seed(access);
    let mut entropy = Entropy::from_seed(seed.wrapping_mul(1_000_003).wrapping_add(place.into()));
    let region = pick(&mut entropy, &regions(access)).unwrap_or_default().to_owned();
    let role = pick(&mut entropy, &ROLES).unwrap_or_default();
    let (size_id, ..) = pick(&mut entropy, &SIZES).unwrap_or_default();
    let image = pick(&mut entropy, &IMAGES).unwrap_or_default();
    let launched = Timestamp::from_millis(YEAR_START) - DAY * u32::try_from(entropy.below(700)).unwrap_or_default();
    let [net, host] = entropy.bytes();
    let (state, provider_state) = match entropy.below(10) {
        0 => (VmState::Stopped, "OFF"),
        1..=3 => office_hours(now),
        _ => (VmState::Running, "ON"),
    };
    let public = (role == "web" || role == "vpn") && state == VmState::Running;
    CloudVm {
        provider_vm_id: vm_id(seed, &place.to_be_bytes()),
        name: format!("{role}-{:02}", place + 1),
        state,
        provider_state: provider_state.to_owned(),
        state_note: None,
        zone: Some(format!("{region}-{}", if host % 2 == 0 { 'a' } else { 'b' })),
        region,
        size: size(size_id),
        image: Some(image.to_owned()),
        private_ips: vec![IpAddr::V4(Ipv4Addr::new(10, 20, net, host))],
        public_ips: public.then(|| IpAddr::V4(Ipv4Addr::new(203, 0, 113, host))).into_iter().collect(),
        tags: BTreeMap::from([("role".to_owned(), role.to_owned())]),
        launched_at: Some(launched),
        unread: Vec::new(),
    }
}

fn office_hours(now: Timestamp) -> (VmState, &'static str) {
    let second = now.as_seconds().rem_euclid(86_400);
    let since = |hour: i64| second - hour * 3600;
    match (since(MORNING), since(EVENING)) {
        (0..CHANGING_SECONDS, _) => (VmState::Starting, "BOOTING"),
        (_, 0..CHANGING_SECONDS) => (VmState::Stopping, "HALTING"),
        (morning, evening) if morning >= 0 && evening < 0 => (VmState::Running, "ON"),
        _ => (VmState::Stopped, "OFF"),
    }
}

fn ordered_vm(access: &Access, key: SimulatedKey, vm: SimulatedVm, now: Timestamp) -> CloudVm {
    let age = now.since(vm.created_at);
    let (state, provider_state) = match age {
        age if age < BUILDING => (VmState::Provisioning, "BUILD"),
        age if age < STARTING => (VmState::Starting, "BOOTING"),
        _ => (VmState::Running, "ON"),
    };
    let token = OrderToken { operation: key.2, index: key.3 };
    let id = vm_id(seed(access), token.to_string().as_bytes());
    let [_, _, _, _, third, fourth, ..] = digest(id.as_bytes());
    let mut tags = vm.tags;
    tags.insert(OrderToken::TAG.to_owned(), token.to_string());
    CloudVm {
        provider_vm_id: id,
        name: vm.name,
        state,
        provider_state: provider_state.to_owned(),
        state_note: None,
        region: vm.region,
        zone: vm.zone,
        size: size(&vm.size),
        image: Some(vm.image),
        private_ips: vec![IpAddr::V4(Ipv4Addr::new(10, 21, third, fourth))],
        public_ips: Vec::new(),
        tags,
        launched_at: Some(vm.created_at),
        unread: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_of_an_ordered_vm_is_stable() {
        let vm = SimulatedVm {
            name: "web".to_owned(),
            region: "sim-east".to_owned(),
            zone: None,
            size: "sim.small".to_owned(),
            image: "debian-13".to_owned(),
            tags: BTreeMap::from([("role".to_owned(), "web".to_owned())]),
            created_at: Timestamp::from_millis(YEAR_START),
        };
        assert_golden("simulated_vm", &vm);
    }

    #[test]
    fn office_machines_run_in_office_hours() {
        let at = |hour: i64, second: i64| office_hours(Timestamp::from_millis(YEAR_START + (hour * 3600 + second) * 1000)).0;
        assert_eq!((at(3, 0), at(6, 5), at(6, 120)), (VmState::Stopped, VmState::Starting, VmState::Running));
        assert_eq!((at(19, 0), at(20, 5), at(23, 0)), (VmState::Running, VmState::Stopping, VmState::Stopped));
    }
}
