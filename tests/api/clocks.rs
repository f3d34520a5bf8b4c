//! Clocks of evaluation tenants: advancing one triggers everything due in its tenant and nothing elsewhere. The offset survives a
//! restart, is refused for other tenants, and does not affect security limits.

use serde_json::{Value, json};

use tenantd_base::clock::Timestamp;

use crate::{
    backup::{self, REPORT, device, job, organization, until},
    harness::{Actor, Endpoint, PASSWORD, Receiver, Script, Setup, Tenant, TestApp, with_app},
    inventory::ingest,
    workflows::{PATH, set},
};

const TENANTS: &str = "/api/platform/tenants";
const TICKETS: &str = "/api/psa/tickets";
const DAY: u64 = 86_400;

async fn advance(app: &TestApp, tenant: &str, seconds: u64) -> Value {
    let path = format!("{TENANTS}/{tenant}/clock");
    app.local().post(&path).json(json!({"advance_seconds": seconds})).send().await.ok(200).clone()
}

/// A tenant with five things that wait for time to pass.
struct Scene {
    key: Actor,
    /// A key that expires after a day.
    short: Actor,
    ticket: String,
    waiting: String,
}

impl Scene {
    async fn new(app: &TestApp, tenant: &Tenant<'_>) -> Self {
        let (key, _) = tenant.new_key("All", &["*"]).await;
        let short = key.post("/api/admin/api-keys").json(json!({"name": "Short", "scopes": ["tickets:read"], "expires_days": 1}));
        let short = app.anonymous().bearer(short.send().await.ok(201)["key"].as_str().unwrap());
        let hourly = json!({"kind": "interval", "every_minutes": 60, "timezone": "UTC"});
        let objectives = json!({"rpo_minutes": {"server": 240, "workstation": 240}});
        backup::set(&key, "tenant", json!({"schedule": hourly, "objectives": objectives})).await;
        let made = backup::ids(&ingest(&key, &[organization("acme"), device("srv", "acme", "server")]).await);
        ingest(&key, &[job("1", "srv", "success", "2025-12-31T23:59:00Z")]).await;
        until(&key, REPORT, |report| report["summary"]["rpo"]["ok"] == 1).await;
        let body = json!({"subject": "Down", "organization_id": made[0], "priority": "critical"});
        let ticket = key.post(TICKETS).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        let create = async |definition: Value| {
            key.post(PATH).json(json!({"action": "create", "definition": definition})).send().await.ok(201).clone()
        };
        let daily = json!([{"type": "schedule", "cron": "0 6 * * *", "timezone": "UTC", "catch_up": "run_once"}]);
        create(json!({"key": "daily", "name": "D", "triggers": daily, "steps": [set("a", json!(1))]})).await;
        let wait = json!([{"id": "w", "type": "wait.duration", "with": {"seconds": 2 * DAY}}]);
        create(json!({"key": "wait", "name": "W", "timeout_seconds": 5 * DAY, "steps": wait})).await;
        let run = key.post(PATH).json(json!({"workflow_key": "wait"})).send().await.ok(202)["id"].as_str().unwrap().to_owned();
        let waiting = format!("{PATH}?run_id={run}");
        until(&key, &waiting, |run| run["status"] == "waiting").await;
        Self { key, short, ticket: format!("{TICKETS}/{ticket}"), waiting }
    }

    async fn everything_has_come(&self) {
        until(&self.key, &self.ticket, |ticket| ticket["sla"]["state"] == "breached").await;
        until(&self.key, REPORT, |report| report["summary"]["rpo"]["breached"] == 1).await;
        until(&self.key, &self.waiting, |run| run["status"] == "succeeded").await;
        let scheduled = |runs: &Value| runs["data"].as_array().unwrap().iter().any(|run| run["workflow"]["key"] == "daily");
        until(&self.key, &format!("{PATH}?view=runs"), scheduled).await;
        assert_eq!(self.short.get(TICKETS).send().await.problem(401), "key_expired");
        let reported = |feed: &Value| feed["data"].as_array().unwrap().iter().any(|event| event["type"] == "api_key.expired");
        until(&self.key, "/api/events?types=api_key.*,backup.*&limit=200", reported).await;
    }

    async fn nothing_has_come(&self) {
        assert_eq!(self.key.get(&self.ticket).send().await.ok(200)["sla"]["state"], "on_track");
        assert_eq!(self.key.get(REPORT).send().await.ok(200)["summary"]["rpo"]["ok"], 1);
        assert_eq!(self.key.get(&self.waiting).send().await.ok(200)["status"], "waiting");
        assert_eq!(self.key.get(&format!("{PATH}?view=runs")).send().await.ok(200)["data"].as_array().unwrap().len(), 1);
        self.short.get(TICKETS).send().await.ok(200);
        let kinds = "api_key.expired,api_key.expiring,ticket.sla_breached,backup.job.missed,backup.rpo_breached";
        let reported = self.key.get(&format!("/api/events?types={kinds}")).send().await.ok(200)["data"].clone();
        // A key that expires within a day is announced immediately.
        assert!(reported.as_array().unwrap().iter().all(|event| event["type"] == "api_key.expiring"), "{reported}");
    }
}

/// A receiver that refuses the first request, and an endpoint whose delivery waits for its next attempt.
async fn refused_once(tenant: &Tenant<'_>) -> (Receiver, Endpoint) {
    let receiver = Receiver::start(|number, _| Script::status(if number == 0 { 500 } else { 200 })).await;
    let endpoint = Endpoint::new(tenant, &receiver.url(), json!({})).await;
    tenant.new_key("told", &["*"]).await;
    receiver.next().await;
    endpoint.until(|found| found.iter().any(|delivery| delivery["status"] == "retrying")).await;
    (receiver, endpoint)
}

#[tokio::test]
async fn advancing_one_clock_leaves_other_tenants_alone() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let start = Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, start).await;
    let (moved, other, standard) =
        (app.evaluation_tenant("moved").await, app.evaluation_tenant("other").await, app.tenant("standard").await);
    let admin = moved.admin().await;
    let scene = Scene::new(&app, &moved).await;
    let others = [Scene::new(&app, &other).await, Scene::new(&app, &standard).await];
    let ((receiver, endpoint), (quiet, _)) = (refused_once(&moved).await, refused_once(&other).await);
    scene.nothing_has_come().await;
    let shown = advance(&app, &moved.id, 3 * DAY).await;
    assert_eq!(shown["clock"], json!({"now": "2026-01-04T00:00:00.000Z", "ahead_seconds": 3 * DAY}));
    scene.everything_has_come().await;
    let again = receiver.next().await;
    assert_eq!(again.header("webhook-timestamp"), start.as_seconds().to_string(), "a receiver has the clock on its own wall");
    let delivered = endpoint.until(|found| found.iter().any(|delivery| delivery["status"] == "delivered")).await;
    assert_eq!(endpoint.attempts(&delivered[0]).await.len(), 2);
    for scene in &others {
        scene.nothing_has_come().await;
    }
    assert!(quiet.is_quiet().await);
    admin.get("/api/auth/session").send().await.ok(200);
    let id = moved.id.clone();
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now + std::time::Duration::from_mins(1)).await;
    let shown = app.local().get(&format!("{TENANTS}/{id}")).send().await.ok(200).clone();
    assert_eq!(shown["clock"], json!({"now": "2026-01-04T00:01:00.000Z", "ahead_seconds": 3 * DAY}));
    let key = scene.key.clone().moved(app.base_url());
    let body = json!({"subject": "Later", "organization_id": key.get(&scene.ticket).send().await.ok(200)["organization"]["id"]});
    assert_eq!(key.post(TICKETS).json(body).send().await.ok(201)["created_at"], "2026-01-04T00:01:00.000Z");
    for scene in &others {
        let key = scene.key.clone().moved(app.base_url());
        assert_eq!(key.get(&scene.ticket).send().await.ok(200)["sla"]["state"], "on_track");
    }
    drop(app.stop().await);
}

#[tokio::test]
async fn only_the_operator_advances_evaluation_clocks() {
    with_app(async |app| {
        let operator = app.operator().await;
        let (acme, trial) = (app.tenant("acme").await, app.evaluation_tenant("trial").await);
        let ask = async |actor: &Actor, tenant: &str, body: Value| {
            actor.post(&format!("{TENANTS}/{tenant}/clock")).json(body).send().await
        };
        let refused = ask(&operator, &acme.id, json!({"advance_seconds": 60})).await;
        assert_eq!(refused.problem(409), "invalid_transition");
        assert!(refused.body["detail"].as_str().unwrap().contains("only an evaluation tenant"), "{}", refused.body);
        assert!(operator.get(&format!("{TENANTS}/{}", acme.id)).send().await.ok(200).get("clock").is_none());
        for wrong in
            [json!({"advance_seconds": 0}), json!({"advance_seconds": 367 * DAY}), json!({"advance_seconds": -1}), json!({})]
        {
            assert_eq!(ask(&operator, &trial.id, wrong.clone()).await.problem(422), "validation_failed", "{wrong}");
        }
        let nobody = "tnt_01k9z7w3v5e8g9m2n4p6r8t0x1";
        assert_eq!(ask(&operator, nobody, json!({"advance_seconds": 60})).await.problem(404), "not_found");
        let admin = trial.admin().await;
        assert_eq!(ask(&admin, &trial.id, json!({"advance_seconds": 60})).await.problem(403), "operator_required");
        for year in 1..=10_u64 {
            let shown = ask(&operator, &trial.id, json!({"advance_seconds": 366 * DAY})).await;
            assert_eq!(shown.ok(200)["clock"]["ahead_seconds"], year * 366 * DAY);
        }
        assert_eq!(ask(&operator, &trial.id, json!({"advance_seconds": 1})).await.problem(422), "limit_reached");
        let reported = operator.get("/api/events?types=tenant.clock_advanced").send().await.ok(200)["data"].clone();
        assert_eq!(reported.as_array().unwrap().len(), 10);
        assert_eq!((&reported[0]["resource"]["id"], &reported[0]["actor"]["kind"]), (&json!(trial.id), &json!("user")));
        assert_eq!(reported[0]["data"]["tenant"]["clock"]["ahead_seconds"], 366 * DAY);
        let audit = operator.get("/api/admin/audit?action=tenant.clock_advanced&include_total=true").send().await;
        assert_eq!(audit.ok(200)["page"]["total"], 10);
    })
    .await;
}

#[tokio::test]
async fn security_limits_ignore_the_tenant_clock() {
    with_app(async |app| {
        let trial = app.evaluation_tenant("trial").await;
        let (admin, (key, _)) = (trial.admin().await, trial.new_key("All", &["*"]).await);
        let once = json!({"name": "Once", "scopes": ["tickets:read"]});
        let create = async || key.post("/api/admin/api-keys").header("idempotency-key", "once").json(once.clone()).send().await;
        let first = create().await.ok(201)["id"].clone();
        let path = format!("{TENANTS}/{}/clock", trial.id);
        let step = async || {
            let step = app.local().post(&path).header("idempotency-key", "step").json(json!({"advance_seconds": 30 * DAY}));
            step.send().await.ok(200)["clock"]["ahead_seconds"].clone()
        };
        assert_eq!((step().await, step().await), (json!(30 * DAY), json!(30 * DAY)), "a repeated request advances once");
        let again = create().await;
        assert_eq!((again.header("idempotency-replayed"), &again.ok(201)["id"]), ("true", &first));
        admin.get("/api/auth/session").send().await.ok(200);
        let body = json!({"email": "new@trial.example", "name": "New", "role": "viewer"});
        let invited = admin.post("/api/admin/users").json(body).send().await.ok(201).clone();
        assert_eq!(invited["created_at"], "2026-01-31T00:00:00.000Z", "{invited}");
        assert_eq!(invited["password_token_expires_at"], "2026-02-03T00:00:00.000Z", "72 hours, as the tenant sees them");
        let user = format!("/api/admin/users/{}", invited["id"].as_str().unwrap());
        let set = json!({"token": invited["password_token"], "password": PASSWORD});
        app.anonymous().post("/api/auth/password").json(set).send().await.ok(204);
        app.sign_in("new@trial.example").await;
        let session = admin.get(&format!("{user}/sessions")).send().await.ok(200)["data"][0].clone();
        assert_eq!(session["created_at"], "2026-01-31T00:00:00.000Z", "{session}");
        app.local().post(&path).json(json!({"advance_seconds": DAY})).send().await.ok(200);
        let later = admin.get(&format!("{user}/sessions")).send().await.ok(200)["data"][0].clone();
        assert_eq!(later["created_at"], session["created_at"], "what has happened does not move");
        assert_eq!(admin.get(&user).send().await.ok(200)["last_login_at"], "2026-01-31T00:00:00.000Z");
        let reported = key.get("/api/events?types=user.*,auth.*&order=desc").send().await.ok(200)["data"].clone();
        let times: Vec<&Value> = reported.as_array().unwrap().iter().take(3).map(|event| &event["timestamp"]).collect();
        assert_eq!(times, [&json!("2026-01-31T00:00:00.000Z"); 3], "{reported}");
        let listed = key.get("/api/admin/api-keys?sort=created_at").send().await.ok(200)["data"].clone();
        assert_eq!(listed[0]["created_at"], "2026-01-01T00:00:00.000Z");
        let late = key.post("/api/admin/api-keys").json(json!({"name": "Late", "scopes": ["tickets:read"], "expires_days": 1}));
        let late = late.send().await.ok(201).clone();
        assert_eq!(
            (&late["created_at"], &late["expires_at"]),
            (&json!("2026-02-01T00:00:00.000Z"), &json!("2026-02-02T00:00:00.000Z"))
        );
    })
    .await;
}
