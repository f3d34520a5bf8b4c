//! Changes tickets with merge patches. A patch increments the version once and has one `ticket.updated` event.

use std::collections::BTreeMap;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    fault::Fault,
    id::{DeviceId, OrganizationId, UserId},
};
use tenantd_store::{
    Read,
    events::{Act, ActorKind},
};

use super::{
    CLOSED, Plan, REOPENED, RESOLVED, Service, UPDATED,
    changes::changes,
    create::{self, Owners},
    crossing_events, find,
};
use crate::{
    error::TicketError,
    model::{
        ExternalRef, FieldValue, Level, Priority, Resolution, ResolutionCode, Source, Status, Ticket, TicketLink, TicketRef,
        TicketType,
    },
};

/// The changes of a ticket.
#[derive(Clone, Debug, Default)]
pub struct TicketChange {
    pub subject: Option<String>,
    pub description: Change<String>,
    pub kind: Option<TicketType>,
    pub status: Option<Status>,
    pub priority: Option<Priority>,
    pub impact: Change<Level>,
    pub urgency: Change<Level>,
    pub source: Option<Source>,
    pub queue: Change<String>,
    pub category: Change<String>,
    pub organization_id: Option<OrganizationId>,
    pub contact_id: Change<UserId>,
    pub assignee_id: Change<UserId>,
    pub device_ids: Change<Vec<DeviceId>>,
    pub tags: Change<Vec<String>>,
    /// Changed field by field. A field without a value is removed.
    pub custom_fields: Change<BTreeMap<String, Option<FieldValue>>>,
    pub external_refs: Change<Vec<ExternalRef>>,
    pub dedup_key: Change<String>,
    pub parent: Change<TicketRef>,
    pub merged_into: Option<TicketRef>,
    pub resolution_code: Option<ResolutionCode>,
    pub resolution_summary: Option<String>,
    pub due_at: Change<Timestamp>,
}

impl Service {
    pub(crate) fn plan_change(
        &self,
        tx: &impl Read,
        act: &Act,
        before: Ticket,
        change: &TicketChange,
    ) -> Result<Plan, TicketError> {
        let mut after = before.clone();
        let crossings = after.sla.advance(after.status, act.now);
        let crossed = after.clone();
        let mut faults = Vec::new();
        apply_fields(&mut after, change);
        apply_references(tx, act, &mut after, change, &mut faults)?;
        create::check_custom_fields(&after.custom_fields, &mut faults);
        create::check_text(after.description.as_deref(), "/description", &mut faults);
        apply_status(tx, act, &mut after, change, &mut faults)?;
        if !faults.is_empty() {
            return Err(TicketError::Invalid(faults));
        }
        if after == crossed && crossings.is_empty() {
            return Ok(Plan::unchanged(before));
        }
        let mut events: Vec<_> = crossing_events(&crossings).collect();
        let policy = self.policy(tx, act.tenant_id)?;
        if after.priority != before.priority {
            after.sla.priority_changed(&policy, before.status, after.priority, act.now);
        }
        if after.status != before.status {
            status_changed(&policy, act, &mut after, before.status);
        }
        let assigned = after.assignee_id.is_some() && act.actor.kind == ActorKind::User;
        if before.status == Status::New && after.status != Status::New && after.status.is_unfinished() && assigned {
            first_response(&policy, act, &mut after);
        }
        after.version += 1;
        after.updated_at = act.now.max(before.updated_at);
        if after != crossed {
            events.push((&UPDATED, Some(changes(&before, &after))));
        }
        events.extend(status_event(before.status, after.status).map(|kind| (kind, None)));
        Ok(Plan::change(before, after, events))
    }
}

/// Applies the consequences of a status change. The ticket already has the new status.
pub(super) fn status_changed(policy: &super::SlaPolicy, act: &Act, ticket: &mut Ticket, from: Status) {
    ticket.status_changed_at = act.now;
    match ticket.status {
        Status::Resolved => ticket.resolved_at = Some(act.now),
        Status::Closed => ticket.closed_at = Some(act.now),
        _ if from == Status::Resolved && ticket.status.is_unfinished() => {
            ticket.reopen_count += 1;
            ticket.resolution = None;
            ticket.resolved_at = None;
        }
        _ => {}
    }
    ticket.sla.status_changed(policy, ticket.priority, from, ticket.status, act.now);
}

/// The event for a status change, in addition to `ticket.updated`.
pub(super) fn status_event(from: Status, to: Status) -> Option<&'static tenantd_store::events::EventKind> {
    match (from, to) {
        (from, to) if from == to => None,
        (_, Status::Resolved) => Some(&RESOLVED),
        (_, Status::Closed) => Some(&CLOSED),
        (Status::Resolved, to) if to.is_unfinished() => Some(&REOPENED),
        _ => None,
    }
}

pub(super) fn first_response(policy: &super::SlaPolicy, act: &Act, ticket: &mut Ticket) {
    if ticket.first_responded_at.is_none() {
        ticket.first_responded_at = Some(act.now);
        ticket.sla.first_responded(policy, ticket.status, act.now);
    }
}

fn set<T: Clone>(field: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        field.clone_from(value);
    }
}

fn apply_fields(ticket: &mut Ticket, change: &TicketChange) {
    set(&mut ticket.subject, change.subject.as_ref());
    set(&mut ticket.kind, change.kind.as_ref());
    set(&mut ticket.source, change.source.as_ref());
    ticket.description = change.description.clone().apply(ticket.description.take());
    ticket.queue = change.queue.clone().apply(ticket.queue.take());
    ticket.category = change.category.clone().apply(ticket.category.take());
    ticket.tags = change.tags.clone().apply(Some(std::mem::take(&mut ticket.tags))).unwrap_or_default();
    let references = std::mem::take(&mut ticket.external_refs);
    ticket.external_refs = change.external_refs.clone().apply(Some(references)).unwrap_or_default();
    ticket.dedup_key = change.dedup_key.clone().apply(ticket.dedup_key.take());
    ticket.due_at = change.due_at.clone().apply(ticket.due_at);
    let levels = (ticket.impact, ticket.urgency);
    ticket.impact = change.impact.clone().apply(ticket.impact);
    ticket.urgency = change.urgency.clone().apply(ticket.urgency);
    // A new impact or urgency changes the priority, unless the patch sets the priority.
    let derived = if (ticket.impact, ticket.urgency) == levels {
        change.priority
    } else {
        Priority::choose(change.priority, ticket.impact, ticket.urgency)
    };
    ticket.priority = derived.unwrap_or(ticket.priority);
    match &change.custom_fields {
        Change::Keep => {}
        Change::Clear => ticket.custom_fields.clear(),
        Change::Set(fields) => {
            for (name, value) in fields {
                match value {
                    Some(value) => ticket.custom_fields.insert(name.clone(), value.clone()),
                    None => ticket.custom_fields.remove(name),
                };
            }
        }
    }
}

fn apply_references(
    tx: &impl Read,
    act: &Act,
    ticket: &mut Ticket,
    change: &TicketChange,
    faults: &mut Vec<Fault>,
) -> Result<(), TicketError> {
    if let Some(id) = change.organization_id {
        create::expect(create::organization(tx, act, id)?, "/organization_id", "organization", faults);
        ticket.organization_id = id;
    }
    let mut owners = Owners { contact: None, devices: Vec::new() };
    if let Change::Set(id) = change.contact_id {
        let found = create::expect(create::contact(tx, act, id)?, "/contact_id", "user", faults);
        owners.contact = found.and_then(|contact| contact.organization_id);
    }
    ticket.contact_id = change.contact_id.clone().apply(ticket.contact_id);
    if let Change::Set(id) = change.assignee_id {
        create::check_assignee(tx, act, Some(id), faults)?;
    }
    ticket.assignee_id = change.assignee_id.clone().apply(ticket.assignee_id);
    if let Change::Set(ids) = &change.device_ids {
        for (place, id) in ids.iter().enumerate() {
            let found = create::expect(create::device(tx, act, *id)?, &format!("/device_ids/{place}"), "device", faults);
            owners.devices.push(found.map(|device| device.organization_id));
        }
    }
    // The current contact or devices may have moved to another organization since.
    owners.check(ticket.organization_id, "/contact_id", |place| format!("/device_ids/{place}"), faults);
    ticket.device_ids = change.device_ids.clone().apply(Some(std::mem::take(&mut ticket.device_ids))).unwrap_or_default();
    ticket.parent = match change.parent {
        Change::Keep => ticket.parent,
        Change::Clear => None,
        Change::Set(parent) => create::find_parent(tx, act, parent, Some(ticket.number), faults)?,
    };
    Ok(())
}

fn apply_status(
    tx: &impl Read,
    act: &Act,
    ticket: &mut Ticket,
    change: &TicketChange,
    faults: &mut Vec<Fault>,
) -> Result<(), TicketError> {
    let from = ticket.status;
    if let Some(to) = change.status.filter(|to| *to != from) {
        if !from.may_become(to) {
            return Err(TicketError::InvalidTransition { from, to });
        }
        ticket.status = to;
    }
    apply_resolution(act, ticket, from, change, faults);
    match change.merged_into {
        Some(_) if ticket.status != Status::Merged || from == Status::Merged => {
            let message = "merged_into requires the status merged";
            faults.push(Fault::new("/merged_into", "not_merged", message).depending_on(&["status"]));
        }
        Some(target) => ticket.merged_into = find_merge_target(tx, act, ticket.number, target, faults)?,
        None if ticket.status == Status::Merged && from != Status::Merged => {
            faults.push(Fault::new("/merged_into", "required", "the status merged requires merged_into"));
        }
        None => {}
    }
    Ok(())
}

fn apply_resolution(act: &Act, ticket: &mut Ticket, from: Status, change: &TicketChange, faults: &mut Vec<Fault>) {
    let given = change.resolution_code.is_some() || change.resolution_summary.is_some();
    let resolved = matches!(ticket.status, Status::Resolved | Status::Closed);
    if given && !resolved {
        let message = "only a resolved ticket can have a resolution";
        faults.push(Fault::new("/resolution", "not_resolved", message).depending_on(&["status"]));
        return;
    }
    let resolving = ticket.status == Status::Resolved && from != Status::Resolved;
    let current = ticket.resolution.take().filter(|_| !resolving);
    let summary = change.resolution_summary.clone().or_else(|| current.as_ref().map(|resolution| resolution.summary.clone()));
    if resolving && summary.is_none() {
        faults.push(Fault::new("/resolution/summary", "required", "the status resolved requires a resolution summary"));
    }
    let code = change.resolution_code.or(current.as_ref().map(|resolution| resolution.code)).unwrap_or(ResolutionCode::Fixed);
    let by = current.map(|resolution| (resolution.resolved_by, resolution.resolved_at));
    let (resolved_by, resolved_at) = by.unwrap_or_else(|| (act.actor.clone(), act.now));
    ticket.resolution = summary.filter(|_| resolved).map(|summary| Resolution { code, summary, resolved_by, resolved_at });
}

fn find_merge_target(
    tx: &impl Read,
    act: &Act,
    number: u64,
    target: TicketRef,
    faults: &mut Vec<Fault>,
) -> Result<Option<TicketLink>, TicketError> {
    let Some(found) = create::expect(find(tx, act.tenant_id, &act.reach, target)?, "/merged_into", "ticket", faults) else {
        return Ok(None);
    };
    if found.number == number {
        faults.push(Fault::new("/merged_into", "itself", "a ticket cannot be merged into itself"));
    } else if found.status == Status::Merged {
        let message = format!("{} is already merged; use the ticket that it was merged into", found.reference());
        faults.push(Fault::new("/merged_into", "merged", message));
    }
    Ok(Some(found.link()))
}
