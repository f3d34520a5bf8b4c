//! What contacts do in the portal, with their own tickets only.
//!
//! **Invariant:** a ticket is a contact's own while they are its contact, and while both belong to the same organization. Each use case
//! checks this in its transaction, so that a contact loses a ticket as soon as one of these changes.

use std::time::Duration;

use tenantd_base::{
    access::{Identity, Principal, Reach},
    clock::Timestamp,
    id::{CommentId, OrganizationId, TenantId, UserId},
};
use tenantd_directory as directory;
use tenantd_store::{Direction, Read, StoreError, events::Act};

use super::{NewComment, NewTicket, Plan, Service, TicketChange, find};
use crate::{
    error::TicketError,
    listing::{self, TicketQuery},
    model::{Comment, OnDuplicate, Priority, ResolutionCode, Source, Status, Ticket, TicketRef, Visibility},
    repo,
};

/// How many tickets and comments a contact can create within [`WINDOW`], in addition to the rate limits of the API.
const MOST_TICKETS: usize = 20;
const MOST_COMMENTS: usize = 60;
const WINDOW: Duration = Duration::from_hours(1);

/// How many of the newest tickets and comments are examined for these limits.
const EXAMINED: usize = 200;

/// How many comments one page examines, public or not.
const MOST_EXAMINED: usize = 5_000;

/// The contact behind a session in the portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortalContact {
    pub(crate) tenant_id: TenantId,
    pub(crate) id: UserId,
    organization_id: OrganizationId,
}

#[derive(Clone, Debug)]
pub(crate) struct NewPortalTicket {
    pub(crate) subject: String,
    pub(crate) description: Option<String>,
    pub(crate) priority: Priority,
}

impl PortalContact {
    /// `None` for everybody else.
    pub(crate) fn of(principal: &Principal) -> Option<Self> {
        match principal.identity {
            Identity::Contact { id, organization_id, .. } => Some(Self { tenant_id: principal.tenant_id, id, organization_id }),
            Identity::User { .. } | Identity::ApiKey { .. } | Identity::LocalOperator => None,
        }
    }

    fn owns(&self, ticket: &Ticket) -> bool {
        ticket.tenant_id == self.tenant_id && ticket.contact_id == Some(self.id) && ticket.organization_id == self.organization_id
    }

    /// The own ticket with this name. Other tickets are not found.
    pub(crate) fn find(&self, tx: &impl Read, named: TicketRef) -> Result<Ticket, TicketError> {
        let reach = Reach::new(vec![self.organization_id]);
        let found = find(tx, self.tenant_id, &reach, named)?.filter(|ticket| self.owns(ticket));
        found.ok_or(TicketError::NotFound)
    }

    /// The own tickets in these statuses, the newest first.
    pub(crate) fn query(&self, statuses: Option<Vec<Status>>) -> TicketQuery {
        TicketQuery { statuses, ..TicketQuery::of_contact(self.tenant_id, self.id, self.organization_id) }
    }

    /// Checks that the contact still belongs to the organization of the session.
    pub(crate) fn check_current(&self, tx: &impl Read) -> Result<(), TicketError> {
        let person = directory::person(tx, self.tenant_id, self.id)?;
        let is_same = person.is_some_and(|person| person.organization_id == Some(self.organization_id));
        if is_same { Ok(()) } else { Err(TicketError::NotFound) }
    }

    fn is_author(&self, comment: &Comment) -> bool {
        comment.created_by.id == self.id.to_string()
    }

    fn check_room_for_ticket(&self, tx: &impl Read, now: Timestamp) -> Result<(), TicketError> {
        let since = now - WINDOW;
        // What was created since was changed since.
        let query =
            TicketQuery { updated_after: Some(since), ..TicketQuery::of_contact(self.tenant_id, self.id, self.organization_id) };
        let author = self.id.to_string();
        let found = listing::list(tx, &query, None, EXAMINED)?.tickets;
        let own = found.iter().filter(|ticket| ticket.created_by.id == author && ticket.created_at > since);
        check_count(own.map(|ticket| ticket.created_at), MOST_TICKETS, now)
    }

    fn check_room_for_comment(&self, tx: &impl Read, ticket: &Ticket, now: Timestamp) -> Result<(), TicketError> {
        let since = now - WINDOW;
        let (newest, _) = repo::comments(tx, (ticket.tenant_id, ticket.number), None, EXAMINED, Direction::Backward)?;
        let own = newest.iter().filter(|comment| self.is_author(comment) && comment.created_at > since);
        check_count(own.map(|comment| comment.created_at), MOST_COMMENTS, now)
    }
}

/// Refuses another record if there are `most` within the window.
fn check_count(times: impl Iterator<Item = Timestamp>, most: usize, now: Timestamp) -> Result<(), TicketError> {
    let times: Vec<Timestamp> = times.collect();
    match times.iter().min() {
        Some(oldest) if times.len() >= most => {
            let retry_after_seconds = (*oldest + WINDOW).since(now).as_secs().max(1);
            Err(TicketError::TooManyFromContact { most, retry_after_seconds })
        }
        _ => Ok(()),
    }
}

impl Service {
    pub(crate) fn plan_portal_ticket(
        &self,
        tx: &impl Read,
        act: &mut Act,
        contact: &PortalContact,
        new: &NewPortalTicket,
    ) -> Result<Plan, TicketError> {
        contact.check_current(tx)?;
        contact.check_room_for_ticket(tx, act.now)?;
        let ticket = Ticket {
            subject: new.subject.clone(),
            description: new.description.clone(),
            source: Source::Portal,
            contact_id: Some(contact.id),
            ..Ticket::default()
        };
        let new = NewTicket {
            ticket,
            priority: Some(new.priority),
            organization_id: Some(contact.organization_id),
            on_duplicate: OnDuplicate::Create,
            ..NewTicket::default()
        };
        self.plan_create(tx, act, &new)
    }

    /// Adds a public comment. It reopens a ticket that is resolved or waits for the customer.
    pub(crate) fn plan_portal_comment(
        &self,
        tx: &impl Read,
        act: &mut Act,
        contact: &PortalContact,
        ticket: Ticket,
        body: &str,
    ) -> Result<Plan, TicketError> {
        contact.check_current(tx)?;
        if !takes_comments(ticket.status) {
            return Err(TicketError::NotInPortal { status: ticket.status, act: "answered" });
        }
        contact.check_room_for_comment(tx, &ticket, act.now)?;
        let new = NewComment { body: body.to_owned(), visibility: Visibility::Public, contact_id: None };
        self.plan_comment(tx, act, ticket, &new)
    }

    /// Closes a ticket. An unfinished one becomes resolved, so that the contact can still reopen it.
    pub(crate) fn plan_portal_close(
        &self,
        tx: &impl Read,
        act: &Act,
        contact: &PortalContact,
        ticket: Ticket,
    ) -> Result<Plan, TicketError> {
        contact.check_current(tx)?;
        let change = match ticket.status {
            Status::Resolved => TicketChange { status: Some(Status::Closed), ..TicketChange::default() },
            status if status.is_unfinished() => TicketChange {
                status: Some(Status::Resolved),
                resolution_code: Some(ResolutionCode::NoAction),
                resolution_summary: Some("The contact closed the ticket in the portal.".to_owned()),
                ..TicketChange::default()
            },
            status => return Err(TicketError::NotInPortal { status, act: "closed" }),
        };
        self.plan_change(tx, act, ticket, &change)
    }

    pub(crate) fn plan_portal_reopen(
        &self,
        tx: &impl Read,
        act: &Act,
        contact: &PortalContact,
        ticket: Ticket,
    ) -> Result<Plan, TicketError> {
        contact.check_current(tx)?;
        if !can_reopen(ticket.status) {
            return Err(TicketError::NotInPortal { status: ticket.status, act: "reopened" });
        }
        self.plan_change(tx, act, ticket, &TicketChange { status: Some(Status::Open), ..TicketChange::default() })
    }
}

/// Whether a contact can add a comment to a ticket in this status.
pub(crate) fn takes_comments(status: Status) -> bool {
    status.is_unfinished() || status == Status::Resolved
}

/// Whether a contact can close a ticket in this status.
pub(crate) fn can_close(status: Status) -> bool {
    takes_comments(status)
}

/// Whether a contact can reopen a ticket in this status.
pub(crate) fn can_reopen(status: Status) -> bool {
    status == Status::Resolved
}

/// The public comments of a ticket after a comment, the oldest first. If there may be more, also returns where to continue.
pub(crate) fn public_comments(
    tx: &impl Read,
    ticket: &Ticket,
    after: Option<CommentId>,
    limit: usize,
) -> Result<(Vec<Comment>, Option<CommentId>), StoreError> {
    let key = (ticket.tenant_id, ticket.number);
    let (mut found, mut after, mut examined) = (Vec::new(), after, 0);
    loop {
        let (batch, more) = repo::comments(tx, key, after, EXAMINED, Direction::Forward)?;
        examined += batch.len();
        for comment in batch {
            if found.len() == limit {
                // The next public comment exists, so the page ends at the last one that it contains.
                if comment.visibility == Visibility::Public {
                    let last = found.last().map(|comment: &Comment| comment.id);
                    return Ok((found, last));
                }
            } else if comment.visibility == Visibility::Public {
                found.push(comment);
            }
        }
        after = more;
        if after.is_none() || examined >= MOST_EXAMINED {
            return Ok((found, after));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_creates_a_bounded_number_in_an_hour() {
        let now = Timestamp::from_millis(1_767_225_600_000);
        let at = |minutes: u64| now - Duration::from_mins(minutes);
        assert!(check_count([at(10)].into_iter(), 2, now).is_ok());
        let refused = check_count([at(10), at(50)].into_iter(), 2, now);
        assert!(matches!(refused, Err(TicketError::TooManyFromContact { most: 2, retry_after_seconds: 600 })), "{refused:?}");
    }

    #[test]
    fn finished_tickets_take_no_comments_and_stay_closed() {
        for status in Status::ALL.iter().copied() {
            let is_final = matches!(status, Status::Closed | Status::Cancelled | Status::Merged);
            assert_eq!(takes_comments(status), !is_final, "{status:?}");
            assert_eq!(can_close(status), status.may_become(Status::Closed) || status.may_become(Status::Resolved), "{status:?}");
            assert_eq!(can_reopen(status), status == Status::Resolved && status.may_become(Status::Open), "{status:?}");
        }
    }
}
