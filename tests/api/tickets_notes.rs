//! Comments, time entries and the history of a ticket.

use serde_json::{Value, json};

use crate::harness::with_app;

const TICKETS: &str = "/api/psa/tickets";

#[tokio::test]
async fn a_contact_comment_reopens_a_waiting_ticket() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        let contact = acme.contact(&organization, "grace@acme.example").await;
        key.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        let path = format!("{TICKETS}/T-1");
        let comment = |body: Value| key.post(&format!("{path}/comments")).json(body).send();
        let state = async || key.get(&path).send().await.ok(200)["status"].as_str().unwrap().to_owned();
        key.patch(&path).json(json!({"status": "waiting_customer"})).send().await.ok(200);
        comment(json!({"body": "Any news?", "visibility": "public"})).await.ok(201);
        assert_eq!(state().await, "waiting_customer", "our own comment is no answer of the customer");
        comment(json!({"body": "a note", "contact_id": contact})).await.ok(201);
        assert_eq!(state().await, "waiting_customer", "an internal comment wakes nobody");
        let made = comment(json!({"body": "It works.", "visibility": "public", "contact_id": contact})).await;
        assert_eq!(made.ok(201)["contact"]["name"], "grace");
        assert_eq!(state().await, "open");
        key.patch(&path).json(json!({"status": "resolved", "resolution": {"summary": "x"}})).send().await.ok(200);
        comment(json!({"body": "Again!", "visibility": "public", "contact_id": contact})).await.ok(201);
        let reopened = key.get(&path).send().await.ok(200).clone();
        assert_eq!((&reopened["status"], &reopened["counts"]), (&json!("open"), &json!({"comments": 4, "reopens": 1})));
        let last = key.get("/api/events?types=ticket.commented,ticket.reopened&limit=200").send().await.ok(200)["data"].clone();
        let kinds: Vec<&str> = last.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds[kinds.len() - 2..], ["ticket.commented", "ticket.reopened"]);
        assert_eq!(last[0]["data"]["comment"]["body"], "Any news?");
    })
    .await;
}

#[tokio::test]
async fn a_public_staff_comment_is_the_first_response() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let contact = acme.contact(&organization, "grace@acme.example").await;
        key.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        let path = format!("{TICKETS}/T-1");
        for body in [json!({"body": "internal"}), json!({"body": "theirs", "visibility": "public", "contact_id": contact})] {
            key.post(&format!("{path}/comments")).json(body).send().await.ok(201);
            assert!(key.get(&path).send().await.ok(200).get("first_responded_at").is_none());
        }
        key.post(&format!("{path}/comments")).json(json!({"body": "On it.", "visibility": "public"})).send().await.ok(201);
        let answered = key.get(&path).send().await.ok(200).clone();
        assert!(answered["first_responded_at"].is_string());
        assert_eq!(answered["sla"]["first_response"]["met_at"], answered["first_responded_at"]);
        assert!(answered["sla"]["first_response"].get("due_at").is_none());
    })
    .await;
}

#[tokio::test]
async fn taking_a_new_ticket_is_the_first_response() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let organization = acme.organization("Acme").await;
        admin.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        let path = format!("{TICKETS}/T-1");
        let taken = admin.patch(&path).json(json!({"assignee_id": me, "status": "in_progress"})).send().await;
        assert!(taken.ok(200)["first_responded_at"].is_string());
        assert_eq!(taken.body["assignee"]["name"], "admin");
        let mine = admin.get(&format!("{TICKETS}?assignee_id=me")).send().await;
        assert_eq!(mine.ok(200)["data"][0]["ref"], "T-1");
    })
    .await;
}

#[tokio::test]
async fn comments_and_times_are_paged_and_counted() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        key.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        let path = format!("{TICKETS}/T-1");
        for number in 0..5 {
            app.advance(std::time::Duration::from_secs(1));
            key.post(&format!("{path}/comments")).json(json!({"body": format!("{number}")})).send().await.ok(201);
            let entry = json!({"minutes": 10, "billable": number % 2 == 0, "work_type": "remote"});
            key.post(&format!("{path}/time-entries")).json(entry).send().await.ok(201);
        }
        let ticket = key.get(&path).send().await.ok(200).clone();
        assert_eq!(
            (&ticket["time_spent_minutes"], &ticket["counts"]["comments"], &ticket["version"]),
            (&json!(50), &json!(5), &json!(11))
        );
        for list in ["comments", "time-entries"] {
            let first = key.get(&format!("{path}/{list}?limit=2&include_total=true")).send().await.ok(200).clone();
            assert_eq!(first["page"]["total"], 5);
            let (mut seen, mut cursor) = (first["data"].as_array().unwrap().clone(), first["page"]["next_cursor"].clone());
            while let Some(next) = cursor.as_str() {
                let page = key.get(&format!("{path}/{list}?limit=2&include_total=true&cursor={next}")).send().await.ok(200).clone();
                seen.extend(page["data"].as_array().unwrap().clone());
                cursor = page["page"]["next_cursor"].clone();
            }
            assert_eq!(seen.len(), 5, "{list}");
        }
        for (body, code) in [
            (json!({"minutes": 0, "billable": true, "work_type": "x"}), "too_small"),
            (json!({"minutes": 1441, "billable": true, "work_type": "x"}), "too_large"),
            (json!({"minutes": 5, "work_type": "x"}), "required"),
        ] {
            let reply = key.post(&format!("{path}/time-entries")).json(body).send().await;
            assert_eq!(reply.field_errors()[0].1, code);
        }
        let large = key.post(&format!("{path}/comments")).json(json!({"body": "ä".repeat(40_000)})).send().await;
        assert_eq!(large.field_errors(), [("/body".to_owned(), "too_long".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn the_history_matches_the_event_log() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        for _ in 0..2 {
            key.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        }
        let path = format!("{TICKETS}/T-2");
        key.patch(&path).json(json!({"status": "open"})).send().await.ok(200);
        key.post(&format!("{path}/comments")).json(json!({"body": "x"})).send().await.ok(201);
        let history = key.get(&format!("{path}/history")).send().await.ok(200).clone();
        let events = history["data"].as_array().unwrap();
        let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ticket.created", "ticket.updated", "ticket.commented"]);
        assert!(events.iter().all(|event| event["data"]["ticket"]["ref"] == "T-2"));
        assert_eq!(history["truncated"], false);
        let first = key.get(&format!("{path}/history?limit=2")).send().await.ok(200).clone();
        let next = first["page"]["next_cursor"].as_str().unwrap();
        let rest = key.get(&format!("{path}/history?limit=2&cursor={next}")).send().await.ok(200).clone();
        assert_eq!(rest["data"][0]["type"], "ticket.commented");
        let counted = key.get(&format!("{path}/history?include_total=true")).send().await;
        assert_eq!(counted.problem(400), "unknown_parameter");
    })
    .await;
}
