//! The journal makes a commit durable before redb's own file contains it. A batch costs one append and one sync, however many
//! database pages it changes.
//!
//! The journal has two halves. Frames go into one half until it is full, then into the other, whose changes must be in the
//! database by then. A frame contains the journal's id, its own number, the highest synced number when it was written, and a
//! digest over all of it. It starts on its own block, so writing the next frame never touches an acknowledged block.
//! **Invariant:** frames are numbered without gaps, and no number is reused. A frame missing below a synced number is damage. A
//! frame missing above it was never acknowledged. A journal serves one opening of the store. After a loss of power, an unsynced
//! frame may be on the disk although an earlier one is not, and the next opening must not take it for its own.

use std::{collections::BTreeMap, io};

use redb::StorageBackend;

use tenantd_base::{clock::Timestamp, secrets::digest};

/// Distinguishes this journal from any other, and its frames from bytes that a tenant chose.
pub type JournalId = [u8; 16];

/// A position in the history of a store: one commit of one of its openings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub journal: JournalId,
    pub number: u64,
}

impl Position {
    /// The start of a new history. Its commits continue the numbers of another history.
    pub(super) fn root(number: u64) -> Self {
        Self { journal: JournalId::default(), number }
    }

    pub(super) fn is_root(self) -> bool {
        self.journal == JournalId::default()
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", data_encoding::HEXLOWER.encode(&self.journal), self.number)
    }
}

impl std::str::FromStr for Position {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (journal, number) = text.split_once('-')?;
            let journal = data_encoding::HEXLOWER.decode(journal.as_bytes()).ok()?.try_into().ok()?;
            Some(Self { journal, number: number.parse().ok()? })
        };
        parse().ok_or("not a position in the history of a store")
    }
}

/// A commit as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) number: u64,
    pub(super) at: Timestamp,
    pub(super) changes: Vec<u8>,
}

const MAGIC: [u8; 16] = *b"tenantd journal3";
/// The prefix of the magic in earlier releases, up to the format number.
const FAMILY: &[u8] = b"tenantd journal";
/// The unit that file systems write atomically. The head and every frame start on their own block.
pub(super) const BLOCK: u64 = 4096;
pub(super) const DIGEST: usize = 16;
/// Digest, id, length, number, synced number, time.
const FRAME_HEAD: usize = DIGEST + 16 + 4 + 8 + 8 + 8;

/// The first bytes of the digest over `content`.
pub(super) fn short_digest(content: &[u8]) -> [u8; DIGEST] {
    let mut short = [0; DIGEST];
    short.iter_mut().zip(digest(content)).for_each(|(place, byte)| *place = byte);
    short
}

pub(super) struct Journal {
    file: Box<dyn StorageBackend>,
    id: JournalId,
    /// The length of a half, and which half is being written.
    half: u64,
    current: u64,
    /// The offset of the next frame.
    end: u64,
    /// The last frame that was written, and the last one that was synced.
    written: u64,
    synced: u64,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("end", &self.end).field("written", &self.written).finish_non_exhaustive()
    }
}

impl Journal {
    /// Creates a new, empty journal in the file. The file gets its full length now, so appending needs no more space.
    pub(super) fn create(file: Box<dyn StorageBackend>, id: JournalId, capacity: u64) -> io::Result<Self> {
        if file.len()? < capacity.max(BLOCK) {
            file.set_len(capacity.max(BLOCK))?;
        }
        let mut head = [MAGIC, id].concat();
        head.extend_from_slice(&short_digest(&head));
        head.resize(usize::try_from(BLOCK).map_err(io::Error::other)?, 0);
        file.write(0, &head)?;
        file.sync_data()?;
        Ok(Self { file, id, half: half_of(capacity), current: 0, end: BLOCK, written: 0, synced: 0 })
    }

    /// The last frame that is certainly on the disk.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced == self.written
    }

    /// Switches to the other half. Every frame in that half is already in the database.
    pub(super) fn switch_half(&mut self) {
        self.current = 1 - self.current;
        self.end = self.start_of(self.current);
    }

    /// Skips a number whose changes are durable in the database and need no frame.
    pub(super) fn skip_number(&mut self, number: u64) {
        (self.written, self.synced) = (number, number);
    }

    fn start_of(&self, half: u64) -> u64 {
        BLOCK + half * self.half
    }

    /// Whether the current half has space for a frame with this many bytes of changes.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        u32::try_from(bytes).is_ok() && self.end + frame_length(bytes) <= self.start_of(self.current + 1)
    }

    /// Whether an empty half has space for such a frame.
    pub(super) fn ever_fits(&self, bytes: usize) -> bool {
        u32::try_from(bytes).is_ok() && frame_length(bytes) <= self.half
    }

    /// Syncs all appended frames to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced() {
            self.file.sync_data()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Writes the next frame. It is durable after the next sync. After an error it may or may not be on the disk.
    pub(super) fn append(&mut self, number: u64, at: Timestamp, changes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(changes.len()).map_err(io::Error::other)?;
        let end = self.end + frame_length(changes.len());
        let mut frame = Vec::with_capacity(usize::try_from(end - self.end).map_err(io::Error::other)?);
        frame.extend_from_slice(&[0; DIGEST]);
        frame.extend_from_slice(&self.id);
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&number.to_le_bytes());
        frame.extend_from_slice(&self.synced.to_le_bytes());
        frame.extend_from_slice(&at.as_millis().to_le_bytes());
        frame.extend_from_slice(changes);
        let signature = short_digest(frame.get(DIGEST..).unwrap_or_default());
        frame.iter_mut().zip(signature).for_each(|(place, byte)| *place = byte);
        frame.resize(frame.capacity(), 0);
        self.file.write(self.end, &frame)?;
        (self.end, self.written) = (end, number);
        Ok(())
    }
}

/// The length of a half in a journal of this capacity, in whole blocks.
fn half_of(capacity: u64) -> u64 {
    let blocks = capacity.saturating_sub(BLOCK) / BLOCK;
    blocks / 2 * BLOCK
}

fn frame_length(bytes: usize) -> u64 {
    ((FRAME_HEAD + bytes) as u64).next_multiple_of(BLOCK)
}

/// The journal that the first block of a file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Of(JournalId),
    /// A journal of an earlier release.
    Earlier,
    /// No journal, or a damaged one.
    Unreadable,
}

pub(super) fn read_head(file: &dyn StorageBackend) -> io::Result<Head> {
    let mut head = [0; MAGIC.len() + 16 + DIGEST];
    if file.len()? < head.len() as u64 {
        return Ok(Head::Unreadable);
    }
    file.read(0, &mut head)?;
    let (content, found_digest) = head.split_at(MAGIC.len() + 16);
    let (magic, id) = content.split_at(MAGIC.len());
    Ok(match id.first_chunk() {
        Some(id) if magic == MAGIC && found_digest == short_digest(content) => Head::Of(*id),
        _ if magic.starts_with(FAMILY) && magic != MAGIC => Head::Earlier,
        _ => Head::Unreadable,
    })
}

/// The readable frames of a journal, whatever the state of the rest of its file.
pub(super) struct Frames<'a> {
    file: &'a dyn StorageBackend,
    id: JournalId,
    length: u64,
    /// The offset of each frame, by number.
    places: BTreeMap<u64, u64>,
    synced: u64,
}

/// A frame as written.
struct Frame {
    commit: Commit,
    synced: u64,
}

impl<'a> Frames<'a> {
    /// Searches for frames of the journal `id` at the start of every block.
    pub(super) fn find(file: &'a dyn StorageBackend, id: JournalId) -> io::Result<Self> {
        let mut frames = Self { file, id, length: file.len()?, places: BTreeMap::new(), synced: 0 };
        let mut offset = BLOCK;
        while offset < frames.length {
            offset += match frames.read(offset)? {
                None => BLOCK,
                Some(frame) => {
                    frames.places.insert(frame.commit.number, offset);
                    frames.synced = frames.synced.max(frame.synced);
                    frame_length(frame.commit.changes.len())
                }
            };
        }
        Ok(frames)
    }

    /// The highest number that any frame reports as synced.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// The frame numbers above `number`, in order.
    pub(super) fn above(&self, number: u64) -> impl Iterator<Item = u64> {
        self.places.range(number.saturating_add(1)..).map(|(number, _)| *number)
    }

    /// Reads the commit in a frame.
    pub(super) fn commit(&self, number: u64) -> io::Result<Option<Commit>> {
        let Some(place) = self.places.get(&number) else { return Ok(None) };
        Ok(self.read(*place)?.map(|frame| frame.commit))
    }

    /// Reads the frame at `offset`, if it is complete and belongs to this journal.
    fn read(&self, offset: u64) -> io::Result<Option<Frame>> {
        let body = offset + FRAME_HEAD as u64;
        if body > self.length {
            return Ok(None);
        }
        let mut head = [0; FRAME_HEAD];
        self.file.read(offset, &mut head)?;
        let (found_digest, signed) = head.split_at(DIGEST);
        let (id, rest) = signed.split_at(self.id.len());
        let Some((length, numbers)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let Some((number, rest)) = numbers.split_first_chunk::<8>() else { return Ok(None) };
        let Some((synced, at)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length);
        if id != self.id || body + u64::from(length) > self.length {
            return Ok(None);
        }
        let mut frame = signed.to_vec();
        frame.resize(signed.len() + length as usize, 0);
        let Some(changes) = frame.get_mut(signed.len()..) else { return Ok(None) };
        self.file.read(body, changes)?;
        if short_digest(&frame) != found_digest {
            return Ok(None);
        }
        let at = at.first_chunk().map_or(0, |at| i64::from_le_bytes(*at));
        frame.drain(..FRAME_HEAD - DIGEST);
        let commit = Commit { number: u64::from_le_bytes(*number), at: Timestamp::from_millis(at), changes: frame };
        Ok(Some(Frame { commit, synced: u64::from_le_bytes(*synced) }))
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    const ID: JournalId = [7; 16];
    const CAPACITY: u64 = 64 << 10;
    const AT: Timestamp = Timestamp::EPOCH;

    fn new() -> Journal {
        Journal::create(Box::new(InMemoryBackend::new()), ID, CAPACITY).unwrap()
    }

    fn bytes(journal: &Journal) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(journal.file.len().unwrap()).unwrap()];
        journal.file.read(0, &mut bytes).unwrap();
        bytes
    }

    fn on(bytes: &[u8]) -> InMemoryBackend {
        let file = InMemoryBackend::new();
        file.set_len(bytes.len() as u64).unwrap();
        file.write(0, bytes).unwrap();
        file
    }

    /// The readable frames and the highest number that they report as synced.
    fn found(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, u64) {
        let file = on(bytes);
        let frames = Frames::find(&file, ID).unwrap();
        let read = frames.above(0).map(|number| (number, frames.commit(number).unwrap().unwrap().changes)).collect();
        (read, frames.synced())
    }

    #[test]
    fn frames_of_both_halves_read_back_with_the_synced_number() {
        let mut journal = new();
        for number in 1..=3_u8 {
            journal.append(number.into(), AT, &vec![number; 700]).unwrap();
            if number < 3 {
                journal.sync().unwrap();
            }
        }
        journal.switch_half();
        journal.append(4, AT, &[4; 9_000]).unwrap();
        let expected = vec![(1, vec![1; 700]), (2, vec![2; 700]), (3, vec![3; 700]), (4, vec![4; 9_000])];
        assert_eq!(found(&bytes(&journal)), (expected, 2));
        journal.sync().unwrap();
        journal.skip_number(5);
        journal.switch_half();
        journal.append(6, AT, &[6; 100]).unwrap();
        let (frames, synced) = found(&bytes(&journal));
        assert_eq!(frames.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3, 4, 6]);
        assert_eq!(synced, 5, "frames in the database count as synced");
    }

    #[test]
    fn frames_of_a_previous_opening_are_ignored() {
        let mut before = new();
        for number in 1..=3_u8 {
            before.append(number.into(), AT, &[number; 600]).unwrap();
        }
        let mut journal = Journal::create(before.file, [8; 16], CAPACITY).unwrap();
        journal.append(1, AT, &[9; 600]).unwrap();
        let file = on(&bytes(&journal));
        assert_eq!(Frames::find(&file, [8; 16]).unwrap().above(0).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_flipped_bit_hides_only_its_frame() {
        let mut journal = new();
        for number in 1..=3_u8 {
            journal.append(number.into(), AT, &[number; 40]).unwrap();
        }
        let (sound, second) = (bytes(&journal), usize::try_from(2 * BLOCK).unwrap());
        for place in second..second + FRAME_HEAD + 40 {
            for bit in 0..8 {
                let mut flipped = sound.clone();
                flipped[place] ^= 1 << bit;
                assert_eq!(found(&flipped).0, [(1, vec![1; 40]), (3, vec![3; 40])], "byte {place}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_in_the_head_is_found() {
        let journal = new();
        let sound = bytes(&journal);
        assert_eq!(read_head(&on(&sound)).unwrap(), Head::Of(ID));
        for place in 0..MAGIC.len() + 16 + DIGEST {
            for bit in 0..8 {
                let mut flipped = sound.clone();
                flipped[place] ^= 1 << bit;
                let head = read_head(&on(&flipped)).unwrap();
                assert!(matches!(head, Head::Unreadable | Head::Earlier), "byte {place}: {head:?}");
            }
        }
        let earlier = [b"tenantd journal2".as_slice(), &[0; 100]].concat();
        assert_eq!(read_head(&on(&earlier)).unwrap(), Head::Earlier);
        assert_eq!(read_head(&on(&[])).unwrap(), Head::Unreadable);
    }

    #[test]
    fn a_full_half_says_so() {
        let mut journal = new();
        let half = usize::try_from(CAPACITY / 2).unwrap();
        assert!(!journal.fits(2 * half) && !journal.ever_fits(half));
        for expected in [3, 6] {
            let mut number = expected - 3;
            while journal.fits(5_000) {
                number += 1;
                journal.append(number, AT, &[0; 5_000]).unwrap();
            }
            assert_eq!(number, expected);
            assert!(journal.ever_fits(5_000) && journal.end <= journal.start_of(journal.current + 1));
            journal.switch_half();
        }
        assert_eq!(found(&bytes(&journal)).0.len(), 6);
        assert_eq!(journal.file.len().unwrap(), CAPACITY, "it never grows");
    }
}
