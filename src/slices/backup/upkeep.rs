//! Runs the timers of backups and the sweeps after configuration changes. Both are stored, so a restart and normal operation use
//! the same path, and overdue work runs at the start.

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

/// The number of devices per transaction.
const BATCH: usize = 200;

fn actor() -> Actor {
    Actor::system("Backup timers")
}

fn failed(error: impl std::fmt::Display) -> TaskError {
    TaskError(error.to_string())
}

/// Runs all timers of the tenant that are due. For generated sample data; a running server uses [`BackupTimers`].
pub(super) fn run_due_timers(service: &Service, tx: &mut WriteTx, act: &mut Act) -> Result<(), BackupError> {
    let (now, previous_actor) = (act.now, std::mem::replace(&mut act.actor, actor()));
    while let Some(key) = postures::first_due(tx, act.tenant_id, now)? {
        let Some(posture) = postures::get(tx, key)? else { break };
        act.now = posture.timer_at.unwrap_or(now).min(now);
        service.review(tx, act, posture)?;
    }
    (act.now, act.actor) = (now, previous_actor);
    Ok(())
}

/// Completes the sweep that a change of an organization's settings has started. For generated sample data, where one step covers
/// all devices of an organization.
pub(super) fn evaluate_organization(
    service: &Service,
    tx: &mut WriteTx,
    intent: &Intent,
    key: SweepKey,
) -> Result<(), BackupError> {
    while let Some(sweep) = sweeps::get(tx, key)? {
        walk_devices(service, tx, intent, key, sweep)?;
    }
    Ok(())
}

/// Evaluates the next devices of a sweep. The progress is stored with the results.
fn walk(service: &Service, tx: &mut WriteTx, intent: &Intent, reading: &Reading, key: SweepKey) -> Result<(), BackupError> {
    // The sweep may have restarted or ended in the meantime.
    let Some(sweep) = sweeps::get(tx, key)? else { return Ok(()) };
    if key == sweeps::DIRECTORY {
        return walk_directory(service, tx, intent, reading, sweep);
    }
    walk_devices(service, tx, intent, key, sweep)
}

/// Evaluates the next devices of a sweep within a tenant.
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

/// Follows the next organizations and devices of the directory, including those from before this slice existed.
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

    /// Drops the days of jobs that are past the retention.
    async fn drop_expired_jobs(&self, now: Timestamp) -> Result<(), TaskError> {
        let kept = Duration::from_hours(24 * u64::from(self.service.job_retention_days));
        let days = self.store.read(|tx| jobs::days_before(tx, now - kept))?;
        for day in days {
            let drop_day = move |tx: &mut WriteTx| {
                jobs::drop_day(tx, day)?;
                Ok::<_, StoreError>(())
            };
            self.store.write(drop_day).await?;
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
        self.drop_expired_jobs(reading.installation()).await?;
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
            let evaluate = move |tx: &mut WriteTx| {
                for (intent, key) in &intents {
                    // Evaluate the current posture. If it has changed in the meantime, it is no longer due.
                    if let Some(posture) = postures::get(tx, *key)? {
                        service.review(tx, &mut intent.begin(), posture)?;
                    }
                }
                Ok::<_, BackupError>(())
            };
            self.store.write(evaluate).await.map_err(failed)?;
        }
        Ok(if is_idle { Done::All } else { Done::Some })
    }
}
