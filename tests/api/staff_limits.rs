//! Staff who are limited to organizations: they reach only the records of these, directly and indirectly.

use serde_json::json;

use crate::{custom_roles::member, harness::with_app};

const USERS: &str = "/api/admin/users";
const TICKETS: &str = "/api/psa/tickets";

#[tokio::test]
async fn limited_staff_reach_only_their_organizations() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let admin = tenant.admin().await;
        for (subject, organization) in [("A", &ours), ("B", &theirs)] {
            admin.post(TICKETS).json(json!({"subject": subject, "organization_id": organization})).send().await.ok(201);
        }
        let limits = json!({"role": "technician", "organization_ids": [ours]});
        let (lim, user) = member(app, &admin, "lim", limits).await;
        assert_eq!(user["organizations"], json!([{"id": ours, "name": "Ours"}]));
        let session = lim.get("/api/auth/session").send().await.ok(200).clone();
        assert_eq!(session["organization_ids"], json!([ours]));
        let scopes = session["scopes"].as_array().unwrap();
        assert!(scopes.contains(&json!("tickets:write")) && !scopes.contains(&json!("workflows:run")), "{scopes:?}");

        let list = lim.get(&format!("{TICKETS}?include_total=true")).send().await.ok(200).clone();
        assert_eq!((&list["page"]["total"], &list["data"][0]["subject"]), (&json!(1), &json!("A")));
        assert_eq!(lim.get(&format!("{TICKETS}/T-2")).send().await.problem(404), "not_found");
        assert_eq!(lim.patch(&format!("{TICKETS}/T-2")).json(json!({"subject": "mine"})).send().await.problem(404), "not_found");
        let created = lim.post(TICKETS).json(json!({"subject": "C", "organization_id": theirs})).send().await;
        assert_eq!(created.problem(422), "validation_failed");
        let found = lim.get("/api/search?q=type:ticket").send().await.ok(200).clone();
        assert_eq!(found["data"].as_array().unwrap().len(), 1, "{found}");
        assert_eq!(lim.get("/api/events").send().await.problem(403), "insufficient_scope");
        for page in ["/", "/tickets", "/devices", "/organizations", "/search?q=B", "/profile"] {
            let shown = lim.get(page).header("accept", "text/html").send().await;
            assert_eq!(shown.status, 200, "{page}");
            assert!(!shown.text.contains("Theirs"), "{page}");
        }
        assert_eq!(lim.get("/tickets/T-2").header("accept", "text/html").send().await.status, 404);
    })
    .await;
}

#[tokio::test]
async fn a_limit_that_reaches_nothing_never_becomes_all() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (gone, kept) = (tenant.organization("Gone").await, tenant.organization("Kept").await);
        let admin = tenant.admin().await;
        admin.post(TICKETS).json(json!({"subject": "A", "organization_id": kept})).send().await.ok(201);
        let (lim, user) = member(app, &admin, "lim", json!({"role": "admin", "organization_ids": [gone]})).await;
        assert_eq!(admin.delete(&format!("/api/directory/organizations/{gone}")).send().await.status, 204);
        let list = lim.get(&format!("{TICKETS}?include_total=true")).send().await.ok(200).clone();
        assert_eq!(list["page"]["total"], 0);
        assert_eq!(lim.get(USERS).send().await.status, 403);
        let path = format!("{USERS}/{}", user["id"].as_str().unwrap());
        assert_eq!(admin.get(&path).send().await.ok(200)["organizations"], json!([]));
        let emptied = admin.put(&path).json(json!({"organization_ids": []})).send().await;
        assert_eq!(emptied.problem(422), "validation_failed");
        admin.put(&path).json(json!({"organization_ids": null})).send().await.ok(200);
        assert_eq!(lim.get(&format!("{TICKETS}?include_total=true")).send().await.ok(200)["page"]["total"], 1);
    })
    .await;
}

#[tokio::test]
async fn limits_follow_the_rules_of_rights() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let admin = tenant.admin().await;
        let (_, limited) = member(app, &admin, "lim", json!({"role": "technician", "organization_ids": [ours]})).await;
        let path = format!("{USERS}/{}", limited["id"].as_str().unwrap());
        let keeper = tenant.key(&["users:*"]).await;
        for change in [json!({"organization_ids": null}), json!({"organization_ids": [ours, theirs]})] {
            assert_eq!(keeper.put(&path).json(change.clone()).send().await.problem(403), "insufficient_scope", "{change}");
        }
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let last = admin.put(&format!("{USERS}/{me}")).json(json!({"organization_ids": [ours]})).send().await;
        assert_eq!(last.problem(409), "in_use", "a limited administrator does not administer the tenant");
        let unknown = json!({"organization_ids": ["org_01k9z7w3v5e8g9m2n4p6r8t0x1"]});
        let refused = admin.put(&path).json(unknown).send().await;
        assert_eq!(refused.field_errors(), [("/organization_ids".to_owned(), "unknown_reference".to_owned())]);
        let contact = admin.post(USERS).json(json!({"name": "C", "kind": "contact", "organization_ids": [ours]})).send().await;
        assert_eq!(contact.field_errors(), [("/organization_ids".to_owned(), "not_allowed".to_owned())]);
        let other = app.tenant("other").await.organization("Other").await;
        let foreign = admin.put(&path).json(json!({"organization_ids": [other]})).send().await;
        assert_eq!(foreign.problem(422), "validation_failed");
    })
    .await;
}

#[tokio::test]
async fn keys_of_staff_pause_when_a_limit_is_set() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let ours = tenant.organization("Ours").await;
        let admin = tenant.admin().await;
        let (ada, user) = member(app, &admin, "ada", json!({"role": "admin"})).await;
        let key = ada.post("/api/admin/api-keys").json(json!({"name": "all", "scopes": ["tickets:read"]})).send().await;
        let key = key.ok(201).clone();
        let path = format!("{USERS}/{}", user["id"].as_str().unwrap());
        admin.put(&path).json(json!({"organization_ids": [ours]})).send().await.ok(200);
        let call = app.anonymous().bearer(key["key"].as_str().unwrap()).get(TICKETS).send().await;
        assert_eq!(call.status, 401, "the key reached more than its owner does now: {}", call.text);
    })
    .await;
}
