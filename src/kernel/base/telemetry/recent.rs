//! The most recent log lines, for troubleshooting. Request lines are excluded, because they are many and say little.
//!
//! **Invariant:** only our own text is kept of an event: its message, which is written in the source, and fields whose values are
//! our own words and numbers. Error texts, paths, hosts and names may contain what tenants wrote, so they are not kept.

use std::{
    collections::VecDeque,
    fmt::Debug,
    sync::{Mutex, PoisonError},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use crate::clock::Clock;

const MOST_LINES: usize = 500;
/// Only request lines have this field.
const OF_REQUESTS: &str = "millis";
/// Fields whose values are our own.
const OUR_FIELDS: [&str; 16] = [
    "address",
    "class",
    "code",
    "connections",
    "documents",
    "failures",
    "from",
    "operation",
    "percent",
    "resealed",
    "retry_in_seconds",
    "seq",
    "status",
    "task",
    "version",
    "work",
];

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// The lines, oldest first.
pub fn recent_lines() -> Vec<String> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

pub(super) struct KeepRecent;

impl<S: Subscriber> Layer<S> for KeepRecent {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let about = event.metadata();
        if about.fields().field(OF_REQUESTS).is_some() {
            return;
        }
        let mut line = Line(format!("{} {} {}", Clock::System.now(), about.level(), about.target()));
        event.record(&mut line);
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= MOST_LINES {
            lines.pop_front();
        }
        lines.push_back(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0.push_str(&format!(": {value:?}")),
            name if OUR_FIELDS.contains(&name) => self.0.push_str(&format!(" {name}={value:?}")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn a_line_contains_nothing_that_a_tenant_wrote() {
        let subscriber = tracing_subscriber::registry().with(KeepRecent);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(path = "/canary", millis = 1.5, "request");
            for _ in 0..MOST_LINES {
                tracing::info!("another line");
            }
            tracing::warn!(task = "webhook_dispatch", failures = 3, error = "canary of Acme", path = "/canary", "a task failed");
        });
        let lines = recent_lines();
        let line = lines.iter().find(|line| line.contains("a task failed")).unwrap();
        assert!(line.ends_with(": a task failed task=\"webhook_dispatch\" failures=3"), "{line}");
        assert!(!lines.iter().any(|line| line.contains("canary")));
        assert!(lines.len() <= MOST_LINES);
    }
}
