//! Changes that are durable in the journal but not yet in the database's file, as a layer over the file.
//!
//! Every copy shows the state at the time it was made. All copies share one memory: the newest state of each table, and undo for
//! copies that have not seen the newest batches. The newest copy reads only the newest state, so removals and other readers cost
//! it nothing. An older copy first checks the undo of the batches that it has not seen. Undo that no living copy needs is freed,
//! and undo that no living copy needs separately is joined. The rest stays until the whole memory is freed, when the journal's
//! half is full. **Invariant:** only the newest copy accepts batches. `DESIGN.md` has the proof.

mod cleared;
mod living;
mod rows;
mod state;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use bytes::Bytes;

use self::{
    cleared::{Cleared, LeftOut, Run},
    living::CopyVersion,
    rows::{Rows, Stride},
    state::KeyState,
};
use super::{
    changes::{Changes, walk_through},
    engine::{Direction, EngineRead, Flow, KeyRange, RawTable, Visitor},
    error::StoreError,
};

/// How many entries a walk takes in its first step and at most in later steps. The writer waits during a step. Most walks are
/// short.
const FIRST_STRIDE: usize = 4;
const LONGEST_STRIDE: usize = 256;

/// After this many batches the undo of all tables is trimmed, including tables that the batch does not change.
const TRIM_ALL_EVERY: u64 = 64;

#[derive(Debug, Default)]
struct SharedRows {
    rows: RwLock<Rows>,
    /// Readers write here. It has its own lock, so that the writer does not wait.
    cleared: RwLock<Cleared>,
}

impl SharedRows {
    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    /// The tables changed so far. The map is copied when a batch adds a table, which soon becomes rare.
    tables: Arc<BTreeMap<RawTable, Arc<SharedRows>>>,
    seen: Arc<CopyVersion>,
}

/// The changes of one table, as a copy shows them.
pub(super) struct RecentTable<'a> {
    rows: &'a SharedRows,
    seen: u64,
}

impl Recent {
    /// The changed tables, ordered by code and then by segment.
    pub(super) fn tables(&self) -> impl Iterator<Item = (RawTable, RecentTable<'_>)> {
        self.tables.iter().map(|(table, rows)| (*table, RecentTable { rows, seen: self.seen.number() }))
    }

    fn table(&self, table: RawTable) -> Option<RecentTable<'_>> {
        self.tables.get(&table).map(|rows| RecentTable { rows, seen: self.seen.number() })
    }

    /// Adds a batch. Copies that were made before do not show it.
    pub(super) fn add_batch(&mut self, changes: Changes) {
        self.seen = Arc::new(self.seen.next());
        let (batch, living) = (self.seen.number(), self.seen.living());
        for (table, changed) in changes.into_tables() {
            if !self.tables.contains_key(&table) {
                Arc::make_mut(&mut self.tables).insert(table, Arc::default());
            }
            if let Some(rows) = self.tables.get(&table) {
                let unneeded = rows.write().add_batch(batch, changed, &living);
                drop(unneeded);
            }
        }
        if batch.is_multiple_of(TRIM_ALL_EVERY) {
            for rows in self.tables.values() {
                let unneeded = rows.write().trim(&living);
                drop(unneeded);
            }
        }
    }

    /// The database with these changes on top.
    pub(super) fn over<'a>(&'a self, below: &'a dyn EngineRead) -> Layer<'a> {
        Layer { recent: self, below }
    }
}

impl RecentTable<'_> {
    /// Whether all rows below are hidden.
    pub(super) fn is_dropped(&self) -> bool {
        self.rows.read().is_dropped(self.seen)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.read().state(self.seen).is_empty()
    }

    /// Calls `visit` for each change in key order. Writes to the table wait until it returns.
    pub(super) fn each(&self, visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.rows.read().state(self.seen).each(visit)
    }

    fn hides(&self, key: &[u8]) -> bool {
        self.rows.read().get(key, self.seen) == KeyState::Removed
    }

    /// Walks the rows below that are not hidden.
    fn scan_below(
        &self,
        range: &KeyRange,
        direction: Direction,
        scan: impl Fn(&KeyRange, Visitor<'_>) -> Result<(), StoreError>,
        visit: Visitor<'_>,
    ) -> Result<(), StoreError> {
        let (mut left_out, mut stopped) = (LeftOut::default(), self.is_dropped());
        let mut rest = Cow::Borrowed(range);
        while !stopped && !rest.is_empty() {
            let run = self.next_cleared(&rest, direction);
            let before_run = run.as_ref().map_or_else(|| rest.clone(), |run| Cow::Owned(run.cut(&rest, direction)));
            scan(&before_run, &mut |key, value| {
                if self.hides(key) {
                    left_out.row(key);
                    return Ok(Flow::Continue);
                }
                self.note_cleared(&mut left_out, direction);
                let flow = visit(key, value)?;
                stopped = flow == Flow::Stop;
                Ok(flow)
            })?;
            let Some(run) = run.filter(|_| !stopped) else { break };
            rest = Cow::Owned(left_out.jump(rest.into_owned(), &run, direction));
        }
        self.note_cleared(&mut left_out, direction);
        Ok(())
    }

    fn next_cleared(&self, range: &KeyRange, direction: Direction) -> Option<Run> {
        self.rows.cleared.read().unwrap_or_else(PoisonError::into_inner).next(range, direction, self.seen)
    }

    fn note_cleared(&self, left_out: &mut LeftOut, direction: Direction) {
        if let Some(run) = left_out.take(direction) {
            self.rows.cleared.write().unwrap_or_else(PoisonError::into_inner).add(run, self.seen);
        }
    }

    /// The entries of a range. The writer does not wait for the whole walk, because entries are taken a few at a time.
    fn walk(&self, range: KeyRange, direction: Direction) -> impl Iterator<Item = (Bytes, Bytes)> {
        let mut rest = Some((range, FIRST_STRIDE));
        let strides = std::iter::from_fn(move || {
            let (range, length) = rest.take()?;
            let Stride { entries, last } = self.rows.read().stride(&range, direction, length, self.seen);
            rest = last.map(|last| (range.after(&last, direction), LONGEST_STRIDE.min(length * 4)));
            Some(entries)
        });
        strides.flatten()
    }
}

pub(super) struct Layer<'a> {
    recent: &'a Recent,
    below: &'a dyn EngineRead,
}

impl EngineRead for Layer<'_> {
    fn get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(recent) = self.recent.table(table) else { return self.below.get(table, key) };
        let rows = recent.rows.read();
        match rows.get(key, recent.seen) {
            KeyState::Put(value) => Ok(Some(value.to_vec())),
            KeyState::Removed => Ok(None),
            KeyState::Untouched => {
                drop(rows);
                self.below.get(table, key)
            }
        }
    }

    fn scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        let Some(recent) = self.recent.table(table) else { return self.below.scan(table, range, direction, visit) };
        let scan = |range: &KeyRange, visit: Visitor<'_>| self.below.scan(table, range, direction, visit);
        let below = |visit: Visitor<'_>| recent.scan_below(range, direction, scan, visit);
        let entries = recent.walk(range.clone(), direction).map(|(key, value)| (key, Some(value)));
        walk_through(entries, below, direction, visit)
    }

    fn tables(&self) -> Result<Vec<String>, StoreError> {
        let mut tables = self.below.tables()?;
        tables.extend(self.recent.tables.keys().map(RawTable::to_string));
        tables.sort_unstable();
        tables.dedup();
        Ok(tables)
    }
}
