//! Every pair of states, and the effects of a transition.

use serde_json::{Value, json};

use crate::harness::{Actor, with_app};

const TICKETS: &str = "/api/psa/tickets";
const STATES: [&str; 11] = [
    "new",
    "open",
    "in_progress",
    "waiting_customer",
    "waiting_vendor",
    "scheduled",
    "on_hold",
    "resolved",
    "closed",
    "cancelled",
    "merged",
];

/// The patch that a state needs.
fn patch(to: &str, target: &str) -> Value {
    match to {
        "resolved" => json!({"status": to, "resolution": {"summary": "Done."}}),
        "merged" => json!({"status": to, "merged_into": target}),
        _ => json!({"status": to}),
    }
}

async fn ticket(key: &Actor, organization: &str) -> String {
    let body = json!({"subject": "State", "organization_id": organization});
    key.post(TICKETS).json(body).send().await.ok(201)["ref"].as_str().unwrap().to_owned()
}

/// A ticket in the given state.
async fn ticket_in(key: &Actor, organization: &str, state: &str, target: &str) -> String {
    let ticket = ticket(key, organization).await;
    let path = format!("{TICKETS}/{ticket}");
    if state == "closed" {
        key.patch(&path).json(patch("resolved", target)).send().await.ok(200);
    }
    if state != "new" {
        key.patch(&path).json(patch(state, target)).send().await.ok(200);
    }
    ticket
}

fn allowed(from: &str, to: &str) -> bool {
    match from {
        "closed" | "cancelled" | "merged" => false,
        "resolved" => ["open", "in_progress", "closed", "merged"].contains(&to),
        _ => to != "closed",
    }
}

#[tokio::test]
async fn every_pair_of_states_has_a_defined_outcome() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let target = ticket(&key, &organization).await;
        for from in STATES {
            for to in STATES {
                let ticket = ticket_in(&key, &organization, from, &target).await;
                let path = format!("{TICKETS}/{ticket}");
                let before = key.get(&path).send().await.ok(200).clone();
                assert_eq!(before["status"], from);
                let body = if from == to { json!({"status": to}) } else { patch(to, &target) };
                let reply = key.patch(&path).json(body).send().await;
                let label = format!("{from} → {to}: {}", reply.text);
                if from == to {
                    assert_eq!((reply.status, &reply.body["version"]), (200, &before["version"]), "{label}");
                } else if allowed(from, to) {
                    assert_eq!(reply.ok(200)["status"], to, "{label}");
                    assert!(before["allowed_transitions"].as_array().unwrap().contains(&json!(to)), "{label}");
                } else {
                    assert_eq!(reply.problem(409), "invalid_transition", "{label}");
                    assert_eq!(reply.body["allowed_transitions"], before["allowed_transitions"], "{label}");
                    assert_eq!(key.get(&path).send().await.ok(200), &before, "{label}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn each_transition_needs_its_fields() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let path = format!("{TICKETS}/{}", ticket(&key, &organization).await);
        for (body, pointer, code) in [
            (json!({"status": "resolved"}), "/resolution/summary", "required"),
            (json!({"status": "resolved", "resolution": {"code": "fixed"}}), "/resolution/summary", "required"),
            (json!({"status": "merged"}), "/merged_into", "required"),
            (json!({"status": "merged", "merged_into": "T-999"}), "/merged_into", "unknown_reference"),
            (json!({"status": "merged", "merged_into": "T-1"}), "/merged_into", "itself"),
            (json!({"merged_into": "T-1"}), "/merged_into", "not_merged"),
            (json!({"resolution": {"summary": "x"}}), "/resolution", "not_resolved"),
            (json!({"parent": "T-1"}), "/parent", "cycle"),
        ] {
            let reply = key.patch(&path).json(body.clone()).send().await;
            assert_eq!(reply.problem(422), "validation_failed");
            assert_eq!(reply.field_errors(), [(pointer.to_owned(), code.to_owned())], "{body}");
        }
        assert_eq!(key.get(&path).send().await.ok(200)["version"], 1);
    })
    .await;
}

#[tokio::test]
async fn ticket_parts_nest_at_most_32_deep() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let part_of = |above: u32| {
            let body = json!({"subject": "A part", "organization_id": organization, "parent": format!("T-{above}")});
            key.post(TICKETS).json(body).send()
        };
        ticket(&key, &organization).await;
        for above in 1..=32 {
            part_of(above).await.ok(201);
        }
        let created = part_of(33).await;
        let moved = ticket(&key, &organization).await;
        let moved = key.patch(&format!("{TICKETS}/{moved}")).json(json!({"parent": "T-33"})).send().await;
        for refused in [created, moved] {
            assert_eq!(refused.problem(422), "validation_failed");
            assert_eq!(refused.field_errors(), [("/parent".to_owned(), "too_deep".to_owned())]);
        }
    })
    .await;
}

#[tokio::test]
async fn reopening_counts_and_clears_the_resolution() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        let path = format!("{TICKETS}/{}", ticket(&key, &organization).await);
        let resolved =
            key.patch(&path).json(json!({"status": "resolved", "resolution": {"code": "vendor", "summary": "New drum."}}));
        let resolved = resolved.send().await.ok(200).clone();
        assert_eq!(resolved["resolution"]["code"], "vendor");
        assert_eq!(resolved["resolution"]["resolved_by"]["kind"], "api_key");
        assert_eq!(resolved["sla"]["state"], "met");
        let reopened = key.patch(&path).json(json!({"status": "in_progress"})).send().await.ok(200).clone();
        assert_eq!(reopened["counts"]["reopens"], 1);
        assert!(reopened.get("resolution").is_none() && reopened.get("resolved_at").is_none());
        assert!(reopened["sla"]["resolution"]["due_at"].is_string());
        let kinds: Vec<String> = key.get("/api/events?types=ticket.*&limit=200").send().await.ok(200)["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            kinds,
            ["ticket.created", "ticket.updated", "ticket.resolved", "ticket.updated", "ticket.reopened"],
            "a change of status is an update, and has its own kind beside it"
        );
    })
    .await;
}
