//! Delivery flow: pausing, disabling and replaying, ordering, restarts, and isolation of endpoints.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::harness::{Endpoint, Received, Receiver, Script, Setup, TestApp, with_app};

const KEYS: &str = "/api/admin/api-keys";

fn name_of(received: &Received) -> String {
    received.json()["data"]["api_key"]["name"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_resumed_endpoint_gets_its_queue_in_order() {
    with_app(async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        endpoint.admin.post(&format!("{}/pause", endpoint.path)).send().await.ok(200);
        for number in 0..20 {
            tenant.new_key(&format!("event {number:02}"), &["*"]).await;
            app.advance(Duration::from_millis(1));
        }
        endpoint.until(|found| found.len() == 20).await;
        assert!(receiver.is_quiet().await);
        let webhook = endpoint.read().await;
        assert_eq!((&webhook["status"], &webhook["health"]["pending"]), (&json!("paused"), &json!(20)));
        assert!(webhook["health"]["oldest_pending_at"].is_string());
        endpoint.admin.post(&format!("{}/resume", endpoint.path)).send().await.ok(200);
        let mut names = Vec::new();
        for _ in 0..20 {
            names.push(name_of(&receiver.next().await));
        }
        assert!(names.is_sorted(), "{names:?}");
        endpoint.until(|found| found.iter().all(|delivery| delivery["status"] == "delivered")).await;
        assert_eq!(endpoint.read().await["health"]["pending"], 0);
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_does_not_follow_its_owner_to_more_rights() {
    with_app(async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let admin = tenant.key(&["*"]).await;
        let made = admin.post(KEYS).json(json!({"name": "weak", "scopes": ["webhooks:*"]})).send().await.ok(201).clone();
        let (key, weak) =
            (format!("{KEYS}/{}", made["id"].as_str().unwrap()), app.anonymous().bearer(made["key"].as_str().unwrap()));
        let Endpoint { path, .. } = Endpoint::of(weak, &receiver.url(), json!({"events": ["*"]})).await;
        let endpoint = Endpoint { admin, path };
        // The names of new keys that the receiver got before the event of a change.
        let names_before = async |description: &str| {
            let change = json!({"description": description});
            endpoint.admin.put(&endpoint.path).json(change).send().await.ok(200);
            let mut names = Vec::new();
            loop {
                let received = receiver.next().await;
                let body = received.json();
                match body["type"].as_str().unwrap() {
                    "api_key.created" => names.push(name_of(&received)),
                    "webhook.updated" if body["data"]["webhook"]["description"] == description => return names,
                    _ => {}
                }
            }
        };

        // The key belongs to the administrator now, and gets more rights.
        let rotated = endpoint.admin.post(&format!("{key}/rotate")).json(json!({"overlap_seconds": 0})).send().await;
        let strong = app.anonymous().bearer(rotated.ok(200)["key"].as_str().unwrap());
        endpoint.admin.put(&key).json(json!({"scopes": ["webhooks:*", "api_keys:read"]})).send().await.ok(200);
        tenant.new_key("not for the endpoint", &["*"]).await;
        assert_eq!(names_before("first").await, Vec::<String>::new());

        // A caller that sends the subscription again extends it to what they can read.
        strong.put(&endpoint.path).json(json!({"events": ["*"]})).send().await.ok(200);
        tenant.new_key("for the endpoint", &["*"]).await;
        assert_eq!(names_before("second").await, ["for the endpoint"]);
        assert!(receiver.is_quiet().await);
    })
    .await;
}

#[tokio::test]
async fn a_replay_sends_events_skipped_while_disabled() {
    with_app(async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        let disabled = endpoint.admin.put(&endpoint.path).json(json!({"status": "disabled"})).send().await;
        assert_eq!(disabled.ok(200)["disabled_reason"], "operator");
        tenant.new_key("missed", &["*"]).await;
        let found = endpoint.until(|found| found.len() == 1).await;
        assert_eq!((&found[0]["status"], &found[0]["skipped_reason"]), (&json!("skipped"), &json!("operator")));
        let paused = endpoint.admin.post(&format!("{}/pause", endpoint.path)).send().await;
        assert_eq!(paused.problem(409), "invalid_transition");
        let enabled = endpoint.admin.post(&format!("{}/enable", endpoint.path)).send().await.ok(200).clone();
        let offer = json!({
            "events": 1, "more": false, "since": found[0]["created_at"],
            "replay": {
                "method": "POST", "path": format!("{}/replay", endpoint.path),
                "body": {"from_seq": found[0]["seq"], "to_seq": found[0]["seq"], "only": "missing"},
            },
        });
        assert_eq!(enabled["missed"], offer);
        assert!(endpoint.read().await.get("missed").is_none());
        assert!(receiver.is_quiet().await);
        let body = json!({"from_seq": 1, "only": "missing", "to_seq": found[0]["seq"]});
        let replay = endpoint.admin.post(&format!("{}/replay", endpoint.path)).json(body).send().await;
        let location = replay.header("location").to_owned();
        assert!(replay.ok(202)["id"].as_str().unwrap().starts_with("op_"));
        let mut names = vec![name_of(&receiver.next().await), name_of(&receiver.next().await)];
        names.sort();
        assert_eq!(names, ["key for *", "missed"], "what happened before the endpoint was there is missing too");
        let found = endpoint.until(|found| found.iter().all(|delivery| delivery["status"] == "delivered")).await;
        assert_eq!(endpoint.attempts(&found[0]).await[0]["trigger"], "replay");
        let done = endpoint.admin.get(&location).send().await.ok(200).clone();
        assert_eq!((&done["status"], &done["progress"], &done["queued"]), (&json!("succeeded"), &json!(100), &json!(2)));
        let nowhere = endpoint.admin.post(&format!("{}/replay", endpoint.path)).json(json!({"only": "all"})).send().await;
        assert_eq!(nowhere.problem(422), "validation_failed");
    })
    .await;
}

#[tokio::test]
async fn a_redelivery_keeps_its_id() {
    with_app(async |app| {
        let receiver = Receiver::start(|number, _| Script::status(if number == 0 { 200 } else { 202 })).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        tenant.new_key("event", &["*"]).await;
        let first = receiver.next().await;
        let delivery = endpoint.until_attempts(1).await;
        let path = format!("{}/deliveries/{}/redeliver", endpoint.path, delivery["id"].as_str().unwrap());
        endpoint.admin.post(&path).send().await.ok(202);
        let second = receiver.next().await;
        assert_eq!((first.header("webhook-id"), &first.body), (second.header("webhook-id"), &second.body));
        let delivery = endpoint.until_attempts(2).await;
        let attempts = endpoint.attempts(&delivery).await;
        assert_eq!((&attempts[1]["trigger"], &attempts[1]["status"]), (&json!("manual"), &json!(202)));
        let filtered = endpoint.admin.get(&format!("{}/deliveries?status=exhausted,aborted", endpoint.path)).send().await;
        assert_eq!(filtered.ok(200)["data"], json!([]));
        let stats = endpoint.admin.get(&format!("{}/stats?range=1h", endpoint.path)).send().await.ok(200).clone();
        assert_eq!((&stats["total"]["attempts"], &stats["total"]["failed_attempts"]), (&json!(2), &json!(0)));
    })
    .await;
}

#[tokio::test]
async fn per_resource_events_are_sent_in_order() {
    with_app(async |app| {
        let receiver = Receiver::start(|number, _| Script::status(if number < 2 { 500 } else { 200 })).await;
        let tenant = app.evaluation_tenant("acme").await;
        let more = json!({"ordering": "per_resource", "events": ["api_key.*"]});
        let endpoint = Endpoint::new(&tenant, &receiver.url(), more).await;
        let (_, key) = tenant.new_key("ordered", &["*"]).await;
        let path = format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
        let kind = |received: &Received| received.json()["type"].as_str().unwrap().to_owned();
        assert_eq!(kind(&receiver.next().await), "api_key.created");
        endpoint.until(|found| found.iter().any(|delivery| delivery["status"] == "retrying")).await;
        endpoint.admin.put(&path).json(json!({"name": "second"})).send().await.ok(200);
        endpoint.admin.put(&path).json(json!({"name": "third"})).send().await.ok(200);
        endpoint.until(|found| found.len() == 3).await;
        assert!(receiver.is_quiet().await, "later events of the resource wait");
        app.advance(Duration::from_secs(6));
        assert_eq!(kind(&receiver.next().await), "api_key.created");
        endpoint.until(|found| found.iter().any(|delivery| delivery["attempt_count"] == 2)).await;
        assert!(receiver.is_quiet().await);
        app.advance(Duration::from_secs(35));
        let mut names = Vec::new();
        for _ in 0..3 {
            names.push(name_of(&receiver.next().await));
        }
        assert_eq!(names, ["ordered", "second", "third"]);
        endpoint.until(|found| found.iter().all(|delivery| delivery["status"] == "delivered")).await;
    })
    .await;
}

#[tokio::test]
async fn deliveries_continue_after_a_restart() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, start).await;
    let receiver = Receiver::start(|number, _| Script::status(if number == 0 { 500 } else { 200 })).await;
    let tenant = app.evaluation_tenant("acme").await;
    let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
    let (key, _) = tenant.new_key("event", &["*"]).await;
    let first = receiver.next().await;
    endpoint.until_attempts(1).await;
    drop(key);
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now + Duration::from_secs(6)).await;
    let again = receiver.next().await;
    assert_eq!((first.header("webhook-id"), &first.body), (again.header("webhook-id"), &again.body));
    drop(app.stop().await);
    assert!(receiver.is_quiet().await, "what was settled is not sent again");
}

#[tokio::test]
async fn a_hanging_endpoint_does_not_delay_others() {
    with_app(async |app| {
        let (hole, healthy) = (Receiver::start(|_, _| Script::Silence).await, Receiver::always(200).await);
        let (acme, globex) = (app.evaluation_tenant("acme").await, app.evaluation_tenant("globex").await);
        let stuck = Endpoint::new(&acme, &hole.url(), json!({"timeout_seconds": 2})).await;
        let other = Endpoint::new(&globex, &healthy.url(), json!({})).await;
        for number in 0..30 {
            acme.new_key(&format!("event {number}"), &["*"]).await;
        }
        for number in 0..10 {
            globex.new_key(&format!("event {number}"), &["*"]).await;
            assert_eq!(name_of(&healthy.next().await), format!("event {number}"));
        }
        let found = other.until(|found| found.len() == 10 && found.iter().all(|one| one["status"] == "delivered")).await;
        assert!(found.iter().all(|delivery| delivery["attempt_count"] == 1));
        let pending = stuck.read().await["health"]["pending"].as_u64().unwrap();
        assert!(pending >= 20, "{pending}");
        assert!(hole.next().await.json()["tenant_id"] == Value::String(acme.id.clone()));
        stuck.admin.delete(&stuck.path).send().await.ok(204);
    })
    .await;
}

#[tokio::test]
async fn a_filter_passes_what_it_names() {
    with_app(async |app| {
        let tenant = app.evaluation_tenant("acme").await;
        let (north, south) = (tenant.organization("North").await, tenant.organization("South").await);
        let (robot, record) = tenant.new_key("robot", &["*"]).await;
        let person = tenant.key(&["*"]).await;
        let mut receivers = Vec::new();
        for filter in [
            json!({"organization_ids": [north]}),
            json!({"priorities": ["critical", "low"]}),
            json!({"exclude_actor_ids": [record["id"]]}),
            json!({"organization_ids": [north], "priorities": ["critical"], "exclude_actor_ids": [record["id"]]}),
        ] {
            let receiver = Receiver::always(200).await;
            let more = json!({"events": ["ticket.*"], "filter": filter});
            receivers.push((Endpoint::of(person.clone(), &receiver.url(), more).await, receiver));
        }
        for (subject, actor, organization, level) in [
            ("a", &person, &north, "high"),
            ("b", &person, &south, "high"),
            ("c", &robot, &north, "high"),
            ("d", &person, &north, "medium"),
            ("e", &robot, &south, "low"),
        ] {
            let body = json!({"subject": subject, "organization_id": organization, "impact": level, "urgency": level});
            actor.post("/api/psa/tickets").json(body).send().await.ok(201);
        }
        for ((endpoint, receiver), expected) in receivers.iter().zip(["acd", "abce", "abd", "a"]) {
            let mut subjects = Vec::new();
            for _ in 0..expected.len() {
                subjects.push(receiver.next().await.json()["data"]["ticket"]["subject"].as_str().unwrap().to_owned());
            }
            subjects.sort();
            assert_eq!(subjects.concat(), expected);
            endpoint.until_all(expected.len(), "delivered").await;
        }
        // A change matches by the record after it.
        let change = json!({"ids": ["T-4"], "patch": {"impact": "high", "urgency": "high"}});
        person.patch("/api/psa/tickets").json(change).send().await.ok(200);
        let (endpoint, receiver) = &receivers[3];
        assert_eq!(receiver.next().await.json()["type"], "ticket.updated");
        endpoint.until_all(2, "delivered").await;
        for (_, receiver) in &receivers[..2] {
            assert_eq!(receiver.next().await.json()["data"]["ticket"]["subject"], "d");
        }
    })
    .await;
}

#[tokio::test]
async fn deleting_an_endpoint_skips_its_queue() {
    with_app(async |app| {
        let (gone, failed) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (first, others) = (Script::Held(410, gone.clone()), Script::Held(500, failed.clone()));
        let receiver = Receiver::start(move |number, _| if number == 0 { first.clone() } else { others.clone() }).await;
        let tenant = app.evaluation_tenant("acme").await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        for number in 0..12 {
            tenant.new_key(&format!("event {number}"), &["*"]).await;
        }
        for _ in 0..4 {
            receiver.next().await;
        }
        // The clock does not move, so nothing here waits for a periodic task.
        gone.add_permits(1);
        endpoint.until(|found| found.len() == 9 && found.iter().all(|delivery| delivery["status"] == "skipped")).await;
        failed.add_permits(3);
        endpoint.until_all(12, "skipped").await;
        let webhook = endpoint.read().await;
        assert_eq!((&webhook["disabled_reason"], &webhook["health"]["pending"]), (&json!("gone"), &json!(0)));
        assert_eq!(endpoint.stats("1h").await["skipped"], 12);
        assert!(receiver.is_quiet().await);
    })
    .await;
}

#[tokio::test]
async fn disabling_skips_events_queued_per_resource() {
    with_app(async |app| {
        let receiver = Receiver::always(200).await;
        let tenant = app.evaluation_tenant("acme").await;
        let more = json!({"ordering": "per_resource", "events": ["api_key.*"]});
        let endpoint = Endpoint::new(&tenant, &receiver.url(), more).await;
        endpoint.ask("pause").await.ok(200);
        let (_, key) = tenant.new_key("ordered", &["*"]).await;
        for number in 0..4 {
            let path = format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
            endpoint.admin.put(&path).json(json!({"name": format!("name {number}")})).send().await.ok(200);
        }
        endpoint.until_all(5, "pending").await;
        endpoint.admin.put(&endpoint.path).json(json!({"status": "disabled"})).send().await.ok(200);
        endpoint.until_all(5, "skipped").await;
        assert_eq!(endpoint.read().await["health"]["pending"], 0);
        assert!(receiver.is_quiet().await);
    })
    .await;
}

#[tokio::test]
async fn per_resource_order_survives_a_pause() {
    with_app(async |app| {
        let permits = Arc::new(Semaphore::new(0));
        let first = Script::Held(500, permits.clone());
        let receiver = Receiver::start(move |number, _| if number == 0 { first.clone() } else { Script::status(200) }).await;
        let tenant = app.evaluation_tenant("acme").await;
        let beats = Receiver::always(200).await;
        let beat = Endpoint::new(&tenant, &beats.url(), json!({"events": ["webhook.updated"]})).await;
        let more = json!({"ordering": "per_resource", "events": ["api_key.*"]});
        let endpoint = Endpoint::of(beat.admin.clone(), &receiver.url(), more).await;
        let (_, key) = tenant.new_key("a", &["*"]).await;
        assert_eq!(name_of(&receiver.next().await), "a");
        let path = format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
        for name in ["b", "c", "d"] {
            endpoint.admin.put(&path).json(json!({"name": name})).send().await.ok(200);
        }
        endpoint.ask("pause").await.ok(200);
        endpoint.until(|found| found.len() == 3).await;
        permits.add_permits(1);
        endpoint.until(|found| found.len() == 4 && found[3]["status"] == "retrying").await;
        endpoint.ask("resume").await.ok(200);
        while beats.next().await.json()["data"]["webhook"]["status"] != "active" {}
        assert!(receiver.is_quiet().await, "later events wait for the one that failed");
        app.advance(Duration::from_secs(6));
        let mut names = Vec::new();
        for _ in 0..4 {
            names.push(name_of(&receiver.next().await));
        }
        assert_eq!(names.concat(), "abcd");
        endpoint.until_all(4, "delivered").await;
    })
    .await;
}

#[tokio::test]
async fn per_resource_order_survives_a_replay() {
    with_app(async |app| {
        let refused = AtomicBool::new(false);
        let receiver = Receiver::start(move |_, received| {
            let first = name_of(received) == "a" && !refused.swap(true, Ordering::SeqCst);
            Script::status(if first { 500 } else { 200 })
        })
        .await;
        let tenant = app.evaluation_tenant("acme").await;
        let (_, key) = tenant.new_key("a", &["*"]).await;
        let admin = tenant.key(&["*"]).await;
        let path = format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
        admin.put(&path).json(json!({"name": "b"})).send().await.ok(200);
        let more = json!({"ordering": "per_resource", "events": ["api_key.*"]});
        let endpoint = Endpoint::of(admin, &receiver.url(), more).await;
        endpoint.admin.put(&endpoint.path).json(json!({"status": "disabled"})).send().await.ok(200);
        endpoint.admin.put(&path).json(json!({"name": "c"})).send().await.ok(200);
        endpoint.until_all(1, "skipped").await;
        endpoint.ask("enable").await.ok(200);
        let replay = json!({"from_seq": 1, "only": "missing"});
        endpoint.admin.post(&format!("{}/replay", endpoint.path)).json(replay).send().await.ok(202);
        // The key of the caller is another resource.
        let mut names = vec![name_of(&receiver.next().await), name_of(&receiver.next().await)];
        names.sort();
        assert_eq!(names, ["a", "key for *"]);
        endpoint.until(|found| found.len() == 4 && found.iter().filter(|one| one["attempt_count"] == 1).count() == 2).await;
        assert!(receiver.is_quiet().await, "later events wait for the one that failed");
        app.advance(Duration::from_secs(6));
        let mut names = Vec::new();
        for _ in 0..3 {
            names.push(name_of(&receiver.next().await));
        }
        assert_eq!(names.concat(), "abc");
        endpoint.until_all(4, "delivered").await;
    })
    .await;
}
