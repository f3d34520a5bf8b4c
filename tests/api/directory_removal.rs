//! Deleting directory records that other records refer to: the deletion is refused, or the references move.

use serde_json::{Value, json};

use crate::{
    directory_records::{CONTACTS, DEVICES, ORGANIZATIONS, SCOPES, made},
    harness::{Actor, Tenant, with_app},
};

const TICKETS: &str = "/api/psa/tickets";
const ALL: &[&str] = &["directory:*", "tickets:*", "backup:*", "ingest:write", "providers:*"];

async fn ticket(actor: &Actor, body: Value) -> String {
    let mut body = body;
    body["subject"] = json!("Broken");
    format!("{TICKETS}/{}", actor.post(TICKETS).json(body).send().await.ok(201)["ref"].as_str().unwrap())
}

/// An organization with a contact, a device and an open ticket that names both.
async fn customer(tenant: &Tenant<'_>, key: &Actor) -> [String; 4] {
    let organization = tenant.organization("Old").await;
    let contact = made(key, CONTACTS, json!({"name": "Bo", "organization_id": organization})).await;
    let device = made(key, DEVICES, json!({"name": "PC", "organization_id": organization, "owner_id": contact})).await;
    let body = json!({"organization_id": organization, "contact_id": contact, "device_ids": [device]});
    let ticket = ticket(key, body).await;
    [organization, contact, device, ticket]
}

#[tokio::test]
async fn references_prevent_deletion() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(ALL).await;
        let [organization, contact, device, ticket] = customer(&acme, &key).await;
        let config = json!({"enabled": false});
        key.put(&format!("/api/backup/config?scope={organization}")).json(config).send().await.ok(200);
        for (path, id, dependents) in [
            (ORGANIZATIONS, &organization, json!({"devices": 1, "contacts": 1, "open_tickets": 1, "backup_settings": 1})),
            (CONTACTS, &contact, json!({"devices": 1, "open_tickets": 1})),
            (DEVICES, &device, json!({"open_tickets": 1})),
        ] {
            let refused = key.delete(&format!("{path}/{id}")).send().await;
            assert_eq!((refused.problem(409), &refused.body["dependents"]), ("in_use", &dependents), "{}", refused.text);
            let refused = key.delete(path).json(json!({"ids": [id]})).send().await;
            assert_eq!(refused.field_errors(), [("/ids/0".to_owned(), "in_use".to_owned())]);
        }
        let blind = acme.key(SCOPES).await;
        let refused = blind.delete(&format!("{DEVICES}/{device}")).send().await;
        assert_eq!((refused.problem(409), &refused.body["dependents"]), ("in_use", &json!({})), "it cannot read tickets");
        key.patch(&ticket).json(json!({"status": "cancelled"})).send().await.ok(200);
        assert_eq!(key.delete(&format!("{DEVICES}/{device}")).send().await.status, 204, "a finished ticket keeps nothing");
        assert_eq!(key.delete(&format!("{CONTACTS}/{contact}")).send().await.status, 204);
    })
    .await;
}

#[tokio::test]
async fn references_move_to_a_replacement() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(ALL).await;
        let [organization, contact, device, ticket] = customer(&acme, &key).await;
        let target = acme.organization("New").await;
        let other_contact = made(&key, CONTACTS, json!({"name": "Cy", "organization_id": target})).await;
        let other_device = made(&key, DEVICES, json!({"name": "PC 2", "organization_id": target})).await;
        let gone = async |path: &str, id: &str, to: &str| key.delete(&format!("{path}/{id}?reassign_to={to}")).send().await;
        let itself = gone(ORGANIZATIONS, &organization, &organization).await;
        assert_eq!(itself.field_errors(), [("reassign_to".to_owned(), "unknown".to_owned())]);
        let nobody = gone(ORGANIZATIONS, &organization, "org_01k9z7w3v5e8g9m2n4p6r8t0x1").await;
        assert_eq!(nobody.field_errors(), [("reassign_to".to_owned(), "unknown".to_owned())]);
        let blind = acme.key(SCOPES).await;
        let refused = blind.delete(&format!("{ORGANIZATIONS}/{organization}?reassign_to={target}")).send().await;
        assert_eq!((refused.problem(403), &refused.body["required_scopes"]), ("insufficient_scope", &json!(["tickets:write"])));
        assert_eq!(gone(ORGANIZATIONS, &organization, &target).await.status, 204);
        assert_eq!(key.get(&format!("{ORGANIZATIONS}/{organization}")).send().await.status, 404);
        for place in [format!("{CONTACTS}/{contact}"), format!("{DEVICES}/{device}"), ticket.clone()] {
            assert_eq!(key.get(&place).send().await.ok(200)["organization"]["id"], *target, "{place}");
        }
        assert_eq!(gone(CONTACTS, &contact, &other_contact).await.status, 204);
        assert_eq!(key.get(&format!("{DEVICES}/{device}")).send().await.ok(200)["owner"]["id"], *other_contact);
        assert_eq!(gone(DEVICES, &device, &other_device).await.status, 204);
        let moved = key.get(&ticket).send().await.ok(200).clone();
        assert_eq!((&moved["contact"]["id"], &moved["devices"][0]["id"]), (&json!(other_contact), &json!(other_device)));
        assert_eq!(key.delete(&format!("{ORGANIZATIONS}/{target}")).send().await.problem(409), "in_use");
    })
    .await;
}

#[tokio::test]
async fn many_dependents_move_in_steps() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(ALL).await;
        let (old, new) = (acme.organization("Old").await, acme.organization("New").await);
        for part in 0..3 {
            let device = |number: usize| json!({"name": format!("d{part}-{number}"), "organization_id": old});
            let devices: Vec<Value> = (0..90).map(device).collect();
            key.post(DEVICES).json(json!({"devices": devices})).send().await.ok(201);
        }
        for _ in 0..60 {
            ticket(&key, json!({"organization_id": old})).await;
        }
        assert_eq!(key.delete(&format!("{ORGANIZATIONS}/{old}?reassign_to={new}")).send().await.status, 204);
        let devices = key.get(&format!("{DEVICES}?organization_id={new}&include_total=true")).send().await;
        assert_eq!(devices.ok(200)["page"]["total"], 270);
        let tickets = key.get(&format!("{TICKETS}?organization_id={new}&include_total=true")).send().await;
        assert_eq!(tickets.ok(200)["page"]["total"], 60);
    })
    .await;
}

#[tokio::test]
async fn restore_points_prevent_deletion_of_a_device() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(ALL).await;
        let organization = acme.organization("Acme").await;
        let device = made(&key, DEVICES, json!({"name": "srv", "class": "server", "organization_id": organization})).await;
        let job = json!({"kind": "backup_job", "external_id": "j1", "device": device, "started_at": "2026-01-01T00:00:00Z", "status": "success"});
        let answer = key.post("/internal/ingest").text("application/x-ndjson", format!("{job}\n")).send().await.lines(200);
        assert_eq!(answer[0]["status"], "created", "{answer:?}");
        let place = format!("{DEVICES}/{device}");
        let refused = key.delete(&place).send().await;
        assert_eq!((refused.problem(409), &refused.body["dependents"]), ("in_use", &json!({"restore_points": 1})));
        key.patch(&place).json(json!({"lifecycle": "retired"})).send().await.ok(200);
        assert_eq!(key.delete(&place).send().await.status, 204);
    })
    .await;
}
