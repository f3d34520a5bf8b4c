//! Health of the server's components, from signals of the running process: whether the store accepts a write, whether tasks fail,
//! how far log consumers lag, how long deliveries wait. Once a minute the result is stored: minutes of uptime by day, and incidents
//! with their start and end. Both survive a restart.
//!
//! **Invariant:** nothing here names a tenant or shows text from one. Time during which the server did not run counts as down.

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

/// A task that fails this many times in a row makes its component degraded.
const FAILURES_UNTIL_DEGRADED: u32 = 3;
/// A log consumer that is this many events behind makes its component degraded.
const BEHIND_UNTIL_DEGRADED: u64 = 100_000;
/// How many days of history, and how many incidents, are shown.
const SHOWN_DAYS: u32 = 90;
const SHOWN_INCIDENTS: usize = 50;

vocabulary! {
    /// The reported components. Their positions in this list are stored.
    PartName:
    Api "api", Storage "storage", Webhooks "webhooks", Search "search", Workflows "workflows", Cloud "cloud", Backup "backup", Snapshots "snapshots",
}

impl PartName {
    /// Returns the component that a task belongs to, by the prefix of its name.
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

/// The state of the delivery queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    pub depth: u64,
    /// How long the oldest due delivery has waited.
    pub oldest: Option<Duration>,
}

/// Asks the dispatcher for the state of its queue.
pub type QueueProbe = Arc<dyn Fn() -> Queue + Send + Sync>;

/// The inputs of [`HealthMonitor::new`].
#[allow(missing_debug_implementations, reason = "it is destructured at once; a probe has no Debug")]
pub struct HealthParts {
    pub store: Store,
    pub clock: Clock,
    pub tasks: TaskBoard,
    pub queue: QueueProbe,
    /// The names of the log consumers. The prefix of a name determines its component.
    pub consumers: Vec<&'static str>,
}

/// Determines the health of the server's components from its signals, and keeps the last result of the slow write probe.
pub struct HealthMonitor {
    store: Store,
    clock: Clock,
    tasks: TaskBoard,
    queue: QueueProbe,
    consumers: Vec<&'static str>,
    started_at: Timestamp,
    /// Why the last test write failed or timed out.
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

    /// Reports deliveries and workflows as off from now on.
    pub fn enter_safe_mode(&self) {
        self.safe_mode.store(true, Ordering::Relaxed);
    }

    pub fn queue(&self) -> Queue {
        (self.queue)()
    }

    /// Returns how many events each log consumer is behind.
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
            (Some(_), ..) => (ComponentState::Down, "accepts no writes until the server restarts".to_owned()),
            (None, Some(seconds), _) => {
                (ComponentState::Down, format!("accepts no writes: one write has been running for {seconds} seconds"))
            }
            (None, None, Some(late)) => (ComponentState::Degraded, late),
            (None, None, None) => (ComponentState::Operational, "accepts reads and writes".to_owned()),
        };
        Component { name: PartName::Storage.name(), state, detail }
    }

    /// Returns the current health of each component. Works even if the store does not respond, and then reports that.
    pub fn components(&self) -> Vec<Component> {
        let statuses = self.tasks.statuses();
        // If the store does not respond, the lags are unknown, and the storage component reports the failure.
        let lags = self.lags().unwrap_or_default();
        let mut found = Vec::new();
        for part in PartName::ALL {
            let tasks: Vec<_> = statuses.iter().filter(|(task, _)| PartName::of_task(task) == *part).collect();
            let behind = lags.iter().find(|(name, lag)| PartName::of_task(name) == *part && *lag > BEHIND_UNTIL_DEGRADED);
            // This text is public, so it must not reveal how many events the tenants have.
            let behind = behind.map(|_| "is behind the event log".to_owned());
            let trouble = tasks.iter().find_map(|(task, status)| trouble(task, status)).or(behind);
            let works = if *part == PartName::Api { "answers requests" } else { "works" };
            let base = match part {
                PartName::Storage => self.storage(),
                PartName::Webhooks | PartName::Workflows if self.is_safe_mode() => {
                    let detail = "off: the server runs in safe mode".to_owned();
                    Component { name: part.name(), state: ComponentState::Degraded, detail }
                }
                // A component without tasks does not exist in this server.
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

    /// Whether the server accepts only reads, exports and deletions.
    pub fn is_read_only(&self) -> bool {
        self.store.ensure_room().is_err()
    }

    /// Whether the server accepts only reads, because nothing can be written.
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
