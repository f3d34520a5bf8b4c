//! Tickets for backup problems: opened for existing problems when the option is enabled, resolved after recovery, and left alone
//! once somebody has changed them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    backup::{REPORT, device, estate, events, ids, job, organization, set, until},
    harness::{Actor, with_app},
    inventory::ingest,
};

const TICKETS: &str = "/api/psa/tickets?sort=number&limit=200";

async fn tickets(actor: &Actor) -> Vec<Value> {
    actor.get(TICKETS).send().await.ok(200)["data"].as_array().unwrap().clone()
}

fn summary(tickets: &[Value]) -> Vec<(&str, &str)> {
    tickets.iter().map(|ticket| (ticket["subject"].as_str().unwrap(), ticket["status"].as_str().unwrap())).collect()
}

fn wanted(alarms: &[&str]) -> Value {
    json!({"notifications": {"ticket_on": alarms, "ticket_priority": "high"}})
}

#[tokio::test]
async fn enabling_alarms_opens_tickets_for_existing_problems() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, made) = estate(&tenant).await;
        ingest(&key, &[job("1", "a-srv", "failed", "2025-12-31T20:00:00Z")]).await;
        app.advance(Duration::from_hours(72));
        until(&key, REPORT, |report| report["summary"]["rpo"]["breached"] == 4).await;
        assert!(tickets(&key).await.is_empty());
        set(&key, &made[0], wanted(&["failed", "missed", "rpo_breach"])).await;
        let count = |page: &Value| page["data"].as_array().unwrap().len();
        let page = until(&key, TICKETS, |page| count(page) >= 5).await;
        let mut subjects: Vec<&str> = summary(page["data"].as_array().unwrap()).into_iter().map(|(subject, _)| subject).collect();
        subjects.sort_unstable();
        assert_eq!(
            subjects,
            [
                "Backup of a-srv failed",
                "Backup of a-srv was missed",
                "Backup of a-ws was missed",
                "a-srv breaches its recovery point objective",
                "a-ws breaches its recovery point objective",
            ]
        );
        // Repeated changes and the passing of time open no further ticket and add nothing.
        set(&key, &made[0], json!({"notifications": {"ticket_on": ["failed", "missed", "rpo_breach"], "ticket_priority": "low"}}))
            .await;
        app.advance(Duration::from_hours(48));
        ingest(&key, &[job("2", "b-ws", "success", "2026-01-05T00:00:00Z")]).await;
        until(&key, REPORT, |report| report["summary"]["rpo"]["breached"] == 3).await;
        let found = tickets(&key).await;
        assert!(found.len() == 5 && found.iter().all(|ticket| ticket["occurrences"] == 1), "{found:?}");
        assert_eq!(events(&key, "backup.rpo_breached").await.len(), 4, "each breach is reported once");
        let issue = key.get(&format!("{REPORT}?organization_id={}", made[0])).send().await.ok(200)["data"][0]["issues"][0].clone();
        assert!(issue["ticket"].as_str().is_some_and(|id| id.starts_with("tkt_")), "{issue}");
    })
    .await;
}

#[tokio::test]
async fn recovery_resolves_the_ticket_of_the_device() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, made) = estate(&tenant).await;
        set(&key, &made[0], wanted(&["failed", "rpo_breach"])).await;
        ingest(&key, &[job("1", "a-srv", "failed", "2025-12-31T20:00:00Z")]).await;
        app.advance(Duration::from_hours(72));
        until(&key, TICKETS, |page| page["data"].as_array().unwrap().len() == 3).await;
        ingest(&key, &[job("2", "a-srv", "success", "2026-01-03T23:00:00Z")]).await;
        let found = tickets(&key).await;
        let mut states = summary(&found);
        states.sort_unstable();
        assert_eq!(
            states,
            [
                ("Backup of a-srv failed", "resolved"),
                ("a-srv breaches its recovery point objective", "resolved"),
                ("a-ws breaches its recovery point objective", "new"),
            ]
        );
        let resolved = found.iter().find(|ticket| ticket["subject"] == "a-srv breaches its recovery point objective").unwrap();
        let resolution = &resolved["resolution"];
        assert_eq!((&resolution["code"], &resolution["resolved_by"]["kind"]), (&json!("fixed"), &json!("system")), "{resolved}");
        assert_eq!(events(&key, "ticket.resolved").await.len(), 2);
        assert_eq!(events(&key, "backup.rpo_recovered").await.len(), 1);
        ingest(&key, &[job("3", "a-srv", "success", "2026-01-03T23:30:00Z")]).await;
        assert_eq!(events(&key, "ticket.resolved").await.len(), 2, "each recovery is reported once");
        // The next breach is a separate problem.
        app.advance(Duration::from_hours(30));
        until(&key, TICKETS, |page| page["data"].as_array().unwrap().len() == 4).await;
    })
    .await;
}

#[tokio::test]
async fn an_assigned_ticket_is_left_alone() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let key = tenant.key(&["ingest:write", "backup:*", "events:read", "tickets:read"]).await;
        let mut lines = vec![organization("acme")];
        lines.extend(["one", "two", "three", "four"].map(|name| device(name, "acme", "server")));
        let made = ids(&ingest(&key, &lines).await);
        let mut settings = wanted(&["failed"]);
        set(&key, "tenant", settings.clone()).await;
        settings["notifications"]["resolve_on_recovery"] = json!(false);
        set(&key, &made[4], settings).await;
        ingest(&key, &["one", "two", "three", "four"].map(|name| job("1", name, "failed", "2025-12-31T20:00:00Z"))).await;
        let open = tickets(&key).await;
        assert_eq!(open.len(), 4);
        let change = async |place: usize, body: Value| {
            admin
                .patch(&format!("/api/psa/tickets/{}", open[place]["id"].as_str().unwrap()))
                .json(body)
                .send()
                .await
                .ok(200)
                .clone()
        };
        change(1, json!({"status": "in_progress"})).await;
        let done = json!({"status": "resolved", "resolution": {"code": "no_action", "summary": "Known."}});
        let closed = change(2, done).await;
        ingest(&key, &["one", "two", "three", "four"].map(|name| job("2", name, "success", "2025-12-31T21:00:00Z"))).await;
        let found = tickets(&key).await;
        let states: Vec<&str> = summary(&found).into_iter().map(|(_, status)| status).collect();
        assert_eq!(states, ["resolved", "in_progress", "resolved", "new"]);
        assert_eq!(found[2], closed, "what is finished is left as it is");
        let path = format!("/api/psa/tickets/{}/comments", open[1]["id"].as_str().unwrap());
        let comments = admin.get(&path).send().await.ok(200)["data"].clone();
        assert_eq!(
            (&comments[0]["body"], &comments[0]["visibility"]),
            (&json!("A backup has succeeded since."), &json!("internal")),
            "{comments}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_retired_device_keeps_its_ticket_open() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, made) = estate(&tenant).await;
        set(&key, &made[0], wanted(&["rpo_breach"])).await;
        app.advance(Duration::from_hours(72));
        until(&key, TICKETS, |page| page["data"].as_array().unwrap().len() == 2).await;
        ingest(&key, &[json!({"kind": "device", "external_id": "a-srv", "lifecycle": "retired"})]).await;
        until(&key, REPORT, |report| report["summary"]["devices"]["eligible"] == 3).await;
        assert!(summary(&tickets(&key).await).iter().all(|(_, status)| *status == "new"));
        assert!(events(&key, "backup.rpo_recovered").await.is_empty());
    })
    .await;
}
