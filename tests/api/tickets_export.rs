//! Exports: a spreadsheet gets texts and no formulas, and a cut-off stream shows.

use serde_json::json;

use crate::harness::with_app;

const TICKETS: &str = "/api/psa/tickets";

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
        assert_eq!((reply.status, reply.header("content-type")), (200, "text/csv"));
        assert_eq!(reply.header("content-disposition"), "attachment; filename=\"tickets.csv\"");
        let mut reader = csv::Reader::from_reader(reply.text.as_bytes());
        let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let column = |name: &str| header.iter().position(|column| column == name).unwrap();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), subjects.len());
        for (row, subject) in rows.iter().zip(subjects) {
            let told = &row[column("subject")];
            let guarded = if subject.starts_with('a') { subject.to_owned() } else { format!("'{subject}") };
            assert_eq!(told, guarded);
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
async fn a_stream_of_lines_holds_all_that_match_and_says_that_it_is_over() {
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
