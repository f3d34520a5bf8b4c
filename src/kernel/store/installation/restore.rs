//! Creates an installation from a verified snapshot.

use std::{
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use tenantd_base::telemetry::panic_text;

use super::{
    DataDirectory, ID_FILE, Installation, JOURNAL_FILE, KeyFingerprint, MARKER_FILE, NEW_STORE_FILE, STORE_FILE, WITNESS_FILE,
    io_error, last_release, newer_format,
};
use crate::{
    CheckReport, Checked, RedbEngine, StoreError, check, engine::Engine, migrate::FORMAT, pages, snapshot::evict_from_cache,
    transaction::ReadTx,
};

/// The page cache while a copy is verified.
const PROOF_CACHE_BYTES: usize = 64 << 20;

impl DataDirectory {
    /// Creates the installation from a snapshot. The copy is renamed to its final name only after every page, record and index of
    /// it was verified. `prepare` then compares the key with the snapshot's fingerprint and writes everything else that must
    /// exist before the first start. After an error or a crash at any point, the directory contains no installation and can be
    /// restored into again.
    pub fn restore(
        &self,
        snapshot: &Path,
        tables: &[&'static dyn Checked],
        prepare: impl FnOnce(KeyFingerprint) -> Result<(), StoreError>,
    ) -> Result<CheckReport, StoreError> {
        self.ensure_empty()?;
        self.outgoing().set_incomplete()?;
        let new = self.path.join(NEW_STORE_FILE);
        let restored = copy_private(snapshot, &new).and_then(|()| prove_copy(&new, tables)).and_then(|(installation, report)| {
            prepare(installation.key_fingerprint)?;
            self.mark_initialization(&[STORE_FILE, JOURNAL_FILE, WITNESS_FILE, ID_FILE])?;
            self.finish_initialization(&new, installation.id).map(|()| report)
        });
        match restored {
            Ok(report) => Ok(report),
            Err(error) => {
                // Only the steps after the marker rename files, so without the marker there is only the copy.
                let begun = self.path.join(MARKER_FILE).exists();
                let leftovers: &[&str] =
                    if begun { &[NEW_STORE_FILE, STORE_FILE, ID_FILE, MARKER_FILE] } else { &[NEW_STORE_FILE] };
                self.remove_all(leftovers)?;
                Err(error)
            }
        }
    }
}

/// Copies a file to a new file that only its owner can read, and syncs it.
fn copy_private(from: &Path, to: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::OpenOptionsExt;
    // Opening a pipe would block until it has a writer.
    if !std::fs::metadata(from).map_err(|error| io_error(from, &error))?.is_file() {
        return Err(StoreError::Installation(format!("{} is not a file: give the path of a snapshot", from.display())));
    }
    let mut source = File::open(from).map_err(|error| io_error(from, &error))?;
    let mut copy = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut target = options.write(true).create(true).truncate(true).mode(0o600).open(to)?;
        std::io::copy(&mut source, &mut target)?;
        evict_from_cache(to)
    };
    copy().map_err(|error| io_error(to, &error))
}

impl Installation {
    /// Verifies all pages of a snapshot and returns its metadata.
    pub fn of_snapshot(path: &Path) -> Result<Self, StoreError> {
        read_sound(path, Self::read)
    }
}

/// Verifies every page, record and index of a copied snapshot.
fn prove_copy(path: &Path, tables: &[&'static dyn Checked]) -> Result<(Installation, CheckReport), StoreError> {
    let (installation, report) = read_sound(path, |tx| {
        let installation = Installation::read(tx)?;
        if installation.format > FORMAT {
            return Err(newer_format(installation.format, last_release(tx).as_deref()));
        }
        Ok((installation, check::run(tx, tables)?))
    })?;
    match report.problems.first() {
        None => Ok((installation, report)),
        Some(first) => Err(damaged(&format!("{first} ({} problems in all)", report.problem_count()))),
    }
}

/// Reads a snapshot after verifying all of its pages.
fn read_sound<T>(path: &Path, work: impl FnOnce(&ReadTx) -> Result<T, StoreError>) -> Result<T, StoreError> {
    let read = || {
        pages::verify_closed(path).map_err(|problem| damaged(&problem))?;
        let engine = RedbEngine::open(path, PROOF_CACHE_BYTES, None)?;
        work(&ReadTx::new(engine.begin_read()?))
    };
    // A damaged page makes redb panic.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|cause| Err(damaged(&panic_text(cause.as_ref()))))
}

fn damaged(what: &str) -> StoreError {
    StoreError::Installation(format!("the snapshot is damaged and cannot be restored: {what}. Use another snapshot"))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::FileExt, path::PathBuf};

    use tenantd_base::{clock::Clock, quotas::Quotas};

    use super::{
        super::{LOCK_FILE, META, RELEASE, ReleaseRecord},
        *,
    };
    use crate::{SnapshotReport, StoreSettings, WriteTx, WriterSettings, catalog, engine::Durability, snapshot};

    const SETTINGS: StoreSettings = StoreSettings {
        cache_bytes: 1 << 20,
        journal_bytes: 1 << 20,
        writer: WriterSettings { batch_size: 1, queue_length: 1 },
        clock: Clock::System,
    };
    static TABLES: [&dyn Checked; 2] = [&META, &RELEASE];

    /// A snapshot of some hundred pages, and its report.
    fn snapshot_in(directory: &Path) -> (PathBuf, SnapshotReport) {
        let data = DataDirectory::lock(&directory.join("source")).unwrap();
        data.initialize([7; 16], || Ok([1; 8])).unwrap();
        let engine = RedbEngine::open(&data.store_file(), 1 << 20, None).unwrap();
        let mut tx = WriteTx::new(engine.begin_read().unwrap(), Quotas::UNLIMITED);
        for number in 0..=255_u8 {
            RELEASE.put(&mut tx, &number, &ReleaseRecord { version: format!("{number:1000}") }).unwrap();
        }
        engine.commit(tx.into_changes(), Durability::Now).unwrap();
        let path = directory.join("one.snapshot");
        let report = snapshot::write(&ReadTx::new(engine.begin_read().unwrap()), &path, &[]).unwrap();
        (path, report)
    }

    fn flip(path: &Path, at: u64, bit: u8) {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
    }

    fn names_in(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_damaged_snapshot_is_refused_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let (path, truth) = snapshot_in(directory.path());
        let length = std::fs::metadata(&path).unwrap().len();
        let (mut refused, mut harmless) = (0, 0);
        for place in 0..200_u64 {
            // Every fourth flip is in the first page, which contains the roots.
            let at = if place % 4 == 0 { place * 320 / 200 } else { (length - 1) * place / 199 };
            let damaged = directory.path().join("damaged");
            std::fs::copy(&path, &damaged).unwrap();
            flip(&damaged, at, (place % 8) as u8);
            let target = directory.path().join(format!("target-{place}"));
            let data = DataDirectory::lock(&target).unwrap();
            if let Err(error) = data.restore(&damaged, &TABLES, |_| Ok(())) {
                assert_eq!(names_in(&target), [LOCK_FILE], "byte {at}: {error}");
                refused += 1;
                continue;
            }
            let (store, _) = data.open_store(SETTINGS, None).unwrap();
            assert_eq!(store.read(snapshot::tally).unwrap().difference(&truth), None, "byte {at}");
            harmless += 1;
        }
        assert!(refused > 20 && harmless > 0, "{refused} refused, {harmless} did no harm");
    }

    #[test]
    fn a_snapshot_that_is_not_a_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::lock(&directory.path().join("target")).unwrap();
        for path in [directory.path(), Path::new("/dev/zero")] {
            let refused = data.restore(path, &TABLES, |_| Ok(())).unwrap_err();
            assert!(refused.to_string().contains("is not a file"), "{refused}");
        }
    }

    #[test]
    fn a_damaged_record_in_a_valid_page_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = snapshot_in(directory.path());
        let engine = RedbEngine::open(&path, 1 << 20, None).unwrap();
        let mut tx = WriteTx::new(engine.begin_read().unwrap(), Quotas::UNLIMITED);
        tx.raw_put(catalog::RELEASE.into(), vec![3], b"not a record".to_vec());
        engine.commit(tx.into_changes(), Durability::Now).unwrap();
        drop(engine);
        let data = DataDirectory::lock(&directory.path().join("target")).unwrap();
        let error = data.restore(&path, &TABLES, |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("cannot be restored: table release is damaged at key 03"), "{error}");
        assert_eq!(names_in(data.path()), [LOCK_FILE]);
    }

    #[test]
    fn a_killed_or_refused_restore_can_be_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let (path, truth) = snapshot_in(directory.path());
        let target = directory.path().join("target");
        let data = DataDirectory::lock(&target).unwrap();
        let refusal = || Err(StoreError::Installation("another key".to_owned()));
        assert!(data.restore(&path, &TABLES, |_| refusal()).unwrap_err().to_string().contains("another key"));
        assert_eq!(names_in(&target), [LOCK_FILE]);
        // What a killed process leaves behind: half a copy, or the marker with some of the files.
        for left in [&[NEW_STORE_FILE][..], &[NEW_STORE_FILE, MARKER_FILE], &[STORE_FILE, MARKER_FILE, JOURNAL_FILE]] {
            for name in left {
                std::fs::write(target.join(name), b"half").unwrap();
            }
            assert!(!data.is_initialized().unwrap());
            let report = data.restore(&path, &TABLES, |_| Ok(())).unwrap();
            assert_eq!(report.records, 257);
            assert_eq!(names_in(&target), [ID_FILE, LOCK_FILE, STORE_FILE]);
            let (store, _) = data.open_store(SETTINGS, None).unwrap();
            assert_eq!(store.read(snapshot::tally).unwrap().difference(&truth), None);
            drop(store);
            assert!(data.initialize([1; 16], || Ok([1; 8])).is_err());
            for name in [ID_FILE, STORE_FILE, JOURNAL_FILE, WITNESS_FILE] {
                std::fs::remove_file(target.join(name)).unwrap();
            }
        }
    }
}
