//! How the parts of the server are doing: now, over the last days, and what went wrong when.

use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::clock::Timestamp;

/// What safe mode means, for the operator.
pub const SAFE_MODE: &str = "Safe mode: workflow triggers, schedules and runs, and webhook deliveries are off. They continue after a \
                             normal start.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComponentState {
    Operational,
    Degraded,
    Down,
}

impl ComponentState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operational => "operational",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

/// A part of the server.
#[derive(Clone, Debug, Serialize)]
pub struct Component {
    pub name: &'static str,
    pub state: ComponentState,
    pub detail: String,
}

/// How a part did on a day, in minutes (UTC).
#[derive(Clone, Debug, Serialize)]
pub struct DayOfHealth {
    pub date: String,
    pub component: &'static str,
    pub operational_minutes: u32,
    pub degraded_minutes: u32,
    pub down_minutes: u32,
    pub uptime_percent: f64,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct Incident {
    pub component: &'static str,
    pub state: ComponentState,
    pub opened_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub detail: String,
}

#[derive(Clone, Debug)]
pub struct Health {
    pub components: Vec<Component>,
    /// The oldest first.
    pub days: Vec<DayOfHealth>,
    /// The newest first.
    pub incidents: Vec<Incident>,
    /// Deliveries of events that wait.
    pub queue_depth: u64,
    pub oldest_undelivered_seconds: Option<u64>,
    pub started_at: Timestamp,
    pub now: Timestamp,
}

impl Health {
    /// The state of the part that does worst.
    pub fn state(&self) -> ComponentState {
        self.components.iter().map(|component| component.state).max().unwrap_or(ComponentState::Operational)
    }
}
