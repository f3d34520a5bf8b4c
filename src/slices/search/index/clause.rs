//! Clauses of a plan, joined so that the index does no unnecessary work. A clause that matches no document is dropped. If all
//! matches add the same score, that score is computed once and not for each match.

use tantivy::query::{BooleanQuery, BoostQuery, ConstScoreQuery, EmptyQuery, Occur, Query};

use super::guard::Guarded;

pub type BoxedQuery = Box<dyn Query>;

/// What a document must match, and what a match adds to its score.
#[derive(Debug)]
pub enum Clause {
    /// No document matches.
    Nothing,
    /// Every match adds the same score.
    Alike(BoxedQuery, f32),
    /// The score of a match depends on its text.
    Weighed(BoxedQuery),
}

impl Clone for Clause {
    fn clone(&self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Alike(query, score) => Self::Alike(query.box_clone(), *score),
            Self::Weighed(query) => Self::Weighed(query.box_clone()),
        }
    }
}

impl Clause {
    /// Matches what any of the clauses matches.
    pub fn any(clauses: impl IntoIterator<Item = Self>) -> Self {
        let mut clauses: Vec<Self> = clauses.into_iter().filter(|clause| !clause.is_nothing()).collect();
        match clauses.len() {
            0 => Self::Nothing,
            1 => clauses.remove(0),
            _ if clauses.iter().all(Self::adds_nothing) => {
                Self::Alike(Box::new(BooleanQuery::union(clauses.into_iter().map(Self::matches).collect())), 0.0)
            }
            _ => Self::Weighed(Box::new(BooleanQuery::union(clauses.into_iter().map(Self::scored).collect()))),
        }
    }

    /// Matches what all of the clauses match.
    pub fn all(clauses: impl IntoIterator<Item = Self>) -> Self {
        let mut clauses: Vec<Self> = clauses.into_iter().collect();
        if clauses.iter().any(Self::is_nothing) {
            return Self::Nothing;
        }
        if clauses.len() == 1 {
            return clauses.remove(0);
        }
        let together = |queries: Vec<BoxedQuery>| Box::new(BooleanQuery::intersection(queries));
        match clauses.iter().map(Self::same_for_all).sum::<Option<f32>>() {
            Some(score) => Self::Alike(together(clauses.into_iter().map(Self::matches).collect()), score),
            None => Self::Weighed(together(clauses.into_iter().map(Self::scored).collect())),
        }
    }

    /// Removes everything that the other clauses match.
    pub fn without(self, others: impl IntoIterator<Item = Self>) -> Self {
        let others = others.into_iter().filter(|other| !other.is_nothing());
        let others: Vec<(Occur, BoxedQuery)> =
            others.map(|other| (Occur::MustNot, Box::new(Guarded(other.matches())) as BoxedQuery)).collect();
        if others.is_empty() {
            return self;
        }
        let except = |query: BoxedQuery| Box::new(BooleanQuery::new([(Occur::Must, query)].into_iter().chain(others).collect()));
        match self {
            Self::Nothing => Self::Nothing,
            Self::Alike(query, score) => Self::Alike(except(query), score),
            Self::Weighed(query) => Self::Weighed(except(query)),
        }
    }

    /// The same matches, each with this score.
    pub fn alike(self, score: f32) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Alike(query, _) | Self::Weighed(query) => Self::Alike(query, score),
        }
    }

    /// The same matches, with their scores multiplied.
    pub fn times(self, weight: f32) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Alike(query, score) => Self::Alike(query, score * weight),
            Self::Weighed(query) => Self::Weighed(Box::new(BoostQuery::new(query, weight))),
        }
    }

    pub const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The score that every match adds, if it is the same for all.
    const fn same_for_all(&self) -> Option<f32> {
        match self {
            Self::Nothing => Some(0.0),
            Self::Alike(_, score) => Some(*score),
            Self::Weighed(_) => None,
        }
    }

    fn adds_nothing(&self) -> bool {
        matches!(self, Self::Alike(_, score) if *score == 0.0)
    }

    /// The query without a score.
    pub fn matches(self) -> BoxedQuery {
        match self {
            Self::Nothing => Box::new(EmptyQuery),
            Self::Alike(query, _) | Self::Weighed(query) => query,
        }
    }

    fn scored(self) -> BoxedQuery {
        match self {
            Self::Nothing => Box::new(EmptyQuery),
            Self::Alike(query, score) => Box::new(ConstScoreQuery::new(query, score)),
            Self::Weighed(query) => query,
        }
    }
}
