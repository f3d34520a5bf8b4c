//! Documents that are newer than the index on disk: kept in memory and made searchable in small layers.
//!
//! **Invariant:** an overlay and the disk below it contain every event up to `applied`. The overlay is bounded: when it is
//! full, it must be committed to disk before it can grow. Nothing here is durable, and nothing needs to be: after a restart
//! the log is read again.

use std::{collections::HashMap, sync::Arc};

use tantivy::{ReloadPolicy, TantivyDocument, directory::RamDirectory};

use tenantd_base::id::TenantId;

use super::{
    super::{
        error::IndexError,
        model::{Document, DocumentKey},
    },
    engine_error, schema,
    view::{DISK, GONE, Newest, Part, View},
};

/// The maximum number of documents that are not on disk yet.
pub const MOST_FRESH: usize = 10_000;
/// The memory for building a layer.
const LAYER_MEMORY: usize = 4 << 20;

/// A version of a document that is not on disk yet.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// Distinguishes versions of the same document.
    pub change: u64,
    /// `None` if the record was removed.
    pub document: Option<Arc<TantivyDocument>>,
}

struct Layer {
    part: Part,
    keys: Vec<DocumentKey>,
}

pub struct Overlay {
    /// The generation of the index on disk below this overlay.
    pub generation: u64,
    disk: Part,
    /// The newest event that is on disk.
    pub durable: u64,
    /// The newest event that is in the overlay or on disk.
    pub applied: u64,
    /// The newest event in the last published view.
    published: u64,
    fresh: HashMap<DocumentKey, Fresh>,
    /// Tenants whose documents must be removed from disk before the new documents are written.
    removed_tenants: Vec<TenantId>,
    changes: u64,
    layers: Vec<Layer>,
    /// Documents that are not in a layer yet.
    pending: Vec<DocumentKey>,
    newest: Newest,
    next_number: u32,
}

fn id_low(key: &DocumentKey) -> u64 {
    key.id.last_chunk().copied().map_or(0, u64::from_be_bytes)
}

impl Overlay {
    pub fn new(generation: u64, disk: Part, durable: u64) -> Self {
        Self {
            generation,
            disk,
            durable,
            applied: durable,
            published: durable,
            fresh: HashMap::new(),
            removed_tenants: Vec::new(),
            changes: 0,
            layers: Vec::new(),
            pending: Vec::new(),
            newest: Newest::new(),
            next_number: DISK + 1,
        }
    }

    pub fn is_full(&self) -> bool {
        self.fresh.len() >= MOST_FRESH
    }

    /// Stores the current version of a document.
    pub fn put(&mut self, key: DocumentKey, document: Option<&Document>) {
        self.changes += 1;
        let document = document.map(|document| Arc::new(schema::render(document)));
        self.fresh.insert(key, Fresh { change: self.changes, document });
        self.pending.push(key);
    }

    /// Removes all documents of a tenant.
    pub fn remove_tenant(&mut self, tenant: TenantId) {
        let gone: Vec<DocumentKey> = self.fresh.keys().filter(|key| key.tenant_id == tenant).copied().collect();
        for key in gone {
            self.put(key, None);
        }
        self.removed_tenants.push(tenant);
    }

    /// Whether there is nothing to write to disk.
    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.removed_tenants.is_empty()
    }

    /// Everything that is not on disk: the tenants to remove, the documents to write, and the newest event that they cover.
    pub fn snapshot(&self) -> (Vec<TenantId>, Vec<(DocumentKey, Fresh)>, u64) {
        (self.removed_tenants.clone(), self.fresh.iter().map(|(key, fresh)| (*key, fresh.clone())).collect(), self.applied)
    }

    /// Called after the result of [`Overlay::snapshot`] was written to disk. Keeps only what has changed since.
    pub fn settle(&mut self, disk: Part, durable: u64, removed_tenants: &[TenantId], written: &[(DocumentKey, Fresh)]) {
        // New tenants are appended, so the written ones are at the front.
        self.removed_tenants.drain(..removed_tenants.len().min(self.removed_tenants.len()));
        self.disk = disk;
        self.durable = durable;
        for (key, fresh) in written {
            if self.fresh.get(key).is_some_and(|now| now.change == fresh.change) {
                self.fresh.remove(key);
            }
        }
        self.layers.clear();
        self.newest = Newest::new();
        self.next_number = DISK + 1;
        self.pending = self.fresh.keys().copied().collect();
    }

    /// Whether the last view contains everything in the overlay.
    pub fn is_published(&self) -> bool {
        self.published == self.applied
    }

    /// A view of the overlay and the disk below it.
    pub fn publish(&mut self) -> Result<Arc<View>, IndexError> {
        self.published = self.applied;
        if !self.pending.is_empty() {
            self.add_layer()?;
        }
        let layers = self.layers.iter().map(|layer| layer.part.clone());
        let parts = [self.disk.clone()].into_iter().chain(layers).collect();
        Ok(Arc::new(View { parts, newest: self.newest.clone(), seq: self.applied, durable: self.durable }))
    }

    /// Makes pending documents searchable, and merges them with small layers. So there are few layers, and each document is
    /// rebuilt only a few times.
    fn add_layer(&mut self) -> Result<(), IndexError> {
        let mut keys = std::mem::take(&mut self.pending);
        while let Some(layer) = self.layers.pop_if(|layer| layer.keys.len() <= keys.len().saturating_mul(2)) {
            keys.extend(layer.keys);
        }
        keys.sort_unstable();
        keys.dedup();
        let number = self.next_number;
        self.next_number += 1;
        let mut held = Vec::with_capacity(keys.len());
        let mut documents = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(fresh) = self.fresh.get(&key) else { continue };
            let part = if let Some(document) = &fresh.document {
                documents.push(document.clone());
                held.push(key);
                number
            } else {
                GONE
            };
            self.newest.insert(id_low(&key), part);
        }
        if !documents.is_empty() {
            self.layers.push(Layer { part: build(number, &documents)?, keys: held });
        }
        Ok(())
    }
}

fn build(number: u32, documents: &[Arc<TantivyDocument>]) -> Result<Part, IndexError> {
    let writer = schema::builder().single_segment_index_writer::<TantivyDocument>(RamDirectory::create(), LAYER_MEMORY);
    let mut writer = writer.map_err(engine_error)?;
    for document in documents {
        writer.add_document(document.as_ref().clone()).map_err(engine_error)?;
    }
    let index = writer.finalize().map_err(engine_error)?;
    let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into().map_err(engine_error)?;
    Part::new(number, tantivy::IndexReader::searcher(&reader), None)
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay").field("applied", &self.applied).field("fresh", &self.fresh.len()).finish_non_exhaustive()
    }
}
