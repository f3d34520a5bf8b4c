//! `tenantd demo`: it continues with its data, and leaves nothing behind if it cannot start.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Stdio,
};

use serde_json::{Value, json};

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
fn a_demo_that_was_killed_while_it_was_filled_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let options = ["--tickets", "150"];
    let arguments = [&["demo", "--listen", "127.0.0.1:0", "--data-dir", &path][..], &options].concat();
    let mut child = tenantd(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let exports = lines.find_map(|line| Some(line.strip_prefix("export URL=")?.to_owned())).unwrap();
    let (url, key) = exports.split_once(" KEY=").unwrap();
    let server = Server { child, directory: directory.path().to_owned(), info: json!({"url": url, "api_key": key}) };
    // The credentials work before the data is complete.
    assert_eq!(server.get("/api/auth/session")["tenant"]["filling"], true);
    drop(server);

    let again = Server::with_sample(directory.path(), &options);
    assert_eq!(again.info["api_key"], key);
    assert_eq!(again.get("/api/auth/session")["tenant"].get("filling"), None);
    let tickets = again.get("/api/psa/tickets?include_total=true")["page"]["total"].as_u64().unwrap();
    // Repeated reports share a ticket, and the demo goes on, so there can be fewer or more. Twice the data would be about 300.
    assert!((100..250).contains(&tickets), "{tickets} tickets");
    assert_eq!(again.stop(), Some(0));
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

#[test]
fn only_json_is_on_standard_output_and_logs_are_on_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("demo").display().to_string();
    let arguments = ["demo", "--listen", "127.0.0.1:0", "--data-dir", &path, "--json", "--tickets", "0"];
    let mut child = tenantd(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdout, mut stderr) = (BufReader::new(child.stdout.take().unwrap()), child.stderr.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let server = Server { child, directory: directory.path().join("demo"), info: serde_json::from_str(&line).unwrap() };
    // A refused target is a warning in the log.
    let (key, body) = (server.info["api_key"].as_str().unwrap(), r#"{"name": "A", "url": "https://10.0.0.1/", "events": ["*"]}"#);
    let mut connection = TcpStream::connect(server.info["url"].as_str().unwrap().trim_start_matches("http://")).unwrap();
    let head =
        format!("POST /api/admin/webhooks HTTP/1.0\r\nHost: localhost\r\nX-API-Key: {key}\r\nContent-Type: application/json");
    write!(connection, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    connection.read_to_string(&mut String::new()).unwrap();
    assert_eq!(server.stop(), Some(0));
    let (mut rest, mut logs) = (String::new(), String::new());
    stdout.read_to_string(&mut rest).unwrap();
    stderr.read_to_string(&mut logs).unwrap();
    assert_eq!(rest, "", "standard output has one line of JSON");
    assert!(logs.contains("refused to connect"), "{logs}");

    let path = directory.path().join("serve").display().to_string();
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir", &path];
    let mut child = tenantd(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let logs: Vec<String> = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.contains("ready"))
        .collect();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "", "the server says that it is ready on standard error, after {logs:?}");
}
