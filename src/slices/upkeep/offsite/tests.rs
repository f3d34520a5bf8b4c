//! Backups in a directory: written, listed, fetched, tampered with and removed.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use tenantd_base::{
    clock::Timestamp,
    config::{self, Config},
    entropy::Entropy,
    secrets::{
        InstallationKey,
        age::{Identity, Recipient},
    },
};

use tenantd_store::{Position, SegmentName};

use super::{
    commits,
    error::OffsiteError,
    manifest::{self, FoundManifest, Manifest, StoredObject, StoredSnapshot},
    place::{OffsitePlace, new_id},
    retention::Retention,
};

const INSTALLATION: &str = "000102030405060708090a0b0c0d0e0f";
const HOUR: i64 = 3_600_000;
const KEPT: Retention = Retention { last: 2, daily: 0, weekly: 0, monthly: 0 };

struct Fixture {
    directory: tempfile::TempDir,
    place: OffsitePlace,
    key: InstallationKey,
    identity: Identity,
}

fn at(hours: i64) -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000 + hours * HOUR)
}

fn settings(url: String) -> Config {
    let mut config = config::load(None, [], &[]).unwrap();
    config.offsite.url = Some(url);
    config
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("place")).unwrap();
        let config = settings(format!("file://{}/place", directory.path().display()));
        let mut entropy = Entropy::from_seed(3);
        Self {
            place: OffsitePlace::configured(&config).unwrap(),
            key: InstallationKey::generate(&mut entropy),
            identity: Identity::generate(&mut entropy),
            directory,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn backup(&self, id: &str) -> PathBuf {
        self.file("place").join(INSTALLATION).join("snapshots").join(id)
    }

    /// A snapshot that needs several parts and several pieces.
    fn snapshot(&self) -> (PathBuf, Vec<u8>) {
        let content: Vec<u8> = (0..=250).cycle().take(9_000_000).collect();
        let file = self.file("snapshot");
        std::fs::write(&file, &content).unwrap();
        (file, content)
    }

    fn draft(hours: i64, position: Position) -> Manifest {
        Manifest {
            format: manifest::FORMAT,
            id: new_id(at(hours), [1, 2, 3, 4]),
            installation_id: INSTALLATION.to_owned(),
            number: u64::try_from(1000 + hours).unwrap(),
            created_at: at(hours),
            release: "0.1.0".to_owned(),
            store_format: 1,
            key_fingerprint: "00".repeat(8),
            position: position.to_string(),
            holds_until: at(hours),
            left_branches: BTreeSet::new(),
            recipients: Vec::new(),
            object: StoredObject { name: "snapshot.age".to_owned(), bytes: 0, sha256: String::new() },
            snapshot: StoredSnapshot { bytes: 0, sha256: String::new(), tables: 40, records: 900, digest: "00".repeat(32) },
        }
    }

    async fn put(&self, hours: i64, file: &Path, recipients: &[Recipient]) -> Manifest {
        self.put_draft(Self::draft(hours, Position::default()), file, recipients).await
    }

    /// A backup that ends with this commit.
    async fn put_at(&self, hours: i64, position: Position) -> Manifest {
        let file = self.file("small");
        std::fs::write(&file, "snapshot").unwrap();
        self.put_draft(Self::draft(hours, position), &file, &[]).await
    }

    async fn put_draft(&self, draft: Manifest, file: &Path, recipients: &[Recipient]) -> Manifest {
        let signer = manifest::signer(&self.key).unwrap();
        self.place.put(draft, file, recipients, &signer).await.unwrap()
    }

    async fn put_small(&self, hours: i64) -> Manifest {
        let file = self.file("small");
        std::fs::write(&file, format!("snapshot of hour {hours}")).unwrap();
        self.put(hours, &file, &[self.identity.recipient()]).await
    }

    async fn fetch(&self, manifest: &Manifest) -> Result<Vec<u8>, OffsiteError> {
        let file = self.file("fetched");
        let identities = manifest.is_encrypted().then(|| vec![self.identity.clone()]);
        let fetched = self.place.fetch(manifest, identities, &file).await;
        assert_eq!(file.exists(), fetched.is_ok(), "a failed fetch leaves no file");
        fetched.map(|()| {
            let content = std::fs::read(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            content
        })
    }

    async fn ids(&self) -> Vec<String> {
        self.place.list().await.unwrap().iter().filter(|entry| entry.manifest().is_some()).map(|entry| entry.id.clone()).collect()
    }
}

#[tokio::test]
async fn a_backup_is_encrypted_and_restored_unchanged() {
    let fixture = Fixture::new();
    let (file, content) = fixture.snapshot();
    for recipients in [vec![fixture.identity.recipient()], vec![]] {
        let encrypted = !recipients.is_empty();
        let put = fixture.put(i64::from(encrypted), &file, &recipients).await;
        let stored = std::fs::read(fixture.backup(&put.id).join("snapshot.age")).unwrap();
        assert_eq!(stored.len() as u64, put.object.bytes);
        assert_eq!(stored == content, !encrypted);
        assert_eq!((put.snapshot.bytes, put.is_encrypted()), (content.len() as u64, encrypted));
        let found = fixture.place.find(Some(&put.id), None, &fixture.key).await.unwrap();
        assert_eq!(found, std::slice::from_ref(&put));
        assert!(fixture.fetch(&put).await.unwrap() == content);
    }
}

#[tokio::test]
async fn the_newest_backup_of_this_installation_key_is_found() {
    let fixture = Fixture::new();
    assert!(matches!(fixture.place.find(None, None, &fixture.key).await, Err(OffsiteError::NotFound(_))));
    let (older, newer) = (fixture.put_small(1).await, fixture.put_small(2).await);
    assert_eq!(fixture.place.find(None, None, &fixture.key).await.unwrap(), [newer.clone(), older.clone()]);
    assert_eq!(fixture.place.find(Some(&older.id), None, &fixture.key).await.unwrap(), [older]);
    let other = InstallationKey::generate(&mut Entropy::from_seed(9));
    assert!(matches!(fixture.place.find(None, None, &other).await, Err(OffsiteError::NotFound(_))));
    let refused = fixture.place.find(Some(&newer.id), None, &other).await.unwrap_err();
    assert!(refused.to_string().contains("not signed"), "{refused}");
}

#[tokio::test]
async fn a_changed_object_or_manifest_is_refused() {
    let fixture = Fixture::new();
    let put = fixture.put_small(1).await;
    let (object, manifest) = (fixture.backup(&put.id).join("snapshot.age"), fixture.backup(&put.id).join("manifest.json"));
    let stored = std::fs::read(&object).unwrap();
    let mut changed = stored.clone();
    *changed.last_mut().unwrap() ^= 1;
    for wrong in [changed, stored[..stored.len() - 1].to_vec(), Vec::new()] {
        std::fs::write(&object, wrong).unwrap();
        assert!(fixture.fetch(&put).await.is_err());
    }
    // Anyone who knows the recipient can write a file that decrypts, but not one with the same digest.
    let forged = fixture.put_small(2).await;
    std::fs::copy(fixture.backup(&forged.id).join("snapshot.age"), &object).unwrap();
    assert!(matches!(fixture.fetch(&put).await, Err(OffsiteError::Different(_))));
    std::fs::write(&object, stored).unwrap();
    assert_eq!(fixture.fetch(&put).await.unwrap(), b"snapshot of hour 1");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"records\":900", "\"records\":901")).unwrap();
    assert!(fixture.place.find(Some(&put.id), None, &fixture.key).await.is_err());
    // The signed manifest of another backup does not count either.
    std::fs::copy(fixture.backup(&forged.id).join("manifest.json"), &manifest).unwrap();
    let refused = fixture.place.find(Some(&put.id), None, &fixture.key).await.unwrap_err();
    assert!(refused.to_string().contains("belongs to backup"), "{refused}");
}

/// Backups are read years later, so this format must stay readable.
#[test]
fn the_manifest_format_is_unchanged() {
    let manifest = Manifest {
        format: manifest::FORMAT,
        id: "20260101T000000Z-01020304".to_owned(),
        installation_id: INSTALLATION.to_owned(),
        number: 12,
        created_at: at(0),
        release: "0.1.0".to_owned(),
        store_format: 3,
        key_fingerprint: "0011223344556677".to_owned(),
        position: format!("{}-7", "ab".repeat(16)),
        holds_until: at(1),
        left_branches: BTreeSet::from(["cd".repeat(16)]),
        recipients: vec!["age1x".to_owned()],
        object: StoredObject { name: "snapshot.age".to_owned(), bytes: 2, sha256: "aa".to_owned() },
        snapshot: StoredSnapshot { bytes: 1, sha256: "bb".to_owned(), tables: 40, records: 900, digest: "cc".to_owned() },
    };
    let signer = manifest::signer(&InstallationKey::parse(&"07".repeat(32)).unwrap()).unwrap();
    let written = include_str!("manifest.json").trim_end();
    assert_eq!(String::from_utf8(manifest::write(&manifest, &signer).unwrap()).unwrap(), written);
    let found = FoundManifest::parse(&manifest.id, written.as_bytes()).unwrap();
    assert_eq!(found.verify(&signer.public_key().unwrap()).unwrap(), &manifest);
    assert!(FoundManifest::parse(&manifest.id, written.replace("\"format\":1", "\"format\":2").as_bytes()).is_err());
}

#[tokio::test]
async fn the_restorable_time_keeps_its_backup_and_commits() {
    let fixture = Fixture::new();
    let signer = std::sync::Arc::new(commits::signer(&fixture.key).unwrap());
    let key = manifest::signer(&fixture.key).unwrap().public_key().unwrap();
    for hour in 0..6_u64 {
        let hours = i64::try_from(hour).unwrap();
        fixture.put_at(hours, Position { journal: [7; 16], number: hour * 10 }).await;
        let (first, last) = (hour * 10 + 1, hour * 10 + 10);
        let name =
            SegmentName { first, last, since: at(hours), until: at(hours + 1), journal: [7; 16], before: Position::default() };
        fixture.place.put_commits((INSTALLATION, name), b"commits".to_vec(), &[], &signer).await.unwrap();
    }
    let segments = || std::fs::read_dir(fixture.file("place").join(INSTALLATION).join("journal")).unwrap().count();
    // The last two are always kept. Hour 2 is the newest backup that is older than the restorable time.
    let since = Timestamp::from_millis(at(2).as_millis() + HOUR / 2);
    assert_eq!(fixture.place.remove_surplus(INSTALLATION, &key, KEPT, (at(6), since)).await.unwrap(), 3);
    let expected: Vec<String> = [2, 4, 5].map(|hours| new_id(at(hours), [1, 2, 3, 4])).to_vec();
    assert_eq!((fixture.ids().await, segments()), (expected, 4));
    assert_eq!(fixture.place.remove_surplus(INSTALLATION, &key, KEPT, (at(6), since)).await.unwrap(), 0);
    assert_eq!(fixture.place.remove_surplus(INSTALLATION, &key, KEPT, (at(6), at(6))).await.unwrap(), 1);
    assert_eq!(segments(), 1);
}

#[tokio::test]
async fn a_backup_after_lost_commits_is_kept() {
    let fixture = Fixture::new();
    let key = manifest::signer(&fixture.key).unwrap().public_key().unwrap();
    let signer = std::sync::Arc::new(commits::signer(&fixture.key).unwrap());
    let commit = |number: u64| Position { journal: [7; 16], number };
    let segments = async |commits: std::ops::RangeInclusive<u64>| {
        let (first, last) = (*commits.start(), *commits.end());
        let name = SegmentName { first, last, since: at(0), until: at(0), journal: [7; 16], before: Position::default() };
        fixture.place.put_commits((INSTALLATION, name), b"commits".to_vec(), &[], &signer).await.unwrap();
    };
    // Commits 21 to 29 were lost.
    for (hours, number) in [(0, 1), (1, 10), (2, 30), (3, 40), (4, 50), (5, 60)] {
        fixture.put_at(hours, commit(number)).await;
    }
    segments(1..=20).await;
    segments(30..=60).await;
    assert_eq!(fixture.place.remove_surplus(INSTALLATION, &key, KEPT, (at(6), at(-99))).await.unwrap(), 2);
    let expected: Vec<String> = [0, 2, 4, 5].map(|hours| new_id(at(hours), [1, 2, 3, 4])).to_vec();
    assert_eq!(fixture.ids().await, expected, "the oldest, the one after the loss, and the last two");
}

#[tokio::test]
async fn the_newest_backup_does_not_depend_on_the_clock() {
    let fixture = Fixture::new();
    let signer = std::sync::Arc::new(commits::signer(&fixture.key).unwrap());
    let commits = async |journal: u8, before: Position, numbers: (u64, u64), hours: i64| {
        let ((first, last), at) = (numbers, at(hours));
        let name = SegmentName { first, last, since: at, until: at, journal: [journal; 16], before };
        fixture.place.put_commits((INSTALLATION, name), b"commits".to_vec(), &[], &signer).await.unwrap();
    };
    let put = async |number: u64, hours: i64, position: Position, left: &[u8]| {
        let left_branches = left.iter().map(|journal| format!("{journal:02x}").repeat(16)).collect();
        let draft = Manifest { number, left_branches, ..Fixture::draft(hours, position) };
        let file = fixture.file("small");
        std::fs::write(&file, "snapshot").unwrap();
        fixture.put_draft(draft, &file, &[]).await
    };
    let commit = |journal: u8, number: u64| Position { journal: [journal; 16], number };
    // In journal 2 the clock is a year ahead. Then a copy from commit 15 is put back, and journal 3 has the right time.
    let first = put(1, 0, commit(1, 10), &[]).await;
    commits(1, Position::default(), (1, 20), 1).await;
    commits(2, commit(1, 20), (21, 40), 9000).await;
    let ahead = put(2, 9001, commit(2, 30), &[]).await;
    commits(3, commit(1, 15), (16, 30), 2).await;
    let found = fixture.place.find(None, None, &fixture.key).await.unwrap();
    let route = fixture.place.route(found, Timestamp::LATEST).await.unwrap().unwrap();
    let journals: Vec<u8> = route.plan.steps.iter().map(|step| step.segment.journal[0]).collect();
    assert_eq!((&route.manifest.id, journals), (&first.id, vec![1, 3]), "before the new branch has a backup");
    let newest = put(3, 3, commit(3, 25), &[2]).await;
    let found = fixture.place.find(None, None, &fixture.key).await.unwrap();
    assert_eq!(found, [newest.clone(), ahead.clone(), first.clone()]);
    assert_eq!(fixture.ids().await, [first.id, ahead.id, newest.id.clone()]);
    let route = fixture.place.route(found, Timestamp::LATEST).await.unwrap().unwrap();
    let reached = fixture.place.bring_forward(&route, &fixture.file("small"), None, &fixture.key).await;
    assert_eq!(route.manifest.id, newest.id, "{reached:?}");
}

#[tokio::test]
async fn a_backup_without_a_manifest_does_not_count() {
    let fixture = Fixture::new();
    let put = fixture.put_small(1).await;
    std::fs::remove_file(fixture.backup(&put.id).join("manifest.json")).unwrap();
    assert_eq!(fixture.ids().await, Vec::<String>::new());
    let entries = fixture.place.list().await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.problem()).collect::<Vec<_>>(), [Some("unfinished")]);
    assert!(fixture.place.find(None, None, &fixture.key).await.is_err());
}

#[tokio::test]
async fn retention_removes_only_backups_of_this_installation() {
    let fixture = Fixture::new();
    let key = manifest::signer(&fixture.key).unwrap().public_key().unwrap();
    let mut ids = Vec::new();
    for hours in 0..4 {
        ids.push(fixture.put_small(hours).await.id);
    }
    // An abandoned backup with staged files, one in progress, and one whose manifest was changed.
    let (abandoned, under_way) = (new_id(at(-48), [0; 4]), new_id(at(3), [0; 4]));
    for id in [&abandoned, &under_way] {
        std::fs::create_dir(fixture.backup(id)).unwrap();
        std::fs::write(fixture.backup(id).join("snapshot.age#1"), "staged").unwrap();
    }
    let changed = fixture.put_small(-100).await.id;
    let manifest = fixture.backup(&changed).join("manifest.json");
    std::fs::write(&manifest, std::fs::read_to_string(&manifest).unwrap().replace("0.1.0", "0.1.1")).unwrap();
    assert_eq!(fixture.place.remove_surplus(INSTALLATION, &key, KEPT, (at(4), at(4))).await.unwrap(), 3);
    let left = |id: &str| fixture.backup(id).exists();
    assert_eq!(ids.iter().map(|id| left(id)).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!((left(&abandoned), left(&under_way), left(&changed)), (false, true, true));
    assert_eq!(fixture.place.remove_surplus(INSTALLATION, &key, KEPT, (at(4), at(4))).await.unwrap(), 0);
}

#[tokio::test]
async fn a_missing_place_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let missing = OffsitePlace::configured(&settings(format!("file://{}/missing", directory.path().display()))).unwrap();
    assert!(missing.list().await.is_err());
    let mut bucket = settings("s3://bucket/tenantd".to_owned());
    bucket.offsite.credentials_file = Some(directory.path().join("credentials"));
    let refused = OffsitePlace::configured(&bucket).unwrap().list().await.unwrap_err();
    assert!(refused.to_string().contains("credentials"), "{refused}");
}

#[tokio::test]
async fn links_and_pipes_in_the_place_are_not_followed() {
    let fixture = Fixture::new();
    let key = manifest::signer(&fixture.key).unwrap().public_key().unwrap();
    let mut ids = Vec::new();
    for hours in 0..4 {
        ids.push(fixture.put_small(hours).await.id);
    }
    // The oldest backup is a link to a copy elsewhere. The next one contains a link to a foreign directory.
    let elsewhere = fixture.file("elsewhere");
    std::fs::rename(fixture.backup(&ids[0]), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, fixture.backup(&ids[0])).unwrap();
    let precious = fixture.file("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("file"), "kept").unwrap();
    std::os::unix::fs::symlink(&precious, fixture.backup(&ids[1]).join("link")).unwrap();
    let pipe = fixture.backup(&new_id(at(-1), [0; 4]));
    std::fs::create_dir(&pipe).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, pipe.join("manifest.json"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(fixture.place.remove_surplus(INSTALLATION, &key, KEPT, (at(4), at(4))).await.unwrap(), 1);
    assert!(!fixture.backup(&ids[1]).exists());
    assert_eq!(std::fs::read_to_string(precious.join("file")).unwrap(), "kept");
    assert!(elsewhere.join("manifest.json").exists() && elsewhere.join("snapshot.age").exists());
    // Nothing is read through a link.
    let snapshots = fixture.backup("x").parent().unwrap().to_owned();
    std::fs::rename(&snapshots, fixture.file("moved")).unwrap();
    std::os::unix::fs::symlink(&precious, &snapshots).unwrap();
    assert!(fixture.place.find(None, None, &fixture.key).await.is_err());
    assert_eq!(std::fs::read_dir(&precious).unwrap().count(), 1);
}
