//! `tenantd export`, and `tenantd import` of its file.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::Value;

use crate::{Server, refused, text};

fn lines(path: &str) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// The lines of records, including the last line.
fn records(path: &str) -> Vec<String> {
    lines(path).into_iter().skip(1).filter(|line| !line.contains("\"type\":\"signature\"")).collect()
}

#[test]
fn a_tenant_moves_between_servers_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (old, new) = (Server::start(&directory.path().join("old")), Server::start(&directory.path().join("new")));
    let tenant = old.json(&["tenant", "create", "Acme"]);
    old.json(&["key", "create", "--tenant", "acme", "--scope", "*", "Automation"]);
    let (first, second, words) = (path("first"), path("second"), path("words"));
    fs::write(&words, "correct horse battery staple\n").unwrap();
    let report = old.json(&["export", "--tenant", "acme", "--output", &first, "--passphrase-file", &words]);
    assert_eq!((&report["tenant_id"], &report["secrets"]), (&tenant["id"], &Value::from("sealed")));
    assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(report["lines"].as_u64().unwrap(), lines(&first).len() as u64);
    assert!(refused(&old.run(&["export", "--tenant", "acme", "--output", &first]), 1).contains("exists"));
    let unknown = refused(&new.run(&["import", &first, "--passphrase-file", &words]), 1);
    assert!(unknown.contains("--trusted-key") && unknown.contains("--accept-unverified"), "{unknown}");
    let key = old.json(&["public-key"])["public_key"].as_str().unwrap().to_owned();
    assert_eq!(report["public_key"], key.as_str());
    let trusted = path("trusted");
    fs::write(&trusted, format!("{key}\n")).unwrap();
    assert!(refused(&new.run(&["import", &first, "--trusted-key", &trusted]), 1).contains("--passphrase-file"));
    assert!(refused(&new.run(&["import", &first, "--trusted-key", "nothing"]), 2).contains("no public key"));
    assert!(refused(&new.run(&["import", &first, "--tenant", "demo"]), 2).contains("leave out --tenant"));
    let imported = new.json(&["import", &first, "--passphrase-file", &words, "--trusted-key", &trusted]);
    assert_eq!((&imported["done"], &imported["tenant_id"]), (&Value::from(true), &tenant["id"]));
    assert_eq!(new.json(&["tenant", "show", "acme"])["name"], "Acme");
    assert_eq!(new.json(&["key", "list", "--tenant", "acme"])["data"][0]["name"], "Automation");
    new.json(&["export", "--tenant", "acme", "--output", &second, "--passphrase-file", &words]);
    assert_eq!(records(&first), records(&second));
    let again = refused(&new.run(&["import", &first, "--passphrase-file", &words, "--trusted-key", &key]), 1);
    assert!(again.contains("already exists in this installation") && again.contains("Nothing was imported"), "{again}");
    let cut = path("cut");
    fs::write(&cut, format!("{}\n", lines(&first)[..3].join("\n"))).unwrap();
    assert!(refused(&old.run(&["import", &cut, "--passphrase-file", &words]), 1).contains("already"));
    let streamed = old.run(&["export", "--tenant", "acme"]);
    assert_eq!(text(&streamed.stdout).lines().count(), lines(&first).len());
}

#[test]
fn untrusted_files_activate_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (old, new) = (Server::start(&directory.path().join("old")), Server::start(&directory.path().join("new")));
    old.json(&["tenant", "create", "Acme"]);
    let key = old.json(&["key", "create", "--tenant", "acme", "--scope", "*", "Automation"]);
    let file = path("file");
    old.json(&["export", "--tenant", "acme", "--output", &file]);
    let taken = new.run(&["import", &file, "--accept-unverified"]);
    let report = text(&taken.stdout);
    assert!(taken.status.success() && report.contains("1 API keys: Automation"), "{report}");
    assert_eq!(new.json(&["key", "list", "--tenant", "acme"])["data"][0]["status"], "disabled", "{key}");
}
