//! Lists of tickets. A single filter or a single order is a walk along one index. Other queries are combined with a bounded
//! amount of work (`plan`). A page that reaches its limit of work is returned short, with a cursor.

mod numbers;
mod place;
mod plan;
mod query;
mod walk;

pub(super) use place::SortField;
pub(super) use query::TicketQuery;

use std::collections::HashMap;

use tenantd_base::id::TenantId;
use tenantd_store::{Read, StoreError};

use self::{
    numbers::NumberSet,
    place::Place,
    plan::{Plan, Source},
    walk::Walk,
};
use super::{
    model::Ticket,
    repo::{self, Facet, Field, PAGE_BYTES},
};

/// The limits of work for one page.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// The number of tickets to read before the page is returned short.
    read: usize,
    /// The number of index entries to skip before the page is returned short.
    passed: usize,
    /// The maximum number of tickets that are collected into a set per filter.
    set: usize,
    /// The maximum number of tickets that are read and sorted at once.
    sorted: usize,
    /// The maximum size of a page in bytes, unless a single ticket is larger.
    bytes: usize,
}

const EFFORT: Effort = Effort { read: 2_000, passed: 50_000, set: 20_000, sorted: 500, bytes: PAGE_BYTES };

/// Skipping an index entry costs far less than reading its ticket.
const PASSED_BY_READ: usize = EFFORT.passed / EFFORT.read;

/// How many tickets match a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) count: u64,
    /// Whether more tickets could match.
    pub(super) is_minimum: bool,
}

/// The values of a field in index form, with the number of tickets.
pub(super) type Counts = Vec<(Vec<u8>, u64)>;

#[derive(Debug)]
pub(super) struct TicketPage {
    pub(super) tickets: Vec<Ticket>,
    /// Where the next page continues. `None` on the last page.
    pub(super) last: Option<Vec<u8>>,
}

/// The tickets of a query after a position, in the order of the query.
pub(super) fn list(tx: &impl Read, query: &TicketQuery, after: Option<&[u8]>, limit: usize) -> Result<TicketPage, StoreError> {
    list_within(tx, query, after, limit, EFFORT)
}

fn list_within(
    tx: &impl Read,
    query: &TicketQuery,
    after: Option<&[u8]>,
    limit: usize,
    effort: Effort,
) -> Result<TicketPage, StoreError> {
    let mut page = TicketPage { tickets: Vec::with_capacity(limit), last: None };
    let plan = Plan::new(tx, query, effort)?;
    let after = after.and_then(Place::from_bytes);
    let (mut position, mut read) = (after, 0);
    let mut source = plan.open(tx, query, after)?;
    let (mut passed, mut bytes) = (0, 0);
    loop {
        if read == effort.read || passed == effort.passed {
            page.last = position.map(Place::to_bytes);
            return Ok(page);
        }
        let Some(place) = source.next(tx, query, &plan)? else { return Ok(page) };
        passed += 1;
        if plan.admits(place.number) {
            read += 1;
            if let Some(ticket) = repo::get(tx, query.tenant_id, place.number)?.filter(|ticket| query.matches(ticket)) {
                bytes += ticket.json_bytes();
                let is_large = bytes > effort.bytes && !page.tickets.is_empty();
                if is_large || page.tickets.len() == limit {
                    page.last = position.map(Place::to_bytes);
                    return Ok(page);
                }
                page.tickets.push(ticket);
            }
        }
        position = Some(place);
    }
}

impl Source {
    /// The next place in the order of the query.
    fn next(&mut self, tx: &impl Read, query: &TicketQuery, plan: &Plan) -> Result<Option<Place>, StoreError> {
        match self {
            Self::Walk(walk) => Walk::next(walk, tx, query, plan),
            Self::Numbers(numbers) => Ok(numbers.next().map(Place::of_number)),
            Self::Sorted(places) => Ok(places.next()),
        }
    }
}

/// Calls `visit` with tickets of the query, in any order, until it has looked at `most`. Returns whether those were all.
fn visit(tx: &impl Read, query: &TicketQuery, most: usize, mut visit: impl FnMut(&Ticket)) -> Result<bool, StoreError> {
    let plan = Plan::new(tx, query, EFFORT)?;
    let mut source = plan.open(tx, query, None)?;
    let (mut read, mut passed) = (0, 0);
    while let Some(place) = source.next(tx, query, &plan)? {
        if read == most || passed == most.saturating_mul(PASSED_BY_READ) {
            return Ok(false);
        }
        passed += 1;
        if plan.admits(place.number) {
            read += 1;
            if let Some(ticket) = repo::get(tx, query.tenant_id, place.number)?.filter(|ticket| query.matches(ticket)) {
                visit(&ticket);
            }
        }
    }
    Ok(true)
}

/// The exact number of matching tickets.
pub(super) fn total(tx: &impl Read, query: &TicketQuery) -> Result<u64, StoreError> {
    // A few tickets are read faster than the index entries of all filters.
    let few = total_within(tx, query, EFFORT.read)?;
    if few.is_minimum { Ok(numbers::matching(tx, query)?.len()) } else { Ok(few.count) }
}

/// The number of matching tickets. Uses the stored counters if possible, and otherwise looks at no more than `most` tickets.
pub(super) fn total_within(tx: &impl Read, query: &TicketQuery, most: usize) -> Result<Total, StoreError> {
    if query.is_unfiltered() {
        return Ok(Total { count: repo::total(tx, query.tenant_id)?, is_minimum: false });
    }
    if let Some(facets) = query.only_facets() {
        let mut sum = 0;
        for facet in &facets {
            sum += repo::counted(tx, query.tenant_id, facet)?;
        }
        return Ok(Total { count: sum, is_minimum: false });
    }
    let mut count = 0;
    let is_complete = visit(tx, query, most, |_| count += 1)?;
    Ok(Total { count, is_minimum: !is_complete })
}

/// The exact number of matching tickets per value of a field, the most frequent first. Values are in index form.
pub(super) fn counts(tx: &impl Read, query: &TicketQuery, fields: &[Field]) -> Result<Vec<Counts>, StoreError> {
    counts_within(tx, query, fields, EFFORT.read)
}

/// Like [`counts`]. Uses the stored counters if possible, reads up to `few` tickets, and otherwise reads the indexes.
fn counts_within(tx: &impl Read, query: &TicketQuery, fields: &[Field], few: usize) -> Result<Vec<Counts>, StoreError> {
    let mut counted: Vec<Counts> = Vec::with_capacity(fields.len());
    let mut counters: Vec<HashMap<Vec<u8>, u64>> = vec![HashMap::new(); fields.len()];
    if query.is_unfiltered() {
        for field in fields {
            counted.push(repo::values(tx, query.tenant_id, *field)?);
        }
    } else if visit(tx, query, few, |ticket| {
        for (field, counter) in fields.iter().zip(&mut counters) {
            *counter.entry(value_of(ticket, *field)).or_default() += 1;
        }
    })? {
        counted.extend(counters.into_iter().map(|counter| counter.into_iter().collect()));
    } else {
        let matching = numbers::matching(tx, query)?;
        for field in fields {
            counted.push(counts_among(tx, query.tenant_id, *field, &matching)?);
        }
    }
    for counts in &mut counted {
        counts.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    }
    Ok(counted)
}

/// The values of a field that some of the tickets have.
fn counts_among(tx: &impl Read, tenant: TenantId, field: Field, tickets: &NumberSet) -> Result<Counts, StoreError> {
    let mut counts = Counts::new();
    for (value, _) in repo::values(tx, tenant, field)? {
        let facet = Facet { field, value };
        let count = tickets.count(tx, tenant, &facet)?;
        counts.extend((count > 0).then_some((facet.value, count)));
    }
    Ok(counts)
}

/// The ticket's value of a single-valued field.
fn value_of(ticket: &Ticket, field: Field) -> Vec<u8> {
    let facet = match field {
        Field::Priority => Facet::priority(ticket.priority),
        Field::Organization => Facet::organization(ticket.organization_id),
        Field::Assignee => Facet::assignee(ticket.assignee_id),
        _ => Facet::status(ticket.status),
    };
    facet.value
}

#[cfg(test)]
mod tests;
