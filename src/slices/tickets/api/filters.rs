//! The query parameters of the ticket list.

use poem_openapi::{Enum, Object};

use tenantd_base::{
    access::{Identity, Principal},
    clock::Timestamp,
    id::{DeviceId, OrganizationId, TicketId, UserId},
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
    /// Returns tickets with one of these statuses.
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
    /// Returns tickets that are assigned to one of these users. `me` is the signed-in user; an API key cannot use it. `none`
    /// finds tickets without an assignee.
    #[oai(validator(min_items = 1, max_items = 50))]
    assignee_id: Option<Vec<AssigneeFilter>>,
    #[oai(validator(min_items = 1, max_items = 50))]
    device_id: Option<Vec<DeviceId>>,
    /// Returns tickets with at least one of these tags.
    #[oai(validator(min_items = 1, max_items = 50))]
    tag: Option<Vec<String>>,
    #[oai(validator(min_items = 1, max_items = 6))]
    sla_state: Option<Vec<SlaState>>,
    /// Returns tickets with this `dedup_key`.
    #[oai(validator(min_length = 1, max_length = 255))]
    dedup_key: Option<String>,
    /// Returns the children of these tickets. A ticket that you cannot read has none.
    #[oai(validator(min_items = 1, max_items = 50))]
    parent_id: Option<Vec<TicketId>>,
    /// Returns tickets that have a reference to this external system.
    #[oai(validator(min_length = 1, max_length = 100))]
    external_system: Option<String>,
    /// Returns tickets with this id in the external system. Requires `external_system`.
    #[oai(validator(min_length = 1, max_length = 255))]
    external_id: Option<String>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
    updated_after: Option<Timestamp>,
    updated_before: Option<Timestamp>,
    /// Returns tickets that are due before this time. Tickets without a due time do not match.
    due_before: Option<Timestamp>,
    /// Words of the subject, in any order. Case and accents do not matter, and the beginning of a word is enough. Must
    /// contain at least one letter or digit.
    #[oai(validator(min_length = 1, max_length = 200))]
    q: Option<String>,
    /// Returns tickets that have an event after this `seq` of the event feed: the tickets that have changed since then.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    since_seq: Option<u64>,
    /// The order of the tickets; a `-` reverses it. Defaults to the most recently changed first. `priority` returns the most
    /// urgent first, and within a priority those that have not changed for the longest time. `due_at` puts tickets without a
    /// due time last in both directions.
    pub(super) sort: Option<TicketSort>,
    /// Also counts all matching tickets by these fields.
    #[oai(validator(min_items = 1, max_items = 4, unique_items))]
    pub(super) counts_by: Option<Vec<CountsBy>>,
    /// Counts the matching tickets, but looks at no more than about this many. If more could match, `page.total` counts those that were
    /// found, and `total_is_minimum` is true. A count that tenantd keeps anyway, such as that of one status, is always exact.
    #[oai(validator(minimum(value = "1"), maximum(value = "100000")))]
    pub(super) count_up_to: Option<u32>,
    /// `csv` and `ndjson` stream all matching tickets without pages. They are ordered by number unless you set `sort`.
    pub(super) format: Option<TicketFormat>,
    #[oai(flatten)]
    pub(super) page: PageQuery,
}

impl ListTickets {
    pub(super) fn query(&self, principal: &Principal, default_sort: TicketSort) -> Result<TicketQuery, Problem> {
        let mut errors = Vec::new();
        if self.external_id.is_some() && self.external_system.is_none() {
            let message = "external_id requires external_system";
            errors.push(FieldError::parameter("external_system", "required", message));
        }
        let words = self.q.as_deref().map(model::words).unwrap_or_default();
        if self.q.is_some() && words.is_empty() {
            errors.push(FieldError::parameter("q", "wrong_form", "q must contain a letter or a digit"));
        }
        let mut assignees = Vec::new();
        for wanted in self.assignee_id.iter().flatten() {
            match (wanted, &principal.identity) {
                (AssigneeFilter::Nobody, _) => assignees.push(None),
                (AssigneeFilter::User(id), _) | (AssigneeFilter::Me, Identity::User { id, .. }) => assignees.push(Some(*id)),
                (AssigneeFilter::Me, _) => {
                    let message = "me requires a signed-in user; an API key must use user ids";
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
            parents: self.parent_id.clone(),
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

    /// The statuses that both the status filter and the category filter allow.
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
