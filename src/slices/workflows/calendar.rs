//! Schedules start runs when their times come. Times that passed while nobody looked are left out or made up for once, as the trigger
//! says.

use std::{sync::Arc, time::Duration};

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
    clock::Timestamp,
    events::{Act, Actor, Intent},
    store::{Due, Store, WriteTx},
    tasks::{Alarm, Done, Task, TaskError},
};

/// How many workflows one transaction touches.
const BATCH: usize = 100;

#[derive(Debug)]
pub(super) struct Calendar {
    pub(super) store: Store,
    pub(super) alarm: Alarm,
    pub(super) service: Arc<Service>,
    pub(super) engine: Engine,
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
        self.alarm.ring().await;
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let reading = self.alarm.look();
        let Due { found: due, next } = self.store.read(|tx| repo::workflows::scheduled(tx, &reading, BATCH))?;
        self.alarm.set(next);
        if due.is_empty() {
            return Ok(Done::All);
        }
        let service = self.service.clone();
        let intents: Vec<(Intent, Workflow)> = due
            .into_iter()
            .map(|workflow| {
                let tenant = workflow.tenant_id;
                (Intent::new(tenant, reading.of(tenant), Actor::system("Workflow calendar")), workflow)
            })
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
