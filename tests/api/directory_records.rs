//! Organizations, contacts and devices: creating, reading, changing and deleting them, and the effects on other records.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, with_app},
    inventory::ingest,
    reach::restricted,
};

pub const ORGANIZATIONS: &str = "/api/directory/organizations";
pub const CONTACTS: &str = "/api/directory/contacts";
pub const DEVICES: &str = "/api/directory/devices";
pub const SCOPES: &[&str] = &["directory:*"];

pub fn id_of(record: &Value) -> String {
    record["id"].as_str().unwrap().to_owned()
}

/// Creates a record and returns its id.
pub async fn made(actor: &Actor, path: &str, body: Value) -> String {
    id_of(actor.post(path).json(body).send().await.ok(201))
}

async fn events(actor: &Actor, types: &str) -> Vec<Value> {
    let feed = actor.get(&format!("/api/events?limit=200&types={types}")).send().await;
    feed.ok(200)["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn each_kind_is_created_read_changed_and_deleted() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["directory:*", "events:read", "inventory:read", "users:read"]).await;
        let organization = made(&key, ORGANIZATIONS, json!({"name": "Acme"})).await;
        let cases = [
            (CONTACTS, "user", json!({"name": "Bo", "email": "Bo@Acme.example", "organization_id": organization})),
            (DEVICES, "device", json!({"name": "PC", "organization_id": organization, "tags": ["vip"]})),
            (ORGANIZATIONS, "organization", json!({"name": "Beta", "external_id": "b"})),
        ];
        for (path, subject, body) in cases {
            let created = key.post(path).json(body).send().await;
            let id = id_of(created.ok(201));
            let place = format!("{path}/{id}");
            assert_eq!((created.header("etag"), created.header("location")), ("\"v1\"", place.as_str()));
            let read = key.get(&place).send().await;
            let mut shown = read.ok(200).clone();
            // Whether a device is backed up is computed moments later.
            shown.as_object_mut().unwrap().remove("backup");
            assert_eq!((&shown, read.header("etag")), (&created.body, "\"v1\""));
            assert_eq!(key.get(&place).header("if-none-match", "\"v1\"").send().await.status, 304);
            let changed = key.patch(&place).header("if-match", "\"v1\"").json(json!({"name": "Other"})).send().await;
            assert_eq!((&changed.ok(200)["name"], &changed.body["version"]), (&json!("Other"), &json!(2)));
            let stale = key.patch(&place).header("if-match", "\"v1\"").json(json!({"name": "Third"})).send().await;
            assert_eq!((stale.problem(412), &stale.body["current_version"]), ("version_conflict", &json!(2)));
            let by_query = key.patch(&format!("{path}?id={id}")).json(json!({"external_id": "x"})).send().await;
            assert_eq!(by_query.ok(200)["external_id"], "x");
            assert_eq!(key.delete(&place).header("if-match", "\"v1\"").send().await.problem(412), "version_conflict");
            assert_eq!(key.delete(&place).send().await.status, 204);
            assert_eq!(key.get(&place).send().await.problem(404), "not_found");
            let reported: Vec<Value> = events(&key, &format!("{subject}.*")).await;
            let kinds: Vec<&str> = reported
                .iter()
                .filter(|event| event["resource"]["id"] == *id)
                .map(|event| event["type"].as_str().unwrap())
                .collect();
            assert_eq!(kinds, ["created", "updated", "updated", "removed"].map(|what| format!("{subject}.{what}")));
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeated_creation_makes_one_record() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(SCOPES).await;
        let organization = acme.organization("Acme").await;
        for (path, body) in [
            (ORGANIZATIONS, json!({"name": "Once"})),
            (CONTACTS, json!({"name": "Once"})),
            (DEVICES, json!({"name": "Once", "organization_id": organization})),
        ] {
            let send = |body: &Value| key.post(path).header("idempotency-key", "once").json(body.clone()).send();
            let (first, second) = (send(&body).await, send(&body).await);
            assert_eq!((first.ok(201), second.header("idempotency-replayed")), (second.ok(201), "true"));
            assert_eq!(send(&json!({"name": "Twice", "organization_id": organization})).await.status, 422);
            let list = key.get(&format!("{path}?name=once&include_total=true")).send().await;
            assert_eq!(list.ok(200)["page"]["total"], 1, "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn duplicate_names_are_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(SCOPES).await;
        let organization = made(&key, ORGANIZATIONS, json!({"name": "Acme", "external_id": "a"})).await;
        for (path, body) in [
            (ORGANIZATIONS, json!({"name": "B", "external_id": "a"})),
            (CONTACTS, json!({"name": "B", "external_id": "a"})),
            (DEVICES, json!({"name": "B", "external_id": "a", "organization_id": organization})),
        ] {
            if path != ORGANIZATIONS {
                key.post(path).json(body.clone()).send().await.ok(201);
            }
            assert_eq!(key.post(path).json(body.clone()).send().await.problem(409), "already_exists", "{path}");
            let mut other = body.clone();
            other.as_object_mut().unwrap().remove("external_id");
            let place = format!("{path}/{}", made(&key, path, other).await);
            let taken = key.patch(&place).json(json!({"external_id": "a"})).send().await;
            assert_eq!(taken.problem(409), "already_exists", "{path}");
        }
        key.post(CONTACTS).json(json!({"name": "A", "email": "a@x.example"})).send().await.ok(201);
        let taken = key.post(CONTACTS).json(json!({"name": "B", "email": "A@x.example"})).send().await;
        assert_eq!(taken.problem(409), "already_exists");
        let bad = key.post(CONTACTS).json(json!({"name": "B", "email": "nobody"})).send().await;
        assert_eq!(bad.field_errors(), [("/email".to_owned(), "wrong_form".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn staff_are_no_contacts() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let staff = admin.get("/api/admin/users?kind=staff").send().await.ok(200)["data"][0].clone();
        let place = format!("{CONTACTS}/{}", id_of(&staff));
        assert_eq!(admin.get(&place).send().await.problem(404), "not_found");
        assert_eq!(admin.patch(&place).json(json!({"name": "Mallory"})).send().await.problem(404), "not_found");
        assert_eq!(admin.delete(&place).send().await.problem(404), "not_found");
        assert_eq!(admin.get(CONTACTS).send().await.ok(200)["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn an_import_changes_only_what_it_sends() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["directory:*", "ingest:write"]).await;
        let organization = json!({"kind": "organization", "external_id": "acme", "name": "Acme"});
        let contact = json!({"kind": "user", "external_id": "bo", "name": "Bo", "organization_external_id": "acme"});
        let device = json!({
            "kind": "device", "external_id": "d1", "name": "PC", "organization_external_id": "acme",
            "agent": {"version": "5.1", "last_seen_at": "2026-01-01T00:00:00Z"}, "custom_fields": {"rack": "B7"},
            "hardware": {"model": "T14", "cpu": {"model": "Core"}}, "os": {"family": "windows", "name": "Windows 11"},
        });
        let answers = ingest(&key, &[organization, contact, device]).await;
        let place = |path: &str, line: usize| format!("{path}/{}", answers[line]["id"].as_str().unwrap());
        let (contact, device) = (place(CONTACTS, 1), place(DEVICES, 2));
        key.patch(&contact).json(json!({"email": "bo@acme.example"})).send().await.ok(200);
        let by_hand = json!({
            "site": "Basel", "custom_fields": {"owner": "Zoe"}, "hardware": {"serial": "S-1", "cpu": {"cores": 8}},
            "os": {"build": "26100"}, "security": {"firewall": true},
        });
        key.patch(&device).json(by_hand).send().await.ok(200);
        let again = [
            json!({"kind": "user", "external_id": "bo", "name": "Bo B."}),
            json!({
                "kind": "device", "external_id": "d1", "name": "PC 1", "agent": {"last_seen_at": "2026-01-01T00:01:00Z"},
                "custom_fields": {"rack": "B8"}, "hardware": {"model": "T15", "cpu": {"model": "Ultra"}}, "os": {"version": "24H2"},
            }),
        ];
        ingest(&key, &again).await;
        let shown = key.get(&contact).send().await.ok(200).clone();
        assert_eq!((&shown["name"], &shown["email"]), (&json!("Bo B."), &json!("bo@acme.example")));
        let shown = key.get(&device).send().await.ok(200).clone();
        assert_eq!((&shown["name"], &shown["site"]), (&json!("PC 1"), &json!("Basel")));
        assert_eq!(shown["custom_fields"], json!({"owner": "Zoe", "rack": "B8"}));
        let hardware = json!({"model": "T15", "serial": "S-1", "cpu": {"model": "Ultra", "cores": 8}, "disks": [], "volumes": []});
        assert_eq!(shown["hardware"], hardware);
        assert_eq!(shown["os"], json!({"family": "windows", "name": "Windows 11", "version": "24H2", "build": "26100"}));
        assert_eq!((&shown["security"]["firewall"], &shown["agent"]["version"]), (&json!(true), &json!("5.1")));
        let cleared = key.patch(&device).json(json!({"os": null, "hardware": {"cpu": null}, "custom_fields": {"rack": null}}));
        let cleared = cleared.send().await.ok(200).clone();
        assert!(cleared.get("os").is_none() && cleared["hardware"].get("cpu").is_none(), "{cleared}");
        assert_eq!(cleared["custom_fields"], json!({"owner": "Zoe"}));
        let partial = key.patch(&device).json(json!({"os": {"name": "Linux"}})).send().await;
        assert_eq!(partial.field_errors(), [("/os/family".to_owned(), "required".to_owned())]);
        let protected = key.patch(&device).json(json!({"backup": {"protected": true}})).send().await;
        assert_eq!(protected.problem(422), "validation_failed", "protection is read-only");
    })
    .await;
}

#[tokio::test]
async fn a_restricted_key_reaches_only_its_organizations() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let key = restricted(app, &admin, &[&ours], SCOPES).await;
        let mut records = vec![(ORGANIZATIONS, theirs.clone())];
        for path in [CONTACTS, DEVICES] {
            made(&key, path, json!({"name": "Mine", "organization_id": ours})).await;
            records.push((path, made(&admin, path, json!({"name": "Not mine", "organization_id": theirs})).await));
        }
        for (path, id) in &records {
            let place = format!("{path}/{id}");
            assert_eq!(key.get(&place).send().await.problem(404), "not_found");
            assert_eq!(key.patch(&place).json(json!({"name": "x"})).send().await.problem(404), "not_found");
            assert_eq!(key.delete(&place).send().await.problem(404), "not_found");
            let list = key.get(&format!("{path}?include_total=true")).send().await;
            assert_eq!((list.ok(200)["data"].as_array().unwrap().len(), &list.body["page"]["total"]), (1, &json!(1)), "{path}");
            assert_eq!(key.get(&format!("{path}?format=ndjson")).send().await.lines(200).last().unwrap()["count"], 1);
        }
        let refused = key.post(ORGANIZATIONS).json(json!({"name": "New"})).send().await;
        assert_eq!(refused.problem(403), "insufficient_scope");
        let unknown = [("/organization_id".to_owned(), "unknown".to_owned())];
        for path in [CONTACTS, DEVICES] {
            let elsewhere = key.post(path).json(json!({"name": "x", "organization_id": theirs})).send().await;
            assert_eq!(elsewhere.field_errors(), unknown, "{path}");
            let mine = id_of(&key.get(path).send().await.ok(200)["data"][0]);
            let moved = key.patch(&format!("{path}/{mine}")).json(json!({"organization_id": theirs})).send().await;
            assert_eq!(moved.field_errors(), unknown, "{path}");
        }
        assert_eq!(key.post(CONTACTS).json(json!({"name": "x"})).send().await.field_errors(), unknown, "of no organization");
        let owned = key.post(DEVICES).json(json!({"name": "x", "organization_id": ours, "owner_id": records[1].1})).send().await;
        assert_eq!(owned.field_errors(), [("/owner_id".to_owned(), "unknown".to_owned())]);
        let other = app.tenant("beta").await.key(SCOPES).await;
        for (path, id) in &records {
            assert_eq!(other.get(&format!("{path}/{id}")).send().await.problem(404), "not_found");
        }
    })
    .await;
}

#[tokio::test]
async fn changes_are_visible_in_search_and_reports_immediately() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["directory:*", "search:read", "inventory:read", "users:read", "backup:read"]).await;
        let found = async |q: &str| -> Vec<Value> {
            key.get(&format!("/api/search?q={q}")).send().await.ok(200)["data"].as_array().unwrap().clone()
        };
        let first = made(&key, ORGANIZATIONS, json!({"name": "Umbrella"})).await;
        let second = made(&key, ORGANIZATIONS, json!({"name": "Cyberdyne"})).await;
        made(&key, CONTACTS, json!({"name": "Wesker", "organization_id": first})).await;
        let device = made(&key, DEVICES, json!({"name": "nemesis", "organization_id": first, "class": "server"})).await;
        // The name of an organization also finds its records.
        for (name, hits) in [("umbrella", 3), ("wesker", 1), ("nemesis", 1)] {
            assert_eq!(found(name).await.len(), hits, "{name}");
        }
        let place = format!("{DEVICES}/{device}");
        key.patch(&place).json(json!({"organization_id": second, "hardware": {"serial": "TYRANT9"}})).send().await.ok(200);
        assert_eq!(found("TYRANT9").await[0]["organization"]["name"], "Cyberdyne");
        let report = key.get(&format!("/api/rmm/reports/asset-inventory?organization_id={second}")).send().await;
        assert_eq!(report.ok(200)["data"][0]["id"], *device);
        key.delete(&place).send().await;
        assert!(found("nemesis").await.is_empty());
    })
    .await;
}
