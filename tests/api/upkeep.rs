//! Maintenance of the installation: low disk space, verified snapshots, and the reports to operators.

use std::time::Duration;

use serde_json::{Value, json};

use tenantd_store::WriteRoom;

use crate::harness::{Actor, Endpoint, PASSWORD, Receiver, Setup, TestApp, with_app, with_setup};

const TICKETS: &str = "/api/psa/tickets";
const KEYS: &str = "/api/admin/api-keys";

/// Thresholds at which the disk of any machine is full.
fn full() -> Setup {
    limits().with("disk.full_percent", 100).with("disk.full_bytes", i64::MAX)
}

/// Thresholds at which the disk is low, but not full.
fn low() -> Setup {
    limits().with("disk.low_percent", 100).with("disk.low_bytes", i64::MAX)
}

fn limits() -> Setup {
    Setup::default().with("rate_limits.enabled", false)
}

/// The operator's events of these kinds, once this number exists.
async fn events_of(operator: &Actor, kinds: &str, count: usize) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    while found.len() < count {
        let after = found.last().map_or(0, |event| event["seq"].as_u64().unwrap());
        let path = format!("/api/events?types={kinds}&after={after}&wait_seconds=30");
        found.extend(operator.get(&path).send().await.ok(200)["data"].as_array().unwrap().clone());
    }
    found
}

async fn installation(app: &TestApp) -> Value {
    let status = app.local().get("/status/").header("accept", "application/json").send().await;
    status.ok(200)["installation"].clone()
}

#[tokio::test]
async fn a_full_disk_refuses_changes_only() {
    with_app(async |app| {
        let (acme, operator) = (app.tenant("acme").await, app.operator().await);
        let removed = format!("/api/platform/tenants/{}", app.tenant("gone").await.id);
        let admin = acme.admin().await;
        let ingest = acme.key(&["ingest:write"]).await;
        let ticket = json!({"subject": "Printer", "organization_id": acme.organization("Acme").await});
        let printer = admin.post(TICKETS).json(ticket.clone()).send().await.ok(201)["id"].clone();
        let key = admin.post(KEYS).json(json!({"name": "Old", "scopes": ["tickets:read"]})).send().await.ok(201)["id"].clone();

        app.reload(&full()).unwrap();
        let event = events_of(&operator, "disk.*", 1).await.remove(0);
        assert_eq!((&event["type"], &event["data"]["disk"]["state"]), (&json!("disk.full"), &json!("full")));
        assert!(event["data"]["disk"]["free_bytes"].as_u64().unwrap() > 0);

        let refused = admin.post(TICKETS).json(ticket.clone()).send().await;
        assert_eq!(refused.problem(503), "unavailable");
        assert_eq!((refused.header("retry-after"), &refused.body["reason"]), ("60", &json!("disk_full")));
        let patch = json!({"subject": "Other"});
        let path = format!("{TICKETS}/{}", printer.as_str().unwrap());
        assert_eq!(admin.patch(&path).json(patch).send().await.problem(503), "unavailable");
        let line = json!({"kind": "organization", "external_id": "o-1", "name": "One"}).to_string();
        let sent = ingest.post("/internal/ingest").text("application/x-ndjson", line.clone()).send().await;
        assert_eq!(sent.problem(503), "unavailable");
        let imported = format!("/internal/admin/tenants/{}/ingest", acme.id);
        assert_eq!(app.local().post(&imported).text("application/x-ndjson", line.clone()).send().await.problem(503), "unavailable");

        assert_eq!(admin.get(TICKETS).send().await.ok(200)["data"][0]["id"], printer);
        let export = admin.get(&format!("{TICKETS}?format=csv")).send().await;
        assert!(export.status == 200 && export.text.contains("Printer"), "{}", export.text);
        let audit = admin.get("/api/admin/audit?action=export.started").send().await;
        assert_eq!(audit.ok(200)["data"].as_array().unwrap().len(), 1, "{}", audit.body);
        // It waits for the readers of the log, which the export above keeps busy.
        let whole = app.local().post(&format!("/internal/admin/tenants/{}/export", acme.id)).json(json!({})).send().await;
        assert!(whole.status == 200 && whole.text.contains("Printer"), "{}", whole.text);
        assert!(admin.delete(&format!("{KEYS}/{}", key.as_str().unwrap())).send().await.status < 300);
        let login = json!({"email": "admin@acme.example", "password": PASSWORD});
        app.anonymous().post("/api/auth/login").json(login).send().await.ok(200);
        app.local().post("/internal/admin/check").send().await.ok(200);
        assert_eq!(app.local().post("/internal/admin/key-rotation").send().await.problem(503), "unavailable");
        assert!(operator.delete(&format!("{removed}?confirm=gone")).send().await.status < 300);
        while operator.get(&removed).send().await.status != 404 {
            tokio::task::yield_now().await;
        }

        assert_eq!(app.anonymous().get("/readyz").send().await.ok(200)["status"], "read_only");
        while app.status("storage").await.1 != "degraded" {
            tokio::task::yield_now().await;
        }
        assert_eq!(installation(app).await["disk_state"], "full");

        app.reload(&limits()).unwrap();
        assert_eq!(events_of(&operator, "disk.*", 2).await[1]["type"], "disk.recovered");
        admin.post(TICKETS).json(ticket).send().await.ok(201);
        assert_eq!(
            ingest.post("/internal/ingest").text("application/x-ndjson", line).send().await.lines(200)[0]["status"],
            "created"
        );
        assert_eq!(app.anonymous().get("/readyz").send().await.ok(200)["status"], "ready");
        while app.status("storage").await.1 != "operational" {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_exhausted_reserve_allows_reads_only() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let key = admin.post(KEYS).json(json!({"name": "Old", "scopes": ["tickets:read"]})).send().await.ok(201)["id"].clone();
        let path = format!("{KEYS}/{}", key.as_str().unwrap());
        while installation(app).await["disk_state"] != "ample" {
            tokio::task::yield_now().await;
        }
        app.running().app.store.volume().set_room(WriteRoom::Exhausted);
        let refused = admin.delete(&path).send().await;
        assert_eq!((refused.problem(503), &refused.body["reason"]), ("unavailable", &json!("disk_full")));
        assert!(refused.body["detail"].as_str().unwrap().contains("until the operator frees space"));
        assert_eq!(admin.get(&path).send().await.ok(200)["id"], key);
        let ready = app.anonymous().get("/readyz").send().await;
        assert_eq!(ready.ok(200)["status"], "read_only");
        assert!(ready.body["detail"].as_str().unwrap().contains("only reads"));
        app.running().app.store.volume().set_room(WriteRoom::Ample);
        assert!(admin.delete(&path).send().await.status < 300);
    })
    .await;
}

#[tokio::test]
async fn operators_are_warned_before_the_disk_is_full() {
    with_app(async |app| {
        let operator = app.operator().await;
        app.reload(&low()).unwrap();
        assert_eq!(events_of(&operator, "disk.*", 1).await[0]["type"], "disk.low");
        while app.status("storage").await.1 != "degraded" {
            tokio::task::yield_now().await;
        }
        app.tenant("still-created").await;
        let as_json = ("accept", "application/json");
        let shown = operator.get("/status/").header(as_json.0, as_json.1).send().await;
        assert_eq!(shown.ok(200)["installation"]["disk_state"], "low");
        let hidden = app.anonymous().get("/status/").header(as_json.0, as_json.1).send().await;
        assert_eq!(hidden.ok(200).get("installation"), None);
        let page = operator.get("/status/").header("accept", "text/html").send().await;
        assert!(page.text.contains("days until full"), "{}", page.text);
        app.reload(&limits()).unwrap();
        assert_eq!(events_of(&operator, "disk.*", 2).await[1]["type"], "disk.recovered");
        while app.status("storage").await.1 != "operational" {
            tokio::task::yield_now().await;
        }
        let metrics = app.anonymous().get("/metrics").send().await.text;
        for name in ["tenantd_disk_free_bytes", "tenantd_disk_read_only", "tenantd_disk_days_to_full"] {
            assert!(metrics.contains(name), "{name} is missing");
        }
    })
    .await;
}

#[tokio::test]
async fn background_work_waits_for_free_space() {
    with_app(async |app| {
        let (acme, operator) = (app.evaluation_tenant("acme").await, app.operator().await);
        let receiver = Receiver::always(200).await;
        let endpoint = Endpoint::new(&acme, &receiver.url(), json!({"events": ["export.started"]})).await;
        app.reload(&full()).unwrap();
        events_of(&operator, "disk.full", 1).await;
        // An export still leaves its event. Its delivery can be stored only when there is free space.
        assert_eq!(endpoint.admin.get(&format!("{TICKETS}?format=csv")).send().await.status, 200);
        assert_eq!(endpoint.deliveries().await, Vec::<Value>::new());
        app.reload(&limits()).unwrap();
        events_of(&operator, "disk.recovered", 1).await;
        assert_eq!(receiver.next().await.json()["type"], "export.started");
        endpoint.until_all(1, "delivered").await;
        while app.status("storage").await.1 != "operational" {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn snapshots_are_recorded_and_their_age_is_monitored() {
    let setup = limits().with("snapshots.max_age_hours", 24);
    with_setup(setup, async |app| {
        let operator = app.operator().await;
        let path = |name: &str| app.data_directory().join(name).display().to_string();
        let backup = |path: String| app.local().post("/internal/admin/backup").json(json!({"path": path}));
        let good = backup(path("one.snapshot")).send().await.ok(200).clone();
        assert!(good["records"].as_u64().unwrap() > 0 && good["file_bytes"].as_u64().unwrap() > 0, "{good}");
        assert_eq!(good["digest"].as_str().unwrap().len(), 64);
        let event = events_of(&operator, "snapshot.*", 1).await.remove(0);
        assert_eq!((&event["type"], &event["data"]["run"]["verified"]), (&json!("snapshot.verified"), &json!(true)));
        assert_eq!(event["data"]["run"]["records"], good["records"]);

        assert_eq!(backup(path("one.snapshot")).send().await.problem(409), "invalid_transition");
        assert_eq!(backup(path("nowhere/two.snapshot")).send().await.problem(409), "invalid_transition");
        let events = events_of(&operator, "snapshot.*", 3).await;
        assert_eq!((&events[1]["type"], &events[2]["type"]), (&json!("snapshot.failed"), &json!("snapshot.failed")));
        let facts = installation(app).await;
        assert_eq!(facts["last_verified_snapshot"]["path"], path("one.snapshot"));
        assert!(facts["last_snapshot_failure"]["path"].as_str().unwrap().ends_with("nowhere/two.snapshot"), "{facts}");
        let metrics = app.anonymous().get("/metrics").send().await.text;
        assert!(metrics.contains("tenantd_last_verified_backup_age_seconds"), "{metrics}");
        assert!(metrics.contains("tenantd_backup_failures_total"), "{metrics}");

        assert_eq!(app.status("snapshots").await.1, "operational");
        app.advance(Duration::from_hours(25));
        while app.status("snapshots").await.1 != "degraded" {
            tokio::task::yield_now().await;
        }
        backup(path("three.snapshot")).send().await.ok(200);
        while app.status("snapshots").await.1 != "operational" {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_drill_is_stored_and_shown() {
    with_app(async |app| {
        let drill = json!({
            "path": "/snapshots/one.snapshot", "at": "2026-01-01T00:00:00Z", "duration_milliseconds": 1500,
            "file_bytes": 4096, "tables": 3, "records": 9
        });
        let kept = app.local().post("/internal/admin/drills").json(drill.clone()).send().await;
        assert_eq!((&kept.ok(200)["kind"], &kept.body["verified"]), (&json!("drill"), &json!(true)));
        assert_eq!(installation(app).await["last_drill"]["seconds"], 1.5);
        assert_eq!(installation(app).await.get("last_verified_snapshot"), None, "a drill is no snapshot");
        let failed = json!({"failure": "it is damaged", "at": "2026-01-02T00:00:00Z"});
        let mut drill = drill;
        drill.as_object_mut().unwrap().extend(failed.as_object().unwrap().clone());
        app.local().post("/internal/admin/drills").json(drill).send().await.ok(200);
        assert_eq!(installation(app).await["last_drill"]["failure"], "it is damaged");
        let operator = app.operator().await;
        let kinds: Vec<Value> = events_of(&operator, "drill.*", 2).await.iter().map(|event| event["type"].clone()).collect();
        assert_eq!(kinds, ["drill.passed", "drill.failed"]);
    })
    .await;
}

#[tokio::test]
async fn a_scrub_shows_its_findings() {
    with_app(async |app| {
        // The first round starts a week after the first check.
        while !installation(app).await["scrub"].is_object() {
            tokio::task::yield_now().await;
        }
        assert_eq!(installation(app).await["scrub"].get("ended_at"), None);
        app.advance(Duration::from_hours(24 * 7 + 1));
        while installation(app).await["scrub"].get("ended_at").is_none() {
            tokio::task::yield_now().await;
        }
        let scrub = installation(app).await["scrub"].clone();
        assert_eq!((&scrub["problems"], &scrub["last_sound_at"]), (&json!(0), &scrub["ended_at"]), "{scrub}");
        assert!(scrub["records"].as_u64().unwrap() > 0, "{scrub}");
        let metrics = app.anonymous().get("/metrics").send().await.text;
        for name in ["tenantd_scrub_last_success_timestamp_seconds", "tenantd_scrub_duration_seconds", "tenantd_scrub_problems 0"] {
            assert!(metrics.contains(name), "{metrics}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_failed_offsite_backup_degrades_the_status() {
    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let setup = limits()
        .with("offsite.url", format!("file://{}", place.display()))
        .with("offsite.unencrypted", true)
        .with("offsite.every_hours", 2)
        .with("offsite.journal_days", 0)
        .with("offsite.keep_last", 2)
        .with("offsite.keep_daily", 0)
        .with("offsite.keep_weekly", 0)
        .with("offsite.keep_monthly", 0);
    with_setup(setup, async |app| {
        let operator = app.operator().await;
        let kinds = async |count| -> Vec<(Value, Value)> {
            let events = events_of(&operator, "snapshot.*", count).await;
            events.iter().map(|event| (event["type"].clone(), event["data"]["run"]["kind"].clone())).collect()
        };
        let (good, bad) = ((json!("snapshot.verified"), json!("offsite")), (json!("snapshot.failed"), json!("offsite")));
        assert_eq!(kinds(1).await[0], good);
        for count in 2..=3 {
            app.advance(Duration::from_hours(2));
            assert_eq!(kinds(count).await[count - 1], good);
        }
        assert!(installation(app).await["last_offsite_backup"]["path"].as_str().unwrap().starts_with("file://"));
        let metrics = app.anonymous().get("/metrics").send().await.text;
        assert!(metrics.contains("tenantd_last_offsite_backup_age_seconds"), "{metrics}");
        let installation_id = std::fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
        // The oldest snapshot is removed after the newest is reported.
        while std::fs::read_dir(installation_id.join("snapshots")).unwrap().count() != 2 {
            tokio::task::yield_now().await;
        }

        let gone = elsewhere.path().join("gone");
        std::fs::rename(&place, &gone).unwrap();
        let mut refused = app.local().post("/internal/admin/offsite-backups").send().await;
        while refused.status == 409 {
            refused = app.local().post("/internal/admin/offsite-backups").send().await;
        }
        assert_eq!(refused.problem(503), "unavailable");
        assert_eq!(kinds(4).await[3], bad);
        while app.status("snapshots").await.1 != "degraded" {
            tokio::task::yield_now().await;
        }
        std::fs::rename(&gone, &place).unwrap();
        app.advance(Duration::from_hours(2));
        assert_eq!(kinds(5).await[4], good);
        while app.status("snapshots").await.1 != "operational" {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
