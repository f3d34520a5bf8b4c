//! The query of a ticket list. The values of one filter are alternatives; all filters must match.

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{DeviceId, OrganizationId, TenantId, TicketId, UserId},
};
use tenantd_store::{Direction, Read, StoreError};

use super::place::SortField;
use crate::{
    model::{self, Priority, SlaState, Source, Status, Ticket, TicketRef, TicketType},
    repo::{self, Facet},
};

#[derive(Clone, Debug)]
pub(crate) struct TicketQuery {
    pub(crate) tenant_id: TenantId,
    /// `Some` with an empty list matches nothing: the status and the category filter exclude each other.
    pub(crate) statuses: Option<Vec<Status>>,
    pub(crate) priorities: Vec<Priority>,
    pub(crate) kinds: Vec<TicketType>,
    pub(crate) sources: Vec<Source>,
    /// `Some` with an empty list matches nothing: the filter and the caller's reach exclude each other.
    pub(crate) organizations: Option<Vec<OrganizationId>>,
    pub(crate) contacts: Vec<UserId>,
    /// `None` matches tickets without an assignee.
    pub(crate) assignees: Vec<Option<UserId>>,
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) tags: Vec<String>,
    pub(crate) sla_states: Vec<SlaState>,
    pub(crate) dedup_key: Option<String>,
    /// `Some` with an empty list matches nothing: the caller sees none of the parents.
    pub(crate) parents: Option<Vec<TicketId>>,
    pub(crate) external_system: Option<String>,
    pub(crate) external_id: Option<String>,
    pub(crate) created_after: Option<Timestamp>,
    pub(crate) created_before: Option<Timestamp>,
    pub(crate) updated_after: Option<Timestamp>,
    pub(crate) updated_before: Option<Timestamp>,
    pub(crate) due_before: Option<Timestamp>,
    /// Beginnings of words in the subject.
    pub(crate) words: Vec<String>,
    pub(crate) since_seq: Option<u64>,
    pub(crate) sort: SortField,
    pub(crate) direction: Direction,
}

fn any<T: PartialEq>(wanted: &[T], value: &T) -> bool {
    wanted.is_empty() || wanted.contains(value)
}

impl TicketQuery {
    /// The tickets of a contact within an organization, the newest first.
    pub(crate) fn of_contact(tenant_id: TenantId, contact: UserId, organization: OrganizationId) -> Self {
        Self {
            tenant_id,
            statuses: None,
            priorities: Vec::new(),
            kinds: Vec::new(),
            sources: Vec::new(),
            organizations: Some(vec![organization]),
            contacts: vec![contact],
            assignees: Vec::new(),
            devices: Vec::new(),
            tags: Vec::new(),
            sla_states: Vec::new(),
            dedup_key: None,
            parents: None,
            external_system: None,
            external_id: None,
            created_after: None,
            created_before: None,
            updated_after: None,
            updated_before: None,
            due_before: None,
            words: Vec::new(),
            since_seq: None,
            sort: SortField::CreatedAt,
            direction: Direction::Backward,
        }
    }

    /// Drops the parents that the caller does not see. Their children must not reveal them.
    pub(crate) fn drop_hidden_parents(&mut self, tx: &impl Read, reach: &Reach) -> Result<(), StoreError> {
        let mut seen = Vec::new();
        for id in self.parents.iter().flatten() {
            let found = repo::find(tx, self.tenant_id, TicketRef::Id(*id))?;
            seen.extend(found.filter(|parent| reach.covers(Some(parent.organization_id))).map(|_| *id));
        }
        self.parents = self.parents.is_some().then_some(seen);
        Ok(())
    }

    pub(super) fn matches(&self, ticket: &Ticket) -> bool {
        self.matches_values(ticket) && self.matches_times(ticket) && self.matches_text(ticket)
    }

    fn matches_values(&self, ticket: &Ticket) -> bool {
        let external = |reference: &model::ExternalRef| {
            self.external_system.as_ref().is_none_or(|system| reference.system == *system)
                && self.external_id.as_ref().is_none_or(|id| reference.id == *id)
        };
        let by_reference = self.external_system.is_none() && self.external_id.is_none();
        self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&ticket.status))
            && any(&self.priorities, &ticket.priority)
            && any(&self.kinds, &ticket.kind)
            && any(&self.sources, &ticket.source)
            && self.organizations.as_ref().is_none_or(|organizations| organizations.contains(&ticket.organization_id))
            && (self.contacts.is_empty() || ticket.contact_id.is_some_and(|contact| self.contacts.contains(&contact)))
            && any(&self.assignees, &ticket.assignee_id)
            && (self.devices.is_empty() || ticket.device_ids.iter().any(|device| self.devices.contains(device)))
            && (self.tags.is_empty() || ticket.tags.iter().any(|tag| self.tags.contains(tag)))
            && any(&self.sla_states, &ticket.sla.state)
            && self.parents.as_ref().is_none_or(|parents| ticket.parent.is_some_and(|parent| parents.contains(&parent.id)))
            && (self.dedup_key.is_none() || ticket.dedup_key == self.dedup_key)
            && (by_reference || ticket.external_refs.iter().any(external))
    }

    fn matches_times(&self, ticket: &Ticket) -> bool {
        self.created_after.is_none_or(|time| ticket.created_at > time)
            && self.created_before.is_none_or(|time| ticket.created_at < time)
            && self.updated_after.is_none_or(|time| ticket.updated_at > time)
            && self.updated_before.is_none_or(|time| ticket.updated_at < time)
            && self.due_before.is_none_or(|time| ticket.due_at.is_some_and(|due_at| due_at < time))
            && self.since_seq.is_none_or(|seq| ticket.last_seq > seq)
    }

    fn matches_text(&self, ticket: &Ticket) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let words = model::words(&ticket.subject);
        self.words.iter().all(|wanted| words.iter().any(|word| word.starts_with(wanted)))
    }

    /// The filters by value, each with its alternatives.
    pub(super) fn facets(&self) -> Vec<Vec<Facet>> {
        let mut filters: Vec<Vec<Facet>> = vec![
            self.priorities.iter().copied().map(Facet::priority).collect(),
            self.kinds.iter().copied().map(Facet::kind).collect(),
            self.sources.iter().copied().map(Facet::source).collect(),
            self.contacts.iter().copied().map(Facet::contact).collect(),
            self.assignees.iter().copied().map(Facet::assignee).collect(),
            self.devices.iter().copied().map(Facet::device).collect(),
            self.tags.iter().map(|tag| Facet::tag(tag)).collect(),
            self.sla_states.iter().copied().map(Facet::sla_state).collect(),
            self.dedup_key.iter().map(|key| Facet::dedup_key(key)).collect(),
        ];
        filters.push(match (&self.external_system, &self.external_id) {
            (Some(system), Some(id)) => vec![Facet::external_ref(system, id)],
            (Some(system), None) => vec![Facet::external_system(system)],
            (None, _) => Vec::new(),
        });
        filters.retain(|alternatives| !alternatives.is_empty());
        filters.extend(self.organizations.as_ref().map(|ids| ids.iter().copied().map(Facet::organization).collect()));
        filters.extend(self.parents.as_ref().map(|ids| ids.iter().copied().map(Facet::parent).collect()));
        filters.extend(self.statuses.as_ref().map(|statuses| statuses.iter().copied().map(Facet::status).collect()));
        filters
    }

    fn has_other_filters(&self) -> bool {
        let times = [self.created_after, self.created_before, self.updated_after, self.updated_before, self.due_before];
        times.iter().any(Option::is_some) || !self.words.is_empty() || self.since_seq.is_some()
    }

    pub(super) fn is_unfiltered(&self) -> bool {
        self.facets().is_empty() && !self.has_other_filters()
    }

    /// The values whose counts add up to the total. `Some` if there is only one filter, it has counters, and no ticket has
    /// two of its values.
    pub(super) fn only_facets(&self) -> Option<Vec<Facet>> {
        let mut filters = self.facets();
        let only = filters.pop().filter(|_| filters.is_empty() && !self.has_other_filters())?;
        let mut distinct: Vec<Facet> = Vec::with_capacity(only.len());
        for facet in only {
            if !distinct.contains(&facet) {
                distinct.push(facet);
            }
        }
        let one_each = distinct.iter().all(|facet| facet.field.is_counted() && (facet.field.is_single() || distinct.len() == 1));
        one_each.then_some(distinct)
    }
}
