//! Beyond a quota: removals of an import still work, and runs of workflows stop.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Setup, TestApp, with_app, with_setup},
    quotas::{check_is_clean, limit, used},
    workflows::{Desk, set, step},
};

/// Imports lines. Some may be refused.
pub async fn send(actor: &Actor, values: &[Value]) -> Vec<Value> {
    let body: String = values.iter().map(|value| format!("{value}\n")).collect();
    actor.post("/internal/ingest").text("application/x-ndjson", body).send().await.lines(200)
}

fn organization(id: &str) -> Value {
    json!({"kind": "organization", "external_id": id, "name": id})
}

fn gone(kind: &str, id: &str) -> Value {
    json!({"kind": kind, "external_id": id, "deleted": true})
}

fn statuses(answers: &[Value]) -> Vec<&str> {
    answers.iter().filter_map(|answer| answer["status"].as_str()).collect()
}

/// Exhausts a quota of the tenant.
async fn use_up(app: &TestApp, actor: &Actor, quota: &str) {
    let now = used(actor, quota).await;
    limit(app, actor, json!({quota: now})).await.ok(200);
}

#[tokio::test]
async fn imports_can_remove_beyond_the_quota() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let records = |id: &str| {
            [
                organization(id),
                json!({"kind": "device", "external_id": id, "name": "PC", "organization_external_id": id}),
                json!({"kind": "user", "external_id": id, "name": "Bo", "organization_external_id": id}),
            ]
        };
        for quota in ["records", "stored_bytes", "events_per_day"] {
            assert_eq!(send(&key, &records(quota)).await.last().unwrap()["created"], 3);
            use_up(app, &key, quota).await;
            let lines = [organization("new"), gone("device", quota), gone("user", quota), gone("organization", quota)];
            let answers = send(&key, &lines).await;
            assert_eq!(statuses(&answers), ["error", "removed", "removed", "removed"], "{quota}: {answers:?}");
            assert_eq!(answers[0]["error"]["code"], "quota_exceeded", "{quota}");
            assert_eq!(answers.last().unwrap().get("error"), None, "{quota}");
            limit(app, &key, json!({})).await.ok(200);
        }
        check_is_clean(app).await;
    })
    .await;
}

#[tokio::test]
async fn a_removal_makes_room_for_later_lines() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        send(&key, &[organization("old")]).await;
        let records = used(&key, "records").await;
        use_up(app, &key, "records").await;
        let lines = [organization("a"), gone("organization", "old"), organization("b"), organization("c")];
        assert_eq!(statuses(&send(&key, &lines).await), ["error", "removed", "created", "error"]);
        assert_eq!(used(&key, "records").await, records);
        assert_eq!(statuses(&send(&key, &[gone("organization", "b")]).await), ["removed"]);
        assert_eq!(statuses(&send(&key, &[gone("organization", "a")]).await), ["unchanged"], "nothing of it was stored");
        check_is_clean(app).await;
    })
    .await;
}

#[tokio::test]
async fn a_running_backup_counts_without_an_event() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let device = json!({"kind": "device", "external_id": "pc", "name": "PC", "organization_external_id": "o"});
        let job = json!({"kind": "backup_job", "external_id": "j", "device": "pc", "started_at": "2026-01-01T00:00:00Z", "status": "running"});
        send(&key, &[organization("o"), device]).await;
        use_up(app, &key, "records").await;
        let answers = send(&key, std::slice::from_ref(&job)).await;
        assert_eq!(answers[0]["error"]["code"], "quota_exceeded", "{answers:?}");
        limit(app, &key, json!({})).await.ok(200);
        assert_eq!(statuses(&send(&key, &[job]).await), ["created"]);
    })
    .await;
}

/// A workflow that repeats a step a thousand times. The step can refer to a text of 50,000 bytes as `steps.big.output.value`.
fn hoard(key: &str, repeated: &Value) -> Value {
    let items: Vec<u16> = (0..1_000).collect();
    let each = json!({"id": "each", "type": "for_each", "with": {"items": items, "steps": [repeated]}});
    let steps = json!([set("big", json!("x".repeat(50_000))), each]);
    json!({"key": key, "name": key, "steps": steps, "on_failure": [set("note", json!("{{ run.error.code }}"))]})
}

#[tokio::test]
async fn a_run_stops_at_the_storage_quota() {
    with_setup(Setup::default().with("rate_limits.enabled", false), async |app| {
        let big = "{{ steps.big.output.value }}";
        let inner = json!({"items": [big], "steps": [set("small", json!(1))]});
        for (key, repeated) in [
            ("outputs", set("more", json!(big))),
            ("loops", json!({"id": "more", "type": "for_each", "with": inner})),
            ("failures", json!({"id": "more", "type": "fail", "with": {"message": big}, "on_error": "continue"})),
        ] {
            let desk = Desk::new(app, key).await;
            desk.create(hoard(key, &repeated)).await;
            let most = used(&desk.key, "stored_bytes").await + 120_000;
            limit(app, &desk.key, json!({"stored_bytes": most})).await.ok(200);
            let run = desk.start(key, json!({})).await;
            let ended = desk.status(&run, "failed").await;
            assert_eq!(ended["error"]["code"], "quota_exceeded", "{key}: {}", ended["error"]);
            let stored = used(&desk.key, "stored_bytes").await;
            assert!(stored <= most + most / 10 + 20_000, "{key}: {stored} bytes, and the limit is {most}");
        }
        check_is_clean(app).await;
    })
    .await;
}

#[tokio::test]
async fn a_full_run_continues_with_its_failure_steps() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let big = json!({"id": "big", "type": "set", "with": {"value": "{{ inputs.text ~ inputs.text }}"}});
        let note = set("note", json!("{{ run.error.code }}"));
        desk.create(json!({"key": "big", "name": "Big", "steps": [big], "on_failure": [note]})).await;
        // The run and its inputs fit, but the output does not.
        let most = used(&desk.key, "stored_bytes").await + 40_000;
        limit(app, &desk.key, json!({"stored_bytes": most})).await.ok(200);
        let run = desk.start("big", json!({"text": "x".repeat(25_000)})).await;
        let ended = desk.status(&run, "failed").await;
        assert_eq!((&ended["error"]["code"], &ended["error"]["step"]), (&json!("quota_exceeded"), &json!("big")));
        assert_eq!(step(&ended, "big")["status"], "failed");
        assert_eq!(step(&ended, "note")["output"]["value"], "quota_exceeded");
        assert!(used(&desk.key, "stored_bytes").await <= most + most / 10);
    })
    .await;
}

#[tokio::test]
async fn step_inputs_are_bounded() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let items = vec!["{{ steps.big.output.value }}"; 10];
        let each = json!({"id": "each", "type": "for_each", "with": {"items": items, "steps": [set("small", json!(1))]}});
        desk.workflow("large", json!([set("big", json!("x".repeat(50_000))), each])).await;
        let run = desk.start("large", json!({})).await;
        let ended = desk.status(&run, "failed").await;
        assert_eq!((&ended["error"]["code"], &ended["error"]["step"]), (&json!("invalid_input"), &json!("each")));
    })
    .await;
}
