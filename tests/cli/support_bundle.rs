//! `tenantd support-bundle`: its content, without secrets and tenant data.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::{Server, refused, tenantd, text};

/// A canary in every field that a tenant writes or that is secret.
const CANARIES: [&str; 13] = [
    "canary-tenant",
    "canary-subject",
    "canary-body",
    "canary-organization",
    "canary-host",
    "canary-header",
    "canary-cloud",
    "canary-client",
    "canary-key-name",
    "canary-user",
    "canary-search",
    "canary-path",
    "canary-metrics-token",
];

/// Sends a request to the API and returns the response body.
pub fn post(server: &Server, path: &str, body: &Value) -> Value {
    let (url, key) = (server.info["url"].as_str().unwrap(), server.info["api_key"].as_str().unwrap());
    let mut connection = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.0\r\nHost: localhost\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\n");
    write!(connection, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 20") || head.starts_with("HTTP/1.1 20"), "{path}: {answer}");
    serde_json::from_str(body).unwrap()
}

/// Creates the secrets and texts that a bundle must not contain.
fn fill(server: &Server, data: &Path) -> Vec<String> {
    server.json(&["tenant", "create", "canary-tenant", "--slug", "canary-tenant"]);
    let user = server.json(&["user", "create", "canary-user@acme.example", "--tenant", "demo", "--name", "canary-user"]);
    let key = server.json(&["key", "create", "canary-key-name", "--tenant", "demo", "--scope", "*"]);
    let organizations = data.parent().unwrap().join("organizations.ndjson");
    std::fs::write(&organizations, "{\"kind\":\"organization\",\"external_id\":\"o\",\"name\":\"canary-organization\"}\n").unwrap();
    server.json(&["import", &organizations.display().to_string(), "--tenant", "demo"]);
    let devices = data.parent().unwrap().join("devices.csv");
    std::fs::write(&devices, "external_id,name,organization_external_id\nd-1,canary-host,o\n").unwrap();
    server.json(&["import", &devices.display().to_string(), "--tenant", "demo", "--kind", "device"]);
    let organization = server.get("/api/search?q=canary-organization&types=organization")["data"][0]["id"].clone();
    let ticket = json!({"subject": "canary-subject", "description": "canary-body", "organization_id": organization});
    post(server, "/api/psa/tickets", &ticket);
    let hook =
        json!({"name": "Hook", "url": "http://127.0.0.1:9/canary-path", "events": ["*"], "headers": {"X-Token": "canary-header"}});
    let hook = post(server, "/api/admin/webhooks", &hook);
    let cloud = json!({"name": "Aws", "kind": "aws", "enabled": false, "credential": {"access_key_id": "AKIA", "secret_access_key": "canary-cloud"}});
    post(server, "/api/cloud/providers?verify=skip", &cloud);
    let provider = json!({"name": "Id", "issuer": "https://id.acme.example", "client_id": "t", "client_secret": "canary-client", "domains": ["acme.example"]});
    post(server, "/api/admin/identity-providers", &provider);
    server.get("/api/search?q=canary-search");
    server.get_text("/canary-path");
    let secret = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
    let file = |name: &str| std::fs::read_to_string(data.join(name)).unwrap().trim().to_owned();
    let mut secrets = vec![secret(&user, "password_token"), secret(&key, "key"), secret(&hook, "secret")];
    secrets.extend([secret(&server.info, "password"), secret(&server.info, "api_key")]);
    secrets.extend([file("installation.key"), file("initial-operator-password")]);
    secrets.extend(CANARIES.map(str::to_owned));
    secrets
}

fn holds(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// Unpacks a bundle with standard tools and returns its files.
fn unpacked(bundle: &Path) -> Vec<(String, Vec<u8>)> {
    let folder = bundle.with_extension("unpacked");
    std::fs::create_dir(&folder).unwrap();
    assert!(Command::new("tar").arg("-xf").arg(bundle).arg("-C").arg(&folder).status().unwrap().success());
    let entries = std::fs::read_dir(folder.join("tenantd-support")).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap())).collect()
}

fn assert_clean(bundle: &Path, secrets: &[String], wanted: &[&str]) -> Vec<(String, Vec<u8>)> {
    let files = unpacked(bundle);
    for (name, bytes) in &files {
        for secret in secrets {
            assert!(!holds(bytes, secret), "{name} holds {secret}");
        }
    }
    for name in wanted {
        assert!(files.iter().any(|(found, bytes)| found == name && !bytes.is_empty()), "{name} is missing");
    }
    files
}

fn part(files: &[(String, Vec<u8>)], name: &str) -> Value {
    serde_json::from_slice(&files.iter().find(|(found, _)| found == name).unwrap().1).unwrap()
}

#[test]
fn a_bundle_contains_no_tenant_data() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data);
    let secrets = fill(&server, &data);
    std::fs::write(directory.path().join("token"), "canary-metrics-token").unwrap();
    let bundle = |name: &str| directory.path().join(name);
    let run = |name: &str, more: &[&str]| -> Output {
        let (path, data) = (bundle(name).display().to_string(), data.display().to_string());
        let mut command = tenantd(&[&["support-bundle", &path, "--data-dir", &data], more].concat());
        command.env("TENANTD_TELEMETRY__METRICS_TOKEN_FILE", bundle("token")).output().unwrap()
    };
    let online = run("online.tar", &[]);
    assert!(online.status.success(), "{}", text(&online.stderr));
    let said = text(&online.stdout);
    assert!(said.find("settings.json").unwrap() < said.find("Wrote ").unwrap(), "{said}");
    let wanted =
        ["about.json", "settings.json", "files.json", "tables.json", "check.json", "units.txt", "metrics.txt", "health.json"];
    let files = assert_clean(&bundle("online.tar"), &secrets, &wanted);
    assert_eq!(part(&files, "check.json")["clean"], true);
    assert_eq!(part(&files, "about.json")["server_running"], true);
    let tables = part(&files, "tables.json");
    let rows = |table: &str| {
        let sizes = tables["tables"].as_array().unwrap();
        sizes.iter().find(|size| size["name"] == table).unwrap_or_else(|| panic!("{table}: {tables}"))["rows"].as_u64().unwrap()
    };
    assert!(rows("tickets") == 1 && rows("users") >= 2 && rows("events") > 5, "{tables}");
    assert!(tables["platform_audit_records"].as_u64().unwrap() > 0);
    assert!(refused(&run("online.tar", &[]), 1).contains("online.tar"), "a file that is there is left alone");
    assert_eq!(server.stop(), Some(0));

    let offline = run("offline.tar", &["--json"]);
    let report: Value = serde_json::from_slice(&offline.stdout).unwrap_or_else(|_| panic!("{}", text(&offline.stderr)));
    assert_eq!(report["bytes"], std::fs::metadata(bundle("offline.tar")).unwrap().len());
    let files = assert_clean(&bundle("offline.tar"), &secrets, &wanted[..6]);
    assert_eq!(
        (&part(&files, "about.json")["server_running"], &part(&files, "check.json")["clean"]),
        (&false.into(), &true.into())
    );
    let store = std::fs::read(data.join("tenantd.redb")).unwrap();
    assert!(holds(&store, "canary-subject"), "the search works: what is no secret is found in the store");
}
