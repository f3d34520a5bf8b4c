//! Reads the log: events start runs, and runs that wait for an event go on with it. The cursor moves in the transaction of what an
//! event has led to, so no event is handled twice; a run also knows the event that started it.
//!
//! While no event concerns anybody the cursor is kept in memory and written now and then: events that nobody wanted may be read again
//! after a restart. They are none of the business of a workflow that was made or changed after them.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value};

use super::{
    definition::{StepKind, Trigger},
    engine::{Engine, build_context},
    error::WorkflowError,
    language::{self, Context},
    model::{Run, RunTrigger, Workflow},
    repo::{self, runs::RunKey},
    service::{MAX_DEPTH, NewRun, Service, Stage, depth_below},
};
use crate::kernel::{
    clock::Timestamp,
    clocks::Clocks,
    events::{self, Actor, Event, Intent},
    id::RunId,
    store::{Read, Store, StoreError, WriteTx, catalog},
    tasks::{Done, Task, TaskError},
};

pub const CURSOR: &str = "workflow_triggers";
const BATCH: usize = 256;
/// How far the cursor in memory may be ahead of the stored one.
const UNWRITTEN: u64 = 2_000;
/// How many waiting runs one transaction lets go on.
const WOKEN_AT_ONCE: usize = 100;

#[derive(Debug)]
pub(super) struct EventReader {
    store: Store,
    clocks: Clocks,
    service: Arc<Service>,
    engine: Engine,
    seen: AtomicU64,
    /// The last event that was looked at, and the last that the store knows of.
    position: Mutex<Option<(u64, u64)>>,
}

/// What an event leads to.
#[derive(Debug)]
struct Consequences {
    seq: u64,
    intent: Intent,
    starts: Vec<(Workflow, NewRun)>,
    waiting: Vec<RunKey>,
    body: Value,
}

impl EventReader {
    pub(super) fn new(store: Store, clocks: Clocks, service: Arc<Service>, engine: Engine) -> Self {
        Self { store, clocks, service, engine, seen: AtomicU64::new(0), position: Mutex::new(None) }
    }

    fn position(&self) -> std::sync::MutexGuard<'_, Option<(u64, u64)>> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_position(&self) -> Result<(), StoreError> {
        let Some((looked, stored)) = *self.position() else { return Ok(()) };
        if looked > stored {
            self.store.write_derived(move |tx| events::set_cursor(tx, CURSOR, looked)).await?;
            *self.position() = Some((looked, looked));
        }
        Ok(())
    }

    /// Lets the runs go on that wait for the events, starts what the events start, and moves the cursor with it.
    async fn follow(&self, found: Vec<Consequences>, last: u64) -> Result<(), WorkflowError> {
        // First those that wait: each goes on once, however often this is done.
        for Consequences { seq, intent, waiting, body, .. } in &found {
            for keys in waiting.chunks(WOKEN_AT_ONCE) {
                let (service, keys, intent, seq, body) = (self.service.clone(), keys.to_vec(), intent.clone(), *seq, body.clone());
                self.store
                    .write(move |tx| {
                        let mut act = intent.begin();
                        for key in &keys {
                            go_on(&service, tx, &mut act, *key, seq, &body)?;
                        }
                        Ok::<_, WorkflowError>(())
                    })
                    .await?;
            }
        }
        let service = self.service.clone();
        self.store
            .write(move |tx| {
                for Consequences { intent, starts, .. } in &found {
                    let mut act = intent.begin();
                    for (seen, new) in starts {
                        start(&service, tx, &mut act, seen, new)?;
                    }
                }
                events::set_cursor(tx, CURSOR, last)?;
                Ok::<_, WorkflowError>(())
            })
            .await?;
        *self.position() = Some((last, last));
        self.engine.wake();
        Ok(())
    }
}

/// Starts a run by an event, unless the event has started one already.
fn start(service: &Service, tx: &mut WriteTx, act: &mut events::Act, seen: &Workflow, new: &NewRun) -> Result<(), WorkflowError> {
    let RunTrigger::Event { id, .. } = &new.trigger else { return Ok(()) };
    if repo::runs::started_by(tx, seen.tenant_id, seen.id, *id)?.is_some() {
        return Ok(());
    }
    // It may have been changed since the event was matched.
    match repo::workflows::get(tx, seen.tenant_id, seen.id)? {
        Some(workflow) if workflow.is_live() && workflow.version == seen.version => {
            service.start_unasked(tx, act, &workflow, new).map(drop)
        }
        _ => Ok(()),
    }
}

/// Lets a run go on whose step waits for the event.
fn go_on(
    service: &Service,
    tx: &mut WriteTx,
    act: &mut events::Act,
    key: RunKey,
    seq: u64,
    body: &Value,
) -> Result<(), WorkflowError> {
    let Some(run) = repo::runs::get(tx, key)?.filter(|run| !run.status.has_ended()) else { return Ok(()) };
    let mut met = Vec::new();
    for token in &run.tokens {
        if awaits(service, tx, &run, token.id, seq, body)? {
            met.push(token.id);
        }
    }
    if met.is_empty() {
        return Ok(());
    }
    let Some(mut stage) = Stage::open(service, tx, act, key)? else { return Ok(()) };
    for token in met {
        stage.finish(token, None, body.clone(), &[])?;
    }
    stage.save().map(drop)
}

/// Whether a token of the run waits for this event.
fn awaits(service: &Service, tx: &impl Read, run: &Run, token: u32, seq: u64, body: &Value) -> Result<bool, WorkflowError> {
    let Some(token) = run.token(token) else { return Ok(false) };
    let Some((kind, resource, after)) = token.awaited() else { return Ok(false) };
    let same = body.get("type").and_then(Value::as_str) == Some(kind);
    let about = body.pointer("/resource/id").and_then(Value::as_str);
    if !same || seq <= after || resource.is_some_and(|wanted| Some(wanted) != about) {
        return Ok(false);
    }
    let definition = service.definition(tx, run.tenant_id, run.workflow_id, run.workflow_version)?;
    let number = definition.block(token.block).get(token.at as usize);
    let Some(step) = number.and_then(|number| definition.step(*number)) else { return Ok(false) };
    let StepKind::WaitEvent { condition, .. } = &step.kind else { return Ok(false) };
    let Some(condition) = condition else { return Ok(true) };
    let mut context = build_context(tx, run, &definition, token, step)?;
    context.0.insert("event".to_owned(), body.clone());
    // A condition that cannot be evaluated for this event does not hold for it.
    Ok(language::holds(condition, &context).unwrap_or(false))
}

/// What the event leads to, if anything.
fn consequences(service: &Service, tx: &impl Read, event: &Event, now: Timestamp) -> Result<Option<Consequences>, WorkflowError> {
    let tenant = event.record.tenant_id;
    let mut workflows = repo::workflows::by_event(tx, tenant, &event.record.kind)?;
    workflows.retain(|workflow| workflow.armed_seq < event.seq);
    if workflows.is_empty() && !repo::runs::anybody_waits_for(tx, tenant, &event.record.kind)? {
        return Ok(None);
    }
    let Ok(body) = serde_json::from_slice::<Value>(&event.record.body) else { return Ok(None) };
    let about = body.pointer("/resource/id").and_then(Value::as_str).unwrap_or_default();
    let waiting = repo::runs::waiting_for(tx, tenant, &event.record.kind, about)?;
    if workflows.is_empty() && waiting.is_empty() {
        return Ok(None);
    }
    let cause: Option<RunId> = body.pointer("/cause/run_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    let depth = cause.map(|run| depth_below(tx, (tenant, run))).transpose()?.unwrap_or(0);
    // One that is refused for its depth is told once, and starts nothing itself.
    if depth > MAX_DEPTH + 1 {
        workflows.clear();
    }
    let mut starts = Vec::new();
    for workflow in workflows {
        if let Some(new) = matched(service, tx, &workflow, event, &body, depth)? {
            starts.push((workflow, new));
        }
    }
    if starts.is_empty() && waiting.is_empty() {
        return Ok(None);
    }
    let mut intent = Intent::new(tenant, now, Actor::system("Workflow triggers"));
    intent.cause.event_id = Some(event.record.id);
    Ok(Some(Consequences { seq: event.seq, intent, starts, waiting, body }))
}

/// The run that the event starts, if one of the workflow's triggers wants it.
fn matched(
    service: &Service,
    tx: &impl Read,
    workflow: &Workflow,
    event: &Event,
    body: &Value,
    depth: u8,
) -> Result<Option<NewRun>, WorkflowError> {
    let definition = match service.definition(tx, workflow.tenant_id, workflow.id, workflow.version) {
        Ok(definition) => definition,
        Err(WorkflowError::Invalid(faults)) => {
            tracing::warn!(workflow = %workflow.id, ?faults, "a workflow cannot be read by this release, and is not started");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut names = Map::new();
    names.insert("event".to_owned(), body.clone());
    names.insert("inputs".to_owned(), Value::Object(Map::new()));
    let context = Context(names);
    let wants = |trigger: &Trigger| match trigger {
        Trigger::Event { kind, condition } => {
            *kind == event.record.kind && condition.as_deref().is_none_or(|text| language::holds(text, &context).unwrap_or(false))
        }
        _ => false,
    };
    if !definition.triggers.iter().any(wants) {
        return Ok(None);
    }
    Ok(Some(NewRun {
        inputs: Value::Object(Map::new()),
        event: Some(body.clone()),
        trigger: RunTrigger::Event { id: event.record.id, kind: event.record.kind.clone() },
        subject_id: body.pointer("/resource/id").and_then(Value::as_str).map(str::to_owned),
        depth,
        retry_of: None,
    }))
}

impl Task for EventReader {
    fn name(&self) -> &'static str {
        CURSOR
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        self.store.changed(catalog::EVENT_HEAD, self.seen.load(Ordering::SeqCst)).await;
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.seen.store(self.store.version(catalog::EVENT_HEAD), Ordering::SeqCst);
        let told = |error: WorkflowError| TaskError(error.to_string());
        let known = *self.position();
        let (looked, stored) = match known {
            Some(position) => position,
            None => self.store.read(|tx| events::cursor(tx, CURSOR).map(|seq| (seq, seq)))?,
        };
        let (reading, service) = (self.clocks.read(), &self.service);
        let (last, found) = self
            .store
            .read(|tx| {
                if !repo::workflows::any_by_event(tx)? && !repo::runs::anybody_waits(tx)? {
                    // In this very snapshot nobody wants anything, and whoever comes later wants later events only.
                    return Ok((Some(events::head(tx)?).filter(|head| *head > looked), Vec::new()));
                }
                let events = events::read_batch(tx, looked, BATCH)?;
                let mut found = Vec::new();
                for event in events.iter().filter(|event| !event.is_imported()) {
                    found.extend(consequences(service, tx, event, reading.of(event.record.tenant_id))?);
                }
                Ok::<_, WorkflowError>((events.last().map(|event| event.seq), found))
            })
            .map_err(told)?;
        let Some(last) = last else { return Ok(Done::All) };
        if found.is_empty() {
            *self.position() = Some((last, stored));
            if last - stored >= UNWRITTEN {
                self.write_position().await?;
            }
        } else {
            self.follow(found, last).await.map_err(told)?;
        }
        Ok(Done::Some)
    }

    async fn finish(&self) -> Result<(), TaskError> {
        Ok(self.write_position().await?)
    }
}
