//! Processes the queues of tenants: many concurrently, each in order. Conditions are evaluated in the turn of their tenant.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::sync::Notify;

use tenantd_base::{
    clocks::Clocks,
    id::TenantId,
    programs::{Budget, Programs},
};
use tenantd_platform::Tenants;
use tenantd_store::{
    ReadTx, Store, WriteTx, catalog,
    events::{self, Act, Intent},
    tasks::{Done, Task, TaskError},
};

use super::{
    super::{
        engine::Engine,
        error::WorkflowError,
        model::{RunTrigger, StepStatus, Workflow},
        repo::{self, runs::RunKey},
        service::{ReadyRun, Service, Stage, ensure_room},
    },
    matching::{self, Consequences, Woken},
};

/// How many tenants' queues are processed concurrently.
const TENANTS: usize = 64;
/// How many events of a tenant share a commit.
const BATCH: usize = 32;
/// How many waiting runs are checked and continued at once.
const RUNS_AT_ONCE: usize = 100;
/// How long the queue of a tenant rests after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Shared {
    store: Store,
    clocks: Clocks,
    service: Arc<Service>,
    engine: Engine,
    programs: Programs,
    tenants: Tenants,
    /// Tenants whose queue is being processed.
    taken: Mutex<HashSet<TenantId>>,
    ended: Notify,
    stopping: AtomicBool,
    stop: Notify,
}

impl Shared {
    fn taken(&self) -> MutexGuard<'_, HashSet<TenantId>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Runs `work` on a snapshot when it is the tenant's turn.
    async fn on_worker<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl FnOnce(&Service, &ReadTx, &Budget) -> Result<T, WorkflowError> + Send + 'static,
    ) -> Result<T, WorkflowError> {
        let (service, store) = (self.service.clone(), self.store.clone());
        self.programs.run(tenant, move |budget| store.read(|tx| work(&service, tx, budget))).await?
    }
}

/// The task that finds non-empty queues.
#[derive(Debug)]
pub(crate) struct TriggerWorkers {
    shared: Arc<Shared>,
    seen: AtomicU64,
}

impl TriggerWorkers {
    pub(crate) fn new(
        store: Store,
        clocks: Clocks,
        service: Arc<Service>,
        engine: Engine,
        programs: Programs,
        tenants: Tenants,
    ) -> Self {
        let shared = Shared {
            store,
            clocks,
            service,
            engine,
            programs,
            tenants,
            taken: Mutex::default(),
            ended: Notify::new(),
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
        };
        Self { shared: Arc::new(shared), seen: AtomicU64::new(0) }
    }
}

/// The queue of a tenant that is being processed. When dropped, it can be taken again.
struct QueueGuard {
    shared: Arc<Shared>,
    tenant: TenantId,
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        self.shared.taken().remove(&self.tenant);
        self.shared.ended.notify_waiters();
        self.shared.ended.notify_one();
    }
}

/// Processes the queue of a tenant.
async fn take(taken: QueueGuard) {
    let QueueGuard { shared, tenant } = &taken;
    while !shared.is_stopping() {
        let _turn = shared.store.shares().turn_in_background(*tenant).await;
        match take_some(shared, *tenant).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(tenant = %tenant, %error, "could not match events with workflows; tenantd retries");
                tokio::select! {
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                    () = shared.stop.notified() => {}
                }
                return;
            }
        }
    }
}

/// Processes the next events of a tenant. Returns whether there were any.
async fn take_some(shared: &Shared, tenant: TenantId) -> Result<bool, WorkflowError> {
    let queued = shared.store.read(|tx| repo::queue::first_of(tx, tenant, BATCH))?;
    if queued.is_empty() {
        return Ok(false);
    }
    let now = shared.clocks.now(tenant);
    let mut found = Vec::new();
    // Events start nothing if the tenant was suspended in the meantime.
    let matched = if shared.tenants.is_suspended(tenant)? { &[] } else { queued.as_slice() };
    for seq in matched {
        let seq = *seq;
        let work = move |service: &Service, tx: &ReadTx, budget: &Budget| match events::read_one(tx, seq)? {
            Some(event) => matching::consequences(service, tx, &event, now, budget),
            // Retention removed the event before this tenant's turn.
            None => Ok(None),
        };
        found.extend(shared.on_worker(tenant, work).await?);
    }
    for consequences in &found {
        wake_runs(shared, tenant, consequences).await?;
    }
    let service = shared.service.clone();
    shared
        .store
        .write(move |tx| {
            for Consequences { intent, starts, .. } in &found {
                let mut act = intent.begin();
                for (seen, ready) in starts {
                    start(&service, tx, &mut act, seen, ready)?;
                }
            }
            queued.iter().try_for_each(|seq| repo::queue::remove(tx, (tenant, *seq)))?;
            Ok::<_, WorkflowError>(())
        })
        .await?;
    shared.engine.wake(tenant);
    Ok(true)
}

/// Continues the runs that wait for the event. Each continues once, even if this is repeated.
async fn wake_runs(shared: &Shared, tenant: TenantId, consequences: &Consequences) -> Result<(), WorkflowError> {
    let number = consequences.number;
    for keys in consequences.waiting.chunks(RUNS_AT_ONCE) {
        let (keys, body) = (keys.to_vec(), consequences.body.clone());
        let work = move |service: &Service, tx: &ReadTx, budget: &Budget| {
            let mut found = Vec::new();
            for key in keys {
                found.extend(matching::woken(service, tx, key, number, &body, budget)?);
            }
            Ok(found)
        };
        let woken = shared.on_worker(tenant, work).await?;
        if woken.is_empty() {
            continue;
        }
        let (service, intent, body) = (shared.service.clone(), consequences.intent.clone(), consequences.body.clone());
        shared.store.write(move |tx| resume_runs(&service, tx, &intent, number, &body, &woken)).await?;
    }
    Ok(())
}

/// Continues each run whose step still waits for the event as it did when it was checked.
fn resume_runs(
    service: &Service,
    tx: &mut WriteTx,
    intent: &Intent,
    number: u64,
    body: &Value,
    woken: &[Woken],
) -> Result<(), WorkflowError> {
    let mut act = intent.begin();
    for Woken { key, token } in woken {
        let still = repo::runs::get(tx, *key)?.is_some_and(|run| run.token(token.id) == Some(token));
        if !still || !matching::is_about(token, number, body) {
            continue;
        }
        match tx.attempt(|tx| finish(service, tx, &mut act, *key, token.id, body)) {
            Err(WorkflowError::Step(error)) => {
                let Some(mut stage) = Stage::open(service, tx, &mut act, *key)? else { continue };
                stage.fail(token.id, None, &error, StepStatus::Failed)?;
                stage.save()?;
            }
            finished => finished?,
        }
    }
    Ok(())
}

/// Finishes the waiting step with the event, if the tenant has room for it.
fn finish(service: &Service, tx: &mut WriteTx, act: &mut Act, key: RunKey, token: u32, body: &Value) -> Result<(), WorkflowError> {
    let Some(mut stage) = Stage::open(service, tx, act, key)? else { return Ok(()) };
    stage.finish(token, None, body.clone(), &[])?;
    let run = stage.save()?;
    ensure_room(tx, &run)
}

/// Starts a run for an event, unless the event has already started one.
fn start(service: &Service, tx: &mut WriteTx, act: &mut Act, seen: &Workflow, ready: &ReadyRun) -> Result<(), WorkflowError> {
    let RunTrigger::Event { id, .. } = ready.trigger() else { return Ok(()) };
    if repo::runs::started_by(tx, seen.tenant_id, seen.id, *id)?.is_some() {
        return Ok(());
    }
    // The workflow may have changed since the event was matched.
    match repo::workflows::get(tx, seen.tenant_id, seen.id)? {
        Some(workflow) if workflow.is_live() && workflow.version == seen.version => {
            service.start_within_quotas(tx, act, &workflow, ready)
        }
        _ => Ok(()),
    }
}

impl Task for TriggerWorkers {
    fn name(&self) -> &'static str {
        "workflow_trigger_queues"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        tokio::select! {
            () = self.shared.store.changed(catalog::WORKFLOW_TRIGGER_QUEUE, self.seen.load(Ordering::SeqCst)) => {}
            () = self.shared.ended.notified() => {}
        }
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let shared = &self.shared;
        self.seen.store(shared.store.version(catalog::WORKFLOW_TRIGGER_QUEUE), Ordering::SeqCst);
        let busy = shared.taken().len();
        // Queues that are already being processed may come first.
        let waiting = shared.store.read(|tx| repo::queue::tenants(tx, 2 * TENANTS))?;
        let mut free = TENANTS.saturating_sub(busy);
        for tenant in waiting {
            if free == 0 {
                break;
            }
            if shared.taken().insert(tenant) {
                free -= 1;
                let (shares, taken) = (shared.store.shares().clone(), QueueGuard { shared: shared.clone(), tenant });
                tokio::spawn(async move { shares.work_for(tenant, take(taken)).await });
            }
        }
        Ok(Done::All)
    }

    fn concern(&self) -> Option<String> {
        let stalled = self.shared.programs.stalled();
        (stalled > 0).then(|| format!("{stalled} workers have been evaluating one program for longer than a second"))
    }

    async fn finish(&self) -> Result<(), TaskError> {
        let shared = &self.shared;
        shared.stopping.store(true, Ordering::SeqCst);
        shared.stop.notify_waiters();
        loop {
            let ended = shared.ended.notified();
            if shared.taken().is_empty() {
                return Ok(());
            }
            ended.await;
        }
    }
}
