//! Lists of the directory: filters, sorts, pages, totals, and streams.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    directory_records::{CONTACTS, DEVICES, ORGANIZATIONS, SCOPES, made},
    harness::{Actor, with_app},
    inventory::{CASES, fleet},
};

fn names(list: &Value) -> Vec<String> {
    list["data"].as_array().unwrap().iter().map(|record| record["name"].as_str().unwrap().to_owned()).collect()
}

async fn listed(actor: &Actor, target: &str) -> Vec<String> {
    names(actor.get(target).send().await.ok(200))
}

/// The ids of all pages.
async fn walk(actor: &Actor, target: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = actor.get(&format!("{target}&limit=2{cursor}")).send().await.ok(200).clone();
        ids.extend(page["data"].as_array().unwrap().iter().map(|record| record["id"].as_str().unwrap().to_owned()));
        match page["page"]["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

#[tokio::test]
async fn equal_sort_values_page_without_gaps() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(SCOPES).await;
        let organization = made(&key, ORGANIZATIONS, json!({"name": "same"})).await;
        for _ in 0..4 {
            made(&key, ORGANIZATIONS, json!({"name": "Same"})).await;
        }
        for _ in 0..5 {
            made(&key, CONTACTS, json!({"name": "Same"})).await;
            made(&key, DEVICES, json!({"name": "Same", "organization_id": organization})).await;
        }
        for path in [ORGANIZATIONS, CONTACTS, DEVICES] {
            for sort in ["name", "created_at", "updated_at"] {
                let forward = walk(&key, &format!("{path}?sort={sort}")).await;
                let mut backward = walk(&key, &format!("{path}?sort=-{sort}")).await;
                backward.reverse();
                assert_eq!((forward.len(), &forward), (5, &backward), "{path} by {sort}");
                let stream = key.get(&format!("{path}?sort={sort}&format=ndjson")).send().await.lines(200);
                let streamed: Vec<&str> = stream.iter().filter_map(|line| line["id"].as_str()).collect();
                assert_eq!(streamed, forward, "{path} by {sort}");
            }
            let page = key.get(&format!("{path}?sort=name&limit=2&include_total=true")).send().await;
            assert_eq!(page.ok(200)["page"]["total"], 5);
            assert!(page.header("link").contains("rel=\"next\""));
            let cursor = page.body["page"]["next_cursor"].as_str().unwrap();
            let other = key.get(&format!("{path}?sort=-name&cursor={cursor}")).send().await;
            assert_eq!(other.problem(400), "cursor_mismatch");
        }
    })
    .await;
}

#[tokio::test]
async fn organizations_and_contacts_are_found_by_every_filter() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(SCOPES).await;
        let first = made(&key, ORGANIZATIONS, json!({"name": "Café Zürich", "external_id": "crm-1"})).await;
        made(&key, CONTACTS, json!({"name": "Ada", "email": "ada@x.example", "organization_id": first})).await;
        app.advance(Duration::from_hours(1));
        made(&key, ORGANIZATIONS, json!({"name": "Globex"})).await;
        let bo = made(&key, CONTACTS, json!({"name": "Bo", "external_id": "crm-2"})).await;
        key.patch(&format!("{CONTACTS}/{bo}")).json(json!({"status": "disabled"})).send().await.ok(200);
        let later = "2026-01-01T00:30:00Z";
        for (query, found) in [
            ("name=cafe%20zurich".to_owned(), vec!["Café Zürich"]),
            ("q=GLOB".to_owned(), vec!["Globex"]),
            ("q=crm".to_owned(), vec!["Café Zürich"]),
            ("external_id=crm-1,crm-9".to_owned(), vec!["Café Zürich"]),
            (format!("created_after={later}"), vec!["Globex"]),
            (format!("updated_before={later}"), vec!["Café Zürich"]),
            ("sort=-name".to_owned(), vec!["Globex", "Café Zürich"]),
        ] {
            assert_eq!(listed(&key, &format!("{ORGANIZATIONS}?{query}")).await, found, "{query}");
        }
        for (query, found) in [
            (format!("organization_id={first}"), vec!["Ada"]),
            ("email=ADA@x.example".to_owned(), vec!["Ada"]),
            ("status=disabled".to_owned(), vec!["Bo"]),
            ("external_id=crm-2".to_owned(), vec!["Bo"]),
            ("q=x.example".to_owned(), vec!["Ada"]),
            (format!("created_before={later}"), vec!["Ada"]),
            (format!("updated_after={later}"), vec!["Bo"]),
            ("sort=-created_at".to_owned(), vec!["Bo", "Ada"]),
        ] {
            assert_eq!(listed(&key, &format!("{CONTACTS}?{query}")).await, found, "{query}");
        }
        assert_eq!(key.get(&format!("{CONTACTS}?q=%20")).send().await.problem(422), "validation_failed");
        assert_eq!(key.get(&format!("{CONTACTS}?colour=red")).send().await.problem(400), "unknown_parameter");
    })
    .await;
}

#[tokio::test]
async fn devices_are_found_by_every_filter() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (first, second) = fleet(app, &acme).await;
        let key = acme.key(SCOPES).await;
        let zoe = key.get(&format!("{CONTACTS}?name=zoe%20angstrom")).send().await.ok(200)["data"][0]["id"].clone();
        for (filter, value, found) in CASES {
            let value = value.replace("{acme}", &first).replace("{beta}", &second);
            let pair: String = form_urlencoded::Serializer::new(String::new()).append_pair(filter, &value).finish();
            assert_eq!(listed(&key, &format!("{DEVICES}?{pair}")).await.join(" "), *found, "{filter}={value}");
        }
        for (query, found) in [
            (format!("owner_id={}", zoe.as_str().unwrap()), vec!["desk"]),
            ("sort=-name".to_owned(), vec!["rack", "late", "desk", "bare"]),
            ("sort=last_seen_at".to_owned(), vec!["bare", "rack", "desk", "late"]),
            ("sort=-created_at".to_owned(), vec!["late", "bare", "rack", "desk"]),
        ] {
            assert_eq!(listed(&key, &format!("{DEVICES}?{query}")).await, found, "{query}");
        }
        let bad = key.get(&format!("{DEVICES}?ip=x&mac=y")).send().await;
        assert_eq!(bad.field_errors().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn exports_match_the_list() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        fleet(app, &acme).await;
        let key = acme.key(SCOPES).await;
        for (path, name) in [(ORGANIZATIONS, "organizations"), (CONTACTS, "contacts"), (DEVICES, "devices")] {
            let data = key.get(path).send().await.ok(200)["data"].as_array().unwrap().clone();
            let mut lines = key.get(path).header("accept", "application/x-ndjson").send().await.lines(200);
            assert_eq!(lines.pop().unwrap(), json!({"_end": true, "count": data.len()}));
            assert_eq!(lines, data);
            let table = key.get(&format!("{path}?format=csv")).send().await;
            assert_eq!(table.header("content-disposition"), format!("attachment; filename=\"{name}.csv\""));
            let mut reader = csv::Reader::from_reader(table.text.as_bytes());
            let columns: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
            let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            assert_eq!(rows.len(), data.len());
            let column = columns.iter().position(|column| column == "name").unwrap();
            for (row, record) in rows.iter().zip(&data) {
                assert_eq!(&row[column], record["name"].as_str().unwrap());
            }
            for member in data.iter().flat_map(|record| record.as_object().unwrap().keys()) {
                let is_shown = columns.iter().any(|column| column == member || column.starts_with(&format!("{member}.")));
                assert!(is_shown, "{member} is in no column of {name}");
            }
            let paged = key.get(&format!("{path}?format=csv&limit=2")).send().await;
            assert_eq!(paged.field_errors(), [("limit".to_owned(), "not_allowed".to_owned())]);
        }
        let lines = key.get(&format!("{ORGANIZATIONS}?name=none&format=ndjson")).send().await.lines(200);
        assert_eq!(lines, [json!({"_end": true, "count": 0})]);
    })
    .await;
}
