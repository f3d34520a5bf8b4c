//! Beyond a quota: what an import still removes.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, TestApp, with_app},
    quotas::{check_is_clean, limit, used},
};

/// Imports lines of which some may be refused.
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

/// Leaves the tenant no room for anything more of a quota.
async fn use_up(app: &TestApp, actor: &Actor, quota: &str) {
    let now = used(actor, quota).await;
    limit(app, actor, json!({quota: now})).await.ok(200);
}

#[tokio::test]
async fn an_import_removes_at_every_quota() {
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
async fn a_removal_makes_room_for_the_lines_behind_it() {
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
async fn a_backup_under_way_counts_although_it_has_no_event() {
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
