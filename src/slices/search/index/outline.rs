//! What is kept in memory of a segment's documents, since every match is asked for it: of which sort a document is, and how new the
//! documents of a stretch are at most. Columns on the disk hold the same and more, at several times the price for each document.
//!
//! **Invariant:** made once for a segment, which never changes.

use std::collections::HashMap;

use tantivy::{DocId, SegmentReader};

use tenantd_base::id::OrganizationId;

use super::{super::error::IndexError, view::Columns};

/// So many documents share one entry of [`Outline::newest`].
const ZONE: usize = 256;
/// Values that are read from a column together.
const READ: usize = 1024;

/// What documents are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    /// Type and status, as the column has them.
    pub traits: u64,
    pub organization: Option<OrganizationId>,
}

#[derive(Debug)]
pub struct Outline {
    /// For each document the place of its sort.
    places: Vec<u32>,
    sorts: Vec<Sort>,
    /// For each zone the time of its newest document.
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

    /// The place of a document's sort in [`Outline::sorts`].
    #[inline]
    pub fn place(&self, doc: DocId) -> usize {
        self.places.get(doc as usize).map_or(usize::MAX, |place| *place as usize)
    }

    #[inline]
    pub fn traits(&self, doc: DocId) -> u64 {
        self.sorts.get(self.place(doc)).map_or(0, |sort| sort.traits)
    }

    /// No document from `first` to `last` is newer.
    pub fn newest_between(&self, first: DocId, last: DocId) -> u64 {
        let zones = self.newest.get(first as usize / ZONE..=last as usize / ZONE);
        zones.and_then(|zones| zones.iter().max().copied()).unwrap_or(u64::MAX)
    }
}

/// The organizations of a segment, in the order of its dictionary.
fn organizations(columns: &Columns) -> Result<Vec<OrganizationId>, IndexError> {
    let Some(column) = &columns.organization else { return Ok(Vec::new()) };
    let all: Vec<u64> = (0..column.num_terms() as u64).collect();
    let mut organizations = Vec::with_capacity(all.len());
    column.dictionary().sorted_ords_to_term_cb(&all, |bytes| {
        organizations.push(OrganizationId::from_bytes(bytes.try_into().unwrap_or_default()));
    })?;
    Ok(organizations)
}
