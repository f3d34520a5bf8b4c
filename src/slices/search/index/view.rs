//! An immutable state of the index for queries: the part on disk and the layers in memory above it.
//!
//! **Invariant:** a view does not change. Only the newest version of a document is visible, although older versions are still
//! in the parts below.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tantivy::{
    DocId, Searcher, SegmentReader, Term,
    columnar::{BytesColumn, Column},
    query::{Bm25StatisticsProvider, EnableScoring, Query},
    schema::Field,
};

use tenantd_base::id::TenantId;

use super::{
    super::error::IndexError,
    engine_error,
    outline::Outline,
    schema::{self, Terms, TokenKind},
};

/// The part that has the newest version of a document, by the low half of its id. [`GONE`] means that the document was removed.
pub type Newest = imbl::HashMap<u64, u32>;
pub const GONE: u32 = u32::MAX;
/// The number of the part on disk.
pub const DISK: u32 = 0;

/// The columns of a segment's documents.
#[derive(Clone, Debug)]
pub struct Columns {
    pub id_high: Column<u64>,
    pub id_low: Column<u64>,
    pub traits: Column<u64>,
    pub updated: Column<u64>,
    pub organization: Option<BytesColumn>,
}

/// A segment with its columns and outline.
#[derive(Clone)]
pub struct Section {
    pub segment: SegmentReader,
    pub columns: Columns,
    pub outline: Arc<Outline>,
}

#[derive(Clone)]
pub struct Part {
    pub number: u32,
    pub searcher: Searcher,
    /// The segments to search.
    sections: Arc<[Section]>,
    narrowed: Arc<Narrowed>,
}

/// The segments of a part that have documents of a tenant. Every query needs them, and they do not change during the lifetime
/// of the part.
type Narrowed = Mutex<HashMap<TenantId, Arc<[Section]>>>;

/// The maximum number of tenants in this cache. It is cleared when it is full.
const MOST_NARROWED: usize = 1024;

impl Part {
    /// Reuses the sections of segments that the previous part already had.
    pub fn new(number: u32, searcher: Searcher, before: Option<&Self>) -> Result<Self, IndexError> {
        let known = before.map(Self::sections).unwrap_or_default();
        let section = |segment: &SegmentReader| {
            if let Some(known) = known.iter().find(|known| known.segment.segment_id() == segment.segment_id()) {
                return Ok(Section { segment: segment.clone(), ..known.clone() });
            }
            let columns = Columns::open(segment)?;
            let outline = Arc::new(Outline::of(segment, &columns)?);
            Ok(Section { segment: segment.clone(), columns, outline })
        };
        let sections = searcher.segment_readers().iter().map(section).collect::<Result<_, IndexError>>()?;
        Ok(Self { number, searcher, sections, narrowed: Arc::default() })
    }

    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    pub fn segments(&self) -> impl Iterator<Item = (&SegmentReader, &Columns)> {
        self.sections.iter().map(|section| (&section.segment, &section.columns))
    }

    /// The number of documents with a term, including old versions.
    fn frequency(&self, term: &Term) -> tantivy::Result<u64> {
        self.segments().map(|(segment, _)| frequency(segment, term)).sum()
    }

    /// This part, reduced to the segments that have documents of the tenant.
    fn of(&self, tenant: TenantId) -> tantivy::Result<Self> {
        let lock = || self.narrowed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&tenant).cloned();
        let sections = if let Some(sections) = known {
            sections
        } else {
            let sections = self.having(&Terms::new(tenant).token(TokenKind::All, ""))?;
            let mut narrowed = lock();
            if narrowed.len() >= MOST_NARROWED {
                narrowed.clear();
            }
            narrowed.entry(tenant).or_insert(sections).clone()
        };
        Ok(Self { sections, ..self.clone() })
    }

    fn having(&self, term: &Term) -> tantivy::Result<Arc<[Section]>> {
        let mut sections = Vec::new();
        for section in self.sections.iter() {
            if frequency(&section.segment, term)? > 0 {
                sections.push(section.clone());
            }
        }
        Ok(sections.into())
    }
}

fn frequency(segment: &SegmentReader, term: &Term) -> tantivy::Result<u64> {
    Ok(u64::from(segment.inverted_index(term.field())?.doc_freq(term)?))
}

impl Columns {
    fn open(segment: &SegmentReader) -> Result<Self, IndexError> {
        let columns = segment.fast_fields();
        let number = |name: &str| columns.u64(name).map_err(engine_error);
        Ok(Self {
            id_high: number(schema::ID_HIGH)?,
            id_low: number(schema::ID_LOW)?,
            traits: number(schema::TRAITS)?,
            updated: number(schema::UPDATED)?,
            organization: columns.bytes(schema::ORGANIZATION).map_err(engine_error)?,
        })
    }

    pub fn id(&self, doc: DocId) -> u128 {
        let half = |column: &Column<u64>| u128::from(column.first(doc).unwrap_or_default());
        half(&self.id_high) << 64 | half(&self.id_low)
    }
}

#[derive(Clone)]
pub struct View {
    pub parts: Vec<Part>,
    pub newest: Newest,
    /// The newest event that the view contains.
    pub seq: u64,
    /// The newest event that is on disk.
    pub durable: u64,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("parts", &self.parts.len()).field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl View {
    /// Whether this version of a document is the visible one.
    fn is_newest(&self, part: u32, id_low: u64) -> bool {
        self.newest.get(&id_low).is_none_or(|newest| *newest == part)
    }

    /// Calls `visit` with every matching document until it returns `false`.
    pub fn visit(&self, query: &dyn Query, mut visit: impl FnMut(&Columns, DocId) -> bool) -> Result<(), IndexError> {
        for part in &self.parts {
            let weight = query.weight(EnableScoring::disabled_from_searcher(&part.searcher)).map_err(engine_error)?;
            for (segment, columns) in part.segments() {
                let mut scorer = weight.scorer(segment, 1.0).map_err(engine_error)?;
                let mut doc = scorer.doc();
                while doc != tantivy::TERMINATED {
                    if self.shows(part, segment, columns, doc) && !visit(columns, doc) {
                        return Ok(());
                    }
                    doc = scorer.advance();
                }
            }
        }
        Ok(())
    }

    /// Whether the document exists and this is its newest version.
    pub fn shows(&self, part: &Part, segment: &SegmentReader, columns: &Columns, doc: DocId) -> bool {
        !segment.is_deleted(doc)
            && (self.newest.is_empty() || self.is_newest(part.number, columns.id_low.first(doc).unwrap_or_default()))
    }

    /// This view, reduced to the segments with documents of a tenant. So a small tenant is as fast as if it were alone.
    pub fn of(&self, tenant: TenantId) -> Result<Self, IndexError> {
        let parts = self.parts.iter().map(|part| part.of(tenant)).collect::<tantivy::Result<_>>().map_err(engine_error)?;
        Ok(Self { parts, newest: self.newest.clone(), seq: self.seq, durable: self.durable })
    }

    /// Whether any document has the term, including old versions.
    pub fn has(&self, term: &Term) -> Result<bool, IndexError> {
        for (segment, _) in self.parts.iter().flat_map(Part::segments) {
            if frequency(segment, term).map_err(engine_error)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the query has any match.
    pub fn any(&self, query: &dyn Query) -> Result<bool, IndexError> {
        let mut found = false;
        self.visit(query, |_, _| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// The ids of at most `limit` matching documents.
    pub fn ids(&self, query: &dyn Query, limit: usize) -> Result<Vec<u128>, IndexError> {
        let mut ids = Vec::new();
        self.visit(query, |columns, doc| {
            ids.push(columns.id(doc));
            ids.len() < limit
        })?;
        Ok(ids)
    }

    pub fn documents(&self) -> u64 {
        self.parts.iter().map(|part| part.searcher.num_docs()).sum()
    }
}

/// A layer with a few documents does not show how rare a word is, so the statistics cover all parts.
impl Bm25StatisticsProvider for View {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.parts.iter().map(|part| Bm25StatisticsProvider::total_num_tokens(&part.searcher, field)).sum()
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.parts.iter().map(|part| Bm25StatisticsProvider::total_num_docs(&part.searcher)).sum()
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        self.parts.iter().map(|part| part.frequency(term)).sum()
    }
}
