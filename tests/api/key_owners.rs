//! Owners of keys: losing the owner pauses a key, and a caller that covers it can take it over.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Actor, PASSWORD, TestApp, with_app};

const KEYS: &str = "/api/admin/api-keys";
const USERS: &str = "/api/admin/users";

/// A signed-in staff user and the path of the user.
pub async fn person(app: &TestApp, admin: &Actor, name: &str, role: &str) -> (Actor, String) {
    let email = format!("{name}@acme.example");
    let user = admin.post(USERS).json(json!({"email": email, "name": name, "role": role})).send().await.ok(201).clone();
    let body = json!({"token": user["password_token"], "password": PASSWORD});
    assert_eq!(app.anonymous().post("/api/auth/password").json(body).send().await.status, 204);
    (app.sign_in(&email).await, format!("{USERS}/{}", user["id"].as_str().unwrap()))
}

/// A key, and a client that uses it.
pub async fn key_of(app: &TestApp, maker: &Actor, name: &str, scopes: &[&str]) -> (Actor, Value) {
    let key = maker.post(KEYS).json(json!({"name": name, "scopes": scopes})).send().await.ok(201).clone();
    (app.anonymous().bearer(key["key"].as_str().unwrap()), key)
}

fn path(key: &Value) -> String {
    format!("{KEYS}/{}", key["id"].as_str().unwrap())
}

async fn works(actor: &Actor) -> bool {
    let reply = actor.get("/api/auth/session").send().await;
    if reply.status != 200 {
        assert_eq!(reply.problem(401), "key_disabled");
    }
    reply.status == 200
}

#[tokio::test]
async fn removing_a_user_pauses_their_keys() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (ada, ada_path) = person(app, &admin, "ada", "admin").await;
        let (first, record) = key_of(app, &ada, "First", &["*"]).await;
        let (second, child) = key_of(app, &first, "Second", &["tickets:read"]).await;
        let (other, _) = key_of(app, &admin, "Other", &["*"]).await;
        assert_eq!((&record["owner"], &child["owner"]["id"]), (&record["created_by"], &record["id"]));
        assert_eq!(admin.delete(&ada_path).send().await.status, 204);
        assert!(!works(&first).await && !works(&second).await && works(&other).await);
        for key in [&record, &child] {
            let shown = admin.get(&path(key)).send().await.ok(200).clone();
            assert_eq!((&shown["status"], &shown["paused"]["reason"]), (&json!("disabled"), &json!("owner_removed")));
        }
        let events = admin.get("/api/events?types=api_key.paused").send().await.ok(200)["data"].as_array().unwrap().clone();
        let ids: Vec<&Value> = events.iter().map(|event| &event["resource"]["id"]).collect();
        assert_eq!(ids, [&record["id"], &child["id"]]);
        assert_eq!(
            (&events[0]["actor"]["name"], &events[0]["data"]["api_key"]["paused"]["reason"]),
            (&json!("admin"), &json!("owner_removed"))
        );
    })
    .await;
}

#[tokio::test]
async fn disabling_a_user_pauses_their_keys() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (ada, ada_path) = person(app, &admin, "ada", "admin").await;
        let (key, record) = key_of(app, &ada, "Ada's", &["*"]).await;
        admin.put(&ada_path).json(json!({"status": "disabled"})).send().await.ok(200);
        assert!(!works(&key).await);
        admin.put(&ada_path).json(json!({"status": "active"})).send().await.ok(200);
        assert!(!works(&key).await, "nobody has looked at the key yet");
        let ada = app.sign_in("ada@acme.example").await;
        let enabled = ada.put(&path(&record)).json(json!({"enabled": true})).send().await.ok(200).clone();
        assert!(works(&key).await && enabled.get("paused").is_none());
        assert_eq!(enabled["owner"], record["owner"]);
    })
    .await;
}

#[tokio::test]
async fn a_lower_role_pauses_stronger_keys() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (ada, ada_path) = person(app, &admin, "ada", "admin").await;
        let (strong, record) = key_of(app, &ada, "Strong", &["*"]).await;
        let (weak, _) = key_of(app, &ada, "Weak", &["tickets:read"]).await;
        let (below, _) = key_of(app, &strong, "Below", &["vms:write"]).await;
        admin.put(&ada_path).json(json!({"role": "technician"})).send().await.ok(200);
        assert!(!works(&strong).await && works(&weak).await && works(&below).await);
        assert_eq!(admin.get(&path(&record)).send().await.ok(200)["paused"]["reason"], "owner_demoted");
        admin.put(&ada_path).json(json!({"role": "viewer"})).send().await.ok(200);
        assert!(works(&weak).await && !works(&below).await, "what belongs to a paused key is looked at too");
    })
    .await;
}

#[tokio::test]
async fn a_covering_user_takes_over_a_key() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let (ada, ada_path) = person(app, &admin, "ada", "admin").await;
        let (bo, bo_path) = person(app, &admin, "bo", "admin").await;
        let (paused, record) = key_of(app, &ada, "Paused", &["*"]).await;
        let (kept, kept_record) = key_of(app, &ada, "Kept", &["*"]).await;
        bo.post(&format!("{}/take-over", path(&kept_record))).send().await.ok(200);
        admin.delete(&ada_path).send().await;
        assert!(works(&kept).await && !works(&paused).await, "one was handed over in time");

        let weak = tenant.key(&["api_keys:write"]).await;
        let take_over = format!("{}/take-over", path(&record));
        assert_eq!(weak.post(&take_over).send().await.problem(403), "insufficient_scope");
        assert_eq!(weak.put(&path(&record)).json(json!({"enabled": true})).send().await.problem(403), "insufficient_scope");
        assert!(!works(&paused).await);
        let taken = bo.post(&take_over).header("if-match", "\"v2\"").send().await.ok(200).clone();
        assert_eq!(
            (&taken["owner"]["name"], &taken["created_by"]["name"], &taken["status"]),
            (&json!("bo"), &json!("ada"), &json!("active"))
        );
        assert!(works(&paused).await);
        let again = bo.post(&take_over).send().await;
        assert_eq!(again.ok(200)["version"], taken["version"], "what is theirs already stays as it is");
        let event = admin.get("/api/events?types=api_key.updated").send().await.ok(200)["data"][1].clone();
        assert_eq!(event["data"]["changes"]["owner"]["to"]["name"], "bo");
        assert_eq!(event["data"]["changes"]["enabled"], json!({"from": false, "to": true}));

        admin.put(&bo_path).json(json!({"status": "disabled"})).send().await.ok(200);
        assert!(!works(&paused).await && !works(&kept).await, "they are bo's now");
    })
    .await;
}

#[tokio::test]
async fn revoking_a_key_pauses_keys_it_created() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (first, record) = key_of(app, &admin, "First", &["*"]).await;
        let (second, child) = key_of(app, &first, "Second", &["api_keys:*", "tickets:read"]).await;
        let (third, grandchild) = key_of(app, &second, "Third", &["tickets:read"]).await;
        admin.delete(&path(&record)).send().await.ok(200);
        assert!(!works(&second).await && !works(&third).await);
        let read = async |key: &Value| admin.get(&path(key)).send().await.ok(200).clone();
        let (second, third) = (read(&child).await, read(&grandchild).await);
        assert_eq!((&second["paused"]["reason"], &third["paused"]["reason"]), (&json!("owner_revoked"), &json!("owner_revoked")));
        assert_eq!(second["owner"]["name"], "admin", "the owner of the revoked key takes its place");
        assert_eq!(third["owner"]["id"], child["id"]);
    })
    .await;
}

/// The request that makes the key is authenticated before the change, and written after it.
#[tokio::test]
async fn no_key_outlives_the_rights_of_its_maker() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        for round in 0..12 {
            let (parent, record) = key_of(app, &admin, &format!("Parent {round}"), &["*"]).await;
            let (maker, maker_path) = person(app, &admin, &format!("maker{round}"), "admin").await;
            let make = |actor: &Actor, name: &str| {
                let body = json!({"name": format!("{name} {round}"), "scopes": ["tickets:read"]});
                actor.post(KEYS).json(body).send()
            };
            let disable = admin.put(&maker_path).json(json!({"status": "disabled"})).send();
            let revoke = admin.delete(&path(&record)).send();
            let (child, own, disabled, revoked) = tokio::join!(make(&parent, "Child"), make(&maker, "Own"), disable, revoke);
            assert_eq!((disabled.status, revoked.status), (200, 200));
            for made in [child, own] {
                if made.status == 201 {
                    assert!(!works(&app.anonymous().bearer(made.body["key"].as_str().unwrap())).await, "round {round}");
                } else {
                    assert!(matches!(made.status, 401 | 403), "{}", made.text);
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn keys_of_an_ended_key_get_a_new_owner() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (ada, ada_path) = person(app, &admin, "ada", "admin").await;
        let short = json!({"name": "Short", "scopes": ["*"], "expires_days": 1});
        let short = ada.post(KEYS).json(short).send().await.ok(201).clone();
        let (child, record) =
            key_of(app, &app.anonymous().bearer(short["key"].as_str().unwrap()), "Child", &["tickets:read"]).await;
        admin.put(&path(&record)).json(json!({"expires_days": 30})).send().await.ok(200);
        app.advance(Duration::from_hours(25));
        let admin = app.sign_in("admin@acme.example").await;
        let expired = admin.get("/api/events?types=api_key.expired&wait_seconds=30").send().await;
        assert_eq!(expired.ok(200)["data"][0]["resource"]["id"], short["id"]);
        assert_eq!(admin.get(&path(&record)).send().await.ok(200)["owner"]["name"], "ada");
        assert!(works(&child).await);
        admin.delete(&ada_path).send().await;
        assert!(!works(&child).await);
    })
    .await;
}

#[tokio::test]
async fn owners_never_form_a_cycle() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (first, record) = key_of(app, &admin, "First", &["*"]).await;
        let (second, child) = key_of(app, &first, "Second", &["*"]).await;
        for (actor, key) in [(&first, &record), (&second, &record), (&second, &child)] {
            let reply = actor.post(&format!("{}/take-over", path(key))).send().await;
            assert_eq!(reply.problem(409), "invalid_transition", "{}", key["name"]);
        }
        first.post(&format!("{}/take-over", path(&child))).send().await.ok(200);
    })
    .await;
}
