//! One state of one table in the layer, and how to undo a batch.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    mem,
};

use bytes::Bytes;

/// The state of a key in the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState<V> {
    Put(V),
    Removed,
    /// The layer has no entry: the value below is visible.
    Untouched,
}

/// A table in one state. **Invariant:** no key is in both `entries` and `hidden`.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// All rows below are hidden. `hidden` is then empty, because it would add nothing.
    pub(super) dropped: bool,
    pub(super) entries: BTreeMap<Bytes, Bytes>,
    /// Keys whose value below is hidden.
    pub(super) hidden: BTreeSet<Bytes>,
}

impl State {
    pub(super) fn dropped() -> Self {
        Self { dropped: true, ..Self::default() }
    }

    pub(super) fn get(&self, key: &[u8]) -> KeyState<&Bytes> {
        match self.entries.get(key) {
            Some(value) => KeyState::Put(value),
            None => self.without_entry(self.hidden.contains(key)),
        }
    }

    fn without_entry<V>(&self, hidden: bool) -> KeyState<V> {
        if hidden || self.dropped { KeyState::Removed } else { KeyState::Untouched }
    }

    /// Puts a value and returns the previous state of the key.
    pub(super) fn put(&mut self, key: Bytes, value: Bytes) -> KeyState<Bytes> {
        match self.entries.entry(key) {
            Entry::Occupied(mut place) => KeyState::Put(place.insert(value)),
            Entry::Vacant(place) => {
                let hidden = self.hidden.remove(place.key());
                place.insert(value);
                self.without_entry(hidden)
            }
        }
    }

    /// Removes a key and returns its previous state.
    pub(super) fn remove(&mut self, key: Bytes) -> KeyState<Bytes> {
        let value = self.entries.remove(&key);
        let hidden = !self.dropped && !self.hidden.insert(key);
        value.map_or_else(|| self.without_entry(hidden), KeyState::Put)
    }

    /// Returns a key to its previous state.
    fn restore(&mut self, key: &Bytes, before: KeyState<&Bytes>) {
        match before {
            KeyState::Put(value) => drop(self.put(key.clone(), value.clone())),
            KeyState::Removed => drop(self.remove(key.clone())),
            KeyState::Untouched => {
                self.entries.remove(key);
                self.hidden.remove(key);
            }
        }
    }

    /// Calls `visit` for each key that is put or removed, in key order.
    pub(super) fn each<E>(&self, mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>) -> Result<(), E> {
        let mut hidden = self.hidden.iter().peekable();
        for (key, value) in &self.entries {
            while let Some(hidden) = hidden.next_if(|hidden| *hidden < key) {
                visit(hidden, None)?;
            }
            visit(key, Some(value))?;
        }
        hidden.try_for_each(|key| visit(key, None))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.hidden.is_empty()
    }
}

/// A key without a value in the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    Removed,
    Untouched,
}

/// Undoes one batch, or several consecutive ones: the state of the keys before the first of them.
#[derive(Debug)]
pub(super) struct Undo {
    /// The number of the last of these batches.
    pub(super) last: u64,
    pub(super) puts: BTreeMap<Bytes, Bytes>,
    /// Keys that had no value. They are separate, because a walk only examines values.
    pub(super) absent: BTreeMap<Bytes, Absence>,
    /// The table before the first of these batches that dropped it. It is the state of the keys that are not listed above.
    pub(super) whole: Option<State>,
}

impl Undo {
    pub(super) fn new(batch: u64) -> Self {
        Self { last: batch, puts: BTreeMap::new(), absent: BTreeMap::new(), whole: None }
    }

    /// The number of keys that it lists.
    pub(super) fn len(&self) -> usize {
        self.puts.len() + self.absent.len()
    }

    /// The state of the key before these batches, if they changed it.
    pub(super) fn get(&self, key: &[u8]) -> Option<KeyState<&Bytes>> {
        let listed = self.puts.get(key).map(KeyState::Put).or_else(|| self.absent.get(key).copied().map(KeyState::from));
        listed.or_else(|| Some(self.whole.as_ref()?.get(key)))
    }

    fn list_unless_listed(&mut self, key: Bytes, before: KeyState<Bytes>) {
        if !self.puts.contains_key(&key) && !self.absent.contains_key(&key) {
            self.list(key, before);
        }
    }

    fn list_again(&mut self, key: Bytes, before: KeyState<Bytes>) {
        self.puts.remove(&key);
        self.absent.remove(&key);
        self.list(key, before);
    }

    /// Lists the previous state of a key that is not listed yet.
    pub(super) fn list(&mut self, key: Bytes, before: KeyState<Bytes>) {
        match before {
            KeyState::Put(value) => drop(self.puts.insert(key, value)),
            KeyState::Removed => drop(self.absent.insert(key, Absence::Removed)),
            KeyState::Untouched => drop(self.absent.insert(key, Absence::Untouched)),
        }
    }

    /// Extends the undo by the batches of `newer`, which follow it. Moves the shorter of the two lists.
    pub(super) fn join(&mut self, mut newer: Self) {
        self.last = newer.last;
        if self.whole.is_some() {
            return;
        }
        self.whole = newer.whole.take();
        if self.len() >= newer.len() {
            newer.into_listed().for_each(|(key, before)| self.list_unless_listed(key, before));
        } else {
            mem::swap(&mut self.puts, &mut newer.puts);
            mem::swap(&mut self.absent, &mut newer.absent);
            newer.into_listed().for_each(|(key, before)| self.list_again(key, before));
        }
    }

    fn into_listed(self) -> impl Iterator<Item = (Bytes, KeyState<Bytes>)> {
        let puts = self.puts.into_iter().map(|(key, value)| (key, KeyState::Put(value)));
        puts.chain(self.absent.into_iter().map(|(key, absence)| (key, absence.into())))
    }

    /// Turns the state after these batches into the state before them.
    pub(super) fn apply(&self, state: &mut State) {
        if let Some(whole) = &self.whole {
            *state = whole.clone();
        }
        self.puts.iter().for_each(|(key, value)| state.restore(key, KeyState::Put(value)));
        self.absent.iter().for_each(|(key, absence)| state.restore(key, (*absence).into()));
    }
}

impl<V> From<Absence> for KeyState<V> {
    fn from(absence: Absence) -> Self {
        match absence {
            Absence::Removed => Self::Removed,
            Absence::Untouched => Self::Untouched,
        }
    }
}
