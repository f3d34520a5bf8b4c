//! Does what time does to backups, and what a change of settings leaves to do. It is driven by the index of timers and by the walks that are
//! under way, both in the store: a restart and normal running are one path, and what fell due meanwhile is done at the start.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    error::BackupError,
    repo::{
        jobs, postures,
        sweeps::{self, Sweep, SweepKey},
    },
    service::Service,
};
use crate::{
    kernel::{
        clock::{Clock, Timestamp},
        events::{Act, Actor, Intent},
        id::TenantId,
        store::{Flow, Store, StoreError, WriteTx, catalog},
        tasks::{Done, Task, TaskError},
    },
    slices::directory,
};

/// How many devices one transaction touches.
const BATCH: usize = 200;

fn actor() -> Actor {
    Actor::system("Backup timers")
}

fn failed(error: impl std::fmt::Display) -> TaskError {
    TaskError(error.to_string())
}

/// Does what fell due in the tenant until now. For a story that is told after the event; a server that runs has [`BackupTimers`].
pub(super) fn tend(service: &Service, tx: &mut WriteTx, act: &mut Act) -> Result<(), BackupError> {
    let (now, teller) = (act.now, std::mem::replace(&mut act.actor, actor()));
    while let Some(key) = postures::due_of(tx, act.tenant_id, now)? {
        let Some(posture) = postures::get(tx, key)? else { break };
        act.now = posture.timer_at.unwrap_or(now).min(now);
        service.review(tx, act, posture)?;
    }
    (act.now, act.actor) = (now, teller);
    Ok(())
}

/// Carries out the walk that a change of an organization's settings has begun, to its end. For a story that is told after the event: an
/// organization of it has no more devices than one step judges.
pub(super) fn judge(service: &Service, tx: &mut WriteTx, intent: &Intent, key: SweepKey) -> Result<(), BackupError> {
    while sweeps::get(tx, key)?.is_some() {
        walk(service, tx, intent, key)?;
    }
    Ok(())
}

/// Judges the next devices of a walk. What was left to do is stored with what was done.
fn walk(service: &Service, tx: &mut WriteTx, intent: &Intent, key: SweepKey) -> Result<(), BackupError> {
    // It may have begun anew in the meantime, or be over.
    let Some(mut sweep) = sweeps::get(tx, key)? else { return Ok(()) };
    if key == sweeps::DIRECTORY {
        return walk_directory(service, tx, intent, sweep);
    }
    let (tenant, organization) = key;
    let mut found = Vec::new();
    let after = sweep.after.map(|(organization, device)| (tenant, organization, device));
    postures::scan(tx, tenant, organization, after, |posture| {
        found.push(posture);
        Ok(if found.len() < BATCH { Flow::Continue } else { Flow::Stop })
    })?;
    let is_last = found.len() < BATCH;
    let mut act = intent.begin();
    for posture in found {
        sweep.after = Some((posture.organization_id, posture.device_id));
        service.review(tx, &mut act, posture)?;
    }
    if is_last {
        sweeps::end(tx, key)?;
    } else {
        sweeps::put(tx, key, &sweep)?;
    }
    Ok(())
}

/// Takes up the next organizations and devices of the directory: what was there before backups were looked after.
fn walk_directory(service: &Service, tx: &mut WriteTx, intent: &Intent, mut sweep: Sweep) -> Result<(), BackupError> {
    let act_in = |tenant: TenantId| {
        let mut act = intent.begin();
        act.tenant_id = tenant;
        act
    };
    if sweep.organizations_done {
        let devices = directory::devices_after(tx, sweep.device, BATCH)?;
        for device in &devices {
            service.follow_device(tx, &mut act_in(device.tenant_id), device.id)?;
        }
        match devices.last() {
            Some(last) => sweep.device = Some((last.tenant_id, last.id)),
            None => return Ok(sweeps::end(tx, sweeps::DIRECTORY)?),
        }
    } else {
        let organizations = directory::organizations_after(tx, sweep.organization, BATCH)?;
        for organization in &organizations {
            Service::follow_organization(tx, &act_in(organization.tenant_id), organization.id)?;
        }
        match organizations.last() {
            Some(last) => sweep.organization = Some((last.tenant_id, last.id)),
            None => sweep.organizations_done = true,
        }
    }
    Ok(sweeps::put(tx, sweeps::DIRECTORY, &sweep)?)
}

#[derive(Debug)]
pub(super) struct BackupTimers {
    store: Store,
    clock: Clock,
    service: Arc<Service>,
    /// The versions of timers and walks when this task last looked, and the first timer that it saw.
    seen: [AtomicU64; 2],
    next: Mutex<Option<Timestamp>>,
}

const WATCHED: [catalog::TableName; 2] = [catalog::BACKUP_POSTURES_BY_TIMER, catalog::BACKUP_SWEEPS];

impl BackupTimers {
    pub(super) fn new(store: Store, clock: Clock, service: Arc<Service>) -> Self {
        Self { store, clock, service, seen: [AtomicU64::new(0), AtomicU64::new(0)], next: Mutex::new(None) }
    }

    fn next(&self) -> std::sync::MutexGuard<'_, Option<Timestamp>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the days of jobs that are over.
    async fn forget_jobs(&self, now: Timestamp) -> Result<(), TaskError> {
        let kept = Duration::from_hours(24 * u64::from(self.service.job_retention_days));
        let days = self.store.read(|tx| jobs::days_before(tx, now - kept))?;
        for day in days {
            let forget = move |tx: &mut WriteTx| {
                jobs::drop_day(tx, day);
                Ok::<_, StoreError>(())
            };
            self.store.write(forget).await?;
        }
        Ok(())
    }
}

impl Task for BackupTimers {
    fn name(&self) -> &'static str {
        "backup_timers"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    fn waits_for_quiet(&self) -> bool {
        true
    }

    async fn wake(&self) {
        let next = *self.next();
        let timer = async {
            match next {
                Some(at) => self.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let [timers, walks] = WATCHED;
        let [seen_timers, seen_walks] = &self.seen;
        tokio::select! {
            () = self.store.changed(timers, seen_timers.load(Ordering::SeqCst)) => {}
            () = self.store.changed(walks, seen_walks.load(Ordering::SeqCst)) => {}
            () = timer => {}
        }
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        for (seen, table) in self.seen.iter().zip(WATCHED) {
            seen.store(self.store.version(table), Ordering::SeqCst);
        }
        let now = self.clock.now();
        self.forget_jobs(now).await?;
        let (due, next, under_way) = self
            .store
            .read(|tx| Ok::<_, StoreError>((postures::due(tx, now, BATCH)?, postures::next_timer(tx)?, sweeps::first(tx)?)))?;
        *self.next() = next;
        let is_idle = due.is_empty() && under_way.is_none();
        if let Some((key, _)) = under_way {
            let (service, intent) = (self.service.clone(), Intent::new(key.0, now, actor()));
            self.store.write(move |tx| walk(&service, tx, &intent, key)).await.map_err(failed)?;
        }
        if !due.is_empty() {
            let service = self.service.clone();
            let intents: Vec<_> = due.into_iter().map(|key| (Intent::new(key.0, now, actor()), key)).collect();
            let judge = move |tx: &mut WriteTx| {
                for (intent, key) in &intents {
                    // Judged as it is now: whatever was done in the meantime is no longer due.
                    if let Some(posture) = postures::get(tx, *key)? {
                        service.review(tx, &mut intent.begin(), posture)?;
                    }
                }
                Ok::<_, BackupError>(())
            };
            self.store.write(judge).await.map_err(failed)?;
        }
        Ok(if is_idle { Done::All } else { Done::Some })
    }
}
