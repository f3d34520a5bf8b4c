//! The health of the server's components: current state, daily history and incidents.

use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::clock::Timestamp;

/// Explains safe mode to the operator.
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

/// A component of the server and its current state.
#[derive(Clone, Debug, Serialize)]
pub struct Component {
    pub name: &'static str,
    pub state: ComponentState,
    pub detail: String,
}

/// The minutes that a component spent in each state on one day (UTC).
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
    /// Deliveries that are waiting.
    pub queue_depth: u64,
    pub oldest_undelivered_seconds: Option<u64>,
    pub started_at: Timestamp,
    pub now: Timestamp,
}

impl Health {
    /// Returns the worst state of any component.
    pub fn state(&self) -> ComponentState {
        self.components.iter().map(|component| component.state).max().unwrap_or(ComponentState::Operational)
    }
}
