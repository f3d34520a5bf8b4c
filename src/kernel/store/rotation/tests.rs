//! Tests of rotations that are interrupted between any two steps, on real files. A killed process leaves what it had written, so
//! a copy of the directory of an open store is what the next process finds.

use std::path::Path;

use tenantd_base::secrets::{KeySource, SealError, Sealed, SealedPlace, Secret, TargetDigest, digest};

use super::*;
use crate::{DataDirectory, StoreSettings, WriterSettings, codec::assert_golden, write_private_file};

#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    note: String,
    secret: Sealed,
}

impl Record for Holder {
    const VERSION: u8 = 1;
}

fn place(key: &[u8]) -> SealedPlace<'_> {
    SealedPlace { tenant: &[1; 16], table: "holders", key, target: None }
}

impl SealedRecord<u32> for Holder {
    fn each_sealed(&mut self, key: &u32, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        visit(place(&key.to_be_bytes()), &mut self.secret)
    }
}

/// Two tables, the first of which needs several transactions.
static MANY: Table<u32, Holder> = Table::new(catalog::WEBHOOKS, &[]);
static FEW: Table<u32, Holder> = Table::new(catalog::CLOUD_PROVIDERS, &[]);
const COUNT: u32 = 250;

const SETTINGS: StoreSettings = StoreSettings {
    cache_bytes: 1 << 20,
    journal_bytes: 1 << 20,
    writer: WriterSettings { batch_size: 64, queue_length: 64 },
    clock: Clock::System,
};

struct Fixture {
    directory: tempfile::TempDir,
    _data: DataDirectory,
    rotation: Rotation,
}

fn key_file(directory: &Path) -> std::path::PathBuf {
    directory.join("installation.key")
}

fn holder(sealer: &Sealer, key: u32, entropy: &mut Entropy) -> Holder {
    let secret = Secret::new(format!("secret {key}"));
    Holder { note: "n".repeat(40), secret: sealer.seal(place(&key.to_be_bytes()), &secret, entropy).unwrap() }
}

async fn put(store: &Store, table: &'static Table<u32, Holder>, sealer: &Sealer, key: u32) {
    let sealer = sealer.clone();
    store.write(move |tx| table.put(tx, &key, &holder(&sealer, key, &mut Entropy::from_seed(key.into())))).await.unwrap();
}

/// Opens an installation as a start does.
fn open(directory: tempfile::TempDir, source: Option<KeySource>) -> Fixture {
    let data = DataDirectory::lock(directory.path()).unwrap();
    let source = source.unwrap_or(KeySource { path: key_file(directory.path()), may_create: true });
    if !data.is_initialized().unwrap() {
        let key = InstallationKey::generate(&mut Entropy::from_seed(1));
        data.initialize([7; 16], || {
            write_private_file(&source.path, key.to_file().as_bytes())?;
            Ok(key.fingerprint())
        })
        .unwrap();
    }
    let (store, _) = data.open_store(SETTINGS, None).unwrap();
    let files = KeyFiles::new(source, directory.path());
    let (_, sealer) = keys_in_force(&store, &files).unwrap();
    let rotation = Rotation { store, clock: Clock::System, sealer, files, tables: vec![&MANY, &FEW] };
    Fixture { directory, _data: data, rotation }
}

async fn filled() -> Fixture {
    let fixture = open(tempfile::tempdir().unwrap(), None);
    let Rotation { store, sealer, .. } = &fixture.rotation;
    let sealing = sealer.clone();
    let fill = move |tx: &mut WriteTx| {
        let mut entropy = Entropy::from_seed(9);
        (0..COUNT).try_for_each(|key| MANY.put(tx, &key, &holder(&sealing, key, &mut entropy)))
    };
    store.write(fill).await.unwrap();
    put(store, &FEW, sealer, 1).await;
    fixture
}

impl Fixture {
    /// What another process would find if this one were killed now.
    fn killed(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(self.directory.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "tenantd.lock" {
                std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
            }
        }
        copy
    }

    fn opens_all(&self, sealer: &Sealer) -> Result<u64, StoreError> {
        self.rotation.store.read(|tx| Ok(MANY.open_all(tx, sealer)? + FEW.open_all(tx, sealer)?))
    }

    async fn finish(&self) -> u32 {
        let mut steps = 1;
        while self.rotation.advance().await.unwrap() == Progress::More {
            steps += 1;
        }
        steps
    }

    fn fingerprint(&self) -> KeyFingerprint {
        self.rotation.status().unwrap().fingerprint
    }

    /// Asserts that nothing under the old key is left and everything is readable.
    fn is_under_another_key_than(&self, old: &InstallationKey) {
        let key = InstallationKey::load(&key_file(self.directory.path())).unwrap();
        assert_ne!(key.fingerprint(), old.fingerprint());
        assert_eq!(self.fingerprint(), key.fingerprint());
        assert_eq!(self.opens_all(&Sealer::new(&key)).unwrap(), u64::from(COUNT) + 1);
        assert!(self.rotation.status().unwrap().under_way.is_none());
        let old = old.to_file();
        for entry in std::fs::read_dir(self.directory.path()).unwrap() {
            let path = entry.unwrap().path();
            let held = std::fs::read(&path).unwrap();
            // The second line of the next key has the secret that signatures are derived from.
            let held = if path == key_file(self.directory.path()) { held[..64].to_vec() } else { held };
            assert!(!held.windows(64).any(|window| window == old.trim().as_bytes()), "{}", path.display());
        }
    }
}

fn first_key() -> InstallationKey {
    InstallationKey::generate(&mut Entropy::from_seed(1))
}

#[tokio::test]
async fn an_interrupted_rotation_continues_and_loses_no_secret() {
    let all = u64::from(COUNT) + 1;
    let fixture = filled().await;
    let mut cuts = vec![("nothing done", fixture.killed())];
    fixture.rotation.files.stage(&first_key(), &mut Entropy::from_seed(2)).unwrap();
    cuts.push(("the next key written", fixture.killed()));
    fixture.rotation.begin().await.unwrap();
    cuts.push(("begun", fixture.killed()));
    while fixture.rotation.advance().await.unwrap() == Progress::More {
        cuts.push(("some sealed again", fixture.killed()));
    }
    fixture.is_under_another_key_than(&first_key());
    // As if it were killed after the store names the next key and before the file is renamed.
    let cut = fixture.killed();
    std::fs::rename(key_file(cut.path()), cut.path().join("installation.key.next")).unwrap();
    std::fs::write(key_file(cut.path()), first_key().to_file().as_bytes()).unwrap();
    cuts.push(("the store done", cut));
    assert!(cuts.len() >= 7, "too few steps to cut between: {}", cuts.len());
    for (place, (when, cut)) in cuts.into_iter().enumerate() {
        let again = open(cut, None);
        assert_eq!(again.opens_all(&again.rotation.sealer).unwrap(), all, "cut {place}: {when}");
        let ended = when == "the store done";
        assert_eq!(again.fingerprint() == first_key().fingerprint(), !ended, "cut {place}: {when}");
        if !ended {
            again.rotation.begin().await.unwrap();
        }
        again.finish().await;
        again.is_under_another_key_than(&first_key());
    }
}

#[tokio::test]
async fn a_record_written_back_under_the_old_key_is_found() {
    let fixture = filled().await;
    fixture.rotation.begin().await.unwrap();
    assert_eq!(fixture.rotation.advance().await.unwrap(), Progress::More);
    put(&fixture.rotation.store, &FEW, &Sealer::new(&first_key()), 1).await;
    put(&fixture.rotation.store, &MANY, &Sealer::new(&first_key()), 0).await;
    fixture.finish().await;
    fixture.is_under_another_key_than(&first_key());
}

#[tokio::test]
async fn an_undeclared_table_stops_the_rotation() {
    let mut fixture = filled().await;
    fixture.rotation.tables = vec![&MANY];
    fixture.rotation.begin().await.unwrap();
    let mut outcome = fixture.rotation.advance().await;
    while let Ok(progress) = outcome {
        assert_eq!(progress, Progress::More);
        outcome = fixture.rotation.advance().await;
    }
    assert!(outcome.unwrap_err().to_string().contains("cloud_providers"));
    assert_eq!(InstallationKey::load(&key_file(fixture.directory.path())).unwrap().fingerprint(), first_key().fingerprint());
    let again = open(fixture.killed(), None);
    assert_eq!(again.opens_all(&again.rotation.sealer).unwrap(), u64::from(COUNT) + 1);
    again.finish().await;
    again.is_under_another_key_than(&first_key());
}

#[tokio::test]
async fn a_key_from_outside_is_not_overwritten() {
    let outside = tempfile::tempdir().unwrap();
    let source = KeySource { path: outside.path().join("credential"), may_create: false };
    let fixture = open(tempfile::tempdir().unwrap(), Some(source.clone()));
    put(&fixture.rotation.store, &FEW, &fixture.rotation.sealer, 1).await;
    fixture.rotation.begin().await.unwrap();
    fixture.finish().await;
    let operator_action = fixture.rotation.status().unwrap().operator_action.unwrap();
    assert!(operator_action.contains("installation.key.next") && operator_action.contains("credential"), "{operator_action}");
    assert_eq!(InstallationKey::load(&source.path).unwrap().fingerprint(), first_key().fingerprint());
    assert!(fixture.rotation.begin().await.unwrap_err().to_string().contains("holds the key in force"));
    let next = fixture.directory.path().join("installation.key.next");
    // Until the operator has done it, a start finds the key beside the store. Afterwards that file is removed.
    let again = open(fixture.killed(), Some(source.clone()));
    assert_eq!(again.opens_all(&again.rotation.sealer).unwrap(), 1);
    std::fs::copy(&next, &source.path).unwrap();
    let again = open(fixture.killed(), Some(source));
    assert_eq!(again.opens_all(&again.rotation.sealer).unwrap(), 1);
    assert!(!again.directory.path().join("installation.key.next").exists());
    assert_eq!(again.rotation.status().unwrap().operator_action, None);
}

#[tokio::test]
async fn a_rotation_names_its_missing_key() {
    let fixture = filled().await;
    fixture.rotation.begin().await.unwrap();
    fixture.rotation.advance().await.unwrap();
    let next = fixture.rotation.status().unwrap().under_way.unwrap().to;
    let cut = fixture.killed();
    std::fs::remove_file(cut.path().join("installation.key.next")).unwrap();
    let data = DataDirectory::lock(cut.path()).unwrap();
    let (store, _) = data.open_store(SETTINGS, None).unwrap();
    let files = KeyFiles::new(KeySource { path: key_file(cut.path()), may_create: true }, cut.path());
    let refused = keys_in_force(&store, &files).unwrap_err().to_string();
    assert!(refused.contains(&tenantd_base::secrets::show_fingerprint(next)), "{refused}");
}

/// A record whose secret is bound to the target in its note.
#[derive(Debug, Serialize, Deserialize)]
struct Bound(Holder);

impl Record for Bound {
    const VERSION: u8 = 1;
}

fn bound_place<'a>(key: &'a [u8], note: &str) -> SealedPlace<'a> {
    SealedPlace { target: Some(TargetDigest(digest(note.as_bytes()))), ..place(key) }
}

impl SealedRecord<u32> for Bound {
    fn each_sealed(&mut self, key: &u32, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        visit(bound_place(&key.to_be_bytes(), &self.0.note), &mut self.0.secret)
    }
}

static BOUND: Table<u32, Bound> = Table::new(catalog::IDENTITY_PROVIDERS, &[]);

#[tokio::test]
async fn old_secrets_are_bound_to_their_targets_once() {
    let mut fixture = open(tempfile::tempdir().unwrap(), None);
    fixture.rotation.tables = vec![&BOUND];
    let Rotation { store, sealer, .. } = &fixture.rotation;
    let sealing = sealer.clone();
    let fill = move |tx: &mut WriteTx| {
        let mut entropy = Entropy::from_seed(9);
        (0..COUNT).try_for_each(|key| BOUND.put(tx, &key, &Bound(holder(&sealing, key, &mut entropy))))
    };
    store.write(fill).await.unwrap();
    let opens = |key: u32, note: &str| {
        let record = store.read(|tx| BOUND.get(tx, &key)).unwrap().unwrap().0;
        let note = if note.is_empty() { record.note.clone() } else { note.to_owned() };
        sealer.open(bound_place(&key.to_be_bytes(), &note), &record.secret).is_ok()
    };
    assert!(!opens(3, ""));
    assert_eq!(store.read(|tx| BOUND.open_all(tx, sealer)).unwrap(), u64::from(COUNT));
    assert_eq!(fixture.rotation.bind_targets().await.unwrap(), u64::from(COUNT));
    assert!((0..COUNT).all(|key| opens(key, "")));
    assert!(!opens(3, "another target"));
    assert_eq!(fixture.rotation.bind_targets().await.unwrap(), 0);
}

#[test]
fn the_stored_form_matches_the_golden_file() {
    let record = RotationRecord {
        from: [1; 8],
        to: [2; 8],
        started_at: Timestamp::from_millis(1_767_225_600_000),
        resealed: 300,
        in_this_walk: 100,
        position: ("webhooks".to_owned(), vec![1, 2]),
    };
    assert_golden("key_rotation", &record);
}
