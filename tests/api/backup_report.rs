//! The report on customers: sorting, filters, pages, score explanations, streams, signed evidence, and workflow steps.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde_json::{Value, json};

use tenantd_base::secrets::{PublicKey, Signature};

use crate::{
    backup::{REPORT, estate, job, organization, set, until},
    harness::{Actor, Tenant, with_app},
    inventory::ingest,
};

/// One healthy customer, one with a server that was never backed up, one without devices.
async fn customers(tenant: &Tenant<'_>) -> (Actor, Vec<String>) {
    let (key, mut made) = estate(tenant).await;
    let targets = json!([
        {"name": "nas", "kind": "nas", "offsite": false, "immutable_days": 0},
        {"name": "vault", "kind": "object", "offsite": true, "immutable_days": 30},
    ]);
    set(&key, "tenant", json!({"targets": targets})).await;
    let mut tested = job("1", "a-srv", "success", "2025-12-31T20:00:00Z");
    (tested["verified"], tested["target"]) = (json!(true), json!("vault"));
    let plain = job("1", "a-ws", "success", "2025-12-31T21:00:00Z");
    let theirs = [job("1", "b-ws", "success", "2025-12-31T21:00:00Z"), job("2", "b-ws", "failed", "2025-12-31T22:00:00Z")];
    let answers = ingest(&key, &[organization("=empty"), tested, plain, theirs[0].clone(), theirs[1].clone()]).await;
    made.push(answers[0]["id"].as_str().unwrap().to_owned());
    until(&key, REPORT, |report| report["summary"]["organizations"] == 3).await;
    (key, made)
}

fn names(report: &Value) -> Vec<String> {
    let name = |row: &Value| row["organization"]["name"].as_str().unwrap().replace("The ", "").replace(" company", "");
    report["data"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn the_worst_devices_come_first_with_reasons() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, made) = customers(&tenant).await;
        let report = key.get(&format!("{REPORT}?explain=true")).send().await.ok(200).clone();
        assert_eq!(names(&report), ["beta", "acme", "=empty"]);
        let [beta, acme, empty] = [0, 1, 2].map(|place| report["data"][place].clone());
        // Both devices have restore points of today, on two targets of which one is offsite and immutable.
        let parts = json!({"coverage": 25, "recency": 30, "success": 15, "verification": 20, "resilience": 10});
        assert_eq!((&acme["score"], &acme["score_parts"], &acme["state"]), (&json!(100), &parts, &json!("healthy")));
        assert_eq!(acme["rule_321"], json!({"copies": 3, "media": 3, "offsite": true, "immutable": true, "compliant": true}));
        // Half of the devices are protected, a server without restore points has a weight of three of four, one of two jobs failed,
        // and no restore was tested.
        let parts = json!({"coverage": 12, "recency": 7, "success": 7, "verification": 0, "resilience": 2});
        assert_eq!((&beta["score"], &beta["score_parts"], &beta["state"]), (&json!(28), &parts, &json!("critical")));
        let caps: Vec<&str> = beta["caps"].as_array().unwrap().iter().map(|cap| cap["code"].as_str().unwrap()).collect();
        assert_eq!(caps, ["restore_test_too_old", "unprotected_server"]);
        assert_eq!((&beta["explanation"]["recency_weight"], &beta["explanation"]["recency_credit"]), (&json!(4), &json!(2)));
        assert_eq!(beta["explanation"]["sum"], 28);
        assert_eq!((&empty["state"], &empty["score"], &empty["explanation"]), (&json!("unknown"), &Value::Null, &Value::Null));
        let codes: Vec<&Value> = beta["issues"].as_array().unwrap().iter().map(|issue| &issue["code"]).collect();
        assert_eq!(codes, [&json!("unprotected"), &json!("failed")]);
        let summary = &report["summary"];
        assert_eq!((&summary["states"]["healthy"], &summary["mean_score"]), (&json!(1), &json!(64)));
        assert_eq!(
            summary["devices"],
            json!({"total": 4, "eligible": 4, "protected": 3, "unprotected": 1, "coverage_percent": 75})
        );
        assert_eq!(beta["last"]["never_backed_up"], 1);
        assert!(key.get(REPORT).send().await.ok(200)["data"][0]["explanation"].is_null());
        for (query, wanted) in [
            ("state=critical,unknown", vec!["beta", "=empty"]),
            ("score_lt=29", vec!["beta"]),
            ("score_lt=28", vec![]),
            ("coverage_lt=51", vec!["beta"]),
            ("coverage_lt=50", vec![]),
            ("rpo=ok", vec!["beta", "acme"]),
            ("rpo=breached", vec![]),
            ("sort=-score", vec!["=empty", "acme", "beta"]),
            ("sort=name", vec!["=empty", "acme", "beta"]),
            ("sort=-coverage", vec!["=empty", "acme", "beta"]),
            ("sort=last_success_at", vec!["=empty", "beta", "acme"]),
        ] {
            let found = names(key.get(&format!("{REPORT}?{query}")).send().await.ok(200));
            let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
            let mut wanted = wanted;
            if query == "sort=last_success_at" {
                // Two entries have the same time and are sorted by id.
                found.sort_unstable();
                wanted.sort_unstable();
            }
            assert_eq!(found, wanted, "{query}");
        }
        let one = key.get(&format!("{REPORT}?organization_id={}&window=7d", made[0])).send().await.ok(200).clone();
        assert_eq!(one["data"][0]["jobs"].as_object().unwrap().keys().collect::<Vec<_>>(), ["7d"]);
        assert_eq!(one["summary"]["organizations"], 1);
        for wrong in ["state=fine", "score_lt=0", "sort=scores", "window=8d", "colour=red"] {
            let refused = key.get(&format!("{REPORT}?{wrong}")).send().await;
            assert!(refused.status == 422 || refused.status == 400, "{wrong}: {}", refused.text);
        }
    })
    .await;
}

#[tokio::test]
async fn pages_continue_without_gaps() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, _) = customers(&tenant).await;
        for sort in ["score", "-score", "name", "-name", "coverage"] {
            let all = names(key.get(&format!("{REPORT}?sort={sort}")).send().await.ok(200));
            let (mut found, mut cursor) = (Vec::new(), String::new());
            loop {
                let page =
                    key.get(&format!("{REPORT}?sort={sort}&limit=1&include_total=true{cursor}")).send().await.ok(200).clone();
                assert_eq!((&page["page"]["total"], &page["summary"]["organizations"]), (&json!(3), &json!(3)));
                found.extend(names(&page));
                match page["page"]["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(found, all, "{sort}");
            let elsewhere = key.get(&format!("{REPORT}?sort=last_success_at{cursor}")).send().await;
            assert_eq!(elsewhere.problem(400), "cursor_mismatch");
        }
    })
    .await;
}

#[tokio::test]
async fn streams_have_every_row_and_no_formula() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, _) = customers(&tenant).await;
        let rows = key.get(REPORT).send().await.ok(200)["data"].as_array().unwrap().clone();
        let lines = key.get(&format!("{REPORT}?format=ndjson")).send().await.lines(200);
        assert_eq!(lines[..3], rows[..]);
        assert_eq!(lines[3], json!({"_end": true, "count": 3}));
        let table = key.get(REPORT).header("accept", "text/csv").send().await;
        assert_eq!((table.status, table.header("content-type")), (200, "text/csv; charset=utf-8"));
        let mut reader = csv::Reader::from_reader(table.text.as_bytes());
        let head = reader.headers().unwrap().clone();
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), 3);
        let cell = |row: usize, name: &str| records[row].get(head.iter().position(|column| column == name).unwrap()).unwrap();
        assert_eq!((cell(0, "score"), cell(0, "jobs.7d.failed"), cell(0, "issues.code")), ("28", "1", "unprotected; failed"));
        assert_eq!(cell(0, "caps.code"), "restore_test_too_old; unprotected_server");
        assert_eq!((cell(2, "state"), cell(2, "score")), ("unknown", ""));
        assert_eq!(cell(2, "organization.name"), "The =empty company");
        for query in
            ["format=csv&limit=5", "format=ndjson&include_total=true", "view=evidence&format=csv", "view=evidence&explain=true"]
        {
            assert_eq!(key.get(&format!("{REPORT}?{query}")).send().await.problem(422), "validation_failed", "{query}");
        }
    })
    .await;
}

#[tokio::test]
async fn evidence_is_signed_by_the_published_key() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, made) = customers(&tenant).await;
        let evidence =
            key.get(&format!("{REPORT}?view=evidence&organization_id={}", made[0])).send().await.ok(200)["evidence"].clone();
        let published = app.anonymous().get("/documentation/keys/").header("accept", "application/json").send().await;
        let keys = published.ok(200)["keys"].as_array().unwrap().clone();
        let web_key = keys.iter().find(|found| found["kid"] == evidence["key_id"]).unwrap();
        assert_eq!(
            (&web_key["kty"], &web_key["crv"], &web_key["purpose"]),
            (&json!("OKP"), &json!("Ed25519"), &json!("backup-evidence"))
        );
        let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).unwrap();
        let public = PublicKey::from_bytes(&decode(web_key["x"].as_str().unwrap())).unwrap();
        let jws = evidence["jws"].as_str().unwrap();
        let (content, signature) = jws.rsplit_once('.').unwrap();
        let signature = Signature::from_bytes(&decode(signature)).unwrap();
        assert_eq!(public.verify(content.as_bytes(), &signature), Ok(()));
        let (header, payload) = content.split_once('.').unwrap();
        let header: Value = serde_json::from_slice(&decode(header)).unwrap();
        assert_eq!((&header["alg"], &header["kid"]), (&json!("EdDSA"), &evidence["key_id"]));
        let payload: Value = serde_json::from_slice(&decode(payload)).unwrap();
        assert_eq!(payload, evidence["statement"]);
        assert_eq!((&payload["tenant_id"], &payload["as_of"]), (&json!(tenant.id), &json!("2026-01-01T00:00:00.000Z")));
        let row = &payload["organizations"][0];
        assert_eq!((&row["organization"]["id"], &row["score"], &row["immutable_days"]), (&json!(made[0]), &json!(100), &json!(30)));
        for place in [0, content.len() / 2, content.len() - 1] {
            let mut changed = content.as_bytes().to_vec();
            changed[place] ^= 1;
            assert!(public.verify(&changed, &signature).is_err(), "byte {place}");
        }
        // A server without a successful job does not meet its objective. A lock counts only if data was written.
        let theirs = key.get(&format!("{REPORT}?view=evidence&organization_id={}", made[1])).send().await.ok(200).clone();
        let row = &theirs["evidence"]["statement"]["organizations"][0];
        let facts = ["devices_within_rpo", "devices_breaching_rpo", "devices_never_backed_up", "immutable_days"];
        assert_eq!(facts.map(|name| row[name].as_u64().unwrap()), [1, 0, 1, 0], "{row}");
        let none = key.get(&format!("{REPORT}?view=evidence&organization_id={}", made[6])).send().await.ok(200).clone();
        let row = &none["evidence"]["statement"]["organizations"][0];
        assert_eq!(facts.map(|name| row[name].as_u64().unwrap()), [0; 4], "{row}");
        assert_eq!((&row["rule_321"]["copies"], &row["rule_321"]["immutable"]), (&json!(1), &json!(false)));
        let page = app.anonymous().get("/documentation/keys/").send().await;
        assert!(page.text.contains(&HEXLOWER.encode(public.as_bytes())), "{}", page.text);
    })
    .await;
}

#[tokio::test]
async fn workflows_set_and_report_backups() {
    const TRIGGER: &str = "/api/psa/workflows/trigger";
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (key, made) = customers(&tenant).await;
        let admin = tenant.key(&["*"]).await;
        let steps = json!([
            {"id": "look", "type": "backup.posture", "with": {"organization_id": ["{{ inputs.organization }}"], "limit": 1}},
            {"id": "set", "type": "backup.config.update", "if": "steps.look.output.data[0].score < 50",
                "with": {"scope": "{{ inputs.organization }}", "config": {"verification": {"restore_test_every_days": 7}}}},
        ]);
        let inputs = json!({"type": "object", "properties": {"organization": {"type": "string"}}, "required": ["organization"]});
        let definition = json!({"key": "posture", "name": "Posture", "input_schema": inputs, "steps": steps});
        admin.post(TRIGGER).json(json!({"action": "create", "definition": definition})).send().await.ok(201);
        let trial = json!({"workflow_key": "posture", "inputs": {"organization": made[1]}, "dry_run": true});
        let planned = admin.post(TRIGGER).json(trial).send().await;
        assert!(planned.text.contains("would change the backup configuration"), "{}", planned.text);
        let config = format!("/api/backup/config?scope={}", made[1]);
        assert_eq!(key.get(&config).send().await.ok(200)["version"], 0, "a trial changes nothing");
        let start = json!({"workflow_key": "posture", "inputs": {"organization": made[1]}});
        let run = admin.post(TRIGGER).json(start).send().await.ok(202)["id"].as_str().unwrap().to_owned();
        let ended = admin.get(&format!("{TRIGGER}?run_id={run}&wait_seconds=30")).send().await;
        assert_eq!(ended.ok(200)["status"], "succeeded", "{}", ended.text);
        assert_eq!(key.get(&config).send().await.ok(200)["own"]["verification"]["restore_test_every_days"], 7);
    })
    .await;
}
