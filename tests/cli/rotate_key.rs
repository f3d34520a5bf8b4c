//! `tenantd rotate-key`: with and without a server, interrupted by `kill -9`, and its effect on snapshots.

use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Output, Stdio},
};

use serde_json::Value;

use crate::{Server, refused, tenantd, text};

fn run(arguments: &[&str], directory: &Path) -> Output {
    tenantd(&[arguments, &["--data-dir", &directory.display().to_string()]].concat()).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The part of the key file that encrypts.
fn sealing_key(data: &Path) -> String {
    std::fs::read_to_string(data.join("installation.key")).unwrap().lines().next().unwrap().to_owned()
}

fn assert_nowhere(directory: &Path, old: &str) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let held = text(&std::fs::read(&path).unwrap());
            // The second line of the new key keeps the secret from which signing keys are derived.
            let held = if path.ends_with("installation.key") { held.lines().next().unwrap_or_default().to_owned() } else { held };
            assert!(!held.contains(old), "{} holds the old key", path.display());
        }
    }
}

#[test]
fn the_key_is_rotated_online_and_offline() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data);
    let first = sealing_key(&data);
    let kept = directory.path().join("first.key");
    std::fs::copy(data.join("installation.key"), &kept).unwrap();
    let snapshot = directory.path().join("snapshot").display().to_string();
    server.json(&["backup", &snapshot]);
    let public_key = server.json(&["audit", "public-key"]);

    let online = server.json(&["rotate-key"]);
    let second = sealing_key(&data);
    assert_ne!(first, second);
    assert_ne!(online["previous_fingerprint"], online["fingerprint"]);
    assert_eq!(std::fs::metadata(data.join("installation.key")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_nowhere(&data, &first);
    assert_eq!(server.json(&["audit", "verify"])["sound"], true);
    assert_eq!(server.json(&["audit", "public-key"]), public_key);
    assert_eq!(server.stop(), Some(0));

    let offline = json(&run(&["rotate-key", "--json"], &data));
    assert_eq!(offline["previous_fingerprint"], online["fingerprint"]);
    assert_nowhere(&data, &second);
    assert!(run(&["audit", "verify"], &data).status.success());

    let restored = directory.path().join("restored");
    let now = data.join("installation.key").display().to_string();
    let wrong = refused(&run(&["restore", &snapshot, "--installation-key", &now], &restored), 1);
    for fingerprint in [&offline["fingerprint"], &online["previous_fingerprint"]] {
        assert!(wrong.contains(fingerprint.as_str().unwrap()), "{wrong}");
    }
    let then = kept.display().to_string();
    assert!(run(&["restore", &snapshot, "--installation-key", &then], &restored).status.success());
    std::fs::copy(data.join("demo.json"), restored.join("demo.json")).unwrap();
    for opened in [&data, &restored] {
        let server = Server::start(opened);
        assert_eq!(server.json(&["check"])["clean"], true);
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn a_killed_rotation_continues_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let next = directory.path().join("installation.key.next");
    let mut cut_off = 0_u32;
    drop(Server::start(directory.path()));
    for looks in [0, 1, 10, 100, 1_000, 10_000] {
        let before = sealing_key(directory.path());
        let mut command = tenantd(&["rotate-key", "--data-dir", &directory.path().display().to_string()]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Starting when the next key is on disk, each time a little later.
        while !next.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let mut looked = 0;
        while looked < looks && child.try_wait().unwrap().is_none() {
            looked += 1;
        }
        cut_off += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let server = Server::start(directory.path());
        let done = server.json(&["rotate-key"]);
        assert_ne!(done["fingerprint"], done["previous_fingerprint"]);
        assert_nowhere(directory.path(), &before);
        assert_eq!(server.stop(), Some(0));
    }
    assert!(cut_off > 0, "none was cut off");
}
