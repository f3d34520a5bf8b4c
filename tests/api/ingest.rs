//! Imports: lines and results in one stream, upserts by external id, and invalid lines among valid ones.

use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{Actor, Setup, with_app, with_setup};

const INGEST: &str = "/internal/ingest";
const LINES: &str = "application/x-ndjson";

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

async fn send(actor: &Actor, values: &[Value]) -> Vec<Value> {
    let reply = actor.post(INGEST).text(LINES, lines(values)).send().await;
    assert_eq!(reply.header("content-type"), LINES);
    reply.lines(200)
}

fn acme() -> Value {
    json!({"kind": "organization", "external_id": "acme", "name": "Acme"})
}

fn device(number: u64) -> Value {
    json!({
        "kind": "device", "external_id": format!("d{number}"), "name": format!("PC {number}"), "class": "workstation",
        "organization_external_id": "acme", "tags": ["vip"], "custom_fields": {"rack": "B7"},
        "agent": {"version": "5.1", "last_seen_at": "2026-01-01T00:00:00.000Z"},
        "os": {"family": "windows", "name": "Windows 11"}, "software": [{"name": "Editor", "version": "1.2"}],
        "hardware": {"serial": format!("S{number}"), "memory_bytes": 17_179_869_184_u64, "disks": [{"bytes": 5, "kind": "ssd"}]},
    })
}

fn statuses(answers: &[Value]) -> Vec<&str> {
    answers.iter().filter_map(|answer| answer["status"].as_str()).collect()
}

async fn events(actor: &Actor, types: &str) -> Vec<Value> {
    let feed = actor.get(&format!("/api/events?limit=200&types={types}")).send().await.ok(200).clone();
    feed["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn records_are_created_changed_unchanged_and_removed() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let bo = json!({"kind": "user", "external_id": "u1", "name": "Bo", "email": "bo@acme.example", "organization_external_id": "acme"});
        let first = send(&key, &[acme(), bo.clone(), device(1)]).await;
        assert_eq!(statuses(&first), ["created", "created", "created"]);
        assert!(first[2]["id"].as_str().unwrap().starts_with("dev_") && first[2]["line"] == 3);
        assert_eq!(first[3], json!({"_end": true, "created": 3, "updated": 0, "unchanged": 0, "removed": 0, "failed": 0}));
        let owned = json!({"kind": "device", "external_id": "d1", "owner_external_id": "u1", "site": "Basel"});
        let second = send(&key, &[acme(), bo, device(1), owned.clone(), owned]).await;
        assert_eq!(statuses(&second), ["unchanged", "unchanged", "unchanged", "updated", "unchanged"]);
        let reported = events(&key, "device.*").await;
        assert_eq!(reported.len(), 2, "what is unchanged has no event");
        let shown = &reported[1]["data"]["device"];
        assert_eq!((&shown["owner"]["name"], &shown["organization"]["name"]), (&json!("Bo"), &json!("Acme")));
        assert_eq!((&shown["os"]["family"], &shown["hardware"]["serial"]), (&json!("windows"), &json!("S1")), "what is absent stays");
        assert_eq!((&shown["agent"]["status"], &shown["version"]), (&json!("online"), &json!(2)));
        let gone = |kind: &str, id: &str| json!({"kind": kind, "external_id": id, "deleted": true});
        let in_use = send(&key, &[gone("organization", "acme")]).await;
        assert_eq!(in_use[0]["error"]["code"], "in_use");
        let removed = send(&key, &[gone("device", "d1"), gone("user", "u1"), gone("organization", "acme"), gone("device", "d1")]).await;
        assert_eq!(statuses(&removed), ["removed", "removed", "removed", "unchanged"]);
        let kinds: Vec<String> = events(&key, "device.removed,user.removed,organization.removed").await.iter().map(|event| event["type"].to_string()).collect();
        assert_eq!(kinds.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_bad_line_is_reported_and_the_others_are_imported() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let long = format!("{{\"kind\":\"device\",\"external_id\":\"{}\"}}", "x".repeat(300 << 10));
        let body = [
            acme().to_string(),
            "{\"kind\":".to_owned(),
            json!({"kind": "device", "external_id": "d1", "os": {"family": "dos"}}).to_string(),
            String::new(),
            long,
            json!({"kind": "backup", "external_id": "b1"}).to_string(),
            json!({"kind": "device", "external_id": "d2", "name": "X", "organization_external_id": "nobody"}).to_string(),
            json!({"kind": "device", "external_id": "d2", "name": "X"}).to_string(),
            device(1).to_string(),
        ];
        let reply = key.post(INGEST).text(LINES, body.join("\n")).send().await;
        let answers = reply.lines(200);
        let reported: Vec<(u64, &str, &str)> = answers
            .iter()
            .filter(|answer| answer["status"] == "error")
            .map(|answer| {
                let error = &answer["error"];
                (answer["line"].as_u64().unwrap(), error["code"].as_str().unwrap(), error["pointer"].as_str().unwrap_or("-"))
            })
            .collect();
        assert_eq!(
            reported,
            [
                (2, "malformed_json", "-"),
                (3, "validation_failed", "/os/family"),
                (5, "payload_too_large", "-"),
                (6, "validation_failed", "/kind"),
                (7, "validation_failed", "/organization_external_id"),
                (8, "validation_failed", "/organization_external_id"),
            ]
        );
        let end = answers.last().unwrap();
        assert_eq!((&end["created"], &end["failed"], &end["_end"]), (&json!(2), &json!(6), &json!(true)));
        assert_eq!(events(&key, "device.created").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_broken_array_is_imported_up_to_the_error() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["ingest:write"]).await;
        let whole = key.post(INGEST).json(json!([acme(), device(1), device(2)])).send().await.lines(200);
        assert_eq!(statuses(&whole), ["created", "created", "created"]);
        let cut = key.post(INGEST).text("application/json", format!("[{},{}", device(3), device(4))).send().await.lines(200);
        assert_eq!(statuses(&cut), ["created", "created"]);
        assert_eq!(cut[2]["error"]["code"], "malformed_json");
        assert!(cut[2]["error"]["message"].as_str().unwrap().contains("not closed"));
        let unread = format!("[{}] x{}", device(5), " ".repeat(4 << 20));
        let early = key.post(INGEST).text("application/json", unread).send().await.lines(200);
        assert_eq!(early[1]["error"]["code"], "malformed_json", "the answer arrives though most of the body was not wanted");
        assert_eq!(key.post(INGEST).text("text/csv", "a,b").send().await.problem(415), "unsupported_media_type");
        let keyed = key.post(INGEST).text(LINES, "").header("idempotency-key", "1").send().await;
        assert_eq!(keyed.problem(422), "validation_failed");
        assert_eq!(key.post(&format!("{INGEST}?answr=errors")).text(LINES, "").send().await.problem(400), "unknown_parameter");
    })
    .await;
}

#[tokio::test]
async fn a_body_without_a_readable_element_is_refused() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let record = acme().to_string();
        let cut = format!("[{}", record.trim_end_matches('}'));
        let unread = format!("{{}}{}", " ".repeat(1 << 20));
        for body in ["", "{\"kind\":", "nonsense", "[", "[,", record.as_str(), cut.as_str(), unread.as_str()] {
            let refused = key.post(INGEST).text("application/json", body.to_owned()).send().await;
            assert_eq!(refused.problem(400), "malformed_json", "{}", refused.text);
            let detail = refused.body["detail"].as_str().unwrap();
            assert!(detail.contains("Nothing was imported") && detail.contains("application/x-ndjson"), "{detail}");
        }
        let path = format!("/internal/admin/tenants/{}/ingest", tenant.id);
        assert_eq!(app.local().post(&path).json(acme()).send().await.problem(400), "malformed_json");
        assert!(events(&key, "organization.created").await.is_empty());
        assert_eq!(key.post(INGEST).json(json!([])).send().await.lines(200)[0]["created"], 0);
        // Each element and each line has a result of its own.
        let mixed = key.post(INGEST).text("application/json", format!("[{{\"kind\": nothing}}, {record}]")).send().await.lines(200);
        assert_eq!(mixed[0]["error"]["code"], "malformed_json");
        assert_eq!(mixed[1]["status"], "created");
        let line = key.post(INGEST).text(LINES, "nonsense").send().await.lines(200);
        assert_eq!(line[0]["error"]["code"], "malformed_json");
    })
    .await;
}

#[tokio::test]
async fn results_stream_while_the_body_is_sent() {
    for tls in [false, true] {
        let setup = Setup::default().with("rate_limits.enabled", false).with("listen.tls", tls);
        with_setup(setup, async |app| {
            let tenant = app.tenant("acme").await;
            let key = tenant.key(&["*"]).await;
            let (sender, body) = mpsc::channel::<std::io::Result<Bytes>>(1);
            let body = futures_util::stream::unfold(body, async |mut body| Some((body.recv().await?, body)));
            let response = key.post(INGEST).text(LINES, reqwest::Body::wrap_stream(body)).begin();
            let (response, ()) = tokio::join!(response, async {
                sender.send(Ok(lines(&[acme()]).into())).await.unwrap();
            });
            assert_eq!(response.version(), if tls { reqwest::Version::HTTP_2 } else { reqwest::Version::HTTP_11 });
            let mut answer = response.bytes_stream();
            let mut text = String::new();
            for number in 1..=20 {
                let read = answer.next().await.unwrap().unwrap();
                text.push_str(std::str::from_utf8(&read).unwrap());
                assert_eq!(text.lines().count(), number, "the answer to each line comes before the next is sent");
                sender.send(Ok(lines(&[device(number as u64)]).into())).await.unwrap();
            }
            drop(sender);
            while let Some(read) = answer.next().await {
                text.push_str(std::str::from_utf8(&read.unwrap()).unwrap());
            }
            assert!(text.lines().last().unwrap().contains("\"created\":21"), "{text}");
        })
        .await;
    }
}

#[tokio::test]
async fn ten_thousand_and_one_lines_are_answered_in_order() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let small = |number: u64| json!({"kind": "device", "external_id": format!("d{number}"), "name": "PC", "organization_external_id": "acme"});
        let all: Vec<Value> = std::iter::once(acme()).chain((0..10_000).map(small)).collect();
        let answers = send(&key, &all).await;
        assert_eq!(answers.len(), 10_002);
        assert!(answers.iter().take(10_001).enumerate().all(|(place, answer)| answer["line"] == place as u64 + 1));
        assert_eq!(answers[10_001]["created"], 10_001);
        let again = key.post(&format!("{INGEST}?answer=errors")).text(LINES, lines(&all)).send().await.lines(200);
        assert_eq!((again.len(), &again[0]["unchanged"]), (1, &json!(10_001)));
    })
    .await;
}

#[tokio::test]
async fn committed_lines_survive_a_disconnect() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let (sender, body) = mpsc::channel::<std::io::Result<Bytes>>(1);
        let body = futures_util::stream::unfold(body, async |mut body| Some((body.recv().await?, body)));
        let response = key.post(INGEST).text(LINES, reqwest::Body::wrap_stream(body)).begin();
        let (response, ()) = tokio::join!(response, async {
            sender.send(Ok(lines(&[acme(), device(1)]).into())).await.unwrap();
        });
        let mut answer = response.bytes_stream();
        assert!(answer.next().await.unwrap().is_ok());
        drop((answer, sender));
        assert_eq!(statuses(&send(&key, &[acme(), device(1)]).await), ["unchanged", "unchanged"]);
    })
    .await;
}

#[tokio::test]
async fn an_import_makes_no_staff_and_changes_none() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let staff = json!({"email": "ada@acme.example", "name": "Ada", "role": "viewer", "external_id": "u1"});
        admin.post("/api/admin/users").json(staff).send().await.ok(201);
        let key = tenant.key(&["ingest:write"]).await;
        let answers = send(
            &key,
            &[
                json!({"kind": "user", "external_id": "u2", "name": "Eve", "role": "admin"}),
                json!({"kind": "user", "external_id": "u1", "name": "Eve"}),
                json!({"kind": "user", "external_id": "u1", "deleted": true}),
                json!({"kind": "user", "external_id": "u3", "name": "Eve", "email": "ADA@acme.example"}),
            ],
        )
        .await;
        assert_eq!(statuses(&answers), ["error"; 4]);
        let pointers: Vec<&str> = answers.iter().filter_map(|answer| answer["error"]["pointer"].as_str()).collect();
        assert_eq!(pointers, ["/role", "/external_id", "/external_id"]);
        assert_eq!(answers[3]["error"]["code"], "already_exists");
    })
    .await;
}

#[tokio::test]
async fn an_operator_import_is_invisible_to_other_tenants() {
    with_app(async |app| {
        let (tenant, other) = (app.tenant("acme").await, app.tenant("globex").await);
        let path = format!("/internal/admin/tenants/{}/ingest", tenant.id);
        let answers = app.local().post(&path).text(LINES, lines(&[acme(), device(1)])).send().await.lines(200);
        assert_eq!(statuses(&answers), ["created", "created"]);
        let stranger = other.key(&["*"]).await;
        let foreign = json!({"kind": "device", "external_id": "x", "name": "X", "organization_id": answers[0]["id"]});
        let refused = send(&stranger, &[foreign, device(1)]).await;
        assert_eq!(statuses(&refused), ["error", "error"]);
        assert_eq!(refused[0]["error"]["pointer"], "/organization_id");
        assert!(events(&stranger, "device.*").await.is_empty());
        let missing = "/internal/admin/tenants/tnt_01k9z7w3v5e8g9m2n4p6r8t0x1/ingest";
        assert_eq!(app.local().post(missing).text(LINES, "").send().await.problem(404), "not_found");
    })
    .await;
}
