//! Damage to the journal of a killed server.

use std::{fs::File, os::unix::fs::FileExt, path::Path};

const BLOCK: u64 = 4096;

fn read<const N: usize>(file: &File, place: u64) -> [u8; N] {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, place).unwrap();
    bytes
}

/// Flips a bit in the last frame that the witness confirms to be on disk. Later frames may be missing after a power loss.
pub fn damage_last_commit(data: &Path) {
    let witness = File::open(data.join("tenantd.witness")).unwrap();
    // In both slots the number follows the name of the format and two ids.
    let witnessed = [0, BLOCK].map(|slot| u64::from_le_bytes(read(&witness, slot + 48))).into_iter().max().unwrap();
    let journal = std::fs::OpenOptions::new().read(true).write(true).open(data.join("tenantd.journal")).unwrap();
    let id: [u8; 16] = read(&journal, 16);
    // A frame starts with a digest, the journal's id, its length and its number.
    let is_last = |place: &u64| read(&journal, place + 16) == id && u64::from_le_bytes(read(&journal, place + 36)) == witnessed;
    let place = (1..journal.metadata().unwrap().len() / BLOCK).map(|block| block * BLOCK).find(is_last).unwrap() + 70;
    let [byte] = read(&journal, place);
    journal.write_all_at(&[byte ^ 1], place).unwrap();
}
