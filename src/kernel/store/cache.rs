//! A bounded cache of what was read from the store. An entry counts only while none of the tables that it was made from has
//! changed since, so a reader never sees what a committed write has made untrue.

use std::{hash::Hash, sync::Arc};

use tenantd_base::cache::Cache;

use super::{Store, catalog::TableName};

/// Entries, each with the versions of `TABLES` tables at the time it was made.
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

    /// Holds as many entries as weigh `capacity` together.
    pub fn weighed(tables: [TableName; TABLES], capacity: u64, weigh: fn(&K, &V) -> u32) -> Self {
        let weigher = move |key: &K, entry: &Entry<V, TABLES>| weigh(key, &entry.value);
        Self { tables, entries: Cache::weighed(capacity, weigher) }
    }

    /// The entry, made anew by `load` when it is missing or out of date.
    pub fn get<E>(&self, store: &Store, key: K, load: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        match self.look_up(store, &key) {
            Ok(value) => Ok(value),
            Err(versions) => Ok(self.keep(key, versions, load()?)),
        }
    }

    /// The entry, or the versions with which to [`Self::keep`] a new one. What commits before that is kept makes the entry out of date,
    /// not wrong.
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

/// The versions of the tables before an entry was read from them.
#[derive(Clone, Copy, Debug)]
pub struct Versions<const TABLES: usize>([u64; TABLES]);
