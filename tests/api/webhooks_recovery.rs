//! A receiver that works again, and an endpoint that is resumed: queued deliveries are sent immediately and in order.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};

use crate::harness::{Endpoint, Receiver, Reply, Script, TestApp, with_app};

/// An endpoint with an open breaker: five deliveries have failed, three were never tried.
struct Failing {
    is_healthy: Arc<AtomicBool>,
    receiver: Receiver,
    endpoint: Endpoint,
}

impl Failing {
    async fn new(app: &TestApp, slug: &str) -> Self {
        let is_healthy = Arc::new(AtomicBool::new(false));
        let healthy = is_healthy.clone();
        let receiver = Receiver::start(move |_, _| Script::status(if healthy.load(Ordering::SeqCst) { 200 } else { 500 })).await;
        let tenant = app.evaluation_tenant(slug).await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        for number in 0..5 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
            receiver.next().await;
            endpoint.until_attempts(1).await;
        }
        for number in 5..8 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
        }
        endpoint.until(|found| found.len() == 8).await;
        assert!(receiver.is_quiet().await, "nothing is sent while the breaker is open");
        Self { is_healthy, receiver, endpoint }
    }

    fn repair(&self) {
        self.is_healthy.store(true, Ordering::SeqCst);
    }

    async fn redeliver(&self, delivery: &Value) -> Reply {
        let path = format!("{}/deliveries/{}/redeliver", self.endpoint.path, delivery["id"].as_str().unwrap());
        self.endpoint.admin.post(&path).send().await
    }

    /// The clock does not move, so deliveries with a scheduled retry keep waiting. Untried ones are delivered.
    async fn until_untried_are_delivered(&self) {
        self.endpoint.until(|found| found[..3].iter().all(|delivery| delivery["status"] == "delivered")).await;
        assert_eq!(self.endpoint.read().await["health"]["state"], "healthy");
    }
}

#[tokio::test]
async fn a_successful_redelivery_closes_the_breaker() {
    with_app(async |app| {
        let failing = Failing::new(app, "acme").await;
        let delivery = failing.endpoint.deliveries().await[7].clone();
        failing.redeliver(&delivery).await.ok(202);
        assert_eq!(failing.receiver.next().await.header("webhook-id"), delivery["event_id"].as_str().unwrap());
        failing.endpoint.until(|found| found[7]["attempt_count"] == 2).await;
        assert_eq!(failing.endpoint.read().await["health"]["consecutive_failures"], 6);
        assert!(failing.receiver.is_quiet().await, "after a failure the breaker stays open for all others");
        failing.repair();
        failing.redeliver(&delivery).await.ok(202);
        assert_eq!(failing.receiver.next().await.header("webhook-id"), delivery["event_id"].as_str().unwrap());
        failing.until_untried_are_delivered().await;
        let attempts = failing.endpoint.attempts(&delivery).await;
        let triggers: Vec<&str> = attempts.iter().map(|attempt| attempt["trigger"].as_str().unwrap()).collect();
        assert_eq!(triggers, ["auto", "manual", "manual"]);
    })
    .await;
}

#[tokio::test]
async fn a_redelivery_while_paused_waits_for_the_resume() {
    with_app(async |app| {
        let failing = Failing::new(app, "acme").await;
        failing.endpoint.ask("pause").await.ok(200);
        app.advance(std::time::Duration::from_mins(1));
        let delivery = failing.endpoint.deliveries().await[0].clone();
        failing.redeliver(&delivery).await.ok(202);
        failing.repair();
        failing.endpoint.ask("resume").await.ok(200);
        failing.endpoint.until_all(8, "delivered").await;
        assert_eq!(failing.endpoint.attempts(&delivery).await[0]["trigger"], "manual");
    })
    .await;
}

#[tokio::test]
async fn only_a_successful_test_ends_the_wait() {
    with_app(async |app| {
        let failing = Failing::new(app, "acme").await;
        assert_eq!(failing.endpoint.ask("test").await.ok(200)["status"], 500);
        assert_eq!(failing.receiver.next().await.json()["type"], "webhook.test");
        assert!(failing.receiver.is_quiet().await);
        failing.repair();
        assert_eq!(failing.endpoint.ask("test").await.ok(200)["trigger"], "test");
        let tests = |found: &[Value]| found.iter().filter(|delivery| delivery["type"] == "webhook.test").count();
        let delivered = |found: &[Value]| found.iter().filter(|delivery| delivery["status"] == "delivered").count();
        failing.endpoint.until(|found| tests(found) == 2 && delivered(found) == 4).await;
        assert_eq!(failing.endpoint.read().await["health"]["state"], "healthy");
    })
    .await;
}

#[tokio::test]
async fn resume_enable_and_a_new_url_end_the_wait() {
    with_app(async |app| {
        let failing = Failing::new(app, "resumed").await;
        failing.repair();
        failing.endpoint.ask("pause").await.ok(200);
        failing.endpoint.ask("resume").await.ok(200);
        failing.until_untried_are_delivered().await;
        let failing = Failing::new(app, "enabled").await;
        failing.repair();
        failing.endpoint.ask("enable").await.ok(200);
        failing.until_untried_are_delivered().await;
        let failing = Failing::new(app, "moved").await;
        let elsewhere = Receiver::always(200).await;
        let change = |url: String| failing.endpoint.admin.put(&failing.endpoint.path).json(json!({"url": url})).send();
        change(failing.receiver.url()).await.ok(200);
        assert_eq!(failing.endpoint.read().await["health"]["state"], "failing", "the same URL changes nothing");
        change(elsewhere.url()).await.ok(200);
        failing.until_untried_are_delivered().await;
        assert!(failing.receiver.is_quiet().await);
    })
    .await;
}

#[tokio::test]
async fn the_replay_offer_sends_missed_events_once() {
    with_app(async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        let set =
            async |status: &str| endpoint.admin.put(&endpoint.path).json(json!({"status": status})).send().await.ok(200).clone();
        set("disabled").await;
        for number in 0..3 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
        }
        endpoint.until_all(3, "skipped").await;
        let missed = set("active").await["missed"].clone();
        assert_eq!((&missed["events"], &missed["more"]), (&json!(3), &json!(false)));
        assert!(set("active").await.get("missed").is_none(), "it was active before");
        let replay = endpoint.admin.post(missed["replay"]["path"].as_str().unwrap()).json(missed["replay"]["body"].clone());
        replay.send().await.ok(202);
        endpoint.until_all(3, "delivered").await;
        set("disabled").await;
        assert!(endpoint.ask("enable").await.ok(200).get("missed").is_none(), "nothing is missing any more");
    })
    .await;
}
