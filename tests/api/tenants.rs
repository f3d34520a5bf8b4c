//! Tenant management by the operator.

use serde_json::{Value, json};

use crate::harness::with_app;

const TENANTS: &str = "/api/platform/tenants";

#[tokio::test]
async fn the_operator_manages_tenants() {
    with_app(async |app| {
        let operator = app.operator().await;
        // Ids are ordered by time, and the clock does not move by itself.
        app.advance(std::time::Duration::from_secs(1));
        let created = operator.post(TENANTS).json(json!({"name": "Acme GmbH"})).send().await;
        assert_eq!(created.ok(201)["slug"], "acme-gmbh");
        let path = created.header("location").to_owned();
        assert_eq!(
            operator.post(TENANTS).json(json!({"name": "x", "slug": "acme-gmbh"})).send().await.problem(409),
            "already_exists"
        );
        for (body, place) in [
            (json!({"name": "x", "slug": "platform"}), "/slug"),
            (json!({"name": "日本"}), "/slug"),
            (json!({"name": "x", "slug": "A"}), "/slug"),
            (json!({"name": "x", "expires_days": 5}), "/expires_days"),
            (json!({"name": "x", "kind": "platform"}), "/kind"),
        ] {
            let reply = operator.post(TENANTS).json(body.clone()).send().await;
            assert_eq!(reply.problem(422), "validation_failed", "{body}");
            assert_eq!(reply.field_errors()[0].0, place, "{body}");
        }
        assert_eq!(operator.post(&format!("{path}/suspend")).send().await.ok(200)["status"], "suspended");
        assert_eq!(
            operator.post(&format!("{path}/suspend")).send().await.ok(200)["version"],
            2,
            "suspending twice changes nothing"
        );
        assert_eq!(operator.post(&format!("{path}/resume")).send().await.ok(200)["status"], "active");
        app.advance(std::time::Duration::from_secs(1));
        let evaluation =
            operator.post(TENANTS).json(json!({"name": "Trial", "kind": "evaluation", "expires_days": 14})).send().await;
        assert_eq!(evaluation.ok(201)["expires_at"], "2026-01-15T00:00:02.000Z");
        let page = operator.get(&format!("{TENANTS}?limit=2&include_total=true")).send().await.ok(200).clone();
        assert_eq!((page["data"].as_array().unwrap().len(), &page["page"]["total"]), (2, &json!(3)));
        let next = page["page"]["next_cursor"].as_str().unwrap();
        let rest = operator.get(&format!("{TENANTS}?limit=2&cursor={next}")).send().await.ok(200).clone();
        assert_eq!(rest["data"][0]["slug"], "trial");
        assert_eq!(operator.post(TENANTS).json(json!({"name": "Müller Straße"})).send().await.ok(201)["slug"], "muller-strasse");
        operator.post(&format!("{path}/suspend")).send().await.ok(200);
        for (filter, slugs) in [
            ("status=suspended", vec!["acme-gmbh"]),
            ("status=suspended,deleting", vec!["acme-gmbh"]),
            ("status=deleting", vec![]),
            ("slug=trial&status=suspended", vec![]),
        ] {
            let found = operator.get(&format!("{TENANTS}?{filter}&include_total=true")).send().await.ok(200).clone();
            let found_slugs: Vec<&str> =
                found["data"].as_array().unwrap().iter().filter_map(|tenant| tenant["slug"].as_str()).collect();
            assert_eq!((&found_slugs, &found["page"]["total"]), (&slugs, &json!(slugs.len())), "{filter}");
        }
        assert_eq!(operator.get(&format!("{TENANTS}?status=gone")).send().await.problem(422), "validation_failed");
        let by_slug = operator.get(&format!("{TENANTS}?slug=acme-gmbh")).send().await.ok(200).clone();
        assert_eq!(by_slug["data"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_platform_tenant_is_protected() {
    with_app(async |app| {
        let operator = app.operator().await;
        let list = operator.get(TENANTS).send().await.ok(200).clone();
        let platform = &list["data"][0];
        assert_eq!((platform["kind"].as_str(), platform["slug"].as_str()), (Some("platform"), Some("platform")));
        let path = format!("{TENANTS}/{}/suspend", platform["id"].as_str().unwrap());
        assert_eq!(operator.post(&path).send().await.problem(409), "invalid_transition");
        let users = format!("/internal/admin/tenants/{}/users", platform["id"].as_str().unwrap());
        let admin = json!({"email": "a@b.example", "name": "A", "role": "admin", "password": "long enough password"});
        assert_eq!(app.local().post(&users).json(admin).send().await.problem(422), "validation_failed");
    })
    .await;
}

#[tokio::test]
async fn an_address_is_unique_within_its_tenant() {
    with_app(async |app| {
        let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
        acme.admin().await;
        let users = format!("/internal/admin/tenants/{}/users", globex.id);
        let body = |email: &str, role: &str| json!({"email": email, "name": "A", "role": role, "password": "long enough password"});
        app.local().post(&users).json(body("ADMIN@acme.example", "admin")).send().await.ok(201);
        assert_eq!(app.local().post(&users).json(body("admin@acme.example", "viewer")).send().await.problem(409), "already_exists");
        assert_eq!(
            app.local().post(&users).json(body("x@globex.example", "operator")).send().await.problem(422),
            "validation_failed"
        );
        app.local().post(&users).json(body("x@globex.example", "viewer")).send().await.ok(201);
        let listed = app.local().get(&users).send().await.ok(200).clone();
        assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn the_operator_sees_activity_but_no_content() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (key, _) = acme.new_key("Canary content", &["*"]).await;
        let operator = app.operator().await;
        let path = format!("{TENANTS}/{}", acme.id);
        // A reader of the log updates the count: it includes the newest event of the feed once the feed shows it.
        let events = key.get("/api/events?limit=200").send().await.ok(200)["data"].as_array().unwrap().len();
        let shown: Value = loop {
            let tenant = operator.get(&path).send().await.ok(200).clone();
            if tenant["activity"]["events"] == json!(events) {
                break tenant;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(shown["activity"]["last_event_at"], "2026-01-01T00:00:00.000Z");
        assert!(!shown.to_string().contains("Canary"));
        assert_eq!(operator.get("/api/admin/api-keys").send().await.ok(200)["data"], json!([]), "only the platform's own keys");
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_of_a_live_server_is_valid() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        acme.key(&["*"]).await;
        let path = app.data_directory().join("snapshot");
        let body = json!({"path": path.display().to_string()});
        let backup = app.local().post("/internal/admin/backup").json(body.clone()).send().await.ok(200).clone();
        assert!(backup["records"].as_u64().unwrap() > 10);
        assert_eq!(app.local().post("/internal/admin/backup").json(body).send().await.problem(409), "invalid_transition");
        assert_eq!(app.local().post("/internal/admin/check").send().await.ok(200)["clean"], true);
        let relative = app.local().post("/internal/admin/backup").json(json!({"path": "snapshot"})).send().await;
        assert_eq!(relative.problem(422), "validation_failed");
    })
    .await;
}
