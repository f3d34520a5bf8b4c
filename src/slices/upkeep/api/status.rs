//! `/readyz` and what the status page shows: whether the server is ready, and the state of its components and of the installation.
//! The `analytics` slice determines the state of the components. **Invariant:** nothing here comes from a tenant.

use std::{future::ready as ready_future, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::StatusCode;
use poem::Response;
use serde::Serialize;
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;

use tenantd_analytics::{ComponentState, HealthMonitor, SAFE_MODE};
use tenantd_base::clock::Timestamp;
use tenantd_http::{
    pages::{Page, PageVisit, Readers, json_response},
    problem::Problem,
};
use tenantd_store::{
    Store, StoreError,
    tasks::{ScrubState, scrub_state},
};

use super::super::{
    disk::Disk,
    model::{Run, RunKind},
    repo,
};

/// `/readyz`.
#[derive(Debug)]
pub(crate) struct Readiness {
    pub(crate) health: Arc<HealthMonitor>,
}

impl Page for Readiness {
    fn serves(&self, path: &str) -> bool {
        path == "/readyz"
    }

    fn readers(&self, _path: &str) -> Readers {
        Readers::Everyone
    }

    fn answer<'a>(&'a self, _visit: &'a PageVisit<'a>) -> BoxFuture<'a, Result<Response, Problem>> {
        Box::pin(ready_future(Ok(ready(&self.health))))
    }
}

/// What the status page shows.
#[derive(Debug)]
pub struct StatusSource {
    pub(crate) store: Store,
    pub(crate) disk: Arc<Disk>,
    pub(crate) health: Arc<HealthMonitor>,
}

impl StatusSource {
    /// The state of the server. Operators also see the installation.
    pub fn report(&self, for_operator: bool) -> Result<Value, Problem> {
        let health = self.health.health()?;
        let mut body = json!({
            "state": health.state(),
            "version": env!("CARGO_PKG_VERSION"),
            "started_at": health.started_at,
            "uptime_seconds": health.now.since(health.started_at).as_secs(),
            "components": health.components,
            "queue_depth": health.queue_depth,
            "history": health.days,
            "incidents": health.incidents,
        });
        note_safe_mode(&self.health, &mut body);
        if let (Some(seconds), Some(body)) = (health.oldest_undelivered_seconds, body.as_object_mut()) {
            body.insert("oldest_undelivered_seconds".to_owned(), seconds.into());
        }
        if let (true, Some(body)) = (for_operator, body.as_object_mut()) {
            body.insert("installation".to_owned(), serde_json::to_value(self.facts()?).map_err(Problem::internal)?);
        }
        Ok(body)
    }

    fn facts(&self) -> Result<InstallationFacts, StoreError> {
        let shown = |run: Run| RunFacts {
            at: run.at,
            path: run.path,
            seconds: run.took.as_secs_f64(),
            records: run.records,
            failure: run.failure,
        };
        let seen = self.disk.seen();
        self.store.read(|tx| {
            let newest = |wanted: &dyn Fn(&Run) -> bool| Ok::<_, StoreError>(repo::newest(tx, wanted)?.map(shown));
            Ok(InstallationFacts {
                disk_state: seen.map(|seen| seen.sample.fill.name()),
                disk_free_bytes: seen.map(|seen| seen.sample.space.free),
                disk_total_bytes: seen.map(|seen| seen.sample.space.total),
                disk_reserve_bytes: seen.map(|_| self.store.volume().reserve().left),
                days_to_full: seen.and_then(|seen| seen.days_to_full).map(|days| (days * 10.0).round() / 10.0),
                last_verified_snapshot: newest(&Run::is_snapshot)?,
                last_snapshot_failure: newest(&|run| run.kind != RunKind::Drill && !run.is_good())?,
                last_drill: newest(&|run| run.kind == RunKind::Drill)?,
                scrub: scrub_state(tx)?.map(ScrubFacts::new),
                last_offsite_backup: newest(&|run| run.kind == RunKind::Offsite)?,
            })
        })
    }
}

/// The result of a snapshot or of a restore drill.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
struct RunFacts {
    at: Timestamp,
    path: String,
    seconds: f64,
    records: u64,
    failure: Option<String>,
}

/// The progress of the rounds that read the whole store.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
struct ScrubFacts {
    /// When the last round ended, and when the last round without problems ended.
    ended_at: Option<Timestamp>,
    last_sound_at: Option<Timestamp>,
    seconds: Option<f64>,
    records: Option<u64>,
    /// The problems of the current round, if it has found any, else those of the last one.
    problems: u64,
    first_problems: Vec<String>,
    /// When the current round began, and how many parts of the store it has read.
    began_at: Option<Timestamp>,
    parts_done: Option<usize>,
}

impl ScrubFacts {
    fn new(state: ScrubState) -> Self {
        let problems = state.problems().cloned().unwrap_or_default();
        let (last, current) = (state.last.as_ref(), state.current.as_ref());
        Self {
            ended_at: last.map(|last| last.ended_at),
            last_sound_at: state.last_sound_at,
            seconds: last.map(|last| Duration::from_millis(last.worked_milliseconds).as_secs_f64()),
            records: last.map(|last| last.records),
            problems: problems.number,
            first_problems: problems.first,
            began_at: current.map(|round| round.began_at),
            parts_done: current.map(|round| round.done.len()),
        }
    }
}

/// Information about the installation for operators. Unknown values are omitted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
struct InstallationFacts {
    disk_state: Option<&'static str>,
    disk_free_bytes: Option<u64>,
    disk_total_bytes: Option<u64>,
    disk_reserve_bytes: Option<u64>,
    /// The number of days until changes are refused, at the rate of the last weeks.
    days_to_full: Option<f64>,
    last_verified_snapshot: Option<RunFacts>,
    last_snapshot_failure: Option<RunFacts>,
    last_drill: Option<RunFacts>,
    scrub: Option<ScrubFacts>,
    last_offsite_backup: Option<RunFacts>,
}

fn ready(source: &HealthMonitor) -> Response {
    let components = source.components();
    let down = || components.iter().filter(|component| component.state == ComponentState::Down);
    let failing: Vec<&str> = down().map(|component| component.name).collect();
    let (status, mut body) = if !failing.is_empty() {
        let reasons: Map<String, Value> = down().map(|part| (part.name.to_owned(), part.detail.clone().into())).collect();
        (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "not_ready", "failing": failing, "reasons": reasons}))
    } else if source.is_read_only() {
        // Report ready: if a load balancer stopped sending requests, reads would fail too.
        let detail = if source.is_exhausted() {
            "The disk is full and the reserve is used up. The server answers only reads."
        } else {
            "The disk is nearly full. The server answers reads, exports, deletions and sign-ins, and refuses other changes."
        };
        (StatusCode::OK, json!({"status": "read_only", "reason": "disk_full", "detail": detail}))
    } else {
        (StatusCode::OK, json!({"status": "ready"}))
    };
    note_safe_mode(source, &mut body);
    json_response(status, &body)
}

fn note_safe_mode(source: &HealthMonitor, body: &mut Value) {
    if let (true, Some(body)) = (source.is_safe_mode(), body.as_object_mut()) {
        body.insert("mode".to_owned(), "safe".into());
        body.insert("detail".to_owned(), SAFE_MODE.into());
    }
}
