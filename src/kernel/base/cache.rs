//! Bounded caches that keep the most used entries.
//!
//! All of them use one type of moka's cache, with keys and values hidden behind traits. The code of moka is large, and one copy for
//! every pair of types took a minute to compile.

use std::{
    any::Any,
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
    sync::Arc,
    time::Duration,
};

type Value = Arc<dyn Any + Send + Sync>;
type Entries = moka::sync::Cache<Arc<dyn Key>, Value>;

trait Key: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn write_hash(&self, state: &mut dyn Hasher);
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<K: Hash + Eq + Send + Sync + 'static> Key for K {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn write_hash(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

impl Hash for dyn Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.write_hash(state);
    }
}

impl PartialEq for dyn Key {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other.as_any())
    }
}

impl Eq for dyn Key {}

/// Clones share one cache.
pub struct Cache<K, V> {
    entries: Entries,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("entries", &self.entries.entry_count()).finish_non_exhaustive()
    }
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub fn new(capacity: u64) -> Self {
        Self::of(Entries::new(capacity))
    }

    /// Removes an entry after `span`, however often it is used.
    pub fn expiring(capacity: u64, span: Duration) -> Self {
        Self::of(Entries::builder().max_capacity(capacity).time_to_live(span).build())
    }

    /// Keeps entries up to a total weight of `capacity`.
    pub fn weighed(capacity: u64, weigh: impl Fn(&K, &V) -> u32 + Send + Sync + 'static) -> Self {
        let weigher = move |key: &Arc<dyn Key>, value: &Value| match ((**key).as_any().downcast_ref(), value.downcast_ref()) {
            (Some(key), Some(value)) => weigh(key, value),
            // The cache has no other type.
            _ => u32::MAX,
        };
        Self::of(Entries::builder().max_capacity(capacity).weigher(weigher).build())
    }

    fn of(entries: Entries) -> Self {
        Self { entries, types: PhantomData }
    }

    pub fn get(&self, key: &K) -> Option<V> {
        self.entries.get(key as &dyn Key)?.downcast_ref().cloned()
    }

    pub fn insert(&self, key: K, value: V) {
        self.entries.insert(Arc::new(key), Arc::new(value));
    }

    /// Returns the entry, and inserts `value` if it is missing. Concurrent callers get the same entry.
    pub fn get_or_insert(&self, key: K, value: V) -> V {
        let kept = self.entries.get_with(Arc::new(key), || Arc::new(value.clone()));
        kept.downcast_ref().cloned().unwrap_or(value)
    }

    pub fn remove(&self, key: &K) {
        self.entries.invalidate(key as &dyn Key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_until_they_are_removed() {
        let cache: Cache<(u8, String), Vec<u8>> = Cache::new(10);
        let key = |number| (number, "name".to_owned());
        cache.insert(key(1), vec![1]);
        cache.insert(key(2), vec![2]);
        assert_eq!((cache.get(&key(1)), cache.get(&key(2)), cache.get(&key(3))), (Some(vec![1]), Some(vec![2]), None));
        cache.clone().remove(&key(1));
        assert_eq!((cache.get(&key(1)), cache.get(&key(2))), (None, Some(vec![2])));
    }

    #[test]
    fn the_weight_of_the_entries_is_bounded() {
        let cache: Cache<u32, String> = Cache::weighed(100, |_, text: &String| u32::try_from(text.len()).unwrap());
        for number in 0..100 {
            cache.insert(number, "x".repeat(10));
        }
        cache.entries.run_pending_tasks();
        assert!(cache.entries.weighted_size() <= 100 && cache.entries.entry_count() > 5);
    }
}
