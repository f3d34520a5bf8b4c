//! The use cases of tickets. Each one first builds a plan from what it reads, and then writes it. So nothing is written
//! before everything is checked, and a dry run is a plan that is not written.

mod change;
mod changes;
mod create;
mod notes;
mod policy;
mod portal;
mod upkeep;

pub use change::TicketChange;
pub(super) use changes::field_values;
pub use create::NewTicket;
pub(super) use notes::plan_time_entry;
pub use notes::{NewComment, NewTimeEntry};
pub(super) use portal::{NewPortalTicket, PortalContact, can_close, can_reopen, public_comments, takes_comments};

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;

use tenantd_base::{
    access::{Grants, Reach, Scope},
    clock::Timestamp,
    config,
    id::TenantId,
};
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::{
    error::TicketError,
    labels::Labels,
    model::{Comment, Status, Ticket, TicketRef, TimeEntry},
    repo,
    sla::{Crossing, CrossingKind, SlaPolicy, TargetKind},
};

pub(super) static CREATED: EventKind = EventKind {
    name: "ticket.created",
    summary: "A ticket was created.",
    subject: "ticket",
    schema: "Ticket",
    reads: Grants::of(&[Scope::TicketsRead]),
    has_changes: false,
};
pub(super) static UPDATED: EventKind =
    EventKind { name: "ticket.updated", summary: "A ticket was changed.", has_changes: true, ..CREATED };
pub(super) static COMMENTED: EventKind = EventKind {
    name: "ticket.commented",
    summary: "A comment was added to a ticket. The event contains it in `comment`.",
    ..CREATED
};
pub(super) static RESOLVED: EventKind = EventKind { name: "ticket.resolved", summary: "A ticket was resolved.", ..CREATED };
pub(super) static CLOSED: EventKind =
    EventKind { name: "ticket.closed", summary: "A ticket was closed, by someone or automatically.", ..CREATED };
pub(super) static REOPENED: EventKind =
    EventKind { name: "ticket.reopened", summary: "A resolved ticket was reopened.", ..CREATED };
pub(super) static SLA_AT_RISK: EventKind = EventKind {
    name: "ticket.sla_at_risk",
    summary: "A service level target of a ticket has used 75 % of its time.",
    has_changes: true,
    ..CREATED
};
pub(super) static SLA_BREACHED: EventKind =
    EventKind { name: "ticket.sla_breached", summary: "A ticket missed a service level target.", has_changes: true, ..CREATED };
pub(super) static SLA_UPDATED: EventKind = EventKind {
    name: "sla.updated",
    summary: "The service levels or the working hours were changed.",
    subject: "sla",
    schema: "SlaPolicy",
    reads: Grants::of(&[Scope::TicketsRead]),
    has_changes: false,
};

#[derive(Clone, Debug)]
pub(super) struct Service {
    auto_close: Duration,
    time_zone: Arc<str>,
}

/// What a use case has written.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) ticket: Ticket,
    /// The ticket in the form that events and responses show.
    pub(super) shown: Box<RawValue>,
}

/// What a use case will write.
#[derive(Debug)]
pub(super) struct Plan {
    /// The current ticket. `None` if the ticket is new.
    pub(super) before: Option<Ticket>,
    pub(super) after: Ticket,
    pub(super) comment: Option<Comment>,
    pub(super) time_entry: Option<TimeEntry>,
    /// Whether a creation found an existing ticket with the same `dedup_key`.
    pub(super) deduplicated: bool,
    events: Vec<(&'static EventKind, Option<Changes>)>,
}

impl Plan {
    fn unchanged(ticket: Ticket) -> Self {
        Self::change(ticket.clone(), ticket, Vec::new())
    }

    pub(super) fn changes_nothing(&self) -> bool {
        self.events.is_empty()
    }

    /// The approximate number of bytes to write: the ticket, and each event, which contains the ticket.
    pub(super) fn bytes(&self) -> usize {
        let comment = self.comment.as_ref().map_or(0, Comment::json_bytes);
        self.after.json_bytes() * (1 + self.events.len()) + 2 * comment
    }

    fn change(before: Ticket, after: Ticket, events: Vec<(&'static EventKind, Option<Changes>)>) -> Self {
        Self { before: Some(before), after, comment: None, time_entry: None, deduplicated: false, events }
    }
}

impl Service {
    pub(super) fn new(settings: &config::Tickets) -> Self {
        Self {
            auto_close: Duration::from_hours(24 * u64::from(settings.auto_close_days)),
            time_zone: settings.time_zone.as_str().into(),
        }
    }

    /// The service levels of the tenant: its own or the default ones.
    pub(super) fn policy(&self, tx: &impl Read, tenant: TenantId) -> Result<SlaPolicy, StoreError> {
        Ok(repo::policy(tx, tenant)?.unwrap_or_else(|| SlaPolicy::standard(&self.time_zone)))
    }

    /// When the next timer action of the ticket is due.
    pub(super) fn timer(&self, ticket: &Ticket) -> Option<Timestamp> {
        let close = ticket.resolved_at.filter(|_| ticket.status == Status::Resolved).map(|at| at + self.auto_close);
        ticket.sla.next_crossing().into_iter().chain(close).min()
    }

    pub(super) fn reset_timer(&self, tx: &mut WriteTx, ticket: &Ticket) -> Result<(), StoreError> {
        repo::update(tx, ticket, &Ticket { timer_at: self.timer(ticket), ..ticket.clone() })
    }

    /// Writes a plan and its events. Must run in the transaction in which the plan was made.
    pub(super) fn commit(&self, tx: &mut WriteTx, act: &mut Act, plan: Plan) -> Result<Committed, TicketError> {
        let Plan { before, after: mut ticket, comment, time_entry, events, .. } = plan;
        let labels = Labels::of_tickets(tx, ticket.tenant_id, &Reach::Everything, [&ticket])?;
        let shown = ticket.describe((&labels, act.now))?;
        if events.is_empty() {
            // A change without effect writes nothing and has no event.
            return Ok(Committed { ticket, shown });
        }
        let key = (ticket.tenant_id, ticket.number);
        let comment_shown = comment
            .as_ref()
            .map(|comment| {
                let labels = Labels::of_comments(tx, key.0, &Reach::Everything, std::slice::from_ref(comment))?;
                Ok::<_, TicketError>(comment.describe(&labels)?)
            })
            .transpose()?;
        for (kind, changes) in events {
            let mut draft = Draft::new(kind, ticket.id.to_string(), ticket.version, &shown).with_changes(changes.as_ref());
            if let Some(comment) = comment_shown.as_deref().filter(|_| *kind == COMMENTED) {
                draft = draft.with("comment", comment);
            }
            ticket.last_seq = events::append(tx, act, &draft)?;
            repo::note_event(tx, key, ticket.last_seq)?;
        }
        if let Some(comment) = &comment {
            repo::put_comment(tx, key, comment)?;
        }
        if let Some(entry) = &time_entry {
            repo::put_time_entry(tx, key, entry)?;
        }
        ticket.timer_at = self.timer(&ticket);
        match &before {
            Some(before) => repo::update(tx, before, &ticket)?,
            None => repo::insert(tx, &ticket)?,
        }
        Ok(Committed { ticket, shown })
    }
}

/// The events for thresholds that were crossed.
fn crossing_events(crossings: &[Crossing]) -> impl Iterator<Item = (&'static EventKind, Option<Changes>)> {
    crossings.iter().map(|crossing| {
        let clock = match crossing.target_kind {
            TargetKind::FirstResponse => "sla.first_response",
            TargetKind::Resolution => "sla.resolution",
        };
        let (kind, from, to) = match crossing.kind {
            CrossingKind::AtRisk => (&SLA_AT_RISK, "on_track", "at_risk"),
            CrossingKind::Breached => (&SLA_BREACHED, "at_risk", "breached"),
        };
        (kind, Some(Changes::default().with(clock, from, to)))
    })
}

/// The ticket, if the caller may see its organization.
pub(super) fn find(tx: &impl Read, tenant: TenantId, reach: &Reach, named: TicketRef) -> Result<Option<Ticket>, StoreError> {
    Ok(repo::find(tx, tenant, named)?.filter(|ticket| reach.covers(Some(ticket.organization_id))))
}

/// The ticket that a request names. If the request names it twice, both names must agree.
pub(super) fn target(tx: &impl Read, act: &Act, named: TicketRef, also: Option<TicketRef>) -> Result<Ticket, TicketError> {
    let ticket = find(tx, act.tenant_id, &act.reach, named)?.ok_or(TicketError::NotFound)?;
    match also {
        Some(TicketRef::Id(id)) if id != ticket.id => Err(TicketError::OtherTarget),
        Some(TicketRef::Number(number)) if number != ticket.number => Err(TicketError::OtherTarget),
        _ => Ok(ticket),
    }
}
