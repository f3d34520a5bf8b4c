//! The order of hits, packed into one number: the tier, then the text score, then open before closed, then the newest first.
//!
//! The index adds scores in floating point. Each tier adds a power of two that is larger than any text score, so the sum can
//! be split again. The text score is reduced to coarse steps, so that it does not hide the criteria after it.

use std::cmp::Ordering;

use super::super::model::Place;

/// Larger than any text score.
const STEP: f32 = 256.0;
pub const IDENTIFIER: f32 = 16.0 * STEP;
pub const NAME: f32 = 8.0 * STEP;
pub const START: f32 = 4.0 * STEP;
pub const ALL_IN_NAME: f32 = 2.0 * STEP;
/// Keeps the scores of 16 rare words in two fields below [`STEP`].
pub const TEXT_WEIGHT: f32 = 0.125;

const OPEN_BIT: u32 = 47;
const FIT_BITS: u32 = 48;
const TIER_BITS: u32 = 56;
const MOST_MILLIS: u64 = (1 << OPEN_BIT) - 1;

/// The rank of a match. Higher ranks come first.
pub fn by_relevance(score: f32, open: bool, updated_millis: u64) -> u64 {
    by_score(score) | by_age(open, updated_millis)
}

/// The part of the rank that comes from the score.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range before")]
pub fn by_score(score: f32) -> u64 {
    let tier = (score / STEP).clamp(0.0, 255.0) as u8;
    let text = (score - f32::from(tier) * STEP).max(1.0 / STEP);
    // The exponent and the first fraction bit: two steps per doubling.
    let step = |number: f32| number.to_bits() >> 22;
    let fit = (step(text) - step(1.0 / STEP)).min(255);
    u64::from(tier) << TIER_BITS | u64::from(fit) << FIT_BITS
}

/// The part of the rank that decides between equal scores.
#[inline]
pub const fn by_age(open: bool, updated_millis: u64) -> u64 {
    let millis = if updated_millis < MOST_MILLIS { updated_millis } else { MOST_MILLIS };
    (open as u64) << OPEN_BIT | millis
}

/// Keeps the best matches after a given place.
#[derive(Debug)]
pub struct Best<T> {
    heap: std::collections::BinaryHeap<std::cmp::Reverse<Ranked<T>>>,
    most: usize,
    after: Option<Place>,
}

#[derive(Clone, Debug)]
pub struct Ranked<T> {
    pub place: Place,
    pub what: T,
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place.cmp(&other.place)
    }
}

impl<T> Best<T> {
    pub fn new(most: usize, after: Option<Place>) -> Self {
        Self { heap: std::collections::BinaryHeap::with_capacity(most + 1), most, after }
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// Compares a rank with the place after which matches are kept. A lower rank comes after that place. For the same rank,
    /// the id decides.
    #[inline]
    pub fn standing_of(&self, rank: u64) -> Ordering {
        self.after.map_or(Ordering::Less, |after| rank.cmp(&after.rank))
    }

    /// Offers a match. Computes its id only if its rank may be among the best.
    pub fn offer(&mut self, rank: u64, id: impl FnOnce() -> u128, what: impl FnOnce() -> T) {
        let full = self.heap.len() == self.most;
        let outranked = full && self.heap.peek().is_some_and(|worst| rank < worst.0.place.rank);
        if outranked || self.standing_of(rank) == Ordering::Greater {
            return;
        }
        let place = Place { rank, id: id() };
        if self.after.is_some_and(|after| place >= after) || (full && self.heap.peek().is_some_and(|worst| place < worst.0.place)) {
            return;
        }
        self.heap.push(std::cmp::Reverse(Ranked { place, what: what() }));
        if full {
            self.heap.pop();
        }
    }

    /// The best matches first.
    pub fn into_sorted(self) -> Vec<Ranked<T>> {
        self.heap.into_sorted_vec().into_iter().map(|reversed| reversed.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_tier_outranks_everything_below_it() {
        let low = by_relevance(ALL_IN_NAME + 255.0, true, u64::MAX);
        assert!(by_relevance(START, false, 0) > low);
        assert!(by_relevance(IDENTIFIER, false, 0) > by_relevance(NAME + START + ALL_IN_NAME + 200.0, true, 1));
    }

    #[test]
    fn equal_scores_are_ordered_by_openness_and_then_by_time() {
        assert!(by_relevance(3.0, true, 1) > by_relevance(3.1, false, 9));
        assert!(by_relevance(3.0, true, 2) > by_relevance(3.1, true, 1));
        assert!(by_relevance(12.0, false, 1) > by_relevance(3.0, true, 9));
    }

    #[test]
    fn the_best_after_a_place_are_kept_in_order() {
        let kept = |after| {
            let mut best = Best::new(2, after);
            for (rank, id) in [(5, 1), (9, 2), (5, 3), (7, 4), (1, 5)] {
                best.offer(rank, || id, || id);
            }
            best.into_sorted().into_iter().map(|ranked| ranked.what).collect::<Vec<_>>()
        };
        assert_eq!(kept(None), [2, 4]);
        assert_eq!(kept(Some(Place { rank: 7, id: 4 })), [3, 1]);
        assert_eq!(kept(Some(Place { rank: 5, id: 3 })), [1, 5]);
    }
}
