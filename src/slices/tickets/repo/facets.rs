//! The indexes of tickets. One index has a row for each value of each field that a list can filter by: `(tenant, field,
//! value, time of the last change)`. A single filter is therefore already in the default order.

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, OrganizationId, TenantId, TicketId, UserId},
};
use tenantd_store::{Index, Key, catalog, due_key};

use super::TicketKey;
use crate::model::{self, Priority, SlaState, Source, Status, Ticket, TicketType};

/// A field that lists can filter by. Its number is part of the index keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Status = 1,
    Priority = 2,
    Type = 3,
    Source = 4,
    Organization = 5,
    Contact = 6,
    Assignee = 7,
    SlaState = 8,
    Device = 9,
    Tag = 10,
    DedupKey = 11,
    ExternalRef = 12,
    ExternalSystem = 13,
    /// Organization and `dedup_key` of an unfinished ticket, to find duplicates.
    Unfinished = 14,
    Parent = 15,
}

impl Field {
    /// Whether its values have counters. The other fields have almost as many values as there are tickets.
    pub(crate) fn is_counted(self) -> bool {
        !matches!(self, Self::DedupKey | Self::ExternalRef | Self::Unfinished | Self::Parent)
    }

    /// Whether a ticket has at most one value of this field.
    pub(crate) fn is_single(self) -> bool {
        !matches!(self, Self::Device | Self::Tag | Self::ExternalRef | Self::ExternalSystem)
    }
}

/// A field and one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facet {
    pub(crate) field: Field,
    pub(crate) value: Vec<u8>,
}

impl Facet {
    fn new(field: Field, value: &impl Key) -> Self {
        Self { field, value: value.to_bytes() }
    }

    pub(crate) fn status(status: Status) -> Self {
        Self::new(Field::Status, &status.code())
    }

    pub(crate) fn priority(priority: Priority) -> Self {
        Self::new(Field::Priority, &priority.code())
    }

    pub(crate) fn kind(kind: TicketType) -> Self {
        Self::new(Field::Type, &kind.code())
    }

    pub(crate) fn source(source: Source) -> Self {
        Self::new(Field::Source, &source.code())
    }

    pub(crate) fn organization(id: OrganizationId) -> Self {
        Self::new(Field::Organization, &id)
    }

    pub(crate) fn contact(id: UserId) -> Self {
        Self::new(Field::Contact, &id)
    }

    pub(crate) fn assignee(id: Option<UserId>) -> Self {
        Self::new(Field::Assignee, &id)
    }

    pub(crate) fn sla_state(state: SlaState) -> Self {
        Self::new(Field::SlaState, &state.code())
    }

    pub(crate) fn device(id: DeviceId) -> Self {
        Self::new(Field::Device, &id)
    }

    pub(crate) fn tag(tag: &str) -> Self {
        Self::new(Field::Tag, &tag.to_owned())
    }

    pub(crate) fn dedup_key(key: &str) -> Self {
        Self::new(Field::DedupKey, &key.to_owned())
    }

    pub(crate) fn external_ref(system: &str, id: &str) -> Self {
        Self::new(Field::ExternalRef, &(system.to_owned(), id.to_owned()))
    }

    pub(crate) fn external_system(system: &str) -> Self {
        Self::new(Field::ExternalSystem, &system.to_owned())
    }

    pub(crate) fn unfinished(organization: OrganizationId, dedup_key: &str) -> Self {
        Self::new(Field::Unfinished, &(organization, dedup_key.to_owned()))
    }

    pub(crate) fn parent(id: TicketId) -> Self {
        Self::new(Field::Parent, &id)
    }

    /// The prefix of the index entries of this value.
    pub(crate) fn prefix(&self, tenant: TenantId) -> Vec<u8> {
        let mut prefix = (tenant, self.field as u8).to_bytes();
        prefix.extend_from_slice(&self.value);
        prefix
    }
}

/// All values that a ticket can be found by, without duplicates.
pub(super) fn of(ticket: &Ticket) -> Vec<Facet> {
    let mut facets = vec![
        Facet::status(ticket.status),
        Facet::priority(ticket.priority),
        Facet::kind(ticket.kind),
        Facet::source(ticket.source),
        Facet::organization(ticket.organization_id),
        Facet::assignee(ticket.assignee_id),
        Facet::sla_state(ticket.sla.state),
    ];
    facets.extend(ticket.contact_id.map(Facet::contact));
    facets.extend(ticket.parent.map(|parent| Facet::parent(parent.id)));
    let several = ticket.device_ids.iter().copied().map(Facet::device).chain(ticket.tags.iter().map(|tag| Facet::tag(tag)));
    let references = ticket.external_refs.iter();
    let references = references
        .flat_map(|reference| [Facet::external_ref(&reference.system, &reference.id), Facet::external_system(&reference.system)]);
    for facet in several.chain(references) {
        if !facets.contains(&facet) {
            facets.push(facet);
        }
    }
    if let Some(key) = &ticket.dedup_key {
        facets.push(Facet::dedup_key(key));
        facets.extend(ticket.status.is_unfinished().then(|| Facet::unfinished(ticket.organization_id, key)));
    }
    facets
}

pub(crate) type TicketIndex = Index<TicketKey, Ticket>;

pub(super) static BY_ID: TicketIndex =
    Index { table: catalog::TICKETS_BY_ID, unique: true, keys: |key, ticket| vec![(key.0, ticket.id).to_bytes()] };

pub(crate) static BY_FACET: TicketIndex = Index {
    table: catalog::TICKETS_BY_FACET,
    unique: false,
    keys: |key, ticket| {
        let row = |facet: Facet| {
            let mut row = facet.prefix(key.0);
            ticket.updated_at.write(&mut row);
            row
        };
        of(ticket).into_iter().map(row).collect()
    },
};

pub(crate) static BY_UPDATE: TicketIndex =
    Index { table: catalog::TICKETS_BY_UPDATE, unique: false, keys: |key, ticket| vec![(key.0, ticket.updated_at).to_bytes()] };

pub(crate) static BY_DUE: TicketIndex = Index {
    table: catalog::TICKETS_BY_DUE,
    unique: false,
    keys: |key, ticket| {
        let undated = ticket.due_at.is_none();
        vec![(key.0, u8::from(undated), ticket.due_at.unwrap_or(Timestamp::EPOCH)).to_bytes()]
    },
};

pub(crate) static BY_SEQ: TicketIndex =
    Index { table: catalog::TICKETS_BY_SEQ, unique: false, keys: |key, ticket| vec![(key.0, ticket.last_seq).to_bytes()] };

pub(crate) static BY_WORD: TicketIndex = Index {
    table: catalog::TICKETS_BY_WORD,
    unique: false,
    keys: |key, ticket| model::words(&ticket.subject).into_iter().map(|word| (key.0, word).to_bytes()).collect(),
};

pub(super) static BY_TIMER: TicketIndex = Index {
    table: catalog::TICKETS_BY_TIMER,
    unique: false,
    keys: |key, ticket| ticket.timer_at.iter().map(|at| due_key(key.0, *at)).collect(),
};
