//! Quotas: limits of a tenant, refusals at a limit, and operations that still work.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Reply, Setup, TestApp, with_app, with_setup},
    inventory::ingest,
    quotas_beyond::send,
    workflows::{Desk, PATH},
};

const QUOTAS: &str = "/api/admin/quotas";

/// The tenant of an actor.
async fn tenant_of(actor: &Actor) -> String {
    actor.get("/api/auth/session").send().await.ok(200)["tenant"]["id"].as_str().unwrap().to_owned()
}

pub async fn used(actor: &Actor, quota: &str) -> u64 {
    standing(actor, quota).await["used"].as_u64().unwrap()
}

async fn standing(actor: &Actor, quota: &str) -> Value {
    let reply = actor.get(QUOTAS).send().await;
    reply.ok(200)["quotas"].as_array().unwrap().iter().find(|row| row["quota"] == quota).unwrap().clone()
}

/// Sets the limits of the actor's tenant as the operator.
pub async fn limit(app: &TestApp, actor: &Actor, limits: Value) -> Reply {
    let path = format!("/api/platform/tenants/{}/quotas", tenant_of(actor).await);
    app.operator().await.put(&path).json(limits).send().await
}

async fn try_ticket(desk: &Desk) -> Reply {
    let body = json!({"subject": "printer", "organization_id": desk.organization});
    desk.key.post("/api/psa/tickets").json(body).send().await
}

pub async fn check_is_clean(app: &TestApp) {
    let checked = app.local().post("/internal/admin/check").send().await;
    assert_eq!(checked.ok(200)["clean"], true, "{}", checked.text);
}

#[tokio::test]
async fn creations_at_the_limit_are_refused_per_tenant() {
    with_app(async |app| {
        let (desk, other) = (Desk::new(app, "acme").await, Desk::new(app, "globex").await);
        let ticket = desk.ticket("first").await;
        let records = used(&desk.key, "records").await;
        limit(app, &desk.key, json!({"records": records + 1})).await.ok(200);
        desk.ticket("fits").await;
        let refused = try_ticket(&desk).await;
        assert_eq!(refused.problem(403), "quota_exceeded");
        assert_eq!(refused.header("x-quota"), format!("records;limit={0};used={0}", records + 1));
        let problem: Value = serde_json::from_str(&refused.text).unwrap();
        assert_eq!(
            (&problem["quota"], &problem["limit"], &problem["used"]),
            (&json!("records"), &json!(records + 1), &json!(records + 1))
        );
        assert_eq!(used(&desk.key, "records").await, records + 1, "nothing of the refused request was stored");
        let path = format!("/api/psa/tickets/{}", ticket["id"].as_str().unwrap());
        desk.key.patch(&path).json(json!({"subject": "changed"})).send().await.ok(200);
        assert_eq!(try_ticket(&other).await.status, 201);
        limit(app, &desk.key, json!({})).await.ok(200);
        assert_eq!(try_ticket(&desk).await.status, 201);
        check_is_clean(app).await;
    })
    .await;
}

#[tokio::test]
async fn changes_use_the_reserve_and_deletions_always_work() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let ticket = desk.ticket("first").await;
        let path = format!("/api/psa/tickets/{}", ticket["id"].as_str().unwrap());
        let spare = desk.key.post("/api/admin/api-keys").json(json!({"name": "spare", "scopes": ["tickets:read"]})).send().await;
        let spare = spare.ok(201)["id"].as_str().unwrap().to_owned();
        let events = used(&desk.key, "events_per_day").await;
        limit(app, &desk.key, json!({"events_per_day": events})).await.ok(200);
        assert_eq!(try_ticket(&desk).await.problem(403), "quota_exceeded");
        let mut changes = 0;
        let refused = loop {
            let changed = desk.key.patch(&path).json(json!({"subject": format!("changed {changes}")})).send().await;
            if changed.status != 200 {
                break changed;
            }
            changes += 1;
        };
        assert_eq!(refused.problem(403), "quota_exceeded");
        assert_eq!(changes, events / 10, "the reserve is a tenth of {events}");
        desk.key.delete(&format!("/api/admin/api-keys/{spare}")).send().await.ok(200);
        let counted = used(&desk.key, "events_per_day").await;
        assert!(
            (1..=2).contains(&(counted - events - changes)),
            "{counted}: the deletion, and that the quota was reached if that is out already"
        );
        app.advance(Duration::from_hours(24));
        // Work that becomes due in the meantime counts for the new day.
        assert!(used(&desk.key, "events_per_day").await < events, "a new day");
        assert_eq!(try_ticket(&desk).await.status, 201);
    })
    .await;
}

#[tokio::test]
async fn stored_bytes_count_records_and_events() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let before = used(&desk.key, "stored_bytes").await;
        let body = json!({"subject": "log", "description": "x".repeat(20_000), "organization_id": desk.organization});
        desk.key.post("/api/psa/tickets").json(body.clone()).send().await.ok(201);
        let grown = used(&desk.key, "stored_bytes").await - before;
        assert!((20_000..80_000).contains(&grown), "{grown}");
        limit(app, &desk.key, json!({"stored_bytes": before + grown + 10_000})).await.ok(200);
        let refused = desk.key.post("/api/psa/tickets").json(body).send().await;
        assert_eq!(refused.problem(403), "quota_exceeded");
        assert!(refused.text.contains("stored_bytes"), "{}", refused.text);
        assert_eq!(try_ticket(&desk).await.status, 201, "a small one fits");
        check_is_clean(app).await;
    })
    .await;
}

#[tokio::test]
async fn stored_bytes_count_stored_responses() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let body = json!({"subject": "log", "description": "x".repeat(20_000), "organization_id": desk.organization});
        let mut grown = Vec::new();
        for key in [None, Some("once")] {
            let before = used(&desk.key, "stored_bytes").await;
            let call = desk.key.post("/api/psa/tickets").json(body.clone());
            let call = if let Some(key) = key { call.header("idempotency-key", key) } else { call };
            call.send().await.ok(201);
            grown.push(used(&desk.key, "stored_bytes").await - before);
        }
        assert!(grown[1] > grown[0] + 15_000, "{grown:?}");
        check_is_clean(app).await;
    })
    .await;
}

#[tokio::test]
async fn warnings_are_sent_at_80_percent_and_at_the_limit() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let records = used(&desk.key, "records").await;
        limit(app, &desk.key, json!({"records": 2 * records})).await.ok(200);
        let events_of = async |kind: &str, count: usize| {
            let path = format!("/api/events?types={kind}");
            loop {
                let found = desk.key.get(&path).send().await.ok(200)["data"].as_array().unwrap().clone();
                if found.len() >= count {
                    return found;
                }
            }
        };
        while used(&desk.key, "records").await * 10 < 2 * records * 8 {
            desk.ticket("more").await;
        }
        let warned = events_of("quota.warning", 1).await;
        assert_eq!(warned[0]["data"]["quota"]["quota"], "records");
        assert!(warned[0]["data"]["quota"]["percent"].as_u64().unwrap() >= 80, "{}", warned[0]);
        while try_ticket(&desk).await.status == 201 {}
        let reached = events_of("quota.reached", 1).await;
        assert_eq!(reached[0]["data"]["quota"]["used"], 2 * records);
        assert_eq!(standing(&desk.key, "records").await["status"], "reached");
    })
    .await;
}

#[tokio::test]
async fn an_import_reports_lines_beyond_the_quota() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let organization =
            |number: u64| json!({"kind": "organization", "external_id": format!("o{number}"), "name": format!("O {number}")});
        let first: Vec<Value> = (0..5).map(organization).collect();
        assert_eq!(ingest(&key, &first).await.last().unwrap()["created"], 5);
        let records = used(&key, "records").await;
        limit(app, &key, json!({"records": records + 3})).await.ok(200);
        let more: Vec<Value> = (5..2_000).map(organization).collect();
        let answers = send(&key, &more).await;
        let last = answers.last().unwrap();
        assert_eq!((&last["created"], &last["failed"]), (&json!(3), &json!(1_992)), "{last}");
        let refused = answers.iter().filter(|answer| answer["error"]["code"] == "quota_exceeded").count();
        assert_eq!(refused, 1_992);
        assert_eq!(used(&key, "records").await, records + 3);
        assert_eq!(ingest(&key, &first).await.last().unwrap()["unchanged"], 5, "what adds nothing is taken up");
        check_is_clean(app).await;
    })
    .await;
}

#[tokio::test]
async fn workflows_stop_at_the_quota() {
    with_setup(Setup::default().with("rate_limits.enabled", false), async |app| {
        let desk = Desk::new(app, "acme").await;
        let make = json!({"id": "make", "type": "ticket.create", "with": {"subject": "more", "organization_id": desk.organization}});
        let items: Vec<u8> = (0..50).collect();
        let each = json!([{"id": "each", "type": "for_each", "with": {"items": items, "steps": [make]}}]);
        desk.workflow("many", each).await;
        desk.create(json!({"key": "react", "name": "React", "triggers": [{"type": "event", "event": "ticket.created"}], "steps": [{"id": "a", "type": "set", "with": {"value": 1}}]})).await;
        let records = used(&desk.key, "records").await;
        limit(app, &desk.key, json!({"records": records + 10})).await.ok(200);
        let run = desk.start("many", json!({})).await;
        let ended = desk.status(&run, "failed").await;
        assert_eq!(ended["error"]["code"], "quota_exceeded", "{}", ended["error"]);
        assert!(used(&desk.key, "records").await <= records + 10);
        // A tenant at its limit can still cancel runs and disable the workflow that used the quota.
        let again = desk.key.post(PATH).json(json!({"workflow_key": "many"})).send().await;
        assert_eq!(again.problem(403), "quota_exceeded");
        let many = desk.key.get(PATH).send().await.ok(200)["data"].as_array().unwrap().clone();
        let id = many.iter().find(|workflow| workflow["key"] == "many").unwrap()["id"].as_str().unwrap().to_owned();
        desk.key.patch(&format!("{PATH}/{id}")).json(json!({"enabled": false})).send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn only_the_operator_sets_quotas() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, reader, analyst) =
            (tenant.admin().await, tenant.key(&["quotas:read"]).await, tenant.key(&["analytics:read"]).await);
        assert_eq!(standing(&reader, "streams").await, json!({"quota": "streams", "limit": 4, "status": "ok", "own_limit": false}));
        assert_eq!(analyst.get(QUOTAS).send().await.problem(403), "insufficient_scope");
        let metrics = "/api/analytics/tenant?range=24h&metrics=quota_*";
        assert_eq!(analyst.get(metrics).send().await.problem(403), "insufficient_scope");
        assert_eq!(analyst.get("/api/analytics/tenant?metrics=quota_records").send().await.problem(403), "insufficient_scope");
        let both = tenant.key(&["analytics:read", "quotas:read"]).await;
        app.advance(Duration::from_hours(1));
        let reported = loop {
            let reported = both.get(metrics).send().await;
            if reported.text.contains("quota_records_limit") {
                break reported;
            }
        };
        let names = reported.ok(200)["totals"].as_object().unwrap().keys();
        assert!(names.into_iter().all(|name| name.starts_with("quota_")), "{}", reported.text);
        let all = analyst.get("/api/analytics/tenant?range=24h").send().await;
        assert!(!all.text.contains("quota_"), "{}", all.text);
        let path = format!("/api/platform/tenants/{}/quotas", tenant.id);
        assert_eq!(admin.put(&path).json(json!({"records": 1})).send().await.problem(403), "operator_required");
        assert_eq!(admin.get(&path).send().await.problem(403), "operator_required");
        let operator = app.operator().await;
        let set = operator.put(&path).json(json!({"records": 0, "streams": 2})).send().await;
        let own: Vec<&Value> = set.ok(200)["quotas"].as_array().unwrap().iter().filter(|row| row["own_limit"] == true).collect();
        assert_eq!(own.iter().map(|row| &row["quota"]).collect::<Vec<_>>(), ["records", "streams"]);
        assert_eq!(operator.put(&path).json(json!({"tickets": 1})).send().await.problem(422), "validation_failed");
        assert_eq!(operator.put(&path).json(json!({"records": -1})).send().await.problem(422), "validation_failed");
        let unknown = "/api/platform/tenants/tnt_01k9zzzzzzzzzzzzzzzzzzzzzz/quotas";
        assert_eq!(operator.get(unknown).send().await.problem(404), "not_found");
        admin.confirm().await;
        let refused =
            admin.post("/api/admin/users").json(json!({"email": "new@acme.example", "name": "New", "role": "viewer"})).send().await;
        assert_eq!(refused.problem(403), "quota_exceeded");
    })
    .await;
}

#[tokio::test]
async fn usage_survives_a_restart_and_ends_with_the_tenant() {
    let setup = Setup::default();
    let app =
        TestApp::start(tempfile::tempdir().unwrap(), &setup, tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000)).await;
    let desk = Desk::new(&app, "acme").await;
    desk.ticket("first").await;
    limit(&app, &desk.key, json!({"records": 50})).await.ok(200);
    let before = standing(&desk.key, "records").await;
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now).await;
    let desk = desk.at(&app);
    assert_eq!(standing(&desk.key, "records").await, before);
    check_is_clean(&app).await;
    let (tenant, operator) = (tenant_of(&desk.key).await, app.operator().await);
    operator.delete(&format!("/api/platform/tenants/{tenant}?confirm=acme")).send().await.ok(202);
    app.until_tenant(&tenant, None).await;
    check_is_clean(&app).await;
    drop(app.stop().await);
}
