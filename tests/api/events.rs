//! The event feed: in order, complete, one tenant's own, and waiting for what comes.

use serde_json::{Value, json};

use crate::harness::{Actor, with_app};

const KEYS: &str = "/api/admin/api-keys";

fn kinds(feed: &Value) -> Vec<String> {
    feed["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

async fn feed(actor: &Actor, query: &str) -> Value {
    actor.get(&format!("/api/events?{query}")).send().await.ok(200).clone()
}

#[tokio::test]
async fn every_change_has_its_event_and_a_refused_one_has_none() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let key = admin.post(KEYS).json(json!({"name": "One", "scopes": ["*"]})).send().await.ok(201).clone();
        let path = format!("{KEYS}/{}", key["id"].as_str().unwrap());
        admin.post(KEYS).json(json!({"name": "One", "scopes": ["*"]})).send().await.problem(409);
        admin.put(&path).json(json!({"name": "Two", "enabled": false})).send().await.ok(200);
        admin.post(&format!("{path}/rotate")).send().await.ok(200);
        admin.delete(&path).send().await.ok(200);
        admin.delete(&path).send().await.ok(200);
        let feed = feed(&admin, "limit=200").await;
        assert_eq!(
            kinds(&feed),
            ["user.created", "auth.login", "api_key.created", "api_key.updated", "api_key.rotated", "api_key.revoked"]
        );
        let updated = &feed["data"][3];
        assert_eq!(
            updated["data"]["changes"],
            json!({"name": {"from": "One", "to": "Two"}, "enabled": {"from": true, "to": false}})
        );
        assert_eq!(updated["resource"], json!({"kind": "api_key", "id": key["id"], "version": 2}));
        assert_eq!(updated["actor"]["kind"], "user");
        assert_eq!(updated["tenant_id"], acme.id);
        let seqs: Vec<u64> = feed["data"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=6).collect::<Vec<_>>());
        assert!(!feed.to_string().contains(key["key"].as_str().unwrap()), "no secret in an event");
    })
    .await;
}

#[tokio::test]
async fn a_feed_pages_and_filters_by_kind() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        for name in ["One", "Two", "Three"] {
            key.post(KEYS).json(json!({"name": name, "scopes": ["*"]})).send().await.ok(201);
        }
        let first = feed(&key, "types=api_key.created&limit=2").await;
        assert_eq!((kinds(&first).len(), &first["more"]), (2, &json!(true)));
        let second = feed(&key, &format!("types=api_key.*&after={}", first["next_after"])).await;
        assert_eq!((kinds(&second).len(), &second["more"], &second["truncated"]), (2, &json!(false), &json!(false)));
        assert_eq!(feed(&key, &format!("after={}", second["next_after"])).await["data"], json!([]));
        assert_eq!(kinds(&feed(&key, "types=auth.login,user.created").await), Vec::<String>::new());
        let typo = key.get("/api/events?types=api_key.create").send().await;
        assert_eq!(typo.problem(422), "validation_failed");
        assert_eq!(typo.body["errors"][0]["suggestion"], "api_key.created");
        for bad in ["after=-1", "limit=0", "wait_seconds=31", "types="] {
            assert_eq!(key.get(&format!("/api/events?{bad}")).send().await.problem(422), "validation_failed", "{bad}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_waiting_reader_is_woken_by_the_next_event_and_by_the_end_of_its_patience() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let after = feed(&key, "limit=200").await["next_after"].clone();
        let waiting = tokio::spawn({
            let (key, path) = (key.clone(), format!("/api/events?after={after}&wait_seconds=30"));
            async move { key.get(&path).send().await }
        });
        key.post(KEYS).json(json!({"name": "One", "scopes": ["*"]})).send().await.ok(201);
        assert_eq!(kinds(waiting.await.unwrap().ok(200)), ["api_key.created"]);
        let after = feed(&key, "limit=200").await["next_after"].clone();
        let waiting = tokio::spawn({
            let (key, path) = (key.clone(), format!("/api/events?after={after}&wait_seconds=30"));
            async move { key.get(&path).send().await }
        });
        // The clock is moved until the reader, whenever it began to wait, has given up.
        while !waiting.is_finished() {
            app.advance(std::time::Duration::from_secs(31));
            tokio::task::yield_now().await;
        }
        assert_eq!(waiting.await.unwrap().ok(200)["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn the_catalogue_lists_every_kind_with_a_schema_and_an_example() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["events:read"]).await;
        let catalog = key.get("/api/events/catalog").send().await.ok(200).clone();
        let entries = catalog["data"].as_array().unwrap();
        assert!(entries.len() >= 13);
        for entry in entries {
            let subject = entry["schema"]["required"][0].as_str().unwrap();
            assert!(entry["example"][subject].as_object().is_some_and(|record| !record.is_empty()), "{entry}");
            assert!(entry["summary"].as_str().unwrap().len() > 5);
        }
    })
    .await;
}
