//! The stored state of the rounds that read the store.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::clock::Timestamp;

use crate::{CheckReport, Checked, Read, StoreError, Table, WriteTx, catalog, codec::Record};

/// How many problems are stored as text, and how long each text may be. The rest is counted.
const MAX_TEXTS: usize = 20;
const MAX_TEXT_CHARS: usize = 500;

/// The problems that a round has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubProblems {
    pub number: u64,
    pub first: Vec<String>,
}

/// A round that went through all parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedRound {
    pub began_at: Timestamp,
    pub ended_at: Timestamp,
    /// The time spent reading, without pauses between the parts, such as restarts.
    pub worked_milliseconds: u64,
    pub records: u64,
    pub problems: ScrubProblems,
}

/// A round in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRound {
    pub began_at: Timestamp,
    pub worked_milliseconds: u64,
    pub records: u64,
    pub problems: ScrubProblems,
    /// The names of the parts that were read.
    pub done: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubState {
    /// When the task ran for the first time.
    pub since: Timestamp,
    /// The store was not closed cleanly, so the next round starts at once.
    pub is_due_now: bool,
    /// When the last round without problems ended.
    pub last_sound_at: Option<Timestamp>,
    pub last: Option<FinishedRound>,
    pub current: Option<OpenRound>,
}

impl Record for ScrubState {
    const VERSION: u8 = 1;
}

static SCRUB: Table<u8, ScrubState> = Table::new(catalog::SCRUB, &[]);
const SCRUB_KEY: u8 = 0;

/// Returns the state of the rounds. `None` before the task ran for the first time.
pub fn scrub_state(tx: &impl Read) -> Result<Option<ScrubState>, StoreError> {
    SCRUB.get(tx, &SCRUB_KEY)
}

pub(super) fn put(tx: &mut WriteTx, state: &ScrubState) -> Result<(), StoreError> {
    SCRUB.put(tx, &SCRUB_KEY, state)
}

pub(super) fn tables() -> Vec<&'static dyn Checked> {
    vec![&SCRUB]
}

impl ScrubState {
    pub(super) fn new(now: Timestamp, is_due_now: bool) -> Self {
        Self { since: now, is_due_now, last_sound_at: None, last: None, current: None }
    }

    /// A round is due one period after the last one began, or after the task first ran.
    pub(super) fn is_due(&self, now: Timestamp, period: Duration) -> bool {
        let began = self.last.as_ref().map_or(self.since, |last| last.began_at);
        self.is_due_now || now >= began + period
    }

    pub(super) fn begin(self, now: Timestamp) -> Self {
        let current =
            OpenRound { began_at: now, worked_milliseconds: 0, records: 0, problems: ScrubProblems::default(), done: Vec::new() };
        Self { is_due_now: false, current: Some(current), ..self }
    }

    pub(super) fn finish(self, round: OpenRound, now: Timestamp) -> Self {
        let is_sound = round.problems.number == 0;
        let last = FinishedRound {
            began_at: round.began_at,
            ended_at: now,
            worked_milliseconds: round.worked_milliseconds,
            records: round.records,
            problems: round.problems,
        };
        Self { last_sound_at: if is_sound { Some(now) } else { self.last_sound_at }, last: Some(last), current: None, ..self }
    }

    /// The known problems of the store: those of the round in progress, or else those of the last one.
    pub fn problems(&self) -> Option<&ScrubProblems> {
        let current = self.current.as_ref().map(|round| &round.problems);
        let last = self.last.as_ref().map(|round| &round.problems);
        [current, last].into_iter().flatten().find(|problems| problems.number > 0)
    }
}

impl OpenRound {
    pub(super) fn is_done(&self, part: &str) -> bool {
        self.done.iter().any(|done| done == part)
    }

    pub(super) fn note(&mut self, part: &str, report: &CheckReport, took: Duration) {
        self.done.push(part.to_owned());
        self.worked_milliseconds += u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.records += report.records;
        self.problems.number += report.problem_count();
        let room = MAX_TEXTS.saturating_sub(self.problems.first.len());
        let texts = report.problems.iter().take(room).map(|problem| problem.chars().take(MAX_TEXT_CHARS).collect());
        self.problems.first.extend(texts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::assert_golden;

    #[test]
    fn the_stored_form_matches_the_golden_file() {
        let at = Timestamp::from_millis;
        let problems = ScrubProblems { number: 3, first: vec!["table users is damaged".to_owned()] };
        let last = FinishedRound {
            began_at: at(1_700_000_000_000),
            ended_at: at(1_700_000_060_000),
            worked_milliseconds: 5000,
            records: 1234,
            problems: problems.clone(),
        };
        let current = OpenRound {
            began_at: at(1_700_600_000_000),
            worked_milliseconds: 70,
            records: 9,
            problems,
            done: vec!["pages".to_owned()],
        };
        let state = ScrubState {
            since: at(1_699_000_000_000),
            is_due_now: true,
            last_sound_at: Some(at(1_699_500_000_000)),
            last: Some(last),
            current: Some(current),
        };
        assert_golden("scrub", &state);
    }

    #[test]
    fn problems_beyond_the_stored_texts_are_counted() {
        let mut round = ScrubState::new(Timestamp::default(), true).begin(Timestamp::default()).current.unwrap();
        let report = CheckReport { problems: vec!["x".repeat(9000); 15], more_problems: 4, ..CheckReport::default() };
        round.note("one", &report, Duration::from_secs(1));
        round.note("two", &report, Duration::from_secs(1));
        assert_eq!((round.problems.number, round.problems.first.len()), (38, 20));
        assert!(round.problems.first.iter().all(|text| text.len() == 500));
    }
}
