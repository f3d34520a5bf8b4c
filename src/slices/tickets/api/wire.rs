//! Tickets in the form of the API.

use poem_openapi::{
    Object,
    types::{ParseError, ParseFromJSON, ParseResult, ToJSON},
};
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{CommentId, DeviceId, TicketId, TimeEntryId, UserId},
};
use tenantd_directory::{OrganizationReference, PersonReference};
use tenantd_http::{author::Author, page::Page, wire::document_type};
use tenantd_store::{
    Read, StoreError,
    events::{Describe, Described},
};

use super::{
    super::{
        labels::Labels,
        model::{
            self, Level, Priority, ResolutionCode, SlaState, Source, Status, StatusCategory, TicketLink, TicketType, Visibility,
            reference,
        },
        service::field_values,
        sla,
    },
    vocabulary::Fields,
};

/// The contact at the customer.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketContact {
    pub(super) id: UserId,
    pub(super) name: String,
    pub(super) email: Option<String>,
}

impl TicketContact {
    pub(super) fn new(id: UserId, labels: &Labels) -> Self {
        let person = labels.person(id);
        Self { id, name: person.name, email: person.email }
    }
}

/// A device that a ticket is about.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct TicketDevice {
    pub(super) id: DeviceId,
    pub(super) name: String,
}

/// Another ticket.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct TicketReference {
    pub(super) id: TicketId,
    /// The ticket number in its usual form, such as `T-1042`.
    #[oai(rename = "ref")]
    #[serde(rename = "ref")]
    pub(super) reference: String,
}

impl From<TicketLink> for TicketReference {
    fn from(link: TicketLink) -> Self {
        Self { id: link.id, reference: reference(link.number) }
    }
}

/// A reference to the ticket in an external system.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ExternalRef {
    /// The name of the external system.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) system: String,
    /// The id of the ticket in the external system.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) id: String,
    /// The address of the ticket in the external system.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) url: Option<String>,
}

impl From<model::ExternalRef> for ExternalRef {
    fn from(reference: model::ExternalRef) -> Self {
        Self { system: reference.system, id: reference.id, url: reference.url }
    }
}

impl From<ExternalRef> for model::ExternalRef {
    fn from(reference: ExternalRef) -> Self {
        Self { system: reference.system, id: reference.id, url: reference.url }
    }
}

/// The clock of a service level target.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SlaClock {
    /// The target in working minutes.
    pub(super) target_minutes: u32,
    /// When the target is due. Absent while the clock is paused, unless the ticket is already late.
    pub(super) due_at: Option<Timestamp>,
    /// When the target was met.
    pub(super) met_at: Option<Timestamp>,
    /// Whether the target was missed.
    pub(super) breached: bool,
}

impl From<sla::SlaClock> for SlaClock {
    fn from(clock: sla::SlaClock) -> Self {
        Self { target_minutes: clock.target_minutes, due_at: clock.due_at, met_at: clock.met_at, breached: clock.breached }
    }
}

/// The state of the ticket's service levels.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct TicketSla {
    pub(super) state: SlaState,
    /// The clock until the first response.
    pub(super) first_response: SlaClock,
    /// The clock until the resolution.
    pub(super) resolution: SlaClock,
    /// The total time that the ticket has waited, in minutes.
    pub(super) paused_minutes: u64,
}

/// How a ticket was resolved.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct TicketResolution {
    pub(super) code: ResolutionCode,
    /// What solved the problem.
    pub(super) summary: String,
    pub(super) resolved_by: Author,
    /// When the ticket was resolved.
    pub(super) resolved_at: Timestamp,
}

#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct TicketCounters {
    /// The number of comments.
    pub(super) comments: u64,
    /// The number of times that the ticket was reopened.
    pub(super) reopens: u64,
}

/// A ticket.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct Ticket {
    pub(super) id: TicketId,
    /// The number of the ticket. Numbers are sequential within the tenant and never reused.
    pub(super) number: u64,
    /// The number in its usual form, such as `T-1042`. You can use it instead of the id.
    #[oai(rename = "ref")]
    #[serde(rename = "ref")]
    pub(super) reference: String,
    /// A one-line summary of the ticket.
    pub(super) subject: String,
    pub(super) description: Option<String>,
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: TicketType,
    pub(super) status: Status,
    pub(super) status_category: StatusCategory,
    pub(super) priority: Priority,
    pub(super) impact: Option<Level>,
    pub(super) urgency: Option<Level>,
    pub(super) source: Source,
    /// The name of the queue that the ticket is in.
    pub(super) queue: Option<String>,
    /// A category of your choice.
    pub(super) category: Option<String>,
    pub(super) organization: OrganizationReference,
    /// The contact at the customer. If a restricted API key cannot see the organization of a contact or device, the ticket
    /// shows only its id.
    pub(super) contact: Option<TicketContact>,
    pub(super) assignee: Option<PersonReference>,
    pub(super) devices: Vec<TicketDevice>,
    pub(super) tags: Vec<String>,
    pub(super) custom_fields: Fields<false>,
    pub(super) external_refs: Vec<ExternalRef>,
    /// Identifies the cause of the ticket.
    pub(super) dedup_key: Option<String>,
    /// How often the cause was reported.
    pub(super) occurrences: u64,
    /// The ticket that this one is a part of. Absent if the caller cannot see its organization.
    pub(super) parent: Option<TicketReference>,
    /// The ticket that this one was merged into. Absent if the caller cannot see its organization.
    pub(super) merged_into: Option<TicketReference>,
    pub(super) sla: TicketSla,
    pub(super) resolution: Option<TicketResolution>,
    /// The numbers of comments and reopenings.
    pub(super) counts: TicketCounters,
    /// The total time spent on the ticket, in minutes.
    pub(super) time_spent_minutes: u64,
    /// When the ticket must be done.
    pub(super) due_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// When the status last changed.
    pub(super) status_changed_at: Timestamp,
    /// When the customer received the first response.
    pub(super) first_responded_at: Option<Timestamp>,
    /// When the ticket was resolved.
    pub(super) resolved_at: Option<Timestamp>,
    /// When the ticket was closed.
    pub(super) closed_at: Option<Timestamp>,
    pub(super) created_by: Author,
    /// The version of the ticket. It increases with every change.
    pub(super) version: u64,
    /// The statuses that the ticket can change to.
    pub(super) allowed_transitions: Vec<Status>,
    /// `true` if the request found an open ticket with the same `dedup_key` instead of creating one. Only in responses to
    /// creations.
    pub(super) deduplicated: Option<bool>,
}

impl Ticket {
    pub(super) fn look_up(tx: &impl Read, reach: &Reach, ticket: model::Ticket, now: Timestamp) -> Result<Self, StoreError> {
        let labels = Labels::of_tickets(tx, ticket.tenant_id, reach, [&ticket])?;
        Ok(Self::new(ticket, &labels, now))
    }

    pub(super) fn new(ticket: model::Ticket, labels: &Labels, now: Timestamp) -> Self {
        let resolution = ticket.resolution.map(|resolution| TicketResolution {
            code: resolution.code,
            summary: resolution.summary,
            resolved_by: resolution.resolved_by.into(),
            resolved_at: resolution.resolved_at,
        });
        Self {
            id: ticket.id,
            number: ticket.number,
            reference: reference(ticket.number),
            subject: ticket.subject,
            description: ticket.description,
            kind: ticket.kind,
            status: ticket.status,
            status_category: ticket.status.category(),
            priority: ticket.priority,
            impact: ticket.impact,
            urgency: ticket.urgency,
            source: ticket.source,
            queue: ticket.queue,
            category: ticket.category,
            organization: OrganizationReference { id: ticket.organization_id, name: labels.organization(ticket.organization_id) },
            contact: ticket.contact_id.map(|id| TicketContact::new(id, labels)),
            assignee: ticket.assignee_id.map(|id| PersonReference { id, name: labels.person(id).name }),
            devices: ticket.device_ids.iter().map(|id| TicketDevice { id: *id, name: labels.device(*id) }).collect(),
            tags: ticket.tags,
            custom_fields: Fields(field_values(&ticket.custom_fields).into_iter().collect()),
            external_refs: ticket.external_refs.into_iter().map(Into::into).collect(),
            dedup_key: ticket.dedup_key,
            occurrences: ticket.occurrences,
            parent: labels.link(ticket.parent).map(Into::into),
            merged_into: labels.link(ticket.merged_into).map(Into::into),
            sla: TicketSla {
                state: ticket.sla.state,
                first_response: ticket.sla.first_response.into(),
                resolution: ticket.sla.resolution.into(),
                paused_minutes: ticket.sla.paused_minutes(now),
            },
            resolution,
            counts: TicketCounters { comments: ticket.comment_count, reopens: ticket.reopen_count },
            time_spent_minutes: ticket.time_spent_minutes,
            due_at: ticket.due_at,
            created_at: ticket.created_at,
            updated_at: ticket.updated_at,
            status_changed_at: ticket.status_changed_at,
            first_responded_at: ticket.first_responded_at,
            resolved_at: ticket.resolved_at,
            closed_at: ticket.closed_at,
            created_by: ticket.created_by.into(),
            version: ticket.version,
            allowed_transitions: ticket.status.transitions(),
            deduplicated: None,
        }
    }
}

/// A ticket as serialized JSON.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct TicketJson(pub(super) Box<RawValue>);

document_type!([] TicketJson, Ticket::name(), Ticket::schema_ref(), |registry| Ticket::register(registry));

impl ParseFromJSON for TicketJson {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        to_raw_value(&value).map(Self).map_err(ParseError::custom)
    }
}

impl ToJSON for TicketJson {
    fn to_json(&self) -> Option<Value> {
        serde_json::from_str(self.0.get()).ok()
    }
}

impl Describe<(&Labels, Timestamp)> for model::Ticket {
    fn describe(&self, (labels, now): (&Labels, Timestamp)) -> Described {
        to_raw_value(&Ticket::new(self.clone(), labels, now))
    }
}

/// A comment on a ticket.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketComment {
    pub(super) id: CommentId,
    /// The text of the comment.
    pub(super) body: String,
    pub(super) visibility: Visibility,
    /// The contact who wrote the comment, if someone else submitted it on their behalf.
    pub(super) contact: Option<TicketContact>,
    pub(super) created_at: Timestamp,
    pub(super) created_by: Author,
}

impl TicketComment {
    pub(super) fn new(comment: model::Comment, labels: &Labels) -> Self {
        Self {
            id: comment.id,
            body: comment.body,
            visibility: comment.visibility,
            contact: comment.contact_id.map(|id| TicketContact::new(id, labels)),
            created_at: comment.created_at,
            created_by: comment.created_by.into(),
        }
    }
}

impl Describe<&Labels> for model::Comment {
    fn describe(&self, labels: &Labels) -> Described {
        to_raw_value(&TicketComment::new(self.clone(), labels))
    }
}

/// Time that was spent on a ticket.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketTimeEntry {
    pub(super) id: TimeEntryId,
    /// How long the work took, in minutes.
    pub(super) minutes: u32,
    /// Whether the time is billed.
    pub(super) billable: bool,
    /// The kind of work.
    pub(super) work_type: String,
    /// What was done.
    pub(super) note: Option<String>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    pub(super) created_by: Author,
}

impl From<model::TimeEntry> for TicketTimeEntry {
    fn from(entry: model::TimeEntry) -> Self {
        let model::TimeEntry { id, minutes, billable, work_type, note, started_at, created_at, created_by } = entry;
        Self { id, minutes, billable, work_type, note, started_at, created_at, created_by: created_by.into() }
    }
}

/// The number of tickets with a value.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketCount {
    /// The value in the form that the filter takes. `none` stands for tickets without an assignee.
    pub(super) value: String,
    /// The name, if the value is an id.
    pub(super) name: Option<String>,
    pub(super) count: u64,
}

/// Counts of all matching tickets, by the fields in `counts_by`: the most frequent values first, at most 1,000 per field.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketCounts {
    pub(super) status: Option<Vec<TicketCount>>,
    pub(super) priority: Option<Vec<TicketCount>>,
    pub(super) assignee: Option<Vec<TicketCount>>,
    pub(super) organization: Option<Vec<TicketCount>>,
}

/// A page of tickets.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TicketList {
    pub(super) data: Vec<Ticket>,
    pub(super) page: Page,
    /// Whether more tickets than `page.total` could match. Present only with `count_up_to`.
    pub(super) total_is_minimum: Option<bool>,
    pub(super) counts: Option<TicketCounts>,
}
