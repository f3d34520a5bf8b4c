//! Exports: spreadsheets get no formulas, truncated streams are detectable, and the server does not wait for clients that stop
//! reading.

use serde_json::json;
use tokio::{io::AsyncReadExt, net::TcpStream};

use tenantd_base::clock::Timestamp;

use crate::harness::{
    Setup, TestApp,
    stream::{ask, rest, stuck},
    with_app, with_setup,
};

const TICKETS: &str = "/api/psa/tickets";
const EXPORT: &str = "/api/psa/tickets?format=ndjson";

#[tokio::test]
async fn a_table_has_dotted_columns_and_no_formulas() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("=cmd|'/C calc'!A1").await;
        let subjects = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "a, \"b\"\nc"];
        for subject in subjects {
            key.post(TICKETS).json(json!({"subject": subject, "organization_id": organization})).send().await.ok(201);
        }
        let reply = key.get(&format!("{TICKETS}?format=csv")).send().await;
        assert_eq!((reply.status, reply.header("content-type")), (200, "text/csv; charset=utf-8"));
        assert_eq!(reply.header("content-disposition"), "attachment; filename=\"tickets.csv\"");
        let mut reader = csv::Reader::from_reader(reply.text.as_bytes());
        let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let column = |name: &str| header.iter().position(|column| column == name).unwrap();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), subjects.len());
        for (row, subject) in rows.iter().zip(subjects) {
            let cell = &row[column("subject")];
            let guarded = if subject.starts_with('a') { subject.to_owned() } else { format!("'{subject}") };
            assert_eq!(cell, guarded);
            assert_eq!(&row[column("organization.name")], "'=cmd|'/C calc'!A1");
            assert_eq!(&row[column("sla.state")], "on_track");
        }
        assert!(reply.text.contains("\r\n"));
        let accepted = key.get(TICKETS).header("accept", "text/csv").send().await;
        assert_eq!(accepted.text, reply.text);
        assert_eq!(key.get(TICKETS).header("accept", "text/csv, */*").send().await.header("content-type"), "application/json");
    })
    .await;
}

#[tokio::test]
async fn a_stream_has_every_match_and_an_end_line() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        for batch in 0..5 {
            let ticket =
                json!({"subject": "A", "organization_id": organization, "priority": if batch == 0 { "low" } else { "high" }});
            key.post(TICKETS).json(json!({"tickets": vec![ticket; 100]})).send().await.ok(201);
        }
        let reply = key.get(&format!("{TICKETS}?format=ndjson&priority=high")).send().await;
        assert_eq!(reply.header("content-type"), "application/x-ndjson");
        let lines: Vec<serde_json::Value> = reply.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.last(), Some(&json!({"_end": true, "count": 400})));
        let numbers: Vec<u64> = lines[..400].iter().map(|ticket| ticket["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (101..=500).collect::<Vec<u64>>(), "by number unless a sort is given");
        let sorted = key.get(&format!("{TICKETS}?format=ndjson&sort=-number")).send().await;
        assert!(sorted.text.starts_with("{\"id\"") && sorted.text.lines().next().unwrap().contains("\"T-500\""));
    })
    .await;
}

/// A key, after creating more tickets than the buffers between a server and its client hold.
async fn key_with_many_tickets(app: &TestApp) -> String {
    let acme = app.tenant("acme").await;
    let (actor, record) = acme.new_key("export", &["tickets:*"]).await;
    let organization = acme.organization("Acme").await;
    let ticket = json!({"subject": "A", "organization_id": organization, "description": "x".repeat(9_000)});
    for _ in 0..12 {
        // A connection that is kept alive would count.
        let call = actor.post(TICKETS).header("connection", "close").json(json!({"tickets": vec![ticket.clone(); 100]}));
        call.send().await.ok(201);
    }
    record["key"].as_str().unwrap().to_owned()
}

fn assert_broken_off(answer: &str) {
    assert!(!answer.contains("_end"), "the stream says that it is over");
    assert!(!answer.ends_with("0\r\n\r\n"), "the answer looks whole");
}

#[tokio::test]
async fn a_client_that_stops_reading_is_disconnected() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let setup = setup.with("limits.connections_per_address", 1).with("limits.streams", 1).with("limits.stream_idle_seconds", 1);
    with_setup(setup, async |app| {
        let key = key_with_many_tickets(app).await;
        let held = stuck(app, &key, EXPORT).await;
        let mut refused = 0;
        let answer = loop {
            let mut connection = ask(app, &key, &format!("{TICKETS}?limit=1")).await;
            let mut status = [0; 15];
            match connection.read_exact(&mut status).await {
                Ok(_) => break status,
                Err(_) => refused += 1,
            }
        };
        assert_eq!(answer, *b"HTTP/1.1 200 OK");
        assert!(refused > 0, "an export under way keeps its place");
        assert_broken_off(&rest(held).await);
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_waits_for_an_active_export() {
    // On a busy machine the client is slow too.
    let patient = Setup::default().with("limits.shutdown_seconds", 300).with("limits.stream_idle_seconds", 300);
    let setup = patient.with("rate_limits.enabled", false);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, Timestamp::from_millis(1_767_225_600_000)).await;
    let key = key_with_many_tickets(&app).await;
    let (address, connection) = (app.running().addresses.api, stuck(&app, &key, EXPORT).await);
    let (_stopped, answer) = tokio::join!(app.stop(), async {
        // The shutdown has started once the server accepts no connection.
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        rest(connection).await
    });
    assert!(answer.ends_with("0\r\n\r\n"), "the answer is not whole");
    assert!(answer.contains("\"_end\":true") && answer.contains("\"count\":1200"));
}

#[tokio::test]
async fn a_shutdown_ends_an_idle_export() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("limits.shutdown_seconds", 10);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, Timestamp::from_millis(1_767_225_600_000)).await;
    let key = key_with_many_tickets(&app).await;
    let held = stuck(&app, &key, EXPORT).await;
    let (directory, now) = app.stop().await;
    assert_broken_off(&rest(held).await);
    let again = TestApp::start(directory, &setup, now).await;
    drop(again.stop().await);
}
