//! The end of sessions: reported by the provider (back-channel and front-channel logout), and by the person at our page.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{
        Actor, Reply, TestApp,
        oidc::{Signature, Twist},
        with_app,
    },
    sso::{Scene, ada, session},
};

fn address(scene: &Scene<'_>) -> String {
    let address = scene.record["backchannel_logout_uri"].as_str().unwrap();
    assert!(address.starts_with(scene.app.base_url()), "{address}");
    address[scene.app.base_url().len()..].to_owned()
}

async fn report(app: &TestApp, path: &str, token: &str) -> Reply {
    let form: String = form_urlencoded::Serializer::new(String::new()).append_pair("logout_token", token).finish();
    app.anonymous().post(path).text("application/x-www-form-urlencoded", form).send().await
}

async fn signed_in(scene: &Scene<'_>, claims: Value) -> Actor {
    let reply = scene.sign_on(claims).await;
    scene.app.anonymous().with("cookie", &session(&reply).expect(&reply.text))
}

fn with_sid(sid: &str) -> Value {
    let mut claims = ada();
    claims["sid"] = json!(sid);
    claims
}

async fn is_open(actor: &Actor) -> bool {
    actor.get("/api/auth/session").send().await.status == 200
}

#[tokio::test]
async fn the_provider_ends_one_session_or_all_of_a_person() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let (one, two) = (signed_in(&scene, with_sid("s-1")).await, signed_in(&scene, with_sid("s-2")).await);
        let bob = json!({"sub": "bob-1", "email": "bob@acme.example", "email_verified": true, "sid": "s-3"});
        let bob = signed_in(&scene, bob).await;
        let ended = report(app, &address(&scene), &scene.provider.logout_token(json!({"sid": "s-1"}))).await;
        assert_eq!((ended.status, ended.header("cache-control")), (204, "no-store"), "{}", ended.text);
        assert_eq!((is_open(&one).await, is_open(&two).await, is_open(&bob).await), (false, true, true));
        // The session of another person, and a session that nobody has.
        for claims in [json!({"sid": "s-3", "sub": "ada-1"}), json!({"sid": "unknown"}), json!({"sub": "unknown", "sid": "s-3"})] {
            assert_eq!(report(app, &address(&scene), &scene.provider.logout_token(claims)).await.status, 204);
        }
        assert!(is_open(&two).await && is_open(&bob).await);
        let plain = signed_in(&scene, ada()).await;
        let ended = report(app, &address(&scene), &scene.provider.logout_token(json!({"sub": "ada-1"}))).await;
        assert_eq!(ended.status, 204);
        assert_eq!((is_open(&two).await, is_open(&plain).await, is_open(&bob).await), (false, false, true));
        assert!(is_open(&scene.admin).await, "a session with a password is not theirs");
        let events = scene.admin.get("/api/events?types=auth.sessions_ended").send().await.ok(200)["data"].clone();
        assert_eq!(events.as_array().unwrap().len(), 2);
        assert_eq!(events[0]["actor"]["name"], "single sign-on");
    })
    .await;
}

#[tokio::test]
async fn every_invalid_logout_token_is_refused() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let person = signed_in(&scene, with_sid("s-1")).await;
        let path = address(&scene);
        let now = app.now().as_seconds();
        let refused = async |token: &str, why: &str| {
            assert_eq!(report(app, &path, token).await.problem(400), "malformed_request", "{why}");
        };
        for (why, claims) in [
            ("issuer", json!({"iss": "https://evil.example"})),
            ("audience", json!({"aud": "somebody else"})),
            ("shared audience", json!({"aud": ["tenantd at acme", "somebody else"]})),
            ("expired", json!({"exp": now - 120})),
            ("old", json!({"iat": now - 3600})),
            ("future", json!({"iat": now + 3600})),
            ("no id", json!({"jti": null})),
            ("a nonce", json!({"nonce": "n"})),
            ("no event", json!({"events": {}})),
            ("an event that is no object", json!({"events": {"http://schemas.openid.net/event/backchannel-logout": true}})),
            ("no session", json!({"sid": null})),
            ("a long sid", json!({"sid": "x".repeat(300)})),
        ] {
            let mut all = json!({"sid": "s-1"});
            all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
            refused(&scene.provider.logout_token(all), why).await;
        }
        for signature in [Signature::Forged, Signature::None, Signature::HmacOfPublicKey, Signature::HmacOfSecret] {
            scene.provider.twist(Twist::signature(signature));
            refused(&scene.provider.logout_token(json!({"sid": "s-1"})), "signature").await;
        }
        scene.provider.twist(Twist::default());
        refused("nonsense", "no token").await;
        let token = scene.provider.logout_token(json!({"sid": "s-1"}));
        let other = app.tenant("other").await;
        let id = scene.record["id"].as_str().unwrap();
        for path in [
            format!("/api/auth/sso/backchannel-logout/{}/{id}", other.id),
            format!("/api/auth/sso/backchannel-logout/{}/idp_01kg9pybp0f88rpgmx0nqf2a81", scene.tenant.id),
        ] {
            assert_eq!(report(app, &path, &token).await.problem(400), "malformed_request");
        }
        let json_body = app.anonymous().post(&path).json(json!({"logout_token": token})).send().await;
        assert_eq!(json_body.problem(415), "unsupported_media_type");
        assert!(is_open(&person).await);

        assert_eq!(report(app, &path, &token).await.status, 204);
        assert!(!is_open(&person).await);
        let again = signed_in(&scene, with_sid("s-1")).await;
        refused(&token, "replayed").await;
        assert!(is_open(&again).await);
        app.advance(Duration::from_mins(30));
        refused(&token, "replayed later").await;
    })
    .await;
}

/// The address of the frame that the provider shows.
fn frame(scene: &Scene<'_>, issuer: &str, sid: &str) -> String {
    let address = scene.record["frontchannel_logout_uri"].as_str().unwrap();
    let path = address.strip_prefix(scene.app.base_url()).expect(address);
    let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("iss", issuer).append_pair("sid", sid).finish();
    format!("{path}?{query}&state=more")
}

#[tokio::test]
async fn a_frame_of_the_provider_ends_one_session() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let issuer = scene.provider.issuer();
        let (one, two) = (signed_in(&scene, with_sid("s-1")).await, signed_in(&scene, with_sid("s-2")).await);
        let plain = signed_in(&scene, ada()).await;
        // Browsers send no cookie into the frame.
        let show = async |sid: &str| {
            app.anonymous().get(&frame(&scene, &issuer, sid)).header("accept", "text/html,*/*;q=0.8").send().await
        };
        let ended = show("s-1").await;
        assert_eq!((ended.status, ended.header("cache-control"), ended.header("x-frame-options")), (200, "no-store", ""));
        let policy = ended.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; ") && policy.ends_with(&format!("frame-ancestors {issuer}")), "{policy}");
        assert_eq!((is_open(&one).await, is_open(&two).await, is_open(&plain).await), (false, true, true));
        for sid in ["s-1", "unknown", "s-2 "] {
            let again = show(sid).await;
            assert_eq!((again.status, &again.text, again.header("content-security-policy")), (200, &ended.text, policy), "{sid}");
        }
        assert!(is_open(&two).await && is_open(&plain).await && is_open(&scene.admin).await);
        let events = scene.admin.get("/api/events?types=auth.sessions_ended").send().await.ok(200)["data"].clone();
        assert_eq!(events.as_array().unwrap().len(), 1, "an unknown session is no event");
        assert_eq!(events[0]["actor"]["name"], "single sign-on");

        let path = format!("/api/admin/identity-providers/{}", scene.record["id"].as_str().unwrap());
        scene.admin.put(&path).json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(show("s-2").await.status, 200);
        assert!(!is_open(&two).await, "a provider that is disabled can still end sessions");
    })
    .await;
}

#[tokio::test]
async fn a_frame_of_another_issuer_tenant_or_provider_ends_nothing() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let (issuer, other) = (scene.provider.issuer(), app.tenant("other").await);
        let person = signed_in(&scene, with_sid("s-1")).await;
        let (right, id) = (frame(&scene, &issuer, "s-1"), scene.record["id"].as_str().unwrap());
        for path in [
            frame(&scene, "https://evil.example", "s-1"),
            frame(&scene, &format!("{issuer}/"), "s-1"),
            right.replace(&scene.tenant.id, &other.id),
            right.replace(id, "idp_01kg9pybp0f88rpgmx0nqf2a81"),
        ] {
            let refused = app.anonymous().get(&path).send().await;
            assert_eq!(refused.problem(400), "malformed_request", "{path}");
            assert!(refused.header("content-security-policy").ends_with("frame-ancestors 'none'"), "{path}");
        }
        let path = right.split('?').next().unwrap();
        let bare = app.anonymous().get(path).send().await;
        let missing = [("iss".to_owned(), "required".to_owned()), ("sid".to_owned(), "required".to_owned())];
        assert_eq!(bare.field_errors(), missing, "{}", bare.text);
        let long = app.anonymous().get(&frame(&scene, &issuer, &"x".repeat(256))).send().await;
        assert!((400..500).contains(&long.status), "{}", long.text);
        for method in ["POST", "PUT", "DELETE"] {
            assert_eq!(app.anonymous().call(method, &right).send().await.problem(405), "method_not_allowed");
        }
        assert!(is_open(&person).await);
    })
    .await;
}

#[tokio::test]
async fn signing_out_names_the_page_of_the_provider() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let person = signed_in(&scene, ada()).await;
        let out = person.post("/api/auth/sso/logout").send().await;
        assert_eq!(out.ok(200)["provider_name"], "Acme");
        let url = out.body["provider_logout_url"].as_str().unwrap();
        assert!(url.starts_with(&format!("{}/end-session?client_id=", scene.provider.issuer())), "{url}");
        assert!(url.ends_with("&logout_hint=ada%40acme.example"), "{url}");
        assert!(out.header("set-cookie").starts_with("tenantd_session=; "));
        assert!(!is_open(&person).await);
        let with_password = scene.admin.post("/api/auth/sso/logout").send().await;
        assert_eq!(with_password.ok(200), &json!({}));
        assert!(!is_open(&scene.admin).await);
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_is_down_keeps_nobody_signed_in() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let person = signed_in(&scene, ada()).await;
        scene.provider.set_down(true);
        app.advance(Duration::from_hours(2));
        let out = person.post("/api/auth/sso/logout").send().await;
        assert_eq!((&out.ok(200)["provider_name"], out.body.get("provider_logout_url")), (&json!("Acme"), None));
        assert!(!is_open(&person).await);
    })
    .await;
}
