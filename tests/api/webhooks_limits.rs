//! Limits of deliveries: queue length, retention, rates, fairness, automatic disabling, and what the operator sees of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::Semaphore};

use tenantd_base::clock::Timestamp;
use tenantd_store::{StoreError, events};

use crate::harness::{Endpoint, Receiver, Script, Setup, Tenant, TestApp, with_app, with_setup};

const DAY: Duration = Duration::from_hours(24);

fn unlimited() -> Setup {
    Setup::default().with("rate_limits.enabled", false)
}

/// Creates events `name 00`, `name 01` and so on, a millisecond apart.
async fn happen(app: &TestApp, tenant: &Tenant<'_>, name: &str, count: usize) {
    for number in 0..count {
        tenant.new_key(&format!("{name} {number:02}"), &["*"]).await;
        app.advance(Duration::from_millis(1));
    }
}

fn count(deliveries: &[Value], status: &str) -> usize {
    deliveries.iter().filter(|delivery| delivery["status"] == status).count()
}

async fn metric(app: &TestApp, line_start: &str) -> f64 {
    let text = app.local().get("/metrics").send().await.text;
    let line = text.lines().find(|line| line.starts_with(line_start));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_full_queue_drops_its_oldest_deliveries() {
    with_setup(unlimited().with("webhooks.max_pending_per_tenant", 10), async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({"events": ["api_key.created"]})).await;
        endpoint.ask("pause").await.ok(200);
        happen(app, &tenant, "event", 25).await;
        endpoint.until_all(25, "pending").await;
        let shed = metric(app, "tenantd_webhook_deliveries_shed_total").await;
        app.advance(Duration::from_mins(1));
        let found = endpoint.until(|found| count(found, "expired") == 15).await;
        assert_eq!(count(&found, "pending"), 10);
        assert!(found[..10].iter().all(|delivery| delivery["status"] == "pending"), "the newest stay");
        let health = endpoint.read().await["health"].clone();
        assert_eq!((&health["pending"], &health["shed"]), (&json!(10), &json!(15)));
        assert_eq!(endpoint.stats("24h").await["expired"], 15);
        let counted = async { while metric(app, "tenantd_webhook_deliveries_shed_total").await < shed + 15.0 {} };
        tokio::time::timeout(Duration::from_secs(10), counted).await.expect("the metric does not count what was given up");
        endpoint.ask("resume").await.ok(200);
        endpoint.until(|found| count(found, "delivered") == 10).await;
        let replay = json!({"from_seq": 1, "only": "failed"});
        endpoint.admin.post(&format!("{}/replay", endpoint.path)).json(replay).send().await.ok(202);
        endpoint.until_all(25, "delivered").await;
    })
    .await;
}

#[tokio::test]
async fn deliveries_are_removed_with_their_events() {
    with_setup(unlimited().with("events.retention_days", 2), async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let more = json!({"ordering": "per_resource", "events": ["api_key.*"]});
        let endpoint = Endpoint::new(&tenant, &receiver.url(), more).await;
        let (_, key) = tenant.new_key("delivered", &["*"]).await;
        receiver.next().await;
        endpoint.until_all(1, "delivered").await;
        endpoint.ask("pause").await.ok(200);
        let path = format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
        for name in ["second", "third"] {
            endpoint.admin.put(&path).json(json!({"name": name})).send().await.ok(200);
        }
        endpoint.until(|found| count(found, "pending") == 2).await;
        // The log removes events by segment, once all readers have passed them. Cursors are saved periodically.
        tenant.fill_log(app, (1 << 16) + (1 << 13)).await;
        let store = &app.running().app.store;
        let consumers = tenantd::app::consumers();
        let behind =
            || store.read(|tx| Ok::<_, StoreError>(consumers.iter().any(|name| events::cursor(tx, name).unwrap() < 1 << 16)));
        let read = async {
            while behind().unwrap() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(3), read).await.expect("the log is not read");
        app.advance(3 * DAY);
        let gone = async {
            while store.read(events::first_kept).unwrap() == 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(3), gone).await.expect("the first segment stays");
        // The dispatcher checks once a minute, and may have started just before the segment was removed.
        let swept = async {
            while !endpoint.deliveries().await.is_empty() {
                app.advance(Duration::from_mins(1));
            }
        };
        tokio::time::timeout(Duration::from_secs(30), swept).await.expect("deliveries outlive their events");
        assert_eq!(endpoint.read().await["health"]["pending"], 0);
        endpoint.ask("resume").await.ok(200);
        endpoint.admin.put(&path).json(json!({"name": "fourth"})).send().await.ok(200);
        assert_eq!(receiver.next().await.json()["data"]["api_key"]["name"], "fourth");
        endpoint.until_all(1, "delivered").await;
    })
    .await;
}

#[tokio::test]
async fn five_days_of_failures_disable_an_endpoint() {
    with_app(async |app| {
        let healthy = Arc::new(AtomicBool::new(false));
        let is_healthy = healthy.clone();
        let receiver = Receiver::start(move |_, _| Script::status(if is_healthy.load(Ordering::SeqCst) { 200 } else { 503 })).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        let started = app.now();
        happen(app, &tenant, "event", 22).await;
        // With an open breaker each hour has at most one probe, and the oldest untried event goes first.
        let tried = |found: &[Value]| found.iter().filter(|delivery| delivery["attempt_count"] != 0).count();
        let mut attempts = 0;
        while tried(&endpoint.deliveries().await) < 22 {
            app.advance(Duration::from_hours(1));
            receiver.next().await;
            attempts += 1;
            let recorded = async { while endpoint.stats("7d").await["attempts"].as_u64().unwrap() < attempts {} };
            tokio::time::timeout(Duration::from_secs(10), recorded).await.expect("an attempt is not recorded");
            assert_eq!(endpoint.read().await["status"], "active", "{attempts} attempts in {:?}", app.now().since(started));
        }
        assert!(app.now().since(started) < 4 * DAY);
        app.advance(5 * DAY);
        receiver.next().await;
        let found = endpoint.until(|found| count(found, "skipped") + count(found, "exhausted") == 22).await;
        assert!(found.iter().any(|delivery| delivery["skipped_reason"] == "failures"));
        let webhook = endpoint.read().await;
        assert_eq!((&webhook["status"], &webhook["disabled_reason"]), (&json!("disabled"), &json!("failures")));
        assert_eq!(webhook["health"]["pending"], 0);
        let feed = endpoint.admin.get("/api/events?types=webhook.disabled").send().await.ok(200)["data"].clone();
        assert_eq!(feed.as_array().unwrap().len(), 1);
        assert_eq!(feed[0]["data"]["webhook"]["disabled_reason"], "failures");
        tenant.new_key("missed", &["*"]).await;
        endpoint.until(|found| found.len() == 23 && found[0]["status"] == "skipped").await;
        healthy.store(true, Ordering::SeqCst);
        let enabled = endpoint.ask("enable").await.ok(200).clone();
        assert_eq!((&enabled["status"], &enabled["health"]["state"]), (&json!("active"), &json!("healthy")));
        for only in ["missing", "failed"] {
            let body = json!({"since": started, "only": only});
            endpoint.admin.post(&format!("{}/replay", endpoint.path)).json(body).send().await.ok(202);
        }
        endpoint.until(|found| count(&found[..23], "delivered") == 23).await;
    })
    .await;
}

#[tokio::test]
async fn a_rate_limit_holds_in_every_second() {
    with_app(async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({"rate_limit_per_second": 2})).await;
        for number in 0..6 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
        }
        let attempted = |found: &[Value]| found.iter().filter(|delivery| delivery["attempt_count"] == 1).count();
        let started = app.now();
        for expected in [2, 4, 6] {
            endpoint.until(|found| attempted(found) == expected).await;
            assert_eq!(endpoint.read().await["health"]["pending"], 6 - expected);
            app.advance(Duration::from_secs(1));
            app.advance(Duration::from_millis(1));
        }
        let mut starts = Vec::new();
        for delivery in endpoint.until_all(6, "delivered").await {
            starts.push(Timestamp::parse(endpoint.attempts(&delivery).await[0]["started_at"].as_str().unwrap()).unwrap());
        }
        starts.sort();
        let after: Vec<u128> = starts.iter().map(|start| start.since(started).as_millis()).collect();
        assert_eq!(after, [0, 0, 1001, 1001, 2002, 2002]);
    })
    .await;
}

#[tokio::test]
async fn deliveries_are_truncated_at_256_kib() {
    with_app(async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({"events": ["ticket.created"]})).await;
        let organization = tenant.organization("North").await;
        let fields: serde_json::Map<String, Value> =
            (0..45).map(|number| (format!("field_{number}"), json!("ü".repeat(4096)))).collect();
        let body = json!({"subject": "Large", "organization_id": organization, "custom_fields": fields});
        endpoint.admin.post("/api/psa/tickets").json(body).send().await.ok(201);
        let received = receiver.next().await;
        assert!(received.body.len() <= 256 << 10, "{}", received.body.len());
        let sent = received.json();
        assert_eq!((&sent["data_truncated"], &sent["data"]["ticket"]["subject"]), (&json!(true), &json!("Large")));
        assert_eq!(sent["data"]["ticket"]["custom_fields"]["field_3"], "ü".repeat(1024));
        let whole = endpoint.admin.get(sent["data_url"].as_str().unwrap()).send().await.ok(200).clone();
        assert_eq!((&whole["id"], whole.get("data_truncated")), (&sent["id"], None));
        assert_eq!(whole["data"]["ticket"]["custom_fields"], Value::Object(fields));
        let pulled = endpoint.admin.get("/api/events?types=ticket.created").send().await.ok(200)["data"][0].clone();
        assert_eq!(pulled, whole, "the feed is complete");
        let stranger = tenant.key(&["events:read"]).await;
        assert_eq!(stranger.get(sent["data_url"].as_str().unwrap()).send().await.problem(404), "not_found");
        assert_eq!(endpoint.admin.get("/api/events/999999").send().await.problem(404), "not_found");
        assert_eq!(endpoint.admin.get("/api/events/0").send().await.problem(422), "validation_failed");
        endpoint.until_all(1, "delivered").await;
    })
    .await;
}

#[tokio::test]
async fn tenants_take_turns() {
    with_setup(unlimited().with("webhooks.in_flight", 1), async |app| {
        let permits = Arc::new(Semaphore::new(0));
        let script = Script::Held(200, permits.clone());
        let receiver = Receiver::start(move |_, _| script.clone()).await;
        let (busy, modest) = (app.evaluation_tenant("busy").await, app.evaluation_tenant("modest").await);
        let first = Endpoint::new(&busy, &receiver.url(), json!({})).await;
        let second = Endpoint::new(&modest, &receiver.url(), json!({})).await;
        for number in 0..20 {
            busy.new_key(&format!("busy {number}"), &["*"]).await;
        }
        for number in 0..2 {
            modest.new_key(&format!("modest {number}"), &["*"]).await;
        }
        let all_wait = async { while second.read().await["health"]["pending"] != 2 {} };
        tokio::time::timeout(Duration::from_secs(10), all_wait).await.expect("the events of the second are not seen");
        permits.add_permits(100);
        let mut order = Vec::new();
        for _ in 0..22 {
            order.push(receiver.next().await.json()["tenant_id"].as_str().unwrap().to_owned());
        }
        let places: Vec<usize> = (0..22).filter(|place| order[*place] == modest.id).collect();
        assert!(places.len() == 2 && places[1] <= 4, "the modest tenant's places are {places:?}");
        first.until_all(20, "delivered").await;
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_sends_nothing_twice() {
    let permits = Arc::new(Semaphore::new(0));
    let script = Script::Held(200, permits.clone());
    let receiver = Receiver::start(move |_, _| script.clone()).await;
    let start = Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &unlimited(), start).await;
    let (id, key) = {
        let tenant = app.evaluation_tenant("acme").await;
        let (_, key) = tenant.new_key("admin", &["*"]).await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        tenant.new_key("event", &["*"]).await;
        (endpoint.path, key["key"].as_str().unwrap().to_owned())
    };
    receiver.next().await;
    let address = app.running().addresses.api;
    let answer = async {
        // The server accepts no more connections: it is shutting down.
        while TcpStream::connect(address).await.is_ok() {}
        permits.add_permits(1);
    };
    let ((directory, now), ()) = tokio::join!(app.stop(), answer);
    let app = TestApp::start(directory, &unlimited(), now + DAY).await;
    let endpoint = Endpoint { admin: app.anonymous().bearer(&key), path: id };
    endpoint.until_all(1, "delivered").await;
    drop(app.stop().await);
    assert!(receiver.is_quiet().await, "what was answered is not sent again");
}

#[tokio::test]
async fn overdue_deliveries_degrade_the_status() {
    with_app(async |app| {
        let permits = Arc::new(Semaphore::new(0));
        let script = Script::Held(200, permits.clone());
        let receiver = Receiver::start(move |_, _| script.clone()).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({"timeout_seconds": 60})).await;
        for number in 0..8 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
        }
        for _ in 0..4 {
            receiver.next().await;
        }
        // The dispatcher checks itself at least once a minute.
        let until = async |state: &str| {
            let asking = async {
                while app.status("webhooks").await.1 != state {
                    app.advance(Duration::from_secs(30));
                }
            };
            let in_time = tokio::time::timeout(Duration::from_secs(20), asking).await;
            in_time.unwrap_or_else(|_| panic!("the status does not become {state}"));
        };
        let started = app.now();
        until("degraded").await;
        assert!(app.now().since(started) > Duration::from_mins(5));
        assert_eq!(app.status("webhooks").await.0, "degraded");
        let text = app.local().get("/metrics").send().await.text;
        for name in ["queue_depth", "oldest_due_seconds", "in_flight"] {
            assert!(text.contains(&format!("tenantd_webhook_{name} ")), "{name} is missing");
        }
        assert!(text.contains("tenantd_consumer_lag_events{consumer=\"webhooks\"}"));
        let delivered = metric(app, "tenantd_webhook_attempts_total{outcome=\"delivered\"}").await;
        permits.add_permits(8);
        endpoint.until_all(8, "delivered").await;
        assert!(metric(app, "tenantd_webhook_attempts_total{outcome=\"delivered\"}").await >= delivered + 8.0);
        until("operational").await;
    })
    .await;
}

/// How much of a quota the tenant of an endpoint uses.
async fn used(endpoint: &Endpoint, quota: &str) -> u64 {
    let reply = endpoint.admin.get("/api/admin/quotas").send().await;
    let quotas = reply.ok(200)["quotas"].as_array().unwrap().clone();
    quotas.iter().find(|row| row["quota"] == quota).unwrap()["used"].as_u64().unwrap()
}

#[tokio::test]
async fn a_tenant_at_its_quota_can_only_stop_endpoints() {
    with_setup(unlimited(), async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({"events": ["ticket.created"]})).await;
        // Operations that stop something may use ten percent more.
        happen(app, &tenant, "event", 60).await;
        let limit = json!({"events_per_day": used(&endpoint, "events_per_day").await});
        let path = format!("/api/platform/tenants/{}/quotas", tenant.id);
        app.operator().await.put(&path).json(limit).send().await.ok(200);
        assert_eq!(endpoint.ask("test").await.problem(403), "quota_exceeded");
        assert_eq!(endpoint.ask("pause").await.ok(200)["status"], "paused");
        assert_eq!(endpoint.ask("resume").await.problem(403), "quota_exceeded");
        let disabled = endpoint.admin.put(&endpoint.path).json(json!({"status": "disabled"})).send().await;
        assert_eq!(disabled.ok(200)["status"], "disabled");
        assert_eq!(endpoint.ask("enable").await.problem(403), "quota_exceeded");
        endpoint.admin.delete(&endpoint.path).send().await.ok(204);
    })
    .await;
}

#[tokio::test]
async fn deliveries_and_their_attempts_count_as_stored_bytes() {
    with_setup(unlimited(), async |app| {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n{}", "x".repeat(4_000));
        let receiver = Receiver::start(move |_, _| Script::raw(&answer)).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        tenant.new_key("event", &["*"]).await;
        let delivery = endpoint.until_attempts(1).await;
        let before = used(&endpoint, "stored_bytes").await;
        let path = format!("{}/deliveries/{}/redeliver", endpoint.path, delivery["id"].as_str().unwrap());
        endpoint.admin.post(&path).send().await.ok(202);
        endpoint.until_attempts(2).await;
        let grown = used(&endpoint, "stored_bytes").await.saturating_sub(before);
        assert!((4_000..8_000).contains(&grown), "{grown}");
        let checked = app.local().post("/internal/admin/check").send().await;
        assert_eq!(checked.ok(200)["clean"], true, "{}", checked.text);
    })
    .await;
}
