//! What clients send to create and change tickets.

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
    /// What the ticket is about, in a line.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) subject: String,
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) description: Option<String>,
    /// `incident` when absent.
    #[oai(rename = "type")]
    pub(super) kind: Option<TicketType>,
    /// When absent it follows from `impact` and `urgency`; without them it is `medium`.
    pub(super) priority: Option<Priority>,
    pub(super) impact: Option<Level>,
    pub(super) urgency: Option<Level>,
    /// `api` when absent.
    pub(super) source: Option<Source>,
    /// The queue that the ticket is in.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) queue: Option<String>,
    /// What the ticket is about, in words of your own.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) category: Option<String>,
    /// The customer. When absent it is that of the first device, else that of the contact.
    pub(super) organization_id: Option<OrganizationId>,
    pub(super) contact_id: Option<UserId>,
    /// Finds the contact by their address; not together with `contact_id`.
    #[oai(validator(min_length = 3, max_length = 254))]
    pub(super) contact_email: Option<String>,
    pub(super) assignee_id: Option<UserId>,
    /// The same as `device_ids` with one entry.
    pub(super) device_id: Option<DeviceId>,
    #[oai(validator(max_items = 50, unique_items))]
    pub(super) device_ids: Option<Vec<DeviceId>>,
    #[oai(validator(max_items = 50, unique_items))]
    pub(super) tags: Option<Vec<Tag>>,
    pub(super) custom_fields: Option<Fields<false>>,
    #[oai(validator(max_items = 20))]
    pub(super) external_refs: Option<Vec<ExternalRef>>,
    /// Names the cause: while an unfinished ticket of the organization has the same, `on_duplicate` says what happens.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) dedup_key: Option<String>,
    /// `comment` when absent.
    pub(super) on_duplicate: Option<OnDuplicate>,
    /// The ticket that this one is a part of. Parts may be 32 deep.
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
    /// `true`, the default, creates all tickets or none. `false` creates each by itself and answers for each, also when its fields are not valid.
    pub(super) atomic: Option<bool>,
}

impl Many for CreateTickets {
    const MEMBER: &'static str = "tickets";
}

/// How a ticket is resolved.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ResolveTicket {
    /// `fixed` when absent.
    pub(super) code: Option<ResolutionCode>,
    /// What solved it.
    #[oai(validator(min_length = 1, max_length = 10000))]
    pub(super) summary: Option<String>,
}

/// A change of a ticket, as a JSON merge patch (RFC 7396): what is absent stays as it is, `null` clears, lists are replaced, custom
/// fields change one by one.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateTicket {
    /// The ticket, unless the path or the query names it.
    pub(super) id: Option<TicketRef>,
    #[oai(flatten)]
    pub(super) patch: TicketPatch,
}

/// What changes in a ticket.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketPatch {
    /// What the ticket is about, in a line.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) subject: Option<String>,
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) description: Change<String>,
    #[oai(rename = "type")]
    pub(super) kind: Option<TicketType>,
    /// `resolved` needs a `resolution` with a summary, `merged` needs `merged_into`.
    pub(super) status: Option<Status>,
    pub(super) priority: Option<Priority>,
    pub(super) impact: Change<Level>,
    pub(super) urgency: Change<Level>,
    pub(super) source: Option<Source>,
    /// The queue that the ticket is in.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) queue: Change<String>,
    /// What the ticket is about, in words of your own.
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
    /// Names the cause of the ticket.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) dedup_key: Change<String>,
    /// The ticket that this one is a part of, and not the other way round. Parts may be 32 deep.
    pub(super) parent: Change<TicketRef>,
    /// Another ticket that is not merged itself; with the status `merged` only.
    pub(super) merged_into: Option<TicketRef>,
    /// Of a ticket that is resolved or becomes so.
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

/// One change of several tickets: of all or of none.
#[derive(Clone, Debug, Object)]
pub(super) struct UpdateTickets {
    /// Each ticket once, by whichever of its names.
    #[oai(validator(min_items = 1, max_items = 100))]
    pub(super) ids: Vec<TicketRef>,
    pub(super) patch: TicketPatch,
}

impl Many for UpdateTickets {
    const MEMBER: &'static str = "ids";
}

/// What became of one of several tickets.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketResult {
    /// The place in the request.
    pub(super) index: usize,
    /// The status that a request for this ticket alone would have had.
    pub(super) status: u16,
    /// The ticket. Absent on a failure.
    pub(super) ticket: Option<TicketJson>,
    /// Why it failed: `code`, `detail` and, for input, `errors`.
    pub(super) error: Option<ItemProblem>,
}

/// What became of several tickets.
#[derive(Debug, Object, Serialize)]
pub(super) struct TicketResults {
    /// A result for each ticket, in order.
    pub(super) results: Vec<TicketResult>,
    /// How many succeeded.
    pub(super) succeeded: usize,
    /// How many failed.
    pub(super) failed: usize,
}

/// A comment to add.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateComment {
    /// The text of the comment.
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) body: String,
    /// `internal` when absent.
    pub(super) visibility: Option<Visibility>,
    /// The contact who wrote it, when you pass it on, as a mail gateway does. Their public comment opens a ticket that waits for them or
    /// is resolved.
    pub(super) contact_id: Option<UserId>,
}

impl From<CreateComment> for NewComment {
    fn from(body: CreateComment) -> Self {
        Self { body: body.body, visibility: body.visibility.unwrap_or(Visibility::Internal), contact_id: body.contact_id }
    }
}

/// Time to note.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateTimeEntry {
    /// How long the work took, in minutes.
    #[oai(validator(minimum(value = "1"), maximum(value = "1440")))]
    pub(super) minutes: u32,
    /// Whether the time is billed.
    pub(super) billable: bool,
    /// Such as `remote`, `on_site` or `travel`: words of your own.
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
