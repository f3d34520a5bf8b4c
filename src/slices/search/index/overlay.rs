//! What is newer than the index on the disk, in memory: documents that the log tells of, made searchable in small layers.
//!
//! **Invariant:** an overlay and the disk below it hold every event up to `applied`. It is bounded: when it is full, the next commit to
//! the disk has to come first. Nothing here is durable, and nothing needs to be: the log is read again after a restart.

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

/// The most documents that wait for the disk.
pub const MOST_FRESH: usize = 10_000;
/// For the terms of a layer while it is built.
const LAYER_MEMORY: usize = 4 << 20;

/// A version of a document that the disk does not have.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// Tells one version from the next.
    pub change: u64,
    /// `None`: the record is gone.
    pub document: Option<Arc<TantivyDocument>>,
}

struct Layer {
    part: Part,
    keys: Vec<DocumentKey>,
}

pub struct Overlay {
    /// Names the index on the disk that this lies over.
    pub generation: u64,
    disk: Part,
    /// The newest event that is on the disk.
    pub durable: u64,
    /// The newest event that is here or on the disk.
    pub applied: u64,
    /// The newest event that the last view has.
    published: u64,
    fresh: HashMap<DocumentKey, Fresh>,
    /// Tenants of which the disk has to forget everything before it takes up what is fresh.
    forgotten: Vec<TenantId>,
    changes: u64,
    layers: Vec<Layer>,
    /// What is in no layer yet.
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
            forgotten: Vec::new(),
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

    /// Takes up how a document is now.
    pub fn put(&mut self, key: DocumentKey, document: Option<&Document>) {
        self.changes += 1;
        let document = document.map(|document| Arc::new(schema::render(document)));
        self.fresh.insert(key, Fresh { change: self.changes, document });
        self.pending.push(key);
    }

    /// Takes up that nothing of a tenant is left.
    pub fn forget(&mut self, tenant: TenantId) {
        let gone: Vec<DocumentKey> = self.fresh.keys().filter(|key| key.tenant_id == tenant).copied().collect();
        for key in gone {
            self.put(key, None);
        }
        self.forgotten.push(tenant);
    }

    /// Whether there is anything for the disk.
    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.forgotten.is_empty()
    }

    /// All that the disk does not have: tenants to forget, then documents; and up to which event that is.
    pub fn snapshot(&self) -> (Vec<TenantId>, Vec<(DocumentKey, Fresh)>, u64) {
        (self.forgotten.clone(), self.fresh.iter().map(|(key, fresh)| (*key, fresh.clone())).collect(), self.applied)
    }

    /// The disk has taken over what [`Overlay::snapshot`] gave: only what came since stays here.
    pub fn settle(&mut self, disk: Part, durable: u64, forgotten: &[TenantId], written: &[(DocumentKey, Fresh)]) {
        // Tenants come in order behind one another: what was given stands in front.
        self.forgotten.drain(..forgotten.len().min(self.forgotten.len()));
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

    /// Whether there is a view of all that is here.
    pub fn is_published(&self) -> bool {
        self.published == self.applied
    }

    /// The view of all that is here and below.
    pub fn publish(&mut self) -> Result<Arc<View>, IndexError> {
        self.published = self.applied;
        if !self.pending.is_empty() {
            self.add_layer()?;
        }
        let layers = self.layers.iter().map(|layer| layer.part.clone());
        let parts = [self.disk.clone()].into_iter().chain(layers).collect();
        Ok(Arc::new(View { parts, newest: self.newest.clone(), seq: self.applied, durable: self.durable }))
    }

    /// Makes what is pending searchable, together with layers that are no larger: so there are few, and each document is in few builds.
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
