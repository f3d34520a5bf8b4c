//! Responses of receivers and their effects: every class of status, invalid responses, hints, the schedule, the breaker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::Notify;

use tenantd_base::clock::Timestamp;

use crate::harness::{Endpoint, Receiver, Script, TestApp, with_app};

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
async fn only_2xx_is_a_success() {
    with_app(async |app| {
        let elsewhere = Receiver::always(200).await;
        for status in [
            200, 201, 202, 204, 206, 226, 299, 300, 301, 302, 303, 304, 305, 307, 308, 399, 400, 401, 402, 403, 404, 405, 408, 409,
            413, 418, 422, 425, 429, 451, 499, 500, 501, 502, 503, 504, 511, 599, 600, 999,
        ] {
            let script = Script::with_header(status, &format!("location: {}", elsewhere.url()));
            let (_, delivery, attempt) = outcome(app, &format!("status-{status}"), script, json!({})).await;
            let delivered = (200..300).contains(&status);
            assert_eq!(delivery["status"], if delivered { "delivered" } else { "retrying" }, "{status}");
            assert_eq!((&attempt["status"], &attempt["number"], &attempt["trigger"]), (&json!(status), &json!(1), &json!("auto")));
            assert_eq!(attempt["next_attempt_at"].is_string(), !delivered, "{status}");
        }
        assert_eq!(elsewhere.connections(), 0, "the target of a redirect was contacted");
    })
    .await;
}

#[tokio::test]
async fn interim_responses_and_upgrades_are_not_final() {
    with_app(async |app| {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        let then = |answer: &str| Script::raw(&format!("{interim}{answer}\r\ncontent-length: 0\r\n\r\n"));
        for (name, script, status) in [
            ("early", then("HTTP/1.1 204 Fine"), "delivered"),
            ("late", then("HTTP/1.1 500 Broken"), "retrying"),
            ("upgrade", Script::raw("HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"), "retrying"),
        ] {
            let (_, delivery, attempt) = outcome(app, name, script, json!({})).await;
            assert_eq!(delivery["status"], status, "{name}: {attempt}");
        }
    })
    .await;
}

#[tokio::test]
async fn broken_responses_are_distinguished() {
    with_app(async |app| {
        let long = [b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec(), vec![b'y'; 100_000]].concat();
        let cases = [
            ("close", Script::Close, Some("reset"), None),
            ("reset", Script::Reset, Some("reset"), None),
            ("half a head", Script::raw("HTTP/1.1 200 O"), Some("reset"), None),
            ("half a body", Script::raw("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"), Some("reset"), None),
            ("garbage", Script::raw("SSH-2.0-OpenSSH\r\n"), Some("protocol"), None),
            (
                "two lengths",
                Script::raw("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
                Some("protocol"),
                None,
            ),
            ("old", Script::raw("HTTP/1.0 200 OK\r\n\r\nfine"), None, Some(200)),
            ("old and failing", Script::raw("HTTP/1.0 503 Busy\r\n\r\n"), None, Some(503)),
            ("silence", Script::Silence, Some("timeout"), None),
            ("long", Script::Raw(long), None, Some(200)),
        ];
        for (name, script, error, status) in cases {
            let slug = name.replace(' ', "-");
            let (_, delivery, attempt) = outcome(app, &slug, script, json!({"timeout_seconds": 1})).await;
            assert_eq!((attempt["error"].as_str(), attempt["status"].as_u64()), (error, status), "{name}: {attempt}");
            assert_eq!(delivery["status"], if status == Some(200) { "delivered" } else { "retrying" }, "{name}");
            if name == "long" {
                assert_eq!(attempt["response_body"].as_str().unwrap().len(), 4096);
                assert_eq!(attempt["response_body_truncated"], true);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_slow_response_ends_with_the_attempt() {
    with_app(async |app| {
        let drops = Arc::new(Notify::new());
        let script = Script::Drip(drops.clone());
        let receiver = Receiver::start(move |_, _| script.clone()).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({"timeout_seconds": 1})).await;
        tenant.new_key("event", &["*"]).await;
        receiver.next().await;
        // The receiver sends one byte after each check of the test.
        let attempted = |found: &[Value]| {
            drops.notify_one();
            found.first().is_some_and(|first| first["attempt_count"] == 1)
        };
        let delivery = endpoint.until(attempted).await[0].clone();
        let attempt = endpoint.attempts(&delivery).await[0].clone();
        assert_eq!((&delivery["status"], &attempt["error"]), (&json!("retrying"), &json!("timeout")), "{attempt}");
        assert!((1000..5000).contains(&attempt["total_ms"].as_u64().unwrap()), "{attempt}");
    })
    .await;
}

#[tokio::test]
async fn only_the_start_of_a_huge_response_is_read() {
    with_app(async |app| {
        let taken = Arc::new(AtomicUsize::new(0));
        let (_, delivery, attempt) = outcome(app, "acme", Script::Flood(taken.clone()), json!({})).await;
        assert_eq!((&delivery["status"], &attempt["response_body_truncated"]), (&json!("delivered"), &json!(true)));
        assert_eq!(attempt["response_body"].as_str().unwrap().len(), 4096);
        // The socket buffers of both sides come in addition to the bytes that were read.
        assert!(taken.load(Ordering::SeqCst) < 16 << 20, "{} bytes were taken", taken.load(Ordering::SeqCst));
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
async fn retry_after_never_shortens_the_wait() {
    with_app(async |app| {
        let now = app.now();
        let cases = [
            ("seconds", 503, "600", 600, 600),
            ("date", 429, "Thu, 01 Jan 2026 01:00:00 GMT", 3600, 3600),
            ("far", 429, "Fri, 01 Jan 2100 01:00:00 GMT", 86_400, 86_400),
            ("past", 503, "Wed, 01 Jan 2025 00:00:00 GMT", 5, 6),
            ("garbage", 502, "soon", 5, 6),
            ("negative", 503, "-600", 5, 6),
            ("fraction", 503, "600.5", 5, 6),
            ("overflow", 503, "99999999999999999999999999", 86_400, 86_400),
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

/// Moves the clock to just before the delivery's next attempt, and then to it. A second endpoint shows when the dispatcher has
/// checked the time.
async fn next_attempt(app: &TestApp, receiver: &Receiver, endpoint: &Endpoint, beat: &(Endpoint, Receiver), done: u64) -> Value {
    const MOMENT: Duration = Duration::from_millis(1);
    let delivery = endpoint.until_attempts(done).await;
    let next = Timestamp::parse(delivery["next_attempt_at"].as_str().unwrap()).unwrap();
    app.advance((next - MOMENT).since(app.now()));
    beat.0.admin.put(&beat.0.path).json(json!({"description": format!("{done}")})).send().await.ok(200);
    beat.1.next().await;
    assert!(receiver.is_quiet().await, "attempt {} came early", done + 1);
    app.advance(MOMENT);
    receiver.next().await;
    endpoint.until_attempts(done + 1).await
}

#[tokio::test]
async fn retries_follow_their_schedule_exactly() {
    const HOUR: u64 = 3600;
    let standard = [5, 30, 300, 1800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
    let long = [&standard[..], &[24 * HOUR, 24 * HOUR, 44 * HOUR]].concat();
    let fast = vec![5, 10, 15, 30, 60, 120, 300, 360];
    for (schedule, bases) in [("standard", standard.to_vec()), ("fast", fast), ("long", long)] {
        with_app(async |app| keep_schedule(app, schedule, &bases).await).await;
    }
}

async fn keep_schedule(app: &TestApp, schedule: &str, bases: &[u64]) {
    let receiver = Receiver::always(500).await;
    let tenant = app.evaluation_tenant("acme").await;
    let beats = Receiver::always(200).await;
    let beat = (Endpoint::new(&tenant, &beats.url(), json!({"events": ["webhook.updated"]})).await, beats);
    let endpoint = Endpoint::of(beat.0.admin.clone(), &receiver.url(), json!({"retry": schedule})).await;
    tenant.new_key("event", &["*"]).await;
    let id = receiver.next().await.header("webhook-id").to_owned();
    let mut delivery = Value::Null;
    for done in 1..=bases.len() {
        delivery = next_attempt(app, &receiver, &endpoint, &beat, done as u64).await;
    }
    assert_eq!((&delivery["status"], &delivery["attempt_count"]), (&json!("exhausted"), &json!(bases.len() + 1)), "{schedule}");
    assert_eq!(delivery["event_id"], id);
    let attempts = endpoint.attempts(&delivery).await;
    let starts: Vec<Timestamp> =
        attempts.iter().map(|attempt| Timestamp::parse(attempt["started_at"].as_str().unwrap()).unwrap()).collect();
    assert_eq!(starts.len(), bases.len() + 1, "{schedule}");
    for (pair, base) in starts.windows(2).zip(bases) {
        let wait = u64::try_from(pair[1].since(pair[0]).as_millis()).unwrap();
        assert!(wait >= base * 1000 && wait <= base * 1150, "{schedule}: {wait} ms after {base} s");
    }
    assert_eq!(attempts[6]["trigger"], "probe", "after five failures in a row every attempt is a probe");
    assert_eq!(endpoint.read().await["health"]["state"], "failing");
    app.advance(Duration::from_hours(24));
    beat.0.admin.put(&beat.0.path).json(json!({"description": "over"})).send().await.ok(200);
    beat.1.next().await;
    assert!(receiver.is_quiet().await, "{schedule}: an attempt came after the last");
}

#[tokio::test]
async fn an_open_breaker_sends_one_probe_at_a_time() {
    with_app(async |app| {
        let healthy = Arc::new(AtomicBool::new(false));
        let is_healthy = healthy.clone();
        let receiver = Receiver::start(move |_, _| Script::status(if is_healthy.load(Ordering::SeqCst) { 200 } else { 500 })).await;
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
        healthy.store(true, Ordering::SeqCst);
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

#[tokio::test]
async fn each_failed_probe_doubles_the_wait() {
    with_app(async |app| {
        let receiver = Receiver::always(500).await;
        let tenant = app.evaluation_tenant("acme").await;
        let beats = Receiver::always(200).await;
        let beat = Endpoint::new(&tenant, &beats.url(), json!({"events": ["webhook.updated"]})).await;
        let endpoint = Endpoint::of(beat.admin.clone(), &receiver.url(), json!({})).await;
        for number in 0..5 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
            receiver.next().await;
            endpoint.until_attempts(1).await;
        }
        for number in 5..12 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
        }
        endpoint.until(|found| found.len() == 12).await;
        // What the dispatcher checks after this, it checks with the new time.
        let look = async |word: String| {
            beat.admin.put(&beat.path).json(json!({"description": word})).send().await.ok(200);
            beats.next().await;
        };
        for (probes, wait) in [30, 60, 120, 240, 480].into_iter().enumerate() {
            app.advance(Duration::from_secs(wait - 1));
            look(format!("before {wait}")).await;
            assert!(receiver.is_quiet().await, "a probe came before {wait} s");
            app.advance(Duration::from_secs(1));
            receiver.next().await;
            let attempts = |found: &[Value]| found.iter().map(|one| one["attempt_count"].as_u64().unwrap()).sum::<u64>();
            let found = endpoint.until(|found| attempts(found) == 6 + probes as u64).await;
            let untried = found.iter().filter(|delivery| delivery["attempt_count"] == 0).count();
            assert_eq!(untried, 7 - probes - 1, "what was deferred has lost no attempt, and the oldest untried goes first");
            look(format!("after {wait}")).await;
            assert!(receiver.is_quiet().await, "two probes came after {wait} s");
        }
    })
    .await;
}
