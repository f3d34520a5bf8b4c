//! `tenantd compact`: refuses to run beside a server, and frees space without one.

use std::process::Output;

use serde_json::Value;

use crate::{Server, refused, tenantd, text};

#[test]
fn compaction_frees_space_without_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let run = |arguments: &[&str]| tenantd(&[arguments, &["--data-dir", &path]].concat()).output().unwrap();
    let json = |output: &Output| -> Value {
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // Sample data is written in many commits, each of which leaves free pages.
    let server = Server::with_sample(directory.path(), &["--tickets", "60"]);
    assert!(refused(&server.run(&["compact"]), 1).contains("stop it first"));
    let kept = server.json(&["tenant", "show", "demo"]);
    assert_eq!(server.stop(), Some(0));
    let length = || std::fs::metadata(directory.path().join("tenantd.redb")).unwrap().len();
    let before = length();
    let report = json(&run(&["compact", "--dry-run", "--json"]));
    assert!(report["free_bytes"].as_u64().unwrap() > 0 && length() == before, "{report}");
    let done = json(&run(&["compact", "--json"]));
    assert_eq!((done["bytes_before"].as_u64(), done["bytes_after"].as_u64()), (Some(before), Some(length())));
    assert!(length() < before, "{done}");
    assert!(text(&run(&["compact"]).stdout).contains("given back"));
    assert!(run(&["check"]).status.success());
    let server = Server::start(directory.path());
    assert_eq!(server.json(&["tenant", "show", "demo"])["id"], kept["id"]);
    assert_eq!(server.stop(), Some(0));
    let empty = tempfile::tempdir().unwrap().path().display().to_string();
    assert!(refused(&tenantd(&["compact", "--data-dir", &empty]).output().unwrap(), 1).contains("contains no installation"));
}
