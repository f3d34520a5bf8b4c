//! Analytics as clients read them: counts of real requests and tickets, time zones, comparisons, rows, and access.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use tenantd_store::events;

use crate::{
    backup::until,
    harness::{Actor, Endpoint, Receiver, Script, TestApp, example, with_app},
    inventory::ingest,
};

const TENANT: &str = "/api/analytics/tenant";
const PLATFORM: &str = "/api/analytics/platform";
const CANARY: &str = "Quokka-7f3a canary";

/// Waits until the analytics include everything that has happened.
async fn counted(app: &TestApp, actor: &Actor, path: &str) -> Value {
    app.running().app.slices.analytics.flush().await.unwrap();
    let store = app.running().app.store.clone();
    let head = store.read(events::head).unwrap();
    while store.read(|tx| events::cursor(tx, "analytics")).unwrap() < head {
        tokio::task::yield_now().await;
    }
    actor.get(path).send().await.ok(200).clone()
}

/// The sums of the points of each group.
fn groups(report: &Value) -> BTreeMap<String, f64> {
    let sum = |series: &Value| series["points"].as_array().unwrap().iter().map(|point| point["v"].as_f64().unwrap()).sum();
    let series = report["series"].as_array().unwrap();
    series.iter().map(|series| (series["group"].as_str().unwrap_or_default().to_owned(), sum(series))).collect()
}

#[tokio::test]
async fn requests_are_counted_by_key_route_and_class() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (busy, busy_key) = acme.new_key("busy", &["analytics:read", "tickets:read"]).await;
        let (idle, idle_key) = acme.new_key("idle", &["analytics:read"]).await;
        for _ in 0..7 {
            busy.get("/api/psa/tickets").send().await.ok(200);
        }
        for _ in 0..3 {
            assert_eq!(busy.get("/api/psa/tickets/T-99").send().await.status, 404);
        }
        for _ in 0..2 {
            assert_eq!(idle.get("/api/psa/tickets").send().await.problem(403), "insufficient_scope");
        }
        app.running().app.slices.analytics.flush().await.unwrap();
        let reader = acme.key(&["analytics:read", "api_keys:read", "users:read"]).await;
        let by = async |group: &str| {
            let path = format!("{TENANT}?range=24h&metrics=api_requests&group_by={group}");
            groups(reader.get(&path).send().await.ok(200))
        };
        assert_eq!(by("status_class").await, BTreeMap::from([("2xx".to_owned(), 7.0), ("4xx".to_owned(), 5.0)]));
        let keys = by("key").await;
        assert_eq!(keys.get(busy_key["id"].as_str().unwrap()), Some(&10.0));
        assert_eq!(keys.get(idle_key["id"].as_str().unwrap()), Some(&2.0));
        let routes = by("route").await;
        assert_eq!((routes.get("list_tickets"), routes.get("read_ticket")), (Some(&9.0), Some(&3.0)));
        let path = format!("{TENANT}?range=24h&metrics=active_keys,active_users,api_requests,api_request_p95_ms,api_error_percent");
        let report = reader.get(&path).send().await.ok(200).clone();
        assert_eq!(report["totals"]["active_keys"]["value"], 2.0);
        assert_eq!(report["totals"]["active_users"]["value"], 0.0);
        assert_eq!(report["totals"]["api_requests"]["value"], 12.0);
        assert_eq!(report["totals"]["api_error_percent"]["value"], 0.0);
        assert!(report["totals"]["api_request_p95_ms"]["value"].as_f64().unwrap() > 0.0);
        let stranger = app.tenant("globex").await.key(&["analytics:read"]).await;
        let theirs = stranger.get(&format!("{TENANT}?range=24h&metrics=api_requests")).send().await;
        assert_eq!(theirs.ok(200)["totals"]["api_requests"]["value"], 0.0);
    })
    .await;
}

#[tokio::test]
async fn tickets_are_counted_and_sampled_each_hour() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let organization = acme.organization("Acme").await;
        let admin = acme.admin().await;
        let mut ids = Vec::new();
        for priority in ["high", "high", "low"] {
            let body = json!({"subject": "x", "priority": priority, "organization_id": organization});
            ids.push(admin.post("/api/psa/tickets").json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned());
        }
        app.advance(Duration::from_mins(30));
        let comment = example("tickets/create_comment");
        admin.post(&format!("/api/psa/tickets/{}/comments", ids[0])).json(comment).send().await.ok(201);
        app.advance(Duration::from_mins(30));
        let resolve = json!({"status": "resolved", "resolution": {"code": "fixed", "summary": "Done."}});
        admin.patch(&format!("/api/psa/tickets/{}", ids[0])).json(resolve).send().await.ok(200);
        let report = counted(app, &admin, &format!("{TENANT}?range=24h&metrics=tickets_created&group_by=priority")).await;
        assert_eq!(groups(&report), BTreeMap::from([("high".to_owned(), 2.0), ("low".to_owned(), 1.0)]));
        let by_organization = format!("{TENANT}?range=24h&metrics=tickets_created,tickets_resolved&group_by=organization");
        assert_eq!(counted(app, &admin, &by_organization).await["series"][0]["group"], json!(organization));
        let report = counted(app, &admin, &format!("{TENANT}?range=24h&bucket=hour")).await;
        let total = |name: &str| report["totals"][name]["value"].as_f64();
        assert_eq!((total("tickets_created"), total("tickets_resolved")), (Some(3.0), Some(1.0)));
        assert_eq!((total("sla_met_percent"), total("reopen_rate_percent")), (Some(100.0), Some(0.0)));
        let near = |name: &str, seconds: f64| (total(name).unwrap() - seconds).abs() <= seconds / 64.0;
        assert!(near("first_response_p50_seconds", 1800.0) && near("resolution_p90_seconds", 3600.0), "{report}");
        let created = report["series"].as_array().unwrap().iter().find(|series| series["metric"] == "tickets_created").unwrap();
        let points = created["points"].as_array().unwrap();
        assert_eq!((points.len(), points[23]["partial"].clone()), (24, json!(true)), "the bucket that runs is the last");
        assert!(points[..23].iter().all(|point| point.get("partial").is_none()));
        let response = report["series"].as_array().unwrap().iter().find(|series| series["metric"] == "resolution_p50_seconds");
        assert_eq!(response.unwrap()["points"].as_array().unwrap().len(), 1, "what was not measured has no point");
        app.advance(Duration::from_hours(1));
        let path = format!("{TENANT}?range=24h&metrics=ticket_backlog,devices");
        loop {
            let report = admin.get(&path).send().await.ok(200).clone();
            if report["totals"]["ticket_backlog"]["value"] == 2.0 {
                assert_eq!(report["totals"]["devices"]["value"], 0.0);
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn deliveries_are_counted_by_outcome() {
    with_app(async |app| {
        let tenant = app.evaluation_tenant("acme").await;
        let receiver = Receiver::start(|_, _| Script::status(200)).await;
        let endpoint = Endpoint::new(&tenant, &receiver.url(), json!({})).await;
        for number in 0..3 {
            tenant.new_key(&format!("event {number}"), &["tickets:read"]).await;
        }
        endpoint.until_all(3, "delivered").await;
        let reader = tenant.key(&["analytics:read", "webhooks:read"]).await;
        endpoint.until_all(4, "delivered").await;
        let path = format!("{TENANT}?range=24h&metrics=webhook_deliveries&group_by=outcome");
        // An attempt is counted right after it is stored.
        let reported = loop {
            app.running().app.slices.analytics.flush().await.unwrap();
            let reported = groups(reader.get(&path).send().await.ok(200));
            if reported.values().sum::<f64>() >= 4.0 {
                break reported;
            }
        };
        assert_eq!(reported, BTreeMap::from([("delivered".to_owned(), 4.0)]));
        let path = format!("{TENANT}?range=24h&metrics=webhook_failures,webhook_lag_p95_ms");
        let report = reader.get(&path).send().await.ok(200).clone();
        assert_eq!(report["totals"]["webhook_failures"]["value"], 0.0);
        assert!(report["totals"]["webhook_lag_p95_ms"]["value"].is_number());
    })
    .await;
}

#[tokio::test]
async fn the_document_describes_every_metric() {
    with_app(async |app| {
        let document = app.anonymous().get("/api/openapi.json").send().await.ok(200).clone();
        let text = |path: &str| document["paths"][path]["get"]["description"].as_str().unwrap().to_owned();
        let local = app.local();
        let own = local.get(TENANT).send().await.ok(200).clone();
        for name in own["totals"].as_object().unwrap().keys() {
            assert!(text(TENANT).contains(&format!("`{name}`")), "{name}");
        }
        let all = local.get(PLATFORM).send().await.ok(200).clone();
        for name in all["totals"].as_object().unwrap().keys().filter(|name| own["totals"].get(*name).is_none()) {
            assert!(text(PLATFORM).contains(&format!("`{name}`")), "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn comparisons_have_the_same_points_in_every_row() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["analytics:read", "tickets:read"]).await;
        for _ in 0..4 {
            key.get("/api/psa/tickets").send().await.ok(200);
        }
        app.running().app.slices.analytics.flush().await.unwrap();
        app.advance(Duration::from_hours(24));
        for _ in 0..6 {
            key.get("/api/psa/tickets").send().await.ok(200);
        }
        app.running().app.slices.analytics.flush().await.unwrap();
        let query = "range=24h&bucket=hour&metrics=api_requests&compare=previous_period";
        let report = key.get(&format!("{TENANT}?{query}")).send().await.ok(200).clone();
        let total = &report["totals"]["api_requests"];
        assert_eq!((&total["value"], &total["previous"], &total["change_percent"]), (&json!(6), &json!(4), &json!(50)));
        let csv = key.get(&format!("{TENANT}?range=24h&bucket=hour&metrics=api_requests&format=csv")).send().await;
        assert_eq!((csv.status, csv.header("content-type")), (200, "text/csv; charset=utf-8"));
        let lines: Vec<&str> = csv.text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (25, "t,metric,group,v,partial"));
        let last = report["series"][0]["points"][23].clone();
        assert_eq!(lines[24], format!("{},api_requests,,{},true", last["t"].as_str().unwrap(), last["v"].as_u64().unwrap()));
        let rows =
            key.get(&format!("{TENANT}?range=24h&bucket=hour&metrics=api_requests")).header("accept", "application/x-ndjson");
        assert_eq!(rows.send().await.lines(200).last().unwrap(), &json!({"_end": true, "count": 24}));
    })
    .await;
}

#[tokio::test]
async fn totals_do_not_depend_on_the_bucket() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["analytics:read", "tickets:read", "tickets:write"]).await;
        let organization = acme.organization("Acme").await;
        // The first of these events is at midnight in Kolkata, which is still December in UTC.
        for days in [0, 3, 6, 6, 9, 2] {
            let body = json!({"subject": "x", "organization_id": organization});
            key.post("/api/psa/tickets").json(body).send().await.ok(201);
            app.advance(Duration::from_hours(24 * days));
        }
        let read = async |query: &str| counted(app, &key, &format!("{TENANT}?metrics=tickets_created&{query}")).await;
        for (range, expected) in [("7d", 1), ("30d", 6), ("90d", 6), ("12mo", 6), ("mtd", 6), ("ytd", 6)] {
            for bucket in ["day", "week", "month"] {
                let report = read(&format!("range={range}&bucket={bucket}")).await;
                assert_eq!(report["totals"]["tickets_created"]["value"].as_u64(), Some(expected), "{range} by {bucket}: {report}");
                let points = report["series"][0]["points"].as_array().unwrap().clone();
                assert_eq!(points.iter().map(|point| point["v"].as_u64().unwrap()).sum::<u64>(), expected, "{range} by {bucket}");
                assert_eq!(points[0]["t"], report["range"]["from"], "{range} by {bucket}");
            }
        }
        let year = read("range=ytd&bucket=week").await;
        assert_eq!(year["range"]["from"], "2026-01-01T00:00:00.000Z", "no day of the year before");
        assert_eq!(year["series"][0]["points"][0]["partial"], true, "the week began in December");
        assert_eq!(year["series"][0]["points"][1].get("partial"), None);
        for (zone, from) in [("Europe/Berlin", "2025-12-31T23:00:00.000Z"), ("America/New_York", "2026-01-01T05:00:00.000Z")] {
            for range in ["ytd", "mtd"] {
                assert_eq!(read(&format!("range={range}&timezone={zone}")).await["range"]["from"], from, "{range} in {zone}");
            }
        }
        let cut = read("from=2026-01-01T00:00:00Z&to=2026-01-04T12:00:00Z&bucket=month").await;
        assert_eq!(cut["range"]["to"], "2026-01-04T12:00:00.000Z");
        assert_eq!(cut["totals"]["tickets_created"]["value"], json!(3));
    })
    .await;
}

#[tokio::test]
async fn stored_bytes_match_the_quota() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["analytics:read", "ingest:write", "inventory:read", "quotas:read"]).await;
        let lines: Vec<Value> = [json!({"kind": "organization", "external_id": "o", "name": "O"})]
            .into_iter()
            .chain((0..50).map(|number| {
                json!({"kind": "device", "external_id": format!("d{number}"), "name": "d", "organization_external_id": "o"})
            }))
            .collect();
        ingest(&key, &lines).await;
        // The tenant was created after the sample of this hour.
        app.advance(Duration::from_mins(6));
        let path = format!("{TENANT}?range=24h&metrics=stored_bytes,devices");
        let first = until(&key, &path, |report| report["totals"]["devices"]["value"] == 50).await;
        let own = first["totals"]["stored_bytes"]["value"].as_u64().unwrap();
        let quota = key.get("/api/admin/quotas").send().await;
        let used =
            quota.ok(200)["quotas"].as_array().unwrap().iter().find(|quota| quota["quota"] == "stored_bytes").unwrap().clone();
        // The key records its own use in the meantime.
        assert!(own > 50 * 100 && own.abs_diff(used["used"].as_u64().unwrap()) < 500, "{own} and {used}");
        let path = format!("{PLATFORM}?range=24h&metrics=stored_bytes,database_bytes");
        let totals = app.operator().await.get(&path).send().await.ok(200)["totals"].clone();
        let [all, files] = ["stored_bytes", "database_bytes"].map(|name| totals[name]["value"].as_u64().unwrap());
        assert!(own <= all && all < files, "{totals}");
    })
    .await;
}

#[tokio::test]
async fn all_errors_of_a_query_are_reported_with_alternatives() {
    with_app(async |app| {
        let key = app.tenant("acme").await.key(&["analytics:read"]).await;
        let refused =
            key.get(&format!("{TENANT}?metrics=tickets_create,devices&group_by=priority&timezone=Europe/Berlim")).send().await;
        assert_eq!(refused.problem(422), "validation_failed");
        let reported: Vec<(String, String)> = refused.field_errors();
        let expected = [("group_by", "not_allowed"), ("metrics", "unknown_metric"), ("timezone", "unknown_time_zone")];
        assert_eq!(reported, expected.map(|(place, code)| (place.to_owned(), code.to_owned())));
        let suggested = |error: &Value| error["suggestion"].as_str().map(str::to_owned);
        let suggestions: Vec<String> = refused.body["errors"].as_array().unwrap().iter().filter_map(suggested).collect();
        assert!(suggestions.contains(&"tickets_created".to_owned()) && suggestions.contains(&"Europe/Berlin".to_owned()));
        let many = key.get(&format!("{TENANT}?range=12mo&bucket=hour")).send().await;
        assert_eq!(many.field_errors(), [("bucket".to_owned(), "too_many_points".to_owned())]);
        assert_eq!(many.body["errors"][0]["suggestion"], "day");
        key.get(&format!("{TENANT}?range=12mo&bucket=day")).send().await.ok(200);
        assert_eq!(key.get(&format!("{TENANT}?range=5d")).send().await.status, 422);
        assert_eq!(key.get(&format!("{TENANT}?unknown=1")).send().await.problem(400), "unknown_parameter");
        for query in
            ["from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to=2026-01-01T00:00:00Z", "range=7d&from=2026-01-01T00:00:00Z"]
        {
            assert_eq!(key.get(&format!("{TENANT}?{query}")).send().await.problem(422), "validation_failed", "{query}");
        }
    })
    .await;
}

#[tokio::test]
async fn platform_analytics_show_no_tenant_content() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        for actor in [acme.admin().await, acme.key(&["*"]).await] {
            assert_eq!(actor.get(PLATFORM).send().await.problem(403), "operator_required");
        }
        let operator = app.operator().await;
        let tenants = operator.get("/api/platform/tenants").send().await.ok(200).clone();
        let platform =
            tenants["data"].as_array().unwrap().iter().find(|tenant| tenant["kind"] == "platform").unwrap()["id"].clone();
        let keys = format!("/internal/admin/tenants/{}/api-keys", platform.as_str().unwrap());
        let made = async |name: &str, scope: &str| {
            let reply = app.local().post(&keys).json(json!({"name": name, "scopes": [scope]})).send().await;
            app.anonymous().bearer(reply.ok(201)["key"].as_str().unwrap())
        };
        let (allowed, refused) = (made("figures", "platform:read").await, made("tickets", "tickets:read").await);
        assert_eq!(refused.get(PLATFORM).send().await.problem(403), "operator_required");
        // A tenant with its canary in every text that it can set.
        let organization = acme.organization(CANARY).await;
        let (admin, _) = acme.new_key(CANARY, &["*"]).await;
        let ticket = json!({"subject": CANARY, "queue": CANARY, "tags": ["quokka-7f3a"], "organization_id": organization});
        admin.post("/api/psa/tickets").json(ticket).send().await.ok(201);
        let steps = json!([{"id": "wait", "type": "ticket.create", "with": {"subject": CANARY, "organization_id": organization}}]);
        let definition = json!({"key": "quokka-7f3a", "name": CANARY, "steps": steps});
        admin.post("/api/psa/workflows/trigger").json(json!({"action": "create", "definition": definition})).send().await.ok(201);
        let run = json!({"workflow_key": "quokka-7f3a"});
        admin.post("/api/psa/workflows/trigger").json(run).send().await.ok(202);
        let report = counted(app, &operator, &format!("{PLATFORM}?range=24h")).await;
        assert!(report["totals"]["tickets_created"]["value"].as_f64().unwrap() >= 1.0);
        assert!(report["version"].is_string() && report["started_at"].is_string());
        assert!(report["totals"]["database_bytes"]["value"].as_f64().unwrap() > 0.0);
        app.advance(Duration::from_hours(1));
        while operator.get(&format!("{PLATFORM}?range=24h&metrics=tenants")).send().await.ok(200)["totals"]["tenants"]["value"]
            != 2.0
        {
            tokio::task::yield_now().await;
        }
        let mut texts = vec![report.to_string()];
        for group in ["priority", "status", "state", "outcome", "route", "status_class", "tenant", "kind", "queue"] {
            texts.push(allowed.get(&format!("{PLATFORM}?range=24h&group_by={group}")).send().await.ok(200).to_string());
            texts.push(allowed.get(&format!("{PLATFORM}?range=24h&group_by={group}&format=csv")).send().await.text);
        }
        texts.push(app.anonymous().get("/status/").send().await.text);
        assert!(texts.iter().all(|text| !text.to_lowercase().contains("quokka")));
        assert!(texts.iter().any(|text| text.contains(&acme.id)), "tenants are named by their ids");
        for private in ["organization", "workflow", "key"] {
            let reply = operator.get(&format!("{PLATFORM}?group_by={private}")).send().await;
            assert_eq!(reply.problem(422), "validation_failed", "{private}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_analytics_page_needs_a_reader_and_loads_nothing_from_another_host() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let anonymous = app.anonymous().get("/documentation/analytics/").send().await;
        assert_eq!((anonymous.status, anonymous.header("location")), (303, "/sign-in?return_to=%2Fdocumentation%2Fanalytics%2F"));
        let unable = acme.key(&["tickets:read"]).await;
        assert_eq!(unable.get("/documentation/analytics/").send().await.problem(403), "insufficient_scope");
        let viewer = acme.user("viewer").await;
        let page = viewer.get("/documentation/analytics/").send().await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
        assert!(page.text.contains("<svg role=\"img\"") && page.text.contains("<desc") && page.text.contains("as a table"));
        for forbidden in ["@import", "url(", "style=", "href=\"//", "src=\"//", "src=\"http"] {
            assert!(!page.text.contains(forbidden), "{forbidden}");
        }
        let data = viewer.get("/documentation/analytics/").header("accept", "application/json").send().await;
        assert_eq!(data.ok(200)["charts"][0]["points"].as_array().unwrap().len(), 90);
        let status = app.anonymous().get("/status/").header("accept", "application/json").send().await;
        let names: Vec<_> = status.ok(200)["components"].as_array().unwrap().iter().map(|part| part["name"].clone()).collect();
        assert_eq!(names, ["api", "storage", "webhooks", "search", "workflows", "cloud", "backup", "snapshots"]);
    })
    .await;
}
