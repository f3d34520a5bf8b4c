//! Limits the number of connections, in total and per address. When all places are taken, an idle connection is evicted. The longer
//! it has been idle and the more connections its address has, the sooner it is evicted. A flood of silent connections therefore
//! cannot lock out a client that sends requests.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use tokio::{sync::Notify, time::Instant};

use super::super::rate::address_key;

/// The activity of a connection, as far as its place depends on it.
#[derive(Debug)]
pub(super) struct Activity {
    opened: Instant,
    /// Requests in progress.
    in_flight: AtomicU32,
    /// When the last request ended, in milliseconds after `opened`.
    idle_since: AtomicU64,
    /// When the first byte of an incomplete request arrived, in milliseconds after `opened`, plus one. Zero means none.
    head_since: AtomicU64,
    /// Whether the body of the last request may be partly unread.
    body_left: AtomicBool,
    /// Notified when the connection is evicted.
    pub(super) evicted: Notify,
}

impl Activity {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            in_flight: AtomicU32::new(0),
            idle_since: AtomicU64::new(0),
            // A connection that sends nothing is as late as one that sends its request slowly.
            head_since: AtomicU64::new(1),
            body_left: AtomicBool::new(false),
            evicted: Notify::new(),
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn bytes_read(&self) {
        if self.in_flight.load(Ordering::Relaxed) == 0 && self.head_since.load(Ordering::Relaxed) == 0 {
            self.head_since.store(self.millis() + 1, Ordering::Relaxed);
        }
    }

    pub(super) fn request_started(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        InFlight(self.clone())
    }

    pub(super) fn has_body_left(&self) -> bool {
        self.body_left.load(Ordering::Relaxed)
    }

    /// How long it has had no request; `None` while one is in progress.
    pub(super) fn idle_millis(&self) -> Option<u64> {
        let busy = self.in_flight.load(Ordering::Relaxed) > 0;
        (!busy).then(|| self.millis().saturating_sub(self.idle_since.load(Ordering::Relaxed)))
    }

    /// How long the head of a request has been arriving.
    pub(super) fn head_millis(&self) -> Option<u64> {
        let since = self.head_since.load(Ordering::Relaxed);
        let waiting = self.in_flight.load(Ordering::Relaxed) == 0 && since > 0;
        waiting.then(|| (self.millis() + 1).saturating_sub(since))
    }
}

/// A request in progress.
pub(super) struct InFlight(Arc<Activity>);

impl InFlight {
    /// Ends the request after its answer. A part of the request's body may be unread.
    pub(super) fn ended(self, body_left: bool) {
        self.leaves_body(body_left);
    }

    /// Notes before the end whether a part of the request's body may stay unread.
    pub(super) fn leaves_body(&self, body_left: bool) {
        self.0.body_left.store(body_left, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.millis(), Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(super) struct Gate {
    most: usize,
    most_per_address: usize,
    places: Mutex<Places>,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    connections: BTreeMap<u64, Connection>,
    by_address: HashMap<[u8; 16], usize>,
    /// Where the next search for a connection to evict starts.
    searched: u64,
}

#[derive(Debug)]
struct Connection {
    address: Option<[u8; 16]>,
    activity: Arc<Activity>,
}

/// The place of a connection. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    gate: Arc<Gate>,
    number: u64,
    address: Option<[u8; 16]>,
    pub(super) activity: Arc<Activity>,
}

impl Gate {
    pub(super) fn new(most: usize, most_per_address: usize) -> Self {
        Self { most, most_per_address, places: Mutex::default(), emptied: Notify::new() }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self) -> usize {
        self.places().connections.len()
    }

    /// Waits until no connection is open.
    pub(super) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.open() == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// A place for a new connection, if there is one. The admin socket has no address and always gets one.
    pub(super) fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Option<ConnectionPermit> {
        let address = address.map(address_key);
        let mut places = self.places();
        if let Some(address) = address {
            let held = places.by_address.get(&address).copied().unwrap_or(0);
            if held >= self.most_per_address {
                return None;
            }
            if places.connections.len() >= self.most && !places.make_room() {
                return None;
            }
            places.by_address.insert(address, held + 1);
        }
        let number = places.next;
        places.next += 1;
        let activity = Arc::new(Activity::new());
        places.connections.insert(number, Connection { address, activity: activity.clone() });
        metrics::gauge!("tenantd_connections_open").set(places.connections.len() as f64);
        Some(ConnectionPermit { gate: self.clone(), number, address, activity })
    }
}

impl Places {
    /// Examines a bounded number of connections, different ones each time, and evicts one. Its place is free immediately.
    fn make_room(&mut self) -> bool {
        const EXAMINED: usize = 128;
        let (from, connections) = (self.searched, &self.connections);
        let examined = || connections.range(from..).chain(connections.range(..from)).take(EXAMINED);
        self.searched = examined().last().map_or(0, |(number, _)| number + 1);
        let held = |connection: &Connection| connection.address.and_then(|address| self.by_address.get(&address)).copied();
        let claim = |connection: &Connection| {
            // An address with many connections pays for the flood that it may cause.
            Some((connection.activity.idle_millis()? + 1).saturating_mul(held(connection)? as u64))
        };
        let idle = examined().filter_map(|(number, connection)| Some((claim(connection)?, *number)));
        let Some((_, number)) = idle.max() else { return false };
        if let Some(connection) = self.connections.remove(&number) {
            connection.activity.evicted.notify_one();
            metrics::counter!("tenantd_connections_evicted_total").increment(1);
        }
        true
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut places = self.gate.places();
        places.connections.remove(&self.number);
        if let Some(address) = self.address {
            let left = places.by_address.get(&address).copied().unwrap_or(1).saturating_sub(1);
            if left == 0 {
                places.by_address.remove(&address);
            } else {
                places.by_address.insert(address, left);
            }
        }
        if places.connections.is_empty() {
            self.gate.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[tokio::test]
    async fn one_address_is_limited_to_its_share() {
        let gate = Arc::new(Gate::new(10, 2));
        let held: Vec<_> = (0..2).map(|_| gate.enter(Some(address(1))).unwrap()).collect();
        assert!(gate.enter(Some(address(1))).is_none());
        assert!(gate.enter(Some(address(2))).is_some());
        drop(held);
        assert!(gate.enter(Some(address(1))).is_some());
    }

    #[tokio::test]
    async fn a_flood_from_a_few_addresses_evicts_its_own_connections() {
        let gate = Arc::new(Gate::new(1000, 100));
        let mut held: Vec<_> = (0..4).map(|last| gate.enter(Some(address(last))).unwrap()).collect();
        let quiet: Vec<_> = held.iter().map(|permit| permit.activity.clone()).collect();
        for last in (100..120).cycle().take(5000) {
            held.extend(gate.enter(Some(address(last))));
        }
        let places = gate.places();
        assert_eq!(places.connections.len(), 1000);
        for activity in quiet {
            let kept = places.connections.values().any(|connection| Arc::ptr_eq(&connection.activity, &activity));
            assert!(kept, "a connection from another address was evicted");
        }
    }

    #[tokio::test]
    async fn only_an_idle_connection_is_evicted() {
        let gate = Arc::new(Gate::new(2, 2));
        let (idle, busy) = (gate.enter(Some(address(1))).unwrap(), gate.enter(Some(address(2))).unwrap());
        let _request = busy.activity.request_started();
        let third = gate.enter(Some(address(3))).unwrap();
        idle.activity.evicted.notified().await;
        let _second = third.activity.request_started();
        assert!(gate.enter(Some(address(4))).is_none());
        assert!(gate.enter(None).is_some(), "the admin socket always gets in");
        drop((idle, busy, third));
    }
}
