//! Adds comments and time entries. Both are changes of their ticket.

use tenantd_base::{
    clock::Timestamp,
    id::{CommentId, TimeEntryId, UserId},
};
use tenantd_directory::{self as directory, PersonKind};
use tenantd_store::{
    Read,
    events::{Act, ActorKind},
};

use super::{
    COMMENTED, Plan, Service, UPDATED,
    change::{first_response, status_changed, status_event},
    changes::changes,
    create, crossing_events,
};
use crate::{
    error::TicketError,
    model::{Comment, Status, Ticket, TimeEntry, Visibility},
};

#[derive(Clone, Debug)]
pub struct NewComment {
    pub body: String,
    pub visibility: Visibility,
    /// The contact who wrote the comment, if someone else submits it.
    pub contact_id: Option<UserId>,
}

#[derive(Clone, Debug)]
pub struct NewTimeEntry {
    pub minutes: u32,
    pub billable: bool,
    pub work_type: String,
    pub note: Option<String>,
    pub started_at: Option<Timestamp>,
}

impl Service {
    /// A public comment of staff or an API key is the first response. A public comment of a contact reopens a ticket that is
    /// resolved or waits for the customer.
    pub(crate) fn plan_comment(
        &self,
        tx: &impl Read,
        act: &mut Act,
        before: Ticket,
        new: &NewComment,
    ) -> Result<Plan, TicketError> {
        let mut faults = Vec::new();
        create::check_text(Some(&new.body), "/body", &mut faults);
        let by_contact = match new.contact_id {
            Some(id) => create::expect(create::contact(tx, act, id)?, "/contact_id", "user", &mut faults).is_some(),
            None => is_contact(tx, act)?,
        };
        if !faults.is_empty() {
            return Err(TicketError::Invalid(faults));
        }
        let mut after = before.clone();
        let crossings = after.sla.advance(after.status, act.now);
        let public = new.visibility == Visibility::Public;
        let policy = self.policy(tx, act.tenant_id)?;
        if public && by_contact && matches!(before.status, Status::WaitingCustomer | Status::Resolved) {
            after.status = Status::Open;
            status_changed(&policy, act, &mut after, before.status);
        }
        let answers = matches!(act.actor.kind, ActorKind::User | ActorKind::ApiKey);
        if public && !by_contact && answers {
            first_response(&policy, act, &mut after);
        }
        after.comment_count += 1;
        after.version += 1;
        after.updated_at = act.now.max(before.updated_at);
        let mut events: Vec<_> = crossing_events(&crossings).collect();
        events.push((&COMMENTED, None));
        if after.status != before.status {
            events.push((&UPDATED, Some(changes(&before, &after))));
            events.extend(status_event(before.status, after.status).map(|kind| (kind, None)));
        }
        let comment = Comment {
            id: CommentId::new(act.now, &mut act.entropy),
            body: new.body.clone(),
            visibility: new.visibility,
            contact_id: new.contact_id,
            created_at: act.now,
            created_by: act.actor.clone(),
        };
        Ok(Plan { comment: Some(comment), ..Plan::change(before, after, events) })
    }
}

pub(crate) fn plan_time_entry(act: &mut Act, before: Ticket, new: &NewTimeEntry) -> Plan {
    let mut after = before.clone();
    let crossings = after.sla.advance(after.status, act.now);
    after.time_spent_minutes += u64::from(new.minutes);
    after.version += 1;
    after.updated_at = act.now.max(before.updated_at);
    let mut events: Vec<_> = crossing_events(&crossings).collect();
    events.push((&UPDATED, Some(changes(&before, &after))));
    let entry = TimeEntry {
        id: TimeEntryId::new(act.now, &mut act.entropy),
        minutes: new.minutes,
        billable: new.billable,
        work_type: new.work_type.clone(),
        note: new.note.clone(),
        started_at: new.started_at,
        created_at: act.now,
        created_by: act.actor.clone(),
    };
    Plan { time_entry: Some(entry), ..Plan::change(before, after, events) }
}

/// Whether the actor is a signed-in contact.
fn is_contact(tx: &impl Read, act: &Act) -> Result<bool, TicketError> {
    let Some(id) = act.actor.id.parse().ok().filter(|_| act.actor.kind == ActorKind::User) else { return Ok(false) };
    Ok(directory::person(tx, act.tenant_id, id)?.is_some_and(|person| person.kind == PersonKind::Contact))
}
