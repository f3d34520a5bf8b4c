//! Continues without the data that a damaged journal has lost. The damaged files are kept, the loss is recorded exactly, and no
//! lost number is used again.
//!
//! **Invariant:** an interrupted repair can be started again. The files are copied before anything changes, the store's file
//! changes in one commit, and the damaged files are removed last.

use std::path::{Path, PathBuf};

use serde::Serialize;

use tenantd_base::{clock::Timestamp, entropy::quick_bytes, quotas::Quotas};

use super::{
    DataDirectory, Installation, KeyFingerprint, StoreError, StoreSettings,
    events::{self, Event},
    installation::{io_error, sync_directory, write_private_file},
    journal::Position,
    recovery::{self, Damage, StoreState},
    redb_engine::snapshot_of,
    redb_file::{Mark, RedbFile},
    transaction::{ReadTx, WriteTx},
    usage,
};

/// A lost event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostEvent {
    pub place: u64,
    pub id: String,
    pub tenant_id: String,
    pub kind: String,
    pub at: Timestamp,
    pub number: u64,
}

impl LostEvent {
    fn of(event: &Event) -> Self {
        let record = &event.record;
        Self {
            place: event.seq,
            id: record.id.to_string(),
            tenant_id: record.tenant_id.to_string(),
            kind: record.kind.clone(),
            at: record.at,
            number: record.number,
        }
    }
}

/// The loss that a repair accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    pub problem: String,
    /// How many commits were on the disk and are no longer readable. `None` if it is unknown whether any are lost.
    pub commits: Option<u64>,
    /// The places of the lost events in the log, first and last.
    pub places: Option<(u64, u64)>,
    /// The lost events that are still readable.
    pub events: Vec<LostEvent>,
    /// The fingerprint of the installation key that the store needs without the lost data. A key rotation may be among the lost
    /// commits.
    #[serde(skip)]
    pub key_fingerprint: KeyFingerprint,
    /// The directory of the damaged files.
    pub evidence: PathBuf,
}

impl DataDirectory {
    /// Returns what a repair would lose. `None` if nothing is damaged.
    pub fn examine(&self, settings: StoreSettings, now: Timestamp) -> Result<Option<Loss>, StoreError> {
        self.readable(|| self.examine_files(settings, now))
    }

    fn examine_files(&self, settings: StoreSettings, now: Timestamp) -> Result<Option<Loss>, StoreError> {
        let file = RedbFile::open_on(self.volume(), &self.store_file(), settings.cache_bytes, None)?;
        let StoreState { unflushed, damage, .. } = self.read_files(&file, &settings)?;
        let Some(damage) = damage else { return Ok(None) };
        let tx = ReadTx::new(Box::new(snapshot_of(&file, unflushed)?));
        self.accept(&tx)?;
        self.loss(&tx, &damage, now).map(Some)
    }

    /// Gives up the lost data. `record_loss` records the loss in the store, in the same commit. Returns `None` if nothing is
    /// damaged.
    pub fn repair(
        &self,
        settings: StoreSettings,
        now: Timestamp,
        record_loss: impl FnOnce(&mut WriteTx, &Loss) -> Result<(), StoreError>,
    ) -> Result<Option<Loss>, StoreError> {
        let file = RedbFile::open_on(self.volume(), &self.store_file(), settings.cache_bytes, None)?;
        let StoreState { mut unflushed, mark, damage, .. } = self.read_files(&file, &settings)?;
        let Some(damage) = damage else { return Ok(None) };
        let tx = ReadTx::new(Box::new(snapshot_of(&file, unflushed.clone())?));
        self.accept(&tx)?;
        let loss = self.loss(&tx, &damage, now)?;
        self.keep_evidence(&loss)?;
        let mut tx = WriteTx::new(Box::new(snapshot_of(&file, unflushed.clone())?), Quotas::UNLIMITED);
        events::fill_lost_places(&mut tx, damage.lost.as_ref().map(|_| damage.log_end), now)?;
        record_loss(&mut tx, &loss)?;
        usage::settle(&mut tx)?;
        unflushed.add_batch(tx.into_changes());
        // The repair changes the history, so no segment may continue the old one.
        self.outgoing().set_incomplete()?;
        let last = damage.lost.as_ref().map_or(mark.number, |lost| *lost.end());
        let before = Position::root(mark.commit(last).number);
        file.apply(&unflushed, Some(Mark { id: quick_bytes(), number: 0, closed: true, before }))?;
        let files = self.journal_files(settings.journal_bytes);
        for path in [&files.journal, &files.witness] {
            remove(path)?;
        }
        sync_directory(self.path())?;
        Ok(Some(loss))
    }

    fn read_files(&self, file: &RedbFile, settings: &StoreSettings) -> Result<StoreState, StoreError> {
        let side_files = self.journal_files(settings.journal_bytes).open()?;
        recovery::examine(file.mark()?, side_files.journal.as_ref(), side_files.witness.as_ref())
    }

    fn loss(&self, tx: &ReadTx, damage: &Damage, now: Timestamp) -> Result<Loss, StoreError> {
        let head = events::head(tx)?;
        let events: Vec<LostEvent> =
            damage.readable.iter().flat_map(events::events_in).map(|event| LostEvent::of(&event)).collect();
        let stamp = now.to_string().replace([':', '.'], "-");
        Ok(Loss {
            problem: damage.problem.clone(),
            commits: damage.lost.as_ref().map(|lost| lost.end() - lost.start() + 1),
            places: (damage.log_end > head).then_some((head + 1, damage.log_end)),
            events,
            key_fingerprint: Installation::read(tx)?.key_fingerprint,
            evidence: self.path().join(format!("damaged-{stamp}")),
        })
    }

    /// Copies the damaged files and writes a report of the loss beside them.
    fn keep_evidence(&self, loss: &Loss) -> Result<(), StoreError> {
        use std::os::unix::fs::DirBuilderExt;
        let place = &loss.evidence;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(|error| io_error(place, &error))?;
        let files = self.journal_files(0);
        for path in [&files.journal, &files.witness] {
            let Some(name) = path.file_name().filter(|_| path.exists()) else { continue };
            let copy = place.join(name);
            std::fs::copy(path, &copy).map_err(|error| io_error(&copy, &error))?;
            std::fs::File::open(&copy).and_then(|copy| copy.sync_all()).map_err(|error| io_error(&copy, &error))?;
        }
        let account = serde_json::to_vec_pretty(loss).map_err(StoreError::engine)?;
        write_private_file(&place.join("loss.json"), &account)?;
        sync_directory(self.path())
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use serde_json::value::RawValue;

    use tenantd_base::{access::Grants, clock::Clock, id::TenantId};

    use super::*;
    use crate::{
        Store, WriterSettings,
        events::{Actor, Draft, EventKind, Intent},
    };

    const SETTINGS: StoreSettings = StoreSettings {
        cache_bytes: 1 << 20,
        journal_bytes: 1 << 20,
        writer: WriterSettings { batch_size: 1, queue_length: 8 },
        clock: Clock::System,
    };
    const NOW: Timestamp = Timestamp::EPOCH;
    const FILES: [&str; 4] = ["tenantd.redb", "tenantd.journal", "tenantd.witness", "installation.id"];
    static HAPPENED: EventKind = EventKind {
        name: "thing.happened",
        summary: "",
        subject: "thing",
        schema: "Thing",
        reads: Grants::NONE,
        has_changes: false,
    };

    fn append(tx: &mut WriteTx) -> Result<u64, StoreError> {
        let data = RawValue::from_string("{}".to_owned()).map_err(StoreError::engine)?;
        let mut act = Intent::new(TenantId::from_bytes([3; 16]), NOW, Actor::system("test")).begin();
        events::append(tx, &mut act, &Draft::new(&HAPPENED, "thing_1".to_owned(), 1, &data))
    }

    fn record_loss(tx: &mut WriteTx, _: &Loss) -> Result<(), StoreError> {
        append(tx).map(drop)
    }

    /// A directory left by a process that was killed after it acknowledged `events` events, each in its own commit.
    async fn killed(events: u64) -> (tempfile::TempDir, DataDirectory) {
        let (living, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let data = DataDirectory::lock(living.path()).unwrap();
        data.initialize([7; 16], || Ok([1; 8])).unwrap();
        let (store, _) = data.open_store(SETTINGS, None).unwrap();
        for _ in 0..events {
            store.write(append).await.unwrap();
        }
        for file in FILES {
            std::fs::copy(living.path().join(file), left.path().join(file)).unwrap();
        }
        let data = DataDirectory::lock(left.path()).unwrap();
        (left, data)
    }

    fn flip(path: &Path, place: u64) {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, place).unwrap();
        file.write_all_at(&[byte[0] ^ 4], place).unwrap();
    }

    fn places(store: &Store) -> Vec<(u64, bool)> {
        let read = store.read(|tx| events::read_batch(tx, 0, 100)).unwrap();
        read.iter().map(|event| (event.seq, event.record.is_erased())).collect()
    }

    #[tokio::test]
    async fn the_loss_is_exact_and_its_numbers_are_not_reused() {
        let (directory, data) = killed(10).await;
        assert_eq!(data.examine(SETTINGS, NOW).unwrap(), None);
        // This byte is in the seventh frame. The head has its own block.
        flip(&directory.path().join("tenantd.journal"), 7 * 4096 + 100);
        let refused = data.open_store(SETTINGS, None).unwrap_err().to_string();
        assert!(refused.contains("4 commits") && refused.contains("tenantd repair --accept-loss"), "{refused}");

        let loss = data.examine(SETTINGS, NOW).unwrap().unwrap();
        assert_eq!((loss.commits, loss.places), (Some(4), Some((7, 10))));
        assert_eq!(loss.events.iter().map(|event| event.place).collect::<Vec<_>>(), [8, 9, 10], "the seventh cannot be read");
        assert!(data.open_store(SETTINGS, None).is_err() && !loss.evidence.exists(), "examining changes nothing");

        let damaged = std::fs::read(directory.path().join("tenantd.journal")).unwrap();
        assert_eq!(data.repair(SETTINGS, NOW, record_loss).unwrap(), Some(loss.clone()));
        assert_eq!(std::fs::read(loss.evidence.join("tenantd.journal")).unwrap(), damaged);
        let account: serde_json::Value = serde_json::from_slice(&std::fs::read(loss.evidence.join("loss.json")).unwrap()).unwrap();
        assert_eq!(account["events"].as_array().unwrap().len(), 3);

        let (store, _) = data.open_store(SETTINGS, None).unwrap();
        let expected = (1..=6).map(|place| (place, false)).chain((7..=10).map(|place| (place, true))).chain([(11, false)]);
        assert_eq!(places(&store), expected.collect::<Vec<_>>());
        assert_eq!(store.write(append).await.unwrap(), 12, "no tenant sees a number twice");
        assert!(store.check(events::tables()).await.unwrap().is_clean());
        drop(store);
        assert_eq!(data.repair(SETTINGS, NOW, record_loss).unwrap(), None);
    }

    #[tokio::test]
    async fn an_interrupted_repair_can_be_repeated() {
        let (directory, data) = killed(5).await;
        flip(&directory.path().join("tenantd.journal"), 5 * 4096 + 100);
        let loss = data.repair(SETTINGS, NOW, record_loss).unwrap().unwrap();
        assert_eq!((loss.commits, loss.places, loss.events), (Some(1), Some((5, 5)), Vec::new()));
        // As if the process had ended before it removed the damaged files.
        for file in ["tenantd.journal", "tenantd.witness"] {
            std::fs::copy(loss.evidence.join(file), directory.path().join(file)).unwrap();
        }
        assert!(data.open_store(SETTINGS, None).is_err());
        data.repair(SETTINGS, NOW, record_loss).unwrap().unwrap();
        let (store, _) = data.open_store(SETTINGS, None).unwrap();
        assert_eq!(places(&store), [(1, false), (2, false), (3, false), (4, false), (5, true), (6, false), (7, false)]);
    }

    #[tokio::test]
    async fn a_lost_witness_is_reported_and_loses_nothing() {
        let (directory, data) = killed(3).await;
        std::fs::remove_file(directory.path().join("tenantd.witness")).unwrap();
        assert!(data.open_store(SETTINGS, None).unwrap_err().to_string().contains("tenantd.witness is missing"));
        let loss = data.repair(SETTINGS, NOW, |_, _| Ok(())).unwrap().unwrap();
        assert_eq!((loss.commits, loss.places), (None, None));
        let (store, _) = data.open_store(SETTINGS, None).unwrap();
        assert_eq!(places(&store).len(), 3);
        assert!(store.write(append).await.unwrap() > 1_000_000, "it is unknown how many numbers were used");
    }

    #[tokio::test]
    async fn nothing_is_written_to_the_store_of_another_installation() {
        let (directory, data) = killed(3).await;
        std::fs::write(directory.path().join("installation.id"), "00".repeat(16)).unwrap();
        let before = std::fs::read(directory.path().join("tenantd.journal")).unwrap();
        let refused = data.open_store(SETTINGS, None).unwrap_err().to_string();
        assert!(refused.contains("belong to different installations"), "{refused}");
        assert_eq!(std::fs::read(directory.path().join("tenantd.journal")).unwrap(), before);
        assert!(data.repair(SETTINGS, NOW, record_loss).is_err() || data.examine(SETTINGS, NOW).unwrap().is_none());
    }
}
