//! What the store needs from a database: ordered tables of bytes, snapshots for reading, and a durable commit of a set of
//! changes.
//!
//! Another database could replace redb here: no type of any database appears in these signatures. An engine that resolves
//! conflicts by retrying also fits, because callers that write through the store expect their code to run again.

use std::{ops::Bound, time::Duration};

use super::{
    catalog::{self, TableName},
    changes::Changes,
    error::StoreError,
    journal::Position,
};

/// A table as the engine keeps it: one of the catalog, or one segment of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawTable {
    pub table: TableName,
    pub segment: Option<u64>,
}

impl From<TableName> for RawTable {
    fn from(table: TableName) -> Self {
        Self { table, segment: None }
    }
}

impl std::fmt::Display for RawTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.table.name())?;
        self.segment.map_or(Ok(()), |segment| write!(f, ".{segment:08x}"))
    }
}

impl RawTable {
    /// Parses a name in the form that `Display` writes.
    pub fn parse(name: &str) -> Option<Self> {
        let (base, segment) = name.split_once('.').map_or((name, None), |(base, segment)| (base, Some(segment)));
        let table = *catalog::ALL.iter().find(|table| table.name() == base)?;
        match segment {
            None => Some(table.into()),
            Some(segment) => Some(Self { table, segment: Some(u64::from_str_radix(segment, 16).ok()?) }),
        }
    }
}

/// A range of keys in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub start: Bound<Vec<u8>>,
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    pub const ALL: Self = Self { start: Bound::Unbounded, end: Bound::Unbounded };

    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self { start: Bound::Included(prefix.to_vec()), end: end_of_prefix(prefix) }
    }

    /// Every key that comes before `end`.
    pub fn before(end: Vec<u8>) -> Self {
        Self { start: Bound::Unbounded, end: Bound::Excluded(end) }
    }

    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            _ => false,
        }
    }

    pub(super) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }

    /// The part of this range that comes after `key` when it is walked in `direction`.
    pub fn after(mut self, key: &[u8], direction: Direction) -> Self {
        let edge = Bound::Excluded(key.to_vec());
        match direction {
            Direction::Forward => self.start = edge,
            Direction::Backward => self.end = edge,
        }
        self
    }
}

/// The first key that no longer starts with `prefix`.
fn end_of_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// Whether to go on after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Stop,
}

pub type Visitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<Flow, StoreError>;

/// When changes must be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the commit returns, together with all earlier changes.
    Now,
    /// With the next commit that must be on the disk, or when the engine settles. Until then a loss of power drops them, the last
    /// ones first. A crash of the process alone keeps them.
    Later,
}

pub trait Engine: Send + Sync + 'static {
    fn begin_read(&self) -> Result<Box<dyn EngineRead>, StoreError>;

    /// Applies all of the changes or none. Returns once they have the requested durability and snapshots show them. After an
    /// error they may or may not be applied. Only one caller at a time.
    fn commit(&self, changes: Changes, durability: Durability) -> Result<(), StoreError>;

    /// Returns once everything committed so far is on the disk. For the caller of `commit` only.
    fn settle(&self) -> Result<(), StoreError>;

    /// Like [`Engine::settle`], and also writes the engine's own record of it. Call it when [`Engine::rests_in`] is over.
    fn rest(&self) -> Result<(), StoreError> {
        self.settle()
    }

    /// How long committed changes may still wait for the disk. `None`: until the next commit.
    fn rests_in(&self) -> Option<Duration>;

    /// Whether the store was not closed cleanly before it was opened.
    fn was_recovered(&self) -> bool {
        false
    }

    /// Writes the commits that must leave the host and were not written yet.
    fn cut_outgoing(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

pub trait EngineRead {
    fn get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Calls `visit` for each entry of the range in the order of `direction`, until it returns [`Flow::Stop`].
    fn scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError>;

    /// The names of all tables, including empty ones.
    fn tables(&self) -> Result<Vec<String>, StoreError>;

    /// The last commit that it shows.
    fn position(&self) -> Position {
        Position::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_sibling() {
        assert_eq!(KeyRange::prefix(&[1, 2]).end, Bound::Excluded(vec![1, 3]));
        assert_eq!(KeyRange::prefix(&[1, 0xff]).end, Bound::Excluded(vec![2]));
        assert_eq!(KeyRange::prefix(&[0xff, 0xff]).end, Bound::Unbounded);
    }
}
