//! The reserve: a file in the data directory that holds real blocks of the volume. When the volume is full, the store shrinks the
//! file and uses the freed blocks.
//!
//! **Invariant:** at most half of the rest is given up at a time, so the next start finds some of it too.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};

use tenantd_base::entropy::quick_bytes;

use super::redb_file::private_options;

const RESERVE_FILE: &str = "tenantd.reserve";
/// A twentieth of the volume, within bounds.
const SHARE: u64 = 20;
const LEAST: u64 = 8 << 20;
const MOST: u64 = 256 << 20;
/// On a volume too small for [`LEAST`], the reserve is at most this share of it.
const MOST_SHARE: u64 = 4;
/// A rest smaller than this is given up completely.
const PIECE: u64 = 64 << 10;
/// How many bytes one write fills on file systems that cannot allocate blocks otherwise.
const FILLING: usize = 1 << 20;

/// The size of the reserve on a volume of `total` bytes. The operator allows at most `most`.
pub(super) fn wanted_bytes(total: u64, most: u64) -> u64 {
    (total / SHARE).clamp(LEAST, MOST).min(total / MOST_SHARE).min(most)
}

#[derive(Debug)]
pub(super) struct Spare {
    path: PathBuf,
    wanted: AtomicU64,
    length: Mutex<u64>,
}

impl Spare {
    /// Opens the reserve as the last process left it. Does not create the file.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join(RESERVE_FILE);
        let length = match std::fs::metadata(&path) {
            // A copied file may have holes, which free no blocks.
            Ok(found) => found.len().min(found.blocks().saturating_mul(512)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { path, wanted: AtomicU64::new(length), length: Mutex::new(length) })
    }

    pub(super) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    pub(super) fn set_wanted(&self, bytes: u64) {
        self.wanted.store(bytes, Ordering::Relaxed);
    }

    /// The number of bytes in the reserve.
    pub(super) fn left(&self) -> u64 {
        *self.lock()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.left() >= self.wanted()
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.length.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up half of the rest, unless that leaves less than `floor`. Returns whether it gave up anything.
    pub(super) fn give_up_half(&self, floor: u64) -> io::Result<bool> {
        self.give_up(u64::MAX, floor)
    }

    /// Does the same, but gives up at most `bytes`.
    pub(super) fn give_up(&self, bytes: u64, floor: u64) -> io::Result<bool> {
        let mut length = self.lock();
        let next = (*length / 2).max(length.saturating_sub(bytes));
        let next = if next < PIECE { 0 } else { next };
        if *length == 0 || next < floor {
            return Ok(false);
        }
        let file = private_options().open(&self.path)?;
        file.set_len(next)?;
        *length = next;
        // Some file systems free the blocks only on a sync.
        file.sync_all()?;
        Ok(true)
    }

    /// Grows the reserve by up to `bytes` until it has its full size. Shrinks it if it is larger.
    pub(super) fn refill(&self, bytes: u64) -> io::Result<()> {
        let mut length = self.lock();
        let (before, next) = (*length, self.wanted().min(length.saturating_add(bytes)));
        if next == before {
            return Ok(());
        }
        let file = private_options().create(true).truncate(false).open(&self.path)?;
        // The file after the blocks that it holds is a hole.
        file.set_len(before.min(next))?;
        *length = before.min(next);
        let filled = reserve_blocks(&file, next).and_then(|done| if done { Ok(()) } else { fill(&file, next, &noise()) });
        if let Err(error) = filled {
            file.set_len(*length)?;
            return Err(error);
        }
        file.sync_all()?;
        *length = next;
        Ok(())
    }
}

/// Makes the file at least `bytes` long and allocates blocks for all of it. Existing content stays, and new bytes read as zeros.
/// After a failure the file has its previous length.
pub(super) fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
    let before = file.metadata()?.len();
    let zeros = |done: bool| if done { Ok(()) } else { fill(file, bytes, &vec![0; FILLING]) };
    reserve_blocks(file, bytes).and_then(zeros).or_else(|error| file.set_len(before).and(Err(error)))
}

/// Does the same. Returns false if the file system does not support the call.
fn reserve_blocks(file: &File, bytes: u64) -> io::Result<bool> {
    if bytes == 0 {
        return Ok(true);
    }
    loop {
        return match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => continue,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            other => other.map(|()| true).map_err(io::Error::from),
        };
    }
}

/// Writes the missing bytes of the file.
fn fill(file: &File, bytes: u64, filling: &[u8]) -> io::Result<()> {
    let mut end = file.metadata()?.len();
    while end < bytes {
        let piece = usize::try_from(bytes - end).map_or(filling.len(), |missing| missing.min(filling.len()));
        file.write_all_at(filling.get(..piece).unwrap_or_default(), end)?;
        end += piece as u64;
    }
    Ok(())
}

/// Bytes that no file system can compress.
fn noise() -> Vec<u8> {
    (0..FILLING / 16).flat_map(|_| quick_bytes::<16>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn blocks(directory: &Path) -> u64 {
        std::fs::metadata(directory.join(RESERVE_FILE)).unwrap().blocks() * 512
    }

    #[test]
    fn the_size_is_a_twentieth_of_the_volume_within_bounds() {
        let wanted = [40 * MIB, 300 * MIB, 1024 * MIB, 100_000 * MIB, 8 * MIB].map(|total| wanted_bytes(total, u64::MAX) / MIB);
        assert_eq!(wanted, [8, 15, 51, 256, 2]);
        assert_eq!(wanted_bytes(1024 * MIB, MIB), MIB);
        assert_eq!(wanted_bytes(1024 * MIB, 0), 0);
    }

    #[test]
    fn giving_up_frees_half_of_the_blocks_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let spare = Spare::open(directory.path()).unwrap();
        assert!(spare.is_whole() && !spare.give_up_half(0).unwrap(), "there is none yet");
        spare.set_wanted(MIB);
        assert!(!spare.is_whole());
        spare.refill(MIB / 4).unwrap();
        assert_eq!((spare.left(), spare.is_whole()), (MIB / 4, false));
        spare.refill(u64::MAX).unwrap();
        assert!(spare.is_whole() && blocks(directory.path()) >= MIB);
        assert!(spare.give_up_half(0).unwrap());
        assert!(blocks(directory.path()) < MIB * 3 / 4);
        assert!(spare.give_up(MIB / 8, 0).unwrap());
        assert_eq!(spare.left(), MIB * 3 / 8);
        spare.refill(MIB / 8).unwrap();
        assert!(spare.give_up_half(MIB / 4).unwrap());
        assert!(!spare.give_up_half(MIB / 4).unwrap(), "the floor holds");
        assert_eq!(Spare::open(directory.path()).unwrap().left(), MIB / 4, "the next start finds the rest");
        while spare.give_up_half(0).unwrap() {}
        assert_eq!((spare.left(), blocks(directory.path())), (0, 0));
        spare.refill(u64::MAX).unwrap();
        assert!(spare.is_whole());
        spare.set_wanted(MIB / 2);
        spare.refill(0).unwrap();
        assert_eq!(spare.left(), MIB / 2, "a smaller setting gives the rest back");
    }

    #[test]
    fn holes_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        File::create(directory.path().join(RESERVE_FILE)).unwrap().set_len(MIB).unwrap();
        let spare = Spare::open(directory.path()).unwrap();
        assert_eq!(spare.left(), 0);
        spare.set_wanted(MIB);
        spare.refill(u64::MAX).unwrap();
        assert!(blocks(directory.path()) >= MIB);
    }

    #[test]
    fn preallocating_keeps_the_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        std::fs::write(&path, b"frames").unwrap();
        let file = private_options().open(&path).unwrap();
        preallocate(&file, MIB).unwrap();
        fill(&file, 2 * MIB, &[7; 1000]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"frames\0") && bytes.len() as u64 == 2 * MIB && bytes.ends_with(&[7]));
        assert!(file.metadata().unwrap().blocks() * 512 >= MIB);
        preallocate(&file, MIB).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "a longer file stays as it is");
    }
}
