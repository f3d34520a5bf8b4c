//! Damage to the files of a killed store: a flipped bit, a block of zeros, an older block, a truncated file, or an older copy. Each
//! store then opens with everything that was acknowledged, or reports the damage. No loss is silent.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tokio::runtime::Runtime;

use tenantd_base::entropy::Entropy;
use tenantd_store::Flushing;

use crate::{
    disk::{Disk, Image, JOURNAL, STORE, WITNESS},
    ledger::Write,
    session::{History, Session, Setup},
};

const BLOCK: usize = 4096;
const SETUP: Setup =
    Setup { cache_bytes: 1 << 20, journal_bytes: 200 << 10, batch_size: 1, journal_id: [7; 16], flushing: Flushing::Inline };
const NAMES: [&str; 3] = ["tenantd.redb", "tenantd.journal", "tenantd.witness"];
/// Some fill half of the journal, so that all files change.
const WAVES: u64 = 70;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Opened,
    Refused,
    /// It opened, and a check of every page and record finds the damage.
    FoundByCheck,
    Silent,
}

/// A killed store, earlier contents of its files, and the responses of its clients.
struct Killed {
    runtime: Runtime,
    image: Image,
    /// Earlier contents, the oldest first.
    older: Vec<Image>,
    history: History,
}

fn killed() -> Killed {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (disk, mut history, mut random) = (Disk::new(Image::default()), History::default(), Entropy::from_seed(5));
    let mut older = Vec::new();
    let session = Session::open(&runtime, &disk, Setup { journal_id: [1; 16], ..SETUP }).unwrap();
    session.set_up().unwrap();
    drop(session);
    older.push(disk.cached());
    let session = Session::open(&runtime, &disk, SETUP).unwrap();
    for id in 1..=WAVES {
        let write = Write { is_derived: false, fails_after_writing: false, ..Write::random(id, 3_000, &mut random) };
        session.write(&[write], &mut history).unwrap();
        older.push(disk.cached());
    }
    disk.die();
    let image = older.pop().unwrap();
    drop(session);
    assert!(history.acknowledged() > 20);
    Killed { runtime, image, older, history }
}

impl Killed {
    fn outcome(&self, image: Image) -> Outcome {
        let disk = Disk::new(image);
        let opened = catch_unwind(AssertUnwindSafe(|| Session::open(&self.runtime, &disk, Setup { journal_id: [9; 16], ..SETUP })));
        let Ok(Ok(session)) = opened else { return Outcome::Refused };
        // The engine panics on an invalid page, which a server reports and survives.
        let proven = catch_unwind(AssertUnwindSafe(|| session.prove(&mut self.history.clone())));
        let is_told = match &proven {
            Ok(Ok(())) => return Outcome::Opened,
            Ok(Err(problem)) => problem.contains("the check"),
            Err(_) => true,
        };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(session)));
        let walked = catch_unwind(AssertUnwindSafe(|| {
            let mut database =
                redb::Database::builder().create_with_backend(Disk::new(disk.cached())).map_err(redb::Error::from)?;
            Ok::<_, redb::Error>(database.check_integrity()?)
        }));
        if is_told || !matches!(walked, Ok(Ok(true))) { Outcome::FoundByCheck } else { Outcome::Silent }
    }

    /// Applies each damage to one file, and counts the outcomes.
    fn try_all(&self, what: &str, file: usize, damages: impl Iterator<Item = Vec<u8>>) -> BTreeMap<Outcome, u64> {
        let mut outcomes = BTreeMap::new();
        for (number, damaged) in damages.enumerate() {
            let mut image = self.image.clone();
            image[file] = damaged;
            let outcome = self.outcome(image);
            assert!(outcome != Outcome::Silent, "{} {what}, case {number}: data is lost silently", NAMES[file]);
            *outcomes.entry(outcome).or_default() += 1;
        }
        println!("{} {what}: {outcomes:?}", NAMES[file]);
        outcomes
    }

    fn blocks(&self, file: usize) -> impl Iterator<Item = usize> {
        (0..self.image[file].len()).step_by(BLOCK)
    }

    fn zeroed(&self, file: usize) -> impl Iterator<Item = Vec<u8>> {
        self.blocks(file).map(move |start| {
            let mut damaged = self.image[file].clone();
            let end = damaged.len().min(start + BLOCK);
            damaged[start..end].fill(0);
            damaged
        })
    }

    /// Every block, replaced by each of its earlier contents.
    fn with_older_blocks(&self, file: usize) -> impl Iterator<Item = Vec<u8>> {
        self.blocks(file).flat_map(move |start| {
            let current = &self.image[file];
            let end = current.len().min(start + BLOCK);
            let mut versions: Vec<&[u8]> = self.older.iter().filter_map(|older| older[file].get(start..end)).collect();
            versions.sort_unstable();
            versions.dedup();
            versions.retain(|version| *version != &current[start..end]);
            versions.into_iter().map(move |version| {
                let mut damaged = current.clone();
                damaged[start..end].copy_from_slice(version);
                damaged
            })
        })
    }

    fn cut(&self, file: usize) -> impl Iterator<Item = Vec<u8>> {
        self.blocks(file).map(move |length| self.image[file][..length].to_vec())
    }

    fn older_copies(&self, file: usize) -> impl Iterator<Item = Vec<u8>> {
        self.older.iter().map(move |older| older[file].clone())
    }

    /// One bit of every byte in the range.
    fn flipped(&self, file: usize, range: std::ops::Range<usize>, step: usize) -> impl Iterator<Item = Vec<u8>> {
        range.step_by(step).map(move |place| {
            let mut damaged = self.image[file].clone();
            damaged[place] ^= 1 << (place % 8);
            damaged
        })
    }
}

#[test]
fn damage_to_the_journal_is_reported_or_harmless() {
    let killed = killed();
    assert_eq!(killed.outcome(killed.image.clone()), Outcome::Opened);
    for file in [JOURNAL, WITNESS] {
        for outcomes in [
            killed.try_all("with a block of zeros", file, killed.zeroed(file)),
            killed.try_all("with an older block", file, killed.with_older_blocks(file)),
            killed.try_all("cut at a block", file, killed.cut(file)),
            killed.try_all("replaced by an older copy", file, killed.older_copies(file)),
            killed.try_all("with a flipped bit at its beginning", file, killed.flipped(file, 0..200, 1)),
        ] {
            assert!(!outcomes.contains_key(&Outcome::FoundByCheck), "the start has to tell: {outcomes:?}");
        }
    }
    let length = killed.image[JOURNAL].len();
    let outcomes = killed.try_all("with a flipped bit", JOURNAL, killed.flipped(JOURNAL, BLOCK..length, 61));
    assert!(outcomes[&Outcome::Refused] > 100 && outcomes[&Outcome::Opened] > 500, "{outcomes:?}");
    let gone = killed.try_all("missing", JOURNAL, std::iter::once(Vec::new()));
    assert_eq!(gone, BTreeMap::from([(Outcome::Refused, 1)]));
}

#[test]
fn damage_to_the_file_is_reported_or_harmless() {
    let killed = killed();
    killed.try_all("with a block of zeros", STORE, killed.zeroed(STORE));
    killed.try_all("with an older block", STORE, killed.with_older_blocks(STORE));
    killed.try_all("replaced by an older copy", STORE, killed.older_copies(STORE));
    killed.try_all("cut at a block", STORE, killed.cut(STORE));
    killed.try_all("with a flipped bit", STORE, killed.flipped(STORE, 0..killed.image[STORE].len(), 1_009));
}
