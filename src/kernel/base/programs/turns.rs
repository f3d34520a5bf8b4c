//! A fair queue: one queue per owner, served by the time that each owner has used.
//!
//! The owner with the least use goes first. An idle owner starts level with the one that is being served, so nobody saves up time
//! by waiting. An owner with a thousand jobs therefore delays the single job of another by at most one job.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt,
    hash::Hash,
};

/// The owner already has as many waiting jobs as allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

pub struct Turns<K, T> {
    owners: HashMap<K, Owner<T>>,
    /// Owners with a waiting job, in the order of their turns.
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
    /// Adds a job, unless the owner already has `most` waiting jobs.
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

    /// Takes the next job.
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

    /// Adds the cost of a job to the use of its owner.
    pub fn charge(&mut self, owner: K, cost: u64) {
        let level = self.level;
        if let Some(entry) = self.owners.get_mut(&owner) {
            let before = entry.used;
            entry.used = entry.used.saturating_add(cost);
            if self.order.remove(&(before, owner)) {
                self.order.insert((entry.used, owner));
            }
        }
        // If nobody waits, earlier use does not matter.
        if self.order.is_empty() {
            self.owners.clear();
            self.level = 0;
        } else if self.owners.len() > 2 * self.order.len() + 64 {
            // An idle owner whose use is below the level is equal to a new one.
            self.owners.retain(|_, owner| !owner.waiting.is_empty() || owner.used > level);
        }
    }

    /// The number of owners with waiting jobs.
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
    fn owners_share_by_cost() {
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
    fn waiting_saves_no_time() {
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
    fn each_owner_has_its_own_limit() {
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
