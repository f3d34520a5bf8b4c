//! `Idempotency-Key`: a repeated request returns the same response, a different one is refused, also after a restart.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Setup, TestApp, with_app};

const KEYS: &str = "/api/admin/api-keys";

#[tokio::test]
async fn a_repeated_request_returns_the_first_response() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let send = |key: &'static str, name: &'static str| {
            admin.post(KEYS).header("idempotency-key", key).json(json!({"name": name, "scopes": ["*"]})).send()
        };
        let first = send("once", "One").await;
        first.ok(201);
        assert_eq!(first.header("idempotency-replayed"), "");
        let second = send("once", "One").await;
        assert_eq!((second.status, &second.text), (201, &first.text));
        for name in ["location", "etag", "content-type", "cache-control"] {
            assert_eq!(second.header(name), first.header(name), "{name}");
        }
        assert_eq!(second.header("idempotency-replayed"), "true");
        assert_eq!(send("once", "Two").await.problem(422), "idempotency_key_reused");
        let other_credential = acme.key(&["*"]).await;
        let elsewhere =
            other_credential.post(KEYS).header("idempotency-key", "once").json(json!({"name": "Three", "scopes": ["*"]}));
        assert_ne!(elsewhere.send().await.ok(201)["id"], first.body["id"], "a key counts for one credential");
        let listed = admin.get(&format!("{KEYS}?q=One&include_total=true")).send().await;
        assert_eq!(listed.ok(200)["page"]["total"], 1);
    })
    .await;
}

#[tokio::test]
async fn idempotency_keys_expire_after_a_day() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        let send = |body: serde_json::Value| admin.post(KEYS).header("idempotency-key", "k").json(body).send();
        assert_eq!(send(json!({"name": "One", "scopes": ["nope"]})).await.problem(422), "validation_failed");
        send(json!({"name": "One", "scopes": ["*"]})).await.ok(201);
        app.advance(Duration::from_hours(25));
        assert_eq!(send(json!({"name": "One", "scopes": ["*"]})).await.problem(409), "already_exists");
    })
    .await;
}

#[tokio::test]
async fn an_invalid_idempotency_key_is_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        for bad in ["", "with space", &"x".repeat(256)] {
            let reply = admin.post(KEYS).header("idempotency-key", bad).json(json!({"name": "One", "scopes": ["*"]})).send().await;
            assert_eq!(reply.problem(422), "validation_failed", "{bad:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn stored_responses_survive_a_restart() {
    let setup = || Setup::default().with("rate_limits.enabled", false);
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup(), start).await;
    let acme = app.tenant("acme").await;
    let (_, key) = acme.new_key("Admin", &["*"]).await;
    let plaintext = key["key"].as_str().unwrap();
    let body = json!({"name": "One", "scopes": ["*"]});
    let send =
        |app: &TestApp| app.anonymous().bearer(plaintext).post(KEYS).header("idempotency-key", "k").json(body.clone()).send();
    let first = send(&app).await;
    first.ok(201);
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup(), now).await;
    let second = send(&app).await;
    assert_eq!((second.status, second.text), (201, first.text));
    app.stop().await;
}

#[tokio::test]
async fn concurrent_duplicates_take_effect_once() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let admin = admin.clone();
                let body = json!({"name": "One", "scopes": ["*"]});
                tokio::spawn(async move { admin.post(KEYS).header("idempotency-key", "race").json(body).send().await })
            })
            .collect();
        let mut plaintexts = std::collections::BTreeSet::new();
        for call in calls {
            let reply = call.await.unwrap();
            match reply.status {
                201 => drop(plaintexts.insert(reply.body["key"].as_str().unwrap().to_owned())),
                _ => assert_eq!(reply.problem(409), "idempotency_in_progress"),
            }
        }
        assert_eq!(plaintexts.len(), 1);
    })
    .await;
}
