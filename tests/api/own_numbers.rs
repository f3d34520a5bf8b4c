//! Numbers that a tenant sees count only its own events: events of other tenants leave no gap and move no cursor.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use tenantd_base::id::DeliveryId;
use tenantd_store::events;

use crate::harness::{Actor, Endpoint, Receiver, Setup, Tenant, TestApp, with_app};

fn seq(value: &Value) -> u64 {
    value["seq"].as_u64().unwrap()
}

async fn feed(actor: &Actor, after: u64) -> Value {
    actor.get(&format!("/api/events?limit=200&after={after}")).send().await.ok(200).clone()
}

/// Checks that the event numbers start at 1 without gaps. Returns their count.
async fn counted(actor: &Actor) -> u64 {
    let feed = feed(actor, 0).await;
    let seqs: Vec<u64> = feed["data"].as_array().unwrap().iter().map(seq).collect();
    let last = seqs.len() as u64;
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
    assert_eq!((&feed["next_after"], &feed["more"], &feed["truncated"]), (&json!(last), &json!(false), &json!(false)));
    last
}

/// The last bytes of a cursor, as a number.
fn place_in(cursor: &Value) -> u64 {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_str().unwrap().as_bytes()).unwrap();
    u64::from_be_bytes(*bytes.last_chunk().unwrap())
}

async fn interleave(tenants: &[&Tenant<'_>], round: usize) {
    for (place, tenant) in tenants.iter().enumerate() {
        for number in 0..=(round + place) % 3 {
            tenant.new_key(&format!("key {round} {number}"), &["tickets:read"]).await;
        }
    }
}

#[tokio::test]
async fn two_tenants_each_count_their_own_events() {
    with_app(async |app| {
        let receiver = Receiver::always(200).await;
        let (acme, globex) = (app.evaluation_tenant("acme").await, app.evaluation_tenant("globex").await);
        let (first, second) = (acme.key(&["*"]).await, globex.key(&["*"]).await);
        let endpoint = Endpoint::of(first.clone(), &receiver.url(), json!({})).await;
        for round in 0..5 {
            interleave(&[&acme, &globex], round).await;
        }
        let (last, other) = (counted(&first).await, counted(&second).await);
        let head = app.running().app.store.read(events::head).unwrap();
        assert!(last < head && other < head, "the log holds the events of both: {last} and {other} of {head}");

        // Webhooks: the bodies, the deliveries, their ids, and the cursors of their list.
        let sent = feed(&first, 0).await["data"].as_array().unwrap().clone();
        let sent: Vec<u64> = sent.iter().filter(|event| event["type"] == "api_key.created").skip(1).map(seq).collect();
        let mut received = Vec::new();
        for _ in &sent {
            received.push(seq(&receiver.next().await.json()));
        }
        received.sort_unstable();
        assert_eq!(received, sent);
        let found = endpoint.until_all(sent.len(), "delivered").await;
        assert_eq!(found.iter().rev().map(seq).collect::<Vec<_>>(), sent);
        for delivery in &found {
            let id: DeliveryId = delivery["id"].as_str().unwrap().parse().unwrap();
            assert_eq!(u64::from_be_bytes(*id.as_bytes().last_chunk().unwrap()) & ((1 << 48) - 1), seq(delivery));
            assert_eq!(endpoint.attempts(delivery).await.len(), 1);
        }
        let mut listed = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = first.get(&format!("{}/deliveries?limit=2{cursor}", endpoint.path)).send().await.ok(200).clone();
            listed.extend(page["data"].as_array().unwrap().iter().map(seq));
            let Some(next) = page["page"]["next_cursor"].as_str() else { break };
            assert_eq!(place_in(&page["page"]["next_cursor"]), *listed.last().unwrap());
            cursor = format!("&cursor={next}");
        }
        listed.reverse();
        assert_eq!(listed, sent);
        let replay = json!({"from_seq": 1, "only": "missing"});
        let replay = first.post(&format!("{}/replay", endpoint.path)).json(replay).send().await.ok(202).clone();
        assert_eq!((&replay["from_seq"], &replay["to_seq"]), (&json!(1), &json!(last)));

        // The audit and the analytics.
        for actor in [&first, &second] {
            let events = feed(actor, 0).await["data"].as_array().unwrap().clone();
            let trail = actor.get("/api/admin/audit?limit=200").send().await.ok(200)["data"].as_array().unwrap().clone();
            assert!(!trail.is_empty());
            for record in trail {
                let event = events.iter().find(|event| event["id"] == record["event_id"]).unwrap();
                assert_eq!(seq(event), seq(&record));
            }
            let report = actor.get("/api/analytics/tenant?metrics=api_requests").send().await.ok(200).clone();
            assert!(report["as_of_seq"].as_u64().unwrap() <= events.len() as u64, "{report}");
        }
        let verified = app.local().post("/internal/admin/audit/verify").json(json!({})).send().await;
        assert_eq!(verified.ok(200)["sound"], true, "{}", verified.text);
    })
    .await;
}

#[tokio::test]
async fn events_of_others_do_not_change_an_idle_tenant() {
    with_app(async |app| {
        let (idle, busy) = (app.tenant("idle").await, app.tenant("busy").await);
        let key = idle.key(&["*"]).await;
        let after = counted(&key).await;
        let organization = idle.organization("Idle Ltd").await;
        let ticket = json!({"subject": "Quiet", "organization_id": organization});
        key.post("/api/psa/tickets").json(ticket).send().await.ok(201);
        let seen = async || {
            let since = key.get(&format!("/api/psa/tickets?since_seq={after}")).send().await.ok(200)["data"].clone();
            let history = key.get("/api/psa/tickets/1/history").send().await.ok(200)["data"].clone();
            (feed(&key, after).await, feed(&key, 1_000).await, since, history)
        };
        let before = seen().await;
        for round in 0..3 {
            interleave(&[&busy], round).await;
        }
        assert_eq!(seen().await, before);
        assert_eq!(before.0["next_after"], after + before.0["data"].as_array().unwrap().len() as u64);
        assert_eq!((before.2.as_array().unwrap().len(), before.3.as_array().unwrap().len()), (1, 1));
        let last = before.0["next_after"].as_u64().unwrap();
        let none = key.get(&format!("/api/psa/tickets?since_seq={last}")).send().await.ok(200)["data"].clone();
        assert_eq!(none, json!([]));
    })
    .await;
}

#[tokio::test]
async fn numbers_continue_after_a_restart() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let now = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, now).await;
    let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
    let (id, key) = (acme.id.clone(), acme.key(&["*"]).await);
    interleave(&[&globex, &acme], 1).await;
    let before = counted(&key).await;
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now).await;
    let key = key.moved(app.base_url());
    assert_eq!(counted(&key).await, before);
    Tenant::known(&app, "acme", &id).new_key("later", &["tickets:read"]).await;
    assert_eq!(counted(&key).await, before + 1);
    drop(app.stop().await);
}
