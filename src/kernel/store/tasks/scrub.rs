//! Regularly reads the whole store, so that damage is found before a record is needed: first the pages of redb's file, then each
//! table with its indexes, then the usage of tenants, then the segments. Damage does not stop the process. The status page and
//! the metrics report it.
//!
//! **Invariant:** the progress and the findings of a round are stored after each part. A restart continues with the next part, so
//! a server that is restarted often still finishes a round. A start that finds the store not closed cleanly starts a round at
//! once, because redb then opens the file without reading all of it.

mod state;
#[cfg(test)]
mod tests;

use std::{
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tenantd_base::clock::{Clock, Timestamp};

use super::{Done, Task, TaskError};
use crate::{CheckReport, Checked, Store, StoreError, check, pages};

pub use state::{FinishedRound, OpenRound, ScrubProblems, ScrubState, scrub_state};

/// How often the task checks whether a round is due.
const LOOKS_EVERY: Duration = Duration::from_hours(1);

/// A part of a round. Each part uses its own snapshot.
#[derive(Clone)]
enum Part {
    Pages,
    Table(&'static str, &'static dyn Checked),
    Sums,
    Segments,
}

impl Part {
    /// The name that is stored while a round is in progress.
    fn name(&self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Table(name, _) => name,
            Self::Sums => "sums",
            Self::Segments => "segments",
        }
    }
}

pub struct Scrub {
    store: Store,
    clock: Clock,
    period: Duration,
    tables: Vec<&'static dyn Checked>,
    store_file: PathBuf,
    /// Whether this start still has to request a round.
    recovered: AtomicBool,
    concern: Mutex<Option<String>>,
}

impl std::fmt::Debug for Scrub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrub").field("period", &self.period).finish_non_exhaustive()
    }
}

impl Scrub {
    pub fn new(store: Store, clock: Clock, days: u32, tables: Vec<&'static dyn Checked>, store_file: PathBuf) -> Self {
        let period = Duration::from_secs(u64::from(days) * 86_400);
        let recovered = AtomicBool::new(store.was_recovered());
        Self { store, clock, period, tables, store_file, recovered, concern: Mutex::new(None) }
    }

    /// The table of this task, to be checked like all others.
    pub fn tables() -> Vec<&'static dyn Checked> {
        state::tables()
    }

    fn parts(&self) -> impl Iterator<Item = Part> {
        let tables = self.tables.iter().filter_map(|table| table.check_name().map(|name| Part::Table(name, *table)));
        std::iter::once(Part::Pages).chain(tables).chain([Part::Sums, Part::Segments])
    }

    /// The stored state, with the round that this start requests.
    async fn load(&self, now: Timestamp) -> Result<ScrubState, StoreError> {
        let stored = self.store.read(scrub_state)?;
        let recovered = self.recovered.load(Ordering::SeqCst);
        let state = match stored.clone() {
            None => ScrubState::new(now, recovered),
            Some(state) => ScrubState { is_due_now: state.is_due_now || recovered, ..state },
        };
        if stored.as_ref() != Some(&state) {
            self.save(&state).await?;
        }
        self.recovered.store(false, Ordering::SeqCst);
        Ok(state)
    }

    /// A loss of power may drop the last part. It is then read again.
    async fn save(&self, state: &ScrubState) -> Result<(), StoreError> {
        let stored = state.clone();
        self.store.write_derived(move |tx| state::put(tx, &stored)).await?;
        self.report(state);
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "how long a part takes is measured in monotonic time")]
    async fn check(&self, part: Part) -> Result<(CheckReport, Duration), StoreError> {
        let (started, tables, file) = (Instant::now(), self.tables.clone(), self.store_file.clone());
        let is_pages = matches!(part, Part::Pages);
        let name = part.name();
        let checked = self.store.scan_until_stop(move |tx, stop| {
            let mut report = CheckReport::default();
            match part {
                Part::Pages => {
                    pages::problem_in_live(&file, tx, stop)?.into_iter().for_each(|problem| report.problem(problem));
                }
                Part::Table(_, table) => table.check(tx, &mut report)?,
                Part::Sums => check::check_sums(tx, &tables, &mut report)?,
                Part::Segments => check::check_segments(tx, &mut report)?,
            }
            Ok(report)
        });
        let report = match checked.await {
            Ok(report) => report,
            // Damage that makes a table unreadable is a finding too. For pages, an error means that the file could not be opened,
            // for other reasons.
            Err(error) if !is_pages && !matches!(error, StoreError::Unavailable(_)) => {
                CheckReport { problems: vec![format!("{name} cannot be read: {error}")], ..CheckReport::default() }
            }
            Err(error) => return Err(error),
        };
        for problem in &report.problems {
            tracing::error!(problem, part = name, "the store is damaged");
        }
        Ok((report, started.elapsed()))
    }

    /// Publishes the state in the metrics and the task's status.
    fn report(&self, state: &ScrubState) {
        if let Some(at) = state.last_sound_at {
            metrics::gauge!("tenantd_scrub_last_success_timestamp_seconds").set(at.as_seconds() as f64);
        }
        if let Some(last) = &state.last {
            metrics::gauge!("tenantd_scrub_duration_seconds").set(Duration::from_millis(last.worked_milliseconds).as_secs_f64());
        }
        let problems = state.problems();
        metrics::gauge!("tenantd_scrub_problems").set(problems.map_or(0, |problems| problems.number) as f64);
        // The status page is public, so the text names no key.
        let concern =
            problems.map(|problems| format!("the store is damaged; problems found by the last scrub: {}", problems.number));
        *self.concern.lock().unwrap_or_else(PoisonError::into_inner) = concern;
    }
}

impl Task for Scrub {
    fn name(&self) -> &'static str {
        "store_scrub"
    }

    fn period(&self) -> Duration {
        LOOKS_EVERY
    }

    fn concern(&self) -> Option<String> {
        self.concern.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let now = self.clock.now();
        let mut state = self.load(now).await?;
        self.report(&state);
        let Some(mut round) = state.current.take() else {
            if !state.is_due(now, self.period) {
                return Ok(Done::All);
            }
            self.save(&state.begin(now)).await?;
            return Ok(Done::Some);
        };
        let Some(part) = self.parts().find(|part| !round.is_done(part.name())) else {
            self.save(&state.finish(round, now)).await?;
            return Ok(Done::Some);
        };
        let name = part.name();
        match self.check(part).await {
            Ok((report, took)) => round.note(name, &report, took),
            // The server is stopping. The next start continues with this part.
            Err(StoreError::Unavailable(_)) => return Ok(Done::All),
            Err(error) => return Err(error.into()),
        }
        self.save(&ScrubState { current: Some(round), ..state }).await?;
        Ok(Done::Some)
    }
}
