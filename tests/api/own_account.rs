//! What people do with their own account: change their password, and see and end their sessions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Actor, PASSWORD, Reply, Setup, TestApp, with_app, with_setup};

const OWN_PASSWORD: &str = "/api/auth/own-password";
const SESSIONS: &str = "/api/auth/sessions";
const NEW: &str = "lantern octopus mountain staple";

async fn change(actor: &Actor, current: &str, new: &str) -> Reply {
    actor.put(OWN_PASSWORD).json(json!({"current_password": current, "new_password": new})).send().await
}

async fn login(app: &TestApp, password: &str) -> Reply {
    app.anonymous().post("/api/auth/login").json(json!({"email": "admin@acme.example", "password": password})).send().await
}

async fn events(app: &TestApp, id: &str, kinds: &str) -> Vec<Value> {
    let tenant = crate::harness::Tenant::known(app, "acme", id);
    let reader = tenant.key(&["events:read", "users:read"]).await;
    reader.get(&format!("/api/events?types={kinds}")).send().await.ok(200)["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_person_changes_their_password() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, elsewhere) = (acme.admin().await, app.sign_in("admin@acme.example").await);
        let id = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let link = admin.post(&format!("/api/admin/users/{id}/reset-password")).send().await.ok(200)["password_token"].clone();
        let reply = change(&admin, PASSWORD, NEW).await;
        assert_eq!((reply.status, reply.header("cache-control")), (204, "no-store"), "{}", reply.text);
        let renewed = app.anonymous().with("cookie", reply.header("set-cookie").split(';').next().unwrap());
        renewed.get("/api/auth/session").send().await.ok(200);
        for ended in [&admin, &elsewhere] {
            assert_eq!(ended.get("/api/auth/session").send().await.problem(401), "session_expired", "old tokens have ended");
        }
        let redeemed = app.anonymous().post("/api/auth/password").json(json!({"token": link, "password": PASSWORD})).send().await;
        assert_eq!(redeemed.problem(401), "invalid_credentials", "links to set a password have ended");
        assert_eq!(login(app, PASSWORD).await.problem(401), "invalid_credentials");
        login(app, NEW).await.ok(200);
        assert_eq!(events(app, &acme.id, "auth.password_changed").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_wrong_current_password_counts_like_a_failed_sign_in() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        for _ in 0..5 {
            let wrong = change(&admin, "wrong wrong wrong", NEW).await;
            assert_eq!(wrong.problem(422), "validation_failed");
            assert_eq!(wrong.field_errors(), [("/current_password".to_owned(), "wrong_password".to_owned())]);
        }
        assert_eq!(change(&admin, PASSWORD, NEW).await.problem(429), "rate_limited", "the right one is not compared");
        let confirm = admin.post("/api/auth/confirm").json(json!({"password": PASSWORD})).send().await;
        assert_eq!(confirm.problem(429), "rate_limited", "both share the count");
        let sign_in = login(app, PASSWORD).await;
        assert_eq!(sign_in.problem(429), "rate_limited", "so does the sign-in");
        assert!(sign_in.body["retry_after_seconds"].as_u64().unwrap() > 0);
        assert_eq!(events(app, &acme.id, "auth.login_failed").await.len(), 5);
        app.advance(Duration::from_secs(31));
        assert_eq!(change(&admin, PASSWORD, NEW).await.status, 204);
    })
    .await;
}

#[tokio::test]
async fn concurrent_guesses_in_a_session_are_all_counted() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let guesses = (0..40).map(|_| change(&admin, "wrong wrong wrong", NEW));
        let replies = futures_util::future::join_all(guesses).await;
        let compared = replies.iter().filter(|reply| reply.status == 422).count();
        assert!((1..=5).contains(&compared), "{compared} passwords were compared");
        assert!(replies.iter().all(|reply| matches!(reply.status, 422 | 429)));
    })
    .await;
}

#[tokio::test]
async fn a_weak_new_password_is_refused_with_the_rule() {
    with_app(async |app| {
        let admin = app.tenant("northwind").await.admin().await;
        for (new, rule) in [
            ("short", "at least 12"),
            ("Administrator", "most common"),
            ("Password2026!", "a common word, a year"),
            ("qwertyqwerty", "most common"),
            ("aaaaaaaaaaaaaa", "a sequence"),
            ("Northwind-2026!", "a part of your e-mail address"),
            (PASSWORD, "the current one"),
        ] {
            let refused = change(&admin, PASSWORD, new).await;
            assert_eq!(refused.problem(422), "validation_failed", "{new}");
            assert_eq!(refused.field_errors(), [("/new_password".to_owned(), "wrong_form".to_owned())], "{new}");
            assert!(refused.text.contains(rule), "{new}: {}", refused.text);
            assert!(new == "short" || !refused.text.contains(new), "{new} is repeated");
        }
    })
    .await;
}

#[tokio::test]
async fn the_rules_apply_wherever_a_password_is_set() {
    with_app(async |app| {
        let acme = app.tenant("northwind").await;
        let admin = acme.admin().await;
        let weak = "Northwind#2026";
        let user = json!({"email": "ada@northwind.example", "name": "Ada", "role": "viewer"});
        let token = admin.post("/api/admin/users").json(user).send().await.ok(201)["password_token"].clone();
        let body = json!({"token": token, "password": weak});
        let by_token = app.anonymous().post("/api/auth/password").json(body).send().await;
        let users = format!("/internal/admin/tenants/{}/users", acme.id);
        let body = json!({"email": "bo@northwind.example", "name": "Bo", "role": "viewer", "password": weak});
        let created = app.local().post(&users).json(body).send().await;
        let body = json!({"email": "admin@northwind.example", "password": weak});
        let reset = app.local().post("/internal/admin/users/reset-password").json(body).send().await;
        for refused in [by_token, created, reset] {
            assert_eq!(refused.problem(422), "validation_failed");
            assert!(refused.text.contains("consists of"), "{}", refused.text);
        }
        admin.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn the_operator_of_the_host_gives_links_instead_of_passwords() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let users = format!("/internal/admin/tenants/{}/users", acme.id);
        let body = json!({"email": "admin@acme.example", "name": "Ada", "role": "admin"});
        let created = app.local().post(&users).json(body).send().await;
        assert_eq!(created.header("cache-control"), "no-store");
        let token = created.ok(201)["password_token"].clone();
        let set = async |token: &Value, password: &str| {
            let body = json!({"token": token, "password": password});
            app.anonymous().post("/api/auth/password").json(body).send().await.status
        };
        assert_eq!(set(&token, PASSWORD).await, 204);
        let admin = app.sign_in("admin@acme.example").await;
        let body = json!({"email": "admin@acme.example"});
        let reset = app.local().post("/internal/admin/users/reset-password").json(body).send().await.ok(200).clone();
        assert_eq!(admin.get("/api/auth/session").send().await.problem(401), "session_expired");
        assert_eq!(login(app, PASSWORD).await.problem(401), "invalid_credentials", "the old password has ended");
        app.advance(Duration::from_hours(72));
        assert_eq!(set(&reset["password_token"], NEW).await, 401, "the link has expired");
    })
    .await;
}

#[tokio::test]
async fn own_sessions_are_listed_and_ended() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let firefox = app.anonymous().with("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0");
        let body = json!({"email": "admin@acme.example", "password": PASSWORD});
        let reply = firefox.post("/api/auth/login").json(body).send().await;
        let second = app.anonymous().with("cookie", reply.header("set-cookie").split(';').next().unwrap());
        let (third, viewer) = (app.sign_in("admin@acme.example").await, acme.user("viewer").await);
        let listed = admin.get(&format!("{SESSIONS}?include_total=true")).send().await.ok(200).clone();
        assert_eq!(listed["page"]["total"], 3);
        let all = listed["data"].as_array().unwrap();
        assert_eq!(all.iter().filter(|session| session["is_current"] == true).count(), 1);
        let known = all.iter().find(|session| session["device"] == "Firefox on Linux").unwrap();
        assert_eq!(
            (&known["methods"], &known["ip_address"], &known["is_current"]),
            (&json!(["password"]), &json!("127.0.0.1"), &json!(false))
        );
        let path = format!("{SESSIONS}/{}", known["id"].as_str().unwrap());
        assert_eq!(viewer.delete(&path).send().await.problem(404), "not_found", "the session of another user");
        assert_eq!(admin.delete(&path).send().await.status, 204);
        assert_eq!(admin.delete(&path).send().await.problem(404), "not_found");
        assert_eq!(second.get("/api/auth/session").send().await.problem(401), "session_expired");
        assert_eq!(admin.delete(SESSIONS).send().await.status, 204);
        assert_eq!(third.get("/api/auth/session").send().await.problem(401), "session_expired");
        admin.get("/api/auth/session").send().await.ok(200);
        viewer.get("/api/auth/session").send().await.ok(200);
        assert_eq!(events(app, &acme.id, "auth.sessions_ended").await.len(), 2);
        let key = acme.key(&["*"]).await;
        for (method, path) in [("GET", SESSIONS), ("DELETE", SESSIONS), ("DELETE", path.as_str())] {
            assert_eq!(key.call(method, path).send().await.problem(403), "insufficient_authority", "{method} {path}");
        }
        assert_eq!(change(&key, PASSWORD, NEW).await.problem(403), "insufficient_authority");
    })
    .await;
}

#[tokio::test]
async fn an_administrator_ends_one_session_of_a_user() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        let again = app.sign_in("viewer@acme.example").await;
        let id = viewer.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let current = viewer.get(SESSIONS).send().await.ok(200)["data"].as_array().unwrap().clone();
        let current = current.iter().find(|session| session["is_current"] == true).unwrap()["id"].as_str().unwrap().to_owned();
        let path = format!("/api/admin/users/{id}/sessions/{current}");
        let stranger = app.tenant("beta").await.admin().await;
        assert_eq!(stranger.delete(&path).send().await.problem(404), "not_found");
        assert_eq!(again.delete(&path).send().await.problem(403), "admin_required");
        assert_eq!(admin.delete(&path).send().await.status, 204);
        assert_eq!(viewer.get("/api/auth/session").send().await.problem(401), "session_expired");
        again.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn the_least_recently_used_session_ends_at_the_limit() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("sessions.most_per_user", 3);
    with_setup(setup, async |app| {
        let acme = app.tenant("acme").await;
        let first = acme.admin().await;
        let mut later = Vec::new();
        for _ in 0..2 {
            app.advance(Duration::from_secs(5));
            later.push(app.sign_in("admin@acme.example").await);
        }
        app.advance(Duration::from_secs(5));
        let newest = app.sign_in("admin@acme.example").await;
        assert_eq!(first.get("/api/auth/session").send().await.problem(401), "session_expired");
        for open in later.iter().chain([&newest]) {
            open.get("/api/auth/session").send().await.ok(200);
        }
        assert_eq!(newest.get(SESSIONS).send().await.ok(200)["data"].as_array().unwrap().len(), 3);
        assert_eq!(events(app, &acme.id, "auth.sessions_ended").await.len(), 1);
    })
    .await;
}
