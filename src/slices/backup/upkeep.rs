//! Does what time does to backups, and what a change of settings leaves to do. It is driven by the index of timers and by the walks that are
//! under way, both in the store: a restart and normal running are one path, and what fell due meanwhile is done at the start.

use std::{sync::Arc, time::Duration};

use tenantd_base::{
    clock::Timestamp,
    clocks::{Clocks, Reading},
    id::TenantId,
};
use tenantd_directory as directory;
use tenantd_store::{
    Due, Flow, Store, StoreError, WriteTx, catalog,
    events::{Act, Actor, Intent},
    tasks::{Alarm, Done, Task, TaskError},
};

use super::{
    error::BackupError,
    repo::{
        jobs, postures,
        sweeps::{self, Sweep, SweepKey},
    },
    service::Service,
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
    while let Some(key) = postures::first_due(tx, act.tenant_id, now)? {
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
    while let Some(sweep) = sweeps::get(tx, key)? {
        walk_devices(service, tx, intent, key, sweep)?;
    }
    Ok(())
}

/// Judges the next devices of a walk. What was left to do is stored with what was done.
fn walk(service: &Service, tx: &mut WriteTx, intent: &Intent, reading: &Reading, key: SweepKey) -> Result<(), BackupError> {
    // It may have begun anew in the meantime, or be over.
    let Some(sweep) = sweeps::get(tx, key)? else { return Ok(()) };
    if key == sweeps::DIRECTORY {
        return walk_directory(service, tx, intent, reading, sweep);
    }
    walk_devices(service, tx, intent, key, sweep)
}

/// The same within a tenant.
fn walk_devices(service: &Service, tx: &mut WriteTx, intent: &Intent, key: SweepKey, mut sweep: Sweep) -> Result<(), BackupError> {
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
fn walk_directory(
    service: &Service,
    tx: &mut WriteTx,
    intent: &Intent,
    reading: &Reading,
    mut sweep: Sweep,
) -> Result<(), BackupError> {
    let act_in = |tenant: TenantId| {
        let mut act = intent.begin();
        (act.tenant_id, act.now) = (tenant, reading.of(tenant));
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
    alarm: Alarm,
    service: Arc<Service>,
}

impl BackupTimers {
    pub(super) fn new(store: Store, clocks: Clocks, service: Arc<Service>) -> Self {
        let alarm = Alarm::new(store.clone(), clocks, &[catalog::BACKUP_POSTURES_BY_TIMER, catalog::BACKUP_SWEEPS]);
        Self { store, alarm, service }
    }

    /// Drops the days of jobs that are over.
    async fn forget_jobs(&self, now: Timestamp) -> Result<(), TaskError> {
        let kept = Duration::from_hours(24 * u64::from(self.service.job_retention_days));
        let days = self.store.read(|tx| jobs::days_before(tx, now - kept))?;
        for day in days {
            let forget = move |tx: &mut WriteTx| {
                jobs::drop_day(tx, day)?;
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
        self.alarm.ring().await;
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let reading = self.alarm.look();
        self.forget_jobs(reading.installation()).await?;
        let (Due { found: due, next }, under_way) =
            self.store.read(|tx| Ok::<_, StoreError>((postures::due(tx, &reading, BATCH)?, sweeps::first(tx)?)))?;
        self.alarm.set(next);
        let intent = |tenant: TenantId| Intent::new(tenant, reading.of(tenant), actor());
        let is_idle = due.is_empty() && under_way.is_none();
        if let Some((key, _)) = under_way {
            let (service, intent, reading) = (self.service.clone(), intent(key.0), reading.clone());
            self.store.write(move |tx| walk(&service, tx, &intent, &reading, key)).await.map_err(failed)?;
        }
        if !due.is_empty() {
            let service = self.service.clone();
            let intents: Vec<_> = due.into_iter().map(|key| (intent(key.0), key)).collect();
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
