//! The unfinished tickets of organizations, contacts and devices that are about to be deleted. Finished tickets do not count:
//! they are history, and show the id of what was deleted.

use tenantd_base::{
    access::{Reach, Scope},
    change::Change,
    id::TenantId,
};
use tenantd_directory::{Dependent, Dependents, DirectoryError, Subject};
use tenantd_store::{Direction, Read, ReadTx, StoreError, WriteTx, events::Act};

use super::{
    Tickets,
    error::TicketError,
    listing::{self, SortField, TicketQuery},
    model::{Status, Ticket},
    service::TicketChange,
};

/// The number of tickets that one transaction moves.
const STEP: usize = 50;

fn query(tenant_id: TenantId, reach: &Reach, subject: Subject) -> TicketQuery {
    let mut query = TicketQuery {
        tenant_id,
        statuses: Some(Status::ALL.iter().copied().filter(|status| status.is_unfinished()).collect()),
        priorities: Vec::new(),
        kinds: Vec::new(),
        sources: Vec::new(),
        organizations: reach.narrow(None),
        contacts: Vec::new(),
        assignees: Vec::new(),
        devices: Vec::new(),
        tags: Vec::new(),
        sla_states: Vec::new(),
        dedup_key: None,
        parents: None,
        external_system: None,
        external_id: None,
        created_after: None,
        created_before: None,
        updated_after: None,
        updated_before: None,
        due_before: None,
        words: Vec::new(),
        since_seq: None,
        sort: SortField::CreatedAt,
        direction: Direction::Forward,
    };
    match subject {
        Subject::Organization(id) => query.organizations = reach.narrow(Some(vec![id])),
        Subject::Contact(id) => query.contacts = vec![id],
        Subject::Device(id) => query.devices = vec![id],
    }
    query
}

fn some(tx: &impl Read, act: &Act, subject: Subject, limit: usize) -> Result<Vec<Ticket>, StoreError> {
    Ok(listing::list(tx, &query(act.tenant_id, &act.reach, subject), None, limit)?.tickets)
}

/// The change that makes a ticket refer to `to` instead of `from`.
fn change(ticket: &Ticket, from: Subject, to: Subject) -> TicketChange {
    match (from, to) {
        (_, Subject::Organization(id)) => TicketChange { organization_id: Some(id), ..TicketChange::default() },
        (_, Subject::Contact(id)) => TicketChange { contact_id: Change::Set(id), ..TicketChange::default() },
        (Subject::Device(from), Subject::Device(to)) => {
            let mut device_ids = Vec::with_capacity(ticket.device_ids.len());
            for id in ticket.device_ids.iter().map(|id| if *id == from { to } else { *id }) {
                if !device_ids.contains(&id) {
                    device_ids.push(id);
                }
            }
            TicketChange { device_ids: Change::Set(device_ids), ..TicketChange::default() }
        }
        (_, Subject::Device(_)) => TicketChange::default(),
    }
}

impl Dependents for Tickets {
    fn scopes(&self) -> (Scope, Scope) {
        (Scope::TicketsRead, Scope::TicketsWrite)
    }

    fn count(&self, tx: &ReadTx, tenant: TenantId, reach: &Reach, subject: Subject) -> Result<Vec<Dependent>, StoreError> {
        let count = listing::total(tx, &query(tenant, reach, subject))?;
        Ok((count > 0).then_some(Dependent { name: "open_tickets", count }).into_iter().collect())
    }

    fn remains(&self, tx: &WriteTx, act: &Act, subject: Subject, _reassigned: bool) -> Result<bool, StoreError> {
        Ok(!some(tx, act, subject, 1)?.is_empty())
    }

    fn reassign(&self, tx: &mut WriteTx, act: &mut Act, from: Subject, to: Subject) -> Result<u64, DirectoryError> {
        let tickets = some(tx, act, from, STEP)?;
        let count = tickets.len() as u64;
        for ticket in tickets {
            let change = change(&ticket, from, to);
            let number = ticket.number;
            let moved = self.service.plan_change(tx, act, ticket, &change).and_then(|plan| self.service.commit(tx, act, plan));
            moved.map_err(|error| match error {
                TicketError::Store(error) => DirectoryError::Store(error),
                TicketError::Event(error) => DirectoryError::Event(error),
                other => DirectoryError::CannotMove(format!("ticket T-{number}: {other}")),
            })?;
        }
        Ok(count)
    }
}
