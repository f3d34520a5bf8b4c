//! A key gets no rights that the holder of its secret lacks: the caller that created it, or the last one that rotated it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Reply, TestApp, with_app},
    key_owners::{key_of, person},
};

const KEYS: &str = "/api/admin/api-keys";
const HELPER: &[&str] = &["api_keys:*", "tickets:read"];

fn path(key: &Value) -> String {
    format!("{KEYS}/{}", key["id"].as_str().unwrap())
}

async fn change(actor: &Actor, key: &Value, change: Value) -> Reply {
    actor.put(&path(key)).json(change).send().await
}

async fn rotate(actor: &Actor, key: &Value, overlap_seconds: u64) -> Reply {
    actor.post(&format!("{}/rotate", path(key))).json(json!({"overlap_seconds": overlap_seconds})).send().await
}

/// Checks that the change is refused, and that the error names the holder and the way out.
#[track_caller]
fn assert_held(reply: &Reply, holder: &str) {
    assert_eq!(reply.problem(409), "invalid_transition");
    let detail = reply.body["detail"].as_str().unwrap();
    assert!(detail.contains(holder) && detail.contains("overlap_seconds: 0"), "{detail}");
}

async fn status(app: &TestApp, answer: &Reply, path: &str) -> u16 {
    app.anonymous().bearer(answer.body["key"].as_str().unwrap()).get(path).send().await.status
}

#[tokio::test]
async fn a_secret_from_a_weak_time_gets_no_rights_back() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let (_, key) = key_of(app, &admin, "Automation", &["*"]).await;
        let (helper, _) = acme.new_key("Helper", HELPER).await;
        assert_eq!(rotate(&helper, &key, 0).await.problem(403), "insufficient_scope");
        change(&helper, &key, json!({"scopes": ["tickets:read"]})).await.ok(200);
        helper.post(&format!("{}/take-over", path(&key))).send().await.ok(200);
        let stolen = rotate(&helper, &key, 0).await;
        assert_eq!(status(app, &stolen, "/api/psa/tickets").await, 200);
        for wanted in [json!(["*"]), json!(["tickets:read", "users:read"])] {
            assert_held(&change(&admin, &key, json!({"scopes": wanted})).await, "The API key Helper");
        }
        assert_eq!(status(app, &stolen, "/api/admin/users").await, 403);
        change(&admin, &key, json!({"name": "Renamed", "expires_days": 200})).await.ok(200);

        let new = rotate(&admin, &key, 0).await;
        let widened = change(&admin, &key, json!({"scopes": ["*"]})).await.ok(200).clone();
        assert_eq!(widened["owner"]["name"], "admin", "the former owner does not cover the key");
        let event = admin.get("/api/events?types=api_key.updated&limit=200").send().await.ok(200)["data"].clone();
        let event = event.as_array().unwrap().last().unwrap().clone();
        assert_eq!(event["data"]["changes"]["owner"]["to"]["name"], "admin", "{event}");
        assert_eq!(status(app, &new, "/api/admin/users").await, 200);
        assert_eq!(status(app, &stolen, "/api/psa/tickets").await, 401);
    })
    .await;
}

#[tokio::test]
async fn a_replaced_secret_counts_until_it_ends() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let (helper, _) = acme.new_key("Helper", HELPER).await;
        let (_, key) = key_of(app, &helper, "Export", &["tickets:read"]).await;
        let wider = json!({"scopes": ["tickets:read", "users:read"]});
        assert_held(&change(&admin, &key, wider.clone()).await, "The API key Helper");
        rotate(&admin, &key, 60).await.ok(200);
        assert_held(&change(&admin, &key, wider.clone()).await, "The API key Helper");
        app.advance(Duration::from_secs(61));
        assert_eq!(change(&admin, &key, wider).await.ok(200)["owner"]["name"], "admin");
    })
    .await;
}

#[tokio::test]
async fn a_key_that_rotates_itself_keeps_its_holder() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let (helper, _) = acme.new_key("Helper", HELPER).await;
        let (itself, key) = key_of(app, &helper, "Export", HELPER).await;
        rotate(&itself, &key, 0).await.ok(200);
        assert_held(&change(&admin, &key, json!({"scopes": ["*"]})).await, "The API key Helper");
    })
    .await;
}

#[tokio::test]
async fn administrators_widen_their_keys() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let north = acme.organization("North").await;
        let body = json!({"name": "Own", "scopes": ["tickets:read"], "organization_ids": [north], "allowed_ips": ["192.0.2.0/24"]});
        let own = admin.post(KEYS).json(body).send().await.ok(201).clone();
        let (_, of_the_operator) = acme.new_key("Of the operator", &["tickets:read"]).await;
        let (other, _) = person(app, &admin, "ada", "admin").await;
        for (actor, key) in [(&admin, &own), (&other, &own), (&admin, &of_the_operator)] {
            change(actor, key, json!({"scopes": ["tickets:read"]})).await.ok(200);
            change(actor, key, json!({"organization_ids": null, "allowed_ips": null})).await.ok(200);
            change(actor, key, json!({"scopes": ["*"]})).await.ok(200);
        }
        assert_eq!(change(&other, &own, json!({"enabled": true})).await.ok(200)["owner"]["name"], "admin");
        change(&admin, &own, json!({"scopes": ["tickets:read"]})).await.ok(200);
        rotate(&other, &own, 3600).await.ok(200);
        change(&admin, &own, json!({"scopes": ["*"]})).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_person_who_is_gone_covers_nothing() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (ada, ada_path) = person(app, &admin, "ada", "admin").await;
        let (_, key) = key_of(app, &ada, "Ada's", &["tickets:read"]).await;
        admin.delete(&ada_path).send().await;
        change(&admin, &key, json!({"enabled": true, "expires_days": 200})).await.ok(200);
        assert_held(&change(&admin, &key, json!({"scopes": ["tickets:*"]})).await, "ada");
        rotate(&admin, &key, 0).await.ok(200);
        change(&admin, &key, json!({"scopes": ["tickets:*"]})).await.ok(200);
    })
    .await;
}
