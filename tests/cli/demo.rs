//! `tenantd demo`: it continues with its data, and leaves nothing behind if it cannot start.

use std::{net::TcpListener, path::Path};

use serde_json::Value;

use tenantd_base::clock::Timestamp;

use crate::{Server, refused, tenantd, text};

#[test]
fn a_demo_reopens_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let first = Server::start(directory.path());
    for name in ["url", "tenant_id", "email", "password", "api_key"] {
        assert!(first.info[name].is_string(), "{}", first.info);
    }
    let info = first.info.clone();
    first.json(&["tenant", "create", "Kept"]);
    assert_eq!(first.stop(), Some(0));
    let second = Server::start(directory.path());
    assert_eq!((&second.info["api_key"], &second.info["password"]), (&info["api_key"], &info["password"]));
    assert_eq!(second.json(&["tenant", "show", "kept"])["name"], "Kept");
    assert_eq!(second.stop(), Some(0));
    // Like a start that was interrupted before it printed the credentials.
    std::fs::remove_file(directory.path().join("demo.json")).unwrap();
    let third = Server::start(directory.path());
    assert_eq!(third.info["tenant_id"], info["tenant_id"]);
    assert_ne!(third.info["api_key"], info["api_key"]);
    let keys = third.get("/api/admin/api-keys")["data"].as_array().unwrap().clone();
    let time = |key: &Value, name: &str| Timestamp::parse(key[name].as_str().unwrap()).unwrap();
    let days: Vec<u64> = keys.iter().map(|key| time(key, "expires_at").since(time(key, "created_at")).as_secs() / 86_400).collect();
    assert_eq!(days, [365, 365], "the first and the new key last equally long");
}

#[test]
fn a_demo_that_cannot_listen_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (missing, empty) = (directory.path().join("missing"), directory.path().join("empty"));
    std::fs::create_dir(&empty).unwrap();
    let demo = |data: &Path| {
        let path = data.display().to_string();
        tenantd(&["demo", "--tickets", "0", "--data-dir", &path, "--listen", &address]).output().unwrap()
    };
    let error = refused(&demo(&missing), 1);
    assert!(error.contains(&format!("cannot listen on {address}")) && error.contains("--listen"), "{error}");
    assert!(!missing.exists());
    refused(&demo(&empty), 1);
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn a_demo_that_fails_before_it_serves_removes_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let (missing, empty, used) = (directory.path().join("missing"), directory.path().join("empty"), directory.path().join("used"));
    std::fs::create_dir(&empty).unwrap();
    std::fs::create_dir(&used).unwrap();
    std::fs::write(used.join("notes.txt"), "not of the demo").unwrap();
    let demo = |data: &Path| {
        let path = data.display().to_string();
        let mut command = tenantd(&["demo", "--tickets", "0", "--listen", "127.0.0.1:0", "--tls", "--data-dir", &path]);
        // This certificate does not exist. It is read after the installation was created.
        let files = [("CERTIFICATE", "/nonexistent.pem"), ("PRIVATE_KEY", "/nonexistent.key")];
        command.envs(files.map(|(name, file)| (format!("TENANTD_TLS__{name}_FILE"), file))).output().unwrap()
    };
    refused(&demo(&missing), 1);
    assert!(!missing.exists());
    refused(&demo(&empty), 1);
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
    refused(&demo(&used), 1);
    assert!(used.join("notes.txt").exists(), "files of others stay");
    let served = directory.path().join("served");
    assert_eq!(Server::start(&served).stop(), Some(0));
    refused(&demo(&served), 1);
    assert_eq!(Server::start(&served).stop(), Some(0), "data that has served stays");
}

#[test]
fn an_unreachable_server_or_tenant_is_searched_for_with_data_dir() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let stopped = tenantd(&["tenant", "show", "demo", "--data-dir", &path]).output().unwrap();
    assert!(refused(&stopped, 3).contains("--data-dir DIR"));
    let server = Server::start(&directory.path().join("data"));
    assert!(refused(&server.run(&["tenant", "show", "nobody"]), 1).contains("--data-dir DIR"));
    let help = text(&tenantd(&["demo", "--help"]).output().unwrap().stdout);
    let words: Vec<&str> = help.split_whitespace().collect();
    assert!(words.join(" ").contains("uses a temporary directory"), "{help}");
}
