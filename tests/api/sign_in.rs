//! Signing in and out, the end of sessions, wrong passwords, and cross-site requests.

use std::time::Duration;

use serde_json::json;

use crate::harness::{PASSWORD, TestApp, with_app};

async fn login(app: &TestApp, email: &str, password: &str) -> crate::harness::Reply {
    app.anonymous().post("/api/auth/login").json(json!({"email": email, "password": password})).send().await
}

#[tokio::test]
async fn a_session_starts_identifies_and_ends() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        acme.admin().await;
        let reply = login(app, " Admin@Acme.EXAMPLE ", PASSWORD).await;
        assert_eq!(reply.ok(200)["user"]["email"], "admin@acme.example");
        let cookie = reply.header("set-cookie");
        assert!(cookie.starts_with("tenantd_session=") && cookie.contains("; HttpOnly; SameSite=Lax; Max-Age=86400"), "{cookie}");
        assert_eq!(reply.header("cache-control"), "no-store");
        let session = app.anonymous().with("cookie", cookie.split(';').next().unwrap());
        let me = session.get("/api/auth/session").send().await.ok(200).clone();
        assert_eq!((me["role"].as_str(), me["tenant"]["id"].as_str()), (Some("admin"), Some(acme.id.as_str())));
        assert!(me["scopes"].as_array().unwrap().contains(&json!("api_keys:write")));
        let out = session.post("/api/auth/logout").send().await;
        assert_eq!(out.status, 204);
        assert!(out.header("set-cookie").starts_with("tenantd_session=; ") && out.header("set-cookie").contains("Max-Age=0"));
        assert_eq!(out.header("clear-site-data"), "\"cache\", \"storage\"");
        assert_eq!(session.get("/api/auth/session").send().await.problem(401), "session_expired");
    })
    .await;
}

#[tokio::test]
async fn signing_in_replaces_the_session_of_the_browser() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (elsewhere, first) = (acme.admin().await, app.sign_in("admin@acme.example").await);
        let again = |password: &str| {
            first.post("/api/auth/login").json(json!({"email": "admin@acme.example", "password": password})).send()
        };
        assert_eq!(again("wrong wrong wrong").await.problem(401), "invalid_credentials");
        first.get("/api/auth/session").send().await.ok(200);
        let reply = again(PASSWORD).await;
        let second = app.anonymous().with("cookie", reply.header("set-cookie").split(';').next().unwrap());
        assert_eq!(first.get("/api/auth/session").send().await.problem(401), "session_expired");
        second.get("/api/auth/session").send().await.ok(200);
        elsewhere.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_when_idle_or_after_a_day() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        for _ in 0..3 {
            app.advance(Duration::from_hours(7));
            admin.get("/api/auth/session").send().await.ok(200);
        }
        app.advance(Duration::from_hours(4));
        assert_eq!(admin.get("/api/auth/session").send().await.problem(401), "session_expired", "25 hours after the start");
        let idle = app.sign_in("admin@acme.example").await;
        app.advance(Duration::from_hours(8));
        assert_eq!(idle.get("/api/auth/session").send().await.problem(401), "session_expired");
    })
    .await;
}

#[tokio::test]
async fn five_wrong_passwords_block_an_address() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        acme.admin().await;
        for email in ["admin@acme.example", "nobody@acme.example"] {
            let mut bodies = Vec::new();
            for _ in 0..5 {
                let reply = login(app, email, "wrong wrong wrong").await;
                assert_eq!(reply.problem(401), "invalid_credentials");
                bodies.push(reply.body["detail"].clone());
            }
            assert!(bodies.iter().all(|detail| *detail == "E-mail address or password is wrong."));
            let blocked = login(app, email, PASSWORD).await;
            assert_eq!((blocked.problem(429), &blocked.body["retry_after_seconds"]), ("rate_limited", &json!(30)));
            assert_eq!(blocked.header("retry-after"), "30");
        }
        app.advance(Duration::from_secs(31));
        login(app, "admin@acme.example", PASSWORD).await.ok(200);
        assert_eq!(login(app, "admin@acme.example", "wrong wrong wrong").await.problem(401), "invalid_credentials");
        let events = acme.key(&["events:read", "users:read"]).await.get("/api/events?types=auth.login_failed").send().await;
        assert_eq!(events.ok(200)["data"].as_array().unwrap().len(), 6);
    })
    .await;
}

#[tokio::test]
async fn concurrent_wrong_passwords_are_all_counted() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        acme.admin().await;
        for email in ["admin@acme.example", "nobody@acme.example"] {
            let replies = futures_util::future::join_all((0..66).map(|_| login(app, email, "wrong wrong wrong"))).await;
            let checked = replies.iter().filter(|reply| reply.status == 401).count();
            assert!((1..=5).contains(&checked), "{checked} passwords of {email} were checked");
            let refused = replies.iter().filter(|reply| reply.status != 401);
            for reply in refused {
                assert_eq!(reply.problem(429), "rate_limited");
            }
        }
        let found = acme.key(&["events:read", "users:read"]).await.get("/api/events?types=auth.login_failed").send().await;
        assert!(found.ok(200)["data"].as_array().unwrap().len() <= 5, "{}", found.text);
    })
    .await;
}

#[tokio::test]
async fn a_new_password_ends_sessions_and_the_block() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        for _ in 0..5 {
            login(app, "admin@acme.example", "wrong wrong wrong").await.problem(401);
        }
        let body = json!({"email": "admin@acme.example", "password": "another long password"});
        app.local().post("/internal/admin/users/reset-password").json(body).send().await.ok(200);
        assert_eq!(admin.get("/api/auth/session").send().await.problem(401), "session_expired");
        assert_eq!(login(app, "admin@acme.example", PASSWORD).await.problem(401), "invalid_credentials");
        login(app, "admin@acme.example", "another long password").await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn cross_site_requests_are_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let create = |name: &str, value: &str| {
            admin.post("/api/admin/api-keys").header(name, value).json(json!({"name": value, "scopes": ["*"]})).send()
        };
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(create(name, value).await.problem(403), "csrf_failed", "{name}: {value}");
        }
        create("origin", app.base_url()).await.ok(201);
        create("sec-fetch-site", "same-origin").await.ok(201);
        admin.get("/api/admin/api-keys").header("origin", "https://evil.example").send().await.ok(200);
        let key = acme.key(&["*"]).await;
        let by_key =
            key.post("/api/admin/api-keys").header("origin", "https://tool.example").json(json!({"name": "k", "scopes": ["*"]}));
        by_key.send().await.ok(201);
        let forged = app.anonymous().post("/api/auth/login").header("origin", "https://evil.example");
        let forged = forged.json(json!({"email": "admin@acme.example", "password": PASSWORD})).send().await;
        assert_eq!(forged.problem(403), "csrf_failed");
    })
    .await;
}

#[tokio::test]
async fn a_session_survives_a_restart() {
    let setup = || crate::harness::Setup::default().with("rate_limits.enabled", false);
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup(), start).await;
    let acme = app.tenant("acme").await;
    acme.admin().await;
    let reply = login(&app, "admin@acme.example", PASSWORD).await;
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    app.advance(Duration::from_hours(7));
    app.anonymous().with("cookie", &cookie).get("/api/auth/session").send().await.ok(200);
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup(), now).await;
    app.advance(Duration::from_hours(7));
    let session = app.anonymous().with("cookie", &cookie).get("/api/auth/session").send().await;
    session.ok(200);
    app.stop().await;
}
