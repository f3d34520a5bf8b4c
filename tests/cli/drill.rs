//! `tenantd drill`: reports how long a restore takes or why it fails, and leaves nothing behind.

use serde_json::Value;

use crate::{Server, damage, refused, tenantd, text};

#[test]
fn a_drill_restores_the_newest_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data);
    let snapshots = data.join("snapshots");
    let without = refused(&server.run(&["drill"]), 1);
    assert!(without.contains("snapshots"), "{without}");
    std::fs::create_dir(&snapshots).unwrap();
    let path = snapshots.display().to_string();
    let taken = server.json(&["backup", "--directory", &path]);
    let report = server.json(&["drill"]);
    assert_eq!((&report["file"], &report["records"]), (&taken["path"], &taken["records"]));
    assert!(report["restore_seconds"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["recorded"], true);
    let left: Vec<_> = std::fs::read_dir(&snapshots).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(server.stop(), Some(0));
    let file = taken["path"].as_str().unwrap();
    let offline = tenantd(&["drill", file, "--data-dir", &data.display().to_string(), "--json"]).output().unwrap();
    let offline: Value = serde_json::from_slice(&offline.stdout).unwrap_or_else(|_| panic!("{}", text(&offline.stderr)));
    assert_eq!((&offline["records"], &offline["recorded"]), (&taken["records"], &Value::Bool(false)));
}

#[test]
fn damaged_and_foreign_snapshots_fail_the_drill() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data);
    let snapshot = directory.path().join("one.snapshot");
    let path = snapshot.display().to_string();
    server.json(&["backup", &path]);
    let other_key = directory.path().join("other.key");
    std::fs::write(&other_key, "ab".repeat(32)).unwrap();
    let wrong = refused(&server.run(&["drill", &path, "--installation-key", &other_key.display().to_string()]), 1);
    assert!(wrong.contains("is not the key of this snapshot"), "{wrong}");
    damage(&snapshot);
    let damaged = refused(&server.run(&["drill", &path]), 1);
    assert!(damaged.contains("damaged"), "{damaged}");
    let (other, key) = (tempfile::tempdir().unwrap(), data.join("installation.key").display().to_string());
    let target = other.path().display().to_string();
    let restore = tenantd(&["restore", &path, "--data-dir", &target, "--installation-key", &key]).output().unwrap();
    let damaged = refused(&restore, 1);
    assert!(damaged.contains("the snapshot is damaged and cannot be restored"), "{damaged}");
    let left: Vec<_> = std::fs::read_dir(other.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["tenantd.lock"]);
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}
