//! Creates tickets, and handles new tickets whose cause is already known.

use tenantd_base::{
    fault::{Fault, pointer_part},
    id::{CommentId, DeviceId, OrganizationId, TicketId, UserId},
};
use tenantd_directory::{self as directory, DeviceLabel, OrganizationLabel, PersonKind, PersonLabel};
use tenantd_store::{
    Read, StoreError,
    events::{Act, Changes},
};

use super::{CREATED, Plan, Service, UPDATED, find};
use crate::{
    error::TicketError,
    model::{
        Comment, CustomFields, MAX_CUSTOM_FIELDS, MAX_TEXT_BYTES, OnDuplicate, Priority, Ticket, TicketLink, TicketRef, Visibility,
        is_field_name,
    },
    repo,
    sla::Sla,
};

/// The maximum number of levels of nested tickets.
const MAX_ANCESTORS: usize = 32;

/// A ticket to create.
#[derive(Clone, Debug, Default)]
pub struct NewTicket {
    /// The fields that the caller chooses. The other fields are set on creation.
    pub ticket: Ticket,
    /// When absent, the priority follows from impact and urgency.
    pub priority: Option<Priority>,
    /// When absent, it is the organization of the first device, else that of the contact.
    pub organization_id: Option<OrganizationId>,
    pub contact_email: Option<String>,
    pub on_duplicate: OnDuplicate,
    pub parent: Option<TicketRef>,
    /// Whether the request has a `device_id` in addition to the list.
    pub has_first_device: bool,
}

impl NewTicket {
    /// The JSON pointer of a device in the request.
    fn device_pointer(&self, place: usize) -> String {
        match (self.has_first_device, place.checked_sub(1)) {
            (true, None) => "/device_id".to_owned(),
            (true, Some(place)) => format!("/device_ids/{place}"),
            (false, _) => format!("/device_ids/{place}"),
        }
    }
}

/// The fields that determine the organization if the request does not name it.
const ORGANIZATION_SOURCES: [&str; 4] = ["contact_id", "contact_email", "device_id", "device_ids"];

/// The resolved references of a new ticket.
struct ResolvedReferences {
    organization_id: OrganizationId,
    contact_id: Option<UserId>,
    parent: Option<TicketLink>,
}

impl Service {
    pub(crate) fn plan_create(&self, tx: &impl Read, act: &mut Act, new: &NewTicket) -> Result<Plan, TicketError> {
        let found = find_references(tx, act, new)?;
        let requested = &new.ticket;
        if let Some(key) = requested.dedup_key.as_deref().filter(|_| new.on_duplicate != OnDuplicate::Create)
            && let Some(first) = repo::find_unfinished(tx, act.tenant_id, found.organization_id, key)?
        {
            return plan_duplicate(act, new, first);
        }
        let (number, created_at) = repo::next_number(tx, act.tenant_id, act.now)?;
        let priority = Priority::choose(new.priority, requested.impact, requested.urgency).unwrap_or_default();
        let policy = self.policy(tx, act.tenant_id)?;
        let ticket = Ticket {
            tenant_id: act.tenant_id,
            number,
            id: TicketId::new(act.now, &mut act.entropy),
            priority,
            organization_id: found.organization_id,
            contact_id: found.contact_id,
            occurrences: 1,
            parent: found.parent,
            sla: Sla::start(&policy, priority, created_at),
            created_at,
            updated_at: created_at,
            status_changed_at: created_at,
            created_by: act.actor.clone(),
            version: 1,
            ..requested.clone()
        };
        let events = vec![(&CREATED, None)];
        Ok(Plan { before: None, after: ticket, comment: None, time_entry: None, deduplicated: false, events })
    }
}

/// Handles another report of the cause of an existing ticket.
fn plan_duplicate(act: &mut Act, new: &NewTicket, before: Ticket) -> Result<Plan, TicketError> {
    if new.on_duplicate == OnDuplicate::Reject {
        return Err(TicketError::Duplicate(before.link()));
    }
    let mut plan = Plan::unchanged(before);
    plan.deduplicated = true;
    if new.on_duplicate == OnDuplicate::Ignore {
        return Ok(plan);
    }
    let ticket = &mut plan.after;
    let occurrences = ticket.occurrences;
    ticket.occurrences += 1;
    ticket.comment_count += 1;
    ticket.version += 1;
    ticket.updated_at = act.now.max(ticket.updated_at);
    let crossings = ticket.sla.advance(ticket.status, act.now);
    let changes = Changes::default().with("occurrences", occurrences, ticket.occurrences);
    let mut body = format!("Reported again ({} times so far): {}", ticket.occurrences, new.ticket.subject);
    if let Some(description) = &new.ticket.description {
        body.push_str("\n\n");
        body.push_str(description);
    }
    plan.comment = Some(Comment {
        id: CommentId::new(act.now, &mut act.entropy),
        body,
        visibility: Visibility::Internal,
        contact_id: None,
        created_at: act.now,
        created_by: tenantd_store::events::Actor::system("Deduplication"),
    });
    plan.events = super::crossing_events(&crossings).collect();
    plan.events.push((&super::COMMENTED, None));
    plan.events.push((&UPDATED, Some(changes)));
    Ok(plan)
}

fn find_references(tx: &impl Read, act: &Act, new: &NewTicket) -> Result<ResolvedReferences, TicketError> {
    let (tenant, requested) = (act.tenant_id, &new.ticket);
    let mut faults = Vec::new();
    check_custom_fields(&requested.custom_fields, &mut faults);
    check_text(requested.description.as_deref(), "/description", &mut faults);
    if requested.contact_id.is_some() && new.contact_email.is_some() {
        faults.push(Fault::new("/contact_email", "not_allowed", "contact_id and contact_email exclude each other"));
    }
    let contact = match (requested.contact_id, new.contact_email.as_deref()) {
        (Some(id), _) => expect(contact(tx, act, id)?, "/contact_id", "user", &mut faults),
        (None, Some(email)) => {
            let found = directory::person_by_email(tx, tenant, email)?.filter(|person| act.reach.covers(person.organization_id));
            expect(found, "/contact_email", "user", &mut faults)
        }
        (None, None) => None,
    };
    let mut owners = Owners { contact: contact.as_ref().and_then(|contact| contact.organization_id), devices: Vec::new() };
    for (place, id) in requested.device_ids.iter().enumerate() {
        let found = expect(device(tx, act, *id)?, &new.device_pointer(place), "device", &mut faults);
        owners.devices.push(found.map(|device| device.organization_id));
    }
    check_assignee(tx, act, requested.assignee_id, &mut faults)?;
    let parent = match new.parent {
        Some(parent) => find_parent(tx, act, parent, None, &mut faults)?,
        None => None,
    };
    let organization_id = match new.organization_id {
        Some(id) => expect(organization(tx, act, id)?, "/organization_id", "organization", &mut faults).map(|_| id),
        None => owners.devices.iter().find_map(|device| *device).or(owners.contact),
    };
    let contact_pointer = if requested.contact_id.is_some() { "/contact_id" } else { "/contact_email" };
    if let Some(id) = organization_id {
        owners.check(id, contact_pointer, |place| new.device_pointer(place), &mut faults);
    }
    let names_owner = requested.contact_id.is_some() || new.contact_email.is_some() || !requested.device_ids.is_empty();
    let is_lost = names_owner && contact.is_none() && owners.devices.iter().all(Option::is_none);
    if organization_id.is_none() && new.organization_id.is_none() && !is_lost {
        let message = "organization_id is required, unless a device or a contact has an organization";
        faults.push(Fault::new("/organization_id", "required", message).depending_on(&ORGANIZATION_SOURCES));
    }
    match organization_id {
        Some(organization_id) if faults.is_empty() => {
            Ok(ResolvedReferences { organization_id, contact_id: contact.map(|contact| contact.id), parent })
        }
        _ => Err(TicketError::Invalid(faults)),
    }
}

/// The organizations that the contact and the devices of a ticket belong to.
pub(super) struct Owners {
    pub(super) contact: Option<OrganizationId>,
    pub(super) devices: Vec<Option<OrganizationId>>,
}

impl Owners {
    /// Checks that they all belong to the organization of the ticket. People without an organization can be the contact of
    /// any ticket.
    pub(super) fn check(
        &self,
        organization_id: OrganizationId,
        contact_pointer: &str,
        device_pointer: impl Fn(usize) -> String,
        faults: &mut Vec<Fault>,
    ) {
        let mut expect = |owner: Option<OrganizationId>, pointer: &str, noun: &str| {
            if owner.is_some_and(|owner| owner != organization_id) {
                let message = format!("the {noun} and the ticket belong to different organizations");
                faults.push(Fault::new(pointer, "other_organization", message));
            }
        };
        expect(self.contact, contact_pointer, "contact");
        for (place, device) in self.devices.iter().enumerate() {
            expect(*device, &device_pointer(place), "device");
        }
    }
}

/// Finds the parent of a ticket. An existing ticket must not become its own ancestor.
pub(super) fn find_parent(
    tx: &impl Read,
    act: &Act,
    parent: TicketRef,
    child: Option<u64>,
    faults: &mut Vec<Fault>,
) -> Result<Option<TicketLink>, TicketError> {
    let Some(parent) = expect(find(tx, act.tenant_id, &act.reach, parent)?, "/parent", "ticket", faults) else {
        return Ok(None);
    };
    let link = parent.link();
    let mut ancestor = Some(parent);
    for _ in 0..MAX_ANCESTORS {
        let Some(current) = ancestor else { return Ok(Some(link)) };
        if child == Some(current.number) {
            faults.push(Fault::new("/parent", "cycle", "the ticket would be its own ancestor"));
            return Ok(None);
        }
        ancestor = match current.parent {
            Some(next) => repo::get(tx, act.tenant_id, next.number)?,
            None => None,
        };
    }
    if ancestor.is_some() {
        faults.push(Fault::new("/parent", "too_deep", format!("tickets can be nested at most {MAX_ANCESTORS} levels deep")));
    }
    Ok(Some(link))
}

pub(super) fn organization(tx: &impl Read, act: &Act, id: OrganizationId) -> Result<Option<OrganizationLabel>, StoreError> {
    Ok(directory::organization(tx, act.tenant_id, id)?.filter(|found| act.reach.covers(Some(found.id))))
}

pub(super) fn contact(tx: &impl Read, act: &Act, id: UserId) -> Result<Option<PersonLabel>, StoreError> {
    Ok(directory::person(tx, act.tenant_id, id)?.filter(|found| act.reach.covers(found.organization_id)))
}

pub(super) fn device(tx: &impl Read, act: &Act, id: DeviceId) -> Result<Option<DeviceLabel>, StoreError> {
    Ok(directory::device(tx, act.tenant_id, id)?.filter(|found| act.reach.covers(Some(found.organization_id))))
}

/// Returns what was found, or adds a fault that the reference does not exist.
pub(super) fn expect<T>(found: Option<T>, pointer: &str, noun: &str, faults: &mut Vec<Fault>) -> Option<T> {
    if found.is_none() {
        faults.push(Fault::new(pointer, "unknown_reference", format!("{noun} not found")));
    }
    found
}

/// Checks that the assignee works for the tenant.
pub(super) fn check_assignee(
    tx: &impl Read,
    act: &Act,
    assignee: Option<UserId>,
    faults: &mut Vec<Fault>,
) -> Result<(), StoreError> {
    if let Some(id) = assignee {
        let is_seen = |person: &PersonLabel| person.kind == PersonKind::Staff || act.reach.covers(person.organization_id);
        let found = expect(directory::person(tx, act.tenant_id, id)?.filter(is_seen), "/assignee_id", "user", faults);
        if found.is_some_and(|person| person.kind != PersonKind::Staff) {
            faults.push(Fault::new("/assignee_id", "not_staff", "the assignee must be staff, not a contact"));
        }
    }
    Ok(())
}

/// The OpenAPI document limits characters. This limits bytes, because they are what is stored and sent.
pub(super) fn check_text(text: Option<&str>, pointer: &str, faults: &mut Vec<Fault>) {
    if text.is_some_and(|text| text.len() > MAX_TEXT_BYTES) {
        faults.push(Fault::new(pointer, "too_long", "must have at most 64 KiB"));
    }
}

pub(super) fn check_custom_fields(fields: &CustomFields, faults: &mut Vec<Fault>) {
    if fields.len() > MAX_CUSTOM_FIELDS {
        faults.push(Fault::new("/custom_fields", "too_many", format!("must have at most {MAX_CUSTOM_FIELDS} entries")));
    }
    for name in fields.keys().filter(|name| !is_field_name(name)) {
        let pointer = format!("/custom_fields/{}", pointer_part(name));
        faults.push(Fault::new(pointer, "wrong_form", "the name of a custom field must match [a-z0-9_]{1,64}"));
    }
}
