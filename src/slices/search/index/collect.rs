//! Runs a plan over a view. Returns the best matches, the total, and the facet counts. Every match is counted, so counts are
//! exact, but only a few are ranked. Matches are collected in index order and processed in blocks from the newest to the
//! oldest. Among matches with the same score the newest rank first, so after the first blocks hardly any block can contain
//! one of the best matches.

use std::{cmp::Ordering, collections::HashMap};

use tantivy::{
    DocId, Score,
    query::{EnableScoring, Weight},
};

use tenantd_base::id::OrganizationId;

use super::{
    super::{
        error::IndexError,
        model::{Kind, Options, Order, RecordId, State},
    },
    clause::Clause,
    engine_error,
    outline::Outline,
    plan::Plan,
    rank::{self, Best},
    schema,
    tier::Tier,
    view::{Columns, Part, Section, View},
};

/// The number of matches that are buffered before they are processed.
const BUFFER_SIZE: usize = 1 << 15;
/// The number of matches in a block. A block is ranked or skipped as a whole.
const BLOCK_SIZE: usize = 512;

/// A match whose record has not been read yet.
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

/// Keeps one match more than the limit, which shows whether more follow.
pub fn run(view: &View, plan: &Plan, options: &Options, best: &mut Best<Found>) -> Result<Counts, IndexError> {
    let mut collector = Collector {
        view,
        options,
        best,
        counts: Counts::default(),
        buffer: MatchBuffer::default(),
        candidates: Vec::new(),
        floor: 0,
    };
    for part in &view.parts {
        let unscored = EnableScoring::disabled_from_searcher(&part.searcher);
        let tiers = plan.tiers.iter().map(|(query, score)| Ok((query.weight(unscored)?, *score)));
        let tiers = tiers.collect::<tantivy::Result<Vec<_>>>().map_err(engine_error)?;
        match &plan.matching {
            Clause::Nothing => {}
            Clause::Alike(query, score) => {
                let weight = query.weight(unscored).map_err(engine_error)?;
                let score = score * rank::TEXT_WEIGHT + plan.lift;
                collector.walk(part, &tiers, |segment_matches| {
                    weight.for_each_no_score(segment_matches.segment(), &mut |docs| segment_matches.take(docs, score))
                })?;
            }
            Clause::Weighed(query) => {
                let scored = EnableScoring::enabled_from_statistics_provider(view, &part.searcher);
                let weight = query.weight(scored).map_err(engine_error)?;
                collector.walk(part, &tiers, |segment_matches| {
                    weight.for_each(segment_matches.segment(), &mut |doc, score| {
                        segment_matches.push(doc, score * rank::TEXT_WEIGHT + plan.lift);
                    })
                })?;
            }
        }
    }
    collector.settle();
    Ok(collector.counts)
}

struct Collector<'a> {
    view: &'a View,
    options: &'a Options,
    best: &'a mut Best<Found>,
    counts: Counts,
    buffer: MatchBuffer,
    /// Matches that may be among the best, and the lowest rank that still may be. They are pruned together, and only the
    /// remaining ones are looked up.
    candidates: Vec<Candidate<'a>>,
    floor: u64,
}

/// Matches in index order with their scores, or with one score for all.
#[derive(Default)]
struct MatchBuffer {
    docs: Vec<DocId>,
    scores: Vec<Score>,
    alike: Option<Score>,
}

/// A match that may be among the best.
struct Candidate<'a> {
    rank: u64,
    score: f32,
    doc: DocId,
    kind: Kind,
    columns: &'a Columns,
}

impl<'a> Collector<'a> {
    fn take(&mut self, candidate: Candidate<'a>) {
        match self.best.standing_of(candidate.rank) {
            Ordering::Less => self.candidates.push(candidate),
            Ordering::Equal => self.offer(&candidate),
            Ordering::Greater => {}
        }
    }

    /// Drops candidates that can no longer be among the best.
    fn prune(&mut self) {
        let most = self.best.most();
        if self.candidates.len() <= most {
            return;
        }
        self.candidates.select_nth_unstable_by_key(most - 1, |candidate| std::cmp::Reverse(candidate.rank));
        self.floor = self.candidates.get(most - 1).map_or(0, |last| last.rank);
        let floor = self.floor;
        self.candidates.retain(|candidate| candidate.rank >= floor);
        // Too many candidates have the same rank. Their ids decide.
        if self.candidates.len() > most + BLOCK_SIZE {
            self.settle();
        }
    }

    fn settle(&mut self) {
        for candidate in std::mem::take(&mut self.candidates) {
            self.offer(&candidate);
        }
    }

    fn offer(&mut self, candidate: &Candidate<'_>) {
        let Candidate { rank, score, doc, kind, columns } = *candidate;
        let id = columns.id(doc);
        self.best.offer(rank, || id, || Found { kind, id: id.to_be_bytes(), score });
    }

    /// Processes the matches of one part. `each` supplies them segment by segment.
    fn walk(
        &mut self,
        part: &'a Part,
        tiers: &[(Box<dyn Weight>, f32)],
        each: impl Fn(&mut SegmentMatches<'_, 'a>) -> tantivy::Result<()>,
    ) -> Result<(), IndexError> {
        let facets = self.options.facets;
        for section in part.sections() {
            let tiers = tiers.iter().map(|(weight, score)| Tier::new(weight.as_ref(), *score, &section.segment));
            let tiers = tiers.collect::<tantivy::Result<Vec<_>>>().map_err(engine_error)?;
            let counted = if facets.kind || facets.state || facets.organization { section.outline.sorts().len() } else { 0 };
            let mut segment_matches = SegmentMatches {
                unfiltered: !section.segment.has_deletes() && self.view.newest.is_empty(),
                collector: &mut *self,
                part,
                section,
                tiers: tiers.into_iter().flatten().collect(),
                tally: vec![0; counted],
                failed: None,
            };
            each(&mut segment_matches).map_err(engine_error)?;
            segment_matches.process();
            let SegmentMatches { tally, failed, .. } = segment_matches;
            if let Some(error) = failed {
                return Err(engine_error(error));
            }
            self.spread(&section.outline, &tally);
        }
        Ok(())
    }

    fn spread(&mut self, outline: &Outline, tally: &[u32]) {
        for (sort, count) in outline.sorts().iter().zip(tally).filter(|(_, count)| **count > 0) {
            let count = u64::from(*count);
            let (kind, state) = schema::read_traits(sort.traits);
            if let Some(kind) = kind {
                *self.counts.kinds.entry(kind).or_default() += count;
            }
            if let Some(state) = state {
                *self.counts.states.entry(state).or_default() += count;
            }
            if let Some(organization) = sort.organization {
                *self.counts.organizations.entry(organization).or_default() += count;
            }
        }
    }
}

/// The matches of one segment.
struct SegmentMatches<'a, 'b> {
    collector: &'a mut Collector<'b>,
    part: &'b Part,
    section: &'b Section,
    /// No document of the segment was replaced or removed.
    unfiltered: bool,
    tiers: Vec<Tier<'a>>,
    /// The number of matches of each sort. Empty if no facet was requested.
    tally: Vec<u32>,
    failed: Option<tantivy::TantivyError>,
}

impl<'b> SegmentMatches<'_, 'b> {
    fn segment(&self) -> &'b tantivy::SegmentReader {
        &self.section.segment
    }

    fn shows(&self, doc: DocId) -> bool {
        self.unfiltered || self.collector.view.shows(self.part, &self.section.segment, &self.section.columns, doc)
    }

    #[inline]
    fn push(&mut self, doc: DocId, score: Score) {
        if !self.shows(doc) {
            return;
        }
        self.collector.buffer.docs.push(doc);
        self.collector.buffer.scores.push(score);
        if self.collector.buffer.docs.len() >= BUFFER_SIZE {
            self.process();
        }
    }

    fn take(&mut self, docs: &[DocId], score: Score) {
        self.collector.buffer.alike = Some(score);
        if self.unfiltered {
            self.collector.buffer.docs.extend_from_slice(docs);
        } else {
            for doc in docs {
                if self.shows(*doc) {
                    self.collector.buffer.docs.push(*doc);
                }
            }
        }
        if self.collector.buffer.docs.len() >= BUFFER_SIZE {
            self.process();
        }
    }

    /// Counts the buffered matches, and ranks those that may be among the best.
    fn process(&mut self) {
        let mut buffer = std::mem::take(&mut self.collector.buffer);
        self.collector.counts.total += buffer.docs.len() as u64;
        if !self.tally.is_empty() {
            for doc in &buffer.docs {
                if let Some(count) = self.tally.get_mut(self.section.outline.place(*doc)) {
                    *count += 1;
                }
            }
        }
        let mut end = buffer.docs.len();
        while end > 0 && self.failed.is_none() {
            let start = (end - 1) / BLOCK_SIZE * BLOCK_SIZE;
            let docs = buffer.docs.get(start..end).unwrap_or_default();
            let scores = buffer.scores.get(start..end).unwrap_or_default();
            self.failed = self.rank(docs, scores, buffer.alike).err();
            end = start;
        }
        buffer.docs.clear();
        buffer.scores.clear();
        self.collector.buffer = MatchBuffer { alike: None, ..buffer };
    }

    /// Ranks a block of matches, unless none of them can be among the best.
    fn rank(&mut self, docs: &[DocId], scores: &[Score], alike: Option<Score>) -> tantivy::Result<()> {
        let (Some(first), Some(last)) = (docs.first(), docs.last()) else { return Ok(()) };
        let outline = &self.section.outline;
        let newest = outline.newest_between(*first, *last);
        let by_score = self.collector.options.order == Order::Relevance;
        let mut highest = rank::by_age(false, newest);
        if by_score {
            let score = alike.unwrap_or_else(|| scores.iter().copied().fold(0.0, Score::max));
            let with_tiers =
                self.tiers.iter().filter(|tier| tier.may_be_between(*first, *last)).fold(score, |sum, tier| sum + tier.score);
            highest = rank::by_relevance(with_tiers, true, newest);
        }
        if highest < self.collector.floor {
            return Ok(());
        }
        let mut scores = if scores.is_empty() { vec![alike.unwrap_or_default(); docs.len()] } else { scores.to_vec() };
        if by_score {
            for tier in &mut self.tiers {
                tier.lift(&self.section.segment, docs, &mut scores)?;
            }
        }
        let mut times = vec![None; docs.len()];
        self.section.columns.updated.first_vals(docs, &mut times);
        for ((doc, score), updated) in docs.iter().zip(scores).zip(times) {
            let (traits, updated) = (outline.traits(*doc), updated.unwrap_or_default());
            let rank =
                if by_score { rank::by_relevance(score, schema::is_open(traits), updated) } else { rank::by_age(false, updated) };
            if rank < self.collector.floor {
                continue;
            }
            let Some(kind) = schema::read_traits(traits).0 else { continue };
            self.collector.take(Candidate { rank, score, doc: *doc, kind, columns: &self.section.columns });
        }
        self.collector.prune();
        Ok(())
    }
}
