//! How the parts of the server are doing, from signals of the running process: whether the store takes a write, whether tasks fail, how far
//! readers of the log are behind, how long deliveries wait. Once a minute it is written down: minutes of uptime by day, and incidents with
//! their beginning and end, which a restart does not forget.
//!
//! **Invariant:** nothing here names a tenant or shows a text of one. A time in which the server did not run counts as down.

mod model;
mod repo;
mod watch;

pub use model::{Component, ComponentState, DayOfHealth, Health, Incident, SAFE_MODE};
pub(super) use repo::{DAYS, INCIDENTS};
pub(super) use watch::HealthWatch;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenantd_base::{
    clock::{Clock, Timestamp},
    vocabulary::vocabulary,
};
use tenantd_store::{
    Store, StoreError, events,
    tasks::{TaskBoard, TaskStatus},
};

/// A task that failed this often in a row makes its part degraded.
const FAILURES_UNTIL_DEGRADED: u32 = 3;
/// A reader that is this many events behind makes its part degraded.
const BEHIND_UNTIL_DEGRADED: u64 = 100_000;
/// Days of history and incidents that are shown.
const SHOWN_DAYS: u32 = 90;
const SHOWN_INCIDENTS: usize = 50;

vocabulary! {
    /// The parts that are told of. Their places are stored.
    PartName:
    Api "api", Storage "storage", Webhooks "webhooks", Search "search", Workflows "workflows", Cloud "cloud", Backup "backup", Snapshots "snapshots",
}

impl PartName {
    /// The part that a task works for, by the beginning of its name.
    fn of_task(task: &str) -> Self {
        let prefixes = [
            ("webhook", Self::Webhooks),
            ("search", Self::Search),
            ("workflow", Self::Workflows),
            ("cloud", Self::Cloud),
            ("backup", Self::Backup),
            ("snapshot", Self::Snapshots),
            ("disk", Self::Storage),
            ("store", Self::Storage),
            ("event", Self::Storage),
            ("idempotency", Self::Storage),
        ];
        prefixes.iter().find(|(prefix, _)| task.starts_with(prefix)).map_or(Self::Api, |(_, part)| *part)
    }
}

/// What deliveries tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    pub depth: u64,
    /// How long the oldest that is due has waited.
    pub oldest: Option<Duration>,
}

/// Asks the dispatcher how much waits.
pub type QueueProbe = Arc<dyn Fn() -> Queue + Send + Sync>;

/// What the monitor is made from.
#[allow(missing_debug_implementations, reason = "it is taken apart at once; a probe does not print")]
pub struct HealthParts {
    pub store: Store,
    pub clock: Clock,
    pub tasks: TaskBoard,
    pub queue: QueueProbe,
    /// The readers of the log, each with the part that it works for.
    pub consumers: Vec<&'static str>,
}

/// Finds out how the parts of the server are doing: the signals, and what was found with the last of the slow ones.
pub struct HealthMonitor {
    store: Store,
    clock: Clock,
    tasks: TaskBoard,
    queue: QueueProbe,
    consumers: Vec<&'static str>,
    started_at: Timestamp,
    /// Why the last trial of the way to the disk did not come back in time.
    probe: Mutex<Option<String>>,
    safe_mode: AtomicBool,
}

impl std::fmt::Debug for HealthMonitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HealthMonitor")
    }
}

impl HealthMonitor {
    pub fn new(parts: HealthParts) -> Self {
        let HealthParts { store, clock, tasks, queue, consumers } = parts;
        let started_at = clock.now();
        let safe_mode = AtomicBool::new(false);
        Self { store, clock, tasks, queue, consumers, started_at, probe: Mutex::default(), safe_mode }
    }

    /// Says from now on that deliveries and workflows are off.
    pub fn enter_safe_mode(&self) {
        self.safe_mode.store(true, Ordering::Relaxed);
    }

    pub fn queue(&self) -> Queue {
        (self.queue)()
    }

    /// How far each reader of the log is behind.
    pub fn lags(&self) -> Result<Vec<(&'static str, u64)>, StoreError> {
        self.store.read(|tx| {
            let head = events::head(tx)?;
            self.consumers.iter().map(|name| Ok((*name, head.saturating_sub(events::cursor(tx, name)?)))).collect()
        })
    }

    fn storage(&self) -> Component {
        let late = self.probe.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stalled = self.store.writer().stalled().map(|busy| busy.elapsed.as_secs());
        let (state, detail) = match (self.store.failure(), stalled, late) {
            (Some(_), ..) => (ComponentState::Down, "takes no changes; a restart is due".to_owned()),
            (None, Some(seconds), _) => {
                (ComponentState::Down, format!("takes no changes: one write has been under way for {seconds} seconds"))
            }
            (None, None, Some(late)) => (ComponentState::Degraded, late),
            (None, None, None) => (ComponentState::Operational, "takes reads and changes".to_owned()),
        };
        Component { name: PartName::Storage.name(), state, detail }
    }

    /// How the parts are doing now. Answers also when the store does not: that is then what it tells.
    pub fn components(&self) -> Vec<Component> {
        let statuses = self.tasks.statuses();
        // Without the store nobody knows how far the readers are, and the storage says so itself.
        let lags = self.lags().unwrap_or_default();
        let mut found = Vec::new();
        for part in PartName::ALL {
            let tasks: Vec<_> = statuses.iter().filter(|(task, _)| PartName::of_task(task) == *part).collect();
            let behind = lags.iter().find(|(name, lag)| PartName::of_task(name) == *part && *lag > BEHIND_UNTIL_DEGRADED);
            // Anyone can read this: it does not say how many events the tenants have.
            let behind = behind.map(|_| "is behind the log".to_owned());
            let trouble = tasks.iter().find_map(|(task, status)| trouble(task, status)).or(behind);
            let works = if *part == PartName::Api { "answers requests" } else { "works" };
            let base = match part {
                PartName::Storage => self.storage(),
                PartName::Webhooks | PartName::Workflows if self.is_safe_mode() => {
                    let detail = "off: the server runs in safe mode".to_owned();
                    Component { name: part.name(), state: ComponentState::Degraded, detail }
                }
                // A part that nothing works for is not in this server.
                _ if tasks.is_empty() && *part != PartName::Api => continue,
                part => Component { name: part.name(), state: ComponentState::Operational, detail: works.to_owned() },
            };
            found.push(match trouble {
                Some(detail) if base.state == ComponentState::Operational => {
                    Component { state: ComponentState::Degraded, detail, ..base }
                }
                _ => base,
            });
        }
        found
    }

    /// Whether the server was started in safe mode ([`SAFE_MODE`]).
    pub fn is_safe_mode(&self) -> bool {
        self.safe_mode.load(Ordering::Relaxed)
    }

    /// Whether only reads, exports and deletions are answered.
    pub fn is_read_only(&self) -> bool {
        self.store.ensure_room().is_err()
    }

    /// Whether only reads are answered: nothing at all can be written.
    pub fn is_exhausted(&self) -> bool {
        self.store.ensure_reserve().is_err()
    }

    pub fn health(&self) -> Result<Health, StoreError> {
        let (now, queue) = (self.clock.now(), self.queue());
        let (days, incidents) = self.store.read(|tx| {
            let first = repo::day_of(now).saturating_sub(SHOWN_DAYS - 1);
            let days = repo::days_since(tx, first)?;
            Ok::<_, StoreError>((days, repo::newest_incidents(tx, SHOWN_INCIDENTS)?))
        })?;
        let days = days.iter().flat_map(|(day, record)| record.shown(*day)).collect();
        let incidents = incidents.iter().filter_map(repo::IncidentRecord::shown).collect();
        Ok(Health {
            components: self.components(),
            days,
            incidents,
            queue_depth: queue.depth,
            oldest_undelivered_seconds: queue.oldest.map(|oldest| oldest.as_secs()),
            started_at: self.started_at,
            now,
        })
    }
}

fn trouble(task: &str, status: &TaskStatus) -> Option<String> {
    let failing = status.consecutive_failures >= FAILURES_UNTIL_DEGRADED;
    let failed = failing.then(|| format!("{} failed {} times in a row", task.replace('_', " "), status.consecutive_failures));
    failed.or_else(|| status.concern.clone())
}

impl repo::DayRecord {
    fn shown(&self, day: u32) -> impl Iterator<Item = DayOfHealth> {
        let date = repo::start_of(day).to_string().get(..10).unwrap_or_default().to_owned();
        self.parts.iter().filter_map(move |part| {
            let name = PartName::ALL.get(usize::from(part.part))?;
            let all = part.operational + part.degraded + part.down;
            let up = f64::from(all - part.down) / f64::from(all.max(1)) * 100.0;
            Some(DayOfHealth {
                date: date.clone(),
                component: name.name(),
                operational_minutes: part.operational,
                degraded_minutes: part.degraded,
                down_minutes: part.down,
                uptime_percent: (up * 1000.0).round() / 1000.0,
            })
        })
    }
}

impl repo::IncidentRecord {
    fn shown(&self) -> Option<Incident> {
        let component = PartName::ALL.get(usize::from(self.part))?.name();
        let state = if self.down { ComponentState::Down } else { ComponentState::Degraded };
        let (opened_at, closed_at, detail) = (self.opened_at, self.closed_at, self.detail.clone());
        Some(Incident { component, state, opened_at, closed_at, detail })
    }
}
