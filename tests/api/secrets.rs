//! No secret is in clear text on disk, in a feed or in a snapshot: the test searches for canaries from every secret field.

use std::path::Path;

use serde_json::json;

use crate::harness::{PASSWORD, Setup, TestApp, with_app};

const KEYS: &str = "/api/admin/api-keys";
const TICKETS: &str = "/api/psa/tickets";

fn files(directory: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.is_file() {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[tokio::test]
async fn no_secret_is_on_disk_in_clear_text() {
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &Setup::default().with("rate_limits.enabled", false), start).await;
    let acme = app.tenant("acme").await;
    let admin = acme.admin().await;
    let create =
        admin.post("/api/admin/api-keys").header("idempotency-key", "canary").json(json!({"name": "Canary name", "scopes": ["*"]}));
    let key = create.send().await.ok(201)["key"].as_str().unwrap().to_owned();
    let id = admin.get("/api/admin/api-keys").send().await.ok(200)["data"][0]["id"].as_str().unwrap().to_owned();
    let rotate = admin.post(&format!("/api/admin/api-keys/{id}/rotate")).header("idempotency-key", "canary");
    let rotated = rotate.send().await.ok(200)["key"].as_str().unwrap().to_owned();
    let webhook = json!({"name": "Canary", "url": "https://192.0.43.8/", "events": ["api_key.expired"], "headers": {"x-token": "canary-header-value"}});
    let create = admin.post("/api/admin/webhooks").header("idempotency-key", "canary").json(webhook);
    let webhook_secret = create.send().await.ok(201)["secret"].as_str().unwrap().to_owned();
    let cloud = json!({"name": "Canary", "kind": "aws", "enabled": false, "credential": {"access_key_id": "AKIA", "secret_access_key": "canary-cloud-secret", "session_token": "canary-cloud-token"}});
    let create = admin.post("/api/cloud/providers?verify=skip").header("idempotency-key", "canary").json(cloud);
    create.send().await.ok(201);
    let simulated = admin.post("/api/cloud/providers").json(json!({"name": "Sim", "kind": "simulated"})).send().await;
    let order = json!({"provider_id": simulated.ok(201)["id"], "name": "web", "region": "sim-east", "size": "sim.small", "image": "debian-13", "user_data": "canary-user-data"});
    admin.post("/api/cloud/vms").header("idempotency-key", "canary").json(order).send().await.ok(202);
    let named = json!({"name": "canary", "value": "canary-named-value", "hosts": ["api.example.com"]});
    let named = admin.post("/api/admin/secrets").header("idempotency-key", "canary").json(named).send().await;
    let path = format!("/api/admin/secrets/{}/rotate", named.ok(201)["id"].as_str().unwrap());
    let rotate = admin.post(&path).header("idempotency-key", "canary").json(json!({"value": "canary-named-next"}));
    rotate.send().await.ok(200);
    let named_secrets = ["canary-named-value", "canary-named-next"];
    let cloud_secrets = ["canary-cloud-secret", "canary-cloud-token", "canary-user-data"];
    let login =
        app.anonymous().post("/api/auth/login").json(json!({"email": "admin@acme.example", "password": PASSWORD})).send().await;
    let token = login.header("set-cookie").split(';').next().unwrap().split_once('=').unwrap().1.to_owned();
    let feed = admin.get("/api/events?limit=200").send().await.text;
    let snapshot = app.data_directory().join("snapshot");
    app.local().post("/internal/admin/backup").json(json!({"path": snapshot.display().to_string()})).send().await.ok(200);
    let (directory, _) = app.stop().await;
    let mut found = vec![("the feed".to_owned(), feed.into_bytes())];
    files(directory.path(), &mut found);
    let store = found.iter().find(|(name, _)| name.ends_with("tenantd.redb")).unwrap();
    assert!(contains(&store.1, "Canary name"), "the search works: what is no secret is found");
    for (name, bytes) in &found {
        let secrets = [key.as_str(), rotated.as_str(), PASSWORD, token.as_str(), webhook_secret.as_str(), "canary-header-value"];
        for secret in secrets.into_iter().chain(cloud_secrets).chain(named_secrets) {
            assert!(!contains(bytes, secret), "{name} holds a secret in clear");
        }
    }
    let installation_key = std::fs::read_to_string(directory.path().join("installation.key")).unwrap();
    for (name, bytes) in found.iter().filter(|(name, _)| !name.ends_with("installation.key")) {
        assert!(!contains(bytes, installation_key.trim()), "{name} holds the installation key");
    }
}

/// Only responses about keys and tickets are rendered once, as `tests/security/asvs.rs` ensures.
#[tokio::test]
async fn cached_responses_have_no_secret_and_one_audience() {
    with_app(async |app| {
        let (acme, other) = (app.tenant("acme").await, app.tenant("other").await);
        let (admin, stranger) = (acme.admin().await, other.admin().await);
        let made = admin.post(KEYS).json(json!({"name": "Canary name", "scopes": ["*"]})).send().await.ok(201).clone();
        let path = format!("{KEYS}/{}", made["id"].as_str().unwrap());
        let rotated = admin.post(&format!("{path}/rotate")).send().await.ok(200)["key"].as_str().unwrap().to_owned();
        let organizations = [acme.organization("Ours").await, acme.organization("Theirs").await];
        let mut tickets = Vec::new();
        for organization in &organizations {
            let body = json!({"subject": "Canary name", "organization_id": organization});
            let ticket = admin.post(TICKETS).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
            tickets.push(format!("{TICKETS}/{ticket}"));
        }
        let restricted = json!({"name": "Restricted", "scopes": ["tickets:read"], "organization_ids": [organizations[0]]});
        let restricted = admin.post(KEYS).json(restricted).send().await.ok(201)["key"].as_str().unwrap().to_owned();
        let restricted = app.anonymous().bearer(&restricted);
        let secrets = [made["key"].as_str().unwrap(), rotated.as_str(), PASSWORD];
        for place in [KEYS, path.as_str(), TICKETS, &tickets[0], &tickets[1]] {
            // The second request gets the cached response, because the clock does not move.
            let answers = [admin.get(place).send().await, admin.get(place).send().await];
            assert_eq!(answers[0].text, answers[1].text);
            assert!(answers[1].ok(200).to_string().contains("Canary name"), "{place}");
            assert!(secrets.iter().all(|secret| !answers[1].text.contains(secret)), "{place} shows a secret");
            let foreign = stranger.get(place).send().await;
            assert!(!foreign.text.contains("Canary name"), "{place}: another tenant gets what was kept: {}", foreign.text);
        }
        let seen = restricted.get(TICKETS).send().await.ok(200)["data"].as_array().unwrap().len();
        assert_eq!(
            (seen, restricted.get(&tickets[1]).send().await.status),
            (1, 404),
            "what was kept is not for everyone in the tenant"
        );
        assert!([401, 403].contains(&restricted.get(KEYS).send().await.status));
    })
    .await;
}

#[test]
fn secret_files_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let start = tenantd_base::clock::Timestamp::EPOCH;
        let app = TestApp::start(tempfile::tempdir().unwrap(), &Setup::default().with("listen.tls", true), start).await;
        for name in ["tenantd.redb", "installation.key", "installation.id", "admin.sock", "tls/private-key.pem", "tenantd.lock"] {
            let mode = std::fs::metadata(app.data_directory().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        app.stop().await;
    });
}
