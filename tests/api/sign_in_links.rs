//! Sign-in links of evaluation tenants: each works once, within a day, and only while nothing about its account has changed.

use std::time::Duration;

use serde_json::{Value, json};

use tenantd_base::id::TenantId;
use tenantd_store::events;

use crate::{
    evaluations::evaluate,
    harness::{Actor, PASSWORD, Reply, Setup, TestApp, with_app, with_setup},
};

const ADMIN: &str = "admin@trial.example";
const LINK: &str = "/api/auth/sign-in-link";
const USERS: &str = "/api/admin/users";

/// Issues a link as `tenantd demo` does, and returns its token.
async fn issue(app: &TestApp, tenant: &str, email: &str) -> Option<String> {
    let (server, tenant): (_, TenantId) = (&app.running().app, tenant.parse().unwrap());
    let intent = server.slices.platform.tenants.guarding_intent(tenant, app.now(), events::Actor::system("demo"));
    let (users, email) = (server.slices.auth.users.clone(), email.to_owned());
    let issued = server.store.write(move |tx| users.issue_sign_in_link(tx, &mut intent.begin(), tenant, &email));
    issued.await.unwrap().map(|token| token.expose().to_owned())
}

async fn redeem(app: &TestApp, token: &str) -> Reply {
    app.anonymous().post(LINK).json(json!({"token": token})).send().await
}

/// The session that a link has started.
pub async fn linked(app: &TestApp, tenant: &str, email: &str) -> Actor {
    let reply = redeem(app, &issue(app, tenant, email).await.unwrap()).await;
    reply.ok(200);
    app.anonymous().with("cookie", cookie(&reply))
}

fn cookie(reply: &Reply) -> &str {
    reply.header("set-cookie").split(';').next().unwrap()
}

/// The refused sign-ins that a reader of events sees.
async fn refused(reader: &Actor) -> Vec<Value> {
    let feed = reader.get("/api/events?types=auth.login_failed").send().await.ok(200)["data"].clone();
    feed.as_array().unwrap().iter().map(|event| event["data"]["sign_in"].clone()).collect()
}

#[tokio::test]
async fn a_link_signs_in_once() {
    with_app(async |app| {
        let trial = app.evaluation_tenant("trial").await;
        let former = trial.admin().await;
        let password = json!({"email": ADMIN, "password": PASSWORD});
        let login = app.anonymous().post("/api/auth/login").json(password).send().await;
        let token = issue(app, &trial.id, ADMIN).await.unwrap();
        let forged = former.post(LINK).header("origin", "https://evil.example").json(json!({"token": token})).send().await;
        assert_eq!(forged.problem(403), "csrf_failed");

        let reply = former.post(LINK).json(json!({"token": token})).send().await;
        assert_eq!(reply.ok(200)["user"]["email"], ADMIN);
        assert_eq!(reply.body["user"]["id"], login.ok(200)["user"]["id"]);
        let names = |reply: &Reply| reply.body.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&reply), names(&login));
        let attributes = |reply: &Reply| reply.header("set-cookie").split_once(';').unwrap().1.to_owned();
        assert_eq!(attributes(&reply), attributes(&login));
        assert_eq!(reply.header("cache-control"), "no-store");
        let session = app.anonymous().with("cookie", cookie(&reply));
        let me = session.get("/api/auth/session").send().await.ok(200).clone();
        assert_eq!((me["role"].as_str(), me["tenant"]["id"].as_str()), (Some("admin"), Some(trial.id.as_str())));
        assert_eq!(former.get("/api/auth/session").send().await.problem(401), "session_expired");

        let again = redeem(app, &token).await;
        assert_eq!((again.problem(401), again.header("set-cookie")), ("invalid_credentials", ""));
        let detail = again.body["detail"].as_str().unwrap();
        assert!(detail.contains("works once") && detail.contains("`tenantd demo`"), "{detail}");
        assert_eq!(again.header("www-authenticate"), "Bearer realm=\"tenantd\"");
        assert_eq!(redeem(app, "nonsense").await.problem(401), "invalid_credentials");
        let signed_in = session.get("/api/events?types=auth.login&limit=200").send().await;
        assert_eq!(signed_in.ok(200)["data"].as_array().unwrap().len(), 3, "two passwords and a link");
        assert_eq!(refused(&session).await, Vec::<Value>::new(), "nobody knows whose the token was");
        let bad = json!({"method": "link", "reason": "bad_link"});
        assert_eq!(refused(&app.operator().await).await, [bad.clone(), bad]);
    })
    .await;
}

#[tokio::test]
async fn a_link_and_a_password_token_are_different() {
    with_app(async |app| {
        let trial = app.evaluation_tenant("trial").await;
        let admin = trial.admin().await;
        let new = json!({"email": "ada@trial.example", "name": "Ada", "role": "viewer"});
        let ada = admin.post(USERS).json(new).send().await.ok(201).clone();
        let link = issue(app, &trial.id, "ada@trial.example").await.unwrap();
        assert_eq!(redeem(app, ada["password_token"].as_str().unwrap()).await.problem(401), "invalid_credentials");
        let set = async |token: &str| {
            let body = json!({"token": token, "password": PASSWORD});
            app.anonymous().post("/api/auth/password").json(body).send().await.status
        };
        assert_eq!(set(&link).await, 401);
        assert_eq!(redeem(app, &link).await.ok(200)["user"]["id"], ada["id"]);
        assert_eq!(set(ada["password_token"].as_str().unwrap()).await, 204);
    })
    .await;
}

#[tokio::test]
async fn a_link_expires_or_is_replaced() {
    with_app(async |app| {
        let trial = app.evaluation_tenant("trial").await;
        trial.admin().await;
        let (first, second) = (issue(app, &trial.id, ADMIN).await.unwrap(), issue(app, &trial.id, ADMIN).await.unwrap());
        assert_eq!(redeem(app, &first).await.problem(401), "invalid_credentials");
        app.advance(Duration::from_hours(23));
        redeem(app, &second).await.ok(200);
        let late = issue(app, &trial.id, ADMIN).await.unwrap();
        // The clock of the tenant does not matter, only that of the installation.
        let path = format!("/api/platform/tenants/{}/clock", trial.id);
        app.local().post(&path).json(json!({"advance_seconds": 3 * 24 * 3600})).send().await.ok(200);
        redeem(app, &late).await.ok(200);
        let late = issue(app, &trial.id, ADMIN).await.unwrap();
        app.advance(Duration::from_hours(24));
        assert_eq!(redeem(app, &late).await.problem(401), "invalid_credentials");
    })
    .await;
}

#[tokio::test]
async fn a_change_of_the_account_ends_its_link() {
    with_app(async |app| {
        let trial = app.evaluation_tenant("trial").await;
        let admin = trial.admin().await;
        let changes = [
            (json!({"role": "admin"}), 401),
            (json!({"email": "moved@trial.example"}), 401),
            (json!({"status": "disabled"}), 401),
            (json!({"name": "Other"}), 200),
        ];
        let place = |user: &Value| format!("{USERS}/{}", user["id"].as_str().unwrap());
        let create = async |email: &str| {
            let body = json!({"email": email, "name": "Ada", "role": "technician"});
            admin.post(USERS).json(body).send().await.ok(201).clone()
        };
        for (number, (change, expected)) in changes.into_iter().enumerate() {
            let email = format!("ada{number}@trial.example");
            let user = create(&email).await;
            let token = issue(app, &trial.id, &email).await.unwrap();
            admin.put(&place(&user)).json(change.clone()).send().await.ok(200);
            if change["status"] == "disabled" {
                assert_eq!(issue(app, &trial.id, &email).await, None);
                admin.put(&place(&user)).json(json!({"status": "active"})).send().await.ok(200);
            }
            assert_eq!(redeem(app, &token).await.status, expected, "{change}");
        }
        let user = create("removed@trial.example").await;
        let token = issue(app, &trial.id, "removed@trial.example").await.unwrap();
        assert_eq!(admin.delete(&place(&user)).send().await.status, 204);
        assert_eq!(redeem(app, &token).await.problem(401), "invalid_credentials");
        let token = issue(app, &trial.id, ADMIN).await.unwrap();
        let reset = json!({"email": ADMIN, "password": "another long password"});
        app.local().post("/internal/admin/users/reset-password").json(reset).send().await.ok(200);
        assert_eq!(redeem(app, &token).await.problem(401), "invalid_credentials", "a new password ends everything older");
        assert_eq!(issue(app, &trial.id, "nobody@trial.example").await, None);
    })
    .await;
}

#[tokio::test]
async fn only_active_evaluation_tenants_have_links() {
    with_app(async |app| {
        let (acme, trial) = (app.tenant("acme").await, app.evaluation_tenant("trial").await);
        acme.admin().await;
        let admin = trial.admin().await;
        assert_eq!(issue(app, &acme.id, "admin@acme.example").await, None);
        assert_eq!(issue(app, &acme.id, ADMIN).await, None, "the user belongs to another tenant");
        let platform = app.local().get("/api/platform/tenants?slug=platform").send().await.ok(200)["data"][0]["id"].clone();
        assert_eq!(issue(app, platform.as_str().unwrap(), "operator@example.com").await, None);

        let token = issue(app, &trial.id, ADMIN).await.unwrap();
        let path = format!("/api/platform/tenants/{}", trial.id);
        app.local().post(&format!("{path}/suspend")).send().await.ok(200);
        assert_eq!(issue(app, &trial.id, ADMIN).await, None);
        assert_eq!(redeem(app, &token).await.problem(401), "invalid_credentials");
        app.local().post(&format!("{path}/resume")).send().await.ok(200);
        assert_eq!(redeem(app, &token).await.problem(401), "invalid_credentials", "the attempt has used it up");
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].clone();
        let found = refused(&admin).await;
        assert_eq!((found.len(), &found[0]["reason"], &found[0]["user"]["id"]), (1, &json!("bad_link"), &me));
        redeem(app, &issue(app, &trial.id, ADMIN).await.unwrap()).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_reset_ends_links() {
    with_app(async |app| {
        let sample = json!({"seed": 1, "organizations": 1, "devices": 1, "tickets": 1});
        let (created, _) = evaluate(app, json!({"name": "trial", "slug": "trial", "sample": sample})).await;
        let (id, email) = (created["tenant"]["id"].as_str().unwrap(), created["email"].as_str().unwrap());
        let token = issue(app, id, email).await.unwrap();
        app.local().post(&format!("/api/platform/tenants/{id}/reset")).send().await.ok(202);
        app.until_tenant(id, Some("active")).await;
        assert_eq!(redeem(app, &token).await.problem(401), "invalid_credentials");
        redeem(app, &issue(app, id, email).await.unwrap()).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn guessing_links_is_limited() {
    with_setup(Setup::default().with("rate_limits.sign_in_per_address", 3), async |app| {
        for _ in 0..3 {
            assert_eq!(redeem(app, "nonsense").await.problem(401), "invalid_credentials");
        }
        assert_eq!(redeem(app, "nonsense").await.problem(429), "rate_limited");
    })
    .await;
}
