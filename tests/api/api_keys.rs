//! The lifecycle of an API key: creation, use, changes, rotation, revocation, expiry.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Actor, Setup, with_app, with_setup};

const KEYS: &str = "/api/admin/api-keys";
const STRANGE: &str = "org_01k9z7w3v5e8g9m2n4p6r8t0x1";

async fn create(actor: &Actor, body: Value) -> Value {
    actor.post(KEYS).json(body).send().await.ok(201).clone()
}

fn path(key: &Value) -> String {
    format!("{KEYS}/{}", key["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_key_is_created_used_rotated_and_revoked() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let reply = admin.post(KEYS).json(json!({"name": "Export", "scopes": ["*"], "expires_days": 30})).send().await;
        let created = reply.ok(201).clone();
        assert_eq!(reply.header("location"), path(&created));
        assert_eq!((reply.header("etag"), reply.header("cache-control")), ("\"v1\"", "no-store"));
        let plaintext = created["key"].as_str().unwrap();
        assert!(
            plaintext.starts_with(created["prefix"].as_str().unwrap())
                && plaintext.ends_with(created["last_four"].as_str().unwrap())
        );
        assert_eq!(created["expires_at"], "2026-01-31T00:00:00.000Z");
        assert_eq!(created["created_by"]["kind"], "user");

        for presented in [app.anonymous().bearer(plaintext), app.anonymous().with("x-api-key", plaintext)] {
            let session = presented.get("/api/auth/session").send().await;
            assert_eq!(session.ok(200)["id"], created["id"]);
        }
        let listed = admin.get(KEYS).send().await;
        assert_eq!(listed.ok(200)["data"][0]["id"], created["id"]);
        assert!(!listed.text.contains(plaintext));

        let rotated =
            admin.post(&format!("{}/rotate", path(&created))).json(json!({"overlap_seconds": 60})).send().await.ok(200).clone();
        let new_plaintext = rotated["key"].as_str().unwrap();
        assert_ne!(new_plaintext, plaintext);
        assert_eq!(rotated["version"], 2);
        for key in [plaintext, new_plaintext] {
            app.anonymous().bearer(key).get("/api/auth/session").send().await.ok(200);
        }
        app.advance(Duration::from_secs(61));
        let answer = async |key: &str| app.anonymous().bearer(key).get("/api/auth/session").send().await;
        assert_eq!(answer(plaintext).await.problem(401), "key_revoked");
        answer(new_plaintext).await.ok(200);

        let revoked = admin.delete(&path(&created)).send().await;
        assert_eq!(revoked.ok(200)["status"], "revoked");
        let refused = app.anonymous().bearer(new_plaintext).get("/api/auth/session").send().await;
        assert_eq!(refused.problem(401), "key_revoked");
        assert!(refused.header("www-authenticate").starts_with("Bearer"));
        let again = admin.delete(&path(&created)).send().await;
        assert_eq!(again.ok(200)["version"], revoked.body["version"], "revoking twice changes nothing");
    })
    .await;
}

#[tokio::test]
async fn earlier_secrets_are_reported_as_revoked() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let created = create(&admin, json!({"name": "Export", "scopes": ["tickets:read"], "expires_days": 30})).await;
        let mut secrets = vec![created["key"].as_str().unwrap().to_owned()];
        for overlap in [60, 0, 60] {
            let rotated = admin.post(&format!("{}/rotate", path(&created))).json(json!({"overlap_seconds": overlap})).send().await;
            secrets.push(rotated.ok(200)["key"].as_str().unwrap().to_owned());
        }
        let answers = async || {
            let mut answers = Vec::new();
            for secret in &secrets {
                let answer = app.anonymous().bearer(secret).get("/api/auth/session").send().await;
                answers.push(if answer.status == 200 { "ok".to_owned() } else { answer.problem(401).to_owned() });
            }
            answers
        };
        assert_eq!(answers().await, ["key_revoked", "key_revoked", "ok", "ok"]);
        app.advance(Duration::from_mins(1));
        assert_eq!(answers().await, ["key_revoked", "key_revoked", "key_revoked", "ok"]);
        admin.delete(&path(&created)).send().await.ok(200);
        assert_eq!(answers().await, ["key_revoked"; 4]);
    })
    .await;
}

#[tokio::test]
async fn query_body_and_path_change_a_key_alike() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let key = create(&admin, json!({"name": "One", "scopes": ["tickets:read"], "description": "old"})).await;
        let id = key["id"].as_str().unwrap();
        let by_query = admin.put(&format!("{KEYS}?id={id}")).json(json!({"name": "Two"})).send().await;
        assert_eq!((by_query.ok(200)["name"].as_str(), by_query.header("etag")), (Some("Two"), "\"v2\""));
        let by_body = admin.put(KEYS).json(json!({"id": id, "description": null})).send().await;
        assert!(by_body.ok(200).get("description").is_none());
        let by_path = admin.put(&path(&key)).json(json!({"enabled": false})).send().await;
        assert_eq!(by_path.ok(200)["status"], "disabled");
        assert_eq!(by_path.body["name"], "Two");
        let other = create(&admin, json!({"name": "Other", "scopes": ["*"]})).await;
        let mismatch = admin.put(&format!("{KEYS}?id={id}")).json(json!({"id": other["id"], "name": "x"})).send().await;
        assert_eq!(mismatch.problem(400), "id_mismatch");
        assert_eq!(admin.put(&path(&key)).json(json!({"id": other["id"]})).send().await.problem(400), "id_mismatch");
        let neither = admin.put(KEYS).json(json!({"name": "x"})).send().await;
        assert_eq!(
            (neither.problem(422), neither.field_errors()),
            ("validation_failed", vec![("id".to_owned(), "required".to_owned())])
        );
        admin.delete(KEYS).json(json!({"id": id})).send().await.ok(200);
        admin.delete(&format!("{KEYS}?id={}", other["id"].as_str().unwrap())).send().await.ok(200);
        assert_eq!(admin.put(&path(&key)).json(json!({"name": "x"})).send().await.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn stale_versions_are_refused_and_known_ones_not_resent() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let key = create(&admin, json!({"name": "One", "scopes": ["*"]})).await;
        let change = |tag: &'static str, name: &'static str| {
            admin.put(&path(&key)).header("if-match", tag).json(json!({"name": name})).send()
        };
        change("\"v1\"", "Two").await.ok(200);
        let stale = change("\"v1\"", "Three").await;
        assert_eq!((stale.problem(412), &stale.body["current_version"]), ("version_conflict", &json!(2)));
        assert_eq!(change("nonsense", "Four").await.problem(422), "validation_failed");
        assert_eq!(admin.delete(&path(&key)).header("if-match", "\"v1\"").send().await.problem(412), "version_conflict");
        let known = admin.get(&path(&key)).header("if-none-match", "\"v2\"").send().await;
        assert_eq!((known.status, known.text.as_str(), known.header("etag")), (304, "", "\"v2\""));
        admin.get(&path(&key)).header("if-none-match", "\"v1\"").send().await.ok(200);
        let same = admin.put(&path(&key)).json(json!({"name": "Two"})).send().await;
        assert_eq!(same.ok(200)["version"], 2, "a change that changes nothing is none");
    })
    .await;
}

#[tokio::test]
async fn all_input_errors_are_reported_at_once() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let cases = [
            (json!({}), vec![("/name", "required"), ("/scopes", "required")]),
            (
                json!({"scopes": ["tickets:reed"], "allowed_ips": ["here"], "expires_days": 4000, "organization_ids": [STRANGE]}),
                vec![
                    ("/allowed_ips", "wrong_form"),
                    ("/expires_days", "out_of_range"),
                    ("/name", "required"),
                    ("/organization_ids", "unknown_reference"),
                    ("/scopes", "unknown_scope"),
                ],
            ),
            (json!({"name": "", "scopes": []}), vec![("/name", "too_short"), ("/scopes", "too_few")]),
            (json!({"name": "x".repeat(101), "scopes": ["*"]}), vec![("/name", "too_long")]),
            (json!({"name": 5, "scopes": "*"}), vec![("/name", "wrong_type"), ("/scopes", "wrong_type")]),
            (json!({"name": "x", "scopes": ["*", "*"]}), vec![("/scopes", "repeated")]),
            (json!({"name": "x", "scopes": ["*"], "expires_days": 0}), vec![("/expires_days", "too_small")]),
            (json!({"name": "x", "scopes": ["*"], "expires_days": 366}), vec![("/expires_days", "out_of_range")]),
            (json!({"name": "x", "scopes": ["*"], "expires_days": 1.5}), vec![("/expires_days", "wrong_type")]),
            (json!({"name": "x", "scopes": ["*"], "expires_day": 5}), vec![("/expires_day", "unknown_field")]),
            (json!({"name": "x", "scopes": ["*"], "allowed_ips": ["here"]}), vec![("/allowed_ips", "wrong_form")]),
            (
                json!({"name": "x", "scopes": ["ticket:read", "nope"]}),
                vec![("/scopes", "unknown_scope"), ("/scopes", "unknown_scope")],
            ),
            (json!({"name": null, "scopes": ["*"]}), vec![("/name", "wrong_type")]),
            (json!([]), vec![("", "wrong_type")]),
        ];
        for (body, expected) in cases {
            let reply = admin.post(KEYS).json(body.clone()).send().await;
            assert_eq!(reply.problem(422), "validation_failed", "{body}");
            let expected: Vec<_> = expected.into_iter().map(|(place, code)| (place.to_owned(), code.to_owned())).collect();
            assert_eq!(reply.field_errors(), expected, "{body}");
        }
        let typo = admin.post(KEYS).json(json!({"name": "x", "scopes": ["ticket:read"]})).send().await;
        assert_eq!(typo.body["errors"][0]["suggestion"], "tickets:read");
        assert!(typo.body["errors"][0]["allowed"].as_array().unwrap().contains(&json!("*:read")));
        assert_eq!(admin.get(KEYS).send().await.ok(200)["data"], json!([]), "nothing was stored");
    })
    .await;
}

#[tokio::test]
async fn key_names_are_unique_and_keys_are_limited() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("api_keys.max_live", 3);
    with_setup(setup, async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let first = create(&admin, json!({"name": "One", "scopes": ["*"]})).await;
        let taken = admin.post(KEYS).json(json!({"name": "ONE", "scopes": ["*"]})).send().await;
        assert_eq!(taken.problem(409), "already_exists");
        let second = create(&admin, json!({"name": "Two", "scopes": ["*"]})).await;
        assert_eq!(admin.put(&path(&second)).json(json!({"name": "one"})).send().await.problem(409), "already_exists");
        create(&admin, json!({"name": "Three", "scopes": ["*"], "expires_days": 1})).await;
        let full = admin.post(KEYS).json(json!({"name": "Four", "scopes": ["*"]})).send().await;
        assert_eq!(full.problem(422), "limit_reached");
        admin.delete(&path(&first)).send().await.ok(200);
        create(&admin, json!({"name": "One", "scopes": ["*"]})).await;
        // By then the third key has expired, so that another key can be created.
        app.advance(Duration::from_hours(25));
        let admin = app.sign_in("admin@acme.example").await;
        wait_for_event(&admin, "api_key.expired").await;
        create(&admin, json!({"name": "Three", "scopes": ["*"]})).await;
        let globex = app.tenant("globex").await;
        create(&globex.admin().await, json!({"name": "One", "scopes": ["*"]})).await;
    })
    .await;
}

async fn wait_for_event(actor: &Actor, kind: &str) -> Value {
    let reply = actor.get(&format!("/api/events?types={kind}&wait_seconds=30")).send().await;
    reply.ok(200)["data"][0].clone()
}

#[tokio::test]
async fn a_key_is_announced_expired_and_removed_by_the_clock() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (reader, _) = acme.new_key("Reader", &["events:read", "api_keys:*"]).await;
        let key = create(&acme.admin().await, json!({"name": "Short", "scopes": ["tickets:read"], "expires_days": 20})).await;
        app.advance(Duration::from_hours(24 * 6 + 1));
        assert_eq!(wait_for_event(&reader, "api_key.expiring").await["resource"]["id"], key["id"]);
        assert_eq!(reader.get(&path(&key)).send().await.ok(200)["status"], "expiring");
        app.advance(Duration::from_hours(24 * 14));
        let expired = wait_for_event(&reader, "api_key.expired").await;
        assert_eq!(expired["data"]["api_key"]["status"], "expired");
        assert_eq!(expired["actor"]["kind"], "system");
        let plaintext = key["key"].as_str().unwrap();
        assert_eq!(app.anonymous().bearer(plaintext).get("/api/auth/session").send().await.problem(401), "key_expired");
        let rotate = reader.post(&format!("{}/rotate", path(&key))).send().await;
        assert_eq!(rotate.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn an_expired_key_can_be_extended() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (keeper, _) = acme.new_key("Keeper", &["events:read", "api_keys:*", "tickets:read"]).await;
        let key = create(&acme.admin().await, json!({"name": "Short", "scopes": ["tickets:read"], "expires_days": 1})).await;
        app.advance(Duration::from_hours(25));
        wait_for_event(&keeper, "api_key.expired").await;
        let revived = keeper.put(&path(&key)).json(json!({"expires_days": 10})).send().await;
        assert_eq!(revived.ok(200)["status"], "expiring");
        app.anonymous().bearer(key["key"].as_str().unwrap()).get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_key_gets_no_scope_its_creator_lacks() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let minter = acme.key(&["api_keys:*", "tickets:read"]).await;
        create(&minter, json!({"name": "Fine", "scopes": ["tickets:read"]})).await;
        let wide = minter.post(KEYS).json(json!({"name": "Wide", "scopes": ["*"]})).send().await;
        assert_eq!(wide.problem(403), "insufficient_scope");
        assert!(wide.body["required_scopes"].as_array().unwrap().contains(&json!("vms:write")));
        let key = create(&minter, json!({"name": "Narrow", "scopes": ["tickets:read"]})).await;
        let widened = minter.put(&path(&key)).json(json!({"scopes": ["tickets:*"]})).send().await;
        assert_eq!(widened.problem(403), "insufficient_scope");
        let admin = acme.admin().await;
        let platform = admin.post(KEYS).json(json!({"name": "P", "scopes": ["platform:read"]})).send().await;
        assert_eq!(platform.problem(403), "insufficient_scope");
    })
    .await;
}

#[tokio::test]
async fn disabled_keys_and_foreign_addresses_are_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let key = create(&admin, json!({"name": "Bound", "scopes": ["*"], "allowed_ips": ["203.0.113.0/24", "::1"]})).await;
        assert_eq!(key["allowed_ips"], json!(["203.0.113.0/24", "::1/128"]));
        let bound = app.anonymous().bearer(key["key"].as_str().unwrap());
        assert_eq!(bound.get("/api/auth/session").send().await.problem(403), "ip_not_allowed");
        admin.put(&path(&key)).json(json!({"allowed_ips": null})).send().await.ok(200);
        bound.get("/api/auth/session").send().await.ok(200);
        admin.put(&path(&key)).json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(bound.get("/api/auth/session").send().await.problem(401), "key_disabled");
        admin.put(&path(&key)).json(json!({"enabled": true})).send().await.ok(200);
        bound.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn usage_counts_survive_a_restart() {
    let setup = || Setup::default().with("rate_limits.enabled", false);
    let directory = tempfile::tempdir().unwrap();
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = crate::harness::TestApp::start(directory, &setup(), start).await;
    let acme = app.tenant("acme").await;
    let (user, key) = acme.new_key("Used", &["api_keys:read"]).await;
    for _ in 0..5 {
        user.get("/api/auth/session").send().await.ok(200);
    }
    assert_eq!(user.get(&path(&key)).send().await.ok(200)["use_count"], 0, "uses are written in batches");
    let plaintext = key["key"].as_str().unwrap().to_owned();
    let (directory, now) = app.stop().await;
    let app = crate::harness::TestApp::start(directory, &setup(), now).await;
    let user = app.anonymous().bearer(&plaintext);
    let record = user.get(&path(&key)).send().await;
    assert_eq!(record.ok(200)["use_count"], 6);
    assert_eq!(record.body["last_used_ip"], "127.0.0.1");
    assert_eq!(record.header("etag"), "\"v1\"", "a use is no change of the record");
    app.stop().await;
}
