//! Tickets of half a megabyte: limits of bulk requests and of pages.

use serde_json::{Map, Value, json};

use crate::harness::{Actor, with_app};

const TICKETS: &str = "/api/psa/tickets";
const MIB: usize = 1 << 20;

fn large(organization: &str) -> Value {
    let fields: Map<String, Value> = (0..100).map(|number| (format!("f{number}"), json!("y".repeat(4_000)))).collect();
    json!({"subject": "Large", "description": "x".repeat(65_000), "custom_fields": fields, "organization_id": organization})
}

async fn version(key: &Actor, number: usize) -> Value {
    key.get(&format!("{TICKETS}/{number}")).send().await.ok(200)["version"].clone()
}

#[tokio::test]
async fn duplicates_of_a_large_ticket_are_bounded() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let mut first = large(&organization);
        first["dedup_key"] = json!("disk");
        key.post(TICKETS).json(first).send().await.ok(201);
        let hundred = |mode: &str, atomic: bool| {
            let again = json!({"subject": "B", "organization_id": organization, "dedup_key": "disk", "on_duplicate": mode});
            json!({"tickets": vec![again; 100], "atomic": atomic})
        };
        for mode in ["comment", "ignore", "reject"] {
            for query in ["", "?dry_run=true"] {
                let call = key.post(&format!("{TICKETS}{query}")).header("idempotency-key", &format!("all-{mode}{query}"));
                let refused = call.json(hundred(mode, true)).send().await;
                assert_eq!(refused.problem(413), "payload_too_large", "{mode}{query}");
                assert!(refused.text.contains("4194304 bytes. Send fewer records per request."), "{}", refused.text);
            }
        }
        assert_eq!(version(&key, 1).await, 1, "nothing was changed");
        for (mode, status) in [("ignore", 200), ("reject", 409), ("comment", 200)] {
            let call = key.post(TICKETS).header("idempotency-key", &format!("each-{mode}"));
            let partly = call.json(hundred(mode, false)).send().await;
            let results = partly.ok(200)["results"].as_array().unwrap();
            assert_eq!((results.len(), &results[0]["status"]), (100, &json!(status)), "{mode}");
            assert_eq!(
                (&results[99]["status"], &results[99]["error"]["code"]),
                (&json!(413), &json!("payload_too_large")),
                "{mode}"
            );
            assert!(partly.text.len() < 4 * MIB, "{mode}: {}", partly.text.len());
        }
    })
    .await;
}

#[tokio::test]
async fn bulk_changes_of_large_tickets_are_bounded() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        for _ in 0..5 {
            key.post(TICKETS).json(large(&organization)).send().await.ok(201);
        }
        let change = |ids: Value, query: &str| {
            key.patch(&format!("{TICKETS}{query}")).json(json!({"ids": ids, "patch": {"queue": "field"}})).send()
        };
        let all: Vec<String> = (1..=5).map(|number| format!("T-{number}")).collect();
        for query in ["", "?dry_run=true"] {
            let refused = change(json!(all), query).await;
            assert_eq!(refused.problem(413), "payload_too_large", "{query}");
        }
        for number in 1..=5 {
            assert_eq!(version(&key, number).await, 1, "all or none");
        }
        assert_eq!(change(json!(["T-1", "T-2"]), "").await.ok(200)["succeeded"], 2);
    })
    .await;
}

#[tokio::test]
async fn a_hundred_ordinary_tickets_fit_in_one_request() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let ticket = json!({"subject": "A", "description": "x".repeat(4_000), "organization_id": organization});
        let made = key.post(TICKETS).json(json!({"tickets": vec![ticket; 100]})).send().await;
        assert_eq!(made.ok(201)["succeeded"], 100);
        let ids: Vec<String> = (1..=100).map(|number| format!("T-{number}")).collect();
        let patch = json!({"status": "resolved", "resolution": {"summary": "Done."}});
        assert_eq!(key.patch(TICKETS).json(json!({"ids": ids, "patch": patch})).send().await.ok(200)["succeeded"], 100);
    })
    .await;
}

/// The sizes of all pages of a list, and their records.
async fn pages(key: &Actor, path: &str) -> (Vec<usize>, Vec<Value>) {
    let (mut sizes, mut found, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = key.get(&format!("{path}{cursor}")).send().await;
        found.extend(page.ok(200)["data"].as_array().unwrap().clone());
        sizes.push(page.text.len());
        match page.body["page"]["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (sizes, found),
        }
    }
}

#[tokio::test]
async fn pages_of_large_tickets_end_early() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        for _ in 0..20 {
            key.post(TICKETS).json(large(&organization)).send().await.ok(201);
        }
        for query in ["sort=-updated_at", "sort=number", "sort=priority", "q=large", "q=large&sort=priority"] {
            let (sizes, found) = pages(&key, &format!("{TICKETS}?limit=200&{query}")).await;
            assert!(sizes.len() > 1 && sizes.iter().all(|size| *size < 9 * MIB), "{query}: {sizes:?}");
            let mut numbers: Vec<u64> = found.iter().map(|ticket| ticket["number"].as_u64().unwrap()).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=20).collect::<Vec<_>>(), "{query}");
        }
        let rows = key.get(&format!("{TICKETS}?format=ndjson")).send().await.text;
        assert_eq!(rows.lines().count(), 21, "a stream has all of them, and its end");
        let (mut after, mut seen, mut parts) = (json!(0), 0, 0);
        loop {
            let part = key.get(&format!("/api/events?types=ticket.created&limit=200&after={after}")).send().await;
            seen += part.ok(200)["data"].as_array().unwrap().len();
            parts += 1;
            assert!(part.text.len() < 9 * MIB, "{}", part.text.len());
            if part.body["more"] == false {
                break;
            }
            after = part.body["next_after"].clone();
        }
        assert_eq!((seen, parts > 1), (20, true));
    })
    .await;
}

#[tokio::test]
async fn pages_of_long_comments_end_early() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        key.post(TICKETS).json(large(&organization)).send().await.ok(201);
        for number in 0..20 {
            key.patch(&format!("{TICKETS}/1")).json(json!({"queue": format!("q{number}")})).send().await.ok(200);
        }
        key.post(TICKETS).json(json!({"subject": "B", "organization_id": organization})).send().await.ok(201);
        for _ in 0..70 {
            // A quote takes two bytes in JSON.
            key.post(&format!("{TICKETS}/2/comments")).json(json!({"body": "\"".repeat(65_000)})).send().await.ok(201);
        }
        for (path, count, member) in [("1/history", 21, "seq"), ("2/comments", 70, "id")] {
            let (sizes, found) = pages(&key, &format!("{TICKETS}/{path}?limit=200")).await;
            assert!(sizes.len() > 1 && sizes.iter().all(|size| *size < 9 * MIB), "{path}: {sizes:?}");
            let mut names: Vec<String> = found.iter().map(|record| record[member].to_string()).collect();
            names.dedup();
            assert_eq!((found.len(), names.len()), (count, count), "{path}");
        }
    })
    .await;
}
