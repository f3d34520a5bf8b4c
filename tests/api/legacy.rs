//! Records of a release that did not check owners, loaded by this release: a record whose owner has the rights keeps working,
//! others stop after a grace period. The test converts each record to its older stored form and starts the server with it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use tenantd_base::{
    clock::Timestamp,
    id::{TenantId, WebhookId, WorkflowId},
    secrets::Sealed,
};
use tenantd_store::{
    Counts, KeyRange, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields},
    events::Actor as Author,
};

use crate::{
    harness::{Actor, Receiver, Script, Setup, TestApp, WEBHOOKS},
    workflows::PATH,
};

const KEYS: &str = "/api/admin/api-keys";
const HELD: [&str; 5] = ["workflows:*", "webhooks:*", "events:read", "tickets:*", "api_keys:read"];
const OWNERS: [&str; 3] = ["strong", "weak", "gone"];
/// An endpoint of an owner with all rights, created by this release.
const CONTROL: &str = "control";
const DAY: Duration = Duration::from_hours(24);

/// A workflow in stored version 1.
#[derive(Serialize, Deserialize)]
struct OldWorkflow {
    key: String,
    name: String,
    enabled: bool,
    archived_at: Option<Timestamp>,
    version: u64,
    events: Vec<String>,
    armed_seq: u64,
    scheduled_until: Timestamp,
    next_fire_at: Option<Timestamp>,
    created_at: Timestamp,
    created_by: Author,
    updated_at: Timestamp,
}

impl Record for OldWorkflow {
    const VERSION: u8 = 1;

    /// The replaced record does not matter.
    fn upgrade(_: u8, fields: &[u8]) -> Result<Self, String> {
        decode_fields::<NewWorkflow>(fields).map(|new| new.old)
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Origin {
    Checked,
    Unchecked,
    Legacy { since: Timestamp, version: u64 },
}

#[derive(Serialize, Deserialize)]
pub struct NewWorkflow {
    old: OldWorkflow,
    origin: Origin,
}

impl Record for NewWorkflow {
    const VERSION: u8 = 2;
}

static OLD_WORKFLOWS: Table<(TenantId, WorkflowId), OldWorkflow> = Table::new(catalog::WORKFLOWS, &[]).counting(Counts::Records);
pub static NEW_WORKFLOWS: Table<(TenantId, WorkflowId), NewWorkflow> =
    Table::new(catalog::WORKFLOWS, &[]).counting(Counts::Records);

/// An endpoint in stored version 1. Variants without fields are their numbers.
#[derive(Serialize, Deserialize)]
struct OldEndpoint {
    name: String,
    url: String,
    description: Option<String>,
    events: Vec<String>,
    filter: [Vec<String>; 3],
    header_names: Vec<String>,
    headers: Option<Sealed>,
    status: u32,
    ordering: u32,
    timeout_seconds: u32,
    rate_limit_per_second: Option<u32>,
    retry: u32,
    ca_certificate_pem: Option<String>,
    secret: Sealed,
    secret_hint: String,
    previous: Option<(Sealed, Timestamp)>,
    secret_rotated_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    after_seq: u64,
    version: u64,
}

impl Record for OldEndpoint {
    const VERSION: u8 = 1;

    fn upgrade(_: u8, fields: &[u8]) -> Result<Self, String> {
        decode_fields::<NewEndpoint>(fields).map(|new| new.old)
    }
}

#[derive(Serialize, Deserialize)]
struct NewEndpoint {
    old: OldEndpoint,
    owner: Option<Author>,
    legacy_since: Option<Timestamp>,
    owner_scopes: Option<Vec<String>>,
}

impl Record for NewEndpoint {
    const VERSION: u8 = 4;
}

/// An endpoint in stored version 3.
#[derive(Serialize, Deserialize)]
struct UnboundedEndpoint {
    old: OldEndpoint,
    owner: Option<Author>,
    legacy_since: Option<Timestamp>,
}

impl Record for UnboundedEndpoint {
    const VERSION: u8 = 3;

    fn upgrade(_: u8, fields: &[u8]) -> Result<Self, String> {
        let NewEndpoint { old, owner, legacy_since, .. } = decode_fields(fields)?;
        Ok(Self { old, owner, legacy_since })
    }
}

static OLD_ENDPOINTS: Table<(TenantId, WebhookId), OldEndpoint> = Table::new(catalog::WEBHOOKS, &[]).counting(Counts::Records);
static UNBOUNDED_ENDPOINTS: Table<(TenantId, WebhookId), UnboundedEndpoint> =
    Table::new(catalog::WEBHOOKS, &[]).counting(Counts::Records);
static NEW_ENDPOINTS: Table<(TenantId, WebhookId), NewEndpoint> = Table::new(catalog::WEBHOOKS, &[]).counting(Counts::Records);

/// Stores all workflows and endpoints in the form of the older release. Returns the number of each.
fn age(tx: &mut WriteTx) -> Result<(usize, usize), StoreError> {
    let workflows = NEW_WORKFLOWS.list(tx, &KeyRange::ALL, usize::MAX)?;
    for (key, workflow) in &workflows {
        assert_eq!(workflow.origin, Origin::Checked, "a workflow of this release is checked when it is saved");
        OLD_WORKFLOWS.put(tx, key, &workflow.old)?;
    }
    let endpoints = NEW_ENDPOINTS.list(tx, &KeyRange::ALL, usize::MAX)?;
    for (key, endpoint) in &endpoints {
        assert!(endpoint.owner.is_some() && endpoint.legacy_since.is_none());
        OLD_ENDPOINTS.put(tx, key, &endpoint.old)?;
    }
    Ok((workflows.len(), endpoints.len()))
}

/// The number of workflows by origin: checked, and legacy.
fn origins(app: &TestApp) -> (usize, usize) {
    let store = &app.running().app.store;
    let found = store.read(|tx| NEW_WORKFLOWS.list(tx, &KeyRange::ALL, usize::MAX)).unwrap();
    let checked = found.iter().filter(|(_, workflow)| workflow.origin == Origin::Checked).count();
    (checked, found.iter().filter(|(_, workflow)| matches!(workflow.origin, Origin::Legacy { .. })).count())
}

fn setup() -> Setup {
    let setup = Setup::default().with("rate_limits.enabled", false).with("events.retention_days", 90);
    setup.with("egress.allowed_addresses", "[\"127.0.0.1\"]")
}

struct Bench {
    app: TestApp,
    full: Actor,
    /// In the order of [`OWNERS`].
    owners: Vec<Actor>,
    endpoints: Vec<String>,
    receiver: Receiver,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    /// Creates the records, removes rights from their owners, and starts this release with the older form of the records.
    async fn start(legacy_days: u32) -> Self {
        let setup = setup().with("upgrade.legacy_days", legacy_days);
        let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, Timestamp::from_millis(1_767_225_600_000)).await;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = seen.clone();
        let receiver = Receiver::start(move |_, request| {
            written.lock().unwrap().push(request.header("x-mark").to_owned());
            Script::status(200)
        })
        .await;
        let tenant = app.tenant("acme").await;
        let (full, organization) = (tenant.key(&["*"]).await, tenant.organization("Ours").await);
        let (mut owners, mut paths, mut endpoints) = (Vec::new(), Vec::new(), Vec::new());
        for owner in OWNERS {
            let key = full.post(KEYS).json(json!({"name": owner, "scopes": HELD, "expires_days": 80})).send().await.ok(201).clone();
            owners.push(app.anonymous().bearer(key["key"].as_str().unwrap()));
            paths.push(format!("{KEYS}/{}", key["id"].as_str().unwrap()));
        }
        for (owner, actor) in OWNERS.iter().zip(&owners) {
            let triggers = [
                ("event", json!({"type": "event", "event": "api_key.created"})),
                ("schedule", json!({"type": "schedule", "cron": "0 12 * * *", "timezone": "UTC", "catch_up": "run_once"})),
            ];
            for (start, trigger) in triggers {
                let name = format!("{owner}-{start}");
                let step =
                    json!({"id": "act", "type": "ticket.create", "with": {"subject": name, "organization_id": organization}});
                let definition =
                    json!({"key": name, "name": name, "triggers": [trigger], "steps": [step], "timeout_seconds": 30 * 86_400});
                actor.post(PATH).json(json!({"action": "create", "definition": definition})).send().await.ok(201);
            }
            let body = json!({"name": owner, "url": receiver.url(), "events": ["api_key.created"], "headers": {"x-mark": owner}});
            let endpoint = actor.post(WEBHOOKS).json(body).send().await.ok(201).clone();
            endpoints.push(format!("{WEBHOOKS}/{}", endpoint["id"].as_str().unwrap()));
        }
        full.put(&paths[1]).json(json!({"scopes": ["workflows:*", "webhooks:*", "events:read"]})).send().await.ok(200);
        assert!([200, 204].contains(&full.delete(&paths[2]).send().await.status));
        let aged = app.running().app.store.write(age).await.unwrap();
        assert_eq!(aged, (6, 3));
        let (directory, now) = app.stop().await;
        let app = TestApp::start(directory, &setup, now).await;
        let full = full.moved(app.base_url());
        let body = json!({"name": CONTROL, "url": receiver.url(), "events": ["api_key.created"], "headers": {"x-mark": CONTROL}});
        full.post(WEBHOOKS).json(body).send().await.ok(201);
        let owners = owners.into_iter().map(|owner| owner.moved(app.base_url())).collect();
        Self { app, full, owners, endpoints, receiver, seen }
    }

    /// Triggers the event for workflows and endpoints, and lets the schedule become due.
    async fn happens(&self, name: &str) {
        // Runs of earlier events can have the same time and must still be first.
        self.app.advance(Duration::from_secs(1));
        self.full.post(KEYS).json(json!({"name": name, "scopes": ["tickets:read"], "expires_days": 5})).send().await.ok(201);
        self.app.advance(DAY);
    }

    /// The states of the runs of a workflow, the oldest first, once this number exists and each has ended or is waiting.
    async fn runs(&self, key: &str, count: usize) -> Vec<String> {
        let asking = async {
            loop {
                let page = self.full.get(&format!("{PATH}?view=runs&limit=200")).send().await;
                let all = page.ok(200)["data"].as_array().unwrap().clone();
                let runs = all.into_iter().rev().filter(|run| run["workflow"]["key"] == key);
                let state = |run: Value| {
                    let waits = run["waiting_on"].as_str().map(str::to_owned);
                    waits.or_else(|| run["status"].as_str().filter(|status| *status == "succeeded").map(str::to_owned))
                };
                let states: Vec<Option<String>> = runs.map(state).collect();
                if states.len() == count && states.iter().all(Option::is_some) {
                    return states.into_iter().flatten().collect();
                }
            }
        };
        let patience = tokio::time::timeout(Duration::from_mins(2), asking).await;
        patience.unwrap_or_else(|_| panic!("the runs of {key} did not become {count} that stand still"))
    }

    /// The number of deliveries to each endpoint, once the endpoint with an owner has received this number of events.
    async fn deliveries(&self, events: usize, expected: [usize; 3]) -> [usize; 3] {
        let asking = async {
            // Events are sent in order, to all endpoints at the same time.
            while self.sent(CONTROL) < events || OWNERS.iter().zip(expected).any(|(owner, times)| self.sent(owner) < times) {
                self.full.get("/api/auth/session").send().await.ok(200);
            }
        };
        let patience = tokio::time::timeout(Duration::from_mins(2), asking).await;
        assert!(patience.is_ok(), "{:?}", self.seen.lock().unwrap());
        OWNERS.map(|owner| self.sent(owner))
    }

    fn sent(&self, owner: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|mark| *mark == owner).count()
    }
}

#[tokio::test]
async fn records_without_an_owner_work_for_30_days() {
    let bench = Bench::start(30).await;
    assert_eq!(origins(&bench.app), (2, 4), "two have an owner who covers them");
    bench.happens("first").await;
    for owner in OWNERS {
        for start in ["event", "schedule"] {
            assert_eq!(bench.runs(&format!("{owner}-{start}"), 1).await, ["succeeded"], "{owner}-{start}");
        }
    }
    assert_eq!(bench.deliveries(1, [1, 1, 1]).await, [1, 1, 1]);

    // A change needs the rights of the record. The owner of the other kind does not change.
    for (owner, editor, expected) in [("weak", 1, 403), ("gone", 1, 403), ("strong", 1, 403), ("strong", 0, 200)] {
        let list = bench.full.get(&format!("{PATH}?limit=50")).send().await.ok(200)["data"].as_array().unwrap().clone();
        let found = list.iter().find(|workflow| workflow["key"] == format!("{owner}-event")).unwrap();
        let path = format!("{PATH}?id={}", found["id"].as_str().unwrap());
        let reply = bench.owners[editor].patch(&path).json(json!({"name": "Renamed"})).send().await;
        assert_eq!(reply.status, expected, "{owner}: {}", reply.text);
    }

    // A restart does not restart the grace period.
    let Bench { app, full, owners, endpoints, receiver, seen } = bench;
    app.advance(28 * DAY);
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup(), now).await;
    let full = full.moved(app.base_url());
    let owners: Vec<Actor> = owners.into_iter().map(|owner| owner.moved(app.base_url())).collect();
    let bench = Bench { app, full, owners, endpoints, receiver, seen };
    let runs_of_schedule = bench.runs("strong-schedule", 2).await;
    assert_eq!(runs_of_schedule, ["succeeded", "succeeded"]);
    for owner in ["weak", "gone"] {
        assert_eq!(bench.runs(&format!("{owner}-schedule"), 2).await, ["succeeded", "succeeded"], "day 29 is within the grace");
    }
    bench.app.advance(DAY + Duration::from_hours(1));
    for owner in OWNERS {
        bench.runs(&format!("{owner}-schedule"), 3).await;
    }
    bench.happens("second").await;
    for owner in OWNERS {
        let expected = if owner == "strong" { "succeeded" } else { "authority" };
        assert_eq!(bench.runs(&format!("{owner}-event"), 2).await, ["succeeded", expected], "{owner}");
        assert_eq!(bench.runs(&format!("{owner}-schedule"), 4).await[3], expected, "{owner}");
    }
    assert_eq!(bench.deliveries(2, [1, 1, 1]).await, [1, 1, 1], "nobody had noted who created an endpoint, so none has an owner");

    // A caller that covers them takes them over.
    for owner in ["weak", "gone"] {
        let body = json!({"action": "take_over", "workflow_key": format!("{owner}-event")});
        let refused = bench.owners[1].post(PATH).json(body.clone()).send().await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        bench.full.post(PATH).json(body).send().await.ok(200);
    }
    for (place, editor) in [(0, &bench.owners[0]), (1, &bench.owners[1]), (2, &bench.full)] {
        let url = format!("{}?again", bench.receiver.url());
        editor.put(&bench.endpoints[place]).json(json!({"url": url})).send().await.ok(200);
    }
    bench.happens("third").await;
    for owner in ["weak", "gone"] {
        assert_eq!(bench.runs(&format!("{owner}-event"), 3).await[2], "succeeded", "{owner}");
    }
    assert_eq!(bench.deliveries(3, [2, 1, 2]).await, [2, 1, 2], "an endpoint gets what its new owner may read");
    drop(bench.app.stop().await);
}

#[tokio::test]
async fn the_operator_can_stop_records_without_an_owner() {
    let bench = Bench::start(0).await;
    bench.happens("first").await;
    for owner in OWNERS {
        let expected = if owner == "strong" { "succeeded" } else { "authority" };
        for start in ["event", "schedule"] {
            assert_eq!(bench.runs(&format!("{owner}-{start}"), 1).await, [expected], "{owner}-{start}");
        }
    }
    assert_eq!(bench.deliveries(1, [0, 0, 0]).await, [0, 0, 0]);
    drop(bench.app.stop().await);
}

#[tokio::test]
async fn endpoints_without_stored_scopes_get_those_of_their_owner() {
    let setup = setup();
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, Timestamp::from_millis(1_767_225_600_000)).await;
    let tenant = app.tenant("acme").await;
    let body = json!({"name": "hook", "url": "http://127.0.0.1:1/", "events": ["*"]});
    tenant.key(&["webhooks:*", "tickets:read"]).await.post(WEBHOOKS).json(body).send().await.ok(201);
    let scopes = |app: &TestApp| {
        let found = app.running().app.store.read(|tx| NEW_ENDPOINTS.list(tx, &KeyRange::ALL, usize::MAX)).unwrap();
        found.into_iter().map(|(_, endpoint)| endpoint.owner_scopes).collect::<Vec<_>>()
    };
    let stored = scopes(&app);
    assert_eq!(stored, [Some(vec!["tickets:read".to_owned(), "webhooks:read".to_owned(), "webhooks:write".to_owned()])]);
    let forget = |tx: &mut WriteTx| {
        for (key, NewEndpoint { old, owner, legacy_since, .. }) in NEW_ENDPOINTS.list(tx, &KeyRange::ALL, usize::MAX)? {
            UNBOUNDED_ENDPOINTS.put(tx, &key, &UnboundedEndpoint { old, owner, legacy_since })?;
        }
        Ok::<_, StoreError>(())
    };
    app.running().app.store.write(forget).await.unwrap();
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now).await;
    assert_eq!(scopes(&app), stored);
    app.stop().await;
}
