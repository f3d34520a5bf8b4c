//! Reports as streams: a table equals the JSON and has no formula, an end line shows that no line is missing, all rows are read
//! from one snapshot, and an aborted stream frees its slot.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{
        Setup, TestApp,
        stream::{rest, stuck},
        with_app, with_setup,
    },
    inventory::{REPORT, fleet, ingest},
};

const ALL: &str = "sections=summary,hardware,os,network,security,patch,software,warranty,backup";

/// The expected cell for the member of a row at a path, computed independently of the server.
fn expected(row: &Value, path: &str) -> String {
    let mut found = vec![Some(row)];
    for name in path.split('.') {
        found = found
            .into_iter()
            .flat_map(|value| match value {
                Some(Value::Array(items)) => items.iter().map(|item| item.get(name)).collect(),
                Some(value) => vec![value.get(name)],
                None => vec![None],
            })
            .collect();
    }
    let texts: Vec<String> = found
        .into_iter()
        .flat_map(|value| match value {
            Some(Value::Array(items)) => items.iter().map(|item| Some(item.clone())).collect(),
            other => vec![other.cloned()],
        })
        .map(|value| match value {
            None => String::new(),
            Some(Value::String(text)) => text,
            Some(Value::Object(members)) if members.is_empty() => String::new(),
            Some(other) => other.to_string(),
        })
        .collect();
    if texts.iter().all(String::is_empty) { String::new() } else { texts.join("; ") }
}

/// The paths to all values except objects and lists.
fn leaves(value: &Value, path: &str, found: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(members) if path != "custom_fields" => {
            for (name, member) in members {
                leaves(member, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, path, found)),
        _ => drop(found.insert(path.to_owned())),
    }
}

#[tokio::test]
async fn the_table_matches_the_json() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        fleet(app, &tenant).await;
        let key = tenant.key(&["inventory:read"]).await;
        for query in [ALL.to_owned(), "sections=os".to_owned(), format!("{ALL}&rows=software"), "rows=software".to_owned()] {
            let json = key.get(&format!("{REPORT}?{query}")).send().await.ok(200)["data"].as_array().unwrap().clone();
            let reply = key.get(&format!("{REPORT}?{query}&format=csv")).send().await;
            assert_eq!((reply.status, reply.header("content-type")), (200, "text/csv; charset=utf-8"));
            assert_eq!(reply.header("content-disposition"), "attachment; filename=\"asset-inventory.csv\"");
            let mut reader = csv::Reader::from_reader(reply.text.as_bytes());
            let columns: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
            let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            assert_eq!(rows.len(), json.len(), "{query}");
            for (row, record) in rows.iter().zip(&json) {
                for (cell, column) in row.iter().zip(&columns) {
                    assert_eq!(cell, expected(record, column), "{column} of {query}");
                }
                let mut paths = std::collections::BTreeSet::new();
                leaves(record, "", &mut paths);
                let left_out: Vec<&String> = paths.iter().filter(|path| !columns.contains(path)).collect();
                assert!(left_out.is_empty(), "{left_out:?} have no column in {query}");
            }
            let lines = key.get(&format!("{REPORT}?{query}")).header("accept", "application/x-ndjson").send().await.lines(200);
            assert_eq!(lines[..json.len()], json[..], "{query}");
            assert_eq!(lines[json.len()..], [json!({"_end": true, "count": json.len()})]);
        }
        let grouped = key.get(&format!("{REPORT}?group_by=class")).header("accept", "text/csv").send().await;
        assert_eq!(grouped.text, "value,name,count\r\nmobile,,1\r\nprinter,,1\r\nserver,,1\r\nworkstation,,1\r\n");
        let json = key.get(REPORT).header("accept", "text/csv, */*").send().await;
        assert_eq!(json.header("content-type"), "application/json");
    })
    .await;
}

#[tokio::test]
async fn no_cell_is_a_formula() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["inventory:read", "ingest:write"]).await;
        let names = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "a, \"b\"\nc", "=cmd|'/C calc'!A1"];
        let mut lines = vec![json!({"kind": "organization", "external_id": "acme", "name": "=HYPERLINK(\"x\")"})];
        lines.extend(names.iter().enumerate().map(|(number, name)| {
            json!({"kind": "device", "external_id": number.to_string(), "name": name, "organization_external_id": "acme", "tags": [name]})
        }));
        ingest(&key, &lines).await;
        let reply = key.get(&format!("{REPORT}?format=csv")).send().await;
        let mut reader = csv::Reader::from_reader(reply.text.as_bytes());
        let columns: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let column = |name: &str| columns.iter().position(|column| column == name).unwrap();
        let mut rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        rows.sort_by_key(|row| row[column("external_id")].to_owned());
        assert_eq!(rows.len(), names.len());
        for (row, name) in rows.iter().zip(names) {
            let guarded = if name.starts_with('a') { name.to_owned() } else { format!("'{name}") };
            assert_eq!((&row[column("name")], &row[column("tags")]), (guarded.as_str(), guarded.as_str()));
            assert_eq!(&row[column("organization.name")], "'=HYPERLINK(\"x\")");
        }
    })
    .await;
}

/// A key, after sending more devices than the buffers between a server and its client hold.
async fn key_with_many_devices(app: &TestApp) -> (crate::harness::Actor, String) {
    let acme = app.tenant("acme").await;
    let (actor, record) = acme.new_key("export", &["inventory:read", "ingest:write"]).await;
    // A connection that is kept alive would count.
    let actor = actor.with("connection", "close");
    ingest(&actor, &[json!({"kind": "organization", "external_id": "acme", "name": "Acme"})]).await;
    let devices: Vec<Value> = (0..3_000).map(|number| device(number, "before")).collect();
    ingest(&actor, &devices).await;
    (actor, record["key"].as_str().unwrap().to_owned())
}

fn device(number: u32, site: &str) -> Value {
    json!({
        "kind": "device", "external_id": format!("d{number:05}"), "name": format!("d{number:05}"), "site": site,
        "organization_external_id": "acme", "custom_fields": {"a": "x".repeat(1_000), "b": "x".repeat(1_000), "c": "x".repeat(1_000)},
    })
}

#[tokio::test]
async fn a_stream_reads_one_snapshot() {
    with_app(async |app| {
        let (actor, key) = key_with_many_devices(app).await;
        let connection = stuck(app, &key, &format!("{REPORT}?format=ndjson")).await;
        app.advance(Duration::from_secs(1));
        let changes: Vec<Value> = (0..3_100)
            .map(|number| match number {
                1_000..2_000 => json!({"kind": "device", "external_id": format!("d{number:05}"), "deleted": true}),
                _ => device(number, "after"),
            })
            .collect();
        ingest(&actor, &changes).await;
        let answer = rest(connection).await;
        assert!(answer.contains("{\"_end\":true,\"count\":3000}"), "what was removed meanwhile is there, and what came is not");
        assert_eq!(answer.matches("\"site\":\"before\"").count(), 3_000);
        assert!(!answer.contains("\"site\":\"after\""));
        let now = actor.get(&format!("{REPORT}?include_total=true&limit=1&site=after")).send().await;
        assert_eq!(now.ok(200)["page"]["total"], 2_100);
    })
    .await;
}

#[tokio::test]
async fn abandoned_streams_are_ended() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("limits.streams", 1).with("limits.stream_idle_seconds", 1);
    with_setup(setup, async |app| {
        let (actor, key) = key_with_many_devices(app).await;
        let again = async || {
            let mut refused = 0;
            loop {
                let reply = actor.get(&format!("{REPORT}?format=ndjson&q=d00001")).send().await;
                if reply.status == 200 {
                    assert_eq!(reply.lines(200).len(), 2);
                    return refused;
                }
                assert_eq!(reply.problem(503), "unavailable");
                refused += 1;
            }
        };
        let gone = stuck(app, &key, &format!("{REPORT}?format=ndjson")).await;
        drop(gone);
        again().await;
        let held = stuck(app, &key, &format!("{REPORT}?format=ndjson")).await;
        assert!(again().await > 0, "an export under way keeps its place");
        let answer = rest(held).await;
        assert!(!answer.contains("_end") && !answer.ends_with("0\r\n\r\n"), "the answer looks whole");
    })
    .await;
}
