//! What a receiver can answer, and what follows from it: every class of status, broken answers, hints, the schedule, the breaker.

use std::time::Duration;

use serde_json::{Value, json};
use tenantd::kernel::clock::Timestamp;

use crate::harness::{Actor, Receiver, Script, Tenant, TestApp, with_app};

const PATH: &str = "/api/admin/webhooks";

/// An endpoint of a tenant of its own, and who may look at it.
pub struct Endpoint {
    pub admin: Actor,
    pub path: String,
}

impl Endpoint {
    pub async fn new(tenant: &Tenant<'_>, url: &str, more: Value) -> Self {
        let admin = tenant.key(&["*"]).await;
        let mut body = json!({"name": "Test", "url": url, "events": ["api_key.created"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let created = admin.post(PATH).json(body).send().await;
        let path = format!("{PATH}/{}", created.ok(201)["id"].as_str().unwrap());
        Self { admin, path }
    }

    pub async fn read(&self) -> Value {
        self.admin.get(&self.path).send().await.ok(200).clone()
    }

    pub async fn deliveries(&self) -> Vec<Value> {
        self.admin.get(&format!("{}/deliveries", self.path)).send().await.ok(200)["data"].as_array().unwrap().clone()
    }

    pub async fn attempts(&self, delivery: &Value) -> Vec<Value> {
        let path = format!("{}/deliveries/{}", self.path, delivery["id"].as_str().unwrap());
        self.admin.get(&path).send().await.ok(200)["attempts"].as_array().unwrap().clone()
    }

    /// Asks until the deliveries are as wanted: what is written down comes after what was received.
    pub async fn until(&self, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let asking = async {
            loop {
                let found = self.deliveries().await;
                if wanted(&found) {
                    return found;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), asking).await.expect("the deliveries did not become what they should")
    }

    pub async fn until_attempts(&self, count: u64) -> Value {
        self.until(|found| found.first().is_some_and(|first| first["attempt_count"] == count)).await[0].clone()
    }
}

async fn outcome(app: &TestApp, slug: &str, script: Script, more: Value) -> (Endpoint, Value, Value) {
    let receiver = Receiver::start(move |_, _| script.clone()).await;
    let tenant = app.evaluation_tenant(slug).await;
    let endpoint = Endpoint::new(&tenant, &receiver.url(), more).await;
    tenant.new_key("event", &["*"]).await;
    receiver.next().await;
    let delivery = endpoint.until_attempts(1).await;
    let attempt = endpoint.attempts(&delivery).await[0].clone();
    (endpoint, delivery, attempt)
}

#[tokio::test]
async fn only_2xx_is_a_success_and_redirects_are_not_followed() {
    with_app(async |app| {
        let elsewhere = Receiver::always(200).await;
        for status in [200, 204, 299, 301, 302, 307, 308, 400, 401, 404, 429, 500, 503] {
            let script = Script::with_header(status, &format!("location: {}", elsewhere.url()));
            let (_, delivery, attempt) = outcome(app, &format!("status-{status}"), script, json!({})).await;
            let delivered = (200..300).contains(&status);
            assert_eq!(delivery["status"], if delivered { "delivered" } else { "retrying" }, "{status}");
            assert_eq!((&attempt["status"], &attempt["number"], &attempt["trigger"]), (&json!(status), &json!(1), &json!("auto")));
            assert_eq!(attempt["next_attempt_at"].is_string(), !delivered, "{status}");
        }
        assert!(elsewhere.is_quiet().await, "the target of a redirect was contacted");
    })
    .await;
}

#[tokio::test]
async fn broken_answers_are_told_apart() {
    with_app(async |app| {
        let long = [b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec(), vec![b'y'; 100_000]].concat();
        let cases = [
            ("close", Script::Close, Some("reset"), None),
            ("garbage", Script::Raw(b"SSH-2.0-OpenSSH\r\n".to_vec()), Some("protocol"), None),
            ("old", Script::Raw(b"HTTP/1.0 200 OK\r\n\r\nfine".to_vec()), None, Some(200)),
            ("silence", Script::Silence, Some("timeout"), None),
            ("drip", Script::Drip, Some("timeout"), None),
            ("long", Script::Raw(long), None, Some(200)),
        ];
        for (name, script, error, status) in cases {
            let (_, delivery, attempt) = outcome(app, name, script, json!({"timeout_seconds": 1})).await;
            assert_eq!((attempt["error"].as_str(), attempt["status"].as_u64()), (error, status), "{name}: {attempt}");
            assert_eq!(delivery["status"], if error.is_some() { "retrying" } else { "delivered" }, "{name}");
            if name == "long" {
                assert_eq!(attempt["response_body"].as_str().unwrap().len(), 4096);
                assert_eq!(attempt["response_body_truncated"], true);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_receiver_can_end_a_message_or_the_endpoint() {
    with_app(async |app| {
        let (endpoint, delivery, _) = outcome(app, "gone", Script::status(410), json!({})).await;
        assert_eq!((&delivery["status"], &delivery["skipped_reason"]), (&json!("skipped"), &json!("gone")));
        let webhook = endpoint.read().await;
        assert_eq!((&webhook["status"], &webhook["disabled_reason"]), (&json!("disabled"), &json!("gone")));
        let script = Script::with_header(200, "webhook-delivery: disable");
        let (endpoint, delivery, _) = outcome(app, "disable", script, json!({})).await;
        assert_eq!(delivery["status"], "delivered");
        assert_eq!(endpoint.read().await["disabled_reason"], "receiver");
        let feed = endpoint.admin.get("/api/events?types=webhook.disabled").send().await;
        assert_eq!(feed.ok(200)["data"].as_array().unwrap().len(), 1);
        let script = Script::with_header(500, "webhook-delivery: abort-message");
        let (endpoint, delivery, _) = outcome(app, "abort", script, json!({})).await;
        assert_eq!(delivery["status"], "aborted");
        assert_eq!(endpoint.read().await["status"], "active");
    })
    .await;
}

#[tokio::test]
async fn retry_after_counts_where_it_makes_sense_and_never_shortens_the_wait() {
    with_app(async |app| {
        let now = app.now();
        let cases = [
            ("seconds", 503, "600", 600, 600),
            ("date", 429, "Thu, 01 Jan 2026 01:00:00 GMT", 3600, 3600),
            ("past", 503, "Wed, 01 Jan 2025 00:00:00 GMT", 5, 6),
            ("garbage", 502, "soon", 5, 6),
            ("short", 504, "1", 5, 6),
            ("endless", 503, "1000000000000", 86_400, 86_400),
            ("elsewhere", 500, "600", 5, 6),
        ];
        for (name, status, text, least, most) in cases {
            let script = Script::with_header(status, &format!("retry-after: {text}"));
            let (_, delivery, _) = outcome(app, name, script, json!({})).await;
            let next = Timestamp::parse(delivery["next_attempt_at"].as_str().unwrap()).unwrap();
            let wait = next.since(now).as_millis();
            assert!(wait >= least * 1000 && wait <= most * 1000, "{name}: {wait} ms");
        }
    })
    .await;
}

/// Moves the clock to the delivery's next attempt and waits for it.
async fn next_attempt(app: &TestApp, receiver: &Receiver, endpoint: &Endpoint, done: u64) -> Value {
    let delivery = endpoint.until_attempts(done).await;
    let next = Timestamp::parse(delivery["next_attempt_at"].as_str().unwrap()).unwrap();
    app.advance(next.since(app.now()));
    receiver.next().await;
    endpoint.until_attempts(done + 1).await
}

#[tokio::test]
async fn the_schedule_is_kept_to_the_attempt_and_never_early() {
    with_app(async |app| {
        const BASES: [u64; 10] = [5, 30, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];
        let receiver = Receiver::always(500).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        tenant.new_key("event", &["*"]).await;
        let id = receiver.next().await.header("webhook-id").to_owned();
        let mut delivery = Value::Null;
        for done in 1..=10 {
            delivery = next_attempt(app, &receiver, &endpoint, done).await;
        }
        assert_eq!((&delivery["status"], &delivery["attempt_count"]), (&json!("exhausted"), &json!(11)));
        assert_eq!(delivery["event_id"], id);
        let attempts = endpoint.attempts(&delivery).await;
        let starts: Vec<Timestamp> =
            attempts.iter().map(|attempt| Timestamp::parse(attempt["started_at"].as_str().unwrap()).unwrap()).collect();
        for (pair, base) in starts.windows(2).zip(BASES) {
            let wait = u64::try_from(pair[1].since(pair[0]).as_millis()).unwrap();
            assert!(wait >= base * 1000 && wait <= base * 1150, "{wait} ms after {base} s");
        }
        assert_eq!(attempts[6]["trigger"], "probe", "after five failures in a row every attempt is a probe");
        assert_eq!(endpoint.read().await["health"]["state"], "failing");
    })
    .await;
}

#[tokio::test]
async fn after_five_failures_one_probe_goes_at_a_time_and_deferral_burns_no_attempt() {
    with_app(async |app| {
        let healthy = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_healthy = healthy.clone();
        let receiver = Receiver::start(move |_, _| {
            Script::status(if is_healthy.load(std::sync::atomic::Ordering::SeqCst) { 200 } else { 500 })
        })
        .await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        for number in 0..5 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
            receiver.next().await;
            endpoint.until_attempts(1).await;
        }
        for number in 5..8 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
        }
        let found = endpoint.until(|found| found.len() == 8).await;
        assert!(found[..3].iter().all(|delivery| delivery["status"] == "pending" && delivery["attempt_count"] == 0));
        assert_eq!(endpoint.read().await["health"]["pending"], 8);
        assert!(receiver.is_quiet().await, "nothing is sent while the breaker is open");
        healthy.store(true, std::sync::atomic::Ordering::SeqCst);
        app.advance(Duration::from_secs(40));
        let found = endpoint.until(|found| found.iter().all(|delivery| delivery["status"] == "delivered")).await;
        let mut probes = 0;
        for delivery in &found {
            let attempts = endpoint.attempts(delivery).await;
            probes += attempts.iter().filter(|attempt| attempt["trigger"] == "probe").count();
        }
        assert_eq!(probes, 1, "once the probe succeeded the rest are ordinary attempts");
        let health = endpoint.read().await["health"].clone();
        assert_eq!((&health["state"], &health["pending"]), (&json!("healthy"), &json!(0)));
    })
    .await;
}
