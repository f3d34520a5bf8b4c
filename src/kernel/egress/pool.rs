//! Connections that wait for their next request. Bounded in all and for one target; the oldest goes when a new one needs its place.
//! A connection is found only for the same scheme, host, judged address and authorities as it was opened for.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{connection::Connection, tls::Fingerprint};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    pub(super) secure: bool,
    pub(super) host: Arc<str>,
    pub(super) address: SocketAddr,
    pub(super) private_authorities: Option<Fingerprint>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PoolLimits {
    pub(super) connections: usize,
    pub(super) per_target: usize,
    pub(super) idle: Duration,
    pub(super) lifetime: Duration,
}

#[derive(Debug)]
struct Waiting {
    connection: Connection,
    since: Instant,
}

#[derive(Debug, Default)]
struct Shelf {
    /// The last to come is the first to go out again: what is too many grows old and is closed.
    by_target: HashMap<PoolKey, Vec<Waiting>>,
    total: usize,
}

#[derive(Debug)]
pub(super) struct Pool {
    limits: PoolLimits,
    shelf: Mutex<Shelf>,
}

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Self {
        Self { limits, shelf: Mutex::default() }
    }

    pub(super) fn take(&self, key: &PoolKey) -> Option<Connection> {
        let now = Instant::now();
        let mut shelf = self.shelf();
        let waiting = shelf.by_target.get_mut(key)?;
        let before = waiting.len();
        let mut found = None;
        while let Some(candidate) = waiting.pop() {
            if self.is_usable(&candidate, now) {
                found = Some(candidate.connection);
                break;
            }
        }
        let gone = before - waiting.len();
        if waiting.is_empty() {
            shelf.by_target.remove(key);
        }
        shelf.total -= gone;
        found
    }

    pub(super) fn put(&self, key: PoolKey, connection: Connection) {
        let now = Instant::now();
        let waiting = Waiting { connection, since: now };
        if self.limits.connections == 0 || !self.is_usable(&waiting, now) {
            return;
        }
        let mut shelf = self.shelf();
        if let Some(target) = shelf.by_target.get_mut(&key)
            && target.len() >= self.limits.per_target
        {
            target.remove(0);
            target.push(waiting);
            return;
        }
        if shelf.total >= self.limits.connections {
            shelf.drop_oldest();
        }
        shelf.by_target.entry(key).or_default().push(waiting);
        shelf.total += 1;
    }

    /// Closes what has waited too long.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        let mut shelf = self.shelf();
        let mut total = 0;
        shelf.by_target.retain(|_, waiting| {
            waiting.retain(|candidate| self.is_usable(candidate, now));
            total += waiting.len();
            !waiting.is_empty()
        });
        shelf.total = total;
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.shelf().total
    }

    fn is_usable(&self, waiting: &Waiting, now: Instant) -> bool {
        let (idle, age) = (now - waiting.since, now - waiting.connection.opened);
        idle < self.limits.idle && age < self.limits.lifetime && !waiting.connection.is_closed()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn drop_oldest(&mut self) {
        let oldest = self.by_target.iter().min_by_key(|(_, waiting)| waiting.first().map(|first| first.since));
        let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
        if let Some(waiting) = self.by_target.get_mut(&key) {
            waiting.remove(0);
            self.total -= 1;
            if waiting.is_empty() {
                self.by_target.remove(&key);
            }
        }
    }
}
