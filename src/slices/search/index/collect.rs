//! Runs a plan over a view: the best matches, how many there are, and how they spread. Every match is looked at, so that counts are
//! exact; matches are looked at in blocks, since a column is read in blocks several times as fast.

use std::{cmp::Ordering, collections::HashMap};

use tantivy::{
    COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, Score, SegmentReader, TERMINATED,
    columnar::Column,
    query::{EnableScoring, Scorer, Weight},
};

use super::{
    super::{
        error::IndexError,
        model::{Kind, Options, Order, RecordId, State},
    },
    clause::Clause,
    engine_error,
    plan::Plan,
    rank::{self, Best},
    schema,
    view::{Columns, Part, View},
};
use crate::kernel::id::OrganizationId;

const BLOCK: usize = COLLECT_BLOCK_BUFFER_LEN;

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
    let mut collector =
        Collector { view, options, best, counts: Counts::default(), traits: Tally::default(), hopeful: Vec::new(), floor: 0 };
    for part in &view.parts {
        let unscored = EnableScoring::disabled_from_searcher(&part.searcher);
        let tiers = plan.tiers.iter().map(|(query, score)| Ok((query.weight(unscored)?, *score)));
        let tiers = tiers.collect::<tantivy::Result<Vec<_>>>().map_err(engine_error)?;
        match &plan.matching {
            Clause::Nothing => {}
            Clause::Alike(query, score) => {
                let weight = query.weight(unscored).map_err(engine_error)?;
                collector.walk(part, &tiers, |segment, block| {
                    weight
                        .for_each_no_score(segment, &mut |docs| block.take(docs, score * rank::TEXT_WEIGHT + plan.lift))
                        .map_err(engine_error)
                })?;
            }
            Clause::Weighed(query) => {
                let scored = EnableScoring::enabled_from_statistics_provider(view, &part.searcher);
                let weight = query.weight(scored).map_err(engine_error)?;
                collector.walk(part, &tiers, |segment, block| {
                    weight
                        .for_each(segment, &mut |doc, score| block.push(doc, score * rank::TEXT_WEIGHT + plan.lift))
                        .map_err(engine_error)
                })?;
            }
        }
    }
    collector.settle();
    Ok(collector.finish())
}

struct Collector<'a> {
    view: &'a View,
    options: &'a Options,
    best: &'a mut Best<Found>,
    counts: Counts,
    traits: Tally,
    /// Matches that may be among the best, and the lowest rank that still may. Matches come in the order in which they were written, so
    /// most of them outrank all before: they are weeded out together, and only what is left is looked up.
    hopeful: Vec<Hopeful<'a>>,
    floor: u64,
}

/// A match that may be among the best.
struct Hopeful<'a> {
    rank: u64,
    score: f32,
    doc: DocId,
    kind: Kind,
    columns: &'a Columns,
}

/// How many matches are weeded out together, beside those that stay.
const WEEDED: usize = 2048;

impl<'a> Collector<'a> {
    fn may_take(&self, rank: u64) -> bool {
        rank >= self.floor
    }

    fn take(&mut self, hopeful: Hopeful<'a>) {
        match self.best.standing_of(hopeful.rank) {
            Ordering::Less => self.hopeful.push(hopeful),
            Ordering::Equal => self.offer(&hopeful),
            Ordering::Greater => {}
        }
        let most = self.best.most();
        if self.hopeful.len() < most + WEEDED {
            return;
        }
        self.hopeful.select_nth_unstable_by_key(most - 1, |hopeful| std::cmp::Reverse(hopeful.rank));
        self.floor = self.hopeful.get(most - 1).map_or(0, |last| last.rank);
        let floor = self.floor;
        self.hopeful.retain(|hopeful| hopeful.rank >= floor);
        // Too many of one rank: their ids decide.
        if self.hopeful.len() > most + WEEDED / 2 {
            self.settle();
        }
    }

    fn settle(&mut self) {
        for hopeful in std::mem::take(&mut self.hopeful) {
            self.offer(&hopeful);
        }
    }

    fn offer(&mut self, hopeful: &Hopeful<'_>) {
        let Hopeful { rank, score, doc, kind, columns } = *hopeful;
        let id = columns.id(doc);
        self.best.offer(rank, || id, || Found { kind, id: id.to_be_bytes(), score });
    }

    /// Takes the matches of one part, which `each` hands over segment by segment.
    fn walk(
        &mut self,
        part: &'a Part,
        tiers: &[(Box<dyn Weight>, f32)],
        each: impl Fn(&SegmentReader, &mut Block<'_, 'a>) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        for (segment, columns) in part.segments() {
            let tiers = tiers.iter().map(|(weight, score)| {
                let docs = weight.scorer(segment, 1.0)?;
                Ok(Tier { at: docs.doc(), docs, score: *score })
            });
            let mut tiers = tiers.collect::<tantivy::Result<Vec<_>>>().map_err(engine_error)?;
            tiers.retain(|tier| tier.at != TERMINATED);
            let mut places = Vec::new();
            if self.options.facets.organization
                && let Some(column) = &columns.organization
            {
                places.resize(column.num_terms(), 0);
            }
            let unfiltered = !segment.has_deletes() && self.view.newest.is_empty();
            let mut block = Block {
                collector: &mut *self,
                part,
                segment,
                columns,
                unfiltered,
                tiers,
                places,
                docs: [0; BLOCK],
                scores: [0.0; BLOCK],
                len: 0,
                traits: [None; BLOCK],
                values: [None; BLOCK],
                ranks: [0; BLOCK],
                last: (0.0, rank::by_score(0.0)),
            };
            each(segment, &mut block)?;
            block.flush();
            let places = std::mem::take(&mut block.places);
            self.count_organizations(columns, &places)?;
        }
        Ok(())
    }

    fn count_organizations(&mut self, columns: &Columns, places: &[u32]) -> Result<(), IndexError> {
        let Some(column) = &columns.organization else { return Ok(()) };
        let counted = (0_u64..).zip(places).filter(|(_, count)| **count > 0);
        let (found, counts): (Vec<u64>, Vec<u32>) = counted.unzip();
        let mut counts = counts.into_iter().map(u64::from);
        column.dictionary().sorted_ords_to_term_cb(&found, |bytes| {
            if let (Some(count), Ok(id)) = (counts.next(), bytes.try_into()) {
                *self.counts.organizations.entry(OrganizationId::from_bytes(id)).or_default() += count;
            }
        })?;
        Ok(())
    }

    fn finish(mut self) -> Counts {
        for (traits, count) in self.traits.entries {
            let (kind, state) = schema::read_traits(traits);
            if let Some(kind) = kind {
                *self.counts.kinds.entry(kind).or_default() += count;
            }
            if let Some(state) = state {
                *self.counts.states.entry(state).or_default() += count;
            }
        }
        self.counts
    }
}

/// Documents that rank higher, walked along with the matches.
struct Tier {
    docs: Box<dyn Scorer>,
    /// Where the walk is.
    at: DocId,
    score: f32,
}

impl Tier {
    #[inline]
    fn has(&mut self, doc: DocId) -> bool {
        if self.at < doc {
            self.at = self.docs.advance();
        }
        if self.at < doc {
            self.at = self.docs.seek(doc);
        }
        self.at == doc
    }
}

/// Counts of few different values.
#[derive(Default)]
struct Tally {
    entries: Vec<(u64, u64)>,
}

impl Tally {
    fn count(&mut self, value: u64) {
        match self.entries.iter_mut().find(|entry| entry.0 == value) {
            Some(entry) => entry.1 += 1,
            None => self.entries.push((value, 1)),
        }
    }
}

/// Matches of one segment that are looked at together.
struct Block<'a, 'b> {
    collector: &'a mut Collector<'b>,
    part: &'b Part,
    segment: &'b SegmentReader,
    columns: &'b Columns,
    /// Nothing of the segment is replaced or removed.
    unfiltered: bool,
    tiers: Vec<Tier>,
    /// How many matches each organization has, by its place in the segment's dictionary.
    places: Vec<u32>,
    docs: [DocId; BLOCK],
    scores: [Score; BLOCK],
    len: usize,
    traits: [Option<u64>; BLOCK],
    values: [Option<u64>; BLOCK],
    ranks: [u64; BLOCK],
    /// The last score and its rank: the next is mostly the same.
    last: (Score, u64),
}

/// Reads the first value of each document.
fn read(column: &Column<u64>, docs: &[DocId], values: &mut [Option<u64>; BLOCK]) {
    values.fill(None);
    if let Some(values) = values.get_mut(..docs.len()) {
        column.first_vals(docs, values);
    }
}

impl Block<'_, '_> {
    #[inline]
    fn push(&mut self, doc: DocId, score: Score) {
        if !self.unfiltered && !self.collector.view.shows(self.part, self.segment, self.columns, doc) {
            return;
        }
        if let (Some(place), Some(scored)) = (self.docs.get_mut(self.len), self.scores.get_mut(self.len)) {
            (*place, *scored) = (doc, score);
            self.len += 1;
        }
        if self.len == BLOCK {
            self.flush();
        }
    }

    fn take(&mut self, docs: &[DocId], score: Score) {
        for doc in docs {
            self.push(*doc, score);
        }
    }

    fn flush(&mut self) {
        let Some(docs) = self.docs.get(..self.len) else { return };
        self.collector.counts.total += docs.len() as u64;
        read(&self.columns.traits, docs, &mut self.traits);
        let facets = self.collector.options.facets;
        if facets.kind || facets.state {
            docs.iter().zip(&self.traits).for_each(|(_, traits)| self.collector.traits.count(traits.unwrap_or_default()));
        }
        if facets.organization
            && let Some(column) = &self.columns.organization
        {
            read(column.ords(), docs, &mut self.values);
            for place in self.values.iter().flatten() {
                if let Some(count) = usize::try_from(*place).ok().and_then(|place| self.places.get_mut(place)) {
                    *count += 1;
                }
            }
        }
        match self.collector.options.order {
            Order::Relevance => self.rank(),
            Order::Recent => self.offer(),
        }
        self.len = 0;
        self.ranks = [0; BLOCK];
    }

    /// Ranks the matches by all but their age, and looks at that only if any may be among the best.
    fn rank(&mut self) {
        let mut hopeful = false;
        let matches = self.docs.iter().take(self.len).zip(&mut self.scores).zip(&mut self.ranks).zip(&self.traits);
        for (((doc, score), rank), traits) in matches {
            for tier in &mut self.tiers {
                if tier.has(*doc) {
                    *score += tier.score;
                }
            }
            if score.to_bits() != self.last.0.to_bits() {
                self.last = (*score, rank::by_score(*score));
            }
            *rank = self.last.1 | rank::by_age(schema::is_open(traits.unwrap_or_default()), 0);
            hopeful |= self.collector.may_take(*rank | rank::by_age(false, u64::MAX));
        }
        if hopeful {
            self.offer();
        }
    }

    fn offer(&mut self) {
        let Some(docs) = self.docs.get(..self.len) else { return };
        read(&self.columns.updated, docs, &mut self.values);
        for ((((doc, score), rank), traits), updated) in
            docs.iter().zip(self.scores).zip(self.ranks).zip(&self.traits).zip(&self.values)
        {
            let rank = rank | rank::by_age(false, updated.unwrap_or_default());
            if !self.collector.may_take(rank) {
                continue;
            }
            let Some(kind) = schema::read_traits(traits.unwrap_or_default()).0 else { continue };
            self.collector.take(Hopeful { rank, score, doc: *doc, kind, columns: self.columns });
        }
    }
}
