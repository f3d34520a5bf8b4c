//! Performs the timer actions of tickets. The index of timers is their only input, so a restart needs no special case:
//! actions that became due while the server was down run at the start.

use std::{sync::Arc, time::Duration};

use tenantd_base::{clocks::Clocks, id::TenantId};
use tenantd_store::{
    Due, Store, WriteTx, catalog,
    events::{Act, Actor, Intent},
    tasks::{Alarm, Done, Task, TaskError},
};

use super::{error::TicketError, model::Ticket, repo, service::Service};

/// The maximum number of tickets per transaction.
const BATCH: usize = 100;

fn actor() -> Actor {
    Actor::system("Ticket timers")
}

/// Performs the timer actions of a ticket that are due.
fn run_timers(service: &Service, tx: &mut WriteTx, act: &mut Act, ticket: Ticket) -> Result<(), TicketError> {
    let plan = service.plan_upkeep(tx, act, ticket)?;
    if plan.changes_nothing() {
        // The timer was computed with earlier settings.
        service.reset_timer(tx, &plan.after)?;
    } else {
        service.commit(tx, act, plan)?;
    }
    Ok(())
}

/// Performs all timer actions of the tenant that are due by now, each at its own time. Used to create sample data in the
/// past. A running server uses [`TicketTimers`].
pub(super) fn run_due_timers(service: &Service, tx: &mut WriteTx, act: &mut Act) -> Result<(), TicketError> {
    let (now, caller) = (act.now, std::mem::replace(&mut act.actor, actor()));
    while let Some((tenant, number)) = repo::first_due(tx, act.tenant_id, now)? {
        let Some(ticket) = repo::get(tx, tenant, number)? else { break };
        act.now = service.timer(&ticket).unwrap_or(now).min(now);
        run_timers(service, tx, act, ticket)?;
    }
    (act.now, act.actor) = (now, caller);
    Ok(())
}

#[derive(Debug)]
pub(super) struct TicketTimers {
    store: Store,
    alarm: Alarm,
    service: Arc<Service>,
}

impl TicketTimers {
    pub(super) fn new(store: Store, clocks: Clocks, service: Arc<Service>) -> Self {
        let alarm = Alarm::new(store.clone(), clocks, &[catalog::TICKETS_BY_TIMER]);
        Self { store, alarm, service }
    }
}

impl Task for TicketTimers {
    fn name(&self) -> &'static str {
        "ticket_timers"
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
        let Due { found: due, next } = self.store.read(|tx| repo::due(tx, &reading, BATCH))?;
        self.alarm.set(next);
        if due.is_empty() {
            return Ok(Done::All);
        }
        let service = self.service.clone();
        let intent = |tenant: TenantId| Intent::new(tenant, reading.of(tenant), actor());
        let intents: Vec<_> = due.into_iter().map(|(tenant, number)| (intent(tenant), number)).collect();
        self.store
            .write(move |tx| {
                for (intent, number) in &intents {
                    let mut act = intent.begin();
                    // Plan with the current ticket: an action may no longer be due.
                    if let Some(ticket) = repo::get(tx, act.tenant_id, *number)? {
                        run_timers(&service, tx, &mut act, ticket)?;
                    }
                }
                Ok::<_, TicketError>(())
            })
            .await
            .map_err(|error| TaskError(error.to_string()))?;
        Ok(Done::Some)
    }
}
