//! A bounded cache of what was read from the store. An entry counts only while none of the tables that it was made from has
//! changed since, so a reader never sees what a committed write has made untrue.

use std::{hash::Hash, sync::Arc};

use super::{Store, catalog::TableName};

/// Entries, each with the versions of `TABLES` tables at the time it was made.
pub struct VersionedCache<K, V, const TABLES: usize> {
    tables: [TableName; TABLES],
    entries: moka::sync::Cache<K, Entry<V, TABLES>>,
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
        Self { tables, entries: moka::sync::Cache::new(capacity) }
    }

    /// The entry, made anew by `load` when it is missing or out of date.
    pub fn get<E>(&self, store: &Store, key: K, load: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        // Before the read: what commits in between makes the entry out of date, not wrong.
        let versions = self.tables.map(|table| store.version(table));
        if let Some(entry) = self.entries.get(&key)
            && entry.versions == versions
        {
            return Ok(entry.value);
        }
        let value = Arc::new(load()?);
        self.entries.insert(key, Entry { versions, value: value.clone() });
        Ok(value)
    }
}
