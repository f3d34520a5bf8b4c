//! The witness: a small file that says how far the journal was on the disk. Without it a start could not tell the last batch that was
//! damaged from one that never got there, nor a journal or a store's file that was replaced by an older copy.
//!
//! Two blocks are written in turn, each with a digest, so that one of them is always whole. **Invariant:** what the witness says was true
//! before it was written down; it may lag behind, and is brought onto the disk when nothing else is to do.

use std::io;

use redb::StorageBackend;

use super::journal::{BLOCK, DIGEST, JournalId, short_digest};

const MAGIC: [u8; 16] = *b"tenantd witness1";
/// Magic, the journal's id, the id of the one before, two numbers.
const CONTENT: usize = 16 + 16 + 16 + 8 + 8;
const SLOTS: [u64; 2] = [0, BLOCK];

/// What the witness says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Testimony {
    /// The journal that it is about, and that of the opening before.
    pub(super) id: JournalId,
    pub(super) before: JournalId,
    /// The last frame that was on the disk.
    pub(super) number: u64,
    /// The place of the newest event in the log up to that frame.
    pub(super) log_end: u64,
}

impl Testimony {
    fn is_newer_than(self, other: Self) -> bool {
        if self.id == other.id { self.number > other.number } else { self.before == other.id }
    }

    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = [MAGIC, self.id, self.before].concat();
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.log_end.to_le_bytes());
        bytes.extend_from_slice(&short_digest(&bytes));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (content, found_digest) = bytes.split_at_checked(CONTENT)?;
        let (magic, rest) = content.split_first_chunk::<16>()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (before, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let log_end = rest.first_chunk()?;
        let read = Self { id: *id, before: *before, number: u64::from_le_bytes(*number), log_end: u64::from_le_bytes(*log_end) };
        (*magic == MAGIC && found_digest == short_digest(content)).then_some(read)
    }
}

/// What was found in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Damaged,
    Said(Testimony),
}

pub(super) fn read(file: &dyn StorageBackend) -> io::Result<Found> {
    let (length, mut newest) = (file.len()?, None::<Testimony>);
    for slot in SLOTS {
        let mut bytes = [0; CONTENT + DIGEST];
        if slot + bytes.len() as u64 > length {
            continue;
        }
        file.read(slot, &mut bytes)?;
        match Testimony::from_bytes(&bytes) {
            Some(said) if newest.is_none_or(|newest| said.is_newer_than(newest)) => newest = Some(said),
            Some(_) => {}
            None if bytes.iter().all(|byte| *byte == 0) => {}
            None => return Ok(Found::Damaged),
        }
    }
    Ok(newest.map_or(Found::Nothing, Found::Said))
}

pub(super) struct Witness {
    file: Box<dyn StorageBackend>,
    said: Testimony,
    /// The place of the slot that is written next.
    next: usize,
    synced: bool,
}

impl Witness {
    /// Begins to speak of a new journal. What was said of the one before is gone when this returns.
    pub(super) fn begin(file: Box<dyn StorageBackend>, said: Testimony) -> io::Result<Self> {
        let length = BLOCK * SLOTS.len() as u64;
        if file.len()? < length {
            file.set_len(length)?;
        }
        let mut witness = Self { file, said, next: 0, synced: false };
        // One after the other: a loss of power in between must leave one that is whole.
        for _ in SLOTS {
            witness.write()?;
            witness.sync()?;
        }
        Ok(witness)
    }

    /// Says how far the journal is on the disk now.
    pub(super) fn say(&mut self, number: u64, log_end: u64) -> io::Result<()> {
        if number == self.said.number {
            return Ok(());
        }
        self.said = Testimony { number, log_end, ..self.said };
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        let slot = SLOTS.get(self.next).copied().unwrap_or_default();
        self.file.write(slot, &self.said.to_bytes())?;
        self.next = (self.next + 1) % SLOTS.len();
        self.synced = false;
        Ok(())
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        if !self.synced {
            self.file.sync_data()?;
            self.synced = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    const FIRST: Testimony = Testimony { id: [1; 16], before: [0; 16], number: 0, log_end: 0 };
    const SECOND: Testimony = Testimony { id: [2; 16], before: [1; 16], number: 0, log_end: 9 };

    fn file_of(witness: &Witness) -> InMemoryBackend {
        let mut bytes = vec![0; usize::try_from(witness.file.len().unwrap()).unwrap()];
        witness.file.read(0, &mut bytes).unwrap();
        on(&bytes)
    }

    fn on(bytes: &[u8]) -> InMemoryBackend {
        let file = InMemoryBackend::new();
        file.set_len(bytes.len() as u64).unwrap();
        file.write(0, bytes).unwrap();
        file
    }

    #[test]
    fn the_newest_word_counts_and_either_slot_alone_is_enough() {
        let mut witness = Witness::begin(Box::new(InMemoryBackend::new()), FIRST).unwrap();
        for number in 1..=5 {
            witness.say(number, 10 * number).unwrap();
            let file = file_of(&witness);
            assert_eq!(read(&file).unwrap(), Found::Said(Testimony { number, log_end: 10 * number, ..FIRST }));
            for slot in SLOTS {
                let file = file_of(&witness);
                file.write(slot, &[0; CONTENT + DIGEST]).unwrap();
                let Found::Said(said) = read(&file).unwrap() else { panic!("the other slot is there") };
                assert!((number - 1..=number).contains(&said.number));
            }
        }
        assert_eq!(read(&InMemoryBackend::new()).unwrap(), Found::Nothing);
    }

    #[test]
    fn the_next_journal_counts_from_its_first_word_on() {
        let mut witness = Witness::begin(Box::new(InMemoryBackend::new()), FIRST).unwrap();
        for number in 1..=3 {
            witness.say(number, number).unwrap();
        }
        for slot in SLOTS {
            let file = file_of(&witness);
            file.write(slot, &SECOND.to_bytes()).unwrap();
            assert_eq!(read(&file).unwrap(), Found::Said(SECOND));
        }
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let mut witness = Witness::begin(Box::new(InMemoryBackend::new()), FIRST).unwrap();
        witness.say(7, 70).unwrap();
        for slot in SLOTS {
            for place in slot..slot + (CONTENT + DIGEST) as u64 {
                let (file, mut byte) = (file_of(&witness), [0]);
                file.read(place, &mut byte).unwrap();
                file.write(place, &[byte[0] ^ 0x20]).unwrap();
                assert_eq!(read(&file).unwrap(), Found::Damaged, "byte {place}");
            }
        }
    }
}
