//! Refused sign-ons: each creates no session and leaves an event with its reason.

use std::time::Duration;

use serde_json::json;

use crate::{
    harness::{
        Reply,
        oidc::{Signature, Twist},
        with_app,
    },
    sso::{PROVIDERS, Scene, ada, session},
};

/// Refused: a page with the request's id, and no session.
fn refused(reply: &Reply, case: &str) {
    assert_eq!(reply.status, 401, "{case}: {}", reply.text);
    assert_eq!(session(reply), None, "{case}");
    assert_eq!(reply.problem(401), "invalid_credentials", "{case}");
    let cookies: Vec<&str> = reply.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
    assert!(cookies.iter().any(|cookie| cookie.starts_with("tenantd_sign_on=;")), "{case}: the ticket is taken away");
}

#[tokio::test]
async fn every_invalid_id_token_is_refused() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let now = app.now().as_seconds();
        let cases: Vec<(&str, Twist)> = vec![
            ("wrong_nonce", Twist::claims(json!({"nonce": "another"}))),
            ("wrong_nonce", Twist::claims(json!({"nonce": null}))),
            ("wrong_audience", Twist::claims(json!({"aud": "somebody else"}))),
            ("wrong_audience", Twist::claims(json!({"aud": [crate::harness::oidc::CLIENT_ID, "somebody else"]}))),
            ("wrong_issuer", Twist::claims(json!({"iss": "https://evil.example"}))),
            ("token_expired", Twist::claims(json!({"exp": now - 61}))),
            ("bad_token", Twist::claims(json!({"nbf": now + 61}))),
            ("bad_token", Twist::claims(json!({"nbf": "soon"}))),
            ("bad_signature", Twist::signature(Signature::Forged)),
            ("bad_signature", Twist::signature(Signature::None)),
            ("bad_signature", Twist::signature(Signature::HmacOfPublicKey)),
            ("bad_signature", Twist::signature(Signature::HmacOfSecret)),
            ("bad_token", Twist::claims(json!({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}))),
            ("bad_token", Twist::claims(json!({"sub": "a".repeat(256)}))),
            ("email_not_verified", Twist::claims(json!({"email_verified": false}))),
            ("email_not_verified", Twist::claims(json!({"email_verified": null}))),
            ("foreign_domain", Twist::claims(json!({"email": "ada@other.example"}))),
            ("foreign_domain", Twist::claims(json!({"email": "ada@sub.acme.example"}))),
        ];
        let mut expected = Vec::new();
        for (reason, twist) in cases {
            let case = format!("{reason}: {twist:?}");
            scene.provider.twist(twist);
            refused(&scene.sign_on(ada()).await, &case);
            expected.push(reason);
            assert_eq!(scene.reasons().await, expected, "{case}");
        }
        assert!(scene.user("ada").await.is_none(), "nobody was created");
        scene.provider.twist(Twist::claims(json!({"exp": now - 59, "nbf": now - 120})));
        assert_eq!(scene.sign_on(ada()).await.status, 303, "a clock may be a minute off");
        scene.provider.twist(Twist::claims(json!({"nbf": now + 59})));
        assert_eq!(scene.sign_on(ada()).await.status, 303, "in either direction");
    })
    .await;
}

/// The path that the provider sends people back to.
fn callback_path(scene: &Scene<'_>) -> String {
    format!("/api/auth/sso/callback/{}", scene.record["id"].as_str().unwrap())
}

#[tokio::test]
async fn sign_ons_are_single_use_and_browser_bound() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let authorize =
            |started: &crate::sso::SignOn| scene.provider.authorize(started.body["redirect_url"].as_str().unwrap(), ada());
        // A person uses a link that belongs to another browser.
        let started = scene.begin(json!({})).await;
        let callback = authorize(&started);
        refused(&app.anonymous().get(&callback).send().await, "without the cookie");
        let late = app.anonymous().with("cookie", &started.cookie).get(&callback).send().await;
        refused(&late, "a state that somebody has tried is worth nothing, even in its own browser");
        let (one, other) = (scene.begin(json!({})).await, scene.begin(json!({})).await);
        refused(&app.anonymous().with("cookie", &other.cookie).get(&authorize(&one)).send().await, "the cookie of another sign-on");
        let garbled = "/api/auth/sso/callback?code=code-1&state=AAAA";
        refused(&app.anonymous().with("cookie", &other.cookie).get(garbled).send().await, "a state that is none");
        // The same callback a second time.
        let started = scene.begin(json!({})).await;
        let callback = authorize(&started);
        let browser = app.anonymous().with("cookie", &started.cookie);
        assert_eq!(browser.get(&callback).send().await.status, 303);
        refused(&browser.get(&callback).send().await, "replayed");
        // The code of another sign-on with one's own state.
        let started = scene.begin(json!({})).await;
        let state = started.body["state"].as_str().unwrap();
        let stolen = authorize(&scene.begin(json!({})).await);
        let code = stolen.split("code=").nth(1).unwrap().split('&').next().unwrap();
        let mixed = format!("{}?code={code}&state={state}", callback_path(&scene));
        refused(&app.anonymous().with("cookie", &started.cookie).get(&mixed).send().await, "a stolen code");
        let started = scene.begin(json!({})).await;
        let callback = authorize(&started);
        app.advance(Duration::from_mins(10));
        refused(&app.anonymous().with("cookie", &started.cookie).get(&callback).send().await, "after ten minutes");
        let expected =
            ["state_mismatch", "replayed", "state_mismatch", "state_mismatch", "replayed", "code_refused", "sign_on_expired"];
        assert_eq!(scene.reasons().await, expected);
        // None of it is from this server, so the tenant is unknown.
        refused(&app.anonymous().get("/api/auth/sso/callback").send().await, "nothing at all");
        assert_eq!(scene.reasons().await.len(), expected.len());
    })
    .await;
}

#[tokio::test]
async fn refusals_and_foreign_issuers_are_refused() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        for (reason, answer) in
            [("provider_refused", "error=access_denied"), ("wrong_issuer", "code=code-1&iss=https%3A%2F%2Fevil.example")]
        {
            let started = scene.begin(json!({})).await;
            let callback = format!("{}?{answer}&state={}", callback_path(&scene), started.body["state"].as_str().unwrap());
            refused(&app.anonymous().with("cookie", &started.cookie).get(&callback).send().await, reason);
        }
        assert_eq!(scene.provider.requests("/token"), 0, "no code is shown to anybody");
        assert_eq!(scene.reasons().await, ["provider_refused", "wrong_issuer"]);
    })
    .await;
}

#[tokio::test]
async fn disabled_and_foreign_users_are_refused() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        let user = scene.user("ada").await.unwrap();
        let path = format!("/api/admin/users/{}", user["id"].as_str().unwrap());
        scene.admin.put(&path).json(json!({"status": "disabled"})).send().await.ok(200);
        refused(&scene.sign_on(ada()).await, "disabled");
        let contact = json!({"email": "carl@acme.example", "name": "Carl", "kind": "contact"});
        scene.admin.post("/api/admin/users").json(contact).send().await.ok(201);
        refused(&scene.sign_on(json!({"sub": "y", "email": "carl@acme.example", "email_verified": true})).await, "a contact");
        let started = scene.begin(json!({})).await;
        let provider = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        scene.admin.put(&provider).json(json!({"enabled": false})).send().await.ok(200);
        refused(&scene.come_back(&started, ada()).await, "a provider that was disabled meanwhile");
        assert_eq!(scene.reasons().await, ["account_disabled", "address_taken", "provider_gone"]);
    })
    .await;
}

#[tokio::test]
async fn an_unavailable_provider_is_reported() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let started = scene.begin(json!({})).await;
        let callback = scene.provider.authorize(started.body["redirect_url"].as_str().unwrap(), ada());
        scene.provider.set_down(true);
        let browser = app.anonymous().with("cookie", &started.cookie).with("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
        let page = browser.get(&callback).send().await;
        assert_eq!((page.status, page.header("content-type")), (502, "text/html; charset=utf-8"), "{}", page.text);
        assert!(page.text.contains(page.header("x-request-id")) && page.text.contains("role=\"alert\""), "{}", page.text);
        assert_eq!(session(&page), None);
        let page = browser.get("/api/auth/sso/callback?state=x").send().await;
        assert_eq!((page.status, page.header("content-type")), (401, "text/html; charset=utf-8"));
        assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
        app.advance(Duration::from_hours(2));
        let asked = app.anonymous().post("/api/auth/sso").json(json!({"domain": "acme.example"})).send().await;
        assert_eq!(asked.problem(502), "provider_error");
        assert_eq!(asked.body["detail"], "The identity provider returned an invalid response.", "what it said is not the caller's business");
        assert_eq!(scene.reasons().await, ["provider_unavailable", "state_mismatch", "provider_unavailable"]);
        let event = scene.tenant.key(&["events:read", "users:read"]).await.get("/api/events?types=auth.login_failed").send().await.ok(200)["data"][0].clone();
        assert_eq!((&event["resource"]["kind"], &event["resource"]["id"]), (&json!("identity_provider"), &scene.record["id"]));
        let sign_in = json!({"method": "sso", "reason": "provider_unavailable", "identity_provider": {"id": scene.record["id"], "name": "Acme"}});
        assert_eq!(event["data"], json!({"sign_in": sign_in}));
        assert!(event["data"].to_string().find("code").is_none() && event["data"]["sign_in"].get("user").is_none());
    })
    .await;
}

#[tokio::test]
async fn a_failed_start_is_recorded_once_a_minute() {
    with_app(async |app| {
        // Nothing listens on this port.
        let scene = Scene::new(app, json!({"issuer": "http://127.0.0.1:9"})).await;
        let path = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        let begin = async || {
            let asked = app.anonymous().post("/api/auth/sso").json(json!({"domain": "acme.example"})).send().await;
            assert_eq!(asked.problem(502), "provider_error");
            scene.admin.get(&path).send().await.ok(200).clone()
        };
        let shown = begin().await;
        let first = shown["sign_on"]["last_failure"].clone();
        assert_eq!(first["reason"], "provider_unavailable", "{shown}");
        assert!(first["cause"].as_str().is_some_and(|cause| !cause.is_empty()), "{first}");
        assert_eq!(shown["version"], scene.record["version"], "a sign-on does not change the provider");
        for _ in 0..3 {
            assert_eq!(begin().await["sign_on"]["last_failure"], first);
        }
        let form = app.anonymous().post("/sign-in").text("application/x-www-form-urlencoded", "email=ada%40acme.example");
        assert_eq!(form.send().await.status, 502);
        assert_eq!(scene.reasons().await, ["provider_unavailable"], "a stranger cannot fill the log");
        app.advance(Duration::from_secs(61));
        let second = begin().await["sign_on"]["last_failure"].clone();
        assert_ne!(second["at"], first["at"]);
        assert_eq!((&second["cause"], scene.reasons().await.len()), (&first["cause"], 2));
        // A domain without an enabled provider leaves no trace.
        scene.admin.put(&path).json(json!({"enabled": false})).send().await.ok(200);
        app.advance(Duration::from_secs(61));
        let asked = app.anonymous().post("/api/auth/sso").json(json!({"domain": "acme.example"})).send().await;
        assert_eq!((asked.problem(404), scene.reasons().await.len()), ("sso_provider_not_found", 2));
    })
    .await;
}

#[tokio::test]
async fn the_discovery_of_another_issuer_is_refused() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        scene.provider.claim_issuer("https://evil.example");
        // Cached data no longer counts.
        app.advance(Duration::from_hours(2));
        let before = scene.provider.requests("/keys");
        let asked = app.anonymous().post("/api/auth/sso").json(json!({"domain": "acme.example"})).send().await;
        assert_eq!(asked.problem(502), "provider_error");
        assert_eq!(scene.provider.requests("/keys"), before, "its keys are not even read");
    })
    .await;
}
