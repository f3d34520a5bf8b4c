//! Evaluation tenants on the command line: created, interrupted by kills, reset, deleted.

use std::{path::Path, process::Stdio};

use serde_json::Value;

use tenantd_base::clock::Clock;

use crate::{Server, refused, tenantd as command, text};

const SAMPLE: [&str; 6] = ["--organizations", "3", "--devices", "9", "--tickets", "60"];

/// Waits until the condition is true for the status of a tenant. `None` means that it does not exist.
pub(crate) fn until(server: &Server, tenant: &str, wanted: impl Fn(Option<&str>) -> bool) {
    loop {
        let shown = server.run(&["tenant", "show", tenant, "--json"]);
        let record: Option<Value> = serde_json::from_slice(&shown.stdout).ok();
        if wanted(record.as_ref().and_then(|record| record["status"].as_str())) {
            return;
        }
    }
}

/// The tickets of the sample data, read with a new key. Tickets that timers open later are not included.
fn tickets(server: &Server, tenant: &str, at: &str) -> Vec<Value> {
    let key = server.json(&["key", "create", "look", "--tenant", tenant, "--scope", "tickets:read"]);
    let key = key["key"].as_str().unwrap();
    assert!(key.starts_with("tck_eval_"));
    let page: Value = serde_json::from_str(&server.get_as(key, "/api/psa/tickets?sort=number&limit=200")).unwrap();
    let mut tickets = page["data"].as_array().unwrap().clone();
    tickets.retain(|ticket| ticket["created_at"].as_str().unwrap() <= at);
    tickets
}

fn create(at: &str) -> Vec<&str> {
    [&["tenant", "create", "Trial", "--evaluation", "--seed", "4", "--expires-days", "9", "--at", at][..], &SAMPLE].concat()
}

/// A server whose sample data was created without an interruption.
fn uninterrupted(data: &Path, at: &str) -> Vec<Value> {
    let server = Server::start(data);
    let created = server.json(&create(at));
    assert_eq!((&created["tenant"]["status"], &created["tenant"]["days_left"]), (&Value::from("active"), &Value::from(8)));
    assert_eq!(created["email"], "admin@trial.example");
    let whole = tickets(&server, "trial", at);
    let by_its_key = server.get_as(created["api_key"].as_str().unwrap(), "/api/auth/session");
    assert!(by_its_key.contains("\"evaluation\""), "{by_its_key}");
    assert!(text(&server.run(&["tenant", "show", "trial"]).stdout).contains("days left"));
    let reset = server.json(&["tenant", "reset", "trial"]);
    assert_eq!((&reset["status"], &reset["days_left"]), (&Value::from("active"), &Value::from(8)));
    assert!(server.get_as(created["api_key"].as_str().unwrap(), "/api/auth/session").contains("\"evaluation\""));
    let missing = refused(&server.run(&["tenant", "delete", "trial"]), 2);
    assert!(missing.contains("--confirm"), "{missing}");
    assert!(refused(&server.run(&["tenant", "delete", "trial", "--confirm", "demo"]), 1).contains("trial"));
    assert_eq!(server.json(&["tenant", "delete", "trial", "--confirm", "trial"])["deleted"], true);
    assert!(refused(&server.run(&["tenant", "show", "trial"]), 1).contains("there is no tenant trial"));
    assert_eq!(server.stop(), Some(0));
    whole
}

#[test]
fn killed_creations_and_removals_are_completed() {
    let directory = tempfile::tempdir().unwrap();
    let (whole, killed) = (directory.path().join("whole"), directory.path().join("killed"));
    let at = Clock::System.now().to_string();
    let whole = uninterrupted(&whole, &at);
    assert!(whole.len() > 40, "{}", whole.len());

    let mut server = Server::start(&killed);
    let path = killed.display().to_string();
    let mut telling =
        command(&[&create(&at)[..], &["--data-dir", &path]].concat()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(&server, "trial", |status| status.is_some());
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    telling.wait().unwrap();
    server = Server::start(&killed);
    until(&server, "trial", |status| status == Some("active"));
    let ids = |tickets: &[Value]| -> Vec<Value> { tickets.iter().map(|ticket| ticket["id"].clone()).collect() };
    assert_eq!(ids(&tickets(&server, "trial", &at)), ids(&whole), "the data equals that of an uninterrupted creation");

    server.json(&["tenant", "delete", "trial", "--yes", "--no-wait"]);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    server = Server::start(&killed);
    until(&server, "trial", |status| status.is_none());
    assert_eq!(server.stop(), Some(0));
    let check = command(&["check", "--data-dir", &path]).output().unwrap();
    assert!(check.status.success(), "{}", text(&check.stdout));
}
