//! Several tickets in one request, duplicates, and dry runs.

use serde_json::{Value, json};

use crate::harness::with_app;

const TICKETS: &str = "/api/psa/tickets";

#[tokio::test]
async fn an_atomic_creation_is_all_or_nothing() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        let good = |subject: &str| json!({"subject": subject, "organization_id": organization});
        let made = key.post(TICKETS).json(json!({"tickets": [good("A"), good("B")]})).send().await;
        assert_eq!(made.ok(201)["succeeded"], 2);
        assert_eq!(made.body["results"][1]["ticket"]["ref"], "T-2");
        let bad =
            json!({"tickets": [good("C"), {"subject": "D"}, {"subject": "E", "parent": "T-99", "organization_id": organization}]});
        let refused = key.post(TICKETS).json(bad).send().await;
        assert_eq!(refused.problem(422), "validation_failed");
        let expected = [("/tickets/1/organization_id", "required"), ("/tickets/2/parent", "unknown_reference")];
        assert_eq!(refused.field_errors(), expected.map(|(place, code)| (place.to_owned(), code.to_owned())));
        let worse = json!({"tickets": [good("C"), {"subject": ""}, {"parent": "T-99", "organization_id": organization}]});
        let found = key.post(TICKETS).json(worse).send().await.field_errors();
        for (place, code) in [
            ("/tickets/1/subject", "too_short"),
            ("/tickets/1/organization_id", "required"),
            ("/tickets/2/subject", "required"),
            ("/tickets/2/parent", "unknown_reference"),
        ] {
            assert!(found.contains(&(place.to_owned(), code.to_owned())), "{found:?}");
        }
        assert_eq!(found.len(), 4, "{found:?}");
        let total = key.get(&format!("{TICKETS}?include_total=true")).send().await.ok(200)["page"]["total"].clone();
        assert_eq!(total, 2, "nothing was created");
        let next = key.post(TICKETS).json(good("F")).send().await;
        assert_eq!(next.ok(201)["number"], 3, "no number was used up");
        let events = key.get("/api/events?types=ticket.created").send().await.ok(200)["data"].as_array().unwrap().len();
        assert_eq!(events, 3);
        let many: Vec<Value> = (0..101).map(|number| good(&number.to_string())).collect();
        let too_many = key.post(TICKETS).json(json!({"tickets": many})).send().await;
        assert_eq!(too_many.field_errors(), [("/tickets".to_owned(), "too_many".to_owned())]);
        let many: Vec<Value> = (0..101).map(|_| json!({"subject": 5})).collect();
        let too_many = key.post(TICKETS).json(json!({"tickets": many, "atomic": false})).send().await.field_errors();
        assert!(too_many.contains(&("/tickets".to_owned(), "too_many".to_owned())), "{too_many:?}");
    })
    .await;
}

#[tokio::test]
async fn without_atomic_each_ticket_is_independent() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let good = json!({"subject": "A", "organization_id": organization});
        let mixed = key.post(TICKETS).json(json!({"tickets": [good, {"subject": "B"}, good], "atomic": false})).send().await;
        let results = mixed.ok(201)["results"].as_array().unwrap().clone();
        assert_eq!((&mixed.body["succeeded"], &mixed.body["failed"]), (&json!(2), &json!(1)));
        let statuses: Vec<&Value> = results.iter().map(|result| &result["status"]).collect();
        assert_eq!(statuses, [201, 422, 201]);
        assert_eq!(results[1]["error"]["code"], "validation_failed");
        assert_eq!(results[1]["error"]["errors"][0]["pointer"], "/organization_id");
        assert_eq!(results[2]["ticket"]["number"], 2);
    })
    .await;
}

#[tokio::test]
async fn a_bulk_change_is_all_or_nothing() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        for _ in 0..3 {
            key.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        }
        let patch = |ids: Value, patch: Value| key.patch(TICKETS).json(json!({"ids": ids, "patch": patch})).send();
        assert_eq!(patch(json!(["T-1", "T-2"]), json!({"status": "open"})).await.ok(200)["succeeded"], 2);
        key.patch(&format!("{TICKETS}/3")).json(json!({"status": "cancelled"})).send().await.ok(200);
        let refused = patch(json!(["T-1", "T-3", "T-9"]), json!({"status": "on_hold", "queue": "x"})).await;
        assert_eq!(refused.problem(422), "validation_failed");
        let expected = [("/ids/1", "invalid_transition"), ("/ids/2", "not_found")];
        assert_eq!(refused.field_errors(), expected.map(|(place, code)| (place.to_owned(), code.to_owned())));
        assert_eq!(key.get(&format!("{TICKETS}/1")).send().await.ok(200)["status"], "open");
        let ids: Vec<String> = (1..=101).map(|number| format!("T-{number}")).collect();
        assert_eq!(patch(json!(ids), json!({"queue": "x"})).await.field_errors()[0].1, "too_many");
        let with_version = key.patch(TICKETS).header("if-match", "\"v1\"").json(json!({"ids": ["T-1"], "patch": {}})).send().await;
        assert_eq!(with_version.problem(422), "validation_failed");
    })
    .await;
}

#[tokio::test]
async fn a_ticket_named_twice_is_changed_once() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let made = key.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await;
        let id = made.ok(201)["id"].as_str().unwrap().to_owned();
        for (ids, repeated) in [(json!(["T-1", "1"]), "/ids/1"), (json!(["t-1", id]), "/ids/1"), (json!([id, id]), "/ids/1")] {
            for query in ["", "?dry_run=true"] {
                let body = json!({"ids": ids, "patch": {"priority": "low"}});
                let refused = key.patch(&format!("{TICKETS}{query}")).json(body).send().await;
                assert_eq!(refused.field_errors(), [(repeated.to_owned(), "repeated".to_owned())], "{ids}");
            }
        }
        assert_eq!(key.get(&format!("{TICKETS}/T-1")).send().await.ok(200)["version"], 1);
    })
    .await;
}

#[tokio::test]
async fn a_duplicate_report_creates_no_ticket() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let (organization, other) = (acme.organization("Acme").await, acme.organization("Other").await);
        let report = |organization: &str, mode: Option<&str>| {
            let mut body =
                json!({"subject": "Disk full", "description": "98 %", "organization_id": organization, "dedup_key": "disk/pc-1"});
            if let Some(mode) = mode {
                body["on_duplicate"] = json!(mode);
            }
            key.post(TICKETS).json(body).send()
        };
        let first = report(&organization, None).await.ok(201).clone();
        let again = report(&organization, None).await;
        assert_eq!(again.ok(200)["id"], first["id"]);
        assert_eq!((&again.body["deduplicated"], &again.body["occurrences"]), (&json!(true), &json!(2)));
        let comments = key.get(&format!("{TICKETS}/T-1/comments")).send().await.ok(200)["data"].clone();
        assert_eq!((&comments[0]["created_by"]["kind"], &comments[0]["visibility"]), (&json!("system"), &json!("internal")));
        assert!(comments[0]["body"].as_str().unwrap().contains("98 %"));
        let ignored = report(&organization, Some("ignore")).await;
        assert_eq!(ignored.ok(200)["version"], again.body["version"]);
        let rejected = report(&organization, Some("reject")).await;
        assert_eq!((rejected.problem(409), &rejected.body["ticket_id"]), ("already_exists", &first["id"]));
        assert_eq!(report(&organization, Some("create")).await.ok(201)["number"], 2);
        assert_eq!(report(&other, None).await.ok(201)["number"], 3, "another customer's cause is another");
        for number in [1, 2] {
            let done = json!({"status": "resolved", "resolution": {"summary": "Cleaned."}});
            key.patch(&format!("{TICKETS}/{number}")).json(done).send().await.ok(200);
        }
        assert_eq!(report(&organization, None).await.ok(201)["number"], 4, "what is finished gets no more reports");
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_predicts_and_changes_nothing() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        let body = json!({"subject": "A", "organization_id": organization});
        let tried = key.post(&format!("{TICKETS}?dry_run=true")).json(body.clone()).send().await;
        assert_eq!((&tried.ok(200)["number"], &tried.body["status"]), (&json!(1), &json!("new")));
        let bulk = key.post(&format!("{TICKETS}?dry_run=true")).json(json!({"tickets": [body, {"subject": "B"}], "atomic": false}));
        assert_eq!(bulk.send().await.ok(200)["failed"], 1);
        assert_eq!(key.get(TICKETS).send().await.ok(200)["data"], json!([]));
        key.post(TICKETS).json(body).send().await.ok(201);
        let path = format!("{TICKETS}/1?dry_run=true");
        let closed = key.patch(&path).json(json!({"status": "resolved", "resolution": {"summary": "x"}})).send().await;
        assert_eq!((&closed.ok(200)["status"], &closed.body["version"]), (&json!("resolved"), &json!(2)));
        assert_eq!(key.patch(&path).json(json!({"status": "closed"})).send().await.problem(409), "invalid_transition");
        let several =
            key.patch(&format!("{TICKETS}?dry_run=true")).json(json!({"ids": ["1"], "patch": {"status": "open"}})).send().await;
        assert_eq!(several.ok(200)["results"][0]["ticket"]["status"], "open");
        assert_eq!(key.get(&format!("{TICKETS}/1")).send().await.ok(200)["version"], 1);
        let events = key.get("/api/events?types=ticket.*").send().await.ok(200)["data"].as_array().unwrap().len();
        assert_eq!(events, 1);
    })
    .await;
}

#[tokio::test]
async fn a_repeated_creation_returns_the_first_response() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let body = json!({"tickets": [{"subject": "A", "organization_id": organization}, {"subject": "B", "organization_id": organization}]});
        let send = || key.post(TICKETS).header("idempotency-key", "bulk-1").json(body.clone()).send();
        let (first, second) = (send().await, send().await);
        assert_eq!(first.ok(201), second.ok(201));
        assert_eq!(second.header("idempotency-replayed"), "true");
        assert_eq!(key.get(&format!("{TICKETS}?include_total=true")).send().await.ok(200)["page"]["total"], 2);
    })
    .await;
}
