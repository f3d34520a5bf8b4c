//! Keys of a release that did not check owners: a key that its owner covers keeps working, any other is paused after a grace
//! period. The test converts the keys to their older stored form and starts the server with them.

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use tenantd_base::{
    clock::Timestamp,
    id::{ApiKeyId, OrganizationId, TenantId, UserId},
};
use tenantd_store::{
    Counts, KeyRange, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields},
    events::Actor as Author,
};

use crate::harness::{Actor, PASSWORD, Setup, TestApp};

const KEYS: &str = "/api/admin/api-keys";
const DAY: Duration = Duration::from_hours(24);
/// What happens to the owners: nothing, they lose their role, or they are removed.
const OWNERS: [&str; 3] = ["strong", "weak", "gone"];
/// Created by the key of the removed owner.
const SECOND: &str = "second";

/// A key in stored version 2.
#[derive(Serialize, Deserialize)]
struct OldKey {
    name: String,
    description: Option<String>,
    prefix: String,
    last_four: String,
    digest: [u8; 32],
    previous: Option<([u8; 32], Timestamp)>,
    scopes: Vec<String>,
    allowed_ips: Vec<IpNet>,
    enabled: bool,
    created_at: Timestamp,
    created_by: Author,
    updated_at: Timestamp,
    expires_at: Timestamp,
    last_used_at: Option<Timestamp>,
    last_used_ip: Option<IpAddr>,
    use_count: u64,
    rotated_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    expired_at: Option<Timestamp>,
    expiry_announced: bool,
    due_at: Timestamp,
    version: u64,
    organization_ids: Vec<OrganizationId>,
}

impl Record for OldKey {
    const VERSION: u8 = 2;

    /// The replaced record does not matter.
    fn upgrade(_: u8, fields: &[u8]) -> Result<Self, String> {
        decode_fields::<NewKey>(fields).map(|new| new.old)
    }
}

#[derive(Serialize, Deserialize)]
struct NewKey {
    old: OldKey,
    owner: Option<Author>,
    paused: Option<(u32, Timestamp)>,
    generation: u32,
    /// 0 is a checked key.
    origin: u32,
    /// Digests of replaced secrets.
    retired: Vec<[u8; 32]>,
    person: Option<UserId>,
    /// Who has the current secret and the one before.
    holders: [Option<Author>; 2],
}

impl Record for NewKey {
    const VERSION: u8 = 7;
}

static OLD_KEYS: Table<(TenantId, ApiKeyId), OldKey> = Table::new(catalog::API_KEYS, &[]).counting(Counts::Records);
static NEW_KEYS: Table<(TenantId, ApiKeyId), NewKey> = Table::new(catalog::API_KEYS, &[]).counting(Counts::Records);

/// Stores all keys in the form of the older release, which paused none.
fn age(tx: &mut WriteTx) -> Result<(), StoreError> {
    for (id, NewKey { old, owner, paused, origin, .. }) in NEW_KEYS.list(tx, &KeyRange::ALL, usize::MAX)? {
        assert!(owner.is_none() && origin == 0, "{}", old.name);
        OLD_KEYS.put(tx, &id, &OldKey { enabled: old.enabled || paused.is_some(), ..old })?;
    }
    Ok(())
}

struct Bench {
    app: TestApp,
    setup: Setup,
    admin: Actor,
    /// The keys of the owners, in the order of [`OWNERS`], and the second key.
    keys: Vec<(&'static str, Actor)>,
}

impl Bench {
    async fn start(legacy_days: u32) -> Self {
        let setup = Setup::default().with("rate_limits.enabled", false).with("upgrade.legacy_days", legacy_days);
        let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, Timestamp::from_millis(1_767_225_600_000)).await;
        let tenant = app.tenant("acme").await;
        let admin = tenant.key(&["*"]).await;
        let scopes = json!(["tickets:read", "api_keys:*"]);
        let (mut keys, mut people) = (Vec::new(), Vec::new());
        let path = format!("/internal/admin/tenants/{}/users", tenant.id);
        for owner in OWNERS {
            let email = format!("{owner}@acme.example");
            let body = json!({"email": email, "name": owner, "role": "admin", "password": PASSWORD});
            people.push(app.local().post(&path).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned());
            let person = app.sign_in(&email).await;
            keys.push((owner, make(&app, &person, owner, &scopes).await));
        }
        keys.push((SECOND, make(&app, &keys[2].1, SECOND, &scopes).await));
        let users = "/api/admin/users";
        admin.put(&format!("{users}/{}", people[1])).json(json!({"role": "viewer"})).send().await.ok(200);
        assert_eq!(admin.delete(&format!("{users}/{}", people[2])).send().await.status, 204);
        app.running().app.store.write(age).await.unwrap();
        Self { app, setup, admin, keys }.restarted().await
    }

    async fn restarted(self) -> Self {
        let Self { app, setup, admin, keys } = self;
        let (directory, now) = app.stop().await;
        let app = TestApp::start(directory, &setup, now).await;
        let admin = admin.moved(app.base_url());
        let keys = keys.into_iter().map(|(name, key)| (name, key.moved(app.base_url()))).collect();
        Self { app, setup, admin, keys }
    }

    /// The status for each of the keys, in order.
    async fn answers(&self) -> Vec<u16> {
        let mut answers = Vec::new();
        for (_, key) in &self.keys {
            answers.push(key.get("/api/psa/tickets").send().await.status);
        }
        answers
    }

    async fn record(&self, name: &str) -> Value {
        let page = self.admin.get(&format!("{KEYS}?limit=200")).send().await.ok(200).clone();
        page["data"].as_array().unwrap().iter().find(|key| key["name"] == name).unwrap().clone()
    }

    async fn until_paused(&self, names: &[&str]) {
        let asking = async {
            for name in names {
                while self.record(name).await["paused"].is_null() {}
            }
        };
        tokio::time::timeout(Duration::from_mins(2), asking).await.expect("the keys are paused");
    }
}

async fn make(app: &TestApp, maker: &Actor, name: &str, scopes: &Value) -> Actor {
    let body = json!({"name": name, "scopes": scopes, "expires_days": 60});
    let made = maker.post(KEYS).json(body).send().await.ok(201).clone();
    app.anonymous().bearer(made["key"].as_str().unwrap())
}

#[tokio::test]
async fn keys_without_an_owner_work_for_30_days() {
    let bench = Bench::start(30).await;
    let end = (bench.app.now() + 30 * DAY).to_string();
    assert_eq!(bench.answers().await, [200; 4]);
    for (name, expected) in [("strong", Value::Null), ("weak", json!(end)), ("gone", json!(end)), (SECOND, Value::Null)] {
        assert_eq!(bench.record(name).await["legacy_until"], expected, "{name}");
    }

    // A restart does not restart the grace period.
    bench.app.advance(29 * DAY);
    let bench = bench.restarted().await;
    assert_eq!(bench.answers().await, [200; 4]);
    assert_eq!(bench.record("weak").await["legacy_until"], end);

    bench.app.advance(DAY);
    bench.until_paused(&["weak", "gone", SECOND]).await;
    assert_eq!(bench.answers().await, [200, 401, 401, 401]);
    let weak = bench.record("weak").await;
    assert_eq!(
        (&weak["paused"]["reason"], &weak["status"], &weak["legacy_until"]),
        (&json!("legacy"), &json!("disabled"), &Value::Null)
    );
    let feed = bench.admin.get("/api/events?types=api_key.paused&limit=100").send().await.ok(200).clone();
    let reported = feed["data"].as_array().unwrap().iter().filter(|event| event["data"]["api_key"]["paused"]["reason"] == "legacy");
    assert_eq!(reported.count(), 3);

    // A caller that covers the key takes it over.
    let path = format!("{KEYS}/{}/take-over", weak["id"].as_str().unwrap());
    let lesser = make(&bench.app, &bench.admin, "lesser", &json!(["api_keys:write"])).await;
    assert_eq!(lesser.post(&path).send().await.status, 403);
    bench.admin.post(&path).send().await.ok(200);
    let bench = bench.restarted().await;
    bench.app.advance(DAY);
    assert_eq!(bench.answers().await, [200, 200, 401, 401]);
    drop(bench.app.stop().await);
}

#[tokio::test]
async fn a_key_taken_over_in_time_is_never_paused() {
    let bench = Bench::start(30).await;
    let path = format!("{KEYS}/{}/take-over", bench.record("weak").await["id"].as_str().unwrap());
    assert!(bench.admin.post(&path).send().await.ok(200)["legacy_until"].is_null());
    bench.app.advance(31 * DAY);
    bench.until_paused(&["gone", SECOND]).await;
    assert_eq!(bench.answers().await, [200, 200, 401, 401]);
    drop(bench.app.stop().await);
}

#[tokio::test]
async fn the_operator_can_stop_keys_without_an_owner() {
    let bench = Bench::start(0).await;
    bench.until_paused(&["weak", "gone", SECOND]).await;
    assert_eq!(bench.answers().await, [200, 401, 401, 401]);
    drop(bench.app.stop().await);
}
