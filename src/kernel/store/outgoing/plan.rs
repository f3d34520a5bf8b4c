//! Plans which segments bring a snapshot forward to a time, and decides whether they are complete up to then. It uses only the
//! names of the segments.
//!
//! Commits are ordered by their position in the history, never by their times, because a clock may be set back. An opening of the
//! store names the commit that it follows, so openings form a tree. The tree has more than one branch if an older copy of the
//! store was put back. The branch in use at a time is the one whose last opening with commits up to that time began latest. A
//! snapshot is brought forward along it, up to the last commit that is not later than the time.

use std::collections::{BTreeMap, BTreeSet};

use tenantd_base::clock::Timestamp;

use super::{
    super::journal::{JournalId, Position},
    SegmentName,
};

/// The commits of a segment to apply: those after the previous step, up to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub segment: SegmentName,
    pub through: u64,
}

/// Whether all commits up to the time are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Complete,
    /// Some of them are missing.
    Missing,
    /// The newest commit is older than the time, so nothing shows whether there were more.
    Beyond,
}

/// How to bring a snapshot forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order to apply them. Only the last one has commits that are later than the time.
    pub steps: Vec<Step>,
    /// A later segment that shows that no commit is missing. The caller must check that its content matches its name.
    pub proof: Option<SegmentName>,
    pub reach: Reach,
}

impl Plan {
    /// Plans from the last commit of a snapshot. [`Timestamp::LATEST`] means the end of the history. `names` must not contain
    /// segments of [branches that were left](left_branches) before the snapshot was made.
    pub fn new(names: &[SegmentName], base: Position, until: Timestamp) -> Self {
        let openings = Openings::new(names, base);
        let mut path = openings.path(openings.tip(until));
        let latest = path.steps.iter().map(|step| step.segment.until).max().unwrap_or(Timestamp::EPOCH);
        let passed = latest > until;
        let needed = path.steps.iter().rposition(|step| step.segment.since <= until).map_or(0, |last| last + 1);
        let later = path.steps.split_off(needed);
        let follower = openings.follower(path.end).filter(|_| !passed);
        let proof = later.first().map(|step| step.segment).or(follower);
        path.is_whole &= follower.is_none_or(|name| name.first == path.end.number + 1);
        // After a gap, a later time proves something only if the clock was not set back meanwhile.
        let is_missing = !path.is_whole && (!passed || path.unreached.iter().any(|name| name.since <= latest));
        let reach = if is_missing || openings.contradict(until, passed.then_some(latest)) {
            Reach::Missing
        } else if passed || proof.is_some() || until == Timestamp::LATEST {
            Reach::Complete
        } else {
            Reach::Beyond
        };
        Self { steps: path.steps, proof, reach }
    }
}

/// Whether segments lead from one commit to another.
pub fn leads_to(names: &[SegmentName], from: Position, to: Position) -> bool {
    let openings = Openings::new(names, from);
    let path = openings.path(to.journal);
    let passed = |step: &Step| step.segment.journal == to.journal && step.through >= to.number;
    from == to || (openings.lineage(to.journal) == Lineage::After && path.steps.iter().any(passed))
}

/// The openings of branches that were left, if `last` is the last commit of the store.
pub fn left_branches(names: &[SegmentName], last: Position) -> BTreeSet<JournalId> {
    let openings = Openings::new(names, last);
    let is_left = |journal: JournalId, opening: &Opening| match openings.lineage(journal) {
        Lineage::After | Lineage::Before => false,
        Lineage::Apart => true,
        Lineage::Unknown => opening.segments.iter().any(|name| name.last > last.number),
    };
    openings.known.iter().filter(|(journal, opening)| is_left(**journal, opening)).map(|(journal, _)| *journal).collect()
}

/// The openings that were left since the newest snapshot was made. If an opening does not follow the snapshot, an older copy of
/// the store was put back. `names` must not contain segments of branches that were left before.
pub fn left_since(names: &[SegmentName], newest: Position) -> BTreeSet<JournalId> {
    let openings = Openings::new(names, newest);
    let apart = openings.known.iter().filter(|(journal, _)| openings.lineage(**journal) == Lineage::Apart);
    let last = apart.max_by_key(|(journal, opening)| (opening.began_at(), **journal));
    let number = |opening: &Opening| opening.segments.iter().map(|name| name.last).max().unwrap_or_default();
    let position = last.map(|(journal, opening)| Position { journal: *journal, number: number(opening) });
    position.map(|position| left_branches(names, position)).unwrap_or_default()
}

/// The known facts about an opening of the store.
#[derive(Debug)]
struct Opening {
    before: Position,
    /// In commit order.
    segments: Vec<SegmentName>,
}

impl Opening {
    fn began_at(&self) -> Timestamp {
        self.segments.first().map_or(Timestamp::LATEST, |name| name.since)
    }

    /// Whether it has a commit that is not later than `time`. This need not be the first one, because the clock may have been set
    /// back.
    fn reaches_back_to(&self, time: Timestamp) -> bool {
        self.segments.iter().any(|name| name.since <= time)
    }
}

/// The relation of an opening to the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lineage {
    /// It follows the snapshot, or contains its last commit.
    After,
    /// The snapshot follows it.
    Before,
    /// It is on a branch that left the history before the snapshot, or in another history.
    Apart,
    /// The opening that it follows is unknown.
    Unknown,
}

struct Openings {
    /// The last commit of the snapshot.
    base: Position,
    known: BTreeMap<JournalId, Opening>,
    before_base: BTreeSet<JournalId>,
}

/// The commits along one branch.
struct Path {
    steps: Vec<Step>,
    end: Position,
    /// Whether there is no gap.
    is_whole: bool,
    /// The segments after the gap.
    unreached: Vec<SegmentName>,
}

impl Openings {
    fn new(names: &[SegmentName], base: Position) -> Self {
        let mut known = BTreeMap::<JournalId, Opening>::new();
        for name in names {
            let opening = known.entry(name.journal).or_insert(Opening { before: name.before, segments: Vec::new() });
            opening.segments.push(*name);
        }
        for opening in known.values_mut() {
            opening.segments.sort_unstable_by_key(|name| (name.first, name.last));
        }
        let mut openings = Self { base, known, before_base: BTreeSet::new() };
        openings.before_base = openings.chain(base.journal).skip(1).map(|(journal, _)| journal).collect();
        openings
    }

    /// An opening and its known predecessors, each with the last of its commits on this branch.
    fn chain(&self, journal: JournalId) -> impl Iterator<Item = (JournalId, u64)> {
        let (mut seen, mut next) = (BTreeSet::new(), Some((journal, u64::MAX)));
        std::iter::from_fn(move || {
            let (journal, last) = next.filter(|(journal, _)| seen.insert(*journal))?;
            let before = self.known.get(&journal).map(|opening| opening.before);
            next = before.filter(|before| !before.is_root()).map(|before| (before.journal, before.number));
            Some((journal, last))
        })
    }

    fn lineage(&self, journal: JournalId) -> Lineage {
        if self.before_base.contains(&journal) {
            return Lineage::Before;
        }
        let mut oldest = journal;
        for (journal, last) in self.chain(journal) {
            if journal == self.base.journal {
                return if last >= self.base.number { Lineage::After } else { Lineage::Apart };
            }
            if self.before_base.contains(&journal) {
                return Lineage::Apart;
            }
            oldest = journal;
        }
        let begins_a_history = self.known.get(&oldest).is_some_and(|opening| opening.before.is_root());
        if begins_a_history { Lineage::Apart } else { Lineage::Unknown }
    }

    /// The last opening of the branch that was in use at a time.
    fn tip(&self, until: Timestamp) -> JournalId {
        let begun = self.known.iter().filter(|(_, opening)| opening.reaches_back_to(until)).map(|(journal, _)| *journal);
        let candidates: Vec<JournalId> = begun.filter(|journal| self.lineage(*journal) == Lineage::After).collect();
        let followed: BTreeSet<JournalId> =
            candidates.iter().flat_map(|journal| self.chain(*journal).skip(1).map(|(journal, _)| journal)).collect();
        let last = candidates.into_iter().filter(|journal| !followed.contains(journal));
        let began_at = |journal: &JournalId| self.known.get(journal).map(Opening::began_at);
        last.max_by_key(|journal| (began_at(journal), *journal)).unwrap_or(self.base.journal)
    }

    /// The path from the snapshot to the end of an opening.
    fn path(&self, tip: JournalId) -> Path {
        let mut chain: Vec<(JournalId, u64)> = self.chain(tip).collect();
        let begins = chain.iter().position(|(journal, _)| *journal == self.base.journal);
        chain.truncate(begins.map_or(0, |place| place + 1));
        chain.reverse();
        let mut path = Path { steps: Vec::new(), end: self.base, is_whole: true, unreached: Vec::new() };
        for (journal, last) in chain {
            let segments = self.known.get(&journal).map(|opening| opening.segments.as_slice()).unwrap_or_default();
            let followed = self.known.values().map(|opening| opening.before).filter(|before| before.journal == journal);
            let known = followed.map(|before| before.number).max().unwrap_or_default();
            if path.is_whole {
                path.follow(journal, segments, last, known.min(last));
            } else {
                path.unreached.extend(segments);
            }
        }
        path
    }

    /// The first segment of an opening that follows this commit.
    fn follower(&self, end: Position) -> Option<SegmentName> {
        self.known.values().find(|opening| opening.before == end).and_then(|opening| opening.segments.first()).copied()
    }

    /// Whether segments off the path show that the path is not the whole history, or not the right one. `passed` is the latest
    /// time on the path, if it is later than `until`.
    fn contradict(&self, until: Timestamp, passed: Option<Timestamp>) -> bool {
        self.known.iter().any(|(journal, opening)| match self.lineage(*journal) {
            Lineage::After | Lineage::Before => false,
            Lineage::Apart => opening.began_at() <= until,
            Lineage::Unknown => {
                let is_later = |name: &SegmentName| name.last > self.base.number;
                let missed = |name: &SegmentName| is_later(name) && passed.is_none_or(|latest| name.since <= latest);
                opening.segments.iter().any(missed)
            }
        })
    }
}

impl Path {
    /// Extends the path through an opening, up to commit `last`. The opening is known to have commits up to `known`.
    fn follow(&mut self, journal: JournalId, segments: &[SegmentName], last: u64, known: u64) {
        let mut reached = self.end.number;
        let next = |reached: u64| {
            let follow = segments.iter().filter(|name| name.first <= reached + 1 && name.last > reached);
            follow.max_by_key(|name| name.last).filter(|_| reached < last)
        };
        while let Some(segment) = next(reached) {
            reached = segment.last.min(last);
            self.steps.push(Step { segment: *segment, through: reached });
            self.end = Position { journal, number: reached };
        }
        let unreached = segments.iter().filter(|name| name.first > reached + 1 && name.first <= last);
        self.unreached.extend(unreached);
        self.is_whole = self.unreached.is_empty() && reached >= known;
    }
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

    fn root() -> Position {
        Position::root(0)
    }

    /// A segment with one commit per second.
    fn segment(journal: u8, before: Position, commits: std::ops::RangeInclusive<u64>, since: i64) -> SegmentName {
        let (first, last) = (*commits.start(), *commits.end());
        let until = at(since + i64::try_from(last - first).unwrap());
        SegmentName { first, last, since: at(since), until, journal: [journal; 16], before }
    }

    /// Two openings of 30 commits each, in segments of ten. Commit n was made in second n.
    fn history() -> Vec<SegmentName> {
        vec![
            segment(1, root(), 1..=10, 1),
            segment(1, root(), 11..=20, 11),
            segment(1, root(), 21..=30, 21),
            segment(2, position(1, 30), 31..=40, 31),
            segment(2, position(1, 30), 41..=50, 41),
            segment(2, position(1, 30), 51..=60, 51),
        ]
    }

    /// The steps of a plan, as the opening and the last commit of each.
    fn plan(names: &[SegmentName], from: Position, until: i64) -> (Vec<(u8, u64)>, Reach) {
        let plan = Plan::new(names, from, at(until));
        (plan.steps.iter().map(|step| (step.segment.journal[0], step.through)).collect(), plan.reach)
    }

    /// The segments without the branches that were left if this was the last commit.
    fn without_left(names: &[SegmentName], last: Position) -> Vec<SegmentName> {
        let left = left_branches(names, last);
        names.iter().copied().filter(|name| !left.contains(&name.journal)).collect()
    }

    #[test]
    fn steps_are_in_commit_order() {
        let mut names = history();
        names.reverse();
        assert_eq!(plan(&names, position(1, 10), 5), (vec![], Reach::Complete));
        assert_eq!(plan(&names, position(1, 5), 15), (vec![(1, 10), (1, 20)], Reach::Complete));
        assert_eq!(plan(&names, position(1, 20), 45), (vec![(1, 30), (2, 40), (2, 50)], Reach::Complete));
        assert_eq!(plan(&names, position(1, 30), 59), (vec![(2, 40), (2, 50), (2, 60)], Reach::Complete));
        assert_eq!(plan(&names, position(2, 60), 58), (vec![], Reach::Beyond));
        assert_eq!(plan(&names, position(1, 20), 60), (vec![(1, 30), (2, 40), (2, 50), (2, 60)], Reach::Beyond));
        assert_eq!(Plan::new(&names, position(2, 60), Timestamp::LATEST).reach, Reach::Complete);
    }

    #[test]
    fn the_proof_of_completeness_is_named() {
        let names = history();
        let proof = |until: i64| {
            let plan = Plan::new(&names, position(1, 5), at(until));
            (plan.reach, plan.proof.map(|name| name.first))
        };
        assert_eq!(proof(10), (Reach::Complete, Some(11)), "the segment after the last");
        assert_eq!(proof(15), (Reach::Complete, Some(21)));
        assert_eq!(proof(30), (Reach::Complete, Some(31)), "the opening after the last");
        assert_eq!(proof(55), (Reach::Complete, None), "the last segment itself");
        assert_eq!(proof(60), (Reach::Beyond, None));
    }

    #[test]
    fn a_segment_that_was_written_again_after_a_crash_is_used_once() {
        let mut names = history();
        names.push(segment(1, root(), 15..=30, 15));
        assert_eq!(plan(&names, position(1, 12), 32), (vec![(1, 20), (1, 30), (2, 40)], Reach::Complete));
        names.remove(2);
        assert_eq!(plan(&names, position(1, 12), 32), (vec![(1, 20), (1, 30), (2, 40)], Reach::Complete));
    }

    #[test]
    fn a_missing_segment_is_noticed() {
        for missing in 0..6 {
            let mut names = history();
            names.remove(missing);
            for until in 1..=60 {
                let (_, reach) = plan(&names, position(1, 0), until);
                // The commits before it end at this second. If no later commit is known, nothing shows that there were more.
                let ended = i64::try_from(missing).unwrap() * 10;
                let expected = match (until < ended, missing) {
                    (true, _) => Reach::Complete,
                    (false, 5) => Reach::Beyond,
                    (false, _) => Reach::Missing,
                };
                assert_eq!(reach, expected, "{missing} is missing, up to {until}");
            }
        }
    }

    #[test]
    fn segments_before_the_snapshot_are_not_needed() {
        for gone in 1..=4 {
            assert_eq!(plan(&history()[gone..], position(2, 45), 55), (vec![(2, 50), (2, 60)], Reach::Complete), "{gone}");
        }
        // The opening that the snapshot's opening follows is unknown.
        let names = [&history()[..3], &[segment(3, position(2, 70), 71..=80, 71)]].concat();
        let names = without_left(&names, position(2, 70));
        assert_eq!(plan(&names, position(2, 70), 75), (vec![(3, 80)], Reach::Complete));
    }

    #[test]
    fn commits_stay_in_order_when_the_clock_moves() {
        // The clock is set back by 100 seconds in the middle, and later ahead by 1000.
        let names = [
            segment(1, root(), 1..=10, 101),
            segment(1, root(), 11..=20, 11),
            segment(2, position(1, 20), 21..=30, 21),
            segment(2, position(1, 20), 31..=40, 1031),
            segment(2, position(1, 20), 41..=50, 41),
        ];
        let all = |count: usize| [(1, 10), (1, 20), (2, 30), (2, 40), (2, 50)][..count].to_vec();
        assert_eq!(plan(&names, position(1, 0), 15), (all(2), Reach::Complete), "up to the last commit that is not later");
        assert_eq!(plan(&names, position(1, 0), 105), (all(5), Reach::Complete));
        assert_eq!(plan(&names, position(1, 0), 45), (all(5), Reach::Complete));
        assert_eq!(plan(&names, position(1, 0), 35), (all(3), Reach::Complete));
        let mut missing = names.to_vec();
        missing.remove(3);
        assert_eq!(plan(&missing, position(1, 0), 45).1, Reach::Missing);
        missing.remove(2);
        assert_eq!(plan(&missing, position(1, 0), 45).1, Reach::Missing);
    }

    #[test]
    fn an_opening_that_began_with_its_clock_ahead_is_used() {
        // The second opening begins with a clock that is 1000 seconds ahead, which is then corrected.
        let names = [
            segment(1, root(), 1..=10, 1),
            segment(2, position(1, 10), 11..=15, 1011),
            segment(2, position(1, 10), 16..=20, 16),
            segment(3, position(2, 20), 21..=25, 21),
        ];
        assert_eq!(plan(&names, position(1, 5), 18), (vec![(1, 10), (2, 15), (2, 20)], Reach::Complete));
        assert_eq!(plan(&names, position(1, 5), 12).0, [(1, 10)]);
        // After a gap, times start again. It is unknown whether the gap has a commit of second 30.
        let names = [segment(1, root(), 1..=10, 1), segment(1, root(), 11..=15, 1011), segment(1, root(), 21..=25, 50)];
        assert_eq!(plan(&names, position(1, 5), 30).1, Reach::Missing);
        assert_eq!(plan(&names, position(1, 5), 5).1, Reach::Missing);
    }

    #[test]
    fn a_restored_copy_begins_a_branch() {
        // At second 70, the store is put back to commit 45, and at second 90 to the same commit again.
        let mut names = history();
        names.extend([segment(3, position(2, 45), 46..=55, 70), segment(4, position(2, 45), 46..=50, 90)]);
        let old = vec![(1, 30), (2, 40), (2, 50), (2, 60)];
        let branch = |steps: &[(u8, u64)]| [&[(1, 30), (2, 40), (2, 45)], steps].concat();
        assert_eq!(plan(&names, position(1, 20), 58), (old.clone(), Reach::Complete));
        assert_eq!(plan(&names, position(1, 20), 65), (old, Reach::Beyond), "the loss with that copy is unknown");
        assert_eq!(plan(&names, position(1, 20), 75), (branch(&[(3, 55)]), Reach::Complete));
        assert_eq!(plan(&names, position(1, 20), 92), (branch(&[(4, 50)]), Reach::Complete));
        // A backup of a left branch does not lead to later commits.
        assert_eq!(plan(&names, position(2, 50), 58), (vec![(2, 60)], Reach::Complete));
        assert_eq!(plan(&names, position(2, 50), 75).1, Reach::Missing);
        assert_eq!(plan(&names, position(3, 50), 92).1, Reach::Missing);
        assert_eq!(plan(&without_left(&names, position(4, 48)), position(4, 48), 93), (vec![(4, 50)], Reach::Complete));
    }

    #[test]
    fn a_left_branch_with_its_clock_ahead_is_not_the_newest() {
        // The clock of a second opening is 1000 seconds ahead. Then the store is put back to commit 45, with the right time.
        let mut names = history();
        names.truncate(5);
        names.extend([segment(3, position(2, 50), 51..=60, 1051), segment(4, position(2, 45), 46..=55, 70)]);
        let latest = |names: &[SegmentName], from: Position| {
            let plan = Plan::new(names, from, Timestamp::LATEST);
            (plan.steps.iter().map(|step| step.segment.journal[0]).collect::<Vec<_>>(), plan.reach)
        };
        let last = position(4, 50);
        assert_eq!(left_branches(&names, last), BTreeSet::from([[3; 16]]));
        assert_eq!(latest(&without_left(&names, last), last), (vec![4], Reach::Complete));
        assert_eq!(latest(&names, position(3, 55)).1, Reach::Missing, "a later branch was not yet known");
        // The start of opening 5's branch is unknown. The branch was left if the snapshot does not have its numbers yet.
        names.push(segment(5, position(9, 50), 51..=60, 1051));
        assert_eq!(left_branches(&names, last), BTreeSet::from([[3; 16], [5; 16]]));
        assert_eq!(left_branches(&names, position(4, 70)), BTreeSet::from([[3; 16]]));
    }

    #[test]
    fn a_new_history_counts_from_its_own_start() {
        let mut names = history();
        names.extend([segment(3, Position::root(60), 61..=65, 70), segment(4, position(3, 65), 66..=70, 80)]);
        assert_eq!(plan(&names, position(2, 50), 59), (vec![(2, 60)], Reach::Complete));
        assert_eq!(plan(&names, position(2, 50), 72).1, Reach::Missing);
        assert_eq!(
            plan(&names[6..], position(3, 60), 83),
            (vec![(3, 65), (4, 70)], Reach::Complete),
            "from a backup of the new one"
        );
        // The opening between is unknown, so it may belong to either history.
        names.remove(6);
        assert_eq!(plan(&names, position(2, 50), 60).1, Reach::Missing);
    }

    #[test]
    fn segments_lead_along_a_branch_but_not_over_a_gap() {
        let mut names = history();
        names.push(segment(3, position(2, 45), 46..=55, 70));
        let from = position(1, 20);
        assert!(leads_to(&names, from, from) && leads_to(&names, from, position(2, 50)) && leads_to(&names, from, position(3, 50)));
        assert!(!leads_to(&names, from, position(2, 61)) && !leads_to(&names, position(2, 50), position(3, 50)));
        names.remove(3);
        assert!(!leads_to(&names, from, position(2, 45)) && leads_to(&names, position(2, 41), position(2, 45)));
    }

    #[test]
    fn circular_names_end() {
        let names = [segment(5, position(6, 91), 90..=90, 90), segment(6, position(5, 90), 91..=91, 91)];
        assert_eq!(plan(&names, position(1, 1), 50).0, []);
        assert_eq!(plan(&names, position(5, 89), 99).0, [(5, 90)]);
    }
}
