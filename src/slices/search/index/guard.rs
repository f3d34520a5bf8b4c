//! Wraps a query so that it can be excluded. To evaluate an exclusion, tantivy may seek a scorer to a document before its
//! current one, which phrases and intersections do not support. This guard passes on only forward seeks.

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

/// The default implementation of `seek_danger` is correct here.
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
