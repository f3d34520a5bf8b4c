//! A power loss at any operation of a compaction: the store opens afterwards and contains everything that was acknowledged.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenantd_base::entropy::Entropy;
use tenantd_store::Flushing;

use crate::{
    disk::{Disk, Fault, Image},
    ledger::Write,
    session::{History, Session, Setup, WAVE_AT_MOST},
};

const SETUP: Setup =
    Setup { cache_bytes: 1 << 20, journal_bytes: 64 << 10, batch_size: 8, journal_id: [7; 16], flushing: Flushing::Inline };
const WAVES: u64 = 60;
/// Large enough that every change of an account frees pages.
const NOTE_LENGTH: u64 = 150_000;
const CRASHES: u64 = 150;

/// Compacts like the command: only the store file, opened by nobody else.
fn compact(disk: &Disk) -> Result<(), String> {
    let mut database = redb::Database::builder()
        .set_cache_size(SETUP.cache_bytes)
        .create_with_backend(disk.clone())
        .map_err(|error| error.to_string())?;
    database.compact().map(drop).map_err(|error| error.to_string())
}

fn prove(runtime: &tokio::runtime::Runtime, image: Image, history: &History, when: &str) {
    let disk = Disk::new(image);
    let session = Session::open(runtime, &disk, SETUP).unwrap_or_else(|error| panic!("{when}: {error}"));
    session.prove(&mut history.clone()).unwrap_or_else(|error| panic!("{when}: {error}"));
}

#[test]
fn a_power_loss_during_compaction_loses_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (disk, mut history) = (Disk::new(Image::default()), History::default());
    let mut random = Entropy::from_seed(1);
    let session = Session::open(&runtime, &disk, SETUP).unwrap();
    session.set_up().unwrap();
    for wave in 0..WAVES {
        let first = wave * WAVE_AT_MOST as u64;
        let writes: Vec<Write> =
            (first..first + WAVE_AT_MOST as u64).map(|id| Write::random(id, NOTE_LENGTH, &mut random)).collect();
        session.write(&writes, &mut history).unwrap();
    }
    assert!(history.acknowledged() > 100);
    drop(session);
    let closed = disk.durable();
    prove(&runtime, closed.clone(), &history, "before");

    let whole = Disk::new(closed.clone());
    compact(&whole).unwrap();
    let (before, after) = (closed[0].len(), whole.durable()[0].len());
    assert!(after < before, "{before} bytes became {after}");
    prove(&runtime, whole.durable(), &history, "after");

    let operations = whole.operations();
    println!("{before} bytes became {after} in {operations} operations");
    let mut crashes = 0;
    for at in (1..=operations).step_by(usize::try_from(operations / CRASHES).unwrap().max(1)) {
        let disk = Disk::new(closed.clone());
        disk.plan(Fault::Dies { at });
        // A dead process may also panic on its way out.
        let outcome = catch_unwind(AssertUnwindSafe(|| compact(&disk)));
        assert!(disk.struck().is_some(), "operation {at} never came");
        crashes += u64::from(!matches!(outcome, Ok(Ok(()))));
        prove(&runtime, disk.survivor(&mut random), &history, &format!("cut off at operation {at}"));
    }
    assert!(crashes > 10, "only {crashes} were cut off");
}
