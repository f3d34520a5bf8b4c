//! `tenantd audit`: with a running server, an unused data directory, an export and a snapshot.

use std::path::Path;

use crate::{Server, refused, tenantd, text};

fn run(arguments: &[&str], directory: &Path) -> std::process::Output {
    tenantd(&[arguments, &["--data-dir", &directory.display().to_string()]].concat()).output().unwrap()
}

/// Changes one byte of the text in a file. Returns whether the text was found.
fn flip(path: &Path, needle: &[u8]) -> bool {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> =
        bytes.windows(needle.len()).enumerate().filter(|(_, found)| *found == needle).map(|(at, _)| at).collect();
    for at in &places {
        bytes[*at] ^= 1;
    }
    std::fs::write(path, bytes).unwrap();
    !places.is_empty()
}

#[test]
fn the_audit_is_verified_online_and_offline() {
    let directory = tempfile::tempdir().unwrap();
    let (data, file) = (directory.path().join("data"), |name: &str| directory.path().join(name));
    let server = Server::start(&data);
    for name in ["One", "Two", "Three"] {
        server.json(&["key", "create", name, "--tenant", "demo", "--scope", "*"]);
    }
    let online = server.json(&["audit", "verify"]);
    assert_eq!((&online["sound"], &online["chains"]), (&true.into(), &2.into()), "{online}");
    let kept = server.run(&["audit", "checkpoint"]);
    assert_eq!(text(&kept.stdout).lines().count(), 2, "one for each tenant");
    std::fs::write(file("kept"), &kept.stdout).unwrap();
    let export = server.get_text("/api/admin/audit?format=ndjson");
    std::fs::write(file("export"), &export).unwrap();
    let snapshot = file("snapshot").display().to_string();
    assert!(server.run(&["backup", &snapshot]).status.success());
    let key = text(&server.run(&["audit", "public-key"]).stdout).trim().to_owned();
    assert_eq!(server.stop(), Some(0));

    let kept = file("kept").display().to_string();
    let offline = run(&["audit", "verify", "--checkpoint", &kept], &data);
    assert!(offline.status.success(), "{}", text(&offline.stdout));
    assert!(text(&offline.stdout).ends_with("The audit is unchanged.\n"));
    // A machine without the installation: only the export, the key, and the stored checkpoint.
    let (export, elsewhere) = (file("export").display().to_string(), file("elsewhere"));
    assert!(run(&["audit", "verify", &export, "--public-key", &key], &elsewhere).status.success());
    assert!(run(&["audit", "verify", &snapshot, "--public-key", &key, "--checkpoint", &kept], &elsewhere).status.success());
    let unknown = refused(&run(&["audit", "verify", &export], &elsewhere), 1);
    assert!(unknown.contains("--public-key"), "{unknown}");
    let other = "00".repeat(32);
    refused(&run(&["audit", "verify", &export, "--public-key", &other], &elsewhere), 1);
    refused(&run(&["audit", "verify", &export, "--public-key", "x"], &elsewhere), 2);

    // One byte of one record, in the export and in the store file.
    let line = std::fs::read_to_string(&export).unwrap().lines().find(|line| line.contains("\"number\":2,")).unwrap().to_owned();
    let event = line.split("\"event_sha256\":\"").nth(1).unwrap()[..64].to_owned();
    assert!(flip(Path::new(&export), event.as_bytes()));
    let report = run(&["audit", "verify", &export, "--public-key", &key], &elsewhere);
    refused(&report, 1);
    assert!(text(&report.stdout).contains(": record 2: "), "{}", text(&report.stdout));
    assert!(flip(&data.join("tenantd.redb"), event.as_bytes()));
    let report = run(&["audit", "verify"], &data);
    refused(&report, 1);
    assert!(text(&report.stdout).contains(": record 2: "), "{}", text(&report.stdout));
    let checked = run(&["check"], &data);
    refused(&checked, 1);
    assert!(text(&checked.stdout).contains("breaks at record 2"), "{}", text(&checked.stdout));
}
