//! Time and tickets: SLA targets become at risk and are breached, resolved tickets are closed. The test moves the clock and
//! restarts the server; each event is sent once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Actor, Setup, TestApp, example, with_app};

const TICKETS: &str = "/api/psa/tickets";
const SLA: &str = "/api/psa/sla";

/// Long-polls for the next events of these kinds.
async fn events(actor: &Actor, types: &str, after: u64) -> (Vec<Value>, u64) {
    let path = format!("/api/events?types={types}&after={after}&limit=200&wait_seconds=20");
    let feed = actor.get(&path).send().await.ok(200).clone();
    (feed["data"].as_array().unwrap().clone(), feed["next_after"].as_u64().unwrap())
}

/// Reads the ticket until the timers have updated it.
async fn until(actor: &Actor, path: &str, field: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..2_000 {
        let ticket = actor.get(path).send().await.ok(200).clone();
        if field(&ticket) {
            return ticket;
        }
        tokio::task::yield_now().await;
    }
    panic!("the timers did not come: {}", actor.get(path).send().await.text);
}

#[tokio::test]
async fn risk_and_breach_are_reported_once_each() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        let body = json!({"subject": "Down", "organization_id": organization, "priority": "critical"});
        let ticket = key.post(TICKETS).json(body).send().await.ok(201).clone();
        // January 1, 2026, midnight.
        assert_eq!(ticket["sla"]["first_response"]["due_at"], "2026-01-01T00:15:00.000Z");
        assert_eq!(ticket["sla"]["resolution"]["due_at"], "2026-01-01T04:00:00.000Z");
        let path = format!("{TICKETS}/T-1");
        app.advance(Duration::from_secs(11 * 60 + 15));
        let at_risk = until(&key, &path, |ticket| ticket["sla"]["state"] == "at_risk").await;
        assert_eq!(at_risk["version"], 2);
        app.advance(Duration::from_secs(225));
        let breached = until(&key, &path, |ticket| ticket["sla"]["state"] == "breached").await;
        assert_eq!(breached["sla"]["first_response"]["breached"], true);
        assert_eq!(breached["sla"]["resolution"]["breached"], false);
        let listed = key.get(&format!("{TICKETS}?sla_state=breached")).send().await;
        assert_eq!(listed.ok(200)["data"][0]["ref"], "T-1");
        app.advance(Duration::from_hours(1));
        key.post(&format!("{path}/comments")).json(example("tickets/create_comment")).send().await.ok(201);
        let (sent, _) = events(&key, "ticket.sla_at_risk,ticket.sla_breached", 0).await;
        let kinds: Vec<&str> = sent.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ticket.sla_at_risk", "ticket.sla_breached"]);
        assert_eq!(sent[1]["data"]["changes"]["sla.first_response"]["to"], "breached");
        assert_eq!(sent[1]["actor"]["kind"], "system");
    })
    .await;
}

#[tokio::test]
async fn breaches_during_downtime_are_reported_once() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, start).await;
    let (tenant_id, secret) = {
        let acme = app.tenant("acme").await;
        let (key, record) = acme.new_key("timers", &["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        let body = json!({"subject": "Down", "organization_id": organization, "priority": "critical"});
        key.post(TICKETS).json(body).send().await.ok(201);
        app.advance(Duration::from_mins(12));
        until(&key, &format!("{TICKETS}/T-1"), |ticket| ticket["sla"]["state"] == "at_risk").await;
        (acme.id.clone(), record["key"].as_str().unwrap().to_owned())
    };
    assert!(tenant_id.starts_with("tnt_"));
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now + Duration::from_hours(5)).await;
    let key = app.anonymous().bearer(&secret);
    until(&key, &format!("{TICKETS}/T-1"), |ticket| ticket["sla"]["resolution"]["breached"] == true).await;
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now + Duration::from_hours(1)).await;
    let key = app.anonymous().bearer(&secret);
    let (sent, _) = events(&key, "ticket.sla_at_risk,ticket.sla_breached", 0).await;
    let crossed: Vec<(String, String)> = sent
        .iter()
        .map(|event| {
            let clock = event["data"]["changes"].as_object().unwrap().keys().next().unwrap().clone();
            (event["type"].as_str().unwrap().to_owned(), clock)
        })
        .collect();
    let expected = [
        ("ticket.sla_at_risk", "sla.first_response"),
        ("ticket.sla_breached", "sla.first_response"),
        ("ticket.sla_at_risk", "sla.resolution"),
        ("ticket.sla_breached", "sla.resolution"),
    ];
    assert_eq!(crossed, expected.map(|(kind, clock)| (kind.to_owned(), clock.to_owned())));
    drop(app.stop().await);
}

#[tokio::test]
async fn a_resolved_ticket_is_closed_after_five_days() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        key.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        let path = format!("{TICKETS}/T-1");
        key.patch(&path).json(json!({"status": "resolved", "resolution": {"summary": "x"}})).send().await.ok(200);
        app.advance(Duration::from_secs(5 * 86_400 - 1));
        let (_, seen) = events(&key, "ticket.resolved", 0).await;
        assert_eq!(key.get(&path).send().await.ok(200)["status"], "resolved");
        app.advance(Duration::from_secs(1));
        let (closed, _) = events(&key, "ticket.closed", seen).await;
        assert_eq!(closed[0]["actor"], json!({"kind": "system", "id": "system", "name": "Ticket timers"}));
        let ticket = key.get(&path).send().await.ok(200).clone();
        assert_eq!((&ticket["status"], &ticket["closed_at"]), (&json!("closed"), &json!("2026-01-06T00:00:00.000Z")));
        assert_eq!(ticket["sla"]["state"], "met");
    })
    .await;
}

#[tokio::test]
async fn business_hours_apply_from_the_next_ticket() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, technician) = (acme.admin().await, acme.user("technician").await);
        let organization = acme.organization("Acme").await;
        let create = |priority: &str| {
            admin.post(TICKETS).json(json!({"subject": "A", "organization_id": organization, "priority": priority})).send()
        };
        let standard = admin.get(SLA).send().await;
        assert_eq!((&standard.ok(200)["version"], standard.header("etag")), (&json!(0), "\"v0\""));
        // Thursday, midnight: eight business hours end at 17:00 of the same day.
        assert_eq!(create("high").await.ok(201)["sla"]["resolution"]["due_at"], "2026-01-01T17:00:00.000Z");
        let mut policy = standard.body.clone();
        for field in ["version", "updated_at"] {
            policy.as_object_mut().unwrap().remove(field);
        }
        policy["time_zone"] = json!("America/New_York");
        policy["holidays"] = json!(["2026-01-01", "2026-01-02"]);
        policy["hours"]["monday"] = json!([{"start": "08:00", "end": "12:00"}, {"start": "13:00", "end": "24:00"}]);
        assert_eq!(technician.put(SLA).json(policy.clone()).send().await.problem(403), "admin_required");
        let changed = admin.put(SLA).header("if-match", "\"v0\"").json(policy.clone()).send().await;
        assert_eq!(changed.ok(200)["version"], 1);
        assert_eq!(admin.put(SLA).header("if-match", "\"v0\"").json(policy.clone()).send().await.problem(412), "version_conflict");
        // Monday, January 5, 08:00 in New York is 13:00 UTC. The lunch break does not count.
        assert_eq!(create("high").await.ok(201)["sla"]["resolution"]["due_at"], "2026-01-05T22:00:00.000Z");
        let standing = admin.get(&format!("{TICKETS}/T-1")).send().await;
        assert_eq!(standing.ok(200)["sla"]["resolution"]["due_at"], "2026-01-01T17:00:00.000Z");
        policy["time_zone"] = json!("Mars/Olympus");
        policy["hours"]["monday"] = json!([{"start": "12:00", "end": "08:00"}]);
        let refused = admin.put(SLA).json(policy.clone()).send().await;
        assert_eq!(
            refused.field_errors().iter().map(|(place, _)| place.as_str()).collect::<Vec<_>>(),
            ["/hours/monday", "/time_zone"]
        );
        policy["holidays"] = json!(["2026-02-30"]);
        assert_eq!(admin.put(SLA).json(policy).send().await.field_errors()[0].0, "/holidays/0");
    })
    .await;
}

#[tokio::test]
async fn waiting_stops_the_clocks() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let body = json!({"subject": "A", "organization_id": organization, "priority": "critical"});
        key.post(TICKETS).json(body).send().await.ok(201);
        let path = format!("{TICKETS}/T-1");
        app.advance(Duration::from_mins(5));
        let paused = key.patch(&path).json(json!({"status": "waiting_vendor"})).send().await;
        assert_eq!(paused.ok(200)["sla"]["state"], "paused");
        app.advance(Duration::from_hours(10));
        let resumed = key.patch(&path).json(json!({"status": "open"})).send().await.ok(200).clone();
        assert_eq!((&resumed["sla"]["state"], &resumed["sla"]["paused_minutes"]), (&json!("on_track"), &json!(600)));
        assert_eq!(resumed["sla"]["first_response"]["due_at"], "2026-01-01T10:15:00.000Z");
        assert_eq!(resumed["sla"]["resolution"]["due_at"], "2026-01-01T14:00:00.000Z");
    })
    .await;
}
