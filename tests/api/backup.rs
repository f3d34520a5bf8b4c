//! Backup configuration: inheritance between scopes, validation, dry runs, and access.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Tenant, TestApp, with_app},
    inventory::ingest,
};

pub const CONFIG: &str = "/api/backup/config";
pub const REPORT: &str = "/api/backup/customer-aggregate";

pub fn organization(id: &str) -> Value {
    json!({"kind": "organization", "external_id": id, "name": format!("The {id} company")})
}

pub fn device(id: &str, organization: &str, class: &str) -> Value {
    json!({"kind": "device", "external_id": id, "name": id, "class": class, "organization_external_id": organization})
}

/// A job of a device that ended at this time.
pub fn job(id: &str, device: &str, status: &str, at: &str) -> Value {
    json!({"kind": "backup_job", "external_id": id, "device": device, "started_at": at, "ended_at": at, "status": status,
        "bytes": 1000})
}

/// The ids that were assigned to the lines, in order.
pub fn ids(answers: &[Value]) -> Vec<String> {
    answers.iter().filter_map(|answer| answer["id"].as_str()).map(str::to_owned).collect()
}

/// A key with all backup scopes, and the ids of two organizations with one server and one workstation each.
pub async fn estate(tenant: &Tenant<'_>) -> (Actor, Vec<String>) {
    let key = tenant.key(&["ingest:write", "backup:*", "events:read", "tickets:read"]).await;
    let lines = [
        organization("acme"),
        organization("beta"),
        device("a-srv", "acme", "server"),
        device("a-ws", "acme", "workstation"),
        device("b-srv", "beta", "server"),
        device("b-ws", "beta", "workstation"),
    ];
    let made = ids(&ingest(&key, &lines).await);
    until(&key, REPORT, |report| report["summary"]["devices"]["total"] == 4).await;
    (key, made)
}

/// Reads a record until the condition is true.
pub async fn until(actor: &Actor, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..3_000 {
        let found = actor.get(path).send().await.ok(200).clone();
        if is_so(&found) {
            return found;
        }
        tokio::task::yield_now().await;
    }
    panic!("it did not come: {}", actor.get(path).send().await.text);
}

pub async fn events(actor: &Actor, types: &str) -> Vec<Value> {
    let path = format!("/api/events?types={types}&limit=200");
    actor.get(&path).send().await.ok(200)["data"].as_array().unwrap().clone()
}

pub async fn set(actor: &Actor, scope: &str, body: Value) -> Value {
    actor.put(&format!("{CONFIG}?scope={scope}")).json(body).send().await.ok(200).clone()
}

#[tokio::test]
async fn each_field_comes_from_the_nearest_scope() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, ids) = estate(&tenant).await;
        let [acme, _, server, ..] = ids.as_slice() else { panic!("{ids:?}") };
        let verification = |days: u32| json!({"restore_test_every_days": days});
        let read = async |scope: &str| key.get(&format!("{CONFIG}?scope={scope}")).send().await.ok(200).clone();
        assert_eq!(key.get(CONFIG).send().await.ok(200)["inherited_from"]["enabled"], "default");
        set(&key, "tenant", json!({"verification": verification(10), "enabled": false})).await;
        set(&key, acme, json!({"enabled": true, "workloads": ["server"]})).await;
        set(&key, server, json!({"verification": verification(5)})).await;
        for (scope, enabled, days, enabled_from, verification_from, workloads_from) in [
            ("tenant", false, 10, None, None, Some("default")),
            (acme.as_str(), true, 10, None, Some("tenant"), None),
            (server.as_str(), true, 5, Some(acme.as_str()), None, Some(acme.as_str())),
            (ids[1].as_str(), false, 10, Some("tenant"), Some("tenant"), Some("default")),
            (ids[4].as_str(), false, 10, Some("tenant"), Some("tenant"), Some("default")),
        ] {
            let found = read(scope).await;
            assert_eq!(found["scope"], scope);
            assert_eq!(found["effective"]["enabled"], enabled, "{found}");
            assert_eq!(found["effective"]["verification"]["restore_test_every_days"], days, "{found}");
            let from = |field: &str| found["inherited_from"][field].as_str();
            assert_eq!(
                (from("enabled"), from("verification"), from("workloads")),
                (enabled_from, verification_from, workloads_from),
                "{found}"
            );
            assert_eq!(found["own"].as_object().unwrap().len() + found["inherited_from"].as_object().unwrap().len(), 9, "{found}");
        }
        let sent = events(&key, "backup.config.updated").await;
        assert_eq!(sent.len(), 3);
        let changes = &sent[0]["data"]["changes"];
        assert_eq!(changes["enabled"], json!({"from": null, "to": false}));
        assert_eq!(sent[1]["resource"]["id"], acme.as_str());
    })
    .await;
}

#[tokio::test]
async fn changes_need_the_version_and_no_ops_have_no_event() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["backup:*", "events:read"]).await;
        let path = format!("{CONFIG}?scope=tenant");
        let first = key.put(&path).header("if-match", "\"v0\"").json(json!({"enabled": false})).send().await;
        assert_eq!((first.ok(200)["version"].as_u64(), first.header("etag")), (Some(1), "\"v1\""));
        let stale = key.put(&path).header("if-match", "\"v0\"").json(json!({})).send().await;
        assert_eq!((stale.problem(412), &stale.body["current_version"]), ("version_conflict", &json!(1)));
        assert_eq!(key.put(&path).json(json!({"enabled": false})).send().await.ok(200)["version"], 1);
        assert_eq!(events(&key, "backup.config.updated").await.len(), 1);
        let cleared = key.put(&path).json(json!({})).send().await;
        assert_eq!((&cleared.ok(200)["own"], cleared.body["version"].as_u64()), (&json!({}), Some(2)));
        assert_eq!(cleared.body["inherited_from"]["enabled"], "default");
    })
    .await;
}

#[tokio::test]
async fn all_errors_are_reported_at_once() {
    with_app(async |app| {
        let key = app.tenant("acme").await.key(&["backup:*"]).await;
        let path = format!("{CONFIG}?scope=tenant");
        let target = |name: &str, days: u32| json!({"name": name, "kind": "object", "offsite": true, "immutable_days": days});
        let retention = |daily: u32| json!({"hourly": 0, "daily": daily, "weekly": 0, "monthly": 0, "yearly": 0});
        let body = json!({
            "schedule": {"kind": "cron", "cron": "61 * * * *", "timezone": "Mars/Olympus", "window": {"start": "01:00", "end": "01:00"}},
            "targets": [target("vault", 30), target("Vault", 0)],
            "encryption": {"at_rest": true},
            "retention": retention(7),
        });
        let refused = key.put(&path).json(body).send().await;
        assert_eq!(refused.problem(422), "validation_failed");
        let places: Vec<String> = refused.field_errors().into_iter().map(|(place, _)| place).collect();
        assert_eq!(
            places,
            ["/encryption/key_source", "/retention", "/schedule/cron", "/schedule/timezone", "/schedule/window", "/targets/1/name"]
        );
        for (schedule, places) in [
            (json!({"kind": "interval", "timezone": "UTC"}), vec!["/schedule/every_minutes"]),
            (json!({"kind": "interval", "cron": "0 1 * * *", "timezone": "UTC"}), vec!["/schedule/cron", "/schedule/every_minutes"]),
            (json!({"kind": "cron", "every_minutes": 60, "timezone": "UTC"}), vec!["/schedule/cron", "/schedule/every_minutes"]),
        ] {
            let refused = key.put(&path).json(json!({"schedule": schedule})).send().await;
            assert_eq!(refused.field_errors().into_iter().map(|(place, _)| place).collect::<Vec<_>>(), places);
        }
        let unknown = key.put(&path).json(json!({"enabld": true})).send().await;
        assert_eq!(unknown.problem(422), "validation_failed");
        assert_eq!(key.put(&path).json(json!({"retention": retention(0)})).send().await.field_errors()[0].0, "/retention");
        assert_eq!(key.get(&format!("{CONFIG}?scope=org_1")).send().await.problem(422), "validation_failed");
        let nowhere = format!("{CONFIG}?scope=org_01k00000000000000000000000");
        assert_eq!(key.get(&nowhere).send().await.problem(404), "not_found");
        assert_eq!(key.put(&nowhere).json(json!({})).send().await.problem(404), "not_found");
        assert_eq!(key.put(CONFIG).json(json!({})).send().await.problem(422), "validation_failed");
    })
    .await;
}

#[tokio::test]
async fn a_retention_below_a_longer_lock_is_refused() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, ids) = estate(&tenant).await;
        let retention = |daily: u32| json!({"hourly": 0, "daily": daily, "weekly": 0, "monthly": 0, "yearly": 0});
        let vault = json!([{"name": "vault", "kind": "cloud", "offsite": true, "immutable_days": 60}]);
        set(&key, &ids[2], json!({"targets": vault})).await;
        let refused = key.put(&format!("{CONFIG}?scope=tenant")).json(json!({"retention": retention(59)})).send().await;
        assert_eq!(refused.problem(422), "validation_failed");
        assert_eq!(refused.field_errors(), [("/retention".to_owned(), "shorter_than_lock".to_owned())]);
        assert!(refused.body["errors"][0]["message"].as_str().unwrap().contains(&ids[2]), "{}", refused.text);
        set(&key, "tenant", json!({"retention": retention(60)})).await;
        set(&key, &ids[3], json!({"retention": retention(1)})).await;
        let refused =
            key.put(&format!("{CONFIG}?scope={}", ids[2])).json(json!({"targets": vault, "retention": retention(3)})).send();
        assert_eq!(refused.await.problem(422), "validation_failed");
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_reports_and_changes_nothing() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, _) = estate(&tenant).await;
        let mut jobs = Vec::new();
        for (place, device) in ["a-srv", "a-ws", "b-srv"].iter().enumerate() {
            for hour in 0..=place {
                jobs.push(job(&format!("{hour}"), device, "success", &format!("2025-12-31T{:02}:00:00Z", 20 + hour)));
            }
        }
        jobs.push(job("old", "b-ws", "success", "2025-12-31T01:00:00Z"));
        ingest(&key, &jobs).await;
        let body = json!({
            "objectives": {"rpo_minutes": {"server": 180, "workstation": 300}},
            "retention": {"hourly": 0, "daily": 1, "weekly": 0, "monthly": 0, "yearly": 0},
        });
        let planned = key.put(&format!("{CONFIG}?scope=tenant&dry_run=true")).json(body.clone()).send().await;
        let impact = planned.ok(200)["impact"].clone();
        assert_eq!(planned.body["version"], 0, "nothing has changed");
        assert_eq!(planned.body["effective"]["objectives"]["rpo_minutes"]["server"], 180);
        // It is midnight. a-srv: 4 hours. a-ws: 3 hours. b-srv: 2 hours. b-ws: 23 hours.
        assert_eq!((&impact["devices_affected"], &impact["newly_breaching"]), (&json!(4), &json!(2)));
        assert_eq!(impact["newly_breaching_device_ids"].as_array().unwrap().len(), 2);
        assert!(events(&key, "backup.rpo_breached,backup.config.updated").await.is_empty());
        let before = key.get(REPORT).send().await.ok(200)["summary"]["rpo"].clone();
        assert_eq!(before["breached"], 0);

        set(&key, "tenant", body).await;
        until(&key, REPORT, |report| report["summary"]["rpo"]["breached"] == impact["newly_breaching"]).await;
        let sent = events(&key, "backup.rpo_breached").await;
        let mut breached: Vec<&str> =
            sent.iter().map(|event| event["data"]["backup_posture"]["device"]["id"].as_str().unwrap()).collect();
        breached.sort_unstable();
        let mut planned: Vec<&str> =
            impact["newly_breaching_device_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
        planned.sort_unstable();
        assert_eq!(breached, planned);
        let again = key.put(&format!("{CONFIG}?scope=tenant&dry_run=true")).json(json!({})).send().await;
        assert_eq!(again.ok(200)["impact"]["restore_points_expiring"], 0);
        assert_eq!(impact["restore_points_expiring"], 0, "of a day, the defaults keep the newest too");
    })
    .await;
}

#[tokio::test]
async fn a_shorter_retention_counts_lost_restore_points() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, ids) = estate(&tenant).await;
        let jobs: Vec<Value> =
            (20..30).map(|day| job(&format!("{day}"), "a-srv", "success", &format!("2025-12-{day}T01:00:00Z"))).collect();
        ingest(&key, &jobs).await;
        let shorter = json!({"retention": {"hourly": 0, "daily": 4, "weekly": 0, "monthly": 0, "yearly": 0}});
        let plan = async |scope: &str| {
            let planned = key.put(&format!("{CONFIG}?scope={scope}&dry_run=true")).json(shorter.clone()).send().await;
            planned.ok(200)["impact"]["restore_points_expiring"].clone()
        };
        assert_eq!((plan("tenant").await, plan(&ids[0]).await, plan(&ids[2]).await), (json!(6), json!(6), json!(6)));
        assert_eq!((plan(&ids[1]).await, plan(&ids[3]).await), (json!(0), json!(0)));
        set(&key, &ids[2], shorter.clone()).await;
        assert_eq!(plan("tenant").await, json!(0), "they are gone");
    })
    .await;
}

async fn restricted(app: &TestApp, admin: &Actor, organization: &str) -> Actor {
    let body = json!({"name": "for one", "scopes": ["backup:*", "ingest:write"], "organization_ids": [organization]});
    let created = admin.post("/api/admin/api-keys").json(body).send().await;
    app.anonymous().bearer(created.ok(201)["key"].as_str().unwrap())
}

#[tokio::test]
async fn a_restricted_key_is_limited_to_its_organizations() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, ids) = estate(&tenant).await;
        let admin = tenant.admin().await;
        let ours = restricted(app, &admin, &ids[0]).await;
        assert_eq!(ours.get(CONFIG).send().await.ok(200)["scope"], "tenant", "what is inherited is no secret");
        let change = json!({"enabled": false});
        let refused = ours.put(&format!("{CONFIG}?scope=tenant")).json(change.clone()).send().await;
        assert_eq!(refused.problem(403), "insufficient_scope");
        let refused = ours.put(&format!("{CONFIG}?scope=tenant&dry_run=true")).json(change.clone()).send().await;
        assert_eq!(refused.problem(403), "insufficient_scope");
        for theirs in [&ids[1], &ids[4]] {
            assert_eq!(ours.get(&format!("{CONFIG}?scope={theirs}")).send().await.problem(404), "not_found");
            let refused = ours.put(&format!("{CONFIG}?scope={theirs}")).json(change.clone()).send().await;
            assert_eq!(refused.problem(404), "not_found");
        }
        set(&ours, &ids[0], json!({"enabled": true})).await;
        set(&ours, &ids[2], json!({"enabled": true})).await;
        let report = ours.get(&format!("{REPORT}?include_total=true")).send().await.ok(200).clone();
        assert_eq!((report["data"].as_array().unwrap().len(), &report["page"]["total"]), (1, &json!(1)));
        assert_eq!(report["summary"]["devices"]["total"], 2);
        let elsewhere = ours.get(&format!("{REPORT}?organization_id={}", ids[1])).send().await;
        assert!(elsewhere.ok(200)["data"].as_array().unwrap().is_empty());
        let evidence = ours.get(&format!("{REPORT}?view=evidence")).send().await;
        assert!(!evidence.text.contains(&ids[1]), "{}", evidence.text);
        let lines = format!(
            "{}\n{}\n",
            job("1", "b-srv", "success", "2025-12-31T20:00:00Z"),
            job("1", "a-srv", "success", "2025-12-31T20:00:00Z")
        );
        let answers = ours.post("/internal/ingest").text("application/x-ndjson", lines).send().await.lines(200);
        assert_eq!((&answers[0]["status"], &answers[1]["status"]), (&json!("error"), &json!("created")));
        assert_eq!(answers[0]["error"]["pointer"], "/device");

        let other = app.tenant("other").await.key(&["backup:*", "ingest:write"]).await;
        assert!(other.get(REPORT).send().await.ok(200)["data"].as_array().unwrap().is_empty());
        assert_eq!(other.get(&format!("{CONFIG}?scope={}", ids[0])).send().await.problem(404), "not_found");
        let lines = job("1", &ids[2], "success", "2025-12-31T20:00:00Z").to_string();
        let answers = other.post("/internal/ingest").text("application/x-ndjson", lines).send().await.lines(200);
        assert_eq!(answers[0]["status"], "error");
        assert_eq!(key.get(REPORT).send().await.ok(200)["summary"]["jobs"]["24h"]["succeeded"], 1);
        let viewer = tenant.user("viewer").await;
        viewer.get(REPORT).send().await.ok(200);
        assert_eq!(viewer.put(&format!("{CONFIG}?scope=tenant")).json(json!({})).send().await.problem(403), "admin_required");
    })
    .await;
}
