//! Triggers of runs: events once each, with conditions and loop protection; schedules in their time zone.

use std::time::Duration;

use serde_json::{Value, json};

use tenantd_base::clock::Timestamp;
use tenantd_store::{StoreError, events};

use crate::{
    harness::{Setup, TestApp, with_app},
    workflows::{Desk, PATH, set},
};

async fn until_runs(desk: &Desk, query: &str, count: usize) -> Vec<Value> {
    let asking = async {
        loop {
            let found = desk.runs(query).await;
            if found.len() >= count {
                return found;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asking).await.expect("the runs did not come")
}

#[tokio::test]
async fn an_event_starts_a_run_when_its_condition_matches() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        desk.ticket("before the workflow").await;
        let trigger = json!([{"type": "event", "event": "ticket.created", "condition": "event.data.ticket.subject == 'wanted'"}]);
        let workflow = desk
            .create(json!({"key": "on-ticket", "name": "T", "triggers": trigger, "steps": [
                {"id": "note", "type": "ticket.comment", "with": {"id": "{{ event.resource.id }}", "body": "seen"}},
            ]}))
            .await;
        desk.ticket("other").await;
        let ticket = desk.ticket("wanted").await;
        let run = until_runs(&desk, "&status=succeeded", 1).await.remove(0);
        assert_eq!(
            (&run["subject_id"], &run["trigger"]["type"], &run["trigger"]["event"]),
            (&ticket["id"], &json!("event"), &json!("ticket.created"))
        );
        assert_eq!(run["started_by"]["kind"], "system");
        for subject in [&ticket["id"], &ticket["ref"]] {
            assert_eq!(desk.runs(&format!("&subject_id={}", subject.as_str().unwrap())).await.len(), 1, "{subject}");
        }
        let number = ticket["ref"].as_str().unwrap().trim_start_matches("T-");
        assert_eq!(desk.runs(&format!("&subject_id={number}")).await.len(), 1, "{number}");
        for unknown in ["T-999", "999", "0", "garbage"] {
            let refused = desk.key.get(&format!("{PATH}?view=runs&subject_id={unknown}")).send().await;
            assert_eq!(refused.field_errors(), [("subject_id".to_owned(), "unknown_reference".to_owned())], "{unknown}");
        }
        let made = desk.key.post("/api/admin/api-keys").json(json!({"name": "Blind", "scopes": ["workflows:*"]})).send().await;
        let blind = app.anonymous().bearer(made.ok(201)["key"].as_str().unwrap());
        for reference in [ticket["ref"].as_str().unwrap(), number] {
            let refused = blind.get(&format!("{PATH}?view=runs&subject_id={reference}")).send().await;
            assert_eq!(refused.problem(422), "validation_failed", "a key that cannot read tickets learns nothing of them");
        }
        let by_hand = desk.key.post(PATH).json(json!({"workflow_key": "on-ticket"})).send().await;
        assert_eq!(by_hand.problem(409), "invalid_transition");
        let id = workflow["id"].as_str().unwrap();
        desk.key.patch(&format!("{PATH}/{id}")).json(json!({"enabled": false})).send().await.ok(200);
        desk.ticket("wanted").await;
        desk.key.patch(&format!("{PATH}/{id}")).json(json!({"enabled": true})).send().await.ok(200);
        desk.ticket("wanted").await;
        until_runs(&desk, "&status=succeeded", 2).await;
        assert_eq!(desk.runs("").await.len(), 2, "what happened while it was disabled is none of its business");
    })
    .await;
}

#[tokio::test]
async fn the_same_event_twice_starts_one_run() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, Timestamp::from_millis(1_767_225_600_000)).await;
    let desk = Desk::new(&app, "acme").await;
    let trigger = json!([{"type": "event", "event": "ticket.created"}]);
    desk.create(json!({"key": "on-ticket", "name": "T", "triggers": trigger, "steps": [set("a", json!(1))]})).await;
    desk.ticket("one").await;
    desk.ticket("two").await;
    until_runs(&desk, "&status=succeeded", 2).await;
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now).await;
    // The reader loses its position, as after a crash.
    app.running().app.store.write(|tx| events::set_cursor(tx, "workflow_triggers", 0)).await.unwrap();
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now).await;
    let again = desk.at(&app);
    again.ticket("three").await;
    until_runs(&again, "&status=succeeded", 3).await;
    assert_eq!(again.runs("").await.len(), 3);
    let cursor = app.running().app.store.read::<_, StoreError>(|tx| events::cursor(tx, "workflow_triggers"));
    assert!(cursor.is_ok_and(|seq| seq > 0), "the reader has gone on from the beginning");
    drop(app.stop().await);
}

#[tokio::test]
async fn runs_that_trigger_each_other_are_stopped() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let trigger = json!([{"type": "event", "event": "ticket.created"}]);
        let steps = json!([{"id": "more", "type": "ticket.create", "with": {"subject": "more", "organization_id": desk.organization}}]);
        desk.create(json!({"key": "breeds", "name": "B", "triggers": trigger, "steps": steps})).await;
        let watch = json!([{"type": "event", "event": "workflow.run.failed"}]);
        desk.create(json!({"key": "watches", "name": "W", "triggers": watch, "steps": [set("a", json!(1))]})).await;
        desk.ticket("first").await;
        let failed = until_runs(&desk, "&status=failed", 1).await;
        assert_eq!(failed[0]["error"]["code"], "loop_detected");
        // A last event without a cause: when its run exists, all earlier events have been processed.
        desk.create(json!({"key": "quiet", "name": "Q", "triggers": [{"type": "event", "event": "workflow.updated"}], "steps": [set("a", json!(1))]})).await;
        let id = desk.key.get(PATH).send().await.ok(200)["data"][0]["id"].as_str().unwrap().to_owned();
        desk.key.patch(&format!("{PATH}/{id}")).json(json!({"description": "seen"})).send().await.ok(200);
        desk.key.patch(&format!("{PATH}/{id}")).json(json!({"description": "again"})).send().await.ok(200);
        let all = until_runs(&desk, "", 11).await;
        assert_eq!(desk.tickets().await.len(), 10, "one by hand, one by each of nine runs");
        assert_eq!(desk.runs("&status=failed").await.len(), 1);
        assert!(all.iter().all(|run| run["workflow"]["key"] != "watches"), "a run that was refused for its depth starts nothing");
    })
    .await;
}

#[tokio::test]
async fn missed_schedules_are_skipped_or_run_once() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    // 2026-03-28 22:30 in Berlin, the night in which daylight saving time starts.
    let start = Timestamp::parse("2026-03-28T21:30:00Z").unwrap();
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, start).await;
    let desk = Desk::new(&app, "acme").await;
    for catch_up in ["skip", "run_once"] {
        let trigger = json!([{"type": "schedule", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "catch_up": catch_up}]);
        desk.create(
            json!({"key": catch_up.replace('_', "-"), "name": catch_up, "triggers": trigger, "steps": [set("a", json!(1))]}),
        )
        .await;
    }
    let at = |text: &str| Timestamp::parse(text).unwrap();
    app.advance(at("2026-03-29T00:59:59Z").since(app.now()));
    assert!(desk.runs("").await.is_empty());
    app.advance(Duration::from_secs(1));
    let runs = until_runs(&desk, "&status=succeeded", 2).await;
    assert!(runs.iter().all(|run| run["trigger"]["scheduled_at"] == "2026-03-29T01:00:00.000Z"), "{runs:?}");
    let (directory, _) = app.stop().await;
    // Three days later: three runs were missed.
    let app = TestApp::start(directory, &setup, at("2026-04-01T12:00:00Z")).await;
    let again = desk.at(&app);
    let runs = until_runs(&again, "&status=succeeded", 3).await;
    assert_eq!(runs[0]["workflow"]["key"], "run-once");
    app.advance(at("2026-04-02T00:30:00Z").since(app.now()));
    until_runs(&again, "&status=succeeded", 5).await;
    assert_eq!(again.runs("").await.len(), 5);
    drop(app.stop().await);
}

#[tokio::test]
async fn ended_runs_are_removed_after_their_retention() {
    let setup = Setup::default()
        .with("rate_limits.enabled", false)
        .with("workflows.retention_days", 2)
        .with("quotas.workflows", 2)
        .with("quotas.concurrent_runs", 1);
    crate::harness::with_setup(setup, async |app| {
        let desk = Desk::new(app, "acme").await;
        desk.workflow("short", json!([set("a", json!(1))])).await;
        desk.workflow("long", json!([{"id": "w", "type": "wait.duration", "with": {"seconds": 864_000}}])).await;
        let third = desk.try_create(json!({"key": "third", "name": "T", "steps": [set("a", json!(1))]})).await;
        assert_eq!(third.problem(403), "quota_exceeded");
        let run = desk.start("short", json!({})).await;
        desk.status(&run, "succeeded").await;
        let long = desk.start("long", json!({})).await;
        let refused = desk.key.post(PATH).json(json!({"workflow_key": "short"})).send().await;
        assert_eq!(refused.problem(403), "quota_exceeded");
        app.advance(Duration::from_hours(48));
        while desk.key.get(&format!("{PATH}?run_id={}", run["id"].as_str().unwrap())).send().await.status == 200 {}
        // Its own timeout, the default of a day, expired first.
        desk.status(&long, "timed_out").await;
    })
    .await;
}
