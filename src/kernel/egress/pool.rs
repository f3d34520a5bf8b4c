//! Idle connections that wait for their next request. Their number is limited in total and per target, and the oldest is closed to
//! make room for a new one. A connection is reused only for the scheme, host, checked address and authorities that it was opened
//! for.

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
struct IdleConnection {
    connection: Connection,
    since: Instant,
}

#[derive(Debug, Default)]
struct Entries {
    /// The newest connection is reused first, so surplus ones grow old and are closed.
    by_target: HashMap<PoolKey, Vec<IdleConnection>>,
    total: usize,
}

#[derive(Debug)]
pub(super) struct Pool {
    limits: PoolLimits,
    entries: Mutex<Entries>,
}

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Self {
        Self { limits, entries: Mutex::default() }
    }

    pub(super) fn take(&self, key: &PoolKey) -> Option<Connection> {
        let now = Instant::now();
        let mut entries = self.entries();
        let waiting = entries.by_target.get_mut(key)?;
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
            entries.by_target.remove(key);
        }
        entries.total -= gone;
        found
    }

    pub(super) fn put(&self, key: PoolKey, connection: Connection) {
        let now = Instant::now();
        let waiting = IdleConnection { connection, since: now };
        if self.limits.connections == 0 || !self.is_usable(&waiting, now) {
            return;
        }
        let mut entries = self.entries();
        if let Some(target) = entries.by_target.get_mut(&key)
            && target.len() >= self.limits.per_target
        {
            target.remove(0);
            target.push(waiting);
            return;
        }
        if entries.total >= self.limits.connections {
            entries.drop_oldest();
        }
        entries.by_target.entry(key).or_default().push(waiting);
        entries.total += 1;
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        let mut entries = self.entries();
        let mut total = 0;
        entries.by_target.retain(|_, waiting| {
            waiting.retain(|candidate| self.is_usable(candidate, now));
            total += waiting.len();
            !waiting.is_empty()
        });
        entries.total = total;
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.entries().total
    }

    fn is_usable(&self, waiting: &IdleConnection, now: Instant) -> bool {
        let (idle, age) = (now - waiting.since, now - waiting.connection.opened);
        idle < self.limits.idle && age < self.limits.lifetime && !waiting.connection.is_closed()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
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
