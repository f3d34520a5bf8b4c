//! The dispatcher's maintenance, in bounded steps: replays, giving up deliveries that can no longer be sent, retention, and health
//! reporting.

use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

use tenantd_base::{clock::Timestamp, clocks::Reading};
use tenantd_store::{
    StoreError, events,
    tasks::{Done, TaskError},
};

use super::{
    super::{
        delivery::DeliveryStatus,
        error::WebhookError,
        ledger::{self, Counted},
        model::EndpointStatus,
        replay,
        repo::{self, EndpointKey},
        stats,
    },
    Dispatcher, lock,
};

/// The maximum number of rows per step.
const STEP: usize = 256;
const ROUND: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Chores {
    /// Deleted or disabled endpoints with waiting deliveries.
    pub(super) sweep: BTreeSet<EndpointKey>,
    /// Events up to this one may have been processed before the restart.
    pub(super) recover_to: u64,
    /// When the less frequent maintenance last ran.
    last_round: Option<Timestamp>,
    observed: Option<Timestamp>,
}

impl Dispatcher {
    pub(super) async fn do_chores(&self, clocks: &Reading) -> Result<Done, TaskError> {
        let swept = self.sweep(clocks).await?;
        let replayed = self.replay(clocks).await?;
        let now = clocks.installation();
        let due = {
            let mut chores = lock(&self.chores);
            let due = chores.last_round.is_none_or(|last| now.since(last) >= ROUND);
            if due {
                chores.last_round = Some(now);
            }
            due
        };
        if due {
            self.find_waiting(clocks)?;
            self.shed(clocks).await?;
            self.purge(clocks).await?;
            self.shared.with_engine(|engine| engine.tidy(clocks));
        }
        Ok(if swept || replayed { Done::Some } else { Done::All })
    }

    /// Gives up the waiting deliveries of disabled or deleted endpoints. Returns whether there is more to do.
    async fn sweep(&self, clocks: &Reading) -> Result<bool, WebhookError> {
        let Some(key) = lock(&self.chores).sweep.pop_first() else { return Ok(false) };
        let now = clocks.of(key.0);
        let finished = self
            .shared
            .store
            .write(move |tx| {
                let Some(endpoint) = repo::get(tx, key)? else { return Ok(ledger::forget(tx, key, STEP)?) };
                let EndpointStatus::Disabled(reason) = endpoint.status else { return Ok(true) };
                // Giving up a delivery can make the next one of its resource due, which then waits as well.
                let found = ledger::give_up(tx, key, DeliveryStatus::Skipped, Some(reason), now, STEP)?;
                Ok::<_, WebhookError>(found == 0)
            })
            .await?;
        let mut chores = lock(&self.chores);
        if !finished {
            chores.sweep.insert(key);
        }
        Ok(!chores.sweep.is_empty())
    }

    async fn replay(&self, clocks: &Reading) -> Result<bool, WebhookError> {
        let shared = &self.shared;
        if !shared.replays.swap(false, Ordering::SeqCst) {
            return Ok(false);
        }
        let stepped = replay::step(&shared.store, &shared.subscriptions, clocks).await;
        // A failed step is retried in the next activation.
        let more = stepped.as_ref().map_or(true, Option::is_some);
        if more {
            shared.replays.store(true, Ordering::SeqCst);
        }
        if let Some(endpoint) = stepped? {
            lock(&shared.hints).nudged.insert(endpoint);
        }
        Ok(more)
    }

    /// Gives up the oldest deliveries of tenants with too many waiting ones.
    async fn shed(&self, clocks: &Reading) -> Result<(), WebhookError> {
        let most = self.shared.settings.max_pending_per_tenant;
        let waiting = self.shared.store.read(repo::waiting)?;
        let tenants: BTreeSet<_> = waiting.iter().map(|((tenant, _), _)| *tenant).collect();
        for tenant in tenants {
            let (mut shed, now) = (0, clocks.of(tenant));
            loop {
                let found = self
                    .shared
                    .store
                    .write(move |tx| {
                        let (total, fullest) = repo::tenant_pending(tx, tenant)?;
                        let excess = usize::try_from(total.saturating_sub(most)).unwrap_or(usize::MAX).min(STEP);
                        let Some(key) = fullest.filter(|_| excess > 0) else { return Ok(0) };
                        let found = ledger::give_up(tx, key, DeliveryStatus::Expired, None, now, excess)?;
                        ledger::settle_counts(tx, key, Counted::default(), |state| state.shed += found)?;
                        Ok::<_, WebhookError>(found)
                    })
                    .await?;
                if found == 0 {
                    break;
                }
                shed += found;
            }
            if shed > 0 {
                metrics::counter!("tenantd_webhook_deliveries_shed_total").increment(shed);
                tracing::warn!(%tenant, shed, "too many deliveries are waiting; gave up the oldest as expired");
            }
        }
        Ok(())
    }

    /// Removes deliveries whose events were removed, and outdated metrics.
    async fn purge(&self, clocks: &Reading) -> Result<(), StoreError> {
        let (first_kept, old_segments) = self.shared.store.read(|tx| {
            let first_kept = events::first_kept(tx)?;
            Ok::<_, StoreError>((first_kept, ledger::segments_without_events(tx, first_kept)?))
        })?;
        if !old_segments.is_empty() {
            self.expire_without_events(first_kept, clocks).await?;
        }
        for segment in old_segments {
            self.shared
                .store
                .write(move |tx| {
                    ledger::drop_segment(tx, segment)?;
                    Ok::<_, StoreError>(())
                })
                .await?;
        }
        let (keep, now, mut after) = (self.shared.keep, clocks.installation(), None);
        loop {
            let from: Option<Vec<u8>> = after.take();
            after = self.shared.store.write(move |tx| stats::purge(tx, now, keep, from.as_deref(), STEP)).await?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Gives up waiting deliveries whose events were removed, so that no queue has an entry without its record.
    async fn expire_without_events(&self, first_kept: u64, clocks: &Reading) -> Result<(), StoreError> {
        let store = &self.shared.store;
        for (key, _) in store.read(repo::waiting)? {
            let now = clocks.of(key.0);
            loop {
                let rows = store.scan(move |tx| ledger::waiting_without_event(tx, key, first_kept, STEP)).await?;
                if rows.is_empty() {
                    break;
                }
                let outcome = (DeliveryStatus::Expired, None);
                store.write(move |tx| ledger::give_up_these(tx, key, &rows, outcome, now)).await?;
            }
            lock(&self.shared.hints).nudged.insert(key);
        }
        Ok(())
    }

    /// Sets the timer and updates the operator's metrics.
    pub(super) fn observe(&self, clocks: &Reading) -> Result<(), StoreError> {
        *lock(&self.next_at) = self.shared.with_engine(|engine| engine.arm_timer(clocks)).flatten();
        let now = clocks.installation();
        let fresh = lock(&self.chores).observed.is_some_and(|last| now.since(last) < Duration::from_secs(1));
        if fresh {
            return Ok(());
        }
        lock(&self.chores).observed = Some(now);
        let figures = self.shared.with_engine(|engine| {
            let age = engine.oldest_due(clocks).unwrap_or_default();
            (engine.depth(), age, engine.in_flight())
        });
        let (depth, age, in_flight) = figures.unwrap_or_default();
        metrics::gauge!("tenantd_webhook_queue_depth").set(depth as f64);
        metrics::gauge!("tenantd_webhook_oldest_due_seconds").set(age.as_secs_f64());
        metrics::gauge!("tenantd_webhook_in_flight").set(in_flight as f64);
        metrics::gauge!("tenantd_consumer_lag_events", "consumer" => super::CURSOR).set(self.lag()? as f64);
        let late = age.as_secs() > self.shared.settings.degraded_after_seconds;
        *lock(&self.concern) = late.then(|| format!("a delivery has been due for {} seconds", age.as_secs()));
        Ok(())
    }
}
