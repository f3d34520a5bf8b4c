//! Cloud providers: created, verified, changed, deleted, and never shown with their credential.

use serde_json::{Value, json};

use crate::harness::{Actor, TestApp, ec2, ec2::FakeEc2, with_app};

pub const PROVIDERS: &str = "/api/cloud/providers";

/// The body of a simulated provider.
pub fn simulated(name: &str, config: Value) -> Value {
    json!({"name": name, "kind": "simulated", "config": config})
}

/// The body of a provider at a fake EC2.
pub fn fake_aws(cloud: &FakeEc2) -> Value {
    json!({
        "name": "Fake", "kind": "aws", "config": {"endpoint": cloud.url(), "regions": ["us-east-1"]},
        "credential": {"access_key_id": ec2::ACCESS_KEY_ID, "secret_access_key": ec2::SECRET_ACCESS_KEY},
    })
}

pub async fn create(actor: &Actor, body: Value) -> Value {
    actor.post(PROVIDERS).json(body).send().await.ok(201).clone()
}

pub fn path(provider: &Value) -> String {
    format!("{PROVIDERS}/{}", provider["id"].as_str().unwrap())
}

/// The kinds of the tenant's cloud events, in order.
pub async fn events(actor: &Actor) -> Vec<String> {
    let feed = actor.get("/api/events?types=cloud.provider.*,vm.*&limit=200").send().await.ok(200).clone();
    feed["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// Starts a sync of all providers and waits for its end.
pub async fn refresh(actor: &Actor) -> Value {
    let asked = actor.get("/api/cloud/vms?refresh=true").send().await;
    let operation = asked.ok(202)["operation"]["id"].as_str().unwrap().to_owned();
    assert_eq!(asked.header("location"), format!("/api/operations/{operation}"));
    actor.get(&format!("/api/operations/{operation}?wait_seconds=30")).send().await.ok(200).clone()
}

#[tokio::test]
async fn a_provider_never_shows_its_credential() {
    with_app(async |app| {
        let acme = app.evaluation_tenant("acme").await;
        let (admin, cloud) = (acme.key(&["*"]).await, FakeEc2::start(3).await);
        let created = admin.post(PROVIDERS).header("idempotency-key", "one").json(fake_aws(&cloud)).send().await;
        let provider = created.ok(201);
        assert_eq!(created.header("location"), path(provider));
        assert_eq!(created.header("etag"), "\"v1\"");
        assert_eq!((&provider["status"], &provider["kind"]), (&json!("verified"), &json!("aws")));
        assert_eq!(provider["credential"]["type"], "access_key");
        assert_eq!(provider["credential"]["hint"], "AKIA…FAKE");
        assert_eq!(provider["verification"]["identity"], "arn:aws:iam::123456789012:user/tenantd");
        assert_eq!(provider["verification"]["capabilities"], json!({"read": true, "provision": true}));
        let checks: Vec<(&str, &str)> = provider["verification"]["checks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|check| (check["name"].as_str().unwrap(), check["status"].as_str().unwrap()))
            .collect();
        let expected = [
            ("dns", "passed"),
            ("tcp", "passed"),
            ("tls", "skipped"),
            ("authenticate", "passed"),
            ("list_vms", "passed"),
            ("provision", "passed"),
        ];
        assert_eq!(checks, expected);
        let again = admin.post(PROVIDERS).header("idempotency-key", "one").json(fake_aws(&cloud)).send().await;
        assert_eq!((again.ok(201)["id"].clone(), again.header("idempotency-replayed")), (provider["id"].clone(), "true"));
        let read = admin.get(&path(provider)).send().await;
        let listed = admin.get(&format!("{PROVIDERS}?kind=aws&status=verified&include_total=true")).send().await;
        assert_eq!(listed.ok(200)["page"]["total"], 1);
        let feed = admin.get("/api/events?limit=200").send().await;
        for shown in [&created.text, &read.text, &listed.text, &feed.text] {
            assert!(!shown.contains(ec2::SECRET_ACCESS_KEY), "{shown}");
        }
        assert_eq!(events(&admin).await[..2], ["cloud.provider.created", "cloud.provider.verified"]);
        assert_eq!(admin.get(&path(provider)).header("if-none-match", "\"v1\"").send().await.status, 304);
    })
    .await;
}

#[tokio::test]
async fn all_errors_of_a_provider_are_reported_at_once() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let body = json!({
            "name": "x", "kind": "aws", "config": {"endpoint": "ftp://x", "seed": 1, "regions": ["eu/west"]},
            "credential": {"access_key_id": "AKIA", "api_token": "t"},
        });
        let refused = admin.post(PROVIDERS).json(body).send().await;
        assert_eq!(refused.problem(422), "validation_failed");
        let found = refused.field_errors();
        for expected in [
            ("/config/endpoint", "wrong_form"),
            ("/config/seed", "unknown_field"),
            ("/config/regions/0", "wrong_form"),
            ("/credential/secret_access_key", "required"),
            ("/credential/api_token", "unknown_field"),
        ] {
            assert!(found.contains(&(expected.0.to_owned(), expected.1.to_owned())), "{found:?}");
        }
        let missing = admin.post(PROVIDERS).json(json!({"name": "x", "kind": "proxmox"})).send().await.field_errors();
        assert!(missing.contains(&("/config/endpoint".to_owned(), "required".to_owned())), "{missing:?}");
        assert!(missing.contains(&("/credential/token_id".to_owned(), "required".to_owned())), "{missing:?}");
        let unknown = admin.post(PROVIDERS).json(json!({"name": "x", "kind": "awss"})).send().await;
        assert!(unknown.text.contains("aws"), "{}", unknown.text);
        let strange = admin.post(PROVIDERS).json(json!({"name": "x", "kind": "simulated", "colour": "red"})).send().await;
        assert_eq!(strange.problem(422), "validation_failed");
        let closed = json!({"name": "x", "kind": "aws", "config": {"endpoint": "http://127.0.0.1:9/"}, "credential": {"access_key_id": "a", "secret_access_key": "b"}});
        let closed = admin.post(PROVIDERS).json(closed).send().await;
        assert_eq!(closed.problem(422), "target_not_allowed");
        assert_eq!(closed.field_errors(), [("/config/endpoint".to_owned(), "target_not_allowed".to_owned())]);
        assert_eq!(admin.get(PROVIDERS).send().await.ok(200)["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn the_verify_mode_decides_what_is_stored() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let broken = || simulated("Broken", json!({"fail": "invalid_credentials"}));
        let required = admin.post(&format!("{PROVIDERS}?verify=require")).json(broken()).send().await;
        assert_eq!(required.problem(422), "provider_verification_failed");
        assert_eq!(required.body["verification"]["outcome"], "invalid_credentials");
        assert_eq!(admin.get(PROVIDERS).send().await.ok(200)["data"], json!([]));
        let stored = create(&admin, broken()).await;
        assert_eq!((&stored["status"], &stored["verification"]["transient"]), (&json!("invalid"), &json!(false)));
        let skipped = admin.post(&format!("{PROVIDERS}?verify=skip")).json(simulated("Later", json!({}))).send().await;
        assert_eq!(skipped.ok(201)["status"], "unverified");
        let verified = admin.post(PROVIDERS).json(json!({"action": "verify", "id": skipped.body["id"]})).send().await;
        assert_eq!(verified.ok(200)["outcome"], "valid");
        let by_query =
            admin.post(&format!("{PROVIDERS}?id={}", skipped.body["id"].as_str().unwrap())).json(json!({"action": "verify"}));
        assert_eq!(by_query.send().await.ok(200)["outcome"], "valid");
        assert_eq!(admin.get(&path(&skipped.body)).send().await.ok(200)["status"], "verified");
        assert_eq!(admin.post(&format!("{}/verify", path(&stored))).send().await.ok(200)["outcome"], "invalid_credentials");
        let names = events(&admin).await;
        for kind in ["cloud.provider.created", "cloud.provider.verified", "cloud.provider.verification_failed"] {
            assert!(names.iter().any(|name| name == kind), "{names:?}");
        }
        let both = json!({"action": "verify", "id": stored["id"], "kind": "simulated"});
        assert_eq!(admin.post(PROVIDERS).json(both).send().await.problem(422), "validation_failed");
        assert_eq!(admin.post(PROVIDERS).json(json!({"action": "verify"})).send().await.problem(422), "validation_failed");
        let nowhere = json!({"action": "verify", "id": "prv_01k9z7w3v5e8g9m2n4p6r8t0x1"});
        assert_eq!(admin.post(PROVIDERS).json(nowhere).send().await.problem(404), "not_found");
    })
    .await;
}

#[tokio::test]
async fn a_simulated_cloud_has_every_failure() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        for (fail, outcome, transient, failed) in [
            ("invalid_credentials", "invalid_credentials", false, Some("authenticate")),
            ("insufficient_permissions", "insufficient_permissions", false, Some("authenticate")),
            ("unreachable", "unreachable", true, Some("authenticate")),
            ("tls_error", "tls_error", false, Some("authenticate")),
            ("clock_skew", "clock_skew", false, Some("authenticate")),
            ("rate_limited", "rate_limited", true, Some("authenticate")),
            ("provider_error", "provider_error", true, Some("authenticate")),
            ("timeout", "timeout", true, Some("authenticate")),
            ("read_only", "valid_limited", false, Some("provision")),
            ("quota_exceeded", "valid", false, None),
        ] {
            let body = json!({"action": "verify", "kind": "simulated", "config": {"fail": fail}});
            let tried = admin.post(PROVIDERS).json(body).send().await.ok(200).clone();
            assert_eq!((&tried["outcome"], &tried["transient"]), (&json!(outcome), &json!(transient)), "{fail}");
            let found = tried["checks"].as_array().unwrap().iter().find(|check| check["status"] == "failed");
            assert_eq!(found.map(|check| check["name"].as_str().unwrap()), failed, "{fail}");
            assert!(found.is_none_or(|check| check["remedy"].is_string() && check["message"].is_string()), "{fail}");
        }
        let empty = json!({"action": "verify", "kind": "simulated", "config": {"vm_count": 0}});
        let empty = admin.post(PROVIDERS).json(empty).send().await.ok(200).clone();
        assert_eq!(empty["warnings"], json!([{"code": "empty_inventory"}]));
        assert_eq!(admin.get(PROVIDERS).send().await.ok(200)["data"], json!([]), "nothing of it is stored");
    })
    .await;
}

#[tokio::test]
async fn a_change_keeps_the_credential_by_default() {
    with_app(async |app| {
        let acme = app.evaluation_tenant("acme").await;
        let (admin, cloud) = (acme.key(&["*"]).await, FakeEc2::start(1).await);
        let provider = create(&admin, fake_aws(&cloud)).await;
        let organization = acme.organization("Acme").await;
        let change =
            json!({"id": provider["id"], "name": "Renamed", "organization_id": organization, "sync_interval_seconds": 600});
        let changed = admin.put(PROVIDERS).header("if-match", "\"v1\"").json(change.clone()).send().await;
        assert_eq!((&changed.ok(200)["name"], &changed.body["organization"]["name"]), (&json!("Renamed"), &json!("Acme")));
        assert_eq!((&changed.body["status"], &changed.body["version"]), (&json!("verified"), &json!(2)));
        assert_eq!(changed.body["credential"]["set_at"], provider["credential"]["set_at"]);
        assert_eq!(admin.post(&format!("{}/verify", path(&provider))).send().await.ok(200)["outcome"], "valid");
        let stale = admin.put(&path(&provider)).header("if-match", "\"v1\"").json(json!({"name": "x"})).send().await;
        assert_eq!((stale.problem(412), &stale.body["current_version"]), ("version_conflict", &json!(2)));
        let other = json!({"credential": {"access_key_id": ec2::ACCESS_KEY_ID, "secret_access_key": "wrong"}});
        assert_eq!(admin.put(&path(&provider)).json(other).send().await.ok(200)["status"], "unverified");
        let tried = admin.post(&format!("{}/verify", path(&provider))).send().await.ok(200).clone();
        assert_eq!(tried["outcome"], "invalid_credentials");
        let half = admin.put(&path(&provider)).json(json!({"credential": {"access_key_id": "x"}})).send().await;
        assert_eq!(half.field_errors(), [("/credential/secret_access_key".to_owned(), "required".to_owned())]);
        let twice = admin.put(&format!("{PROVIDERS}?id=prv_01k9z7w3v5e8g9m2n4p6r8t0x1")).json(change).send().await;
        assert_eq!(twice.problem(400), "id_mismatch");
        assert_eq!(admin.put(PROVIDERS).json(json!({"name": "x"})).send().await.problem(422), "validation_failed");
        create(&admin, simulated("Second", json!({}))).await;
        let taken = admin.put(&path(&provider)).json(json!({"name": "second"})).send().await;
        assert_eq!(taken.problem(409), "already_exists");
        let stranger = app.tenant("globex").await.key(&["*"]).await;
        assert_eq!(stranger.get(&path(&provider)).send().await.problem(404), "not_found");
        assert_eq!(stranger.put(&path(&provider)).json(json!({"name": "x"})).send().await.problem(404), "not_found");
        assert_eq!(stranger.delete(&path(&provider)).send().await.problem(404), "not_found");
    })
    .await;
}

async fn order(admin: &Actor, provider: &Value) -> Value {
    let order =
        json!({"provider_id": provider["id"], "name": "web", "region": "sim-east", "size": "sim.small", "image": "debian-13"});
    admin.post("/api/cloud/vms").json(order).send().await.ok(202).clone()
}

async fn ended(app: &TestApp, admin: &Actor, order: &Value) -> Value {
    super::cloud_vms::ended(app, admin, order).await
}

#[tokio::test]
async fn deleting_a_provider_keeps_its_vms_in_the_cloud() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let provider = create(&admin, simulated("Sim", json!({}))).await;
        let taken = order(&admin, &provider).await;
        assert_eq!(admin.delete(&path(&provider)).send().await.problem(409), "in_use");
        assert_eq!(ended(app, &admin, &taken).await["status"], "succeeded");
        let deleted = admin.delete(PROVIDERS).json(json!({"id": provider["id"]})).send().await;
        assert_eq!(deleted.status, 204, "{}", deleted.text);
        assert_eq!(admin.get(&path(&provider)).send().await.problem(404), "not_found");
        assert_eq!(admin.get("/api/cloud/vms?include_total=true").send().await.ok(200)["page"]["total"], 0);
        let vm = format!("/api/cloud/vms/{}", taken["vms"][0]["id"].as_str().unwrap());
        assert_eq!(admin.get(&vm).send().await.problem(404), "not_found");
        let names = events(&admin).await;
        assert_eq!(names.last().map(String::as_str), Some("cloud.provider.deleted"));
        assert!(!names.iter().any(|name| name == "vm.removed"), "nothing happens to the VMs");
        create(&admin, simulated("Sim", json!({}))).await;
    })
    .await;
}
