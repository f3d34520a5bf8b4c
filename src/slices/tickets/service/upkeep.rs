//! Plans the timer actions of a ticket: a target is at risk, a target is missed, a resolved ticket is closed.

use tenantd_store::{Read, events::Act};

use super::{CLOSED, Plan, Service, UPDATED, change::status_changed, changes::changes, crossing_events};
use crate::{
    error::TicketError,
    model::{Status, Ticket},
};

impl Service {
    /// Plans the actions that are due. The plan is empty if the ticket has changed in the meantime.
    pub(crate) fn plan_upkeep(&self, tx: &impl Read, act: &Act, before: Ticket) -> Result<Plan, TicketError> {
        let mut after = before.clone();
        let crossings = after.sla.advance(after.status, act.now);
        let mut events: Vec<_> = crossing_events(&crossings).collect();
        let closes = after.status == Status::Resolved && after.resolved_at.is_some_and(|at| at + self.auto_close <= act.now);
        if closes {
            after.status = Status::Closed;
            status_changed(&self.policy(tx, after.tenant_id)?, act, &mut after, before.status);
            events.push((&UPDATED, Some(changes(&before, &after))));
            events.push((&CLOSED, None));
        }
        if events.is_empty() {
            return Ok(Plan::unchanged(before));
        }
        after.version += 1;
        after.updated_at = act.now.max(before.updated_at);
        Ok(Plan::change(before, after, events))
    }
}
