//! Moving tenants between installations: all data arrives unchanged and triggers nothing.

use std::time::Duration;

use serde_json::{Value, json};
use tenantd::app;

use tenantd_store::catalog;

use crate::{
    evaluations::evaluate,
    harness::{Actor, Endpoint, Receiver, TestApp, with_app},
};

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const SALT: &str = "00112233445566778899aabbccddeeff";
const HEADER_CANARY: &str = "canary-header-5c1f";
const CLIENT_CANARY: &str = "canary-client-9ab2";
const CLOUD_CANARY: &str = "canary-cloud-77de";

pub async fn export(app: &TestApp, tenant: &str, order: Value) -> String {
    let reply = app.local().post(&format!("/internal/admin/tenants/{tenant}/export")).json(order).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.text
}

/// An export of the sample data after its clouds are synced and its runs have ended.
async fn quiet_export(app: &TestApp, tenant: &str) -> String {
    let (mut before, mut same, mut seen) = (String::new(), 0, String::new());
    let asking = async {
        while same < 3 {
            let now = export(app, tenant, json!({})).await;
            let lines = parsed(&now);
            let (vms, runs) = (of_type(&lines, "vm").len(), of_type(&lines, "workflow_run").len());
            let changed = difference(&records(&before), &records(&now));
            same = if vms == 48 && runs >= 5 && changed.is_none() { same + 1 } else { 0 };
            seen = format!("{vms} VMs, {runs} runs, {changed:?}");
            before = now;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_mins(5), asking).await;
    assert!(in_time.is_ok(), "the tenant does not come to rest: {seen}");
    before
}

/// Imports a file of an installation that the operator trusts.
pub async fn import(app: &TestApp, mut order: Value, file: &str) -> Value {
    let header: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
    order["trusted_keys"] = header["signer"].as_str().into_iter().collect();
    order["allow_evaluation"] = json!(true);
    import_as(app, &order, file).await
}

/// Imports a file with exactly these options.
pub async fn import_as(app: &TestApp, order: &Value, file: &str) -> Value {
    let reply = app.local().post("/internal/admin/import").text("application/x-ndjson", format!("{order}\n{file}")).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body
}

/// The lines after the first one, which has the time of the export, without the signatures.
pub fn records(file: &str) -> Vec<&str> {
    file.lines().skip(1).filter(|line| !line.starts_with("{\"type\":\"signature\"")).collect()
}

fn parsed(file: &str) -> Vec<Value> {
    file.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).map(|line| &line["record"]).collect()
}

/// The records without the fields that chain the lines, and without secrets.
fn bare(file: &str) -> Vec<Value> {
    let mut lines = parsed(file);
    lines.retain(|line| line["type"] != "end" && line["type"] != "signature" && line["format"].is_null());
    for line in &mut lines {
        let line = line.as_object_mut().unwrap();
        line.remove("check");
        for pointer in ["/secret", "/headers", "/client_secret", "/credential/sealed"] {
            if let Some(secret) = line["record"].pointer_mut(pointer) {
                *secret = json!("…");
            }
        }
    }
    lines
}

pub fn difference(left: &[&str], right: &[&str]) -> Option<String> {
    let first = left.iter().zip(right).find(|(left, right)| left != right).map(|(left, right)| format!("{left}\n{right}"));
    first.or_else(|| (left.len() != right.len()).then(|| format!("{} lines and {}", left.len(), right.len())))
}

#[tokio::test]
async fn a_complete_tenant_survives_a_round_trip() {
    with_app(async |old| {
        let sample = json!({"seed": 7, "organizations": 8, "devices": 40, "tickets": 40, "runs": true});
        let (reported, _) = evaluate(old, json!({"name": "Acme", "slug": "acme", "sample": sample})).await;
        let (tenant, plaintext) = (reported["tenant"]["id"].as_str().unwrap(), reported["api_key"].as_str().unwrap());
        let sign_in = json!({"email": reported["email"], "password": reported["password"]});
        let file = quiet_export(old, tenant).await;
        let lines = parsed(&file);
        for kind in [
            "event",
            "organization",
            "user",
            "device",
            "credential",
            "api_key",
            "ticket",
            "ticket_comment",
            "ticket_time_entry",
            "ticket_history",
            "workflow",
            "workflow_version",
            "cloud_provider",
            "vm",
            "backup_posture",
            "backup_job",
            "analytics_day",
            "audit_record",
            "audit_head",
            "tenant",
        ] {
            assert!(lines.iter().any(|line| line["type"] == kind), "there is no {kind}");
        }
        assert!(of_type(&lines, "device")[0]["details"].is_object(), "a device can be read");
        with_app(async |new| {
            // Its events are not the first in this log, but keep their numbers.
            new.tenant("somebody-else").await;
            let checked = import(new, json!({"mode": "check"}), &file).await;
            assert_eq!((&checked["done"], &checked["conflicts"]), (&json!(true), &json!([])), "{checked}");
            assert_eq!(new.local().get(&format!("/api/platform/tenants/{tenant}")).send().await.status, 404);
            let done = import(new, json!({"mode": "import"}), &file).await;
            assert_eq!(done["done"], true, "{done}");
            let again = export(new, tenant, json!({})).await;
            assert_eq!(difference(&records(&file), &records(&again)), None);
            assert_eq!((&done["verified"], &done["switched_off"]), (&json!(true), &json!([])), "{done}");
            as_before(old, new, plaintext).await;
            assert_eq!(new.anonymous().post("/api/auth/login").json(sign_in).send().await.status, 200);
            let second = import(new, json!({"mode": "check"}), &file).await;
            assert!(second["error"].as_str().unwrap().ends_with("already exists in this installation"), "{second}");
            works_on(new, plaintext).await;
        })
        .await;
    })
    .await;
}

/// A response without runs that had not ended and were left behind.
fn without_open_runs(mut answer: Value) -> Value {
    for event in answer["data"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        event.remove("last_run");
    }
    answer
}

/// A key of the old installation gets the same responses from the new one.
async fn as_before(old: &TestApp, new: &TestApp, key: &str) {
    for path in [
        "/api/psa/tickets?limit=200&sort=created_at",
        "/api/psa/tickets/1",
        "/api/psa/tickets/1/comments",
        "/api/psa/tickets/1/history",
        "/api/psa/tickets/1/time-entries",
        "/api/psa/workflows/trigger?limit=200",
        "/api/psa/workflows/trigger?view=runs&status=succeeded&limit=200",
        "/api/cloud/providers?limit=200",
        "/api/cloud/vms?limit=200",
        "/api/backup/customer-aggregate?limit=200",
        "/api/admin/users?limit=200",
    ] {
        let [before, after] = [old, new].map(|app| app.anonymous().bearer(key).get(path));
        let (before, after) = (before.send().await.ok(200).clone(), after.send().await.ok(200).clone());
        assert_eq!(without_open_runs(before), without_open_runs(after), "{path}");
    }
    let events = async |app: &TestApp| {
        let page = app.anonymous().bearer(key).get("/api/events?limit=200").send().await;
        page.ok(200)["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| (event["id"].clone(), event["data"].clone(), event["seq"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let (before, after) = (events(old).await, events(new).await);
    assert_eq!(before, after);
    assert!(after.iter().zip(1..).all(|((.., seq), number)| *seq == number), "{after:?}");
}

/// The tenant works: new tickets get the next number, new events follow, and the audit grows and is valid.
async fn works_on(app: &TestApp, key: &str) {
    let actor = app.anonymous().bearer(key);
    let total = actor.get("/api/psa/tickets?limit=1&include_total=true").send().await.ok(200)["page"]["total"].as_u64().unwrap();
    let organization = actor.get("/api/psa/tickets/1").send().await.ok(200)["organization"]["id"].clone();
    let body = json!({"subject": "After the move", "organization_id": organization});
    let made = actor.post("/api/psa/tickets").json(body).send().await;
    assert_eq!(made.ok(201)["number"], total + 1);
    let found = actor.get("/api/search?q=%22After%20the%20move%22").send().await;
    assert_eq!(found.status, 200, "{}", found.text);
    actor.post("/api/admin/api-keys").json(json!({"name": "After", "scopes": ["*"], "expires_days": 3})).send().await.ok(201);
    let trail = actor.get("/api/admin/audit?limit=200").send().await;
    assert!(trail.ok(200)["data"].as_array().unwrap().iter().any(|entry| entry["action"] == "api_key.created"), "{}", trail.text);
    let verified = app.local().post("/internal/admin/audit/verify").json(json!({})).send().await;
    assert_eq!(verified.ok(200)["sound"], true, "{}", verified.text);
}

/// A tenant with a secret of each kind.
async fn with_secrets(app: &TestApp, url: &str) -> (String, Actor, Endpoint, String) {
    let tenant = app.evaluation_tenant("acme").await;
    let (key, shown) = tenant.new_key("automation", &["*"]).await;
    let endpoint = Endpoint::of(key.clone(), url, json!({"headers": {"x-token": HEADER_CANARY}})).await;
    let provider = json!({"name": "Acme", "issuer": "https://id.acme.example", "client_id": "tenantd", "client_secret": CLIENT_CANARY, "domains": ["acme.example"]});
    let admin = tenant.admin().await;
    let made = admin.post("/api/admin/identity-providers").json(provider).send().await;
    assert_eq!(made.status, 201, "{}", made.text);
    let cloud = json!({"name": "East", "kind": "hetzner", "enabled": false, "credential": {"api_token": CLOUD_CANARY}});
    let made = key.post("/api/cloud/providers").json(cloud).send().await;
    assert_eq!(made.status, 201, "{}", made.text);
    (tenant.id.clone(), key, endpoint, shown["key"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn secrets_need_a_passphrase_and_nothing_is_redelivered() {
    with_app(async |old| {
        let receiver = Receiver::always(200).await;
        let (tenant, key, endpoint, plaintext) = with_secrets(old, &receiver.url()).await;
        key.post("/api/admin/api-keys").json(json!({"name": "k", "scopes": ["*"], "expires_days": 3})).send().await.ok(201);
        let sent = receiver.next().await;
        assert_eq!(sent.header("x-token"), HEADER_CANARY);
        endpoint.until_all(1, "delivered").await;
        let (left_out, sealed) =
            (export(old, &tenant, json!({})).await, export(old, &tenant, json!({"key": KEY, "salt": SALT})).await);
        for file in [&left_out, &sealed] {
            for secret in [HEADER_CANARY, CLIENT_CANARY, CLOUD_CANARY, plaintext.as_str()] {
                assert!(!file.contains(secret), "{secret} is in an export");
            }
            let webhook = of_type(&parsed(file), "webhook")[0].to_string();
            assert_eq!(webhook.matches("whsec_").count(), 1, "there is more than the hint: {webhook}");
        }
        with_app(async |new| {
            let needed = import(new, json!({"mode": "import"}), &sealed).await;
            assert!(needed["error"].as_str().unwrap().contains("--passphrase-file"), "{needed}");
            let wrong = import(new, json!({"mode": "check", "key": KEY.replace("00", "11")}), &sealed).await;
            assert!(wrong["error"].as_str().unwrap().contains("another passphrase"), "{wrong}");
            let done = import(new, json!({"mode": "import", "key": KEY, "slug": "acme-2"}), &sealed).await;
            assert_eq!((&done["done"], &done["notes"]), (&json!(true), &json!([])), "{done}");
            let mut arrived = bare(&export(new, &tenant, json!({"key": KEY, "salt": SALT})).await);
            arrived.last_mut().unwrap()["record"]["slug"] = json!("acme");
            assert_eq!(bare(&sealed), arrived);
            let moved = Endpoint { admin: new.anonymous().bearer(&plaintext), path: endpoint.path.clone() };
            assert_eq!(moved.read().await["status"], "active");
            assert!(receiver.is_quiet().await, "nothing is sent because of an import");
            assert_eq!(moved.deliveries().await, Vec::<Value>::new());
            moved.ask("test").await;
            assert_eq!(receiver.next().await.header("x-token"), HEADER_CANARY);
        })
        .await;
        with_app(async |new| {
            let done = import(new, json!({"mode": "import"}), &left_out).await;
            assert_eq!(done["notes"].as_array().unwrap().len(), 3, "{done}");
            let moved = Endpoint { admin: new.anonymous().bearer(&plaintext), path: endpoint.path.clone() };
            let shown = moved.read().await;
            assert_eq!(shown["status"], "paused", "{shown}");
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn all_conflicts_are_reported_and_nothing_is_written() {
    with_app(async |old| {
        let tenant = old.tenant("acme").await;
        tenant.admin().await;
        let file = export(old, &tenant.id, json!({})).await;
        with_app(async |new| {
            let other = new.tenant("acme").await;
            other.admin().await;
            let checked = import(new, json!({"mode": "check"}), &file).await;
            let reported: Vec<&str> =
                checked["conflicts"].as_array().unwrap().iter().map(|conflict| conflict["message"].as_str().unwrap()).collect();
            assert_eq!(checked["done"], false);
            assert_eq!(reported, ["the slug of this tenant is taken by another record"]);
            let refused = import(new, json!({"mode": "import"}), &file).await;
            assert!(refused["error"].as_str().unwrap().contains("the slug of this tenant"), "{refused}");
            let gone = new.local().get(&format!("/api/platform/tenants/{}", tenant.id)).send().await;
            assert_eq!(gone.status, 404);
            let done = import(new, json!({"mode": "import", "slug": "acme-2"}), &file).await;
            assert_eq!(done["done"], true, "both may have the same people: {done}");
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn damaged_files_are_refused_and_leave_nothing() {
    with_app(async |old| {
        let tenant = old.tenant("acme").await;
        let (_, shown) = tenant.new_key("automation", &["*"]).await;
        let file = export(old, &tenant.id, json!({})).await;
        with_app(async |new| {
            let lines: Vec<&str> = file.lines().collect();
            let cut = format!("{}\n", lines[..lines.len() - 2].join("\n"));
            let changed = file.replace("\"name\":\"automation\"", "\"name\":\"automaton\"");
            let place = lines.iter().position(|line| line.contains("\"name\":\"automation\"")).unwrap() + 1;
            for mode in ["check", "import"] {
                let reported =
                    async |file: &str| import(new, json!({"mode": mode}), file).await["error"].as_str().unwrap().to_owned();
                assert_eq!(reported(&cut).await, format!("the file is cut off after line {}", lines.len() - 2));
                assert!(reported(&changed).await.starts_with(&format!("line {place}: ")), "{}", reported(&changed).await);
                assert!(reported("{\"kind\":\"device\"}\n").await.starts_with("this is not an export of a tenant"));
            }
            let denied = new.anonymous().bearer(shown["key"].as_str().unwrap()).get("/api/auth/session").send().await;
            assert_eq!(denied.status, 401, "{}", denied.text);
            let done = import(new, json!({"mode": "import"}), &file).await;
            assert_eq!(done["done"], true, "what failed is not in the way: {done}");
            let again = export(new, &tenant.id, json!({})).await;
            assert_eq!(difference(&records(&file), &records(&again)), None);
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn every_table_is_exported_or_excluded_for_a_reason() {
    with_app(async |app| {
        let leaving: Vec<_> = app.running().app.slices.transfer.portables().iter().flat_map(|portable| portable.tables()).collect();
        let staying: Vec<_> = app::TABLES_NOT_EXPORTED.iter().map(|(table, _)| *table).collect();
        for table in catalog::ALL {
            let times = leaving.iter().chain(&staying).filter(|listed| *listed == table).count();
            assert_eq!(times, 1, "{} is listed {times} times", table.name());
        }
        let reply = app.local().get("/api/platform/tenants?slug=platform").send().await;
        let platform = reply.ok(200)["data"][0]["id"].as_str().unwrap().to_owned();
        let refused = app.local().post(&format!("/internal/admin/tenants/{platform}/export")).json(json!({})).send().await;
        assert_eq!(refused.problem(409), "invalid_transition");
        app.advance(Duration::from_secs(1));
    })
    .await;
}
