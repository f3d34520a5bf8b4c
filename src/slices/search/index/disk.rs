//! The index on disk: one directory per generation. The newest complete generation is used.
//!
//! **Invariant:** the log position of an index is committed together with its documents. An index that cannot be opened, is
//! damaged, has a different format or belongs to a different log is rebuilt, never repaired.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyDocument};

use tenantd_base::id::{EventId, TenantId};

use super::{
    super::{
        error::IndexError,
        model::{Document, DocumentKey},
    },
    engine_error,
    overlay::Fresh,
    schema::{self, Terms, TokenKind},
    view::{DISK, Part},
};

const NAME: &str = "generation-";
/// The memory for new documents. One thread keeps up with the writers; a rebuild may use more.
const LIVE_MEMORY: usize = 32 << 20;
const BUILD_MEMORY: usize = 96 << 20;

/// The position in the log up to which an index is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    format: u32,
    pub seq: u64,
    /// The event at that position, to detect a different log.
    pub event: Option<EventId>,
}

impl Position {
    pub fn new(seq: u64, event: Option<EventId>) -> Self {
        Self { format: schema::FORMAT, seq, event }
    }
}

pub struct Disk {
    pub generation: u64,
    pub position: Position,
    writer: IndexWriter,
    reader: IndexReader,
    /// The part that queries received last.
    part: Option<Part>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("generation", &self.generation).field("position", &self.position).finish_non_exhaustive()
    }
}

/// The generations in a directory, newest first.
fn generations(root: &Path) -> Result<Vec<(u64, PathBuf)>, IndexError> {
    let mut found = Vec::new();
    if root.exists() {
        for entry in std::fs::read_dir(root)? {
            let entry = entry?;
            let number = entry.file_name().to_str().and_then(|name| name.strip_prefix(NAME)?.parse().ok());
            found.extend(number.map(|number| (number, entry.path())));
        }
    }
    found.sort_unstable_by(|left, right| right.cmp(left));
    Ok(found)
}

fn path_of(root: &Path, generation: u64) -> PathBuf {
    root.join(format!("{NAME}{generation}"))
}

/// Removes an unfinished generation and returns its size in bytes.
pub fn remove_unfinished(root: &Path, generation: u64) -> u64 {
    let path = path_of(root, generation);
    let files = std::fs::read_dir(&path).into_iter().flatten().flatten();
    let bytes = files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum();
    remove(&path);
    bytes
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove an old search index");
    }
}

impl Disk {
    /// Opens the newest complete index and removes all others. `None` means that one must be built. While the disk is full,
    /// nothing is removed: an index that cannot be opened now may still be complete.
    pub fn open(root: &Path, is_full: bool) -> Result<Option<Self>, IndexError> {
        let mut opened = None;
        for (generation, path) in generations(root)? {
            if opened.is_none() {
                match Self::open_generation(generation, &path) {
                    Ok(disk) => {
                        opened = Some(disk);
                        continue;
                    }
                    Err(error) if is_full => return Err(error),
                    Err(error) => tracing::warn!(path = %path.display(), %error, "removing an unusable search index"),
                }
            }
            remove(&path);
        }
        Ok(opened)
    }

    fn open_generation(generation: u64, path: &Path) -> Result<Self, IndexError> {
        let mut index = Index::open_in_dir(path).map_err(engine_error)?;
        if index.schema() != schema::schema() {
            return Err(IndexError::Engine("the index has a different format".to_owned()));
        }
        index.set_tokenizers(schema::tokenizers());
        let payload = index.load_metas().map_err(engine_error)?.payload;
        let position = payload.and_then(|payload| serde_json::from_str::<Position>(&payload).ok());
        let position = position.filter(|position| position.format == schema::FORMAT);
        let position =
            position.ok_or_else(|| IndexError::Engine("the index is incomplete or has a different format".to_owned()))?;
        let damaged = index.validate_checksum().map_err(engine_error)?;
        if let Some(file) = damaged.iter().next() {
            return Err(IndexError::Engine(format!("{} is damaged", file.display())));
        }
        Self::start(generation, &index, position, LIVE_MEMORY)
    }

    fn start(generation: u64, index: &Index, position: Position, memory: usize) -> Result<Self, IndexError> {
        let writer = index.writer_with_num_threads(1, memory).map_err(engine_error)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into().map_err(engine_error)?;
        Ok(Self { generation, position, writer, reader, part: None })
    }

    /// Creates an empty index in a new generation. It is ignored until its first commit.
    pub fn create(root: &Path) -> Result<Self, IndexError> {
        let generation = generations(root)?.first().map_or(1, |(newest, _)| newest + 1);
        let path = path_of(root, generation);
        let create = || {
            std::fs::create_dir_all(&path)?;
            let index = schema::builder().create_in_dir(&path).map_err(engine_error)?;
            Self::start(generation, &index, Position::new(0, None), BUILD_MEMORY)
        };
        // Without this, every failed attempt would leave a directory behind.
        create().inspect_err(|_| remove(&path))
    }

    pub fn add(&self, document: &Document) -> Result<(), IndexError> {
        self.writer.add_document(schema::render(document)).map(drop).map_err(engine_error)
    }

    pub fn write(&self, key: &DocumentKey, fresh: &Fresh) -> Result<(), IndexError> {
        self.writer.delete_term(schema::key_term(key));
        if let Some(document) = &fresh.document {
            let document: TantivyDocument = document.as_ref().clone();
            self.writer.add_document(document).map_err(engine_error)?;
        }
        Ok(())
    }

    /// Removes all documents of a tenant that were written before this call.
    pub fn remove_tenant(&self, tenant: TenantId) {
        self.writer.delete_term(Terms::new(tenant).token(TokenKind::All, ""));
    }

    /// Makes the written documents durable, together with the position up to which they are complete.
    pub fn commit(&mut self, position: Position) -> Result<(), IndexError> {
        let payload = serde_json::to_string(&position).map_err(|error| IndexError::Engine(error.to_string()))?;
        let mut prepared = self.writer.prepare_commit().map_err(engine_error)?;
        prepared.set_payload(&payload);
        prepared.commit().map_err(engine_error)?;
        self.position = position;
        self.reader.reload().map_err(engine_error)
    }

    /// The committed documents, for queries.
    pub fn part(&mut self) -> Result<Part, IndexError> {
        let part = Part::new(DISK, self.reader.searcher(), self.part.as_ref())?;
        self.part = Some(part.clone());
        Ok(part)
    }

    pub fn documents(&self) -> u64 {
        self.reader.searcher().num_docs()
    }

    /// Removes all other generations.
    pub fn retire_others(&self, root: &Path) -> Result<(), IndexError> {
        for (generation, path) in generations(root)? {
            if generation != self.generation {
                remove(&path);
            }
        }
        Ok(())
    }
}
