//! Request bodies that create and change tickets.

use poem_openapi::Object;
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    id::{DeviceId, OrganizationId, UserId},
};
use tenantd_http::{
    bounded::Text,
    wire::{Item, ItemProblem, Many},
};

use super::{
    super::{
        model::{Level, OnDuplicate, Priority, ResolutionCode, Source, Status, Ticket, TicketRef, TicketType, Visibility},
        service::{NewComment, NewTicket, NewTimeEntry, TicketChange},
    },
    vocabulary::Fields,
    wire::{ExternalRef, TicketJson},
};

/// A ticket to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateTicket {
    /// A one-line summary of the ticket.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) subject: String,
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) description: Option<String>,
    /// The type of the ticket. Defaults to `incident`.
    #[oai(rename = "type")]
    pub(super) kind: Option<TicketType>,
    /// The priority. When absent, tenantd derives it from `impact` and `urgency`; without both of them it is `medium`.
    pub(super) priority: Option<Priority>,
    pub(super) impact: Option<Level>,
    pub(super) urgency: Option<Level>,
    /// Where the ticket comes from. Defaults to `api`.
    pub(super) source: Option<Source>,
    /// The name of the queue that the ticket is in.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) queue: Option<String>,
    /// A category of your choice.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) category: Option<String>,
    /// The customer that the ticket belongs to. When absent, it is the organization of the first device, else that of the contact.
    pub(super) organization_id: Option<OrganizationId>,
    pub(super) contact_id: Option<UserId>,
    /// The email address of an existing contact. You cannot combine it with `contact_id`.
    #[oai(validator(min_length = 3, max_length = 254))]
    pub(super) contact_email: Option<String>,
    pub(super) assignee_id: Option<UserId>,
    /// The same as `device_ids` with this device as the first entry.
    pub(super) device_id: Option<DeviceId>,
    #[oai(validator(max_items = 50, unique_items))]
    pub(super) device_ids: Option<Vec<DeviceId>>,
    #[oai(validator(max_items = 50, unique_items))]
    pub(super) tags: Option<Vec<Tag>>,
    pub(super) custom_fields: Option<Fields<false>>,
    #[oai(validator(max_items = 20))]
    pub(super) external_refs: Option<Vec<ExternalRef>>,
    /// Identifies the cause of the ticket. If an open ticket of the organization has the same key, `on_duplicate` decides
    /// what happens.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) dedup_key: Option<String>,
    /// What to do if an open ticket has the same `dedup_key`. Defaults to `comment`.
    pub(super) on_duplicate: Option<OnDuplicate>,
    /// The ticket that this ticket is a part of. Tickets can be nested up to 32 levels deep.
    pub(super) parent: Option<TicketRef>,
    /// When the ticket must be done.
    pub(super) due_at: Option<Timestamp>,
}

type Tag = Text<50>;

impl From<CreateTicket> for NewTicket {
    fn from(body: CreateTicket) -> Self {
        let custom_fields = body.custom_fields.unwrap_or_default().values();
        let mut device_ids = body.device_ids.unwrap_or_default();
        let first = body.device_id.filter(|first| !device_ids.contains(first));
        device_ids.splice(0..0, first);
        let ticket = Ticket {
            subject: body.subject,
            description: body.description,
            kind: body.kind.unwrap_or_default(),
            impact: body.impact,
            urgency: body.urgency,
            source: body.source.unwrap_or_default(),
            queue: body.queue,
            category: body.category,
            contact_id: body.contact_id,
            assignee_id: body.assignee_id,
            device_ids,
            tags: body.tags.unwrap_or_default().into_iter().map(Text::into_string).collect(),
            custom_fields: custom_fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            external_refs: body.external_refs.unwrap_or_default().into_iter().map(Into::into).collect(),
            dedup_key: body.dedup_key,
            due_at: body.due_at,
            ..Ticket::default()
        };
        Self {
            ticket,
            priority: body.priority,
            organization_id: body.organization_id,
            contact_email: body.contact_email,
            on_duplicate: body.on_duplicate.unwrap_or_default(),
            parent: body.parent,
            has_first_device: first.is_some(),
        }
    }
}

/// Several tickets to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct CreateTickets {
    #[oai(validator(min_items = 1, max_items = 100))]
    pub(super) tickets: Vec<Item<CreateTicket>>,
    /// `true` (the default) creates all tickets or none. `false` creates each ticket separately and returns a result for
    /// each, including for tickets with invalid fields.
    pub(super) atomic: Option<bool>,
}

impl Many for CreateTickets {
    const MEMBER: &'static str = "tickets";
}

/// The resolution of a ticket.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ResolveTicket {
    /// The kind of resolution. Defaults to `fixed`.
    pub(super) code: Option<ResolutionCode>,
    /// What solved the problem.
    #[oai(validator(min_length = 1, max_length = 10000))]
    pub(super) summary: Option<String>,
}

/// A change of a ticket, as a JSON merge patch (RFC 7396). Absent fields keep their value, `null` removes a value, and lists
/// are replaced as a whole. Custom fields are changed one by one.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateTicket {
    /// The ticket to change, unless the path or the query names it.
    pub(super) id: Option<TicketRef>,
    #[oai(flatten)]
    pub(super) patch: TicketPatch,
}

/// The changes of a ticket.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketPatch {
    /// A one-line summary of the ticket.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) subject: Option<String>,
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) description: Change<String>,
    #[oai(rename = "type")]
    pub(super) kind: Option<TicketType>,
    /// The new status. `resolved` requires a `resolution` with a summary, `merged` requires `merged_into`.
    pub(super) status: Option<Status>,
    pub(super) priority: Option<Priority>,
    pub(super) impact: Change<Level>,
    pub(super) urgency: Change<Level>,
    pub(super) source: Option<Source>,
    /// The name of the queue that the ticket is in.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) queue: Change<String>,
    /// A category of your choice.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) category: Change<String>,
    pub(super) organization_id: Option<OrganizationId>,
    pub(super) contact_id: Change<UserId>,
    pub(super) assignee_id: Change<UserId>,
    #[oai(validator(max_items = 50, unique_items))]
    pub(super) device_ids: Change<Vec<DeviceId>>,
    #[oai(validator(max_items = 50, unique_items))]
    pub(super) tags: Change<Vec<Tag>>,
    pub(super) custom_fields: Change<Fields<true>>,
    #[oai(validator(max_items = 20))]
    pub(super) external_refs: Change<Vec<ExternalRef>>,
    /// Identifies the cause of the ticket.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) dedup_key: Change<String>,
    /// The ticket that this ticket is a part of. It must not be a part of this ticket. Tickets can be nested up to 32 levels deep.
    pub(super) parent: Change<TicketRef>,
    /// The ticket to merge this one into. It must not be merged itself. Allowed only with the status `merged`.
    pub(super) merged_into: Option<TicketRef>,
    /// The resolution. Allowed only if the ticket is resolved or becomes resolved.
    pub(super) resolution: Option<ResolveTicket>,
    /// When the ticket must be done.
    pub(super) due_at: Change<Timestamp>,
}

impl From<TicketPatch> for TicketChange {
    fn from(patch: TicketPatch) -> Self {
        let resolution = patch.resolution.map(|resolution| (resolution.code, resolution.summary));
        let (resolution_code, resolution_summary) = resolution.unwrap_or_default();
        Self {
            subject: patch.subject,
            description: patch.description,
            kind: patch.kind,
            status: patch.status,
            priority: patch.priority,
            impact: patch.impact,
            urgency: patch.urgency,
            source: patch.source,
            queue: patch.queue,
            category: patch.category,
            organization_id: patch.organization_id,
            contact_id: patch.contact_id,
            assignee_id: patch.assignee_id,
            device_ids: patch.device_ids,
            tags: patch.tags.map(|tags| tags.into_iter().map(Text::into_string).collect()),
            custom_fields: patch.custom_fields.map(Fields::values),
            external_refs: patch.external_refs.map(|references| references.into_iter().map(Into::into).collect()),
            dedup_key: patch.dedup_key,
            parent: patch.parent,
            merged_into: patch.merged_into,
            resolution_code,
            resolution_summary,
            due_at: patch.due_at,
        }
    }
}

/// One change of several tickets. It applies to all of them or to none.
#[derive(Clone, Debug, Object)]
pub(super) struct UpdateTickets {
    /// The tickets to change, each by its id or its number. You may name each ticket only once.
    #[oai(validator(min_items = 1, max_items = 100))]
    pub(super) ids: Vec<TicketRef>,
    pub(super) patch: TicketPatch,
}

impl Many for UpdateTickets {
    const MEMBER: &'static str = "ids";
}

/// The result for one of several tickets.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketResult {
    /// The position of the ticket in the request, starting at 0.
    pub(super) index: usize,
    /// The HTTP status that a request for only this ticket would have returned.
    pub(super) status: u16,
    /// The ticket. Absent if it failed.
    pub(super) ticket: Option<TicketJson>,
    /// Why it failed: `code`, `detail` and, for invalid input, `errors`. Absent if it succeeded.
    pub(super) error: Option<ItemProblem>,
}

/// The results for several tickets.
#[derive(Debug, Object, Serialize)]
pub(super) struct TicketResults {
    /// One result per ticket, in the order of the request.
    pub(super) results: Vec<TicketResult>,
    /// The number of tickets that succeeded.
    pub(super) succeeded: usize,
    /// The number of tickets that failed.
    pub(super) failed: usize,
}

/// A comment to add.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateComment {
    /// The text of the comment.
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) body: String,
    /// Who can see the comment. Defaults to `internal`.
    pub(super) visibility: Option<Visibility>,
    /// The contact who wrote the comment, if you submit it on their behalf, for example from a mail gateway. A public comment
    /// of a contact reopens a ticket that is resolved or waits for the customer.
    pub(super) contact_id: Option<UserId>,
}

impl From<CreateComment> for NewComment {
    fn from(body: CreateComment) -> Self {
        Self { body: body.body, visibility: body.visibility.unwrap_or(Visibility::Internal), contact_id: body.contact_id }
    }
}

/// Time spent on a ticket.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateTimeEntry {
    /// How long the work took, in minutes.
    #[oai(validator(minimum(value = "1"), maximum(value = "1440")))]
    pub(super) minutes: u32,
    /// Whether the time is billed.
    pub(super) billable: bool,
    /// The kind of work, such as `remote`, `on_site` or `travel`. You can use any words.
    #[oai(validator(min_length = 1, max_length = 50))]
    pub(super) work_type: String,
    /// What was done.
    #[oai(validator(min_length = 1, max_length = 2000))]
    pub(super) note: Option<String>,
    pub(super) started_at: Option<Timestamp>,
}

impl From<CreateTimeEntry> for NewTimeEntry {
    fn from(body: CreateTimeEntry) -> Self {
        let CreateTimeEntry { minutes, billable, work_type, note, started_at } = body;
        Self { minutes, billable, work_type, note, started_at }
    }
}
