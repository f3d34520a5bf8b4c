//! What the store needs of a database: ordered tables of bytes, snapshots to read, one transaction to write, a durable commit.
//!
//! The seam at which another database could take redb's place. No type of any database is in these signatures. An engine
//! that resolves conflicts by retrying fits too: whoever writes through the store is prepared to be run again.

use std::ops::Bound;

use super::error::StoreError;

/// A table's name, as the engine knows it.
pub type RawTable<'a> = &'a str;

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

/// What a visitor wants after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Stop,
}

pub type Visitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<Flow, StoreError>;

pub trait Engine: Send + Sync + 'static {
    fn begin_read(&self) -> Result<Box<dyn EngineRead>, StoreError>;
    fn begin_write(&self) -> Result<Box<dyn EngineWrite>, StoreError>;
}

pub trait EngineRead {
    fn get(&self, table: RawTable<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Calls `visit` for each entry of the range in key order, or against it, until it says stop.
    fn scan(&self, table: RawTable<'_>, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError>;

    /// The names of all tables.
    fn tables(&self) -> Result<Vec<String>, StoreError>;
}

pub trait EngineWrite: EngineRead {
    fn put(&mut self, table: RawTable<'_>, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Whether the key was there.
    fn remove(&mut self, table: RawTable<'_>, key: &[u8]) -> Result<bool, StoreError>;

    fn drop_table(&mut self, table: RawTable<'_>) -> Result<(), StoreError>;

    /// Returns once the transaction is on the disk. After an error it may or may not be.
    fn commit(self: Box<Self>) -> Result<(), StoreError>;

    fn abort(self: Box<Self>) -> Result<(), StoreError>;
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
