//! Runs a plan over a view: the best matches, how many there are, and how they spread. Every match is looked at, so that counts are exact.

use std::collections::HashMap;

use super::{
    super::{
        error::IndexError,
        model::{Kind, Options, Order, RecordId, State},
    },
    plan::Plan,
    rank::{self, Best},
    schema,
    view::View,
};
use crate::kernel::id::OrganizationId;

/// A match, before its record is read.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub kind: Kind,
    pub id: RecordId,
    pub score: f32,
}

#[derive(Debug, Default)]
pub struct Counts {
    pub total: u64,
    pub kinds: HashMap<Kind, u64>,
    pub states: HashMap<State, u64>,
    pub organizations: HashMap<OrganizationId, u64>,
}

/// One more than the limit are kept, which tells whether there are more.
pub fn run(view: &View, plan: &Plan, options: &Options, best: &mut Best<Found>) -> Result<Counts, IndexError> {
    let mut counts = Counts::default();
    let wants_traits = options.facets.kind || options.facets.state;
    let mut traits_counted: HashMap<u64, u64> = HashMap::new();
    // Of the segment under way, by the place of the organization in its dictionary.
    let mut by_place: HashMap<u64, u64> = HashMap::new();
    let by_place = std::cell::RefCell::new(&mut by_place);
    let organizations = &mut counts.organizations;
    let mut total = 0;
    view.score(
        plan.asked.as_ref(),
        |columns, doc, score| {
            total += 1;
            let traits = columns.traits.first(doc).unwrap_or_default();
            let (kind, _, open) = schema::read_traits(traits);
            let updated = columns.updated.first(doc).unwrap_or_default();
            let rank = match options.order {
                Order::Relevance => rank::by_relevance(score, open, updated),
                Order::Recent => updated,
            };
            let Some(kind) = kind else { return };
            best.offer(rank, || columns.id(doc), || Found { kind, id: columns.id(doc).to_be_bytes(), score });
            if wants_traits {
                *traits_counted.entry(traits).or_default() += 1;
            }
            if options.facets.organization
                && let Some(place) = columns.organization.as_ref().and_then(|column| column.ords().first(doc))
            {
                *by_place.borrow_mut().entry(place).or_default() += 1;
            }
        },
        |columns| {
            for (place, count) in by_place.borrow_mut().drain() {
                let mut bytes = Vec::new();
                if let Some(column) = &columns.organization {
                    column.ord_to_bytes(place, &mut bytes)?;
                }
                if let Ok(id) = bytes.try_into() {
                    *organizations.entry(OrganizationId::from_bytes(id)).or_default() += count;
                }
            }
            Ok(())
        },
    )?;
    counts.total = total;
    for (traits, count) in traits_counted {
        let (kind, state, _) = schema::read_traits(traits);
        if let Some(kind) = kind {
            *counts.kinds.entry(kind).or_default() += count;
        }
        if let Some(state) = state {
            *counts.states.entry(state).or_default() += count;
        }
    }
    Ok(counts)
}
