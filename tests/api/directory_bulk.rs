//! Bulk changes of the directory.

use serde_json::{Value, json};

use crate::{
    directory_records::{CONTACTS, DEVICES, ORGANIZATIONS, SCOPES, made},
    harness::{Actor, with_app},
};

async fn total(actor: &Actor, path: &str) -> Value {
    actor.get(&format!("{path}?include_total=true")).send().await.ok(200)["page"]["total"].clone()
}

#[tokio::test]
async fn bulk_changes_apply_entirely_or_not_at_all() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(SCOPES).await;
        let organization = acme.organization("Acme").await;
        for (path, plural, one) in
            [(ORGANIZATIONS, "organizations", "organization"), (CONTACTS, "contacts", "contact"), (DEVICES, "devices", "device")]
        {
            let body = |name: &str, external_id: &str| {
                let mut body = json!({"name": name, "external_id": external_id});
                if path == DEVICES {
                    body["organization_id"] = json!(organization);
                }
                body
            };
            let before = total(&key, path).await.as_u64().unwrap();
            let request = json!({plural: [body("A", "a"), body("B", "b")]});
            let created = key.post(path).header("idempotency-key", "several").json(request.clone()).send().await;
            assert_eq!((&created.ok(201)["succeeded"], &created.body["failed"]), (&json!(2), &json!(0)));
            assert_eq!(created.body["results"][1][one]["name"], "B");
            let again = key.post(path).header("idempotency-key", "several").json(request).send().await;
            assert_eq!(again.ok(201), &created.body);
            let refused = key.post(path).json(json!({plural: [body("C", "c"), body("D", "a")]})).send().await;
            assert_eq!(refused.field_errors(), [(format!("/{plural}/1"), "already_exists".to_owned())]);
            assert_eq!(total(&key, path).await, before + 2, "all or none");
            let mixed = key.post(path).json(json!({plural: [body("C", "c"), body("D", "a")], "atomic": false})).send().await;
            let statuses: Vec<&Value> = mixed.ok(201)["results"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
            assert_eq!(statuses, [201, 409]);
            assert_eq!(mixed.body["results"][1]["error"]["code"], "already_exists");
            let id = |place: usize| created.body["results"][place][one]["id"].clone();
            let changed = key.patch(path).json(json!({"ids": [id(0), id(1)], "patch": {"name": "Both"}})).send().await;
            assert_eq!((&changed.ok(200)["succeeded"], &changed.body["results"][0][one]["version"]), (&json!(2), &json!(2)));
            let nobody = id(0).as_str().unwrap().split('_').next().unwrap().to_owned() + "_01k9z7w3v5e8g9m2n4p6r8t0x1";
            let refused = key.patch(path).json(json!({"ids": [id(0), nobody], "patch": {"name": "None"}})).send().await;
            assert_eq!(refused.field_errors(), [("/ids/1".to_owned(), "not_found".to_owned())]);
            let kept = key.get(&format!("{path}/{}", id(0).as_str().unwrap())).send().await;
            assert_eq!(kept.ok(200)["name"], "Both");
            let versioned = key.patch(path).header("if-match", "\"v1\"").json(json!({"ids": [id(0)], "patch": {}})).send().await;
            assert_eq!(versioned.problem(422), "validation_failed");
            let refused = key.delete(path).json(json!({"ids": [id(0), nobody]})).send().await;
            assert_eq!(refused.field_errors(), [("/ids/1".to_owned(), "not_found".to_owned())]);
            let deleted = key.delete(path).json(json!({"ids": [id(0), id(1)]})).send().await;
            assert_eq!((&deleted.ok(200)["succeeded"], &deleted.body["results"][0]["status"]), (&json!(2), &json!(204)));
            assert_eq!(total(&key, path).await, before + 1);
            let many: Vec<Value> = (0..101).map(|number| body("x", &number.to_string())).collect();
            let too_many = key.post(path).json(json!({plural: many})).send().await;
            assert_eq!(too_many.field_errors(), [(format!("/{plural}"), "too_many".to_owned())]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_for_large_devices_is_bounded() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(SCOPES).await;
        let organization = acme.organization("Acme").await;
        let software: Vec<Value> = (0..2000).map(|number| json!({"name": format!("{number:0>100}")})).collect();
        let mut ids = Vec::new();
        for number in 0..8 {
            let body = json!({"name": format!("d{number}"), "organization_id": organization, "software": software});
            ids.push(made(&key, DEVICES, body).await);
        }
        let refused = key.patch(DEVICES).json(json!({"ids": ids, "patch": {"site": "Basel"}})).send().await;
        assert_eq!(refused.problem(413), "payload_too_large");
        assert_eq!(key.get(&format!("{DEVICES}?site=Basel")).send().await.ok(200)["data"], json!([]));
        key.patch(DEVICES).json(json!({"ids": ids[..2], "patch": {"site": "Basel"}})).send().await.ok(200);
    })
    .await;
}
