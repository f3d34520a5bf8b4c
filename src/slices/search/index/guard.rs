//! A query that can be excluded. tantivy asks what is excluded for documents before the one that it stands at; phrases and
//! intersections take that amiss. Behind this guard they are asked only for what lies ahead.

use tantivy::{
    DocId, DocSet, Score, SegmentReader,
    query::{EnableScoring, Explanation, Query, Scorer, Weight},
};

#[derive(Debug)]
pub struct Guarded(pub Box<dyn Query>);

impl Clone for Guarded {
    fn clone(&self) -> Self {
        Self(self.0.box_clone())
    }
}

impl Query for Guarded {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(GuardedWeight(self.0.weight(scoring)?)))
    }
}

struct GuardedWeight(Box<dyn Weight>);

impl Weight for GuardedWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(Box::new(GuardedScorer(self.0.scorer(reader, boost)?)))
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.0.explain(reader, doc)
    }
}

struct GuardedScorer(Box<dyn Scorer>);

/// What the trait itself says of `seek_danger` is what is wanted.
impl DocSet for GuardedScorer {
    fn advance(&mut self) -> DocId {
        self.0.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.0.seek(target)
    }

    fn doc(&self) -> DocId {
        self.0.doc()
    }

    fn size_hint(&self) -> u32 {
        self.0.size_hint()
    }
}

impl Scorer for GuardedScorer {
    fn score(&mut self) -> Score {
        self.0.score()
    }
}
