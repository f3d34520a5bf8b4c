//! A disk in memory that dies, fails or lies on demand, below the storage interface of the database.
//!
//! It is not a file system: there are three files without metadata except their lengths. **Invariant:** data of a successful sync
//! survives everything. Each sector of each later write survives a power loss or not, independently of the others: a sector can
//! have any version that was written since the sync. Therefore the order of writes needs no model of its own.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use redb::StorageBackend;

use tenantd_base::entropy::Entropy;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

/// A fault, and its operation counted from the start of the process. Writes, length changes and syncs count as operations, starting
/// at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Never,
    /// This operation and all later ones fail: the process is dead.
    Dies {
        at: u64,
    },
    /// This operation fails with an I/O error, later ones succeed.
    FailsOnce {
        at: u64,
    },
    /// The first sync from this operation on fails with an I/O error, later ones succeed.
    SyncFailsOnce {
        from: u64,
    },
    /// Syncs succeed without making anything durable.
    Lies,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// The content of each file.
pub type Image = [Vec<u8>; 3];

/// A handle to one of the files. Clones share the disk.
#[derive(Clone)]
pub struct Disk {
    state: Arc<Mutex<State>>,
    file: usize,
}

pub const STORE: usize = 0;
pub const JOURNAL: usize = 1;
pub const WITNESS: usize = 2;

#[derive(Default)]
struct State {
    files: [File; 3],
    watch: Watch,
}

#[derive(Default)]
struct File {
    /// The durable content.
    durable: Vec<u8>,
    /// The content that the running machine reads from its cache.
    current: Vec<u8>,
    /// The changes that the next sync makes durable.
    unsynced: Vec<Change>,
    /// A sync of this file has failed since the process started.
    sync_failed: bool,
}

impl File {
    fn new(image: Vec<u8>) -> Self {
        Self { current: image.clone(), durable: image, ..Self::default() }
    }
}

/// The counters since the process started.
#[derive(Default)]
struct Watch {
    fault: Option<Fault>,
    struck: Option<Fault>,
    operations: u64,
    resizes: u64,
    dead: bool,
    after_failed_sync: u64,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let watch = &self.lock().watch;
        f.debug_struct("Disk").field("fault", &watch.fault).field("operations", &watch.operations).finish_non_exhaustive()
    }
}

impl Disk {
    pub fn new(image: Image) -> Self {
        let state = State { files: image.map(File::new), ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), file: STORE }
    }

    /// Another file of the same disk.
    pub fn file(&self, file: usize) -> Self {
        Self { state: self.state.clone(), file }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans a fault and replaces an earlier one that has not occurred.
    pub fn plan(&self, fault: Fault) {
        self.lock().watch.fault = Some(fault);
    }

    /// Fails every operation from now on.
    pub fn die(&self) {
        self.lock().watch.dead = true;
    }

    /// The fault that occurred.
    pub fn struck(&self) -> Option<Fault> {
        self.lock().watch.struck
    }

    pub fn operations(&self) -> u64 {
        self.lock().watch.operations
    }

    /// The number of length changes.
    pub fn resizes(&self) -> u64 {
        self.lock().watch.resizes
    }

    /// The number of operations on a file after a failed sync. The kernel may have dropped the unwritten data, so a later
    /// successful sync proves nothing about it.
    pub fn operations_after_a_failed_sync(&self) -> u64 {
        self.lock().watch.after_failed_sync
    }

    /// The durable content.
    pub fn durable(&self) -> Image {
        self.lock().files.each_ref().map(|file| file.durable.clone())
    }

    /// The cached content, which survives the end of the process.
    pub fn cached(&self) -> Image {
        self.lock().files.each_ref().map(|file| file.current.clone())
    }

    /// A possible content after a power loss.
    pub fn survivor(&self, random: &mut Entropy) -> Image {
        self.lock().files.each_ref().map(|file| {
            let mut image = file.durable.clone();
            survive(&mut image, &file.unsynced, random);
            image
        })
    }

    /// The machine lost power and started again.
    pub fn reboot(&self, random: &mut Entropy) {
        let image = self.survivor(random);
        *self.lock() = State { files: image.map(File::new), ..State::default() };
    }

    /// Whether the kernel may have dropped written data.
    pub fn has_failed_to_sync(&self) -> bool {
        self.lock().files.iter().any(|file| file.sync_failed)
    }

    /// Only the process ended: the next one reads its writes, and its syncs cover them. The kernel drops data of a failed sync: it
    /// is readable until the machine reboots, and nothing makes it durable.
    pub fn restart(&self, random: &mut Entropy) {
        let mut state = self.lock();
        for file in state.files.iter_mut().filter(|file| file.sync_failed) {
            let File { durable, unsynced, sync_failed, .. } = file;
            *sync_failed = false;
            // The length of a file is metadata of the file system, whose journal protects it.
            let (lengths, writes): (Vec<_>, Vec<_>) = unsynced.drain(..).partition(|change| matches!(change, Change::Length(_)));
            survive(durable, &writes, random);
            for length in &lengths {
                apply(durable, length);
            }
        }
        state.watch = Watch::default();
    }
}

/// Applies some of the changes.
fn survive(image: &mut Vec<u8>, changes: &[Change], random: &mut Entropy) {
    // From none to all of the changes: the extremes are as likely as each mixture.
    let quarters = random.below(5);
    let tears = random.below(2) == 0;
    for change in changes {
        match change {
            Change::Write { offset, bytes } if tears => {
                for (offset, sector) in sectors(*offset, bytes).filter(|_| random.below(4) < quarters) {
                    write_at(image, offset, sector);
                }
            }
            whole if random.below(4) < quarters => apply(image, whole),
            _ => {}
        }
    }
}

impl Watch {
    /// Counts an operation and decides whether it takes place.
    fn operate(&mut self, file: &mut File, is_sync: bool) -> io::Result<()> {
        self.alive()?;
        self.operations += 1;
        self.after_failed_sync += u64::from(file.sync_failed);
        let strikes = match self.fault {
            Some(Fault::Dies { at } | Fault::FailsOnce { at }) => at == self.operations,
            Some(Fault::SyncFailsOnce { from }) => is_sync && from <= self.operations && self.struck.is_none(),
            Some(Fault::Never | Fault::Lies) | None => false,
        };
        if strikes {
            self.struck = self.fault;
            self.dead = matches!(self.fault, Some(Fault::Dies { .. }));
            file.sync_failed = is_sync && !self.dead;
            return Err(io::Error::other("the simulated disk failed"));
        }
        Ok(())
    }

    fn alive(&self) -> io::Result<()> {
        if self.dead { Err(io::Error::other("the simulated machine is dead")) } else { Ok(()) }
    }
}

impl Disk {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.lock();
        let State { files, watch } = &mut *state;
        let file = &mut files[self.file];
        // A failed change has not happened. A change that is running at the end is covered by dying one operation later.
        watch.operate(file, false)?;
        watch.resizes += u64::from(matches!(change, Change::Length(_)));
        apply(&mut file.current, &change);
        file.unsynced.push(change);
        Ok(())
    }
}

fn apply(image: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => write_at(image, *offset, bytes),
        Change::Length(length) => resize(image, *length),
    }
}

/// `Vec::resize` works byte by byte in a build without optimization.
fn resize(image: &mut Vec<u8>, length: usize) {
    match length.checked_sub(image.len()) {
        Some(more) => image.extend_from_slice(&vec![0; more]),
        None => image.truncate(length),
    }
}

fn write_at(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        resize(image, end);
    }
    image[offset..end].copy_from_slice(bytes);
}

/// The parts of a write that the disk keeps or loses independently.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let head = (SECTOR - offset % SECTOR).min(bytes.len());
    let (first, rest) = bytes.split_at(head);
    let rest = rest.chunks(SECTOR).enumerate().map(move |(number, sector)| (offset + head + number * SECTOR, sector));
    std::iter::once((offset, first)).chain(rest)
}

fn position(value: u64) -> io::Result<usize> {
    usize::try_from(value).map_err(io::Error::other)
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let state = self.lock();
        state.watch.alive()?;
        Ok(state.files[self.file].current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.lock();
        state.watch.alive()?;
        let start = position(offset)?;
        let found = state.files[self.file].current.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Length(position(len)?))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.lock();
        let State { files, watch } = &mut *state;
        let file = &mut files[self.file];
        watch.operate(file, true)?;
        if watch.fault != Some(Fault::Lies) {
            let File { durable, unsynced, .. } = file;
            unsynced.drain(..).for_each(|change| apply(durable, &change));
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write { offset: position(offset)?, bytes: data.to_vec() })
    }
}

fn two_new_sectors() -> (Disk, Entropy) {
    let disk = Disk::new([vec![0; 2 * SECTOR], Vec::new(), Vec::new()]);
    disk.write(0, &[1; 2 * SECTOR]).unwrap();
    (disk, Entropy::from_seed(1))
}

#[test]
fn an_unsynced_write_can_be_lost_or_torn() {
    let (disk, mut random) = two_new_sectors();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let [image, ..] = disk.survivor(&mut random);
        assert!(image.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        seen.insert((image[0], image[SECTOR]));
    }
    assert_eq!(seen.len(), 4, "old and new, for each of two sectors: {seen:?}");
    disk.sync_data().unwrap();
    assert!((0..50).all(|_| disk.survivor(&mut random)[STORE] == [1; 2 * SECTOR]));
}

#[test]
fn an_interrupted_sync_guarantees_nothing() {
    let (disk, mut random) = two_new_sectors();
    disk.plan(Fault::Dies { at: 2 });
    assert!(disk.sync_data().is_err() && disk.read(0, &mut [0]).is_err() && disk.set_len(0).is_err());
    assert!((0..50).any(|_| disk.survivor(&mut random)[STORE] == [0; 2 * SECTOR]));
}

#[test]
fn writes_beyond_the_end_fill_with_zeros() {
    let (disk, mut random) = two_new_sectors();
    disk.sync_data().unwrap();
    disk.set_len(4 * SECTOR as u64).unwrap();
    disk.write(3 * SECTOR as u64, &[2; SECTOR]).unwrap();
    let images: Vec<Vec<u8>> = (0..100).map(|_| disk.survivor(&mut random)[STORE].clone()).collect();
    assert!(images.iter().any(|image| image.len() == 2 * SECTOR));
    assert!(images.iter().any(|image| image.len() == 4 * SECTOR && image[3 * SECTOR] == 0));
    let mut written = images.iter().filter(|image| image.get(3 * SECTOR) == Some(&2));
    assert!(written.all(|image| image[2 * SECTOR..3 * SECTOR].iter().all(|byte| *byte == 0)));
}

#[test]
fn a_failed_sync_leaves_data_readable_but_not_durable() {
    let lost = (0..50).filter(|seed| {
        let (disk, _) = two_new_sectors();
        disk.plan(Fault::SyncFailsOnce { from: 1 });
        assert!(disk.sync_data().is_err());
        disk.restart(&mut Entropy::from_seed(*seed));
        let mut cached = [0; 2 * SECTOR];
        disk.read(0, &mut cached).unwrap();
        assert_eq!(cached, [1; 2 * SECTOR]);
        disk.sync_data().unwrap();
        disk.durable()[STORE] == [0; 2 * SECTOR]
    });
    assert!(lost.count() > 5);
}
