//! What a contact sees of their tickets. **Invariant:** nothing here depends on an internal comment, a time entry or another field that only
//! staff see, not even a time, a count or an `ETag`.

use poem_openapi::Object;
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    clock::Timestamp,
    id::{CommentId, TicketId},
    secrets::digest,
    vocabulary::vocabulary,
};
use tenantd_directory::{self as directory, PersonKind};
use tenantd_http::wire::word_type;
use tenantd_store::{Read, StoreError, events::ActorKind};

use super::super::super::{
    model::{Comment, Priority, Status, StatusCategory, Ticket},
    service::{NewPortalTicket, PortalContact, can_close, can_reopen, takes_comments},
};

/// The name of an author who is not a person.
const SUPPORT: &str = "Support";

vocabulary! {
    /// Who wrote a comment, for the contact who reads it.
    PortalAuthorKind:
    You "you", Contact "contact", Support "support",
}

vocabulary! {
    /// The priorities that a contact can choose.
    PortalPriority:
    High "high", Medium "medium", Low "low",
}

word_type! {
    PortalAuthorKind, "PortalAuthorKind", "Who wrote a comment: `you`, another `contact`, or the `support`.";
    PortalPriority, "PortalPriority", "The priorities that a contact can choose. Only staff can set `critical`.";
}

impl From<PortalPriority> for Priority {
    fn from(priority: PortalPriority) -> Self {
        match priority {
            PortalPriority::High => Self::High,
            PortalPriority::Medium => Self::Medium,
            PortalPriority::Low => Self::Low,
        }
    }
}

/// A ticket of the signed-in contact.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct PortalTicket {
    /// The id of the ticket.
    id: TicketId,
    /// The ticket number in its usual form, such as `T-1042`.
    #[oai(rename = "ref")]
    #[serde(rename = "ref")]
    reference: String,
    /// A one-line summary of the ticket.
    subject: String,
    /// What the ticket is about.
    description: Option<String>,
    /// The status of the ticket.
    status: Status,
    /// The category of the status.
    status_category: StatusCategory,
    /// The priority of the ticket.
    priority: Priority,
    /// The name of the person who works on the ticket. Absent if nobody does.
    assignee_name: Option<String>,
    /// When the ticket was created.
    created_at: Timestamp,
    /// When the status last changed.
    status_changed_at: Timestamp,
    /// When the ticket was resolved.
    resolved_at: Option<Timestamp>,
    /// When the ticket was closed.
    closed_at: Option<Timestamp>,
    /// Whether you can add a comment.
    can_comment: bool,
    /// Whether you can close the ticket.
    can_close: bool,
    /// Whether you can reopen the ticket.
    can_reopen: bool,
}

impl PortalTicket {
    pub(super) fn look_up(tx: &impl Read, ticket: Ticket) -> Result<Self, StoreError> {
        let assignee = match ticket.assignee_id {
            Some(id) => directory::person(tx, ticket.tenant_id, id)?,
            None => None,
        };
        Ok(Self {
            id: ticket.id,
            reference: ticket.reference(),
            subject: ticket.subject,
            description: ticket.description,
            status: ticket.status,
            status_category: ticket.status.category(),
            priority: ticket.priority,
            assignee_name: assignee.map(|person| person.name),
            created_at: ticket.created_at,
            status_changed_at: ticket.status_changed_at,
            resolved_at: ticket.resolved_at,
            closed_at: ticket.closed_at,
            can_comment: takes_comments(ticket.status),
            can_close: can_close(ticket.status),
            can_reopen: can_reopen(ticket.status),
        })
    }

    /// A number that is different when anything of this is different. The version of the ticket would show what staff do.
    pub(super) fn visible_version(&self) -> Result<u64, serde_json::Error> {
        let bytes = digest(&serde_json::to_vec(self)?);
        // A number that every JSON reader represents exactly.
        Ok(bytes.first_chunk().map_or(0, |first| u64::from_be_bytes(*first) >> 11))
    }

    pub(super) fn path(&self) -> String {
        format!("/api/portal/tickets/{}", self.id)
    }
}

/// The author of a comment in the portal.
#[derive(Clone, Debug, Object, Serialize)]
pub(crate) struct PortalAuthor {
    /// Who wrote the comment.
    kind: PortalAuthorKind,
    /// The name of the person, or `Support`.
    name: String,
}

/// A public comment.
#[derive(Clone, Debug, Object, Serialize)]
#[oai(example)]
pub(crate) struct PortalComment {
    /// The id of the comment.
    id: CommentId,
    /// The text of the comment.
    body: String,
    /// Who wrote the comment.
    author: PortalAuthor,
    /// When the comment was added.
    created_at: Timestamp,
}

impl PortalComment {
    pub(super) fn look_up(tx: &impl Read, reader: &PortalContact, comment: Comment) -> Result<Self, StoreError> {
        // Somebody else can have sent the comment of a contact.
        let by_user = (comment.created_by.kind == ActorKind::User).then(|| comment.created_by.id.parse().ok()).flatten();
        let author = match comment.contact_id.or(by_user) {
            Some(id) => directory::person(tx, reader.tenant_id, id)?,
            None => None,
        };
        let author = match author {
            Some(person) if person.id == reader.id => PortalAuthor { kind: PortalAuthorKind::You, name: person.name },
            Some(person) if person.kind == PersonKind::Contact => {
                PortalAuthor { kind: PortalAuthorKind::Contact, name: person.name }
            }
            Some(person) => PortalAuthor { kind: PortalAuthorKind::Support, name: person.name },
            None => PortalAuthor { kind: PortalAuthorKind::Support, name: SUPPORT.to_owned() },
        };
        Ok(Self { id: comment.id, body: comment.body, author, created_at: comment.created_at })
    }
}

/// A ticket to create in the portal.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(crate) struct CreatePortalTicket {
    /// A one-line summary of the ticket.
    #[oai(validator(min_length = 1, max_length = 255))]
    subject: String,
    /// What the ticket is about.
    #[oai(validator(min_length = 1, max_length = 65536))]
    description: Option<String>,
    /// How urgent it is. Defaults to `medium`.
    priority: Option<PortalPriority>,
}

impl From<CreatePortalTicket> for NewPortalTicket {
    fn from(body: CreatePortalTicket) -> Self {
        let CreatePortalTicket { subject, description, priority } = body;
        Self { subject, description, priority: priority.map_or(Priority::Medium, Into::into) }
    }
}

/// A comment to add in the portal.
#[derive(Clone, Debug, Object)]
#[oai(example)]
pub(crate) struct CreatePortalComment {
    /// The text of the comment.
    #[oai(validator(min_length = 1, max_length = 65536))]
    pub(super) body: String,
}
