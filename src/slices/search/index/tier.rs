//! Documents of a segment that rank above others. Determines which matches are among them.

use tantivy::{
    DocId, DocSet, Score, SegmentReader, TERMINATED,
    query::{Scorer, Weight},
};

/// Up to this many documents are stored as a list, which also shows where there are none.
const FEW: usize = 256;

pub struct Tier<'a> {
    weight: &'a dyn Weight,
    pub score: f32,
    docs: Docs,
}

enum Docs {
    Few(Vec<DocId>),
    /// Walked from match to match.
    Many(Box<dyn Scorer>),
}

impl<'a> Tier<'a> {
    /// `None` if the segment has none of these documents.
    pub fn new(weight: &'a dyn Weight, score: f32, segment: &SegmentReader) -> tantivy::Result<Option<Self>> {
        let mut docs = weight.scorer(segment, 1.0)?;
        if docs.doc() == TERMINATED {
            return Ok(None);
        }
        if docs.size_hint() as usize > FEW {
            return Ok(Some(Self { weight, score, docs: Docs::Many(docs) }));
        }
        let mut few = Vec::new();
        while docs.doc() != TERMINATED {
            if few.len() == FEW {
                return Ok(Some(Self { weight, score, docs: Docs::Many(weight.scorer(segment, 1.0)?) }));
            }
            few.push(docs.doc());
            docs.advance();
        }
        Ok(Some(Self { weight, score, docs: Docs::Few(few) }))
    }

    pub fn may_be_between(&self, first: DocId, last: DocId) -> bool {
        match &self.docs {
            Docs::Few(few) => few.get(few.partition_point(|doc| *doc < first)).is_some_and(|doc| *doc <= last),
            Docs::Many(_) => true,
        }
    }

    /// Raises the scores of the matches that are among these documents. Matches are in order, but a call may start before the
    /// end of the last one.
    pub fn lift(&mut self, segment: &SegmentReader, docs: &[DocId], scores: &mut [Score]) -> tantivy::Result<()> {
        match &mut self.docs {
            Docs::Few(few) => {
                for (doc, score) in docs.iter().zip(scores) {
                    if few.binary_search(doc).is_ok() {
                        *score += self.score;
                    }
                }
            }
            Docs::Many(many) => {
                if docs.first().is_some_and(|first| *first < many.doc()) {
                    *many = self.weight.scorer(segment, 1.0)?;
                }
                for (doc, score) in docs.iter().zip(scores) {
                    if many.doc() < *doc {
                        many.seek(*doc);
                    }
                    if many.doc() == *doc {
                        *score += self.score;
                    }
                }
            }
        }
        Ok(())
    }
}
