//! Removing a tenant deletes all of its data and no data of another tenant.

use std::time::Duration;

use serde_json::{Value, json};

use tenantd_base::id::TenantId;
use tenantd_store::{Direction, Flow, KeyRange, Read, ReadTx, SegmentedTable, StoreError, catalog, engine::RawTable};

use crate::harness::{Actor, Setup, Tenant, TestApp, WEBHOOKS, with_app};

const TENANTS: &str = "/api/platform/tenants";
/// A text in every kind of record of the tenant.
const CANARY: &str = "zephyrquince";

/// A stored row: table, key and value.
type RawRow = (String, Vec<u8>, Vec<u8>);

fn every_row(tx: &ReadTx) -> Result<Vec<RawRow>, StoreError> {
    let mut rows = Vec::new();
    for name in catalog::ALL {
        let segments = SegmentedTable::new(*name).segments(tx)?.into_iter().map(Some);
        for segment in segments.chain([None]) {
            let table = RawTable { table: *name, segment };
            tx.raw_scan(table, &KeyRange::ALL, Direction::Forward, &mut |key, value| {
                rows.push((name.name().to_owned(), key.to_vec(), value.to_vec()));
                Ok(Flow::Continue)
            })?;
        }
    }
    Ok(rows)
}

fn rows(app: &TestApp) -> Vec<RawRow> {
    app.running().app.store.read(every_row).unwrap()
}

fn has((_, key, value): &RawRow, wanted: &[u8]) -> bool {
    [key, value].iter().any(|bytes| bytes.windows(wanted.len()).any(|part| part == wanted))
}

fn id_of(tenant: &Tenant<'_>) -> TenantId {
    tenant.id.parse().unwrap()
}

/// The rows that name the tenant, without counters that grow every minute.
fn rows_of(app: &TestApp, tenant: TenantId) -> Vec<RawRow> {
    let is_figure = |row: &RawRow| row.0.starts_with("analytics");
    rows(app).into_iter().filter(|row| has(row, tenant.as_bytes()) && !is_figure(row)).collect()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(10), waiting).await.unwrap_or_else(|_| panic!("{what} did not come about"));
}

async fn is_gone(operator: &Actor, tenant: TenantId) -> bool {
    operator.get(&format!("{TENANTS}/{tenant}")).send().await.status == 404
}

/// A tenant with a row in nearly every table, and the canary in every text field.
async fn full<'a>(app: &'a TestApp, slug: &str) -> (Tenant<'a>, Actor) {
    let sample = json!({"organizations": 3, "devices": 12, "tickets": 30, "runs": true});
    let local = app.local();
    let made = local.post("/api/platform/evaluations").json(json!({"name": slug, "slug": slug, "sample": sample})).send().await;
    let id = made.ok(201)["tenant"]["id"].as_str().unwrap().to_owned();
    app.until_tenant(&id, Some("active")).await;
    let tenant = Tenant::known(app, slug, &id);
    let key = tenant.key(&["*"]).await;
    let admin = key.clone();
    tenant.user("technician").await;
    let organization = tenant.organization(&format!("{CANARY} Ltd")).await;
    tenant.contact(&organization, &format!("{CANARY}@{slug}.example")).await;
    tenant.device(&organization, CANARY).await;
    let ticket = json!({"subject": format!("{CANARY} is broken"), "organization_id": organization});
    let made = key.post("/api/psa/tickets").header("idempotency-key", CANARY).json(ticket).send().await;
    let comment = format!("/api/psa/tickets/{}/comments", made.ok(201)["id"].as_str().unwrap());
    key.post(&comment).json(json!({"body": CANARY, "visibility": "internal"})).send().await.ok(201);
    let hook = json!({"name": CANARY, "url": "http://127.0.0.1:9/", "events": ["*"]});
    admin.post(WEBHOOKS).json(hook).send().await.ok(201);
    let made = json!({"email": format!("{CANARY}.staff@{slug}.example"), "name": CANARY, "role": "technician"});
    admin.post("/api/admin/users").json(made).send().await.ok(201);
    (tenant, key)
}

#[tokio::test]
async fn a_removed_tenant_leaves_nothing() {
    with_app(async |app| {
        let operator = app.operator().await;
        let (other, _) = full(app, "other").await;
        let (gone, key) = full(app, "gone").await;
        let (other, gone) = (id_of(&other), id_of(&gone));
        assert!(rows(app).iter().any(|row| has(row, CANARY.as_bytes()) && has(row, gone.as_bytes())));
        assert_eq!(
            key.get("/api/search?q=zephyrquince").send().await.ok(200)["page"]["total"].as_u64().map(|hits| hits > 0),
            Some(true)
        );
        let tables: std::collections::BTreeSet<String> = rows_of(app, gone).into_iter().map(|row| row.0).collect();
        assert!(tables.len() > 40, "the tenant should have something everywhere: {tables:?}");

        let path = format!("{TENANTS}/{gone}");
        let unconfirmed = operator.delete(&format!("{path}?confirm=other")).send().await;
        assert_eq!(unconfirmed.field_errors(), [("confirm".to_owned(), "wrong_value".to_owned())]);
        assert_eq!(operator.delete(&path).send().await.problem(422), "validation_failed");
        assert_eq!(key.get("/api/auth/session").send().await.status, 200);
        let deleting = operator.delete(&format!("{path}?confirm=gone")).send().await;
        assert_eq!(deleting.ok(202)["status"], "deleting");
        assert_eq!(key.get("/api/auth/session").send().await.status, 401, "nothing of it works from then on");
        let resumed = operator.post(&format!("{path}/resume")).send().await.status;
        assert!(resumed == 409 || resumed == 404, "{resumed}");
        app.until_tenant(&gone.to_string(), None).await;

        // Work that was running during the removal may still write for an hour. Its rows are removed after that.
        app.advance(Duration::from_mins(61));
        until("the last sweep", async || !rows(app).iter().any(|row| has(row, gone.as_bytes()))).await;
        for row in rows(app) {
            let text = gone.to_string();
            let canaries = has(&row, CANARY.as_bytes()) && !has(&row, other.as_bytes());
            assert!(!canaries, "a text of the tenant is left in {}", row.0);
            // The operator's own history still names the tenant.
            let is_history = ["events", "audit_records"].contains(&row.0.as_str());
            assert!(is_history || !has(&row, text.as_bytes()), "the tenant is named in {}", row.0);
        }
        let reported = operator.get("/api/events?types=tenant.deleted").send().await;
        assert_eq!(reported.ok(200)["data"][0]["resource"]["id"], gone.to_string());
        assert!(!rows_of(app, other).is_empty());
    })
    .await;
}

#[tokio::test]
async fn removing_a_tenant_changes_no_row_of_another() {
    with_app(async |app| {
        let operator = app.operator().await;
        let (other, _) = full(app, "other").await;
        let (gone, _) = full(app, "gone").await;
        let (other, gone) = (id_of(&other), id_of(&gone));
        // The clock does not move: the other tenant is unchanged once its runs, syncs and deliveries have settled.
        let mut before = rows_of(app, other);
        until("the rest of the other tenant", async || {
            for _ in 0..200 {
                operator.get(TENANTS).send().await;
            }
            let now = rows_of(app, other);
            std::mem::replace(&mut before, now.clone()) == now
        })
        .await;
        operator.delete(&format!("{TENANTS}/{gone}?confirm=gone")).send().await.ok(202);
        app.until_tenant(&gone.to_string(), None).await;
        let after = rows_of(app, other);
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after, "a row of {} has changed", before.0);
        }
    })
    .await;
}

#[tokio::test]
async fn removal_frees_the_slug_and_sign_ins() {
    with_app(async |app| {
        let operator = app.operator().await;
        let first = app.tenant("acme").await;
        let session = first.admin().await;
        let gone = id_of(&first);
        operator.delete(&format!("{TENANTS}/{gone}?confirm=acme")).send().await.ok(202);
        app.until_tenant(&gone.to_string(), None).await;
        assert_eq!(session.get("/api/auth/session").send().await.status, 401);
        let second = app.tenant("acme").await;
        assert_ne!(second.id, gone.to_string());
        let admin = second.admin().await;
        assert_eq!(admin.get("/api/auth/session").send().await.ok(200)["tenant"]["id"], second.id);
        let platform = operator.get(&format!("{TENANTS}?slug=platform")).send().await.ok(200)["data"][0]["id"].clone();
        let path = format!("{TENANTS}/{}?confirm=platform", platform.as_str().unwrap());
        assert_eq!(operator.delete(&path).send().await.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn an_interrupted_removal_continues_after_a_restart() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let mut app = TestApp::start(tempfile::tempdir().unwrap(), &setup, start).await;
    let (gone, _) = full(&app, "gone").await;
    let gone = id_of(&gone);
    let operator = app.operator().await;
    operator.delete(&format!("{TENANTS}/{gone}?confirm=gone")).send().await.ok(202);
    let mut starts = 0;
    while !is_gone(&app.local(), gone).await {
        let (directory, now) = app.stop().await;
        app = TestApp::start(directory, &setup, now).await;
        starts += 1;
        assert!(starts < 200, "it never ends");
    }
    app.advance(Duration::from_mins(62));
    until("the last sweep", async || !rows(&app).iter().any(|row| has(row, gone.as_bytes()))).await;
    drop(app.stop().await);
}

#[tokio::test]
async fn an_expired_evaluation_tenant_is_removed() {
    with_app(async |app| {
        let operator = app.operator().await;
        let body = json!({"name": "Trial", "kind": "evaluation", "expires_days": 3});
        let made = operator.post(TENANTS).json(body).send().await;
        let id = made.ok(201)["id"].as_str().unwrap().to_owned();
        let keys = format!("/internal/admin/tenants/{id}/api-keys");
        let key = app.local().post(&keys).json(json!({"name": "k", "scopes": ["*"]})).send().await;
        let secret: &Value = &key.ok(201)["key"];
        assert!(secret.as_str().unwrap().starts_with("tck_eval_"));
        let visitor = app.anonymous().bearer(secret.as_str().unwrap());
        app.advance(Duration::from_hours(71));
        assert_eq!(visitor.get("/api/auth/session").send().await.status, 200);
        app.advance(Duration::from_hours(1));
        let refused = visitor.get("/api/auth/session").send().await.status;
        assert!(refused == 403 || refused == 401, "{refused}");
        let local = app.local();
        app.until_tenant(&id, None).await;
        let events = local.get("/api/events?types=tenant.*").send().await.ok(200)["data"].as_array().unwrap().clone();
        let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
        assert!(kinds.ends_with(&["tenant.expired", "tenant.deletion_started", "tenant.deleted"]), "{kinds:?}");
    })
    .await;
}
