//! The event feed: ordered, complete, limited to one tenant, and with long polling.

use serde_json::{Value, json};

use tenantd::app;

use tenantd_base::config;

use crate::harness::{Actor, with_app};

const KEYS: &str = "/api/admin/api-keys";

fn kinds(feed: &Value) -> Vec<String> {
    feed["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

async fn feed(actor: &Actor, query: &str) -> Value {
    actor.get(&format!("/api/events?{query}")).send().await.ok(200).clone()
}

#[tokio::test]
async fn every_change_has_one_event_and_refusals_none() {
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
async fn a_feed_pages_backwards_from_the_newest() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        for name in ["One", "Two", "Three"] {
            key.post(KEYS).json(json!({"name": name, "scopes": ["*"]})).send().await.ok(201);
        }
        let seqs = |feed: &Value| -> Vec<u64> {
            feed["data"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
        };
        let mut expected = seqs(&feed(&key, "limit=200").await);
        expected.reverse();
        let (mut found, mut after) = (Vec::new(), json!(0));
        loop {
            let page = feed(&key, &format!("order=desc&limit=2&after={after}")).await;
            found.extend(seqs(&page));
            after = page["next_after"].clone();
            if page["more"] == false {
                break;
            }
            assert_eq!(seqs(&page).len(), 2);
        }
        assert_eq!(found, expected);
        assert_eq!(feed(&key, &format!("order=desc&after={after}")).await["data"], json!([]));
        let newest = feed(&key, "order=desc&types=api_key.created&limit=1").await;
        assert_eq!(newest["data"][0]["data"]["api_key"]["name"], "Three");
        let waiting = key.get("/api/events?order=desc&wait_seconds=5").send().await;
        assert_eq!(waiting.field_errors(), [("wait_seconds".to_owned(), "not_allowed".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn pages_of_rare_events_are_full() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        // More events than one read of the store covers.
        acme.fill_log(app, 12_000).await;
        key.post(KEYS).json(json!({"name": "Rare", "scopes": ["*"]})).send().await.ok(201);
        let types = "types=api_key.created";
        let first = feed(&key, &format!("{types}&limit=1")).await;
        let found = feed(&key, &format!("{types}&limit=5&after={}", first["next_after"])).await;
        assert_eq!((kinds(&found).len(), &found["more"]), (1, &json!(false)));
        assert_eq!(found["data"][0]["data"]["api_key"]["name"], "Rare");
        let back = feed(&key, &format!("{types}&limit=5&order=desc")).await;
        assert_eq!((kinds(&back).len(), &back["more"]), (2, &json!(false)));
        // Beyond the limit, an empty page has the cursor to continue at.
        acme.fill_log(app, 50_000).await;
        let after = found["next_after"].clone();
        key.post(KEYS).json(json!({"name": "Rarer", "scopes": ["*"]})).send().await.ok(201);
        let empty = feed(&key, &format!("{types}&after={after}")).await;
        assert_eq!((&empty["data"], &empty["more"]), (&json!([]), &json!(true)));
        let last = feed(&key, &format!("{types}&after={}", empty["next_after"])).await;
        assert_eq!(last["data"][0]["data"]["api_key"]["name"], "Rarer");
    })
    .await;
}

#[tokio::test]
async fn a_long_poll_ends_with_an_event_or_a_timeout() {
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
        // Moves the clock until the long poll has timed out, whenever it started.
        while !waiting.is_finished() {
            app.advance(std::time::Duration::from_secs(31));
            tokio::task::yield_now().await;
        }
        assert_eq!(waiting.await.unwrap().ok(200)["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn every_event_kind_has_a_schema_and_an_example() {
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

/// The schema of a delivered event of a kind, with the components that it refers to.
fn delivered(document: &Value, kind: &str) -> jsonschema::Validator {
    let body = document["webhooks"][kind]["post"]["requestBody"]["content"]["application/json"]["schema"].clone();
    jsonschema::validator_for(&json!({"allOf": [body], "components": document["components"]})).unwrap()
}

#[tokio::test]
async fn events_conform_to_the_documented_webhooks() {
    let document = app::public_document(&config::load(None, [], &[]).unwrap()).unwrap();
    let kinds = app::event_kinds();
    assert_eq!(document["webhooks"].as_object().unwrap().len(), kinds.iter().count());
    let mut operations = std::collections::BTreeSet::new();
    for kind in kinds.iter() {
        let operation = &document["webhooks"][kind.name]["post"];
        assert!(operations.insert(operation["operationId"].as_str().unwrap()), "{}", kind.name);
        let validator = delivered(&document, kind.name);
        assert!(!validator.is_valid(&json!({"type": kind.name, "data": {}})), "{}", kind.name);
    }
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let organization = acme.organization("North").await;
        let ticket = key.post("/api/psa/tickets").json(json!({"subject": "Printer", "organization_id": organization})).send().await;
        let path = format!("/api/psa/tickets/{}", ticket.ok(201)["id"].as_str().unwrap());
        key.post(&format!("{path}/comments")).json(json!({"body": "On it."})).send().await.ok(201);
        key.patch(&path).json(json!({"impact": "high"})).send().await.ok(200);
        let events = feed(&key, "limit=200").await["data"].as_array().unwrap().clone();
        for event in &events {
            let validator = delivered(&document, event["type"].as_str().unwrap());
            let errors: Vec<String> =
                validator.iter_errors(event).map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(errors.is_empty(), "{}: {errors:?}", event["type"]);
        }
        let has = |kind: &str| events.iter().any(|event| event["type"] == kind);
        assert!(has("ticket.commented") && has("ticket.updated") && has("organization.created"));
    })
    .await;
}
