//! Whose turn it is: a queue for each owner, served by the time that each has used.
//!
//! The owner with the least use goes first. An owner that was idle starts level with the one that is served now, so nobody saves up time
//! by waiting. One owner with a thousand jobs therefore delays the single job of another by one job at most.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt,
    hash::Hash,
};

/// The owner has as many jobs waiting as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

pub struct Turns<K, T> {
    owners: HashMap<K, Owner<T>>,
    /// Owners with a job that waits, the next first.
    order: BTreeSet<(u64, K)>,
    /// The use of the owner that was served last.
    level: u64,
}

struct Owner<T> {
    used: u64,
    waiting: VecDeque<T>,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self { owners: HashMap::new(), order: BTreeSet::new(), level: 0 }
    }
}

impl<K, T> fmt::Debug for Turns<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("owners", &self.owners.len()).field("waiting", &self.order.len()).finish_non_exhaustive()
    }
}

impl<K: Copy + Ord + Hash, T> Turns<K, T> {
    /// Adds a job, unless the owner has `most` waiting already.
    pub fn push(&mut self, owner: K, job: T, most: usize) -> Result<(), Full> {
        let level = self.level;
        let entry = self.owners.entry(owner).or_insert_with(|| Owner { used: level, waiting: VecDeque::new() });
        if entry.waiting.len() >= most {
            return Err(Full);
        }
        if entry.waiting.is_empty() {
            entry.used = entry.used.max(level);
            self.order.insert((entry.used, owner));
        }
        entry.waiting.push_back(job);
        Ok(())
    }

    /// The job whose turn it is.
    pub fn pop(&mut self) -> Option<(K, T)> {
        let (used, owner) = self.order.pop_first()?;
        self.level = self.level.max(used);
        let entry = self.owners.get_mut(&owner)?;
        let job = entry.waiting.pop_front()?;
        if !entry.waiting.is_empty() {
            self.order.insert((used, owner));
        }
        Some((owner, job))
    }

    /// Notes what a job of the owner has cost.
    pub fn charge(&mut self, owner: K, cost: u64) {
        let level = self.level;
        if let Some(entry) = self.owners.get_mut(&owner) {
            let before = entry.used;
            entry.used = entry.used.saturating_add(cost);
            if self.order.remove(&(before, owner)) {
                self.order.insert((entry.used, owner));
            }
        }
        // Where nobody waits, nobody owes anything.
        if self.order.is_empty() {
            self.owners.clear();
            self.level = 0;
        } else if self.owners.len() > 2 * self.order.len() + 64 {
            // An idle owner whose use is below the level is as good as a new one.
            self.owners.retain(|_, owner| !owner.waiting.is_empty() || owner.used > level);
        }
    }

    /// How many owners wait.
    pub fn owners_waiting(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_delays_another_owner_by_one_job() {
        let mut turns = Turns::default();
        for job in 0..1_000 {
            turns.push("noisy", job, 2_000).unwrap();
        }
        for _ in 0..10 {
            assert_eq!(turns.pop().unwrap().0, "noisy");
            turns.charge("noisy", 50);
        }
        turns.push("quiet", 0, 2_000).unwrap();
        assert_eq!(turns.pop().unwrap().0, "quiet");
    }

    #[test]
    fn owners_share_by_cost_and_not_by_count() {
        let mut turns = Turns::default();
        for job in 0..400 {
            turns.push("dear", job, 1_000).unwrap();
            turns.push("cheap", job, 1_000).unwrap();
        }
        let mut served = HashMap::new();
        for _ in 0..110 {
            let (owner, _) = turns.pop().unwrap();
            turns.charge(owner, if owner == "dear" { 100 } else { 10 });
            *served.entry(owner).or_insert(0) += 1;
        }
        assert_eq!((served["dear"], served["cheap"]), (10, 100));
    }

    #[test]
    fn waiting_saves_no_time_up() {
        let mut turns = Turns::default();
        turns.push("late", 0, 10).unwrap();
        turns.pop().unwrap();
        for job in 0..10 {
            turns.push("busy", job, 100).unwrap();
            turns.pop().unwrap();
            turns.charge("busy", 1_000);
        }
        for job in 0..10 {
            turns.push("late", job, 100).unwrap();
            turns.push("busy", job, 100).unwrap();
        }
        let mut late = 0;
        for _ in 0..10 {
            let (owner, _) = turns.pop().unwrap();
            turns.charge(owner, 1_000);
            late += usize::from(owner == "late");
        }
        assert!((5..=6).contains(&late), "{late}");
    }

    #[test]
    fn an_owner_has_a_limit_of_its_own() {
        let mut turns = Turns::default();
        turns.push("a", 0, 1).unwrap();
        assert_eq!(turns.push("a", 1, 1), Err(Full));
        turns.push("b", 0, 1).unwrap();
    }

    #[test]
    fn idle_owners_are_dropped() {
        let mut turns = Turns::default();
        for owner in 0..10_000_u32 {
            turns.push(owner, (), 10).unwrap();
            turns.pop().unwrap();
            turns.charge(owner, 5);
        }
        assert!(turns.owners.len() < 200, "{}", turns.owners.len());
    }
}
