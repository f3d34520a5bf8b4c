//! Providers, syncs, VMs and operations as they are stored, and the ways to find them.

pub(super) mod operations;
pub(super) mod portable;
pub(super) mod providers;
#[cfg(test)]
mod tests;
pub(super) mod vms;

use crate::kernel::{
    clock::Timestamp,
    store::{Direction, FixedKey, Flow, Index, Key, KeyRange, Read, StoreError},
};

/// What is due at a time, and when the next is that is not.
pub(super) type Due<K> = (Vec<K>, Option<Timestamp>);

/// The records that an index of due times has for `now` and that are wanted, at most `limit`.
fn due<K: FixedKey, V>(
    index: &Index<K, V>,
    tx: &impl Read,
    now: Timestamp,
    limit: usize,
    mut wanted: impl FnMut(&K) -> bool,
) -> Result<Due<K>, StoreError> {
    let (mut found, mut next) = (Vec::new(), None);
    index.scan(tx, &KeyRange::ALL, Direction::Forward, |key, mut entry| {
        let at = Timestamp::read(&mut entry);
        if at.is_none_or(|at| at > now) {
            next = at;
            return Ok(Flow::Stop);
        }
        if wanted(&key) {
            found.push(key);
        }
        Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    Ok((found, next))
}
