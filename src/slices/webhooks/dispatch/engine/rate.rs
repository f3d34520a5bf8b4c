//! The rate limit of an endpoint over a sliding window.
//!
//! An attempt counts from its start until one second after its end. The limit therefore holds in any second as the receiver
//! measures it, no matter how long a request takes: it arrives before its attempt ends, and the attempt that replaces it starts
//! more than a second later.

use std::{collections::VecDeque, time::Duration};

use tenantd_base::clock::Timestamp;

/// One millisecond more than a second, because times are truncated to milliseconds.
const WINDOW: Duration = Duration::from_millis(1001);

/// The end times of attempts that still count.
#[derive(Debug, Default)]
pub(super) struct RateWindow(VecDeque<Timestamp>);

/// Whether the limit has room for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    At(Timestamp),
    /// After an attempt in progress has ended.
    Later,
}

impl RateWindow {
    pub(super) fn room(&mut self, per_second: Option<u32>, under_way: usize, now: Timestamp) -> Room {
        self.forget(now);
        let Some(most) = per_second else { return Room::Free };
        if self.0.len() + under_way < usize::try_from(most.max(1)).unwrap_or(usize::MAX) {
            return Room::Free;
        }
        self.0.front().map_or(Room::Later, |first| Room::At(*first + WINDOW))
    }

    /// Records the end of an attempt.
    pub(super) fn ended(&mut self, per_second: Option<u32>, now: Timestamp) {
        self.forget(now);
        if per_second.is_some() {
            self.0.push_back(now);
        }
    }

    pub(super) fn is_empty(&mut self, now: Timestamp) -> bool {
        self.forget(now);
        self.0.is_empty()
    }

    fn forget(&mut self, now: Timestamp) {
        while self.0.front().is_some_and(|first| now >= *first + WINDOW) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::entropy::Entropy;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    #[test]
    fn an_attempt_counts_until_a_second_after_its_end() {
        let mut window = RateWindow::default();
        assert_eq!((window.room(Some(2), 0, at(0)), window.room(Some(2), 1, at(0))), (Room::Free, Room::Free));
        assert_eq!(window.room(Some(2), 2, at(0)), Room::Later);
        window.ended(Some(2), at(300));
        assert_eq!(window.room(Some(2), 1, at(300)), Room::At(at(1301)));
        assert_eq!(window.room(Some(2), 1, at(1300)), Room::At(at(1301)));
        assert_eq!(window.room(Some(2), 1, at(1301)), Room::Free);
        assert_eq!(window.room(None, 1000, at(300)), Room::Free);
        assert!(window.is_empty(at(1301)));
    }

    /// Attempts of any length, each arriving at the receiver at any time while it is in progress.
    #[test]
    fn no_second_has_more_arrivals_than_the_limit() {
        let mut entropy = Entropy::from_seed(5);
        for limit in [1_u32, 3, 5, 8] {
            let (mut window, mut under_way, mut arrivals) = (RateWindow::default(), Vec::<i64>::new(), Vec::new());
            for now in 0..30_000_i64 {
                let (over, going): (Vec<i64>, Vec<i64>) = under_way.into_iter().partition(|end| *end <= now);
                for _ in over {
                    window.ended(Some(limit), at(now));
                }
                under_way = going;
                while window.room(Some(limit), under_way.len(), at(now)) == Room::Free {
                    let most_millis = if entropy.once_in(4) { 900 } else { 20 };
                    let length = i64::try_from(entropy.below(most_millis)).unwrap();
                    arrivals.push(now + i64::try_from(entropy.below(length.unsigned_abs() + 1)).unwrap());
                    under_way.push(now + length.max(1));
                }
            }
            arrivals.sort_unstable();
            let most = usize::try_from(limit).unwrap();
            assert!(arrivals.len() > 10 * most);
            assert!(arrivals.windows(most + 1).all(|some| some[most] - some[0] > 1000), "limit {limit}");
        }
    }
}
