//! Single tickets: created, read, changed, found by number everywhere, and refused when invalid.

use serde_json::{Value, json};

use crate::harness::with_app;

const STRANGE_DEVICE: &str = "dev_01k9z7w3v5e8g9m2n4p6r8t0x1";
const TICKETS: &str = "/api/psa/tickets";

#[tokio::test]
async fn a_ticket_has_a_number_location_and_etag() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let organization = acme.organization("Acme Ltd").await;
        let body = json!({
            "subject": "Printer jams", "organization_id": organization, "impact": "high", "urgency": "medium", "tags": ["printer"],
            "custom_fields": {"rack": "B4", "units": 2, "ratio": 1.5, "hot": true, "most": 9_007_199_254_740_991_u64}, "external_refs": [{"system": "jira", "id": "OPS-1"}],
        });
        let created = admin.post(TICKETS).json(body).send().await;
        let ticket = created.ok(201).clone();
        assert_eq!((&ticket["number"], &ticket["ref"], &ticket["version"]), (&json!(1), &json!("T-1"), &json!(1)));
        assert_eq!(created.header("location"), format!("{TICKETS}/{}", ticket["id"].as_str().unwrap()));
        assert_eq!(created.header("etag"), "\"v1\"");
        assert_eq!(ticket["organization"], json!({"id": organization, "name": "Acme Ltd"}));
        assert_eq!((&ticket["priority"], &ticket["type"], &ticket["source"]), (&json!("high"), &json!("incident"), &json!("api")));
        assert_eq!(ticket["custom_fields"], json!({"rack": "B4", "units": 2, "ratio": 1.5, "hot": true, "most": 9_007_199_254_740_991_u64}));
        assert_eq!(ticket["created_by"]["kind"], "user");
        assert!(ticket.get("description").is_none() && ticket.get("due_at").is_none());
        for name in ["T-1", "1", "t-1", ticket["id"].as_str().unwrap()] {
            let read = admin.get(&format!("{TICKETS}/{name}")).send().await;
            assert_eq!(read.ok(200), &ticket, "{name}");
        }
        let known = admin.get(&format!("{TICKETS}/T-1")).header("if-none-match", "\"v1\"").send().await;
        assert_eq!(known.status, 304);
        let second = admin.post(TICKETS).json(json!({"subject": "B", "organization_id": organization})).send().await;
        assert_eq!(second.ok(201)["number"], 2);
        assert_eq!(second.body["priority"], "medium");
    })
    .await;
}

#[tokio::test]
async fn a_patch_merges_and_lists_changed_fields() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        let body = json!({
            "subject": "A", "description": "long", "organization_id": organization, "tags": ["x", "y"],
            "custom_fields": {"a": 1, "b": "two"}, "due_at": "2026-02-01T00:00:00Z",
        });
        key.post(TICKETS).json(body).send().await.ok(201);
        let patch = json!({"id": "T-1", "subject": "B", "description": null, "tags": ["z"], "custom_fields": {"a": null, "c": true}, "due_at": null});
        let media = ("content-type", "application/merge-patch+json");
        let changed = key.patch(TICKETS).text(media.1, patch.to_string()).send().await;
        let ticket = changed.ok(200);
        assert_eq!(changed.header("etag"), "\"v2\"");
        assert_eq!((&ticket["subject"], &ticket["tags"]), (&json!("B"), &json!(["z"])));
        assert!(ticket.get("description").is_none() && ticket.get("due_at").is_none());
        assert_eq!(ticket["custom_fields"], json!({"b": "two", "c": true}));
        let feed = key.get("/api/events?types=ticket.updated").send().await.ok(200)["data"].clone();
        assert_eq!(feed.as_array().unwrap().len(), 1, "one patch is one event");
        let changes = &feed[0]["data"]["changes"];
        assert_eq!(changes["subject"], json!({"from": "A", "to": "B"}));
        assert_eq!(changes.as_object().unwrap().keys().collect::<Vec<_>>(), ["custom_fields", "description", "due_at", "subject", "tags"]);
        let same = key.patch(&format!("{TICKETS}/1")).json(json!({"subject": "B"})).send().await;
        assert_eq!(same.ok(200)["version"], 2, "what changes nothing is no change");
        let levels = key.patch(&format!("{TICKETS}/1")).json(json!({"impact": "high", "urgency": "high"})).send().await;
        assert_eq!(levels.ok(200)["priority"], "critical");
    })
    .await;
}

#[tokio::test]
async fn concurrent_changes_with_one_etag_succeed_once() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        key.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        let path = format!("{TICKETS}/T-1");
        let patch = |subject: &str| key.patch(&path).header("if-match", "\"v1\"").json(json!({"subject": subject})).send();
        let (left, right) = tokio::join!(patch("left"), patch("right"));
        let mut statuses = [left.status, right.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412]);
        let refused = if left.status == 412 { left } else { right };
        assert_eq!(refused.problem(412), "version_conflict");
        assert_eq!(refused.body["current_version"], 2);
        assert_eq!(key.get(&path).send().await.ok(200)["version"], 2);
    })
    .await;
}

#[tokio::test]
async fn a_number_works_wherever_an_id_does() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let create = |body: Value| key.post(TICKETS).json(body).send();
        let first = create(json!({"subject": "A", "organization_id": organization})).await.ok(201).clone();
        let child = create(json!({"subject": "B", "organization_id": organization, "parent": "T-1"})).await;
        assert_eq!(child.ok(201)["parent"], json!({"id": first["id"], "ref": "T-1"}));
        create(json!({"subject": "C", "organization_id": organization})).await.ok(201);
        let id = first["id"].as_str().unwrap();
        let children = async || {
            let list = key.get(&format!("{TICKETS}?parent_id={id}&include_total=true")).send().await.ok(200).clone();
            let refs: Vec<Value> = list["data"].as_array().unwrap().iter().map(|child| child["ref"].clone()).collect();
            (refs, list["page"]["total"].clone())
        };
        assert_eq!(children().await, (vec![json!("T-2")], json!(1)));
        key.patch(&format!("{TICKETS}/T-3")).json(json!({"parent": "T-1"})).send().await.ok(200);
        key.patch(&format!("{TICKETS}/T-2")).json(json!({"parent": null})).send().await.ok(200);
        assert_eq!(children().await, (vec![json!("T-3")], json!(1)), "a list follows the parent of each ticket");
        key.patch(&format!("{TICKETS}/T-3")).json(json!({"parent": null})).send().await.ok(200);
        key.patch(&format!("{TICKETS}/T-2")).json(json!({"parent": "T-1"})).send().await.ok(200);
        key.patch(&format!("{TICKETS}?id=1")).json(json!({"queue": "a"})).send().await.ok(200);
        key.patch(TICKETS).json(json!({"id": "T-1", "queue": "b"})).send().await.ok(200);
        key.patch(&format!("{TICKETS}?id=T-1")).json(json!({"id": id, "queue": "c"})).send().await.ok(200);
        assert_eq!(
            key.patch(&format!("{TICKETS}?id=T-2")).json(json!({"id": id, "queue": "d"})).send().await.problem(400),
            "id_mismatch"
        );
        assert_eq!(
            key.patch(&format!("{TICKETS}/T-2")).json(json!({"id": "1", "queue": "d"})).send().await.problem(400),
            "id_mismatch"
        );
        assert_eq!(key.patch(TICKETS).json(json!({"queue": "d"})).send().await.problem(422), "validation_failed");
        let merged = key.patch(&format!("{TICKETS}/3")).json(json!({"status": "merged", "merged_into": "1"})).send().await;
        assert_eq!(merged.ok(200)["merged_into"]["ref"], "T-1");
        let bulk =
            key.patch(TICKETS).json(json!({"ids": ["T-1", "2", merged.body["id"]], "patch": {"category": "x"}})).send().await;
        assert_eq!(bulk.ok(200)["succeeded"], 3);
        for sub in ["comments", "time-entries", "history"] {
            key.get(&format!("{TICKETS}/T-1/{sub}")).send().await.ok(200);
        }
        assert_eq!(key.get(&format!("{TICKETS}/T-9")).send().await.problem(404), "not_found");
        assert_eq!(key.get(&format!("{TICKETS}/usr_01k9z7w3v5e8g9m2n4p6r8t0x1")).send().await.problem(422), "validation_failed");
    })
    .await;
}

#[tokio::test]
async fn all_unknown_references_are_reported_at_once() {
    with_app(async |app| {
        let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let contact = acme.contact(&organization, "grace@acme.example").await;
        let device = acme.device(&organization, "PC-1").await;
        let foreign = globex.organization("Globex").await;
        let create = |body: Value| key.post(TICKETS).json(body).send();
        let by_device = create(json!({"subject": "A", "device_id": device})).await.ok(201).clone();
        assert_eq!(by_device["organization"]["id"], json!(organization));
        assert_eq!(by_device["devices"], json!([{"id": device, "name": "PC-1"}]));
        let by_contact = create(json!({"subject": "A", "contact_email": "Grace@Acme.example"})).await.ok(201).clone();
        assert_eq!(by_contact["contact"], json!({"id": contact, "name": "grace", "email": "grace@acme.example"}));
        assert_eq!(create(json!({"subject": "A"})).await.field_errors(), [("/organization_id".to_owned(), "required".to_owned())]);
        let unknown = create(json!({
            "subject": "A", "organization_id": foreign, "contact_email": "nobody@acme.example", "assignee_id": contact,
            "device_ids": [STRANGE_DEVICE], "parent": "T-77", "custom_fields": {"Bad Name": 1},
        }))
        .await;
        assert_eq!(unknown.problem(422), "validation_failed");
        let codes: Vec<(String, String)> = unknown.field_errors();
        for (pointer, code) in [
            ("/organization_id", "unknown_reference"),
            ("/contact_email", "unknown_reference"),
            ("/assignee_id", "not_staff"),
            ("/device_ids/0", "unknown_reference"),
            ("/parent", "unknown_reference"),
            ("/custom_fields/Bad Name", "wrong_form"),
        ] {
            assert!(codes.contains(&(pointer.to_owned(), code.to_owned())), "{codes:?}");
        }
        let errors_at = |places: &[(&str, &str)]| -> Vec<(String, String)> {
            places.iter().map(|(place, code)| ((*place).to_owned(), (*code).to_owned())).collect()
        };
        let nothing = create(json!({})).await.field_errors();
        assert_eq!(
            nothing,
            errors_at(&[("/organization_id", "required"), ("/subject", "required")]),
            "with what no schema requires"
        );
        let both = create(json!({"priority": "urgent", "organization_id": foreign, "parent": "T-77"})).await.field_errors();
        let expected = [
            ("/subject", "required"),
            ("/priority", "not_allowed"),
            ("/organization_id", "unknown_reference"),
            ("/parent", "unknown_reference"),
        ];
        assert_eq!(both.len(), 4, "{both:?}");
        assert!(errors_at(&expected).iter().all(|error| both.contains(error)), "{both:?}");
        let one_by_itself = json!({"subject": "A", "device_id": STRANGE_DEVICE, "device_ids": [device]});
        assert_eq!(create(one_by_itself).await.field_errors(), errors_at(&[("/device_id", "unknown_reference")]));
        let two = json!({"subject": "A", "contact_id": contact, "contact_email": "grace@acme.example"});
        assert_eq!(create(two).await.field_errors(), errors_at(&[("/contact_email", "not_allowed")]));
        let mixed = create(json!({"subject": "A", "tickets": []})).await;
        assert_eq!(mixed.body["errors"][0].get("suggestion"), None, "{}", mixed.body);
        let half = create(json!({"subject": "A", "device_ids": ["PC-1"], "tags": 5})).await.field_errors();
        assert_eq!(half.len(), 2, "the device may have led to the organization: {half:?}");
        let stranger = globex.key(&["tickets:*"]).await;
        assert_eq!(stranger.get(&format!("{TICKETS}/T-1")).send().await.problem(404), "not_found");
        assert_eq!(
            stranger.get(&format!("{TICKETS}/{}", by_device["id"].as_str().unwrap())).send().await.problem(404),
            "not_found"
        );
    })
    .await;
}

#[tokio::test]
async fn body_errors_have_their_pointer() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        for (body, place, code) in [
            (json!({}), "/subject", "required"),
            (json!({"subject": ""}), "/subject", "too_short"),
            (json!({"subject": "x".repeat(256)}), "/subject", "too_long"),
            (json!({"subject": "x", "priorty": "low"}), "/priorty", "unknown_field"),
            (json!({"subject": "x", "priority": "urgent"}), "/priority", "not_allowed"),
            (json!({"subject": "x", "tags": ["a", "a"]}), "/tags", "repeated"),
            (json!({"subject": "x", "tags": ["y".repeat(51)]}), "/tags/0", "too_long"),
            (json!({"subject": "x", "tags": ["y\u{b}"]}), "/tags/0", "wrong_form"),
            (json!({"subject": "x", "custom_fields": {"a": [1]}}), "/custom_fields/a", "wrong_type"),
            (json!({"subject": "x", "custom_fields": {"a": "y".repeat(4097)}}), "/custom_fields/a", "too_long"),
            (json!({"subject": "x", "custom_fields": {"a": 9_007_199_254_740_992_u64}}), "/custom_fields/a", "too_large"),
            (json!({"subject": "x", "custom_fields": {"a": 1e300}}), "/custom_fields/a", "too_large"),
            (json!({"subject": "x", "custom_fields": {"a": -9_007_199_254_740_992_i64}}), "/custom_fields/a", "too_small"),
            (json!({"tickets": []}), "/tickets", "too_few"),
            (json!({"tickets": [{"subject": "x"}], "subject": "y"}), "/tickets", "unknown_field"),
            (json!({"ids": ["T-1"]}), "/ids", "unknown_field"),
        ] {
            let reply = key.post(TICKETS).json(body.clone()).send().await;
            assert_eq!(reply.problem(422), "validation_failed", "{body}");
            let found = reply.field_errors();
            assert!(found.contains(&(place.to_owned(), code.to_owned())), "{body}: {found:?}");
        }
        let typo = key.post(TICKETS).json(json!({"subject": "x", "priorty": "low"})).send().await;
        assert_eq!(typo.body["errors"][0]["suggestion"], "priority");
        for query in
            ["limit=0", "limit=201", "status=opn", "sort=subject", "external_id=7", "assignee_id=me", "assignee_id=x", "q=%21"]
        {
            assert_eq!(key.get(&format!("{TICKETS}?{query}")).send().await.problem(422), "validation_failed", "{query}");
        }
        assert_eq!(key.get(&format!("{TICKETS}?statuss=open")).send().await.problem(400), "unknown_parameter");
        assert_eq!(key.get(&format!("{TICKETS}?format=csv&limit=5")).send().await.problem(422), "validation_failed");
    })
    .await;
}
