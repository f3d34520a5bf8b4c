//! A suspended tenant runs no automation: no workflow starts or continues, nothing is delivered. It works again after it is
//! resumed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{Endpoint, Receiver, Tenant, TestApp, with_app},
    workflows::{Desk, PATH},
};

async fn set_status(app: &TestApp, tenant: &Tenant<'_>, action: &str) {
    app.local().post(&format!("/api/platform/tenants/{}/{action}", tenant.id)).send().await.ok(200);
}

async fn tenant_of<'a>(app: &'a TestApp, slug: &str) -> Tenant<'a> {
    let found = app.local().get(&format!("/api/platform/tenants?slug={slug}")).send().await;
    Tenant::known(app, slug, found.ok(200)["data"][0]["id"].as_str().unwrap())
}

fn workflow(key: &str, triggers: Value, steps: Value) -> Value {
    json!({"key": key, "name": key, "triggers": triggers, "steps": steps})
}

/// A workflow that each new key starts.
fn on_key() -> Value {
    let triggers = json!([{"type": "event", "event": "api_key.created"}]);
    workflow("on-key", triggers, json!([{"id": "a", "type": "set", "with": {"value": 1}}]))
}

async fn until_runs(desk: &Desk, count: usize) -> Vec<Value> {
    let asking = async {
        loop {
            let found = desk.runs("").await;
            if found.len() >= count {
                return found;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asking).await.expect("the runs did not come")
}

#[tokio::test]
async fn suspension_starts_no_workflow_and_holds_deliveries() {
    with_app(async |app| {
        let (quiet, other) = (Desk::new(app, "quiet").await, Desk::new(app, "other").await);
        let (suspended, active) = (tenant_of(app, "quiet").await, tenant_of(app, "other").await);
        let (waiting, served) = (Receiver::always(200).await, Receiver::always(200).await);
        Endpoint::of(quiet.key.clone(), &waiting.url(), json!({})).await;
        Endpoint::of(other.key.clone(), &served.url(), json!({})).await;
        quiet.create(on_key()).await;
        other.create(on_key()).await;
        set_status(app, &suspended, "suspend").await;
        // Only the operator can still act there.
        suspended.new_key("while suspended", &["tickets:read"]).await;
        active.new_key("later", &["tickets:read"]).await;
        // Readers process the log in order, so they have passed both events now.
        served.next().await;
        until_runs(&other, 1).await;
        assert!(waiting.is_quiet().await, "a suspended tenant's event was delivered");

        set_status(app, &suspended, "resume").await;
        assert_eq!(waiting.next().await.json()["data"]["api_key"]["name"], "while suspended");
        suspended.new_key("after", &["tickets:read"]).await;
        assert_eq!(waiting.next().await.json()["data"]["api_key"]["name"], "after");
        let runs = until_runs(&quiet, 1).await;
        assert_eq!(runs.len(), 1, "what happened while it was suspended starts nothing: {runs:?}");
    })
    .await;
}

#[tokio::test]
async fn suspension_pauses_schedules_and_runs() {
    with_app(async |app| {
        let (quiet, other) = (Desk::new(app, "quiet").await, Desk::new(app, "other").await);
        let suspended = tenant_of(app, "quiet").await;
        let hourly = json!([{"type": "schedule", "cron": "0 * * * *", "timezone": "UTC", "catch_up": "run_once"}]);
        let step = json!([{"id": "a", "type": "set", "with": {"value": 1}}]);
        for desk in [&quiet, &other] {
            let made = desk.try_create(workflow("hourly", hourly.clone(), step.clone())).await;
            assert_eq!(made.status, 201, "{}", made.text);
        }
        let steps = json!([{"id": "pause", "type": "wait.duration", "with": {"seconds": 60}}, {"id": "b", "type": "set", "with": {"value": 2}}]);
        quiet.workflow("slow", steps).await;
        let run = quiet.start("slow", json!({})).await;
        quiet.until(&run, |run| run["status"] == "waiting").await;
        set_status(app, &suspended, "suspend").await;
        app.advance(Duration::from_hours(1));
        until_runs(&other, 1).await;
        set_status(app, &suspended, "resume").await;
        assert_eq!(quiet.runs("").await.len(), 1, "a schedule came while the tenant was suspended");

        // The engine checks again whether the tenant was resumed, and the next hour starts.
        app.advance(Duration::from_hours(1));
        quiet.status(&run, "succeeded").await;
        until_runs(&quiet, 2).await;
        let found = quiet.key.get(&format!("{PATH}?view=runs&limit=200")).send().await;
        assert_eq!(found.ok(200)["data"].as_array().unwrap().len(), 2, "{}", found.text);
    })
    .await;
}
