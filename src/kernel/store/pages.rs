//! Verifies the pages of redb's file. Each page in use has a checksum in its parent, which redb compares only on request.
//!
//! redb needs exclusive access to a file to verify its pages. So the live file is opened a second time, read-only, with a
//! modified header that shows redb one of the file's two trees. redb takes it for a file that was not closed cleanly, compares
//! every page of the tree with its checksum, and is stopped before it repairs anything. This is sound while the store is written,
//! for these reasons:
//!
//! - The tree of records: redb does not reuse a page that a reader may still see. The caller holds a snapshot from before the
//!   header was read, so every page below the root in that header stays unchanged.
//! - The tree of redb's own bookkeeping (free pages): no reader protects it, and each commit replaces parts of it. But while the
//!   header names a root, a start after a crash would use that root, so redb leaves its pages alone until the next commit is on
//!   the disk. If the header is the same after the comparison, the result is valid. Otherwise the comparison is repeated. The
//!   tree is small.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{Database, DatabaseError, RepairSession, StorageBackend};
use twox_hash::XxHash3_128;

use tenantd_base::telemetry::panic_text;

use super::{error::StoreError, transaction::ReadTx};

/// The page cache during a comparison.
const CACHE_BYTES: usize = 16 << 20;
/// How often a read is repeated when a commit changed the data meanwhile.
const ATTEMPTS: usize = 100;

/// Compares every page of a closed file with its checksum. The error says what is wrong. redb may panic on a damaged page.
///
/// A file that was closed cleanly needs no repair, so a file that needs one is damaged: redb's repair would return to an older
/// state.
pub(super) fn verify_closed(path: &Path) -> Result<(), String> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder.set_repair_callback(RepairSession::abort);
    let mut database = builder.open(path).map_err(|error| match error {
        DatabaseError::RepairAborted => "the file has changed since it was closed".to_owned(),
        error => error.to_string(),
    })?;
    match database.check_integrity() {
        Ok(true) => Ok(()),
        Ok(false) => Err("a page does not match its checksum".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Compares every page of the live store's file with its checksum and returns a problem, if there is one. `_held` is the snapshot
/// that keeps the pages of the records unchanged meanwhile. Returns early once `stop` is set.
pub(super) fn problem_in_live(path: &Path, _held: &ReadTx, stop: &Arc<AtomicBool>) -> Result<Option<String>, StoreError> {
    let failed = |error: io::Error| StoreError::Installation(format!("{}: {error}", path.display()));
    let open = || File::open(path).map_err(failed);
    let file = open()?;
    let Some(header) = Header::read(&file).map_err(failed)? else {
        return Ok(Some("the header of the store's file does not match its checksum".to_owned()));
    };
    let records = compare(open()?, &header, Tree::Records, stop)?;
    if records.is_some() {
        return Ok(records);
    }
    for _ in 0..ATTEMPTS {
        let before = Header::read(&file).map_err(failed)?;
        let Some(header) = &before else { break };
        let bookkeeping = compare(open()?, header, Tree::Bookkeeping, stop)?;
        if Header::read(&file).map_err(failed)? == before {
            return Ok(bookkeeping);
        }
    }
    Err(StoreError::Engine("the store is written too often to compare its free pages".to_owned()))
}

/// Makes redb compare the pages of a tree.
fn compare(file: File, header: &Header, tree: Tree, stop: &Arc<AtomicBool>) -> Result<Option<String>, StoreError> {
    let Some(header) = header.showing(tree) else { return Ok(None) };
    // Read the length after the header: all pages that the header leads to are within it.
    let length = file.metadata().map_err(StoreError::engine)?.len();
    let backend = LiveFile { file, length, header: Mutex::new(header), stop: stop.clone() };
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    // redb reports its progress first at the start, and again when it has compared all pages. It reports less than half if a page
    // does not match and it must return to an older state, and more than half if the current state is good.
    let matched = Arc::new(AtomicBool::new(false));
    let all_match = matched.clone();
    builder.set_repair_callback(move |session| {
        if session.progress() > 0.0 {
            all_match.store(session.progress() > 0.5, Ordering::Relaxed);
            session.abort();
        }
    });
    let outcome = catch_unwind(AssertUnwindSafe(|| builder.create_with_backend(backend).map(drop)));
    if stop.load(Ordering::Relaxed) {
        return Err(StoreError::Unavailable("it is shutting down".to_owned()));
    }
    match outcome {
        Ok(Err(DatabaseError::RepairAborted)) if matched.load(Ordering::Relaxed) => Ok(None),
        Ok(Err(DatabaseError::RepairAborted)) => Ok(Some("a page of the store's file does not match its checksum".to_owned())),
        Ok(Err(error)) => Ok(Some(format!("a page of the store's file is damaged: {error}"))),
        Ok(Ok(())) => Err(StoreError::Engine("redb did not compare the pages of its file".to_owned())),
        Err(cause) => Ok(Some(format!("a page of the store's file is damaged: {}", panic_text(cause.as_ref())))),
    }
}

/// The two trees in redb's file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tree {
    Records,
    Bookkeeping,
}

const HEADER_BYTES: usize = 320;
const SLOT_BYTES: usize = 128;
type HeaderBytes = [u8; HEADER_BYTES];
type Slot = [u8; SLOT_BYTES];

/// Offsets in the header of redb's file format 3, and in its two slots, each of which describes a commit.
mod place {
    pub(super) const FLAGS: usize = 9;
    pub(super) const SLOTS: [usize; 2] = [64, 192];
    pub(super) const HAS_RECORDS: usize = 1;
    pub(super) const HAS_BOOKKEEPING: usize = 2;
    pub(super) const CHECKSUM: usize = 112;
}

/// The flag that the second slot has the last commit.
const SECOND_SLOT: u8 = 1;
/// The flag that makes redb repair the file when it opens it. A third flag, for two-phase commits, would let redb skip that.
const NOT_CLOSED: u8 = 2;

/// The header of redb's file, and its slot of the last durable commit.
#[derive(Clone, PartialEq, Eq)]
struct Header {
    bytes: HeaderBytes,
    slot: Slot,
}

impl Header {
    /// Reads the header. `None` if no attempt matches its checksum; a commit may write the header at the same time.
    fn read(file: &File) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS {
            let mut bytes = [0; HEADER_BYTES];
            file.read_exact_at(&mut bytes, 0)?;
            let header = current_slot(&bytes).filter(has_checksum).map(|slot| Self { bytes, slot });
            if header.is_some() {
                return Ok(header);
            }
        }
        Ok(None)
    }

    /// The header of the same commit with only one tree, marked as not closed. `None` when that tree is empty.
    fn showing(&self, tree: Tree) -> Option<HeaderBytes> {
        let (shown, hidden) = match tree {
            Tree::Records => (place::HAS_RECORDS, place::HAS_BOOKKEEPING),
            Tree::Bookkeeping => (place::HAS_BOOKKEEPING, place::HAS_RECORDS),
        };
        if self.slot.get(shown) == Some(&0) {
            return None;
        }
        let mut slot = self.slot;
        *slot.get_mut(hidden)? = 0;
        let (content, checksum) = slot.split_at_mut_checked(place::CHECKSUM)?;
        checksum.copy_from_slice(&XxHash3_128::oneshot(content).to_le_bytes());
        let mut bytes = self.bytes;
        *bytes.get_mut(place::FLAGS)? = NOT_CLOSED;
        // The other slot may contain an unfinished commit.
        for start in place::SLOTS {
            bytes.get_mut(start..start + SLOT_BYTES)?.copy_from_slice(&slot);
        }
        Some(bytes)
    }
}

fn slot_start(flags: u8) -> usize {
    let [first, second] = place::SLOTS;
    if flags & SECOND_SLOT == 0 { first } else { second }
}

fn current_slot(header: &HeaderBytes) -> Option<Slot> {
    let start = slot_start(*header.get(place::FLAGS)?);
    header.get(start..)?.first_chunk().copied()
}

fn has_checksum(slot: &Slot) -> bool {
    slot.split_at_checked(place::CHECKSUM)
        .is_some_and(|(content, checksum)| checksum == XxHash3_128::oneshot(content).to_le_bytes())
}

/// The live file, opened read-only with a modified header. redb writes that header once before it compares pages, and nothing
/// else.
#[derive(Debug)]
struct LiveFile {
    file: File,
    length: u64,
    header: Mutex<HeaderBytes>,
    stop: Arc<AtomicBool>,
}

impl StorageBackend for LiveFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset == 0 {
            let header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
            let found = header.get(..out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            out.copy_from_slice(found);
            return Ok(());
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // Evict the page from memory first, so that it is read from the disk. A page that waits to be written stays.
        let length = std::num::NonZeroU64::new(out.len() as u64);
        rustix::fs::fadvise(&self.file, offset, length, rustix::fs::Advice::DontNeed)?;
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
        match header.get_mut(..data.len()) {
            Some(part) if offset == 0 => part.copy_from_slice(data),
            _ => return Err(io::ErrorKind::PermissionDenied.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicU32, thread};

    use redb::{ReadableDatabase, TableDefinition};

    use tenantd_base::quotas::Quotas;

    use super::*;
    use crate::{
        RedbEngine, WriteTx, catalog,
        engine::{Durability, Engine},
        snapshot,
    };

    fn problem(path: &Path, tx: &ReadTx) -> Option<String> {
        problem_in_live(path, tx, &Arc::default()).unwrap()
    }

    fn put(engine: &RedbEngine, numbers: impl Iterator<Item = u32>, bytes: usize) {
        let mut tx = WriteTx::new(engine.begin_read().unwrap(), Quotas::UNLIMITED);
        for number in numbers {
            tx.raw_put(catalog::USERS.into(), number.to_be_bytes().to_vec(), number.to_le_bytes().repeat(bytes / 4));
        }
        engine.commit(tx.into_changes(), Durability::Now).unwrap();
    }

    fn held(engine: &RedbEngine) -> ReadTx {
        ReadTx::new(engine.begin_read().unwrap())
    }

    const ROWS: TableDefinition<'static, u32, &'static [u8]> = TableDefinition::new("rows");

    /// Adds, changes and frees pages all over the tree.
    fn change(database: &Database, round: u32, quick_repair: bool) {
        let mut transaction = database.begin_write().unwrap();
        transaction.set_two_phase_commit(true);
        transaction.set_quick_repair(quick_repair);
        let mut rows = transaction.open_table(ROWS).unwrap();
        for step in 0..300_u32 {
            let key = round.wrapping_mul(7919).wrapping_add(step * 101) % 1500;
            if (round + step).is_multiple_of(3) {
                rows.remove(key).unwrap();
            } else {
                rows.insert(key, round.to_le_bytes().repeat(20 + (step as usize % 7) * 40).as_slice()).unwrap();
            }
        }
        drop(rows);
        transaction.commit().unwrap();
    }

    /// Compares the file repeatedly while it is written. Returns the number of commits meanwhile.
    fn compare_under_load(quick_repair: bool) -> u32 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let database = Arc::new(Database::builder().set_cache_size(1 << 20).create(&path).unwrap());
        (0..20).for_each(|round| change(&database, round, quick_repair));
        // A snapshot of the store contains one of redb. This one only satisfies the signature.
        let other = RedbEngine::create(&directory.path().join("other"), 1 << 20).unwrap();
        let (done, commits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let writer = thread::spawn({
            let (database, done, commits) = (database.clone(), done.clone(), commits.clone());
            move || {
                while !done.load(Ordering::Relaxed) {
                    change(&database, 20 + commits.fetch_add(1, Ordering::Relaxed), quick_repair);
                }
            }
        });
        for round in 0..100 {
            let reader = database.begin_read().unwrap();
            match problem_in_live(&path, &held(&other), &Arc::default()) {
                Ok(found) => assert_eq!(found, None, "round {round}"),
                // On a busy machine the writer may always be faster. The records were still compared.
                Err(error) => assert!(error.to_string().contains("written too often"), "{error}"),
            }
            drop(reader);
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        commits.load(Ordering::Relaxed)
    }

    #[test]
    fn a_good_file_passes_while_it_is_written() {
        for quick_repair in [false, true] {
            let commits = compare_under_load(quick_repair);
            assert!(commits > 100, "{commits} commits");
        }
    }

    #[test]
    fn a_harmful_flipped_bit_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let engine = RedbEngine::create(&path, 1 << 20).unwrap();
        put(&engine, 0..12_000, 400);
        let tx = held(&engine);
        let truth = snapshot::tally(&tx).unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let pages = file.metadata().unwrap().len() / 4096;
        assert!(pages > 1000, "{pages} pages");
        let (mut reported, mut harmless) = (0, 0);
        for page in (1..pages).step_by(40) {
            let at = page * 4096 + page % 1000;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            let flip = |byte: u8| file.write_all_at(&[byte], at).unwrap();
            flip(byte[0] ^ (1 << (page % 8)));
            if problem(&path, &tx).is_some() {
                reported += 1;
            } else {
                let copy = directory.path().join("copy");
                std::fs::copy(&path, &copy).unwrap();
                let copy = RedbEngine::open(&copy, 1 << 20, None).unwrap();
                assert_eq!(snapshot::tally(&held(&copy)).unwrap(), truth, "page {page}");
                harmless += 1;
            }
            flip(byte[0]);
        }
        assert!(reported > 20, "{reported} reported, {harmless} did no harm");
        assert_eq!(problem(&path, &tx), None);
    }

    #[test]
    fn damage_to_the_bookkeeping_of_redb_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let engine = RedbEngine::create(&path, 1 << 20).unwrap();
        put(&engine, 0..100, 200);
        let tx = held(&engine);
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let header = Header::read(&file).unwrap().unwrap();
        // The root of the tree: its number is at byte 40 of the slot, the index of the page in the lowest 20 bits.
        let root = u64::from_le_bytes(header.slot[40..48].try_into().unwrap()) & 0xf_ffff;
        let at = (1 + root) * 4096 + 1;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        assert!(problem(&path, &tx).is_some());
        file.write_all_at(&byte, at).unwrap();
        assert_eq!(problem(&path, &tx), None);
        file.write_all_at(&[header.bytes[slot_start(header.bytes[9]) + 20] ^ 1], slot_start(header.bytes[9]) as u64 + 20).unwrap();
        assert!(problem(&path, &tx).is_some_and(|problem| problem.contains("header")));
    }

    #[test]
    fn a_comparison_can_be_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let engine = RedbEngine::create(&path, 1 << 20).unwrap();
        put(&engine, 0..100, 200);
        assert!(matches!(
            problem_in_live(&path, &held(&engine), &Arc::new(AtomicBool::new(true))),
            Err(StoreError::Unavailable(_))
        ));
    }
}
