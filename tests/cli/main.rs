//! The command line from an operator's view: the real binary, its output and its exit codes, with a server of the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod audit;
mod canary;
mod clock;
mod compact;
mod demo;
mod demo_link;
mod domain;
mod drill;
mod evaluation;
mod guides;
mod json;
mod manual;
mod offsite;
mod privacy;
#[path = "../process/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod process;
mod reindex;
mod repair;
mod rotate_key;
mod service;
mod support_bundle;
mod transfer;
mod upgrade;
mod way_out;

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

fn tenantd(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenantd"));
    command.args(arguments).env_remove("TENANTD_CONFIG").stdin(Stdio::null());
    command
}

/// A demo server in a directory that outlives it.
struct Server {
    child: Child,
    directory: PathBuf,
    info: Value,
}

impl Server {
    fn start(directory: &Path) -> Self {
        Self::with_sample(directory, &["--tickets", "0"])
    }

    fn with_sample(directory: &Path, options: &[&str]) -> Self {
        let path = directory.display().to_string();
        let arguments = ["demo", "--listen", "127.0.0.1:0", "--data-dir", &path, "--json"];
        let mut child = tenantd(&[&arguments, options].concat()).stdout(Stdio::piped()).spawn().unwrap();
        // A warning about an older store comes first.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with('{')).expect("the server says what it serves");
        let info = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { child, directory: directory.to_owned(), info }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let directory = self.directory.display().to_string();
        tenantd(&[arguments, &["--data-dir", &directory]].concat()).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The response of the API to a GET.
    fn get(&self, path: &str) -> Value {
        let body = self.get_text(path);
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// The same as raw text. With HTTP/1.0 a stream has no chunk framing.
    fn get_text(&self, path: &str) -> String {
        self.get_as(self.info["api_key"].as_str().unwrap(), path)
    }

    /// The response of the API to a POST without a credential.
    fn post(&self, path: &str, body: &Value) -> Value {
        let (url, body) = (self.info["url"].as_str().unwrap(), body.to_string());
        let mut connection = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        let head =
            format!("POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
        write!(connection, "{head}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// The same with another key.
    fn get_as(&self, key: &str, path: &str) -> String {
        let url = self.info["url"].as_str().unwrap();
        let mut connection = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        write!(connection, "GET {path} HTTP/1.0\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        body.to_owned()
    }

    /// Stops the server and waits for its end.
    fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{} {}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn tenants_users_and_keys_are_managed_locally() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let tenant = server.json(&["tenant", "create", "Acme GmbH"]);
    assert_eq!(tenant["slug"], "acme-gmbh");
    assert!(text(&server.run(&["tenant", "list"]).stdout).contains("acme-gmbh"));
    assert_eq!(server.json(&["tenant", "suspend", "acme-gmbh"])["status"], "suspended");
    assert_eq!(server.json(&["tenant", "resume", tenant["id"].as_str().unwrap()])["status"], "active");
    assert_eq!(server.json(&["tenant", "show", "acme-gmbh"])["name"], "Acme GmbH");
    let user = server.json(&["user", "create", "ada@acme.example", "--tenant", "acme-gmbh", "--role", "viewer"]);
    let link = user["password_link"].as_str().unwrap();
    assert!(link.ends_with(&format!("/set-password?token={}", user["password_token"].as_str().unwrap())), "{link}");
    assert_ne!(server.json(&["user", "reset-password", "ada@acme.example"])["password_token"], user["password_token"]);
    assert_eq!(server.json(&["user", "list", "--tenant", "acme-gmbh"])["data"].as_array().unwrap().len(), 1);
    let key = server.json(&["key", "create", "Export", "--tenant", "acme-gmbh", "--scope", "tickets:read", "--expires-days", "5"]);
    assert!(key["key"].as_str().unwrap().starts_with("tck_live_"));
    let id = key["id"].as_str().unwrap();
    assert_eq!(server.json(&["key", "revoke", id, "--tenant", "acme-gmbh"])["status"], "revoked");
    assert_eq!(server.json(&["key", "list", "--tenant", "acme-gmbh"])["data"][0]["status"], "revoked");
    let wrong = refused(&server.run(&["key", "create", "Bad", "--tenant", "acme-gmbh", "--scope", "ticket:read"]), 1);
    assert!(wrong.contains("did you mean tickets:read?"), "{wrong}");
    assert!(refused(&server.run(&["tenant", "show", "nobody"]), 1).contains("there is no tenant nobody"));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn restoring_a_snapshot_needs_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let (data, restored) = (directory.path().join("data"), directory.path().join("restored"));
    let server = Server::start(&data);
    server.json(&["tenant", "create", "Kept"]);
    let snapshot = directory.path().join("snapshot").display().to_string();
    server.json(&["backup", &snapshot]);
    assert!(refused(&server.run(&["backup", &snapshot]), 1).contains("already exists"));
    assert!(text(&server.run(&["check"]).stdout).contains("The store is sound."));
    assert_eq!(server.stop(), Some(0));
    assert!(tenantd(&["check", &snapshot]).output().unwrap().status.success());
    let target = restored.display().to_string();
    let without = tenantd(&["restore", &snapshot, "--data-dir", &target]).output().unwrap();
    assert!(refused(&without, 1).contains("--installation-key"));
    let other_key = directory.path().join("other.key");
    std::fs::write(&other_key, "ab".repeat(32)).unwrap();
    let wrong = tenantd(&["restore", &snapshot, "--data-dir", &target, "--installation-key", &other_key.display().to_string()]);
    assert!(refused(&{ wrong }.output().unwrap(), 1).contains("is not the key"));
    let key = data.join("installation.key").display().to_string();
    let with = tenantd(&["restore", &snapshot, "--data-dir", &target, "--installation-key", &key]).output().unwrap();
    assert!(with.status.success(), "{}", text(&with.stderr));
    std::fs::copy(data.join("demo.json"), restored.join("demo.json")).unwrap();
    let server = Server::start(&restored);
    assert_eq!(server.json(&["tenant", "show", "kept"])["name"], "Kept");
    let into_used = tenantd(&["restore", &snapshot, "--data-dir", &data.display().to_string()]).output().unwrap();
    assert!(refused(&into_used, 1).contains("already holds an installation"));
}

#[test]
fn a_directory_keeps_the_newest_snapshots() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let snapshots = directory.path().join("snapshots");
    std::fs::create_dir(&snapshots).unwrap();
    std::fs::write(snapshots.join("notes.txt"), "not a snapshot").unwrap();
    std::fs::write(snapshots.join(".tenantd-2026-01-01.snapshot.partial"), "half of one").unwrap();
    let path = snapshots.display().to_string();
    let mut written: Vec<String> = (0..4)
        .map(|_| server.json(&["backup", "--directory", &path, "--keep", "2"])["path"].as_str().unwrap().to_owned())
        .collect();
    let kept: BTreeSet<String> =
        std::fs::read_dir(&snapshots).unwrap().map(|entry| entry.unwrap().path().display().to_string()).collect();
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert!(written.drain(2..).all(|path| kept.contains(&path) && tenantd(&["check", &path]).output().unwrap().status.success()));
    refused(&server.run(&["backup"]), 2);
    refused(&server.run(&["backup", "file", "--keep", "2"]), 2);
}

/// Flips a bit of an address everywhere, because unused pages may contain it too.
fn damage(snapshot: &Path) {
    let mut bytes = std::fs::read(snapshot).unwrap();
    let needle = b"admin@demo.example";
    let places: Vec<usize> = (0..bytes.len() - needle.len()).filter(|place| bytes[*place..].starts_with(needle)).collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place] ^= 1;
    }
    std::fs::write(snapshot, bytes).unwrap();
}

#[test]
fn damage_in_a_snapshot_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let snapshot = directory.path().join("snapshot");
    server.json(&["backup", &snapshot.display().to_string()]);
    damage(&snapshot);
    let output = tenantd(&["check", &snapshot.display().to_string()]).output().unwrap();
    refused(&output, 1);
    assert!(text(&output.stdout).contains("is damaged"), "{}", text(&output.stdout));
}

#[test]
fn missing_servers_and_usage_errors_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let output = tenantd(&["tenant", "list", "--data-dir", &path]).output().unwrap();
    assert!(refused(&output, 3).contains("tenantd serve"));
    assert!(refused(&tenantd(&["check", "--data-dir", &path]).output().unwrap(), 1).contains("contains no installation"));
    refused(&tenantd(&["tenant"]).output().unwrap(), 2);
    refused(&tenantd(&["nonsense"]).output().unwrap(), 2);
    assert!(tenantd(&["--version"]).output().unwrap().status.success());
}

#[test]
fn init_runs_once_and_reads_the_password_from_stdin() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data").display().to_string();
    let arguments = ["init", "--data-dir", &path, "--operator-email", "op@example.com", "--password-stdin"];
    let mut child = tenantd(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"twelve purple otters sing\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(!Path::new(&path).join("initial-operator-password").exists());
    let again = tenantd(&["init", "--data-dir", &path]).output().unwrap();
    assert!(refused(&again, 1).contains("already holds an installation"));
    let random = directory.path().join("random").display().to_string();
    assert!(tenantd(&["init", "--data-dir", &random]).output().unwrap().status.success());
    assert!(Path::new(&random).join("initial-operator-password").exists());
}

#[test]
fn the_configuration_is_checked_and_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    std::fs::write(file.path(), "[limits]\nbody_bites = 1\n").unwrap();
    let wrong = refused(&tenantd(&["config", "check", "--config", &path]).output().unwrap(), 1);
    assert!(wrong.contains(":2: unknown key limits.body_bites; did you mean limits.body_bytes?"), "{wrong}");
    std::fs::write(file.path(), "[limits]\nbody_bytes = 2048\n").unwrap();
    let mut shown = tenantd(&["config", "show", "--config", &path, "--json"]);
    let shown = shown.env("TENANTD_LIMITS__IDLE_SECONDS", "7").output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["limits"]["body_bytes"], &shown["limits"]["idle_seconds"]), (&2048.into(), &7.into()));
    let document = tenantd(&["openapi"]).output().unwrap();
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
}

#[test]
fn an_import_reports_its_failures() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let organizations = file("organizations.ndjson", "{\"external_id\":\"acme\",\"name\":\"Acme\"}\n");
    let made = server.json(&["import", &organizations, "--kind", "organization", "--tenant", "demo"]);
    assert_eq!((&made["created"], &made["failed"]), (&Value::from(1), &Value::from(0)));
    let header = "external_id,name,organization_external_id,os.family,hardware.memory_bytes,tags\n";
    let rows: String = (0..2500).map(|number| format!("d{number},\"PC, {number}\",acme,linux,17179869184,a;b\n")).collect();
    let devices = file("devices.csv", &format!("{header}{rows}x,X,nobody,linux,1,\ny,Y,acme,dos,1,\n"));
    let url = server.info["url"].as_str().unwrap();
    let key = file("key", server.info["api_key"].as_str().unwrap());
    let over_network = ["import", &devices, "--kind", "device", "--url", url, "--api-key-file", &key];
    let output = server.run(&over_network);
    let error = refused(&output, 1);
    assert!(error.contains("2 of the records were not imported"), "{error}");
    assert!(error.contains("record 2501: /organization_external_id: ") && error.contains("record 2502: /os/family: "), "{error}");
    assert!(text(&output.stdout).contains("created    2500"), "{}", text(&output.stdout));
    let again = server.run(&[&over_network[..], &["--json"]].concat());
    let summary: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&summary["unchanged"], &summary["failed"]), (&Value::from(2500), &Value::from(2)));
    assert_eq!(summary["failures"][0]["line"], 2501);
    let wrong = file("wrong", "tck_live_x");
    let denied = server.run(&["import", &devices, "--kind", "device", "--url", url, "--api-key-file", &wrong]);
    refused(&denied, 4);
    assert!(refused(&server.run(&["import", &devices, "--tenant", "demo"]), 1).contains("no column named kind"));
    refused(&server.run(&["import", &devices]), 2);
}

#[test]
fn demo_data_depends_only_on_the_seed() {
    let directory = tempfile::tempdir().unwrap();
    let story = |name: &str, seed: &str| {
        let data = directory.path().join(name);
        let server = Server::with_sample(&data, &["--tickets", "80", "--seed", seed]);
        let mut tickets = server.get("/api/psa/tickets?sort=number&limit=200")["data"].as_array().unwrap().clone();
        // The sample data ends where the server starts to work: its workflows open their own tickets.
        tickets.retain(|ticket| ticket["created_by"]["kind"] != "workflow");
        let events = server.get("/api/events?types=ticket.*&limit=200")["data"].as_array().unwrap().clone();
        assert_eq!(server.stop(), Some(0));
        let check = tenantd(&["check", "--data-dir", &data.display().to_string()]).output().unwrap();
        assert!(check.status.success(), "{}", text(&check.stdout));
        (tickets, events)
    };
    let shown = |tickets: &[Value]| -> Vec<(String, String)> {
        let text = |ticket: &Value, pointer: &str| ticket.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        tickets.iter().map(|ticket| (text(ticket, "/subject"), text(ticket, "/organization/name"))).collect()
    };
    let (first, events) = story("first", "7");
    let (again, _) = story("again", "7");
    let (other, _) = story("other", "8");
    // Failed backups in the sample data also open tickets.
    assert!((60..=100).contains(&first.len()), "{}", first.len());
    assert_eq!(shown(&first), shown(&again));
    assert_ne!(shown(&first), shown(&other));
    let statuses: BTreeSet<&str> = first.iter().map(|ticket| ticket["status"].as_str().unwrap()).collect();
    assert!(statuses.len() >= 3 && statuses.contains("closed"), "{statuses:?}");
    let times: Vec<&str> = events.iter().map(|event| event["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "the sample data is sorted by time");
}

#[test]
fn listen_shows_events_and_removes_its_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let path = directory.path().display().to_string();
    let arguments = ["listen", "--tenant", "demo", "--event", "api_key.created", "--count", "1", "--json", "--data-dir", &path];
    let mut child = tenantd(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert!(next()["id"].as_str().unwrap().starts_with("whk_"));
    server.json(&["key", "create", "Watched", "--tenant", "demo", "--scope", "*"]);
    let shown = next();
    assert_eq!((&shown["verified"], &shown["event"]["type"]), (&Value::Bool(true), &Value::from("api_key.created")));
    assert_eq!(shown["event"]["data"]["api_key"]["name"], "Watched");
    assert!(child.wait().unwrap().success());
    let nobody = server.run(&["listen", "--tenant", "nobody"]);
    assert!(refused(&nobody, 1).contains("nobody"));
}

#[test]
fn listen_forwards_deliveries_and_responses() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let path = directory.path().display().to_string();
    let development = TcpListener::bind("127.0.0.1:0").unwrap();
    let forward = format!("http://{}/hooks?from=tenantd", development.local_addr().unwrap());
    let arguments = ["listen", "--tenant", "demo", "--events", "api_key.created,api_key.rotated", "--count", "2", "--json"];
    let mut child =
        tenantd(&[&arguments[..], &["--forward", &forward, "--data-dir", &path]].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let started = next();
    assert!(started["id"].as_str().unwrap().starts_with("whk_"));
    assert_eq!(started["events"], serde_json::json!(["api_key.created", "api_key.rotated"]));
    server.json(&["key", "create", "Watched", "--tenant", "demo", "--scope", "*"]);
    // The target first responds with 500. The server gets this response and retries.
    for (attempt, status) in [(1, "500 Broken"), (2, "200 OK")] {
        let (mut connection, _) = development.accept().unwrap();
        let mut request = String::new();
        while !request.ends_with("}}}") {
            let mut piece = [0; 4096];
            let length = connection.read(&mut piece).unwrap();
            assert!(length > 0, "{request}");
            request.push_str(&text(&piece[..length]));
        }
        assert!(request.starts_with("POST /hooks?from=tenantd HTTP/1.1\r\n"), "{request}");
        write!(connection, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").unwrap();
        let shown = next();
        assert_eq!(shown["attempt"], attempt);
        assert_eq!(shown["forward"]["status"], status[..3].parse::<u16>().unwrap());
        assert!(shown["forward"]["duration_ms"].is_u64());
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let line = format!("{name}: {}\r\n", shown["headers"][name].as_str().unwrap());
            assert!(request.contains(&line), "{line} is not in {request}");
        }
        assert!(request.contains(&format!("host: {}\r\n", development.local_addr().unwrap())), "{request}");
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), shown["event"]);
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(server.get("/api/admin/webhooks")["data"], serde_json::json!([]), "no endpoint is left behind");
    let wrong = server.run(&["listen", "--forward", "https://127.0.0.1/"]);
    assert!(refused(&wrong, 1).contains("must start with http://"));
}

#[test]
fn listen_reports_an_unresponsive_forward_target() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let path = directory.path().display().to_string();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let forward = format!("http://{closed}/hooks");
    let arguments = ["listen", "--event", "api_key.created", "--count", "2", "--data-dir", &path, "--forward", &forward];
    let mut child = tenantd(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("until Ctrl-C"));
    server.json(&["key", "create", "Watched", "--tenant", "demo", "--scope", "*"]);
    let shown: Vec<String> = lines.collect();
    let failures: Vec<&String> =
        shown.iter().filter(|line| line.starts_with(&format!("forwarding to {forward}: FAILED"))).collect();
    assert_eq!(failures.len(), 2, "{shown:?}");
    assert!(failures[0].contains("refused"), "{failures:?}");
    let heads: Vec<&String> = shown.iter().filter(|line| line.contains("signature verified")).collect();
    assert!(!heads[0].contains("RETRY") && heads[1].contains("RETRY (attempt 2)"), "{heads:?}");
    assert!(child.wait().unwrap().success());
}
