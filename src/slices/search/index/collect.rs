//! Runs a plan over a view: the best matches, how many there are, and how they spread. Every match is counted, so that counts are exact;
//! few are ranked. Matches are gathered in the order in which they were written and looked at from the newest back, stretch by stretch:
//! of matches that score alike the newest are the best, so after the first stretches hardly another one can hold any of the best.

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

/// Matches that are gathered before they are looked at.
const GATHERED: usize = 1 << 15;
/// Matches that are looked at together, or not at all.
const STRETCH: usize = 512;

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
        Collector { view, options, best, counts: Counts::default(), gathered: Gathered::default(), hopeful: Vec::new(), floor: 0 };
    for part in &view.parts {
        let unscored = EnableScoring::disabled_from_searcher(&part.searcher);
        let tiers = plan.tiers.iter().map(|(query, score)| Ok((query.weight(unscored)?, *score)));
        let tiers = tiers.collect::<tantivy::Result<Vec<_>>>().map_err(engine_error)?;
        match &plan.matching {
            Clause::Nothing => {}
            Clause::Alike(query, score) => {
                let weight = query.weight(unscored).map_err(engine_error)?;
                let score = score * rank::TEXT_WEIGHT + plan.lift;
                collector.walk(part, &tiers, |stretches| {
                    weight.for_each_no_score(stretches.segment(), &mut |docs| stretches.take(docs, score))
                })?;
            }
            Clause::Weighed(query) => {
                let scored = EnableScoring::enabled_from_statistics_provider(view, &part.searcher);
                let weight = query.weight(scored).map_err(engine_error)?;
                collector.walk(part, &tiers, |stretches| {
                    weight.for_each(stretches.segment(), &mut |doc, score| {
                        stretches.push(doc, score * rank::TEXT_WEIGHT + plan.lift);
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
    gathered: Gathered,
    /// Matches that may be among the best, and the lowest rank that still may: they are weeded out together, and only what is left is
    /// looked up.
    hopeful: Vec<Hopeful<'a>>,
    floor: u64,
}

/// Matches in the order of the index, each with its score; with one score for all if they score alike.
#[derive(Default)]
struct Gathered {
    docs: Vec<DocId>,
    scores: Vec<Score>,
    alike: Option<Score>,
}

/// A match that may be among the best.
struct Hopeful<'a> {
    rank: u64,
    score: f32,
    doc: DocId,
    kind: Kind,
    columns: &'a Columns,
}

impl<'a> Collector<'a> {
    fn take(&mut self, hopeful: Hopeful<'a>) {
        match self.best.standing_of(hopeful.rank) {
            Ordering::Less => self.hopeful.push(hopeful),
            Ordering::Equal => self.offer(&hopeful),
            Ordering::Greater => {}
        }
    }

    /// Keeps what still may be among the best.
    fn weed(&mut self) {
        let most = self.best.most();
        if self.hopeful.len() <= most {
            return;
        }
        self.hopeful.select_nth_unstable_by_key(most - 1, |hopeful| std::cmp::Reverse(hopeful.rank));
        self.floor = self.hopeful.get(most - 1).map_or(0, |last| last.rank);
        let floor = self.floor;
        self.hopeful.retain(|hopeful| hopeful.rank >= floor);
        // Too many of one rank: their ids decide.
        if self.hopeful.len() > most + STRETCH {
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
        each: impl Fn(&mut Stretches<'_, 'a>) -> tantivy::Result<()>,
    ) -> Result<(), IndexError> {
        let facets = self.options.facets;
        for section in part.sections() {
            let tiers = tiers.iter().map(|(weight, score)| Tier::new(weight.as_ref(), *score, &section.segment));
            let tiers = tiers.collect::<tantivy::Result<Vec<_>>>().map_err(engine_error)?;
            let counted = if facets.kind || facets.state || facets.organization { section.outline.sorts().len() } else { 0 };
            let mut stretches = Stretches {
                unfiltered: !section.segment.has_deletes() && self.view.newest.is_empty(),
                collector: &mut *self,
                part,
                section,
                tiers: tiers.into_iter().flatten().collect(),
                tally: vec![0; counted],
                failed: None,
            };
            each(&mut stretches).map_err(engine_error)?;
            stretches.look();
            let Stretches { tally, failed, .. } = stretches;
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
struct Stretches<'a, 'b> {
    collector: &'a mut Collector<'b>,
    part: &'b Part,
    section: &'b Section,
    /// Nothing of the segment is replaced or removed.
    unfiltered: bool,
    tiers: Vec<Tier<'a>>,
    /// How many matches there are of each sort; empty if nobody asks.
    tally: Vec<u32>,
    failed: Option<tantivy::TantivyError>,
}

impl<'b> Stretches<'_, 'b> {
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
        self.collector.gathered.docs.push(doc);
        self.collector.gathered.scores.push(score);
        if self.collector.gathered.docs.len() >= GATHERED {
            self.look();
        }
    }

    fn take(&mut self, docs: &[DocId], score: Score) {
        self.collector.gathered.alike = Some(score);
        if self.unfiltered {
            self.collector.gathered.docs.extend_from_slice(docs);
        } else {
            for doc in docs {
                if self.shows(*doc) {
                    self.collector.gathered.docs.push(*doc);
                }
            }
        }
        if self.collector.gathered.docs.len() >= GATHERED {
            self.look();
        }
    }

    /// Counts what was gathered, and ranks what may be among the best.
    fn look(&mut self) {
        let mut gathered = std::mem::take(&mut self.collector.gathered);
        self.collector.counts.total += gathered.docs.len() as u64;
        if !self.tally.is_empty() {
            for doc in &gathered.docs {
                if let Some(count) = self.tally.get_mut(self.section.outline.place(*doc)) {
                    *count += 1;
                }
            }
        }
        let mut end = gathered.docs.len();
        while end > 0 && self.failed.is_none() {
            let start = (end - 1) / STRETCH * STRETCH;
            let docs = gathered.docs.get(start..end).unwrap_or_default();
            let scores = gathered.scores.get(start..end).unwrap_or_default();
            self.failed = self.rank(docs, scores, gathered.alike).err();
            end = start;
        }
        gathered.docs.clear();
        gathered.scores.clear();
        self.collector.gathered = Gathered { alike: None, ..gathered };
    }

    /// Ranks the matches of a stretch, unless none of them can be among the best.
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
            self.collector.take(Hopeful { rank, score, doc: *doc, kind, columns: &self.section.columns });
        }
        self.collector.weed();
        Ok(())
    }
}
