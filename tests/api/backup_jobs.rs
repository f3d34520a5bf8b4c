//! Imported backup jobs, and the effects of missing ones over time. The test moves the clock and restarts the server; each event is
//! sent once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    backup::{REPORT, device, estate, events, ids, job, organization, set, until},
    harness::{Setup, TestApp, with_app},
    inventory::ingest,
};

const ALARMS: &str = "backup.job.missed,backup.rpo_breached,backup.rpo_recovered";

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_job_is_imported_with_its_device_and_reported_once() {
    with_app(async |app| {
        let key = app.tenant("acme").await.key(&["ingest:write", "backup:read", "events:read"]).await;
        let mut running = job("1", "srv", "running", "2025-12-31T20:00:00Z");
        running.as_object_mut().unwrap().remove("ended_at");
        let lines = [organization("acme"), device("srv", "acme", "server"), running.clone()];
        let made = ingest(&key, &lines).await;
        assert!(ids(&made)[2].starts_with("bkj_"), "{made:?}");
        assert!(events(&key, "backup.job.*").await.is_empty(), "it has not ended");
        let mut done = job("1", "srv", "success", "2025-12-31T20:00:00Z");
        done["ended_at"] = json!("2025-12-31T20:10:00Z");
        let statuses: Vec<Value> =
            [ingest(&key, &[done.clone()]).await[0]["status"].clone(), ingest(&key, &[done.clone()]).await[0]["status"].clone()]
                .into();
        assert_eq!(statuses, [json!("updated"), json!("unchanged")]);
        let reported = events(&key, "backup.job.*").await;
        assert_eq!(kinds(&reported), ["backup.job.succeeded"]);
        let shown = &reported[0]["data"]["backup_job"];
        assert_eq!((&shown["duration_seconds"], &shown["bytes"], &shown["status"]), (&json!(600), &json!(1000), &json!("success")));
        assert_eq!((&shown["device"]["name"], &shown["organization"]["name"]), (&json!("srv"), &json!("The acme company")));
        assert_eq!(reported[0]["resource"]["id"], ids(&made)[2].as_str());
        let mut tested = done.clone();
        tested["verified"] = json!(true);
        assert_eq!(ingest(&key, &[tested.clone()]).await[0]["status"], "updated");
        assert_eq!(ingest(&key, &[tested]).await[0]["status"], "unchanged");
        let row = key.get(REPORT).send().await.ok(200)["data"][0].clone();
        assert_eq!(row["verification"]["last_restore_test_at"], "2026-01-01T00:00:00.000Z");
        assert_eq!((&row["jobs"]["24h"]["succeeded"], &row["storage"]["protected_bytes"]), (&json!(1), &json!(1000)));
        let warned = job("2", "srv", "warning", "2025-12-31T21:00:00Z");
        ingest(&key, &[warned, job("3", "srv", "cancelled", "2025-12-31T21:30:00Z")]).await;
        assert_eq!(kinds(&events(&key, "backup.job.*").await), ["backup.job.succeeded", "backup.job.succeeded"]);
    })
    .await;
}

#[tokio::test]
async fn an_invalid_job_is_refused_with_its_position() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, _) = estate(&tenant).await;
        ingest(&key, &[job("1", "a-srv", "failed", "2025-12-31T20:00:00Z")]).await;
        let mut wrong: Vec<(Value, &str)> = vec![
            (job("1", "a-srv", "success", "2025-12-31T20:00:00Z"), "/status"),
            (job("2", "nobody", "success", "2025-12-31T20:00:00Z"), "/device"),
            (job("3", "a-srv", "success", "2026-01-01T01:00:00Z"), "/started_at"),
            (job("4", "a-srv", "success", "2025-01-01T01:00:00Z"), "/started_at"),
            (job("5", "a-srv", "great", "2025-12-31T20:00:00Z"), "/status"),
        ];
        for (number, member, value, pointer) in [
            (6, "ended_at", json!("2025-12-31T19:00:00Z"), "/ended_at"),
            (7, "status", json!("running"), "/ended_at"),
            (8, "nonsense", json!(1), "/nonsense"),
            (9, "bytes", json!(-1), "/bytes"),
        ] {
            let mut line = job(&number.to_string(), "a-srv", "success", "2025-12-31T20:00:00Z");
            line[member] = value;
            wrong.push((line, pointer));
        }
        let mut failed = job("10", "a-srv", "failed", "2025-12-31T20:00:00Z");
        failed["verified"] = json!(true);
        wrong.push((failed, "/verified"));
        let mut body: String = wrong.iter().map(|(line, _)| format!("{line}\n")).collect();
        body.push_str(&format!("{}\n", job("11", "b-ws", "success", "2025-12-31T20:00:00Z")));
        let answers = key.post("/internal/ingest").text("application/x-ndjson", body).send().await.lines(200);
        for ((line, pointer), answer) in wrong.iter().zip(&answers) {
            assert_eq!(answer["error"]["pointer"], *pointer, "{line}: {answer}");
        }
        let end = answers.last().unwrap();
        assert_eq!((&end["created"], &end["failed"]), (&json!(1), &json!(wrong.len())));
    })
    .await;
}

#[tokio::test]
async fn missed_breached_and_recovered_are_reported_once() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, start).await;
    let secret = {
        let tenant = app.tenant("acme").await;
        let (key, record) = tenant.new_key("all", &["ingest:write", "backup:*", "events:read"]).await;
        let hourly = json!({"kind": "interval", "every_minutes": 60, "timezone": "UTC"});
        set(&key, "tenant", json!({"schedule": hourly, "objectives": {"rpo_minutes": {"server": 240, "workstation": 240}}})).await;
        ingest(&key, &[organization("acme"), device("srv", "acme", "server")]).await;
        ingest(&key, &[job("1", "srv", "success", "2025-12-31T23:59:00Z")]).await;
        app.advance(Duration::from_mins(90));
        until(&key, REPORT, |report| report["summary"]["jobs"]["24h"]["missed"] == 1).await;
        app.advance(Duration::from_mins(89));
        until(&key, REPORT, |report| report["summary"]["rpo"]["at_risk"] == 1).await;
        record["key"].as_str().unwrap().to_owned()
    };
    let (directory, now) = app.stop().await;
    // The objective is exceeded while the server is stopped.
    let app = TestApp::start(directory, &setup, now + Duration::from_hours(2)).await;
    let key = app.anonymous().bearer(&secret);
    until(&key, REPORT, |report| report["summary"]["rpo"]["breached"] == 1).await;
    let row = key.get(REPORT).send().await.ok(200)["data"][0].clone();
    assert_eq!(
        (&row["issues"][0]["code"], &row["issues"][0]["since"]),
        (&json!("rpo_breached"), &json!("2026-01-01T03:59:00.000Z"))
    );
    assert_eq!(row["rpo"]["worst"]["device"]["name"], "srv");
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now + Duration::from_hours(4)).await;
    let key = app.anonymous().bearer(&secret);
    until(&key, REPORT, |report| report["data"][0]["caps"].to_string().contains("server_rpo_breached_twice")).await;
    let at = app.now().to_string();
    ingest(&key, &[job("2", "srv", "success", &at)]).await;
    let reported = events(&key, ALARMS).await;
    assert_eq!(kinds(&reported), ["backup.job.missed", "backup.rpo_breached", "backup.rpo_recovered"]);
    assert_eq!(reported[1]["actor"], json!({"kind": "system", "id": "system", "name": "Backup timers"}));
    let row = key.get(REPORT).send().await.ok(200)["data"][0].clone();
    assert_eq!((&row["rpo"]["ok"], &row["issues"]), (&json!(1), &json!([])));
    drop(app.stop().await);
}

#[tokio::test]
async fn tickets_open_once_for_selected_alarms() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, made) = estate(&tenant).await;
        let hourly = json!({"kind": "interval", "every_minutes": 60, "timezone": "UTC"});
        let wanted = json!({"ticket_on": ["failed", "missed", "rpo_breach"], "ticket_priority": "high"});
        let objectives = json!({"rpo_minutes": {"server": 240, "workstation": 240}});
        set(&key, &made[0], json!({"notifications": wanted, "schedule": hourly, "objectives": objectives})).await;
        let failed = |number: u8| job(&format!("f{number}"), "a-srv", "failed", &format!("2025-12-31T20:0{number}:00Z"));
        let quiet = job("f", "b-srv", "failed", "2025-12-31T20:00:00Z");
        ingest(&key, &[failed(1), failed(2), failed(3), quiet]).await;
        let tickets = async || key.get("/api/psa/tickets?sort=number").send().await.ok(200)["data"].as_array().unwrap().clone();
        let open = tickets().await;
        assert_eq!(open.len(), 1, "{open:?}");
        assert_eq!((&open[0]["subject"], &open[0]["occurrences"]), (&json!("Backup of a-srv failed"), &json!(3)));
        assert_eq!(
            (&open[0]["source"], &open[0]["priority"], &open[0]["type"]),
            (&json!("backup"), &json!("high"), &json!("alert"))
        );
        assert_eq!(open[0]["devices"][0]["id"], made[2].as_str());
        app.advance(Duration::from_hours(5));
        until(&key, REPORT, |report| report["summary"]["rpo"]["breached"] == 2).await;
        let subjects: Vec<String> = tickets().await.iter().map(|ticket| ticket["subject"].as_str().unwrap().to_owned()).collect();
        for (part, count) in [("was missed", 2), ("breaches its", 2), ("failed", 1), ("b-", 0)] {
            assert_eq!(subjects.iter().filter(|subject| subject.contains(part)).count(), count, "{part}: {subjects:?}");
        }
        let report = key.get(&format!("{REPORT}?organization_id={}", made[0])).send().await.ok(200).clone();
        let issue = &report["data"][0]["issues"][0];
        assert_eq!((&issue["code"], &issue["severity"]), (&json!("rpo_breached"), &json!("critical")));
        assert!(issue["ticket"].as_str().unwrap().starts_with("tkt_"), "{issue}");
        app.advance(Duration::from_hours(20));
        ingest(&key, &[job("late", "b-ws", "success", "2026-01-02T00:00:00Z")]).await;
        assert_eq!(tickets().await.len(), 5, "an ongoing problem is not reported again");
    })
    .await;
}

#[tokio::test]
async fn moved_and_removed_devices_update_the_reports() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, made) = estate(&tenant).await;
        ingest(&key, &[job("1", "a-srv", "success", "2025-12-31T20:00:00Z")]).await;
        let of = |report: &Value, id: &str| {
            let rows = report["data"].as_array().unwrap();
            rows.iter().find(|row| row["organization"]["id"] == id).unwrap()["devices"].clone()
        };
        let move_it = json!({"kind": "device", "external_id": "a-srv", "organization_external_id": "beta"});
        ingest(&key, &[move_it]).await;
        let report = until(&key, REPORT, |report| of(report, &made[0])["total"] == 1).await;
        assert_eq!((&of(&report, &made[1])["total"], &of(&report, &made[1])["protected"]), (&json!(3), &json!(1)));
        ingest(&key, &[json!({"kind": "device", "external_id": "a-srv", "lifecycle": "retired"})]).await;
        let report = until(&key, REPORT, |report| of(report, &made[1])["eligible"] == 2).await;
        assert_eq!(of(&report, &made[1])["protected"], 0);
        ingest(&key, &[json!({"kind": "device", "external_id": "a-srv", "deleted": true})]).await;
        until(&key, REPORT, |report| report["summary"]["devices"]["total"] == 3).await;
        let gone = ["a-ws"].map(|id| json!({"kind": "device", "external_id": id, "deleted": true}));
        ingest(&key, &gone).await;
        ingest(&key, &[json!({"kind": "organization", "external_id": "acme", "deleted": true})]).await;
        until(&key, REPORT, |report| report["summary"]["organizations"] == 1).await;
    })
    .await;
}
