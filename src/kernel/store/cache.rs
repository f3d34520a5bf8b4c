//! A bounded cache of values read from the store. An entry is valid only while none of the tables it was read from has changed,
//! so a reader never sees a value that a later commit made stale.

use std::{hash::Hash, sync::Arc};

use tenantd_base::cache::Cache;

use super::{Store, catalog::TableName};

/// Cached entries, each with the versions of its `TABLES` tables when it was made.
pub struct VersionedCache<K, V, const TABLES: usize> {
    tables: [TableName; TABLES],
    entries: Cache<K, Entry<V, TABLES>>,
}

struct Entry<V, const TABLES: usize> {
    versions: [u64; TABLES],
    value: Arc<V>,
}

impl<V, const TABLES: usize> Clone for Entry<V, TABLES> {
    fn clone(&self) -> Self {
        Self { versions: self.versions, value: self.value.clone() }
    }
}

impl<K, V, const TABLES: usize> std::fmt::Debug for VersionedCache<K, V, TABLES> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VersionedCache").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl<K, V, const TABLES: usize> VersionedCache<K, V, TABLES>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    pub fn new(tables: [TableName; TABLES], capacity: u64) -> Self {
        Self { tables, entries: Cache::new(capacity) }
    }

    /// A cache whose entries weigh at most `capacity` in total.
    pub fn weighed(tables: [TableName; TABLES], capacity: u64, weigh: fn(&K, &V) -> u32) -> Self {
        let weigher = move |key: &K, entry: &Entry<V, TABLES>| weigh(key, &entry.value);
        Self { tables, entries: Cache::weighed(capacity, weigher) }
    }

    /// Returns the entry. Calls `load` if it is missing or stale.
    pub fn get<E>(&self, store: &Store, key: K, load: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        match self.look_up(store, &key) {
            Ok(value) => Ok(value),
            Err(versions) => Ok(self.keep(key, versions, load()?)),
        }
    }

    /// Returns the entry, or the table versions to pass to [`Self::keep`] with a new one. A commit between the two calls makes
    /// the new entry stale, not wrong.
    pub fn look_up(&self, store: &Store, key: &K) -> Result<Arc<V>, Versions<TABLES>> {
        let versions = self.tables.map(|table| store.version(table));
        match self.entries.get(key) {
            Some(entry) if entry.versions == versions => Ok(entry.value),
            _ => Err(Versions(versions)),
        }
    }

    pub fn keep(&self, key: K, versions: Versions<TABLES>, value: V) -> Arc<V> {
        let value = Arc::new(value);
        self.entries.insert(key, Entry { versions: versions.0, value: value.clone() });
        value
    }
}

/// The versions of the tables, read before the entry was read from them.
#[derive(Clone, Copy, Debug)]
pub struct Versions<const TABLES: usize>([u64; TABLES]);
