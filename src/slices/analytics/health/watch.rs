//! Checks the components once a minute and stores the result: minutes by day, the start and end of incidents, and the uptime
//! minutes of the server for the platform's metrics. The first check after a start counts the time since the last check before it
//! as down.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenantd_base::clock::Timestamp;
use tenantd_store::{
    StoreError, WriteTx,
    tasks::{Done, Task, TaskError},
};

use super::{
    super::{
        model::{Changes, INSTALLATION, Measure, Series},
        repo as roll_ups,
    },
    Component, ComponentState, HealthMonitor, PartName,
    repo::{self, IncidentRecord, Minutes},
};

const PERIOD: Duration = Duration::from_mins(1);
/// A write that takes longer makes the storage component degraded.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// An incident that recurs this soon is reopened, so that a flapping component does not fill the list.
const SAME_INCIDENT: Duration = Duration::from_mins(10);
/// If the server was off for longer than this, that is an incident.
const SHORT_PAUSE: Duration = Duration::from_mins(5);
const KEPT_DAYS: u32 = 400;
/// How many days of an outage are counted as down, at most. Earlier days appear only in its incident.
const MOST_PAUSE_DAYS: u32 = 90;
const FORGET_STEP: usize = 100;
const NOT_RUNNING: &str = "the server did not run";

#[derive(Debug)]
pub(crate) struct HealthWatch {
    monitor: Arc<HealthMonitor>,
    /// Whether a check has run since the server started.
    looked: AtomicBool,
}

impl HealthWatch {
    pub(crate) fn new(monitor: Arc<HealthMonitor>) -> Self {
        Self { monitor, looked: AtomicBool::new(false) }
    }

    async fn probe(&self, now: Timestamp) {
        let outcome = tokio::time::timeout(PROBE_TIMEOUT, self.monitor.store.probe(now)).await;
        let late = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(_)) => Some("a test write failed".to_owned()),
            Err(_) => Some(format!("a write takes longer than {} seconds", PROBE_TIMEOUT.as_secs())),
        };
        *self.monitor.probe.lock().unwrap_or_else(PoisonError::into_inner) = late;
    }
}

impl Task for HealthWatch {
    fn name(&self) -> &'static str {
        "health_watch"
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        if self.monitor.is_exhausted() {
            // Nothing can be stored. The disk watch reports the reason.
            return Ok(Done::All);
        }
        let now = self.monitor.clock.now();
        self.probe(now).await;
        let components = self.monitor.components();
        let first = !self.looked.load(Ordering::SeqCst);
        self.monitor.store.write(move |tx| note(tx, now, &components, first)).await?;
        self.looked.store(true, Ordering::SeqCst);
        Ok(Done::All)
    }
}

fn part_index(name: &str) -> Option<u8> {
    PartName::parse(name).map(|part| part as u8)
}

/// Stores the result of one check.
fn note(tx: &mut WriteTx, now: Timestamp, components: &[Component], first: bool) -> Result<(), StoreError> {
    let last = repo::last_check_at(tx)?;
    let pause = last.map_or(Duration::ZERO, |last| now.since(last));
    let was_off = first && pause > SHORT_PAUSE;
    let mut up = Changes::default();
    if let (true, Some(last)) = (was_off, last) {
        note_pause(tx, last, now, components, &mut up)?;
    }
    // A check counts for the minute before it, even if the clock jumps while the server runs.
    let minutes = u32::from(last.is_none_or(|last| was_off || now.since(last) >= PERIOD));
    let added: Vec<(u8, Minutes)> = components
        .iter()
        .filter_map(|component| {
            let mut counted = Minutes::default();
            match component.state {
                ComponentState::Operational => counted.operational = minutes,
                ComponentState::Degraded => counted.degraded = minutes,
                ComponentState::Down => counted.down = minutes,
            }
            Some((part_index(component.name)?, counted))
        })
        .collect();
    repo::add_minutes(tx, repo::day_of(now), now, &added)?;
    let down = components.iter().any(|component| component.state == ComponentState::Down);
    let counted = |count: u32| Measure::counted(u64::from(count));
    up.add_to(INSTALLATION, Series::MinutesWatched, "", now, &counted(minutes));
    up.add_to(INSTALLATION, Series::MinutesUp, "", now, &counted(if down { 0 } else { minutes }));
    roll_ups::add(tx, &up, 0)?;
    note_incidents(tx, now, components)?;
    repo::forget(tx, repo::day_of(now).saturating_sub(KEPT_DAYS), FORGET_STEP)
}

/// Counts time during which the server did not run as down.
fn note_pause(
    tx: &mut WriteTx,
    last: Timestamp,
    now: Timestamp,
    components: &[Component],
    up: &mut Changes,
) -> Result<(), StoreError> {
    let (first_day, last_day) = (repo::day_of(last), repo::day_of(now));
    for day in first_day.max(last_day.saturating_sub(MOST_PAUSE_DAYS))..=last_day {
        let (from, to) = (repo::start_of(day).max(last), repo::start_of(day + 1).min(now));
        let down = u32::try_from(to.since(from).as_secs() / 60).unwrap_or_default();
        let parts = components.iter().filter_map(|component| part_index(component.name));
        let added: Vec<(u8, Minutes)> = parts.map(|part| (part, Minutes { down, ..Minutes::default() })).collect();
        repo::add_minutes(tx, day, from, &added)?;
        up.add_to(INSTALLATION, Series::MinutesWatched, "", from, &Measure::counted(u64::from(down)));
    }
    let (part, detail) = (part_index(PartName::Api.name()).unwrap_or_default(), NOT_RUNNING.to_owned());
    repo::put_incident(tx, &IncidentRecord { part, down: true, opened_at: last, closed_at: Some(now), detail })
}

/// Opens an incident for each component that is not operational, and closes the incidents of components that are.
fn note_incidents(tx: &mut WriteTx, now: Timestamp, components: &[Component]) -> Result<(), StoreError> {
    let known = repo::newest_incidents(tx, super::SHOWN_INCIDENTS)?;
    for component in components {
        let Some(part) = part_index(component.name) else { continue };
        let newest = known.iter().find(|incident| incident.part == part && incident.detail != NOT_RUNNING);
        let open = newest.filter(|incident| incident.closed_at.is_none());
        let recent = newest.filter(|incident| incident.closed_at.is_some_and(|closed| now.since(closed) < SAME_INCIDENT));
        let (well, down) = (component.state == ComponentState::Operational, component.state == ComponentState::Down);
        let changed = match (open, well) {
            (Some(incident), true) => IncidentRecord { closed_at: Some(now), ..incident.clone() },
            (Some(incident), false) if down && !incident.down => IncidentRecord { down, ..incident.clone() },
            (None, false) => match recent {
                Some(incident) => IncidentRecord { closed_at: None, down: down || incident.down, ..incident.clone() },
                None => IncidentRecord { part, down, opened_at: now, closed_at: None, detail: component.detail.clone() },
            },
            (Some(_), false) | (None, true) => continue,
        };
        repo::put_incident(tx, &changed)?;
    }
    Ok(())
}
