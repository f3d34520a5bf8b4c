//! The parameters of the list of tickets.

use poem_openapi::{Enum, Object};

use tenantd_base::{
    access::{Identity, Principal},
    clock::Timestamp,
    id::{DeviceId, OrganizationId, UserId},
    vocabulary::vocabulary,
};
use tenantd_http::{
    page::PageQuery,
    problem::{FieldError, Problem},
    wire::word_type,
};
use tenantd_store::Direction;

use super::{
    super::{
        listing::{SortField, TicketQuery},
        model::{self, Priority, SlaState, Source, Status, StatusCategory, TicketType},
        repo::Field,
    },
    vocabulary::AssigneeFilter,
};

vocabulary! {
    TicketSort:
    UpdatedAt "updated_at", UpdatedAtDescending "-updated_at", CreatedAt "created_at", CreatedAtDescending "-created_at",
    Number "number", NumberDescending "-number", Priority "priority", PriorityDescending "-priority", DueAt "due_at",
    DueAtDescending "-due_at",
}

word_type! {
    TicketSort, "TicketSort";
}

impl TicketSort {
    fn parts(self) -> (SortField, Direction) {
        match self {
            Self::UpdatedAt => (SortField::UpdatedAt, Direction::Forward),
            Self::UpdatedAtDescending => (SortField::UpdatedAt, Direction::Backward),
            Self::CreatedAt | Self::Number => (SortField::CreatedAt, Direction::Forward),
            Self::CreatedAtDescending | Self::NumberDescending => (SortField::CreatedAt, Direction::Backward),
            Self::Priority => (SortField::Priority, Direction::Forward),
            Self::PriorityDescending => (SortField::Priority, Direction::Backward),
            Self::DueAt => (SortField::DueAt, Direction::Forward),
            Self::DueAtDescending => (SortField::DueAt, Direction::Backward),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum CountsBy {
    Status,
    Priority,
    Assignee,
    Organization,
}

impl CountsBy {
    pub(super) fn field(self) -> Field {
        match self {
            Self::Status => Field::Status,
            Self::Priority => Field::Priority,
            Self::Assignee => Field::Assignee,
            Self::Organization => Field::Organization,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum TicketFormat {
    Json,
    Csv,
    Ndjson,
}

#[derive(Debug, Object)]
pub(super) struct ListTickets {
    /// Tickets in one of these states.
    #[oai(validator(min_items = 1, max_items = 11))]
    status: Option<Vec<Status>>,
    #[oai(validator(min_items = 1, max_items = 3))]
    status_category: Option<Vec<StatusCategory>>,
    #[oai(validator(min_items = 1, max_items = 4))]
    priority: Option<Vec<Priority>>,
    #[oai(rename = "type", validator(min_items = 1, max_items = 7))]
    kind: Option<Vec<TicketType>>,
    #[oai(validator(min_items = 1, max_items = 10))]
    source: Option<Vec<Source>>,
    #[oai(validator(min_items = 1, max_items = 50))]
    organization_id: Option<Vec<OrganizationId>>,
    #[oai(validator(min_items = 1, max_items = 50))]
    contact_id: Option<Vec<UserId>>,
    /// Users; `me` for the person who is signed in, which a key is not; `none` for tickets without one.
    #[oai(validator(min_items = 1, max_items = 50))]
    assignee_id: Option<Vec<AssigneeFilter>>,
    #[oai(validator(min_items = 1, max_items = 50))]
    device_id: Option<Vec<DeviceId>>,
    /// Tickets with one of these tags.
    #[oai(validator(min_items = 1, max_items = 50))]
    tag: Option<Vec<String>>,
    #[oai(validator(min_items = 1, max_items = 6))]
    sla_state: Option<Vec<SlaState>>,
    /// Tickets with this `dedup_key`.
    #[oai(validator(min_length = 1, max_length = 255))]
    dedup_key: Option<String>,
    /// Tickets with a name in this other system.
    #[oai(validator(min_length = 1, max_length = 100))]
    external_system: Option<String>,
    /// The name in the system of `external_system`, which must be given too.
    #[oai(validator(min_length = 1, max_length = 255))]
    external_id: Option<String>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
    updated_after: Option<Timestamp>,
    updated_before: Option<Timestamp>,
    /// Tickets that have a due time, before this one.
    due_before: Option<Timestamp>,
    /// Words of the subject, in any order, without case and accents; the beginning of a word is enough. One letter or digit at
    /// least.
    #[oai(validator(min_length = 1, max_length = 200))]
    q: Option<String>,
    /// Tickets with an event after this `seq` of the feed: what changed since then.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    since_seq: Option<u64>,
    /// The order; a `-` reverses it. The last changed first when absent. `priority` has the most urgent first, and within one the ticket
    /// that was left alone longest; `due_at` has tickets without a due time last in both directions.
    pub(super) sort: Option<TicketSort>,
    /// Also count all tickets that match by these fields.
    #[oai(validator(min_items = 1, max_items = 4, unique_items))]
    pub(super) counts_by: Option<Vec<CountsBy>>,
    /// `csv` and `ndjson` stream all tickets that match, without pages; by number unless `sort` says otherwise.
    pub(super) format: Option<TicketFormat>,
    #[oai(flatten)]
    pub(super) page: PageQuery,
}

impl ListTickets {
    pub(super) fn query(&self, principal: &Principal, default_sort: TicketSort) -> Result<TicketQuery, Problem> {
        let mut errors = Vec::new();
        if self.external_id.is_some() && self.external_system.is_none() {
            let message = "external_id needs external_system: an id means nothing without its system";
            errors.push(FieldError::parameter("external_system", "required", message));
        }
        let words = self.q.as_deref().map(model::words).unwrap_or_default();
        if self.q.is_some() && words.is_empty() {
            errors.push(FieldError::parameter("q", "wrong_form", "q must have a letter or a digit"));
        }
        let mut assignees = Vec::new();
        for wanted in self.assignee_id.iter().flatten() {
            match (wanted, &principal.identity) {
                (AssigneeFilter::Nobody, _) => assignees.push(None),
                (AssigneeFilter::User(id), _) | (AssigneeFilter::Me, Identity::User { id, .. }) => assignees.push(Some(*id)),
                (AssigneeFilter::Me, _) => {
                    let message = "me is a person who is signed in; a key has no tickets";
                    errors.push(FieldError::parameter("assignee_id", "not_allowed", message));
                }
            }
        }
        if !errors.is_empty() {
            return Err(Problem::invalid(errors));
        }
        let (sort, direction) = self.sort.unwrap_or(default_sort).parts();
        Ok(TicketQuery {
            tenant_id: principal.tenant_id,
            statuses: self.statuses(),
            priorities: self.priority.clone().unwrap_or_default(),
            kinds: self.kind.clone().unwrap_or_default(),
            sources: self.source.clone().unwrap_or_default(),
            organizations: principal.reach.narrow(self.organization_id.clone()),
            contacts: self.contact_id.clone().unwrap_or_default(),
            assignees,
            devices: self.device_id.clone().unwrap_or_default(),
            tags: self.tag.clone().unwrap_or_default(),
            sla_states: self.sla_state.clone().unwrap_or_default(),
            dedup_key: self.dedup_key.clone(),
            external_system: self.external_system.clone(),
            external_id: self.external_id.clone(),
            created_after: self.created_after,
            created_before: self.created_before,
            updated_after: self.updated_after,
            updated_before: self.updated_before,
            due_before: self.due_before,
            words,
            since_seq: self.since_seq,
            sort,
            direction,
        })
    }

    /// The states that both the filter by status and the one by category allow.
    fn statuses(&self) -> Option<Vec<Status>> {
        let category = self.status_category.as_ref();
        let in_category = |status: &Status| category.is_none_or(|categories| categories.contains(&status.category()));
        match (&self.status, category) {
            (None, None) => None,
            (Some(statuses), _) => Some(statuses.iter().copied().filter(in_category).collect()),
            (None, Some(_)) => Some(Status::ALL.iter().copied().filter(in_category).collect()),
        }
    }
}
