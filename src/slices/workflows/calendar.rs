//! Schedules start runs when their times come. Times that passed while nobody looked are left out or made up for once, as the trigger
//! says.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value};

use super::{
    definition::{GRACE, Schedule},
    engine::Engine,
    error::WorkflowError,
    model::{RunTrigger, Workflow},
    repo,
    service::{NewRun, Service},
};
use crate::kernel::{
    clock::{Clock, Timestamp},
    events::{Act, Actor, Intent},
    store::{Store, WriteTx, catalog},
    tasks::{Done, Task, TaskError},
};

/// How many workflows one transaction touches.
const BATCH: usize = 100;

#[derive(Debug)]
pub(super) struct Calendar {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) service: Arc<Service>,
    pub(super) engine: Engine,
    pub(super) seen: AtomicU64,
    pub(super) next: Mutex<Option<Timestamp>>,
}

/// Starts what is due of a workflow, and sets its next time.
fn fire(service: &Service, tx: &mut WriteTx, act: &mut Act, seen: &Workflow) -> Result<(), WorkflowError> {
    let Some(before) = repo::workflows::get(tx, seen.tenant_id, seen.id)?.filter(|workflow| workflow == seen) else {
        return Ok(());
    };
    let definition = service.definition(tx, before.tenant_id, before.id, before.version);
    let schedules: Vec<Schedule> = match &definition {
        Ok(definition) => definition.schedules().cloned().collect(),
        // What this release cannot read has no times.
        Err(WorkflowError::Invalid(_)) => Vec::new(),
        Err(_) => return definition.map(drop),
    };
    let now = act.now;
    for at in schedules.iter().filter_map(|schedule| due(schedule, before.scheduled_until, now)) {
        let new = NewRun {
            inputs: Value::Object(Map::new()),
            event: None,
            trigger: RunTrigger::Schedule { at },
            subject_id: None,
            depth: 0,
            retry_of: None,
        };
        service.start_unasked(tx, act, &before, &new)?;
    }
    let mut workflow = before.clone();
    workflow.scheduled_until = act.now;
    workflow.next_fire_at = schedules.iter().filter_map(|schedule| schedule.next(act.now)).min();
    Ok(repo::workflows::put(tx, &workflow, Some(&before))?)
}

/// The time that a run is started for: the one that has just come, or one for all that were missed.
fn due(schedule: &Schedule, handled: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let first = schedule.next(handled).filter(|at| *at <= now)?;
    // Of the times within the grace the last one counts.
    let fresh = schedule.next(Timestamp::from_millis((now - GRACE).max(handled).as_millis())).filter(|at| *at <= now);
    fresh.or(schedule.run_missed.then_some(first))
}

impl Task for Calendar {
    fn name(&self) -> &'static str {
        "workflow_calendar"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let timer = async {
            match next {
                Some(at) => self.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.store.changed(catalog::WORKFLOWS_BY_SCHEDULE, self.seen.load(Ordering::SeqCst)) => {}
            () = timer => {}
        }
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.seen.store(self.store.version(catalog::WORKFLOWS_BY_SCHEDULE), Ordering::SeqCst);
        let now = self.clock.now();
        let (due, next) = self.store.read(|tx| repo::workflows::scheduled(tx, now, BATCH))?;
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = next;
        if due.is_empty() {
            return Ok(Done::All);
        }
        let service = self.service.clone();
        let intents: Vec<(Intent, Workflow)> = due
            .into_iter()
            .map(|workflow| (Intent::new(workflow.tenant_id, now, Actor::system("Workflow calendar")), workflow))
            .collect();
        self.store
            .write(move |tx| {
                for (intent, workflow) in &intents {
                    fire(&service, tx, &mut intent.begin(), workflow)?;
                }
                Ok::<_, WorkflowError>(())
            })
            .await
            .map_err(|error| TaskError(error.to_string()))?;
        self.engine.wake();
        Ok(Done::Some)
    }
}
