//! Sensitive operations need a session that was proven recently. The matrix comes from the published document.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    authorization::fill,
    harness::{Actor, PASSWORD, Reply, Setup, with_app, with_setup},
};

/// The operations that need a recent sign-in.
const SENSITIVE: [&str; 46] = [
    "add_factor",
    "add_passkey",
    "begin_passkey",
    "begin_totp",
    "create_api_key",
    "create_cloud_provider",
    "create_identity_provider",
    "create_own_key",
    "create_recovery_codes",
    "create_role",
    "create_secret",
    "create_user",
    "create_webhook",
    "delete_factor",
    "delete_identity_provider",
    "delete_identity_provider_by_id",
    "delete_tenant",
    "delete_user",
    "delete_user_by_id",
    "delete_user_factors",
    "end_other_sessions",
    "end_own_session",
    "give_portal_access",
    "issue_password_token",
    "replace_portal_settings",
    "replace_role_rules",
    "replace_sign_in_policy",
    "rotate_api_key",
    "rotate_secret",
    "rotate_webhook_secret",
    "take_over_api_key",
    "unlink_user",
    "update_api_key",
    "update_api_key_by_id",
    "update_cloud_provider",
    "update_cloud_provider_by_id",
    "update_identity_provider",
    "update_identity_provider_by_id",
    "update_role",
    "update_secret",
    "update_secret_by_id",
    "update_user",
    "update_user_by_id",
    "update_webhook",
    "update_webhook_by_id",
    "verify_identity_provider_domain",
];
const CODE: &str = "recent_sign_in_required";

struct Operation {
    id: String,
    method: String,
    path: String,
    has_body: bool,
}

async fn sensitive(actor: &Actor) -> Vec<Operation> {
    let document = actor.get("/api/openapi.json").send().await.ok(200).clone();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if operation["x-recent-sign-in"] == true {
                let id = operation["operationId"].as_str().unwrap().to_owned();
                let path = fill(path).replace("{domain}", "acme.example");
                found.push(Operation { id, method: method.to_uppercase(), path, has_body: operation.get("requestBody").is_some() });
            }
        }
    }
    found
}

async fn call(actor: &Actor, operation: &Operation) -> Reply {
    let call = actor.call(&operation.method, &operation.path);
    // Only a new target of a webhook is sensitive.
    let body = if operation.id.starts_with("update_webhook") { json!({"url": "https://example.com/"}) } else { json!({}) };
    if operation.has_body { call.json(body).send().await } else { call.send().await }
}

fn is_refused(reply: &Reply) -> bool {
    reply.body["code"] == CODE
}

#[tokio::test]
async fn the_document_names_the_sensitive_operations() {
    with_app(async |app| {
        let mut ids: Vec<String> = sensitive(&app.anonymous()).await.into_iter().map(|operation| operation.id).collect();
        ids.sort();
        assert_eq!(ids, SENSITIVE);
    })
    .await;
}

#[tokio::test]
async fn every_sensitive_operation_refuses_an_old_session_and_passes_after_a_confirmation() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, operator, key) = (acme.admin().await, app.operator().await, acme.key(&["*"]).await);
        let operations = sensitive(&app.anonymous()).await;
        let who = |operation: &Operation| if operation.path.starts_with("/api/platform/") { &operator } else { &admin };
        app.advance(Duration::from_secs(899));
        for operation in &operations {
            assert!(!is_refused(&call(who(operation), operation).await), "{} with a recent sign-in", operation.id);
        }
        app.advance(Duration::from_secs(1));
        for operation in &operations {
            let reply = call(who(operation), operation).await;
            assert_eq!(reply.problem(403), CODE, "{}", operation.id);
            assert_eq!(reply.body["recent_seconds"], 900);
            assert!(!is_refused(&call(&key, operation).await), "{} with a key", operation.id);
            assert!(!is_refused(&call(&app.local(), operation).await), "{} over the admin socket", operation.id);
        }
        admin.confirm().await;
        operator.confirm().await;
        for operation in &operations {
            assert!(!is_refused(&call(who(operation), operation).await), "{} after a confirmation", operation.id);
        }
    })
    .await;
}

#[tokio::test]
async fn a_person_can_always_stop_something() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        let viewer_id = viewer.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let (_, first) = acme.new_key("first", &["tickets:read"]).await;
        let (_, second) = acme.new_key("second", &["tickets:read"]).await;
        let key = |key: &Value| format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
        let user = format!("/api/admin/users/{viewer_id}");
        app.advance(Duration::from_hours(1));
        admin.put(&key(&first)).json(json!({"enabled": false})).send().await.ok(200);
        let both = admin.put(&key(&first)).json(json!({"enabled": false, "name": "x"})).send().await;
        assert_eq!(both.problem(403), CODE);
        assert_eq!(admin.put(&key(&first)).json(json!({"enabled": true})).send().await.problem(403), CODE);
        admin.delete(&key(&second)).send().await.ok(200);
        assert_eq!(admin.delete(&format!("{user}/sessions")).send().await.status, 204);
        admin.put(&user).json(json!({"status": "disabled"})).send().await.ok(200);
        assert_eq!(admin.put(&user).json(json!({"status": "active"})).send().await.problem(403), CODE);
        assert_eq!(admin.put(&user).json(json!({"status": "disabled", "name": "V"})).send().await.problem(403), CODE);
        let elsewhere = admin.delete("/api/auth/sessions").send().await;
        assert_eq!(elsewhere.problem(403), CODE, "somebody at an open browser does not sign the person out elsewhere");
        assert_eq!(admin.post("/api/auth/logout").send().await.status, 204);
    })
    .await;
}

#[tokio::test]
async fn events_go_to_a_new_server_only_after_a_confirmation() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let hook = |url: &str| json!({"name": "Chat", "url": url, "events": ["ticket.*"]});
        let made = admin.post("/api/admin/webhooks").json(hook("https://hooks.example.com/")).send().await.ok(201).clone();
        let path = format!("/api/admin/webhooks/{}", made["id"].as_str().unwrap());
        app.advance(Duration::from_hours(1));
        let elsewhere = "https://elsewhere.example.com/";
        assert_eq!(admin.post("/api/admin/webhooks").json(hook(elsewhere)).send().await.problem(403), CODE);
        for change in [json!({"url": elsewhere}), json!({"ca_certificate_pem": null}), json!({"name": "x", "url": elsewhere})] {
            assert_eq!(admin.put(&path).json(change.clone()).send().await.problem(403), CODE, "{change}");
        }
        for change in [json!({"name": "Room"}), json!({"status": "paused"}), json!({"status": "active"})] {
            admin.put(&path).json(change).send().await.ok(200);
        }
        let key = acme.key(&["webhooks:*", "tickets:read"]).await;
        key.put(&path).json(json!({"url": "https://hooks.example.com/b"})).send().await.ok(200);
        admin.confirm().await;
        admin.put(&path).json(json!({"url": elsewhere})).send().await.ok(200);
        app.advance(Duration::from_hours(1));
        assert_eq!(admin.delete(&path).send().await.status, 204);
    })
    .await;
}

#[tokio::test]
async fn a_confirmation_counts_for_its_session_alone_and_for_a_while() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("sessions.recent_seconds", 60);
    with_setup(setup, async |app| {
        let acme = app.tenant("acme").await;
        let (admin, elsewhere) = (acme.admin().await, app.sign_in("admin@acme.example").await);
        let create = async |actor: &Actor, name: &str| {
            actor.post("/api/admin/api-keys").json(json!({"name": name, "scopes": ["tickets:read"]})).send().await
        };
        app.advance(Duration::from_mins(1));
        let wrong = admin.post("/api/auth/confirm").json(json!({"password": "wrong wrong wrong"})).send().await;
        assert_eq!(wrong.field_errors(), [("/password".to_owned(), "wrong_password".to_owned())]);
        assert_eq!(create(&admin, "a").await.problem(403), CODE);
        let confirmed = admin.post("/api/auth/confirm").json(json!({"password": PASSWORD})).send().await.ok(200).clone();
        assert!(confirmed["recent_until"].as_str().unwrap() > confirmed["proven_at"].as_str().unwrap());
        create(&admin, "a").await.ok(201);
        assert_eq!(create(&elsewhere, "b").await.problem(403), CODE, "another session of the same person");
        app.advance(Duration::from_mins(1));
        assert_eq!(create(&admin, "c").await.problem(403), CODE);
        let key = acme.key(&["*"]).await;
        let by_key = key.post("/api/auth/confirm").json(json!({"password": PASSWORD})).send().await;
        assert_eq!(by_key.problem(403), "insufficient_authority");
    })
    .await;
}

#[tokio::test]
async fn a_refused_request_can_be_repeated_with_its_idempotency_key() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        app.advance(Duration::from_hours(1));
        let create = || {
            let call = admin.post("/api/admin/api-keys").header("idempotency-key", "once");
            call.json(json!({"name": "a", "scopes": ["tickets:read"]})).send()
        };
        assert_eq!(create().await.problem(403), CODE);
        admin.confirm().await;
        let made = create().await;
        assert_eq!(made.ok(201)["id"], create().await.body["id"]);
    })
    .await;
}
