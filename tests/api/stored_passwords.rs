//! What the store has of a password: hashes of older parameters are renewed at the sign-in, and initial passwords expire.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use tenantd_base::{
    clock::Timestamp,
    id::{TenantId, UserId},
};
use tenantd_store::{StoreError, Table, catalog, codec::Record};

use crate::harness::{PASSWORD, Reply, TestApp, with_app};

/// A stored password, as the store has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Credential {
    password: String,
    set_at: Timestamp,
    expires_at: Option<Timestamp>,
}

impl Record for Credential {
    const VERSION: u8 = 2;
}

static CREDENTIALS: Table<(TenantId, UserId), Credential> = Table::new(catalog::CREDENTIALS, &[]);

/// The hash of [`PASSWORD`] with more memory and more passes than this release uses.
const OTHER_HASH: &str = "$argon2id$v=19$m=24576,t=3,p=1$MDEyMzQ1Njc4OWFiY2RlZg$UcjFwMVWTLux5pztI6zn1ZIPhb3T3BS8ByPujkwfotc";

async fn login(app: &TestApp, password: &str) -> Reply {
    app.anonymous().post("/api/auth/login").json(json!({"email": "admin@acme.example", "password": password})).send().await
}

/// A tenant with an administrator, and the key of their password in the store.
async fn account(app: &TestApp) -> (TenantId, UserId) {
    let acme = app.tenant("acme").await;
    let me = acme.admin().await.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
    (acme.id.parse().unwrap(), me.parse().unwrap())
}

fn stored(app: &TestApp, key: (TenantId, UserId)) -> Credential {
    app.running().app.store.read(|tx| CREDENTIALS.get(tx, &key)).unwrap().unwrap()
}

async fn store(app: &TestApp, key: (TenantId, UserId), credential: Credential) {
    app.running()
        .app
        .store
        .write(move |tx| CREDENTIALS.put(tx, &key, &credential))
        .await
        .unwrap_or_else(|error: StoreError| panic!("{error}"));
}

#[tokio::test]
async fn a_sign_in_renews_a_hash_of_other_parameters() {
    with_app(async |app| {
        let key = account(app).await;
        let known = stored(app, key);
        login(app, PASSWORD).await.ok(200);
        assert_eq!(stored(app, key), known, "a hash with the parameters of this release stays");
        store(app, key, Credential { password: OTHER_HASH.to_owned(), ..known.clone() }).await;
        assert_eq!(login(app, "wrong wrong wrong").await.problem(401), "invalid_credentials");
        assert_eq!(stored(app, key).password, OTHER_HASH, "a wrong password renews nothing");
        login(app, PASSWORD).await.ok(200);
        let renewed = stored(app, key);
        assert!(renewed.password.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", renewed.password);
        assert_eq!((renewed.set_at, renewed.expires_at), (known.set_at, None));
        login(app, PASSWORD).await.ok(200);
        assert_eq!(stored(app, key), renewed);
    })
    .await;
}

#[tokio::test]
async fn an_initial_password_expires_until_the_person_sets_one() {
    with_app(async |app| {
        let key = account(app).await;
        let initial = Credential { expires_at: Some(app.now() + Duration::from_hours(72)), ..stored(app, key) };
        store(app, key, initial).await;
        let session = app.sign_in("admin@acme.example").await;
        app.advance(Duration::from_hours(72));
        assert_eq!(login(app, "wrong wrong wrong").await.body["detail"], "E-mail address or password is wrong.");
        let expired = login(app, PASSWORD).await;
        assert_eq!(expired.problem(401), "invalid_credentials");
        assert!(expired.text.contains("initial password has expired"), "{}", expired.text);
        assert_eq!(session.get("/api/auth/session").send().await.problem(401), "session_expired");
        let reset =
            app.local().post("/internal/admin/users/reset-password").json(json!({"email": "admin@acme.example"})).send().await;
        let body = json!({"token": reset.ok(200)["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(body).send().await.status, 204);
        login(app, PASSWORD).await.ok(200);
        assert_eq!(stored(app, key).expires_at, None);
    })
    .await;
}

#[tokio::test]
async fn an_administrator_with_an_expired_initial_password_does_not_count() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let second = json!({"email": "second@acme.example", "name": "Second", "role": "admin", "password": PASSWORD});
        let users = format!("/internal/admin/tenants/{}/users", tenant.id);
        let second = app.local().post(&users).json(second).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let key = (tenant.id.parse().unwrap(), second.parse().unwrap());
        let initial = |at| Credential { expires_at: Some(at), ..stored(app, key) };
        let demote = async || admin.put(&format!("/api/admin/users/{me}")).json(json!({"role": "viewer"})).send().await;
        store(app, key, initial(app.now())).await;
        assert_eq!(demote().await.problem(409), "in_use");
        store(app, key, initial(app.now() + Duration::from_hours(1))).await;
        demote().await.ok(200);
    })
    .await;
}
