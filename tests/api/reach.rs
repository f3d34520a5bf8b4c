//! Keys restricted to organizations cannot see records of other organizations or of none.

use serde_json::{Value, json};

use crate::{
    cloud::{create, path, refresh, simulated},
    harness::{Actor, TestApp, with_app},
};

const KEYS: &str = "/api/admin/api-keys";
const TICKETS: &str = "/api/psa/tickets";

pub async fn restricted(app: &TestApp, admin: &Actor, organizations: &[&str], scopes: &[&str]) -> Actor {
    let body = json!({"name": format!("for {organizations:?}"), "scopes": scopes, "organization_ids": organizations});
    let created = admin.post(KEYS).json(body).send().await;
    assert_eq!(created.ok(201)["organization_ids"], json!(organizations));
    app.anonymous().bearer(created.body["key"].as_str().unwrap())
}

fn references(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|ticket| ticket["ref"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_restricted_key_is_limited_to_tickets_it_reaches() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let admin = tenant.admin().await;
        for (subject, organization) in [("A", &ours), ("B", &theirs), ("C", &ours)] {
            admin.post(TICKETS).json(json!({"subject": subject, "organization_id": organization})).send().await.ok(201);
        }
        let key = restricted(app, &admin, &[&ours], &["tickets:*"]).await;
        let list = key.get(&format!("{TICKETS}?include_total=true&sort=number&counts_by=organization")).send().await;
        assert_eq!(references(list.ok(200)), ["T-1", "T-3"]);
        assert_eq!(list.body["page"]["total"], 2);
        assert_eq!(list.body["counts"]["organization"].as_array().unwrap().len(), 1);
        let elsewhere = key.get(&format!("{TICKETS}?organization_id={theirs}&include_total=true")).send().await;
        assert_eq!((references(elsewhere.ok(200)).len(), &elsewhere.body["page"]["total"]), (0, &json!(0)));
        let stream = key.get(&format!("{TICKETS}?format=ndjson")).send().await.lines(200);
        assert_eq!(stream.last().unwrap()["count"], 2);

        for path in ["", "/history", "/comments", "/time-entries"] {
            assert_eq!(key.get(&format!("{TICKETS}/T-2{path}")).send().await.problem(404), "not_found", "{path}");
        }
        let minutes = json!({"minutes": 5, "work_type": "remote", "billable": false});
        for (path, body) in [("comments", json!({"body": "hello"})), ("time-entries", minutes)] {
            assert_eq!(key.post(&format!("{TICKETS}/T-2/{path}")).json(body).send().await.problem(404), "not_found", "{path}");
        }
        assert_eq!(key.patch(&format!("{TICKETS}/T-2")).json(json!({"subject": "mine"})).send().await.problem(404), "not_found");
        let several = key.patch(TICKETS).json(json!({"ids": ["T-1", "T-2"], "patch": {"subject": "mine"}})).send().await;
        assert_eq!(several.problem(404), "not_found");
        key.post(&format!("{TICKETS}/T-3/comments")).json(json!({"body": "hello"})).send().await.ok(201);
        assert_eq!(admin.get(&format!("{TICKETS}/T-1")).send().await.ok(200)["subject"], "A", "all or none");
    })
    .await;
}

#[tokio::test]
async fn the_filter_by_parent_finds_no_children_of_a_ticket_out_of_reach() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let admin = tenant.admin().await;
        let made = async |body: Value| admin.post(TICKETS).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        let hidden = made(json!({"subject": "Theirs", "organization_id": theirs})).await;
        let seen = made(json!({"subject": "Ours", "organization_id": ours})).await;
        made(json!({"subject": "Child", "organization_id": ours, "parent": hidden})).await;
        made(json!({"subject": "Child", "organization_id": ours, "parent": seen})).await;
        let key = restricted(app, &admin, &[&ours], &["tickets:read"]).await;
        let unknown = "tkt_01k9z7w3v5e8g9m2n4p6r8t0x1";
        for (filter, children) in [
            (format!("parent_id={hidden}"), &[] as &[&str]),
            (format!("parent_id={unknown}"), &[]),
            (format!("parent_id={seen}"), &["T-4"]),
            (format!("parent_id={hidden}&parent_id={seen}"), &["T-4"]),
        ] {
            let list = key.get(&format!("{TICKETS}?{filter}&include_total=true&counts_by=status")).send().await.ok(200).clone();
            assert_eq!((references(&list), &list["page"]["total"]), (children.to_vec(), &json!(children.len())), "{filter}");
            assert_eq!(list["counts"]["status"].as_array().unwrap().len(), children.len(), "{filter}");
            let stream = key.get(&format!("{TICKETS}?{filter}&format=ndjson")).send().await.lines(200);
            assert_eq!(stream.last().unwrap()["count"], children.len(), "{filter}");
        }
        let all = admin.get(&format!("{TICKETS}?parent_id={hidden}")).send().await.ok(200).clone();
        assert_eq!(references(&all), ["T-3"]);
    })
    .await;
}

#[tokio::test]
async fn a_restricted_key_cannot_move_a_ticket_out() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let (device, contact) = (tenant.device(&theirs, "pc").await, tenant.contact(&theirs, "bo@theirs.example").await);
        let admin = tenant.admin().await;
        admin.post(TICKETS).json(json!({"subject": "B", "organization_id": theirs})).send().await.ok(201);
        let key = restricted(app, &admin, &[&ours], &["tickets:*"]).await;
        let beyond = [
            json!({"organization_id": theirs}),
            json!({"organization_id": ours, "device_ids": [device]}),
            json!({"organization_id": ours, "contact_id": contact}),
            json!({"organization_id": ours, "assignee_id": contact}),
            json!({"organization_id": ours, "contact_email": "bo@theirs.example"}),
            json!({"organization_id": ours, "parent": "T-1"}),
            json!({"contact_id": contact}),
        ];
        for mut body in beyond {
            body["subject"] = json!("mine");
            let refused = key.post(TICKETS).json(body.clone()).send().await;
            assert_eq!(refused.problem(422), "validation_failed", "{body}");
            assert!(refused.field_errors().iter().any(|(_, code)| code == "unknown_reference"), "{body}: {}", refused.body);
        }
        key.post(TICKETS).json(json!({"subject": "A", "organization_id": ours})).send().await.ok(201);
        for patch in [
            json!({"organization_id": theirs}),
            json!({"contact_id": contact}),
            json!({"device_ids": [device]}),
            json!({"parent": "T-1"}),
            json!({"status": "merged", "merged_into": "T-1"}),
        ] {
            let refused = key.patch(&format!("{TICKETS}/T-2")).json(patch.clone()).send().await;
            assert_eq!(refused.problem(422), "validation_failed", "{patch}");
        }
        let levels = admin.get("/api/psa/sla").send().await.ok(200).clone();
        let mut terms = levels;
        for member in ["updated_at", "version"] {
            terms.as_object_mut().unwrap().remove(member);
        }
        assert_eq!(key.put("/api/psa/sla").json(terms).send().await.problem(403), "insufficient_scope");
    })
    .await;
}

#[tokio::test]
async fn tickets_out_of_reach_are_not_named() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let admin = tenant.admin().await;
        let make = async |body: Value| admin.post(TICKETS).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        let hidden = make(json!({"subject": "A", "organization_id": theirs})).await;
        make(json!({"subject": "B", "organization_id": ours, "parent": "T-1"})).await;
        make(json!({"subject": "C", "organization_id": ours})).await;
        make(json!({"subject": "D", "organization_id": ours, "parent": "T-2"})).await;
        for (ticket, change) in [
            ("T-3", json!({"status": "merged", "merged_into": "T-1"})),
            ("T-4", json!({"parent": "T-1"})),
            ("T-4", json!({"parent": "T-2"})),
        ] {
            admin.patch(&format!("{TICKETS}/{ticket}")).json(change).send().await.ok(200);
        }
        let key = restricted(app, &admin, &[&ours], &["tickets:*"]).await;
        let paths = ["", "/T-2", "/T-3", "/T-4", "/T-2/history", "/T-3/history", "/T-4/history", "?format=ndjson", "?format=csv"];
        for path in paths {
            let reply = key.get(&format!("{TICKETS}{path}")).send().await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.text);
            assert!(!reply.text.contains(&hidden) && !reply.text.contains("T-1"), "{path}: {}", reply.text);
        }
        let changed = key.patch(&format!("{TICKETS}/T-2")).json(json!({"subject": "Ours"})).send().await;
        assert!(changed.ok(200).get("parent").is_none(), "{}", changed.text);
        assert_eq!(key.get(&format!("{TICKETS}/T-4")).send().await.ok(200)["parent"]["ref"], "T-2");
        let all = admin.get(&format!("{TICKETS}/T-2")).send().await.ok(200).clone();
        assert_eq!((&all["parent"]["id"], &all["subject"]), (&json!(hidden), &json!("Ours")), "the reference itself stays");
        assert_eq!(admin.get(&format!("{TICKETS}/T-3")).send().await.ok(200)["merged_into"]["ref"], "T-1");
    })
    .await;
}

#[tokio::test]
async fn a_restricted_key_has_no_tenant_wide_scopes() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let ours = tenant.organization("Ours").await;
        let admin = tenant.admin().await;
        let body = |scopes: Value| json!({"name": "k", "scopes": scopes, "organization_ids": [ours]});
        let refused = admin.post(KEYS).json(body(json!(["tickets:read", "webhooks:read", "users:*"]))).send().await;
        assert_eq!(refused.problem(422), "validation_failed");
        let message = refused.body["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("webhooks:read, users:read, users:write"), "{message}");
        let mut unknown = body(json!(["tickets:read"]));
        unknown["organization_ids"] = json!(["org_01k00000000000000000000000"]);
        let refused = admin.post(KEYS).json(unknown).send().await;
        assert_eq!(refused.field_errors(), [("/organization_ids".to_owned(), "unknown_reference".to_owned())]);

        let key = restricted(app, &admin, &[&ours], &["*"]).await;
        key.get(TICKETS).send().await.ok(200);
        for path in ["/api/admin/webhooks", "/api/events", KEYS, "/api/admin/users", "/api/psa/workflows/trigger"] {
            assert_eq!(key.get(path).send().await.problem(403), "insufficient_scope", "{path}");
        }
        let (_, record) = tenant.new_key("wide", &["tickets:read", "webhooks:read"]).await;
        let path = format!("{KEYS}/{}", record["id"].as_str().unwrap());
        let narrowed = admin.put(&path).json(json!({"organization_ids": [ours]})).send().await;
        assert_eq!(narrowed.problem(422), "validation_failed");
        let narrowed = admin.put(&path).json(json!({"scopes": ["tickets:read"], "organization_ids": [ours]})).send().await;
        assert_eq!(narrowed.ok(200)["organization_ids"], json!([ours]));
        let widened = admin.put(&path).json(json!({"organization_ids": null})).send().await;
        assert!(widened.ok(200).get("organization_ids").is_none());
    })
    .await;
}

#[tokio::test]
async fn a_restricted_key_imports_into_its_organizations_only() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let whole = tenant.key(&["ingest:write"]).await;
        let send = async |actor: &Actor, lines: &[Value]| {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let answers = actor.post("/internal/ingest").text("application/x-ndjson", text).send().await.lines(200);
            let code = |answer: &Value| match answer["error"]["code"].as_str() {
                Some(code) => code.to_owned(),
                None => answer["status"].as_str().unwrap_or_default().to_owned(),
            };
            answers.iter().take(lines.len()).map(code).collect::<Vec<_>>()
        };
        let organization = |name: &str| json!({"kind": "organization", "external_id": name, "name": name});
        let device = |id: &str, of: &str| json!({"kind": "device", "external_id": id, "name": id, "organization_external_id": of});
        send(&whole, &[organization("ours"), organization("theirs"), device("d1", "theirs")]).await;
        let again = whole.post("/internal/ingest").text("application/x-ndjson", organization("ours").to_string()).send().await;
        let ours = again.lines(200)[0]["id"].as_str().unwrap().to_owned();
        let admin = tenant.admin().await;
        let key = restricted(app, &admin, &[&ours], &["ingest:write"]).await;
        let lines = [
            device("d2", "ours"),
            device("d3", "theirs"),
            device("d1", "ours"),
            json!({"kind": "device", "external_id": "d2", "organization_external_id": "theirs"}),
            json!({"kind": "device", "external_id": "d2", "site": "Basel"}),
            json!({"kind": "user", "external_id": "u1", "name": "Bo"}),
            json!({"kind": "user", "external_id": "u1", "name": "Bo", "organization_external_id": "ours"}),
            organization("new"),
            json!({"kind": "organization", "external_id": "ours", "name": "Ours Ltd"}),
            json!({"kind": "device", "external_id": "d1", "deleted": true}),
            json!({"kind": "device", "external_id": "d2", "deleted": true}),
        ];
        let no = "insufficient_scope";
        let expected = ["created", no, no, no, "updated", no, "created", no, "updated", no, "removed"];
        assert_eq!(send(&key, &lines).await, expected);
    })
    .await;
}

#[tokio::test]
async fn a_restricted_key_searches_its_organizations_only() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Zeppelin Ours").await, tenant.organization("Zeppelin Theirs").await);
        tenant.device(&ours, "zeppelin-1").await;
        tenant.device(&theirs, "zeppelin-2").await;
        let admin = tenant.admin().await;
        let clouds = [("Zeppelin cloud 1", Some(&ours)), ("Zeppelin cloud 2", Some(&theirs)), ("Zeppelin cloud 3", None)];
        for (name, organization) in clouds {
            let mut body = simulated(name, json!({"seed": 7, "vm_count": 3}));
            if let Some(organization) = organization {
                body["organization_id"] = json!(organization);
            }
            create(&admin, body).await;
        }
        refresh(&admin).await;
        let key = restricted(app, &admin, &[&ours], &["search:read", "inventory:read", "providers:read", "vms:*"]).await;

        // The organization, the device, the provider and its VMs, which contain its name.
        let search = async || key.get("/api/search?q=zeppelin&facets=organization,type").send().await.ok(200).clone();
        let found = search().await;
        assert_eq!((&found["page"]["total"], found["data"].as_array().unwrap().len()), (&json!(6), 6), "{found}");
        let beyond = |hit: &&Value| hit["id"] != json!(ours) && hit["organization"]["id"] != json!(ours);
        assert_eq!(found["data"].as_array().unwrap().iter().find(beyond), None);
        assert_eq!(found["facets"]["organization"].as_array().unwrap().len(), 1);
        assert_eq!(admin.get("/api/search?q=zeppelin").send().await.ok(200)["page"]["total"], 16);

        let report = key.get("/api/rmm/reports/asset-inventory?include_total=true").send().await;
        assert_eq!(report.ok(200)["page"]["total"], 1);
        assert_eq!(report.body["data"][0]["name"], "zeppelin-1");
        let groups = key.get("/api/rmm/reports/asset-inventory?group_by=organization").send().await;
        assert_eq!(groups.ok(200)["groups"]["values"].as_array().map(Vec::len), Some(1), "{}", groups.body);

        let providers = key.get("/api/cloud/providers").send().await.ok(200)["data"].as_array().unwrap().clone();
        assert_eq!(providers.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(), ["Zeppelin cloud 1"]);
        let vms = key.get("/api/cloud/vms?include_total=true").send().await;
        assert_eq!(vms.ok(200)["page"]["total"], 3);
        let others = admin.get("/api/cloud/providers").send().await.ok(200)["data"].as_array().unwrap().clone();
        for other in others.iter().filter(|one| one["name"] != "Zeppelin cloud 1") {
            assert_eq!(key.get(&path(other)).send().await.problem(404), "not_found");
            let order =
                json!({"provider_id": other["id"], "name": "web", "region": "sim-east", "size": "sim.small", "image": "debian-13"});
            assert_eq!(key.post("/api/cloud/vms").json(order).send().await.problem(422), "validation_failed");
        }
        let second = others.iter().find(|one| one["name"] == "Zeppelin cloud 2").unwrap();
        admin.put(&path(second)).json(json!({"organization_id": ours})).send().await.ok(200);
        assert_eq!(search().await["page"]["total"], 10, "the VMs come along with their provider");
    })
    .await;
}

#[tokio::test]
async fn cached_answers_respect_reach_and_changes() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let admin = tenant.admin().await;
        for (subject, organization) in [("A", &ours), ("B", &theirs)] {
            admin.post(TICKETS).json(json!({"subject": subject, "organization_id": organization})).send().await.ok(201);
        }
        let key = restricted(app, &admin, &[&theirs], &["tickets:*"]).await;
        let list = async |caller: &Actor| references(caller.get(&format!("{TICKETS}?sort=number")).send().await.ok(200)).join(" ");
        // Nothing changes in between, and the clock does not move.
        for _ in 0..2 {
            assert_eq!(list(&admin).await, "T-1 T-2");
            assert_eq!(list(&key).await, "T-2");
            assert_eq!(admin.get(&format!("{TICKETS}/T-1")).send().await.ok(200)["subject"], "A");
            assert_eq!(key.get(&format!("{TICKETS}/T-1")).send().await.problem(404), "not_found");
            assert_eq!(admin.get(&format!("{TICKETS}?assignee_id=me")).send().await.ok(200)["data"], json!([]));
        }
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        admin.patch(&format!("{TICKETS}/T-1")).json(json!({"subject": "A2", "assignee_id": me})).send().await.ok(200);
        assert_eq!(admin.get(&format!("{TICKETS}/T-1")).send().await.ok(200)["subject"], "A2");
        let mine = admin.get(&format!("{TICKETS}?assignee_id=me")).send().await;
        assert_eq!(references(mine.ok(200)), ["T-1"]);
        admin.put(&format!("/api/admin/users/{me}")).json(json!({"name": "Someone Else"})).send().await.ok(200);
        let renamed = admin.get(&format!("{TICKETS}/T-1")).send().await;
        assert_eq!(renamed.ok(200)["assignee"]["name"], "Someone Else");
    })
    .await;
}
