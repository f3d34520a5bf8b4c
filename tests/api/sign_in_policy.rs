//! The sign-in policy: who needs a second factor, and what a session can do that lacks one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    authorization::fill,
    harness::{
        Actor, TestApp,
        authenticator::{FACTORS, add_app, challenge, send_code, session_of},
        with_app,
    },
};

const POLICY: &str = "/api/admin/sign-in-policy";

async fn require(admin: &Actor, policy: Value) {
    admin.put(POLICY).json(json!({"second_factor": policy})).send().await.ok(200);
}

/// The operations that a session can use that lacks a second factor.
const OPEN: [&str; 10] = [
    "add_factor",
    "add_passkey",
    "begin_passkey",
    "begin_passkey_proof",
    "begin_totp",
    "confirm_sign_in",
    "list_factors",
    "logout",
    "read_session",
    "verify_factor",
];

/// Every operation of the public document and of the document for agents, with its need.
async fn operations(app: &TestApp) -> Vec<(String, String, String, bool)> {
    let mut found = Vec::new();
    for place in ["/api/openapi.json", "/internal/openapi.json"] {
        let document = app.anonymous().get(place).send().await.ok(200).clone();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap().iter().filter(|(_, operation)| operation["x-need"].is_string())
            {
                let id = operation["operationId"].as_str().unwrap().to_owned();
                found.push((id, method.to_uppercase(), fill(path), operation.get("requestBody").is_some()));
            }
        }
    }
    assert!(found.len() > 100);
    found
}

/// Expects that a session reaches nothing but its own second factor.
async fn expect_limited(app: &TestApp, session: &Actor) {
    for (id, method, path, has_body) in operations(app).await.into_iter().filter(|(id, ..)| id != "logout") {
        let call = session.call(&method, &path);
        let reply = if has_body { call.json(json!({})).send().await } else { call.send().await };
        if OPEN.contains(&id.as_str()) {
            assert_ne!(reply.status, 403, "{id}: {}", reply.text);
        } else {
            assert_eq!(reply.problem(403), "second_factor_missing", "{id}");
        }
    }
    assert_eq!(session.get("/api/auth/session").send().await.ok(200)["scopes"], json!([]));
    let page = session.get("/tickets").header("accept", "text/html").send().await;
    assert_eq!((page.status, page.header("location")), (303, "/second-factor"));
    let form = session.post("/settings/keys/new").header("accept", "text/html");
    assert_eq!(form.text("application/x-www-form-urlencoded", "name=x").send().await.status, 403);
}

#[tokio::test]
async fn a_required_factor_limits_sessions_until_it_is_added() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        let policy = admin.get(POLICY).send().await;
        assert_eq!(
            policy.ok(200),
            &json!({"second_factor": {"required_for": [], "with_sso": false}, "personal_keys": "allowed", "version": 0})
        );
        require(&admin, json!({"required_for": ["admin"]})).await;
        expect_limited(app, &admin).await;
        viewer.get("/api/psa/tickets").send().await.ok(200);
        let fresh = app.sign_in("admin@acme.example").await;
        expect_limited(app, &fresh).await;
        assert_eq!(fresh.get("/api/auth/session").send().await.ok(200)["second_factor_missing"], true);
        let (codes, factor) = add_app(app, &fresh, "Phone").await;
        let now = fresh.get("/api/auth/session").send().await;
        assert!(now.ok(200).get("second_factor_missing").is_none() && !now.body["scopes"].as_array().unwrap().is_empty());
        fresh.get("/api/admin/users").send().await.ok(200);
        let last = fresh.delete(&format!("{FACTORS}/{}", factor["id"].as_str().unwrap())).send().await;
        assert_eq!(last.problem(409), "invalid_transition", "the policy needs it");
        assert_eq!(admin.get("/api/auth/session").send().await.problem(401), "session_expired", "it has proven no factor");
        app.advance(Duration::from_secs(30));
        let signed_in = session_of(app, &send_code(app, &challenge(app, "admin@acme.example").await, &codes.code(app.now())).await);
        signed_in.get("/api/admin/users").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_new_role_needs_its_factor_at_once() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        add_app(app, &admin, "Phone").await;
        require(&admin, json!({"required_for": ["technician"]})).await;
        let id = viewer.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        viewer.get("/api/psa/tickets").send().await.ok(200);
        admin.put(&format!("/api/admin/users/{id}")).json(json!({"role": "technician"})).send().await.ok(200);
        assert_eq!(viewer.get("/api/psa/tickets").send().await.problem(403), "second_factor_missing");
        require(&admin, json!({"required_for": []})).await;
        viewer.get("/api/psa/tickets").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn an_operator_without_the_factor_operates_nothing() {
    with_app(async |app| {
        let operator = app.operator().await;
        require(&operator, json!({"required_for": ["operator"]})).await;
        expect_limited(app, &operator).await;
        let status = operator.get("/status/").header("accept", "application/json").send().await;
        let stranger = app.anonymous().get("/status/").header("accept", "application/json").send().await;
        let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(members(status.ok(200)), members(stranger.ok(200)));
        add_app(app, &operator, "Phone").await;
        operator.get("/api/platform/tenants").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn the_policy_needs_the_rights_over_every_account() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let body = json!({"second_factor": {"required_for": ["viewer", "viewer"]}});
        let keeper = acme.key(&["users:*"]).await;
        assert_eq!(keeper.put(POLICY).json(body.clone()).send().await.problem(403), "insufficient_scope");
        keeper.get(POLICY).send().await.ok(200);
        let first = admin.put(POLICY).json(body.clone()).header("if-match", "\"v0\"").send().await;
        assert_eq!((&first.ok(200)["second_factor"]["required_for"], first.header("etag")), (&json!(["viewer"]), "\"v1\""));
        assert_eq!(admin.put(POLICY).json(body.clone()).send().await.ok(200)["version"], 1, "nothing changed");
        let stale =
            admin.put(POLICY).json(json!({"second_factor": {"required_for": []}})).header("if-match", "\"v0\"").send().await;
        assert_eq!(stale.problem(412), "version_conflict");
        let wrong = admin.put(POLICY).json(json!({"second_factor": {"required_for": ["admin", "operator"]}})).send().await;
        assert_eq!(wrong.field_errors(), [("/second_factor/required_for/1".to_owned(), "role_mismatch".to_owned())]);
        let feed = admin.get("/api/events?types=sign_in_policy.updated").send().await.ok(200)["data"].clone();
        assert_eq!(feed.as_array().unwrap().len(), 1);
        assert_eq!(feed[0]["data"]["changes"]["required_for"], json!({"from": [], "to": ["viewer"]}));
        let globex = app.tenant("globex").await.admin().await;
        assert_eq!(globex.get(POLICY).send().await.ok(200)["version"], 0, "each tenant has its own");
    })
    .await;
}
