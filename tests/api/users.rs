//! Users: staff set their own password, contacts do not sign in, and limits on changing other users.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Actor, PASSWORD, Reply, TestApp, with_app};

const USERS: &str = "/api/admin/users";

fn path(user: &Value) -> String {
    format!("{USERS}/{}", user["id"].as_str().unwrap())
}

async fn create(actor: &Actor, body: Value) -> Value {
    actor.post(USERS).json(body).send().await.ok(201).clone()
}

async fn set_password(app: &TestApp, token: &Value, password: &str) -> Reply {
    app.anonymous().post("/api/auth/password").json(json!({"token": token, "password": password})).send().await
}

#[tokio::test]
async fn a_password_token_works_once() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let created = admin
            .post(USERS)
            .json(json!({"email": " Ada@Acme.example", "name": "Ada", "role": "technician"}))
            .header("idempotency-key", "ada")
            .send()
            .await;
        let user = created.ok(201).clone();
        assert_eq!((created.header("cache-control"), created.header("location")), ("no-store", path(&user).as_str()));
        assert_eq!((user["email"].as_str(), user["kind"].as_str()), (Some("ada@acme.example"), Some("staff")));
        let login = json!({"email": "ada@acme.example", "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/login").json(login).send().await.problem(401), "invalid_credentials");
        let token = &user["password_token"];
        assert_eq!(set_password(app, token, "short").await.problem(422), "validation_failed");
        assert_eq!(set_password(app, &json!("nonsense"), PASSWORD).await.problem(401), "invalid_credentials");
        assert_eq!(set_password(app, token, PASSWORD).await.status, 204);
        assert_eq!(set_password(app, token, PASSWORD).await.problem(401), "invalid_credentials", "a token works once");
        let ada = app.sign_in("ada@acme.example").await;
        assert_eq!(ada.get("/api/auth/session").send().await.ok(200)["role"], "technician");
        let read = admin.get(&path(&user)).send().await;
        assert!(read.ok(200)["last_login_at"].is_string());
        assert!(!read.text.contains("password"), "{}", read.text);
    })
    .await;
}

#[tokio::test]
async fn a_password_token_expires_or_is_replaced() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        let user = create(&admin, json!({"email": "a@acme.example", "name": "A", "role": "viewer"})).await;
        let second = admin.post(&format!("{}/reset-password", path(&user))).send().await.ok(200).clone();
        assert_eq!(set_password(app, &user["password_token"], PASSWORD).await.problem(401), "invalid_credentials");
        app.advance(Duration::from_hours(72));
        assert_eq!(set_password(app, &second["password_token"], PASSWORD).await.problem(401), "invalid_credentials");
        let third = admin.post(&format!("{}/reset-password", path(&user))).send().await.ok(200).clone();
        app.advance(Duration::from_hours(71));
        assert_eq!(set_password(app, &third["password_token"], PASSWORD).await.status, 204);
        assert_eq!(third["version"], 3, "the version shows that a token was issued");
        let contact = create(&admin, json!({"name": "C", "kind": "contact"})).await;
        assert!(contact.get("password_token").is_none());
        let refused = admin.post(&format!("{}/reset-password", path(&contact))).send().await;
        assert_eq!(refused.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn the_last_active_admin_stays() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let id = admin.get("/api/auth/session").send().await.ok(200)["id"].clone();
        let me = path(&json!({"id": id}));
        for change in [json!({"status": "disabled"}), json!({"role": "viewer"})] {
            assert_eq!(admin.put(&me).json(change).send().await.problem(409), "in_use");
        }
        assert_eq!(admin.delete(&me).send().await.problem(409), "in_use");
        let second = create(&admin, json!({"email": "b@acme.example", "name": "B", "role": "admin"})).await;
        let set = json!({"token": second["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(set).send().await.status, 204);
        admin.put(&path(&second)).json(json!({"status": "disabled"})).send().await.ok(200);
        assert_eq!(admin.delete(&me).send().await.problem(409), "in_use", "a disabled administrator is none");
        admin.put(USERS).json(json!({"id": second["id"], "status": "active"})).send().await.ok(200);
        assert_eq!(admin.delete(&format!("{USERS}?id={}", id.as_str().unwrap())).send().await.status, 204);
        assert_eq!(admin.get("/api/auth/session").send().await.problem(401), "session_expired", "its sessions are gone");
    })
    .await;
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.key(&["*"]).await, acme.user("viewer").await);
        let again = app.sign_in("viewer@acme.example").await;
        let id = viewer.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let sessions = format!("{USERS}/{id}/sessions");
        let first = admin.get(&format!("{sessions}?limit=1&include_total=true")).send().await.ok(200).clone();
        assert_eq!((first["data"].as_array().unwrap().len(), &first["page"]["total"]), (1, &json!(2)));
        let session = &first["data"][0];
        assert_eq!((&session["methods"], &session["ip_address"]), (&json!(["password"]), &json!("127.0.0.1")));
        assert_eq!(session["proven_at"], session["created_at"]);
        let cursor = first["page"]["next_cursor"].as_str().unwrap();
        let second = admin.get(&format!("{sessions}?limit=1&cursor={cursor}")).send().await.ok(200).clone();
        assert_ne!(first["data"][0]["id"], second["data"][0]["id"]);
        assert!(second["page"].get("next_cursor").is_none());
        assert_eq!(admin.delete(&sessions).send().await.status, 204);
        for actor in [viewer, again] {
            assert_eq!(actor.get("/api/auth/session").send().await.problem(401), "session_expired");
        }
        let signed_in = app.sign_in("viewer@acme.example").await;
        admin.put(&format!("{USERS}/{id}")).json(json!({"status": "disabled"})).send().await.ok(200);
        assert_eq!(signed_in.get("/api/auth/session").send().await.problem(401), "session_expired");
    })
    .await;
}

#[tokio::test]
async fn nobody_gains_rights_through_another_user() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let admin_id = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let keeper = acme.key(&["users:*"]).await;
        let made = keeper.post(USERS).json(json!({"email": "x@acme.example", "name": "X", "role": "admin"})).send().await;
        assert_eq!(made.problem(403), "insufficient_scope");
        let taken = keeper.post(&format!("{USERS}/{admin_id}/reset-password")).send().await;
        assert_eq!(taken.problem(403), "insufficient_scope");
        let moved = keeper.put(&format!("{USERS}/{admin_id}")).json(json!({"email": "mine@acme.example"})).send().await;
        assert_eq!(moved.problem(403), "insufficient_scope");
        let contact = create(&keeper, json!({"name": "C", "kind": "contact"})).await;
        let raised = keeper.put(&path(&contact)).json(json!({"role": "admin"})).send().await;
        assert_eq!(raised.problem(403), "insufficient_scope");
        let operator = admin.post(USERS).json(json!({"email": "o@acme.example", "name": "O", "role": "operator"})).send().await;
        assert_eq!(operator.problem(403), "insufficient_scope");
    })
    .await;
}

#[tokio::test]
async fn users_are_listed_filtered_and_changed() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        let staff = create(&admin, json!({"email": "ada@acme.example", "name": "Ada", "role": "viewer"})).await;
        app.advance(Duration::from_secs(1));
        let contact =
            create(&admin, json!({"name": "Bo", "kind": "contact", "email": "bo@customer.example", "external_id": "7"})).await;
        let names = async |query: &str| {
            let page = admin.get(&format!("{USERS}?{query}")).send().await.ok(200).clone();
            page["data"].as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("").await, ["Bo", "Ada"]);
        assert_eq!(names("sort=created_at").await, ["Ada", "Bo"]);
        assert_eq!(names("kind=staff").await, ["Ada"]);
        assert_eq!(names("kind=contact").await, ["Bo"]);
        assert_eq!(names("role=admin").await, [""; 0]);
        assert_eq!(names("q=CUSTOMER").await, ["Bo"]);
        assert_eq!(names("status=disabled").await, [""; 0]);
        let changed = admin
            .put(&path(&contact))
            .json(json!({"name": "Bo B.", "external_id": null}))
            .header("if-match", "\"v1\"")
            .send()
            .await;
        assert_eq!((&changed.ok(200)["name"], changed.header("etag")), (&json!("Bo B."), "\"v2\""));
        let stale = admin.put(&path(&contact)).json(json!({"name": "No"})).header("if-match", "\"v1\"").send().await;
        assert_eq!((stale.problem(412), &stale.body["current_version"]), ("version_conflict", &json!(2)));
        let known = admin.get(&path(&contact)).header("if-none-match", "\"v2\"").send().await;
        assert_eq!(known.status, 304);
        assert_eq!(admin.delete(&path(&staff)).send().await.status, 204);
        assert_eq!(admin.get(&path(&staff)).send().await.problem(404), "not_found");
        let feed = admin.get("/api/events?types=user.*").send().await.ok(200).clone();
        let kinds: Vec<&str> = feed["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["user.created", "user.created", "user.updated", "user.removed"]);
        assert_eq!(feed["data"][2]["data"]["changes"]["name"], json!({"from": "Bo", "to": "Bo B."}));
        assert!(!feed.to_string().contains(staff["password_token"].as_str().unwrap()));
    })
    .await;
}

#[tokio::test]
async fn invalid_input_is_reported() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let refused = async |body: Value| {
            let reply = admin.post(USERS).json(body).send().await;
            assert_eq!(reply.problem(422), "validation_failed");
            reply.field_errors()
        };
        let error = |place: &str, code: &str| vec![(place.to_owned(), code.to_owned())];
        assert_eq!(refused(json!({"name": "X", "email": "x@y.example"})).await, error("/role", "required"));
        assert_eq!(refused(json!({"name": "X", "role": "viewer"})).await, error("/email", "required"));
        assert_eq!(refused(json!({"name": "X", "role": "viewer", "email": "nobody"})).await, error("/email", "wrong_form"));
        assert_eq!(refused(json!({"name": "X", "kind": "contact", "role": "viewer"})).await, error("/role", "not_allowed"));
        let organization = json!({"name": "X", "kind": "contact", "organization_id": "org_01k9z7w3v5e8g9m2n4p6r8t0x1"});
        assert_eq!(refused(organization).await, error("/organization_id", "unknown"));
        let taken = json!({"name": "X", "role": "viewer", "email": "ADMIN@acme.example"});
        assert_eq!(admin.post(USERS).json(taken).send().await.problem(409), "already_exists");
        assert_eq!(admin.put(USERS).json(json!({"name": "x"})).send().await.problem(422), "validation_failed");
        let mixed = json!({"id": "usr_01k9z7w3v5e8g9m2n4p6r8t0x1"});
        let path = format!("{USERS}?id=usr_01k9z7w3v5e8g9m2n4p6r8t0x2");
        assert_eq!(admin.put(&path).json(mixed).send().await.problem(400), "id_mismatch");
    })
    .await;
}
