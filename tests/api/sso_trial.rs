//! Tests of identity providers, sign-on diagnostics for administrators, and responses bound to their provider.

use serde_json::{Value, json};

use crate::{
    harness::{oidc::Twist, with_app},
    sso::{PROVIDERS, Scene, SignOn, ada},
};

fn path(scene: &Scene<'_>) -> String {
    format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap())
}

async fn history(scene: &Scene<'_>) -> Value {
    scene.admin.get(&path(scene)).send().await.ok(200)["sign_on"].clone()
}

async fn test(scene: &Scene<'_>) -> Value {
    scene.admin.post(&format!("{}/test", path(scene))).send().await.ok(200).clone()
}

fn statuses(test: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let check = |check: &Value| (text(&check["name"]), text(&check["status"]));
    test["checks"].as_array().unwrap().iter().map(check).collect()
}

/// Opens the link of a test in a browser.
async fn open(scene: &Scene<'_>, test: &Value) -> SignOn {
    let url = test["sign_in_url"].as_str().unwrap();
    let path = url.find("/api/").map(|at| &url[at..]).unwrap();
    let opened = scene.app.anonymous().get(path).send().await;
    assert_eq!(opened.status, 303, "{}", opened.text);
    let cookie = opened.header("set-cookie").split(';').next().unwrap().to_owned();
    SignOn { body: json!({"redirect_url": opened.header("location")}), cookie }
}

#[tokio::test]
async fn a_test_checks_discovery_keys_and_credentials() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"enabled": false})).await;
        let passed = test(&scene).await;
        let all = |status: &str| ["discovery", "sign_in_page", "keys", "client"].map(|name| (name.to_owned(), status.to_owned()));
        assert_eq!((&passed["passed"], statuses(&passed)), (&json!(true), all("passed").to_vec()), "{passed}");
        assert_eq!(passed["redirect_uri"], scene.record["redirect_uri"]);

        scene.admin.put(&path(&scene)).json(json!({"client_secret": "another secret of the right length"})).send().await.ok(200);
        let wrong = test(&scene).await;
        assert_eq!((&wrong["passed"], &wrong["checks"][3]["status"]), (&json!(false), &json!("failed")), "{wrong}");
        assert!(wrong["checks"][3]["message"].as_str().unwrap().contains("invalid_client"), "{wrong}");

        scene.provider.claim_issuer("https://another.example");
        let other = test(&scene).await;
        let messages: Vec<&str> =
            other["checks"].as_array().unwrap().iter().map(|check| check["message"].as_str().unwrap()).collect();
        assert!(messages[0].contains("a different issuer"), "{messages:?}");
        assert_eq!((&other["passed"], &other["checks"][1]["status"]), (&json!(false), &json!("skipped")));
    })
    .await;
}

#[tokio::test]
async fn a_test_sign_in_creates_no_session() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"enabled": false})).await;
        assert_eq!(history(&scene).await, Value::Null);
        let link = test(&scene).await;
        let shown = scene.come_back(&open(&scene, &link).await, ada()).await;
        assert_eq!(shown.status, 200, "{}", shown.text);
        assert!(shown.text.contains("ada@acme.example would be signed in. A user would be created."), "{}", shown.text);
        assert!(!shown.header("set-cookie").contains("session"), "{}", shown.header("set-cookie"));
        assert!(scene.user("ada@acme.example").await.is_none());
        let last = history(&scene).await["last_test"].clone();
        assert_eq!((&last["succeeded"], &last["creates_user"]), (&json!(true), &json!(true)), "{last}");

        let foreign = json!({"sub": "eve-1", "email": "eve@evil.example", "email_verified": true});
        let shown = scene.come_back(&open(&scene, &link).await, foreign).await;
        assert!(shown.status == 200 && shown.text.contains("foreign_domain"), "{}", shown.text);
        let last = history(&scene).await;
        assert_eq!(last["last_test"]["failure"]["reason"], "foreign_domain");
        assert_eq!((&last["last_failure"], scene.reasons().await.len()), (&Value::Null, 0), "a test is no failed sign-in");

        app.advance(std::time::Duration::from_mins(11));
        let url = link["sign_in_url"].as_str().unwrap();
        assert_eq!(app.anonymous().get(&url[url.find("/api/").unwrap()..]).send().await.problem(404), "not_found");
        assert_eq!(app.anonymous().get("/api/auth/sso/test?link=AAAA").send().await.problem(404), "not_found");
    })
    .await;
}

#[tokio::test]
async fn administrators_see_the_last_sign_on_failure() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        scene.provider.twist(Twist::claims(json!({"aud": "somebody else"})));
        scene.sign_on(ada()).await.problem(401);
        let failure = history(&scene).await["last_failure"].clone();
        assert_eq!((&failure["reason"], &failure["cause"]), (&json!("wrong_audience"), &Value::Null));

        let started = scene.begin(json!({})).await;
        let callback = scene.provider.authorize(started.body["redirect_url"].as_str().unwrap(), ada());
        let refused = callback.replace("code=", "error=access_denied&x=");
        app.anonymous().with("cookie", &started.cookie).get(&refused).send().await.problem(401);
        let failure = history(&scene).await["last_failure"].clone();
        assert_eq!((&failure["reason"], &failure["cause"]), (&json!("provider_refused"), &json!("access_denied")));

        scene.provider.twist(Twist::default());
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        let last = history(&scene).await;
        assert!(last["last_success_at"].is_string() && last["last_failure"]["reason"] == "provider_refused", "{last}");
        let listed = scene.admin.get(PROVIDERS).send().await.ok(200)["data"][0]["sign_on"].clone();
        assert_eq!(listed, last);
    })
    .await;
}

#[tokio::test]
async fn the_iss_parameter_is_required_when_announced() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        scene.provider.name_itself();
        let started = scene.begin(json!({})).await;
        let callback = scene.provider.authorize(started.body["redirect_url"].as_str().unwrap(), ada());
        let nameless = callback.replace("&iss=", "&from=");
        assert_ne!(nameless, callback);
        app.anonymous().with("cookie", &started.cookie).get(&nameless).send().await.problem(401);
        assert_eq!(scene.reasons().await, ["wrong_issuer"]);
        assert_eq!(scene.sign_on(ada()).await.status, 303);
    })
    .await;
}
