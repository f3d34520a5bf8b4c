//! How many connections there may be, in all and from one address. When all places are taken, an idle connection makes room: the
//! longer it has been idle and the more its address holds, the sooner. A flood of silent connections cannot lock out a client that
//! has something to say.

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

/// What a connection is doing, as far as its place is concerned.
#[derive(Debug)]
pub(super) struct Activity {
    opened: Instant,
    /// Requests under way.
    in_flight: AtomicU32,
    /// Milliseconds after `opened` at which the last request ended.
    idle_since: AtomicU64,
    /// Milliseconds after `opened`, plus one, at which the first byte of a request came that is not complete yet. Zero: none.
    head_since: AtomicU64,
    /// Whether the last request may have a body that nobody has read.
    body_left: AtomicBool,
    /// Told to go.
    pub(super) evicted: Notify,
}

impl Activity {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            in_flight: AtomicU32::new(0),
            idle_since: AtomicU64::new(0),
            // A connection that says nothing at all is as late as one that says it slowly.
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

    /// How long it has been without a request, unless one is under way.
    pub(super) fn idle_millis(&self) -> Option<u64> {
        let busy = self.in_flight.load(Ordering::Relaxed) > 0;
        (!busy).then(|| self.millis().saturating_sub(self.idle_since.load(Ordering::Relaxed)))
    }

    /// How long the head of a request has been coming in.
    pub(super) fn head_millis(&self) -> Option<u64> {
        let since = self.head_since.load(Ordering::Relaxed);
        let waiting = self.in_flight.load(Ordering::Relaxed) == 0 && since > 0;
        waiting.then(|| (self.millis() + 1).saturating_sub(since))
    }
}

/// A request under way.
pub(super) struct InFlight(Arc<Activity>);

impl InFlight {
    /// The answer is there, and a part of the request's body may not have been read.
    pub(super) fn ended(self, body_left: bool) {
        self.leaves_body(body_left);
    }

    /// Says before the end whether a part of the request's body may never be read.
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
    /// Where the search for a connection that makes room goes on.
    searched: u64,
}

#[derive(Debug)]
struct Connection {
    address: Option<[u8; 16]>,
    activity: Arc<Activity>,
}

/// A connection's place; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Pass {
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

    /// Returns once no connection is open.
    pub(super) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.open() == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// A place for a new connection, or none. The admin socket has no address and always gets one.
    pub(super) fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Pass> {
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
        Some(Pass { gate: self.clone(), number, address, activity })
    }
}

impl Places {
    /// Looks at a bounded number of connections, each time at others, and sends one away. Its place counts as free at once.
    fn make_room(&mut self) -> bool {
        const EXAMINED: usize = 128;
        let (from, connections) = (self.searched, &self.connections);
        let examined = || connections.range(from..).chain(connections.range(..from)).take(EXAMINED);
        self.searched = examined().last().map_or(0, |(number, _)| number + 1);
        let held = |connection: &Connection| connection.address.and_then(|address| self.by_address.get(&address)).copied();
        let claim = |connection: &Connection| {
            // An address with many connections bears the flood that it may be the cause of.
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

impl Drop for Pass {
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
    async fn one_address_has_its_share_and_no_more() {
        let gate = Arc::new(Gate::new(10, 2));
        let held: Vec<_> = (0..2).map(|_| gate.enter(Some(address(1))).unwrap()).collect();
        assert!(gate.enter(Some(address(1))).is_none());
        assert!(gate.enter(Some(address(2))).is_some());
        drop(held);
        assert!(gate.enter(Some(address(1))).is_some());
    }

    #[tokio::test]
    async fn a_flood_from_a_few_addresses_makes_room_for_itself() {
        let gate = Arc::new(Gate::new(1000, 100));
        let mut held: Vec<_> = (0..4).map(|last| gate.enter(Some(address(last))).unwrap()).collect();
        let quiet: Vec<_> = held.iter().map(|pass| pass.activity.clone()).collect();
        for last in (100..120).cycle().take(5000) {
            held.extend(gate.enter(Some(address(last))));
        }
        let places = gate.places();
        assert_eq!(places.connections.len(), 1000);
        for activity in quiet {
            let kept = places.connections.values().any(|connection| Arc::ptr_eq(&connection.activity, &activity));
            assert!(kept, "a connection from another address was sent away");
        }
    }

    #[tokio::test]
    async fn when_all_places_are_taken_an_idle_connection_makes_room_and_a_busy_one_does_not() {
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
