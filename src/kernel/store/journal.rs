//! The journal: where a commit becomes durable before the database's own file has it. One append and one sync a batch, however
//! many pages of the database the batch touches.
//!
//! It has two halves. Frames go into one of them until it is full, then into the other, which the database must have taken up by
//! then. A frame carries the journal's id, its number, the number up to which the journal was synced when it was written, and a
//! digest over all of it. It starts on a block of its own, so that writing the next one never touches a block that was acknowledged.
//! **Invariant:** frames are numbered without gaps, and a number is given once. A frame that is missing below a number that was synced
//! is damage; one that is missing above was never acknowledged. A journal serves one opening of the store: of frames that were never
//! synced some may have reached the disk behind one that did not, and the next opening must not take them for its own.

use std::{collections::BTreeMap, io};

use redb::StorageBackend;

use tenantd_base::{clock::Timestamp, secrets::digest};

/// What tells this journal from any other, and its frames from bytes that a tenant chose.
pub type JournalId = [u8; 16];

/// A place in the history of a store: a commit of one of its openings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub journal: JournalId,
    pub number: u64,
}

impl Position {
    /// Nothing is before a history, but its commits may be counted from those of another.
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
        parse().ok_or("no position in the history of a store")
    }
}

/// A commit as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) number: u64,
    pub(super) at: Timestamp,
    pub(super) changes: Vec<u8>,
}

const MAGIC: [u8; 16] = *b"tenantd journal3";
/// What journals of earlier releases begin with, up to the number of their form.
const FAMILY: &[u8] = b"tenantd journal";
/// What file systems write in one piece. The head has one to itself, and so has each frame, at least.
pub(super) const BLOCK: u64 = 4096;
pub(super) const DIGEST: usize = 16;
/// Digest, id, length, number, the number that was synced, the time.
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
    /// How long a half is, and which of them is written.
    half: u64,
    current: u64,
    /// Where the next frame goes.
    end: u64,
    /// The last frame that was written, and the last that is on the disk for certain.
    written: u64,
    synced: u64,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("end", &self.end).field("written", &self.written).finish_non_exhaustive()
    }
}

impl Journal {
    /// Makes the file a new, empty journal. It has its whole length from the beginning, so that appending needs no room.
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

    /// The last frame that is on the disk for certain.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced == self.written
    }

    /// Goes on in the other half: every frame in it is in the database.
    pub(super) fn turn_over(&mut self) {
        self.current = 1 - self.current;
        self.end = self.start_of(self.current);
    }

    /// Passes over a number whose changes are durable in the database without a frame.
    pub(super) fn pass_over(&mut self, number: u64) {
        (self.written, self.synced) = (number, number);
    }

    fn start_of(&self, half: u64) -> u64 {
        BLOCK + half * self.half
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
        if !self.is_synced() {
            self.file.sync_data()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Writes the next frame, which is on the disk after the next sync; after an error it may or may not be there.
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

/// The length of a half of a journal with this capacity, in whole blocks.
fn half_of(capacity: u64) -> u64 {
    let blocks = capacity.saturating_sub(BLOCK) / BLOCK;
    blocks / 2 * BLOCK
}

fn frame_length(bytes: usize) -> u64 {
    ((FRAME_HEAD + bytes) as u64).next_multiple_of(BLOCK)
}

/// What the first block of a file says of the journal in it.
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

/// The frames of a journal that can be read, whatever happened to the rest of its file.
pub(super) struct Frames<'a> {
    file: &'a dyn StorageBackend,
    id: JournalId,
    length: u64,
    /// Where each is, by its number.
    places: BTreeMap<u64, u64>,
    synced: u64,
}

/// A frame as it was written.
struct Frame {
    commit: Commit,
    synced: u64,
}

impl<'a> Frames<'a> {
    /// Looks for the frames of the journal `id` at the beginning of every block.
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

    /// The highest number that one of them says was on the disk.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// The numbers above `number`, in order.
    pub(super) fn above(&self, number: u64) -> impl Iterator<Item = u64> {
        self.places.range(number.saturating_add(1)..).map(|(number, _)| *number)
    }

    /// The commit in a frame.
    pub(super) fn commit(&self, number: u64) -> io::Result<Option<Commit>> {
        let Some(place) = self.places.get(&number) else { return Ok(None) };
        Ok(self.read(*place)?.map(|frame| frame.commit))
    }

    /// The frame at `offset`, if a whole one of this journal is there.
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

    /// The frames that can be read, and what they say was synced.
    fn found(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, u64) {
        let file = on(bytes);
        let frames = Frames::find(&file, ID).unwrap();
        let read = frames.above(0).map(|number| (number, frames.commit(number).unwrap().unwrap().changes)).collect();
        (read, frames.synced())
    }

    #[test]
    fn frames_of_both_halves_read_back_and_say_what_was_synced() {
        let mut journal = new();
        for number in 1..=3_u8 {
            journal.append(number.into(), AT, &vec![number; 700]).unwrap();
            if number < 3 {
                journal.sync().unwrap();
            }
        }
        journal.turn_over();
        journal.append(4, AT, &[4; 9_000]).unwrap();
        let expected = vec![(1, vec![1; 700]), (2, vec![2; 700]), (3, vec![3; 700]), (4, vec![4; 9_000])];
        assert_eq!(found(&bytes(&journal)), (expected, 2));
        journal.sync().unwrap();
        journal.pass_over(5);
        journal.turn_over();
        journal.append(6, AT, &[6; 100]).unwrap();
        let (frames, synced) = found(&bytes(&journal));
        assert_eq!(frames.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3, 4, 6]);
        assert_eq!(synced, 5, "what the database has counts as synced");
    }

    #[test]
    fn frames_of_the_opening_before_do_not_count() {
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
    fn any_flipped_bit_of_a_frame_hides_that_frame_alone() {
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
    fn any_flipped_bit_of_the_head_is_found() {
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
            journal.turn_over();
        }
        assert_eq!(found(&bytes(&journal)).0.len(), 6);
        assert_eq!(journal.file.len().unwrap(), CAPACITY, "it never grows");
    }
}
