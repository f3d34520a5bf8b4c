//! The journal: where a commit becomes durable before the database's own file has it. One append and one sync a batch, however
//! many pages of the database the batch touches.
//!
//! It has two halves. Frames go into one of them until it is full, then into the other, which the database must have taken up by
//! then. A frame carries the journal's id, its number and a digest over all of it, and starts on a sector of its own, so that
//! writing the next one never touches a sector that was acknowledged. **Invariant:** frames are numbered without gaps; what
//! lies behind the last valid one of a half, or has a number that does not follow, was never acknowledged or is older than the
//! database. A journal serves one opening of the store: of frames that were never synced some may have reached the disk behind one that
//! did not, and the next opening must not take them for its own.

use std::io;

use redb::StorageBackend;

use tenantd_base::secrets::digest;

use super::error::StoreError;

/// What tells this journal from any other, and its frames from bytes that a tenant chose.
pub type JournalId = [u8; 16];

const MAGIC: [u8; 16] = *b"tenantd journal2";
/// The head has a page to itself.
const HEAD: usize = 4096;
const SECTOR: usize = 512;
/// The file grows by whole steps of zeros, so that most syncs find nothing new about the file itself.
const GROWTH: u64 = 1 << 20;
const DIGEST: usize = 16;
/// Digest, id, length, number.
const FRAME_HEAD: usize = DIGEST + 16 + 4 + 8;

pub(super) struct Journal {
    file: Box<dyn StorageBackend>,
    id: JournalId,
    /// How long a half is, and which of them is written.
    half: u64,
    current: u64,
    /// Where the next frame goes.
    end: u64,
    /// How long the file is.
    length: u64,
    /// Whether there are frames that no sync has covered.
    unsynced: bool,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("end", &self.end).field("length", &self.length).finish_non_exhaustive()
    }
}

impl Journal {
    /// Makes the file a new, empty journal.
    pub(super) fn create(file: Box<dyn StorageBackend>, id: JournalId, capacity: u64) -> io::Result<Self> {
        let length = file.len()?;
        let mut journal = Self { file, id, half: half_of(capacity), current: 0, end: HEAD as u64, length, unsynced: false };
        journal.write_head()?;
        Ok(journal)
    }

    fn write_head(&mut self) -> io::Result<()> {
        let mut head = [&MAGIC[..], &self.id, &self.half.to_le_bytes()].concat();
        head.resize(HEAD, 0);
        self.file.write(0, &head)?;
        self.file.sync_data()?;
        self.length = self.length.max(HEAD as u64);
        Ok(())
    }

    /// Opens the file if it is the journal `id`, and gives it back if it is not.
    pub(super) fn open(file: Box<dyn StorageBackend>, id: JournalId) -> io::Result<Result<Self, Box<dyn StorageBackend>>> {
        let length = file.len()?;
        if length < HEAD as u64 {
            return Ok(Err(file));
        }
        let mut head = [0; 40];
        file.read(0, &mut head)?;
        let (name, half) = head.split_at(32);
        if name != [MAGIC, id].as_flattened() {
            return Ok(Err(file));
        }
        let half = half.first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
        Ok(Ok(Self { file, id, half, current: 0, end: HEAD as u64, length, unsynced: false }))
    }

    /// Lets go of the file: every frame is in the database.
    pub(super) fn into_file(self) -> Box<dyn StorageBackend> {
        self.file
    }

    /// Goes on in the other half: every frame in it is in the database.
    pub(super) fn turn_over(&mut self) {
        self.current = 1 - self.current;
        self.end = self.start_of(self.current);
    }

    fn start_of(&self, half: u64) -> u64 {
        HEAD as u64 + half * self.half
    }

    /// Hands `apply` each frame that follows the frame `last`, in order. The number of the last one.
    pub(super) fn replay(&self, mut last: u64, mut apply: impl FnMut(&[u8]) -> Result<(), StoreError>) -> Result<u64, StoreError> {
        let mut halves = Vec::new();
        for half in [0, 1] {
            let first = self.read_frame(self.start_of(half), half).map_err(StoreError::engine)?;
            halves.extend(first.map(|(number, _)| (number, half)));
        }
        halves.sort_unstable();
        for (_, half) in halves {
            last = self.replay_half(half, last, &mut apply)?;
        }
        Ok(last)
    }

    fn replay_half(
        &self,
        half: u64,
        mut last: u64,
        apply: &mut impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let mut offset = self.start_of(half);
        let mut previous = None;
        while let Some((number, changes)) = self.read_frame(offset, half).map_err(StoreError::engine)? {
            if previous.is_some_and(|previous| number != previous + 1) {
                break;
            }
            if number > last + 1 {
                let problem = "the journal goes on from a later state than the store's: one of the two files was replaced by an older \
                               copy, or the journal is damaged";
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
    fn read_frame(&self, offset: u64, half: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
        let limit = self.length.min(self.start_of(half + 1));
        if offset + FRAME_HEAD as u64 > limit {
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
        if id != self.id || body + u64::from(length) > limit {
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

    /// Whether this half has room for one more frame with this many bytes of changes.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        u32::try_from(bytes).is_ok() && self.end + frame_length(bytes) <= self.start_of(self.current + 1)
    }

    /// Whether an empty half has room for it.
    pub(super) fn ever_fits(&self, bytes: usize) -> bool {
        u32::try_from(bytes).is_ok() && frame_length(bytes) <= self.half
    }

    /// Brings everything onto the disk that was appended.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.unsynced {
            self.file.sync_data()?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// Writes the next frame, which is on the disk after the next sync; after an error it may or may not be there.
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
        self.unsynced = true;
        self.end = end;
        self.length = self.length.max(filled);
        Ok(())
    }
}

/// The length of a half of a journal with this capacity, in whole sectors.
fn half_of(capacity: u64) -> u64 {
    let sectors = capacity.saturating_sub(HEAD as u64) / SECTOR as u64;
    sectors / 2 * SECTOR as u64
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
        Journal::open(Box::new(file), ID).unwrap().ok()
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
    fn halves_are_replayed_in_the_order_in_which_they_were_written() {
        let mut journal = new();
        for number in 1..=5_u8 {
            journal.append(number.into(), &[number; 100]).unwrap();
        }
        journal.turn_over();
        journal.append(6, &[6; 100]).unwrap();
        let frames = |numbers: std::ops::RangeInclusive<u8>| numbers.map(|number| vec![number; 100]).collect::<Vec<_>>();
        assert_eq!(replayed(&copy(&journal), 0).unwrap(), frames(1..=6));
        assert_eq!(replayed(&copy(&journal), 5).unwrap(), frames(6..=6));
        journal.append(7, &[7; 100]).unwrap();
        journal.turn_over();
        journal.append(8, &[8; 100]).unwrap();
        assert_eq!(replayed(&copy(&journal), 5).unwrap(), frames(6..=8), "older frames behind the new ones do not count");
        assert!(replayed(&copy(&journal), 8).unwrap().is_empty());
        let older_store = replayed(&copy(&journal), 3).unwrap_err();
        assert!(older_store.to_string().contains("replaced by an older copy"));
    }

    #[test]
    fn frames_of_the_opening_before_do_not_count() {
        let mut before = new();
        for number in 1..=3_u8 {
            before.append(number.into(), &[number; 600]).unwrap();
        }
        let mut journal = Journal::create(before.into_file(), [8; 16], CAPACITY).unwrap();
        // It lies right before the second frame of before.
        journal.append(1, &[9; 600]).unwrap();
        assert_eq!(replayed(&journal, 0).unwrap(), [vec![9; 600]]);
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
        let mut bytes = vec![0; HEAD];
        journal.file.read(0, &mut bytes).unwrap();
        assert!(on(&bytes).is_some());
        bytes[20] ^= 1;
        assert!(on(&bytes).is_none());
        assert!(on(&[]).is_none());
    }

    #[test]
    fn a_full_half_says_so() {
        let mut journal = new();
        assert!(!journal.fits(usize::try_from(CAPACITY).unwrap()) && !journal.ever_fits(usize::try_from(CAPACITY / 2).unwrap()));
        for expected in [6, 12] {
            let mut number = expected - 6;
            while journal.fits(5_000) {
                number += 1;
                journal.append(number, &[0; 5_000]).unwrap();
            }
            assert_eq!(number, expected);
            assert!(journal.ever_fits(5_000) && journal.end <= journal.start_of(journal.current + 1));
            journal.turn_over();
        }
        assert_eq!(replayed(&copy(&journal), 0).unwrap().len(), 12);
    }
}
