//! Starts runs by schedule. Occurrences that were missed are skipped or made up for once, depending on the trigger.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::{Map, Value};

use tenantd_base::{
    clock::Timestamp,
    id::RunId,
    programs::{Budget, Programs},
};
use tenantd_platform::Tenants;
use tenantd_store::{
    Due, Read, Store, WriteTx,
    events::{Actor, Intent},
    tasks::{Alarm, Done, Task, TaskError},
};

use super::{
    definition::{GRACE, Schedule},
    engine::Engine,
    error::WorkflowError,
    model::{RunTrigger, Workflow},
    repo,
    service::{NewRun, ReadyRun, Service},
};

/// How many workflows one transaction changes.
const BATCH: usize = 100;

#[derive(Debug)]
pub(super) struct Calendar {
    pub(super) store: Store,
    pub(super) alarm: Alarm,
    pub(super) service: Arc<Service>,
    pub(super) engine: Engine,
    pub(super) programs: Programs,
    pub(super) tenants: Tenants,
}

/// A due workflow: the runs to start, and its next occurrence.
#[derive(Debug)]
struct Firing {
    seen: Workflow,
    /// While the tenant is suspended, nothing starts and the occurrences count as missed.
    suspended: bool,
    intent: Intent,
    runs: Vec<ReadyRun>,
    next_fire_at: Option<Timestamp>,
}

/// Computes, on a worker, the runs that a workflow starts now.
fn firing(
    service: &Service,
    tx: &impl Read,
    intent: Intent,
    seen: Workflow,
    suspended: bool,
    budget: &Budget,
) -> Result<Firing, WorkflowError> {
    let program = match service.program(tx, budget, (seen.tenant_id, seen.id, seen.version)) {
        Ok(program) => program,
        // A definition that this release cannot read has no occurrences.
        Err(WorkflowError::Invalid(_)) => return Ok(Firing { seen, suspended, intent, runs: Vec::new(), next_fire_at: None }),
        Err(error) => return Err(error),
    };
    let now = intent.now;
    let mut ids = Intent::new(seen.tenant_id, now, intent.actor.clone()).begin().entropy;
    let mut runs = Vec::new();
    let schedules = program.schedules.iter().filter(|_| !suspended);
    for at in schedules.filter_map(|schedule| due(schedule, seen.scheduled_until, now)) {
        let new = NewRun {
            id: RunId::new(now, &mut ids),
            inputs: Value::Object(Map::new()),
            event: None,
            trigger: RunTrigger::Schedule { at },
            subject_id: None,
            depth: 0,
            retry_of: None,
            cause: None,
        };
        runs.push(service.ready(tx, &seen, seen.version, new, budget)?);
    }
    Ok(Firing { seen, suspended, intent, runs, next_fire_at: program.next_fire(now) })
}

/// Starts the runs and sets the next occurrence, if the workflow has not changed since.
fn fire(service: &Service, tx: &mut WriteTx, firing: &Firing) -> Result<(), WorkflowError> {
    let Firing { seen, suspended, intent, runs, next_fire_at } = firing;
    let mut act = intent.begin();
    let Some(before) = repo::workflows::get(tx, seen.tenant_id, seen.id)?.filter(|workflow| workflow == seen) else {
        return Ok(());
    };
    for ready in runs {
        service.start_within_quotas(tx, &mut act, &before, ready)?;
    }
    let mut workflow = before.clone();
    if !suspended {
        workflow.scheduled_until = act.now;
    }
    workflow.next_fire_at = *next_fire_at;
    Ok(repo::workflows::put(tx, &workflow, Some(&before))?)
}

/// The occurrence to start a run for: the one within the grace period, or else the first missed one if missed runs are made up for.
fn due(schedule: &Schedule, handled: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let first = schedule.next(handled).filter(|at| *at <= now)?;
    // An occurrence within the grace period was not missed.
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
        // Each runs in its tenant's turn, so that an expensive one does not delay the others.
        let mut asked = Vec::with_capacity(due.len());
        for workflow in due {
            let suspended = self.tenants.is_suspended(workflow.tenant_id)?;
            asked.push((workflow, suspended));
        }
        let found = join_all(asked.into_iter().map(|(workflow, suspended)| {
            let tenant = workflow.tenant_id;
            let intent = Intent::new(tenant, reading.of(tenant), Actor::system("Workflow calendar"));
            let (service, store) = (self.service.clone(), self.store.clone());
            self.programs.run(tenant, move |budget| store.read(|tx| firing(&service, tx, intent, workflow, suspended, budget)))
        }));
        let (mut firings, mut failed) = (Vec::new(), None);
        for firing in found.await {
            match firing.map_err(WorkflowError::from).and_then(|firing| firing) {
                Ok(firing) => firings.push(firing),
                Err(error) => failed = Some(TaskError(error.to_string())),
            }
        }
        if let (true, Some(error)) = (firings.is_empty(), failed) {
            return Err(error);
        }
        let (service, tenants) =
            (self.service.clone(), firings.iter().map(|firing| firing.seen.tenant_id).collect::<BTreeSet<_>>());
        self.store
            .write(move |tx| firings.iter().try_for_each(|firing| fire(&service, tx, firing)))
            .await
            .map_err(|error: WorkflowError| TaskError(error.to_string()))?;
        for tenant in tenants {
            self.engine.wake(tenant);
        }
        Ok(Done::Some)
    }
}
