//! `tenantd repair`: after a killed server, with a damaged journal, and the operator's options.

use std::path::Path;

use serde_json::Value;

use crate::{Server, process::journal::damage_last_commit, refused, tenantd, text};

#[test]
fn a_damaged_journal_is_dropped_only_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let run = |arguments: &[&str]| tenantd(&[arguments, &["--data-dir", &path]].concat()).output().unwrap();
    let server = Server::start(directory.path());
    assert!(refused(&server.run(&["repair"]), 1).contains("the server is running"));
    server.json(&["tenant", "create", "Kept"]);
    server.json(&["tenant", "create", "Given up"]);
    // The kill prevents closing the store.
    drop(server);
    assert!(text(&run(&["repair", "--json"]).stdout).contains("\"damaged\":false"), "a kill is no damage");

    let server = Server::start(directory.path());
    server.json(&["tenant", "create", "Last"]);
    drop(server);
    damage_last_commit(directory.path());
    let started = run(&["demo", "--listen", "127.0.0.1:0", "--tickets", "0"]);
    let said = refused(&started, 1);
    assert!(said.contains("the store is damaged") && said.contains("tenantd repair --accept-loss"), "{said}");
    assert!(refused(&run(&["repair"]), 1).contains("no record was changed"));

    let done = run(&["repair", "--accept-loss", "--json"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let done: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((done["damaged"].as_bool(), done["repaired"].as_bool()), (Some(true), Some(true)));
    assert!(done["loss"]["commits"].as_u64().unwrap() >= 1, "{done}");
    let evidence = Path::new(done["loss"]["evidence"].as_str().unwrap());
    assert!(evidence.join("tenantd.journal").exists() && evidence.join("loss.json").exists());

    let server = Server::start(directory.path());
    assert_eq!(server.json(&["tenant", "show", "kept"])["name"], "Kept");
    assert!(text(&server.run(&["check"]).stdout).contains("The store is sound."));
    let audit = text(&server.run(&["audit", "verify"]).stdout);
    assert!(!audit.is_empty());
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_repair_keeps_the_key_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let run = |arguments: &[&str]| tenantd(&[arguments, &["--data-dir", &path]].concat()).output().unwrap();
    assert_eq!(Server::start(directory.path()).stop(), Some(0));
    let (key, kept) = (directory.path().join("installation.key"), directory.path().join("kept.key"));
    std::fs::copy(&key, &kept).unwrap();
    let server = Server::start(directory.path());
    server.json(&["rotate-key"]);
    drop(server);
    // The first frame of this opening. Damaging it invalidates all later frames.
    let journal = std::fs::OpenOptions::new().write(true).open(directory.path().join("tenantd.journal")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&journal, &[0; 4096], 4096).unwrap();
    let refused = refused(&run(&["repair", "--accept-loss"]), 1);
    assert!(refused.contains("a rotation of the installation key is among the lost changes"), "{refused}");
    std::fs::copy(&kept, &key).unwrap();
    assert!(run(&["repair", "--accept-loss"]).status.success());
    assert_eq!(Server::start(directory.path()).stop(), Some(0));
}
