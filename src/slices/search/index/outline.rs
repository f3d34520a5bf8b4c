//! Data about a segment's documents that every match needs, kept in memory: the sort of each document, and the newest update
//! in each range of documents. The columns on disk contain the same data and more, but reading them costs several times as
//! much.
//!
//! **Invariant:** an outline is built once per segment, because segments never change.

use std::collections::HashMap;

use tantivy::{DocId, SegmentReader};

use tenantd_base::id::OrganizationId;

use super::{super::error::IndexError, view::Columns};

/// The number of documents that share one entry of [`Outline::newest`].
const ZONE: usize = 256;
/// The number of values that are read from a column at once.
const READ: usize = 1024;

/// The properties by which documents are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    /// Type and status, as stored in the column.
    pub traits: u64,
    pub organization: Option<OrganizationId>,
}

#[derive(Debug)]
pub struct Outline {
    /// The index of each document's sort in `sorts`.
    places: Vec<u32>,
    sorts: Vec<Sort>,
    /// The update time of the newest document in each zone.
    newest: Vec<u64>,
}

impl Outline {
    pub fn of(segment: &SegmentReader, columns: &Columns) -> Result<Self, IndexError> {
        let documents: Vec<DocId> = (0..segment.max_doc()).collect();
        let organizations = organizations(columns)?;
        let mut outline = Self { places: Vec::with_capacity(documents.len()), sorts: Vec::new(), newest: Vec::new() };
        let mut known: HashMap<(u64, Option<u64>), u32> = HashMap::new();
        let (mut traits, mut owners, mut times) = ([None; READ], [None; READ], [None; READ]);
        for documents in documents.chunks(READ) {
            for values in [&mut traits, &mut owners, &mut times] {
                values.fill(None);
            }
            let count = documents.len();
            let read = |column: &tantivy::columnar::Column<u64>, values: &mut [Option<u64>; READ]| {
                if let Some(values) = values.get_mut(..count) {
                    column.first_vals(documents, values);
                }
            };
            read(&columns.traits, &mut traits);
            read(&columns.updated, &mut times);
            if let Some(column) = &columns.organization {
                read(column.ords(), &mut owners);
            }
            for (traits, owner) in traits.iter().zip(&owners).take(count) {
                let traits = traits.unwrap_or_default();
                let place = *known.entry((traits, *owner)).or_insert_with(|| {
                    let owner = owner.and_then(|owner| organizations.get(usize::try_from(owner).ok()?).copied());
                    outline.sorts.push(Sort { traits, organization: owner });
                    u32::try_from(outline.sorts.len() - 1).unwrap_or(u32::MAX)
                });
                outline.places.push(place);
            }
            let zones = times.get(..count).unwrap_or_default().chunks(ZONE);
            outline.newest.extend(zones.map(|zone| zone.iter().flatten().max().copied().unwrap_or_default()));
        }
        Ok(outline)
    }

    pub fn sorts(&self) -> &[Sort] {
        &self.sorts
    }

    /// The index of a document's sort in [`Outline::sorts`].
    #[inline]
    pub fn place(&self, doc: DocId) -> usize {
        self.places.get(doc as usize).map_or(usize::MAX, |place| *place as usize)
    }

    #[inline]
    pub fn traits(&self, doc: DocId) -> u64 {
        self.sorts.get(self.place(doc)).map_or(0, |sort| sort.traits)
    }

    /// An upper bound for the update times from `first` to `last`.
    pub fn newest_between(&self, first: DocId, last: DocId) -> u64 {
        let zones = self.newest.get(first as usize / ZONE..=last as usize / ZONE);
        zones.and_then(|zones| zones.iter().max().copied()).unwrap_or(u64::MAX)
    }
}

/// The organizations of a segment, in dictionary order.
fn organizations(columns: &Columns) -> Result<Vec<OrganizationId>, IndexError> {
    let Some(column) = &columns.organization else { return Ok(Vec::new()) };
    let all: Vec<u64> = (0..column.num_terms() as u64).collect();
    let mut organizations = Vec::with_capacity(all.len());
    column.dictionary().sorted_ords_to_term_cb(&all, |bytes| {
        organizations.push(OrganizationId::from_bytes(bytes.try_into().unwrap_or_default()));
    })?;
    Ok(organizations)
}
