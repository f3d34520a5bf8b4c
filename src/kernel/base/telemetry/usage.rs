//! Counts in memory what tenants use: requests by tenant, caller, route and status class, and webhook deliveries.
//!
//! A request costs one uncontended lock (each thread has its own shard) and one lookup. Nothing is written. The task that stores
//! the counts takes all of them at once. **Invariant:** memory is bounded. Once a shard is full, more callers and routes of a
//! tenant count as other, and more tenants count as none. **Boundary:** counts that were not taken are lost in a crash.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::Sketch;
use crate::id::{ApiKeyId, TenantId, UserId};

/// Threads beyond this number share shards.
const SHARDS: usize = 16;
/// Distinct combinations of tenant, caller, route and class in a shard. Beyond this number they are counted together.
const ENTRIES: usize = 4_096;
/// Tenants that a full shard still distinguishes.
const OVERFLOW_ENTRIES: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatusClass {
    Informational,
    Success,
    Redirection,
    ClientError,
    ServerError,
}

impl StatusClass {
    pub const fn of(status: u16) -> Self {
        match status / 100 {
            0 | 1 => Self::Informational,
            2 => Self::Success,
            3 => Self::Redirection,
            4 => Self::ClientError,
            _ => Self::ServerError,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
        }
    }
}

/// The caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Caller {
    User(UserId),
    ApiKey(ApiKeyId),
    /// The local operator, and all callers that a full shard does not distinguish.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey {
    /// `None` for a request without a valid credential.
    pub tenant: Option<TenantId>,
    pub caller: Caller,
    /// The index of the route in [`UsageTaken::routes`]; `None` if it counts as other.
    pub route: Option<u16>,
    pub class: StatusClass,
}

/// A number of events and their durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub count: u64,
    /// Microseconds for requests, milliseconds for deliveries.
    pub took: Sketch,
}

impl Counted {
    fn record(&mut self, value: u64) {
        self.count += 1;
        self.took.record(value);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.took.merge(&other.took);
    }
}

/// Everything that was counted since the last call.
#[derive(Debug, Default)]
pub struct UsageTaken {
    pub requests: HashMap<RequestKey, Counted>,
    /// By tenant and whether the receiver accepted the delivery. The durations are from the event to its delivery.
    pub deliveries: HashMap<(TenantId, bool), Counted>,
    pub routes: Vec<String>,
}

impl UsageTaken {
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.deliveries.is_empty()
    }
}

#[derive(Debug, Default)]
struct Shard {
    requests: HashMap<RequestKey, Counted>,
    /// Requests that arrived when `requests` was full.
    overflow: HashMap<RequestKey, Counted>,
    deliveries: HashMap<(TenantId, bool), Counted>,
}

#[derive(Debug)]
pub struct Usage {
    shards: Vec<Mutex<Shard>>,
    routes: Mutex<Vec<String>>,
    counts_requests: bool,
}

impl Default for Usage {
    fn default() -> Self {
        Self::new(true)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shard of this thread.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            let shard = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            own.set(Some(shard));
            shard
        })
    })
}

impl Usage {
    /// Without `counts_requests` requests are not counted and cost nothing here.
    pub fn new(counts_requests: bool) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), routes: Mutex::default(), counts_requests }
    }

    /// The number of a route. There are as many routes as operations, and callers keep the number.
    pub fn route(&self, name: &str) -> Option<u16> {
        let mut routes = lock(&self.routes);
        let place = routes.iter().position(|known| known == name).unwrap_or_else(|| {
            routes.push(name.to_owned());
            routes.len() - 1
        });
        u16::try_from(place).ok()
    }

    fn shard(&self) -> Option<MutexGuard<'_, Shard>> {
        self.shards.get(own_shard()).map(lock)
    }

    pub fn request(&self, key: RequestKey, took: Duration) {
        if !self.counts_requests {
            return;
        }
        let Some(mut shard) = self.shard() else { return };
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(counted) = shard.requests.get_mut(&key) {
            return counted.record(micros);
        }
        if shard.requests.len() < ENTRIES {
            return shard.requests.entry(key).or_default().record(micros);
        }
        let other = RequestKey { caller: Caller::Other, route: None, ..key };
        let room = shard.overflow.len() < OVERFLOW_ENTRIES || shard.overflow.contains_key(&other);
        let key = if room { other } else { RequestKey { tenant: None, ..other } };
        shard.overflow.entry(key).or_default().record(micros);
    }

    /// Counts an attempt to deliver an event of a tenant. `lag` is the time from the event to the end of the attempt.
    pub fn delivery(&self, tenant: TenantId, delivered: bool, lag: Duration) {
        let Some(mut shard) = self.shard() else { return };
        let millis = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        // Only tenants with endpoints are counted here, so there are at most as many as in the store.
        shard.deliveries.entry((tenant, delivered)).or_default().record(millis);
    }

    /// Takes all counts so far.
    pub fn take(&self) -> UsageTaken {
        let mut taken = UsageTaken { routes: lock(&self.routes).clone(), ..UsageTaken::default() };
        for shard in &self.shards {
            let Shard { requests, overflow, deliveries } = std::mem::take(&mut *lock(shard));
            for (key, counted) in requests.into_iter().chain(overflow) {
                taken.requests.entry(key).or_default().merge(&counted);
            }
            for (key, counted) in deliveries {
                taken.deliveries.entry(key).or_default().merge(&counted);
            }
        }
        taken
    }

    /// Returns counts that could not be stored.
    pub fn put_back(&self, taken: &UsageTaken) {
        let Some(mut shard) = self.shard() else { return };
        for (key, counted) in &taken.requests {
            let full = shard.requests.len() >= ENTRIES && !shard.requests.contains_key(key);
            let key = if full { RequestKey { caller: Caller::Other, route: None, ..*key } } else { *key };
            let place = if full { &mut shard.overflow } else { &mut shard.requests };
            let full = place.len() >= OVERFLOW_ENTRIES && !place.contains_key(&key);
            let key = if full { RequestKey { tenant: None, ..key } } else { key };
            place.entry(key).or_default().merge(counted);
        }
        for (key, counted) in &taken.deliveries {
            shard.deliveries.entry(*key).or_default().merge(counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: u8, caller: u16, route: u16) -> RequestKey {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&caller.to_be_bytes());
        RequestKey {
            tenant: Some(TenantId::from_bytes([tenant; 16])),
            caller: Caller::ApiKey(ApiKeyId::from_bytes(id)),
            route: Some(route),
            class: StatusClass::Success,
        }
    }

    #[test]
    fn counting_many_callers_is_bounded() {
        let usage = Usage::default();
        for caller in 0..u16::MAX {
            usage.request(key(1, caller, caller % 50), Duration::from_micros(u64::from(caller)));
        }
        let taken = usage.take();
        assert!(taken.requests.len() <= ENTRIES + 1, "{} entries", taken.requests.len());
        assert_eq!(taken.requests.values().map(|counted| counted.count).sum::<u64>(), u64::from(u16::MAX));
        assert!(taken.requests.keys().any(|key| key.caller == Caller::Other && key.route.is_none()));
        usage.put_back(&taken);
        let again = usage.take();
        assert_eq!(again.requests.values().map(|counted| counted.count).sum::<u64>(), u64::from(u16::MAX));
        assert!(usage.take().is_empty());
    }

    #[test]
    fn tenants_beyond_the_bound_are_counted_together() {
        let usage = Usage::default();
        for number in 0..20_000_u32 {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&number.to_be_bytes());
            let tenant = Some(TenantId::from_bytes(id));
            usage.request(RequestKey { tenant, ..key(0, 0, 0) }, Duration::ZERO);
        }
        let taken = usage.take();
        assert!(taken.requests.len() <= ENTRIES + OVERFLOW_ENTRIES + 1);
        assert_eq!(taken.requests.values().map(|counted| counted.count).sum::<u64>(), 20_000);
    }

    #[test]
    fn threads_count_concurrently() {
        let usage = Usage::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| usage.request(key(1, 1, 1), Duration::from_micros(500))));
            }
        });
        assert_eq!(usage.take().requests.get(&key(1, 1, 1)).map(|counted| counted.count), Some(4000));
    }
}
