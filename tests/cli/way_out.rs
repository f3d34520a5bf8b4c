//! Recovery if the data of a tenant prevents the server from working: safe mode lets the operator in, and commands work without the
//! server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{Server, refused, tenantd, text};

/// Sends a request over HTTP/1.0. Returns the status and the body.
fn ask(address: &str, key: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        connection,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

impl Server {
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (url, key) = (self.info["url"].as_str().unwrap(), self.info["api_key"].as_str().unwrap());
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = ask(url.trim_start_matches("http://"), key, method, path, &body);
        (status, serde_json::from_str(&answer).unwrap_or(Value::String(answer)))
    }

    /// A workflow that each new API key starts.
    fn workflow_on_new_keys(&self) -> String {
        let definition = json!({"key": "on-key", "name": "On key", "triggers": [{"type": "event", "event": "api_key.created"}],
            "steps": [{"id": "a", "type": "set", "with": {"value": 1}}]});
        let (status, made) = self.ask("POST", "/api/psa/workflows/trigger", &json!({"action": "create", "definition": definition}));
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().unwrap().to_owned()
    }
}

/// `tenantd serve --safe-mode`.
struct SafeMode {
    child: Child,
    address: String,
    log: String,
}

impl SafeMode {
    fn start(directory: &Path) -> Self {
        let path = directory.display().to_string();
        let mut command = tenantd(&["serve", "--safe-mode", "--listen", "127.0.0.1:0", "--data-dir", &path]);
        command.env("TENANTD_LISTEN__TLS", "false").env("TENANTD_TELEMETRY__LOG_FORMAT", "json");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (mut lines, mut log) = (BufReader::new(child.stdout.take().unwrap()).lines(), String::new());
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended before it was ready:\n{log}")).unwrap();
            log.push_str(&line);
            let entry: Value = serde_json::from_str(&line).unwrap();
            if let Some(address) = entry.get("address").and_then(Value::as_str) {
                break address.to_owned();
            }
        };
        Self { child, address, log }
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for SafeMode {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn now() -> String {
    tenantd_base::clock::Clock::System.now().to_string()
}

#[test]
fn safe_mode_starts_no_tenant_work() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    server.workflow_on_new_keys();
    let key = server.info["api_key"].as_str().unwrap().to_owned();
    assert_eq!(server.stop(), Some(0));

    let safe = SafeMode::start(directory.path());
    assert!(safe.log.contains("Safe mode"), "{}", safe.log);
    let path = directory.path().display().to_string();
    let made = tenantd(&["key", "create", "Started in safe mode", "--tenant", "demo", "--scope", "*", "--data-dir", &path])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let get = |path: &str| ask(&safe.address, &key, "GET", path, "");
    let (status, ready) = get("/readyz");
    assert!(status == 200 && ready.contains("\"mode\":\"safe\"") && ready.contains("webhook deliveries are off"), "{ready}");
    assert!(get("/metrics").1.lines().any(|line| line == "tenantd_safe_mode 1"));
    let (_, page) = get("/status/");
    assert!(page.contains("Safe mode") && page.contains("off: the server runs in safe mode"), "{page}");
    assert!(!get("/api/psa/workflows/trigger?view=runs").1.contains("run_"));
    safe.stop();

    // Events in the meantime are not lost.
    let normal = now();
    let server = Server::start(directory.path());
    assert_eq!(server.get("/readyz"), json!({"status": "ready"}));
    let run = loop {
        let runs = server.get("/api/psa/workflows/trigger?view=runs");
        if let Some(run) = runs["data"].get(0) {
            break run.clone();
        }
    };
    assert!(run["created_at"].as_str().unwrap() >= normal.as_str(), "it was started in safe mode: {run}");
}

#[test]
fn tenants_keys_and_workflows_are_stopped_offline() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let offline = |arguments: &[&str]| {
        let output = tenantd(&[arguments, &["--offline", "--json", "--data-dir", &path]].concat()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let server = Server::start(directory.path());
    let workflow = server.workflow_on_new_keys();
    server.json(&["tenant", "create", "Doomed"]);
    let key = server.json(&["key", "create", "Spare", "--tenant", "demo", "--scope", "*"]);
    let in_use = refused(&server.run(&["tenant", "suspend", "demo", "--offline"]), 1);
    assert!(in_use.contains("is in use by process"), "{in_use}");
    assert_eq!(server.stop(), Some(0));

    assert_eq!(offline(&["workflow", "list", "--tenant", "demo"])["data"][0]["enabled"], true);
    assert_eq!(offline(&["workflow", "disable", &workflow, "--tenant", "demo"])["enabled"], false);
    assert_eq!(offline(&["key", "revoke", key["id"].as_str().unwrap(), "--tenant", "demo"])["status"], "revoked");
    assert_eq!(offline(&["tenant", "suspend", "demo"])["status"], "suspended");
    assert_eq!(offline(&["tenant", "delete", "doomed", "--confirm", "doomed"])["status"], "deleting");
    let filled = tenantd(&["tenant", "create", "New", "--evaluation", "--offline", "--data-dir", &path]).output().unwrap();
    assert!(refused(&filled, 2).contains("running server"));

    let server = Server::start(directory.path());
    assert_eq!(server.ask("GET", "/api/admin/api-keys", &Value::Null).1["code"], "tenant_suspended");
    assert_eq!(server.json(&["tenant", "resume", "demo"])["status"], "active");
    assert_eq!(server.ask("GET", "/api/admin/api-keys", &Value::Null).0, 200);
    let spare: Value = serde_json::from_str(&server.get_as(key["key"].as_str().unwrap(), "/api/admin/api-keys")).unwrap();
    assert_eq!(spare["code"], "key_revoked");
    let shown = server.get(&format!("/api/psa/workflows/trigger?id={workflow}"));
    assert_eq!((&shown["enabled"], &shown["version"]), (&json!(false), &json!(2)), "{shown}");
    while server.json(&["tenant", "list"])["data"].as_array().unwrap().iter().any(|tenant| tenant["slug"] == "doomed") {}
    assert!(text(&server.run(&["check"]).stdout).contains("The store is sound."));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn limits_of_one_tenant_are_set_offline() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let server = Server::start(directory.path());
    let quotas = |more: &[&str]| -> Vec<Value> {
        let output = tenantd(&[&["tenant", "quotas", "demo", "--json", "--data-dir", &path], more].concat()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        shown["quotas"].as_array().unwrap().iter().filter(|row| row["own_limit"] == true).cloned().collect()
    };
    assert!(quotas(&[]).is_empty());
    let set = quotas(&["--set", "records=50000", "--set", "workflows=7"]);
    assert_eq!(set.iter().map(|row| &row["limit"]).collect::<Vec<_>>(), [50_000, 7]);
    server.stop();
    let reset = quotas(&["--reset", "records", "--offline"]);
    assert_eq!(reset.iter().map(|row| &row["quota"]).collect::<Vec<_>>(), ["workflows"]);
    let wrong = tenantd(&["tenant", "quotas", "demo", "--set", "tickets=5", "--offline", "--data-dir", &path]).output().unwrap();
    assert!(!wrong.status.success() && text(&wrong.stderr).contains("events_per_day"), "{}", text(&wrong.stderr));
}
