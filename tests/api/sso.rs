//! Single sign-on from the first request to a session: matching and creating users, and key changes. `sso_refusals.rs` covers
//! refusals, `sso_providers.rs` the records of providers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    Actor, Reply, Tenant, TestApp,
    oidc::{CLIENT_ID, CLIENT_SECRET, Provider, Twist},
    with_app,
};

pub const PROVIDERS: &str = "/api/admin/identity-providers";

/// A tenant with its own provider, and a person with a browser.
pub struct Scene<'a> {
    pub app: &'a TestApp,
    pub tenant: Tenant<'a>,
    pub admin: Actor,
    pub provider: Provider,
    pub record: Value,
}

/// A sign-on that was started in a browser.
pub struct SignOn {
    pub body: Value,
    pub cookie: String,
}

impl<'a> Scene<'a> {
    pub async fn new(app: &'a TestApp, more: Value) -> Self {
        let tenant = app.evaluation_tenant("acme").await;
        let admin = tenant.admin().await;
        let provider = Provider::start(app.now().as_seconds()).await;
        let mut body = json!({
            "name": "Acme", "issuer": provider.issuer(), "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET,
            "domains": ["acme.example"], "auto_provision": true, "default_role": "technician",
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let record = admin.post(PROVIDERS).json(body).send().await.ok(201).clone();
        Self { app, tenant, admin, provider, record }
    }

    pub async fn begin(&self, more: Value) -> SignOn {
        let mut body = json!({"domain": "acme.example"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = self.app.anonymous().post("/api/auth/sso").json(body).send().await;
        let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
        SignOn { body: reply.ok(200).clone(), cookie }
    }

    /// The person signs in at the provider, and the browser returns to the callback.
    pub async fn come_back(&self, started: &SignOn, claims: Value) -> Reply {
        let callback = self.provider.authorize(started.body["redirect_url"].as_str().unwrap(), claims);
        self.app.anonymous().with("cookie", &started.cookie).get(&callback).send().await
    }

    pub async fn sign_on(&self, claims: Value) -> Reply {
        self.come_back(&self.begin(json!({})).await, claims).await
    }

    /// The reasons of refused sign-ins, in order.
    pub async fn reasons(&self) -> Vec<String> {
        let events = self.admin.get("/api/events?types=auth.login_failed&limit=200").send().await.ok(200)["data"].clone();
        let reason = |event: &Value| event["data"]["sign_in"]["reason"].as_str().unwrap().to_owned();
        events.as_array().unwrap().iter().map(reason).collect()
    }

    pub async fn user(&self, email: &str) -> Option<Value> {
        let found = self.admin.get(&format!("/api/admin/users?q={email}")).send().await.ok(200)["data"].clone();
        found.as_array().unwrap().first().cloned()
    }
}

pub fn ada() -> Value {
    json!({"sub": "ada-1", "email": "Ada@acme.example", "email_verified": true, "name": "Ada\n Lovelace"})
}

/// The session cookie that a browser got.
pub fn session(reply: &Reply) -> Option<String> {
    let cookies = reply.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
    let found = cookies.filter_map(|cookie| cookie.split(';').next()).find(|pair| pair.starts_with("tenantd_session="));
    found.map(str::to_owned).filter(|pair| pair != "tenantd_session=")
}

#[tokio::test]
async fn the_first_sign_on_creates_a_user() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let started =
            scene.begin(json!({"domain": "ACME.example.", "return_to": "/status/?a=b", "login_hint": "ada@acme.example"})).await;
        let body = &started.body;
        assert_eq!((body["domain"].as_str(), body["provider"]["type"].as_str()), (Some("acme.example"), Some("oidc")));
        assert_eq!((&body["provider"]["id"], &body["provider"]["name"]), (&scene.record["id"], &json!("Acme")));
        assert!(body["redirect_url"].as_str().unwrap().contains("login_hint=ada%40acme.example"));
        assert!(body["redirect_url"].as_str().unwrap().contains(body["state"].as_str().unwrap()));
        let reply = scene.come_back(&started, ada()).await;
        assert_eq!((reply.status, reply.header("location")), (303, "/status/?a=b"), "{}", reply.text);
        assert_eq!(reply.header("cache-control"), "no-store");
        let browser = app.anonymous().with("cookie", &session(&reply).unwrap());
        let me = browser.get("/api/auth/session").send().await.ok(200).clone();
        assert_eq!(
            (&me["role"], &me["email"], &me["name"]),
            (&json!("technician"), &json!("ada@acme.example"), &json!("Ada Lovelace"))
        );
        browser.get("/api/psa/tickets").send().await.ok(200);
        let user = scene.user("ada").await.unwrap();
        assert_eq!((&user["sso"]["subject"], &user["sso"]["issuer"]), (&json!("ada-1"), &json!(scene.provider.issuer())));
        assert_eq!(user["sso"]["identity_provider_id"], scene.record["id"]);
        assert!(user["last_login_at"].is_string());
        // The same subject with another address is the same person.
        let moved = json!({"sub": "ada-1", "email": "ada.king@acme.example", "email_verified": true});
        let started = scene.begin(json!({})).await;
        let cookies = format!("{}; {}", started.cookie, session(&reply).unwrap());
        let again = scene.come_back(&SignOn { cookie: cookies, ..started }, moved).await;
        let before = browser.get("/api/auth/session").send().await;
        assert_eq!(before.problem(401), "session_expired", "the browser has a new session instead of its former one");
        let browser = app.anonymous().with("cookie", &session(&again).unwrap());
        assert_eq!(browser.get("/api/auth/session").send().await.ok(200)["id"], me["id"]);
        assert_eq!(again.header("location"), "/");
        let logins = scene.admin.get("/api/events?types=auth.login,user.created&limit=200").send().await.ok(200)["data"].clone();
        let kinds: Vec<&str> = logins.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["user.created", "auth.login", "user.created", "auth.login", "auth.login"]);
        assert!(scene.reasons().await.is_empty());
        browser.post("/api/auth/logout").send().await;
        assert_eq!(browser.get("/api/auth/session").send().await.problem(401), "session_expired");
    })
    .await;
}

#[tokio::test]
async fn an_existing_user_is_matched_by_verified_address() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"auto_provision": false})).await;
        let body = json!({"email": "ada@acme.example", "name": "Ada", "role": "viewer"});
        let created = scene.admin.post("/api/admin/users").json(body).send().await.ok(201).clone();
        assert!(created["password_link"].as_str().unwrap().starts_with(&format!("{}/set-password?token=", app.base_url())));
        // An address that is only in the user information also works.
        scene.provider.twist(Twist { email_elsewhere: true, ..Twist::default() });
        let reply = scene.sign_on(ada()).await;
        let browser = app.anonymous().with("cookie", &session(&reply).expect(&reply.text));
        let me = browser.get("/api/auth/session").send().await.ok(200).clone();
        assert_eq!((&me["id"], &me["role"], &me["name"]), (&created["id"], &json!("viewer"), &json!("Ada")));
        // A different subject does not get the account with the address until an administrator allows it.
        let other = json!({"sub": "ada-2", "email": "ada@acme.example", "email_verified": true});
        assert_eq!(scene.sign_on(other.clone()).await.problem(401), "invalid_credentials");
        let path = format!("/api/admin/users/{}/sso", created["id"].as_str().unwrap());
        let unlinked = scene.admin.delete(&path).send().await;
        assert!(unlinked.ok(200).get("sso").is_none());
        assert_eq!(browser.get("/api/auth/session").send().await.problem(401), "session_expired");
        assert_eq!(scene.sign_on(other).await.status, 303);
        assert_eq!(scene.user("ada").await.unwrap()["sso"]["subject"], "ada-2");
        // An unknown person is refused.
        let nobody = json!({"sub": "bob-1", "email": "bob@acme.example", "email_verified": true});
        assert_eq!(scene.sign_on(nobody).await.problem(401), "invalid_credentials");
        assert_eq!(scene.reasons().await, ["other_identity", "no_account"]);
        assert!(scene.user("bob").await.is_none());
    })
    .await;
}

#[tokio::test]
async fn new_provider_keys_are_fetched_at_a_limited_rate() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        assert_eq!((scene.provider.requests("/keys"), scene.provider.requests("/.well-known/openid-configuration")), (1, 1));
        scene.provider.rotate_key();
        assert_eq!(scene.sign_on(ada()).await.problem(401), "invalid_credentials", "they were read a moment ago");
        assert_eq!(scene.provider.requests("/keys"), 1);
        app.advance(Duration::from_secs(31));
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        assert_eq!(scene.provider.requests("/keys"), 2);
        app.advance(Duration::from_hours(1));
        scene.provider.set_now(app.now().as_seconds());
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        assert_eq!(scene.provider.requests("/.well-known/openid-configuration"), 2, "what is known of a provider gets old");
        assert_eq!(scene.reasons().await, ["bad_signature"]);
    })
    .await;
}

#[tokio::test]
async fn unknown_and_inactive_domains_get_the_same_response() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"enabled": false})).await;
        let ask = |domain: &str| app.anonymous().post("/api/auth/sso").json(json!({"domain": domain})).send();
        let summary = |reply: &Reply| {
            assert_eq!(reply.problem(404), "sso_provider_not_found");
            assert!(reply.headers.get("set-cookie").is_none());
            let mut body = reply.body.clone();
            body.as_object_mut().unwrap().remove("request_id");
            body
        };
        let (disabled, unknown) = (summary(&ask("acme.example").await), summary(&ask("nobody.example").await));
        assert_eq!(disabled, unknown);
        let path = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        scene.admin.put(&path).json(json!({"enabled": true})).send().await.ok(200);
        ask("acme.example").await.ok(200);
        let suspend = format!("/api/platform/tenants/{}/suspend", scene.tenant.id);
        assert!(app.local().post(&suspend).send().await.status < 300);
        assert_eq!(summary(&ask("acme.example").await), unknown, "a suspended tenant");
    })
    .await;
}

#[tokio::test]
async fn all_request_errors_are_reported_at_once() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let ask = |body: Value| app.anonymous().post("/api/auth/sso").json(body).send();
        let address = ask(json!({"domain": "ada@acme.example"})).await;
        assert_eq!(address.problem(422), "validation_failed");
        assert_eq!(
            (&address.body["errors"][0]["pointer"], &address.body["errors"][0]["suggestion"]),
            (&json!("/domain"), &json!("acme.example"))
        );
        let all = ask(json!({"domain": "a b", "return_to": "//evil.example", "login_hint": "a\nb"})).await;
        let places: Vec<String> = all.field_errors().into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, ["/domain", "/login_hint", "/return_to"]);
        for bad in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example/",
            "/..//evil.example",
            "/a\r\nb",
            "evil",
            "/\t/evil.example",
        ] {
            let reply = ask(json!({"domain": "acme.example", "return_to": bad})).await;
            assert_eq!((reply.problem(422), reply.field_errors().len()), ("validation_failed", 1), "{bad:?}");
        }
        assert_eq!(ask(json!({"domain": "acme.example", "returnto": "/"})).await.problem(422), "validation_failed");
        let forged = app.anonymous().post("/api/auth/sso").header("origin", "https://evil.example");
        assert_eq!(forged.json(json!({"domain": "acme.example"})).send().await.problem(403), "csrf_failed");
        assert_eq!(scene.provider.requests("/keys"), 0, "nobody was asked");
    })
    .await;
}
