//! Which segments bring a snapshot forward to a time, and whether that is everything up to then. Their names alone say so.

use std::collections::{BTreeMap, BTreeSet};

use tenantd_base::clock::Timestamp;

use super::{
    super::journal::{JournalId, Position},
    SegmentName,
};

/// How a snapshot is brought forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are applied.
    pub segments: Vec<SegmentName>,
    /// Whether these are all commits up to the time, as far as anyone can know.
    pub is_complete: bool,
}

type ByJournal<'a> = BTreeMap<JournalId, Vec<&'a SegmentName>>;

impl Plan {
    /// `from` is the last commit in the snapshot; `names` are the segments that were written since it was begun.
    pub fn new(names: &[SegmentName], from: Position, until: Timestamp) -> Self {
        let mut by_journal = ByJournal::new();
        for name in names {
            by_journal.entry(name.journal).or_default().push(name);
        }
        let (mut at, mut segments, mut visited) = (from, Vec::new(), openings_up_to(&by_journal, from.journal));
        while let Some(next) = next(&by_journal, at, &visited) {
            if next.since > until {
                return Self { segments, is_complete: true };
            }
            segments.push(*next);
            if next.until > until {
                return Self { segments, is_complete: true };
            }
            at = Position { journal: next.journal, number: next.last };
            visited.insert(next.journal);
        }
        let is_complete = !names.iter().any(|name| shows_a_gap(name, &by_journal, at, &visited, until));
        Self { segments, is_complete }
    }
}

/// This opening and those before it.
fn openings_up_to(by_journal: &ByJournal<'_>, journal: JournalId) -> BTreeSet<JournalId> {
    let (mut found, mut next) = (BTreeSet::new(), Some(journal));
    while let Some(journal) = next.filter(|journal| found.insert(*journal)) {
        next = by_journal.get(&journal).and_then(|segments| segments.first()).map(|name| name.before.journal);
    }
    found
}

/// The segment that reaches farthest among those that have the commit after this one.
fn next<'a>(by_journal: &ByJournal<'a>, at: Position, visited: &BTreeSet<JournalId>) -> Option<&'a SegmentName> {
    let farthest = |segments: &[&'a SegmentName], reached: u64| {
        segments.iter().copied().filter(|name| name.first <= reached + 1 && name.last > reached).max_by_key(|name| name.last)
    };
    let same = by_journal.get(&at.journal).and_then(|segments| farthest(segments, at.number));
    let begins_here = |name: &&SegmentName| name.before == at && !visited.contains(&name.journal);
    let follows = |segments: &&Vec<&SegmentName>| segments.first().is_some_and(begins_here);
    same.or_else(|| by_journal.values().filter(follows).find_map(|segments| farthest(segments, 0)))
}

/// Whether a segment that was not reached proves that commits up to the time are missing.
fn shows_a_gap(
    name: &SegmentName,
    by_journal: &ByJournal<'_>,
    at: Position,
    visited: &BTreeSet<JournalId>,
    until: Timestamp,
) -> bool {
    if visited.contains(&name.journal) {
        return name.journal == at.journal && name.first > at.number + 1;
    }
    if name.since <= until {
        return true;
    }
    // What is later belongs to another history if that began anew, such as with a restored backup.
    let (mut before, mut seen) = (name.before, BTreeSet::from([name.journal]));
    while before != Position::default() && seen.insert(before.journal) {
        match by_journal.get(&before.journal).and_then(|segments| segments.first()) {
            Some(earlier) if !visited.contains(&earlier.journal) => before = earlier.before,
            _ => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_700_000_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(START + second * 1000)
    }

    fn position(journal: u8, number: u64) -> Position {
        Position { journal: [journal; 16], number }
    }

    /// A segment of a commit a second.
    fn segment(journal: u8, before: Position, commits: std::ops::RangeInclusive<u64>, since: i64) -> SegmentName {
        let (first, last) = (*commits.start(), *commits.end());
        let until = at(since + i64::try_from(last - first).unwrap());
        SegmentName { since: at(since), until, journal: [journal; 16], first, last, before }
    }

    /// Two openings, of 30 commits each, in segments of ten.
    fn history() -> Vec<SegmentName> {
        let root = Position::default();
        vec![
            segment(1, root, 1..=10, 1),
            segment(1, root, 11..=20, 11),
            segment(1, root, 21..=30, 21),
            segment(2, position(1, 30), 1..=10, 31),
            segment(2, position(1, 30), 11..=20, 41),
            segment(2, position(1, 30), 21..=30, 51),
        ]
    }

    fn plan(names: &[SegmentName], from: Position, until: i64) -> (Vec<(u8, u64)>, bool) {
        let plan = Plan::new(names, from, at(until));
        (plan.segments.iter().map(|name| (name.journal[0], name.last)).collect(), plan.is_complete)
    }

    #[test]
    fn segments_follow_each_other_up_to_the_time_in_any_order() {
        let mut names = history();
        names.reverse();
        assert_eq!(plan(&names, position(1, 10), 5), (vec![], true));
        assert_eq!(plan(&names, position(1, 5), 15), (vec![(1, 10), (1, 20)], true));
        assert_eq!(plan(&names, position(1, 20), 45), (vec![(1, 30), (2, 10), (2, 20)], true));
        assert_eq!(plan(&names, position(1, 30), 99), (vec![(2, 10), (2, 20), (2, 30)], true));
        assert_eq!(plan(&names, position(2, 30), 99), (vec![], true));
    }

    #[test]
    fn a_segment_that_was_written_again_after_a_crash_is_used_once() {
        let mut names = history();
        names.push(segment(1, Position::default(), 15..=30, 15));
        assert_eq!(plan(&names, position(1, 12), 32), (vec![(1, 20), (1, 30), (2, 10)], true));
        names.remove(2);
        assert_eq!(plan(&names, position(1, 12), 32), (vec![(1, 20), (1, 30), (2, 10)], true));
    }

    #[test]
    fn a_missing_segment_is_noticed_wherever_it_may_have_commits_up_to_the_time() {
        for missing in 0..6 {
            let mut names = history();
            names.remove(missing);
            for until in 1..=60 {
                let (_, is_complete) = plan(&names, position(1, 0), until);
                // The commits before it end at this second. When nothing comes later, nobody knows that there was more.
                let ended = i64::try_from(missing).unwrap() * 10;
                assert_eq!(is_complete, until < ended || missing == 5, "{missing} is missing, up to {until}");
            }
        }
    }

    #[test]
    fn a_history_that_began_anew_counts_only_from_then_on() {
        let mut names = history();
        let root = Position::default();
        names.extend([segment(3, root, 1..=5, 70), segment(4, position(3, 5), 1..=5, 80)]);
        assert_eq!(plan(&names, position(2, 20), 65), (vec![(2, 30)], true));
        assert!(!plan(&names, position(2, 20), 72).1);
        assert_eq!(plan(&names[6..], position(3, 0), 99), (vec![(3, 5), (4, 5)], true), "from a backup of the new history");
        // The opening between is unknown, so that it may be of either history.
        names.remove(6);
        assert!(!plan(&names, position(2, 20), 65).1);
    }

    #[test]
    fn names_that_go_in_circles_end() {
        let names = [segment(5, position(6, 1), 1..=1, 90), segment(6, position(5, 1), 1..=1, 91)];
        assert_eq!(plan(&names, position(1, 1), 50), (vec![], true));
        assert_eq!(plan(&names, position(5, 0), 99).0, [(5, 1)]);
    }
}
