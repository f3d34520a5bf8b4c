//! The journal: where a commit becomes durable before the database's own file has it. One append and one sync a batch, however
//! many pages of the database the batch touches; the database makes its own durable commit when the journal is full, and the
//! journal starts over.
//!
//! A frame carries the journal's id, its number and a digest over all of it, and starts on a sector of its own, so that
//! writing the next one never touches a sector that was acknowledged. **Invariant:** frames are numbered without gaps; what
//! lies behind the last valid one, or has a number that does not follow, was never acknowledged or is older than the database.

use std::io;

use redb::StorageBackend;

use super::error::StoreError;
use crate::kernel::secrets::digest;

/// What tells this journal from any other, and its frames from bytes that a tenant chose.
pub type JournalId = [u8; 16];

const MAGIC: [u8; 16] = *b"tenantd journal1";
/// The head has a page to itself.
const HEAD: usize = 4096;
const FIRST_FRAME: u64 = HEAD as u64;
const SECTOR: usize = 512;
/// The file grows by whole steps of zeros, so that most syncs find nothing new about the file itself.
const GROWTH: u64 = 1 << 20;
const DIGEST: usize = 16;
/// Digest, id, length, number.
const FRAME_HEAD: usize = DIGEST + 16 + 4 + 8;

pub(super) struct Journal {
    file: Box<dyn StorageBackend>,
    id: JournalId,
    capacity: u64,
    /// Where the next frame goes.
    end: u64,
    /// How long the file is.
    length: u64,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("end", &self.end).field("length", &self.length).finish_non_exhaustive()
    }
}

impl Journal {
    /// Makes the file a new, empty journal.
    pub(super) fn create(file: Box<dyn StorageBackend>, id: JournalId, capacity: u64) -> io::Result<Self> {
        let mut head = [MAGIC, id].concat();
        head.resize(HEAD, 0);
        file.write(0, &head)?;
        file.sync_data()?;
        let length = file.len()?;
        Ok(Self { file, id, capacity, end: FIRST_FRAME, length })
    }

    /// Opens the file if it is the journal `id`, and gives it back if it is not.
    pub(super) fn open(
        file: Box<dyn StorageBackend>,
        id: JournalId,
        capacity: u64,
    ) -> io::Result<Result<Self, Box<dyn StorageBackend>>> {
        let length = file.len()?;
        if length < FIRST_FRAME {
            return Ok(Err(file));
        }
        let mut head = [0; 32];
        file.read(0, &mut head)?;
        if head != *[MAGIC, id].as_flattened() {
            return Ok(Err(file));
        }
        Ok(Ok(Self { file, id, capacity, end: FIRST_FRAME, length }))
    }

    /// Hands `apply` each frame that follows the frame `last`, in order. The number of the last one.
    pub(super) fn replay(&self, mut last: u64, mut apply: impl FnMut(&[u8]) -> Result<(), StoreError>) -> Result<u64, StoreError> {
        let mut offset = FIRST_FRAME;
        let mut previous = None;
        while let Some((number, changes)) = self.read_frame(offset).map_err(StoreError::engine)? {
            if previous.is_some_and(|previous| number != previous + 1) {
                break;
            }
            if number > last + 1 {
                let problem =
                    "the journal goes on from a later state than the store's: one of the two files was replaced by an older copy";
                return Err(StoreError::Installation(problem.to_owned()));
            }
            if number == last + 1 {
                apply(&changes)?;
                last = number;
            }
            previous = Some(number);
            offset += frame_length(changes.len());
        }
        Ok(last)
    }

    /// The frame at `offset`, if a whole one of this journal is there.
    fn read_frame(&self, offset: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
        if offset + FRAME_HEAD as u64 > self.length {
            return Ok(None);
        }
        let mut head = [0; FRAME_HEAD];
        self.file.read(offset, &mut head)?;
        let (found_digest, signed) = head.split_at(DIGEST);
        let (id, rest) = signed.split_at(self.id.len());
        let Some((length, number)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let number = number.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
        let length = u32::from_le_bytes(*length);
        let body = offset + FRAME_HEAD as u64;
        if id != self.id || body + u64::from(length) > self.length {
            return Ok(None);
        }
        let mut frame = signed.to_vec();
        frame.resize(signed.len() + length as usize, 0);
        let Some(changes) = frame.get_mut(signed.len()..) else { return Ok(None) };
        self.file.read(body, changes)?;
        if !digest(&frame).starts_with(found_digest) {
            return Ok(None);
        }
        frame.drain(..FRAME_HEAD - DIGEST);
        Ok(Some((number, frame)))
    }

    /// Whether there is room for one more frame with this many bytes of changes.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        u32::try_from(bytes).is_ok() && self.end + frame_length(bytes) <= self.capacity
    }

    /// Writes the next frame. It is on the disk when this returns; after an error it may or may not be.
    pub(super) fn append(&mut self, number: u64, changes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(changes.len()).map_err(io::Error::other)?;
        let mut frame = Vec::with_capacity(FRAME_HEAD + changes.len() + SECTOR);
        frame.extend_from_slice(&[0; DIGEST]);
        frame.extend_from_slice(&self.id);
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&number.to_le_bytes());
        frame.extend_from_slice(changes);
        let signature = digest(frame.get(DIGEST..).unwrap_or_default());
        for (place, byte) in frame.iter_mut().zip(&signature).take(DIGEST) {
            *place = *byte;
        }
        let end = self.end + frame_length(changes.len());
        let filled = if end > self.length { end.next_multiple_of(GROWTH) } else { end };
        frame.resize(usize::try_from(filled - self.end).map_err(io::Error::other)?, 0);
        self.file.write(self.end, &frame)?;
        self.file.sync_data()?;
        self.end = end;
        self.length = self.length.max(filled);
        Ok(())
    }

    /// Starts over: every frame so far is in the database.
    pub(super) fn rewind(&mut self) {
        self.end = FIRST_FRAME;
    }
}

fn frame_length(bytes: usize) -> u64 {
    (FRAME_HEAD + bytes).next_multiple_of(SECTOR) as u64
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    const ID: JournalId = [7; 16];
    const CAPACITY: u64 = 64 << 10;

    /// A journal on the bytes of another.
    fn copy(journal: &Journal) -> Journal {
        let mut bytes = vec![0; usize::try_from(journal.file.len().unwrap()).unwrap()];
        journal.file.read(0, &mut bytes).unwrap();
        on(&bytes).unwrap()
    }

    fn on(bytes: &[u8]) -> Option<Journal> {
        let file = InMemoryBackend::new();
        file.set_len(bytes.len() as u64).unwrap();
        file.write(0, bytes).unwrap();
        Journal::open(Box::new(file), ID, CAPACITY).unwrap().ok()
    }

    fn new() -> Journal {
        // redb's backend in memory does not grow by itself.
        let file = InMemoryBackend::new();
        file.set_len(2 * GROWTH).unwrap();
        Journal::create(Box::new(file), ID, CAPACITY).unwrap()
    }

    fn replayed(journal: &Journal, last: u64) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut frames = Vec::new();
        journal.replay(last, |changes| {
            frames.push(changes.to_vec());
            Ok(())
        })?;
        Ok(frames)
    }

    #[test]
    fn frames_read_back_from_where_the_store_stands() {
        let mut journal = new();
        for number in 1..=3_u8 {
            journal.append(number.into(), &vec![number; 700]).unwrap();
        }
        let read = copy(&journal);
        assert_eq!(replayed(&read, 0).unwrap(), [vec![1; 700], vec![2; 700], vec![3; 700]]);
        assert_eq!(replayed(&read, 2).unwrap(), [vec![3; 700]]);
        assert!(replayed(&read, 3).unwrap().is_empty());
    }

    #[test]
    fn after_starting_over_older_frames_behind_the_new_ones_do_not_count() {
        let mut journal = new();
        for number in 1..=5_u8 {
            journal.append(number.into(), &[number; 100]).unwrap();
        }
        journal.rewind();
        assert!(replayed(&copy(&journal), 5).unwrap().is_empty(), "the store has all of the old ones");
        journal.append(6, &[6; 100]).unwrap();
        assert_eq!(replayed(&copy(&journal), 5).unwrap(), [vec![6; 100]]);
        let older_store = replayed(&copy(&journal), 3).unwrap_err();
        assert!(older_store.to_string().contains("replaced by an older copy"));
    }

    #[test]
    fn a_frame_with_any_flipped_byte_ends_the_replay_before_it() {
        let mut journal = new();
        journal.append(1, &[1; 40]).unwrap();
        let second = usize::try_from(journal.end).unwrap();
        journal.append(2, &[2; 40]).unwrap();
        let mut bytes = vec![0; second + SECTOR];
        journal.file.read(0, &mut bytes).unwrap();
        for place in second..second + FRAME_HEAD + 40 {
            let mut torn = bytes.clone();
            torn[place] ^= 0x10;
            assert_eq!(replayed(&on(&torn).unwrap(), 0).unwrap(), [vec![1; 40]], "byte {place}");
        }
        assert_eq!(replayed(&on(&bytes[..second + 60]).unwrap(), 0).unwrap(), [vec![1; 40]]);
    }

    #[test]
    fn a_file_of_another_store_is_not_taken_for_this_one_s() {
        let journal = new();
        let mut bytes = vec![0; usize::try_from(FIRST_FRAME).unwrap()];
        journal.file.read(0, &mut bytes).unwrap();
        assert!(on(&bytes).is_some());
        bytes[20] ^= 1;
        assert!(on(&bytes).is_none());
        assert!(on(&[]).is_none());
    }

    #[test]
    fn a_full_journal_says_so() {
        let mut journal = new();
        assert!(!journal.fits(usize::try_from(CAPACITY).unwrap()));
        let mut number = 0;
        while journal.fits(5_000) {
            number += 1;
            journal.append(number, &[0; 5_000]).unwrap();
        }
        assert_eq!(number, 12);
        assert!(journal.end <= CAPACITY);
    }
}
