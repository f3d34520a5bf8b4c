//! The witness: a small file that records how far the journal is on the disk. It lets a start distinguish a damaged last batch
//! from one that never reached the disk. It also detects a journal or a store's file that was replaced by an older copy.
//!
//! Two blocks are written in turn, each with a digest, so one of them is always intact. **Invariant:** whatever the witness
//! records was true before it was written. The witness may lag behind, and is synced when the writer is idle.

use std::io;

use redb::StorageBackend;

use super::journal::{BLOCK, DIGEST, JournalId, short_digest};

const MAGIC: [u8; 16] = *b"tenantd witness1";
/// Magic, the journal's id, the id of the previous journal, two numbers.
const CONTENT: usize = 16 + 16 + 16 + 8 + 8;
const SLOTS: [u64; 2] = [0, BLOCK];

/// The content of the witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WitnessRecord {
    /// The journal that it describes, and the journal of the previous opening.
    pub(super) id: JournalId,
    pub(super) before: JournalId,
    /// The last frame that was on the disk.
    pub(super) number: u64,
    /// The place of the newest event in the log up to that frame.
    pub(super) log_end: u64,
}

impl WitnessRecord {
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

/// What the file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Missing,
    Damaged,
    Valid(WitnessRecord),
}

pub(super) fn read(file: &dyn StorageBackend) -> io::Result<Found> {
    let (length, mut newest) = (file.len()?, None::<WitnessRecord>);
    for slot in SLOTS {
        let mut bytes = [0; CONTENT + DIGEST];
        if slot + bytes.len() as u64 > length {
            continue;
        }
        file.read(slot, &mut bytes)?;
        match WitnessRecord::from_bytes(&bytes) {
            Some(record) if newest.is_none_or(|newest| record.is_newer_than(newest)) => newest = Some(record),
            Some(_) => {}
            None if bytes.iter().all(|byte| *byte == 0) => {}
            None => return Ok(Found::Damaged),
        }
    }
    Ok(newest.map_or(Found::Missing, Found::Valid))
}

pub(super) struct Witness {
    file: Box<dyn StorageBackend>,
    record: WitnessRecord,
    /// The slot that is written next.
    next: usize,
    synced: bool,
}

impl Witness {
    /// Starts to describe a new journal. When this returns, the previous journal's content is overwritten.
    pub(super) fn begin(file: Box<dyn StorageBackend>, record: WitnessRecord) -> io::Result<Self> {
        let length = BLOCK * SLOTS.len() as u64;
        if file.len()? < length {
            file.set_len(length)?;
        }
        let mut witness = Self { file, record, next: 0, synced: false };
        // One slot after the other: a loss of power in between must leave one intact.
        for _ in SLOTS {
            witness.write()?;
            witness.sync()?;
        }
        Ok(witness)
    }

    /// Records how far the journal is on the disk now.
    pub(super) fn update(&mut self, number: u64, log_end: u64) -> io::Result<()> {
        if number == self.record.number {
            return Ok(());
        }
        self.record = WitnessRecord { number, log_end, ..self.record };
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        let slot = SLOTS.get(self.next).copied().unwrap_or_default();
        self.file.write(slot, &self.record.to_bytes())?;
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

    const FIRST: WitnessRecord = WitnessRecord { id: [1; 16], before: [0; 16], number: 0, log_end: 0 };
    const SECOND: WitnessRecord = WitnessRecord { id: [2; 16], before: [1; 16], number: 0, log_end: 9 };

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
    fn the_newest_slot_counts_and_one_slot_is_enough() {
        let mut witness = Witness::begin(Box::new(InMemoryBackend::new()), FIRST).unwrap();
        for number in 1..=5 {
            witness.update(number, 10 * number).unwrap();
            let file = file_of(&witness);
            assert_eq!(read(&file).unwrap(), Found::Valid(WitnessRecord { number, log_end: 10 * number, ..FIRST }));
            for slot in SLOTS {
                let file = file_of(&witness);
                file.write(slot, &[0; CONTENT + DIGEST]).unwrap();
                let Found::Valid(record) = read(&file).unwrap() else { panic!("the other slot is missing") };
                assert!((number - 1..=number).contains(&record.number));
            }
        }
        assert_eq!(read(&InMemoryBackend::new()).unwrap(), Found::Missing);
    }

    #[test]
    fn a_new_journal_replaces_the_previous_one() {
        let mut witness = Witness::begin(Box::new(InMemoryBackend::new()), FIRST).unwrap();
        for number in 1..=3 {
            witness.update(number, number).unwrap();
        }
        for slot in SLOTS {
            let file = file_of(&witness);
            file.write(slot, &SECOND.to_bytes()).unwrap();
            assert_eq!(read(&file).unwrap(), Found::Valid(SECOND));
        }
    }

    #[test]
    fn flipped_bits_are_found() {
        let mut witness = Witness::begin(Box::new(InMemoryBackend::new()), FIRST).unwrap();
        witness.update(7, 70).unwrap();
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
