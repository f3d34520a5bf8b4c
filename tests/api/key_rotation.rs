//! Rotating the installation key of a running server re-encrypts every kind of secret without any visible effect.

use serde_json::{Value, json};
use tenantd::app;

use tenantd_audit as audit;
use tenantd_base::{
    clock::Timestamp,
    secrets::{InstallationKey, Sealer},
};
use tenantd_store::StoreError;

use crate::harness::{
    Actor, Receiver, Setup, TestApp,
    authenticator::{add_app, challenge, send_code},
    example,
};

const ROTATION: &str = "/internal/admin/key-rotation";
const KEYS: &str = "/api/admin/api-keys";

fn key(app: &TestApp) -> InstallationKey {
    InstallationKey::load(&app.data_directory().join("installation.key")).unwrap()
}

/// Waits until no rotation is running.
async fn rotated(app: &TestApp) -> Value {
    loop {
        let status = app.local().get(ROTATION).send().await.ok(200).clone();
        if status["under_way"] == false {
            return status;
        }
        tokio::task::yield_now().await;
    }
}

/// The number of secrets in each table, all of which open with this key alone.
async fn secrets(app: &TestApp, key: &InstallationKey) -> Result<Vec<(&'static str, u64)>, StoreError> {
    let sealer = Sealer::new(key);
    let count = app.running().app.store.scan(move |tx| {
        let tables = app::sealed_tables();
        tables.iter().map(|table| Ok((table.name().name(), table.open_all(tx, &sealer)?))).collect()
    });
    count.await
}

async fn make_key(admin: &Actor) -> String {
    let request = admin.post(KEYS).header("idempotency-key", "once").json(json!({"name": "Kept", "scopes": ["*"]}));
    request.send().await.ok(201)["key"].as_str().unwrap().to_owned()
}

/// Checks an attempt at the endpoint with the secret of its owner.
async fn assert_signed(admin: &Actor, path: &str, secret: &str, receiver: &Receiver) {
    admin.post(&format!("{path}/test")).send().await.ok(200);
    let received = receiver.next().await;
    assert_eq!(received.header("x-token"), "header-secret");
    let (id, at) = (received.header("webhook-id"), received.header("webhook-timestamp").parse().unwrap());
    let signature = standardwebhooks::Webhook::new(secret).unwrap().sign(id, at, received.body.as_bytes()).unwrap();
    assert!(received.header("webhook-signature").split(' ').any(|given| given == signature));
}

#[tokio::test]
async fn a_running_server_rotates_every_secret() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, Timestamp::from_millis(1_767_225_600_000)).await;
    let receiver = Receiver::always(200).await;
    let acme = app.evaluation_tenant("acme").await;
    let (admin, _) = acme.new_key("admin", &["*"]).await;
    let plaintext = make_key(&admin).await;
    let webhook = json!({"name": "Hook", "url": receiver.url(), "events": ["ticket.*"], "headers": {"x-token": "header-secret"}});
    let webhook = admin.post("/api/admin/webhooks").json(webhook).send().await.ok(201).clone();
    let path = format!("/api/admin/webhooks/{}", webhook["id"].as_str().unwrap());
    let secret = admin.post(&format!("{path}/rotate-secret")).json(json!({})).send().await.ok(200)["secret"].clone();
    let provider = json!({"name": "Acme", "issuer": "https://id.acme.example", "client_id": "tenantd", "client_secret": "s3cret", "domains": ["acme.example"]});
    let provider = admin.post("/api/admin/identity-providers").json(provider).send().await.ok(201).clone();
    let cloud = json!({"name": "Aws", "kind": "aws", "enabled": false, "credential": {"access_key_id": "AKIA", "secret_access_key": "s3cret"}});
    admin.post("/api/cloud/providers?verify=skip").json(cloud).send().await.ok(201);
    admin.post("/api/admin/secrets").json(example("secrets/create_secret")).send().await.ok(201);
    let (codes, _) = add_app(&app, &acme.user("viewer").await, "Phone").await;
    app.advance(std::time::Duration::from_secs(30));
    let before = key(&app);
    let held = secrets(&app, &before).await.unwrap();
    for (table, least) in
        [("webhooks", 3), ("cloud_providers", 1), ("identity_providers", 1), ("secrets", 1), ("idempotency", 1), ("factors", 1)]
    {
        let found = held.iter().find(|(name, _)| *name == table).unwrap().1;
        assert!(found >= least, "{table} holds {found}");
    }

    app.local().post(ROTATION).send().await.ok(200);
    let status = rotated(&app).await;

    let after = key(&app);
    assert_ne!(after.fingerprint(), before.fingerprint());
    assert_eq!(status["fingerprint"], data_encoding::HEXLOWER.encode(&after.fingerprint()));
    assert_eq!(secrets(&app, &after).await.unwrap(), held);
    assert!(secrets(&app, &before).await.is_err());
    assert!(!app.data_directory().join("installation.key.next").exists());
    assert_eq!(audit::public_key(&after).unwrap(), audit::public_key(&before).unwrap(), "what was signed can still be proved");
    // The rotation changes no version, no response and no signature.
    let provider_path = format!("/api/admin/identity-providers/{}", provider["id"].as_str().unwrap());
    assert_eq!(admin.get(&provider_path).send().await.header("etag"), "\"v1\"");
    assert_eq!(make_key(&admin).await, plaintext);
    assert_signed(&admin, &path, secret.as_str().unwrap(), &receiver).await;
    let asked = challenge(&app, "viewer@acme.example").await;
    send_code(&app, &asked, &codes.code(app.now())).await.ok(200);
    let acts = app.local().get("/api/events?types=operator.acted&limit=200").send().await.text;
    assert!(acts.contains("rotate_key"), "{acts}");

    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now).await;
    let admin = admin.moved(app.base_url());
    assert_eq!(make_key(&admin).await, plaintext);
    assert_signed(&admin, &path, secret.as_str().unwrap(), &receiver).await;
    drop(app.stop().await);
}
