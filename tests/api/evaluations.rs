//! Evaluation tenants: created from a seed, marked as such, and reset.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Actor, Setup, Tenant, TestApp, authenticator::session_of, with_app, with_setup};

const EVALUATIONS: &str = "/api/platform/evaluations";
const TENANTS: &str = "/api/platform/tenants";
const KEYS: &str = "/api/admin/api-keys";
/// Every list of a tenant.
const LISTS: [&str; 8] = [
    "/api/psa/tickets?sort=number",
    "/api/rmm/reports/asset-inventory?sections=summary,hardware,os,network,software",
    "/api/admin/users?sort=created_at",
    "/api/admin/api-keys?sort=name",
    "/api/cloud/providers?",
    "/api/cloud/vms?",
    "/api/psa/workflows/trigger?",
    "/api/backup/customer-aggregate?",
];

fn small(slug: &str, seed: u64) -> Value {
    let sample = json!({"seed": seed, "organizations": 3, "devices": 14, "tickets": 25});
    json!({"name": slug, "slug": slug, "expires_days": 5, "sample": sample})
}

/// A new evaluation tenant: the response of its creation, and its visitor with the key.
pub async fn evaluate(app: &TestApp, body: Value) -> (Value, Actor) {
    let local = app.local();
    let made = local.post(EVALUATIONS).json(body).send().await;
    let created = made.ok(201).clone();
    assert_eq!(created["tenant"]["kind"], "evaluation");
    assert!(created["api_key"].as_str().unwrap().starts_with("tck_eval_"));
    let visitor = app.anonymous().bearer(created["api_key"].as_str().unwrap());
    app.until_tenant(created["tenant"]["id"].as_str().unwrap(), Some("active")).await;
    (created, visitor)
}

/// Everything that a visitor can list, without fields that change by use and without the rest of the issued key.
async fn everything(visitor: &Actor) -> Vec<(&'static str, Vec<Value>)> {
    let mut found = Vec::new();
    for list in LISTS {
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = visitor.get(&format!("{list}&limit=200{cursor}")).send().await;
            rows.extend(page.ok(200)["data"].as_array().unwrap().iter().cloned());
            match page.body["page"]["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        for row in &mut rows {
            if let Some(fields) = row.as_object_mut() {
                for name in ["last_used_at", "last_used_ip", "use_count", "prefix", "last_four", "verification"] {
                    fields.remove(name);
                }
            }
        }
        found.push((list, rows));
    }
    found
}

fn assert_same(left: &[(&str, Vec<Value>)], right: &[(&str, Vec<Value>)]) {
    for ((list, left), (_, right)) in left.iter().zip(right) {
        assert_eq!(left.len(), right.len(), "{list}");
        for (left, right) in left.iter().zip(right) {
            assert_eq!(left, right, "{list}");
        }
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_records_and_ids() {
    let setup = || Setup::default().with("rate_limits.enabled", false);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    with_setup(setup(), async |app| {
        let (_, visitor) = evaluate(app, small("trial", 7)).await;
        first = everything(&visitor).await;
    })
    .await;
    with_setup(setup(), async |app| {
        // Other tenants of the installation make no difference.
        let (_, other) = evaluate(app, small("another", 7)).await;
        let (_, visitor) = evaluate(app, small("trial", 7)).await;
        second = everything(&visitor).await;
        let names = |rows: &[(&str, Vec<Value>)]| rows.iter().map(|(_, rows)| rows.len()).collect::<Vec<_>>();
        let elsewhere = everything(&other).await;
        assert_eq!(names(&elsewhere), names(&second));
        assert_ne!(elsewhere[0].1[0]["id"], second[0].1[0]["id"], "two tenants share no id");
    })
    .await;
    let of = |list: &str| first.iter().find(|(name, _)| name.starts_with(list)).unwrap().1.len();
    assert!(of("/api/psa/tickets") > 15, "{}", of("/api/psa/tickets"));
    assert_eq!(of("/api/cloud/vms"), 48);
    assert_same(&first, &second);
}

#[tokio::test]
async fn a_tenant_that_is_being_filled_can_be_read_but_not_changed() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    with_setup(setup, async |app| {
        let sample = json!({"organizations": 3, "devices": 14, "tickets": 400});
        let created = app.local().post(EVALUATIONS).json(json!({"name": "Trial", "sample": sample})).send().await.ok(201).clone();
        let id = created["tenant"]["id"].as_str().unwrap();
        let visitor = app.anonymous().bearer(created["api_key"].as_str().unwrap());
        app.until_tenant(id, Some("filling")).await;
        // The visitor is the first record.
        let session = loop {
            let answer = visitor.get("/api/auth/session").send().await;
            if answer.status == 200 {
                break answer.body;
            }
            assert_eq!(answer.problem(401), "invalid_credentials");
        };
        assert_eq!(session["tenant"]["filling"], true);
        let refused = visitor.post(KEYS).json(json!({"name": "mine", "scopes": ["tickets:read"]})).send().await;
        assert_eq!((refused.problem(503), &refused.body["retry_after_seconds"]), ("unavailable", &json!(2)));
        assert_eq!(visitor.delete("/api/admin/webhooks/whk_01k9z7w3v5e8g9m2n4p6r8t0x1").send().await.problem(503), "unavailable");
        visitor.get("/api/psa/tickets").send().await.ok(200);
        let sign_in = json!({"email": created["email"], "password": created["password"]});
        let session = session_of(app, &app.anonymous().post("/api/auth/login").json(sign_in).send().await);
        assert_eq!(session.post("/api/auth/logout").send().await.status, 204, "signing out works");
        let reset = app.local().post(&format!("{TENANTS}/{id}/reset")).send().await;
        assert_eq!(reset.ok(202)["status"], "filling", "it is filled already");
        assert_eq!(
            app.local().get(&format!("{TENANTS}/{id}")).send().await.ok(200)["status"],
            "filling",
            "400 tickets take longer"
        );

        app.until_tenant(id, Some("active")).await;
        assert_eq!(visitor.get("/api/auth/session").send().await.ok(200)["tenant"].get("filling"), None);
        visitor.post(KEYS).json(json!({"name": "mine", "scopes": ["tickets:read"]})).send().await.ok(201);
        let everything = visitor.get("/api/psa/tickets?include_total=true").send().await;
        assert!(everything.ok(200)["page"]["total"].as_u64().unwrap() > 200, "{}", everything.text);
    })
    .await;
}

#[tokio::test]
async fn one_contact_of_the_sample_data_has_access_to_the_portal() {
    with_app(async |app| {
        let (_, visitor) = evaluate(app, small("trial", 7)).await;
        assert_eq!(visitor.get("/api/admin/portal").send().await.ok(200), &json!({"enabled": true, "version": 1}));
        let given = visitor.get("/api/events?types=portal.access_given").send().await.ok(200)["data"].clone();
        assert_eq!(given.as_array().unwrap().len(), 1);
        let path = format!("/api/directory/contacts/{}/portal-access", given[0]["resource"]["id"].as_str().unwrap());
        let access = visitor.get(&path).send().await.ok(200).clone();
        assert_eq!((&access["has_access"], &access["has_password"]), (&json!(true), &json!(false)));
    })
    .await;
}

#[tokio::test]
async fn a_reset_restores_data_and_keeps_credentials() {
    with_app(async |app| {
        let local = app.local();
        let (created, visitor) = evaluate(app, small("trial", 3)).await;
        let id = created["tenant"]["id"].as_str().unwrap();
        let before = everything(&visitor).await;
        let organization = Tenant::known(app, "trial", id).organization("Visitor Ltd").await;
        let ticket = json!({"subject": "Made by a visitor xylophone", "organization_id": organization});
        visitor.post("/api/psa/tickets").json(ticket).send().await.ok(201);
        assert_eq!(visitor.get("/api/search?q=xylophone").send().await.ok(200)["data"].as_array().unwrap().len(), 1);
        let key = visitor.post(KEYS).json(json!({"name": "mine", "scopes": ["*"]})).send().await;
        let mine = app.anonymous().bearer(key.ok(201)["key"].as_str().unwrap());
        app.advance(Duration::from_mins(1));

        let mut feed = json!({"next_after": 0, "more": true});
        while feed["more"] == true {
            feed = visitor.get(&format!("/api/events?limit=200&after={}", feed["next_after"])).send().await.ok(200).clone();
        }
        assert_eq!(local.post(&format!("{TENANTS}/{id}/reset")).send().await.ok(202)["status"], "preparing");
        app.until_tenant(id, Some("active")).await;
        assert_eq!(mine.get("/api/auth/session").send().await.status, 401, "what a visitor made is gone");
        let first = visitor.get("/api/events?limit=1").send().await.ok(200)["data"][0]["seq"].as_u64().unwrap();
        assert!(first > feed["next_after"].as_u64().unwrap(), "a client that keeps its cursor misses nothing");
        let after = everything(&visitor).await;
        // Time passes: timers of tickets and backups may have expired since.
        let ids = |rows: &[(&str, Vec<Value>)]| -> Vec<Vec<Value>> {
            rows.iter().map(|(_, rows)| rows.iter().map(|row| row["id"].clone()).collect()).collect()
        };
        assert_eq!(ids(&before), ids(&after));
        assert_eq!(visitor.get("/api/search?q=xylophone").send().await.ok(200)["data"].as_array().unwrap().len(), 0);
        let sign_in = json!({"email": created["email"], "password": created["password"]});
        app.anonymous().post("/api/auth/login").json(sign_in).send().await.ok(200);
        let plain = app.evaluation_tenant("plain").await;
        let refused = local.post(&format!("{TENANTS}/{}/reset", plain.id)).send().await;
        assert_eq!(refused.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn evaluation_tenants_are_marked_and_limited() {
    let setup = Setup::default().with("rate_limits.report.tenant", 10).with("rate_limits.evaluation_percent", 50);
    with_setup(setup, async |app| {
        let (created, visitor) = evaluate(app, small("trial", 1)).await;
        assert_eq!(visitor.get("/api/auth/session").send().await.header("x-tenant-kind"), "evaluation");
        let standard = app.tenant("acme").await.key(&["*"]).await;
        assert_eq!(standard.get("/api/auth/session").send().await.header("x-tenant-kind"), "");
        let sign_in = json!({"email": created["email"], "password": created["password"]});
        let signed_in = app.anonymous().post("/api/auth/login").json(sign_in).send().await;
        let cookie = signed_in.header("set-cookie").split(';').next().unwrap().to_owned();
        let page =
            app.anonymous().with("cookie", &cookie).get("/documentation/analytics/").header("accept", "text/html").send().await;
        assert!(page.text.contains("Evaluation.") && page.text.contains("role=\"note\""), "{}", page.text);
        let report = "/api/analytics/tenant?metrics=tickets_created";
        let statuses: Vec<u16> = {
            let mut statuses = Vec::new();
            for _ in 0..5 {
                statuses.push(visitor.get(report).send().await.status);
            }
            statuses
        };
        assert_eq!(
            statuses.iter().filter(|status| **status == 429).count(),
            1,
            "half of ten, and the page has made one: {statuses:?}"
        );
        let refused = visitor.get(report).send().await;
        assert!(refused.body["detail"].as_str().unwrap().contains("report_evaluation of 5"), "{}", refused.text);
        assert_ne!(standard.get(report).send().await.status, 429);
        let metrics = app.local().get("/metrics").send().await.text;
        assert!(metrics.contains("tenantd_tenant_requests_total{kind=\"evaluation\"}"), "{metrics}");
    })
    .await;
}

#[tokio::test]
async fn a_reset_frees_a_full_evaluation_tenant() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("limits.evaluation_events", 6);
    with_setup(setup, async |app| {
        let sample = json!({"organizations": 0});
        let (created, visitor) = evaluate(app, json!({"name": "Trial", "sample": sample})).await;
        let local = app.local();
        let events = format!("{TENANTS}/{}", created["tenant"]["id"].as_str().unwrap());
        let mut refused = None;
        for number in 0..200 {
            let made = visitor.post(KEYS).json(json!({"name": format!("key {number}"), "scopes": ["*"]})).send().await;
            if made.status != 201 {
                refused = Some(made);
                break;
            }
            // Usage is counted with a delay.
            let made = number + 3;
            while local.get(&events).send().await.ok(200)["activity"]["events"].as_u64() < Some(made) {
                tokio::task::yield_now().await;
            }
        }
        let refused = refused.expect("the tenant is never full");
        assert_eq!(refused.problem(422), "limit_reached");
        assert!(refused.body["detail"].as_str().unwrap().contains("its limit of 6 events"), "{}", refused.text);
        visitor.get(KEYS).send().await.ok(200);
        let standard = app.tenant("acme").await.key(&["*"]).await;
        for number in 0..9 {
            standard.post(KEYS).json(json!({"name": format!("key {number}"), "scopes": ["*"]})).send().await.ok(201);
        }
        let id = created["tenant"]["id"].as_str().unwrap();
        local.post(&format!("{TENANTS}/{id}/reset")).send().await.ok(202);
        app.until_tenant(id, Some("active")).await;
        visitor.post(KEYS).json(json!({"name": "room again", "scopes": ["*"]})).send().await.ok(201);
    })
    .await;
}

#[tokio::test]
async fn a_sample_has_documented_bounds() {
    with_app(async |app| {
        let local = app.local();
        for (sample, place) in [
            (json!({"organizations": 97}), "/sample/organizations"),
            (json!({"organizations": 2, "devices": 401}), "/sample/devices"),
            (json!({"tickets": 10_001}), "/sample/tickets"),
            (json!({"organizations": 0, "tickets": 1}), "/sample/tickets"),
            (json!({"at": "2030-01-01T00:00:00Z"}), "/sample/at"),
            (json!({"at": "2025-01-01T00:00:00Z"}), "/sample/at"),
            (json!({"ticket": 5}), "/sample/ticket"),
        ] {
            let refused = local.post(EVALUATIONS).json(json!({"name": "x", "sample": sample})).send().await;
            assert_eq!(refused.problem(422), "validation_failed", "{sample}");
            assert_eq!(refused.field_errors()[0].0, place, "{sample}");
        }
        app.tenant("taken").await.admin().await;
        let taken = json!({"name": "x", "slug": "taken"});
        assert_eq!(local.post(EVALUATIONS).json(taken).send().await.problem(409), "already_exists");
    })
    .await;
}
