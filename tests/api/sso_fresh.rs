//! How recent and how strong a sign-on is, which provider it goes through, and at which address it ends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::with_app,
    sso::{PROVIDERS, Scene, SignOn, ada, session},
};

fn with(more: Value) -> Value {
    let mut claims = ada();
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    claims
}

async fn proven_at(scene: &Scene<'_>) -> Value {
    let user = scene.user("ada").await.unwrap()["id"].as_str().unwrap().to_owned();
    let sessions = scene.admin.get(&format!("/api/admin/users/{user}/sessions")).send().await.ok(200)["data"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    sessions[0].clone()
}

#[tokio::test]
async fn a_signed_in_person_confirms_through_their_provider() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let first = scene.sign_on(with(json!({"amr": ["pwd", "otp"], "acr": "aal2"}))).await;
        let cookie = session(&first).unwrap();
        let signed_in = proven_at(&scene).await;
        assert_eq!((&signed_in["provider_methods"], &signed_in["methods"]), (&json!(["pwd", "otp"]), &json!(["sso"])));
        assert_eq!(signed_in["identity_provider_id"], scene.record["id"]);

        app.advance(Duration::from_hours(1));
        let now = app.now().as_seconds();
        scene.provider.set_now(now);
        let confirm = async |claims: Value| {
            let browser = app.anonymous().with("cookie", &cookie);
            let body = json!({"fresh": true, "return_to": "/settings"});
            let reply = browser.post("/api/auth/sso").json(body).send().await;
            let url = reply.ok(200)["redirect_url"].as_str().unwrap().to_owned();
            assert!(url.contains("prompt=login") && url.contains("max_age=0") && url.contains("login_hint=ada%40"), "{url}");
            let ticket = reply.header("set-cookie").split(';').next().unwrap().to_owned();
            let started = SignOn { body: reply.body.clone(), cookie: format!("{ticket}; {cookie}") };
            scene.come_back(&started, claims).await
        };
        assert_eq!(confirm(ada()).await.problem(401), "invalid_credentials", "no auth_time");
        assert_eq!(confirm(with(json!({"auth_time": now - 3600}))).await.problem(401), "invalid_credentials", "an old one");
        assert_eq!(confirm(with(json!({"auth_time": now + 3600}))).await.problem(401), "invalid_credentials", "a future one");
        let done = confirm(with(json!({"auth_time": now}))).await;
        assert_eq!((done.status, done.header("location")), (303, "/settings"), "{}", done.text);
        assert!(session(&done).is_some());
        assert!(proven_at(&scene).await["proven_at"].as_str() > signed_in["proven_at"].as_str());
        assert_eq!(scene.reasons().await, ["not_fresh", "not_fresh", "not_fresh"]);

        let password = scene.admin.post("/api/auth/sso").json(json!({"fresh": true})).send().await;
        assert_eq!(password.problem(409), "invalid_transition");
        let nobody = app.anonymous().post("/api/auth/sso").json(json!({"fresh": true})).send().await;
        assert_eq!(nobody.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn a_provider_can_require_recent_and_strong_sign_ons() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"max_age_seconds": 600, "required_acr": ["phr", "mfa"]})).await;
        let now = app.now().as_seconds();
        let started = scene.begin(json!({})).await;
        let url = started.body["redirect_url"].as_str().unwrap();
        assert!(url.contains("max_age=600") && url.contains("acr_values=phr+mfa") && !url.contains("prompt="), "{url}");
        for (claims, status) in [
            (json!({}), 401),
            (json!({"auth_time": now - 60}), 401),
            (json!({"auth_time": now - 60, "acr": "pwd"}), 401),
            (json!({"acr": "mfa"}), 401),
            (json!({"auth_time": now - 700, "acr": "mfa"}), 401),
            (json!({"auth_time": now - 60, "acr": "mfa"}), 303),
        ] {
            assert_eq!(scene.sign_on(with(claims.clone())).await.status, status, "{claims}");
        }
        assert_eq!(scene.reasons().await, ["not_fresh", "weak_sign_on", "weak_sign_on", "not_fresh", "not_fresh"]);
        let path = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        let cleared = json!({"max_age_seconds": null, "required_acr": []});
        assert!(scene.admin.put(&path).json(cleared).send().await.ok(200).get("max_age_seconds").is_none());
        assert_eq!(scene.sign_on(ada()).await.status, 303);
    })
    .await;
}

#[tokio::test]
async fn each_provider_has_its_own_domains_and_redirect_uri() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let own = scene.record["redirect_uri"].as_str().unwrap();
        assert!(own.ends_with(&format!("/api/auth/sso/callback/{}", scene.record["id"].as_str().unwrap())), "{own}");
        let second = json!({
            "name": "Branch", "issuer": scene.provider.issuer(), "client_id": crate::harness::oidc::CLIENT_ID,
            "client_secret": crate::harness::oidc::CLIENT_SECRET, "domains": ["branch.example"], "auto_provision": true,
        });
        let second = scene.admin.post(PROVIDERS).json(second).send().await.ok(201).clone();
        let started = scene.begin(json!({"domain": "branch.example"})).await;
        assert_eq!(started.body["provider"]["id"], second["id"]);
        assert_eq!(scene.begin(json!({})).await.body["provider"]["id"], scene.record["id"]);
        // The answer to one sign-on is refused at the address of the other provider, and at the shared one.
        let person = json!({"sub": "cy-1", "email": "cy@branch.example", "email_verified": true});
        for instead in [format!("/{}", scene.record["id"].as_str().unwrap()), String::new()] {
            let started = scene.begin(json!({"domain": "branch.example"})).await;
            let callback = scene.provider.authorize(started.body["redirect_url"].as_str().unwrap(), person.clone());
            let moved = callback.replace(&format!("/{}", second["id"].as_str().unwrap()), &instead);
            assert_ne!(moved, callback);
            let reply = app.anonymous().with("cookie", &started.cookie).get(&moved).send().await;
            assert_eq!(reply.problem(401), "invalid_credentials");
        }
        assert_eq!(scene.reasons().await, ["wrong_issuer", "wrong_issuer"]);
        assert_eq!(scene.come_back(&started, person).await.status, 303);
        // A provider that uses the shared address works at it only.
        let path = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        let shared = scene.admin.put(&path).json(json!({"own_redirect_uri": false})).send().await.ok(200).clone();
        assert!(shared["redirect_uri"].as_str().unwrap().ends_with("/api/auth/sso/callback"));
        assert_eq!(scene.sign_on(ada()).await.status, 303);
    })
    .await;
}

#[tokio::test]
async fn the_providers_of_a_tenant_are_listed_without_domains() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let list = async |tenant: &str| {
            let reply = app.anonymous().get(&format!("/api/auth/sso/providers?tenant={tenant}")).send().await;
            assert!(!reply.text.contains("example"), "{}", reply.text);
            reply.ok(200)["identity_providers"].clone()
        };
        let known = json!([{"id": scene.record["id"], "name": "Acme", "type": "oidc"}]);
        assert_eq!((list("acme").await, list(&scene.tenant.id).await), (known.clone(), known));
        assert_eq!((list("nobody").await, list("default").await), (json!([]), json!([])));
        let body = json!({"tenant": "acme", "identity_provider_id": scene.record["id"]});
        let started = app.anonymous().post("/api/auth/sso").json(body).send().await;
        assert!(started.ok(200)["redirect_url"].is_string() && started.body.get("domain").is_none());
        let other = app.tenant("other").await;
        for tenant in ["other", "nobody", other.id.as_str()] {
            let body = json!({"tenant": tenant, "identity_provider_id": scene.record["id"]});
            let reply = app.anonymous().post("/api/auth/sso").json(body).send().await;
            assert_eq!(reply.problem(404), "sso_provider_not_found");
        }
        for body in [
            json!({}),
            json!({"tenant": "acme"}),
            json!({"identity_provider_id": scene.record["id"]}),
            json!({"domain": "acme.example", "tenant": "acme", "identity_provider_id": scene.record["id"]}),
        ] {
            assert_eq!(app.anonymous().post("/api/auth/sso").json(body).send().await.problem(422), "validation_failed");
        }
        let path = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        scene.admin.put(&path).json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(list("acme").await, json!([]));
    })
    .await;
}
