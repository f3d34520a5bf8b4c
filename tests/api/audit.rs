//! The audit: each action is recorded once, is readable only with the necessary rights, and can be filtered, paged and exported.

use serde_json::{Value, json};

use crate::harness::{Actor, PASSWORD, TestApp, with_app};

const AUDIT: &str = "/api/admin/audit";
const KEYS: &str = "/api/admin/api-keys";

/// The actions of a list, in order.
fn actions(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|record| record["action"].as_str().unwrap()).collect()
}

async fn read(actor: &Actor, query: &str) -> Value {
    actor.get(&format!("{AUDIT}?{query}")).send().await.ok(200).clone()
}

#[tokio::test]
async fn audit_records_name_their_actor() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let wrong = json!({"email": "admin@acme.example", "password": "not the password"});
        app.anonymous().post("/api/auth/login").json(wrong).send().await.problem(401);
        let key = admin.post(KEYS).json(json!({"name": "Import", "scopes": ["tickets:*"]})).send().await.ok(201).clone();
        let organization = acme.organization("Acme").await;
        let ticket = json!({"subject": "Not administration", "organization_id": organization});
        admin.post("/api/psa/tickets").json(ticket).send().await.ok(201);
        admin.get("/api/psa/tickets?format=csv&status=new").send().await;
        admin.get("/api/rmm/reports/asset-inventory?format=ndjson").send().await;
        admin.put(&format!("{KEYS}?id={}", key["id"].as_str().unwrap())).json(json!({"name": "Export"})).send().await.ok(200);
        let list = read(&admin, "sort=at&include_total=true").await;
        let recorded: Vec<&str> = actions(&list).into_iter().filter(|action| *action != "organization.created").collect();
        let expected = [
            "user.created",
            "auth.login",
            "auth.login_failed",
            "api_key.created",
            "export.started",
            "export.started",
            "api_key.updated",
        ];
        assert_eq!(recorded, expected);
        let numbers: Vec<u64> = list["data"].as_array().unwrap().iter().map(|record| record["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        assert_eq!(list["page"]["total"], numbers.len());
        let find = |action: &str| list["data"].as_array().unwrap().iter().find(|record| record["action"] == action).unwrap();
        assert_eq!(find("user.created")["actor"]["id"], "local_operator");
        let created = find("api_key.created");
        assert_eq!((&created["actor"]["id"], &created["actor"]["kind"]), (&json!(me), &json!("user")));
        assert_eq!((&created["resource"]["kind"], &created["resource"]["id"]), (&json!("api_key"), &key["id"]));
        assert_eq!(find("api_key.updated")["changes"]["name"], json!({"from": "Import", "to": "Export"}));
        let newest = read(&admin, "limit=1").await;
        assert_eq!(actions(&newest), ["api_key.updated"], "the newest comes first");
        let event = admin.get("/api/events?types=api_key.created&limit=1").send().await.ok(200)["data"][0].clone();
        assert_eq!((&event["id"], &event["seq"]), (&created["event_id"], &created["seq"]));
        let feed = admin.get("/api/events?types=export.*").send().await.ok(200)["data"].clone();
        assert_eq!(feed[0]["data"]["export"]["target"], "/api/psa/tickets?format=csv&status=new");
        assert_eq!(feed[1]["data"]["export"]["records"], "asset_inventory");
    })
    .await;
}

#[tokio::test]
async fn unknown_accounts_are_audited_for_the_operator() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let typed = json!({"email": "hunter2@nowhere.example", "password": "correct horse"});
        app.anonymous().post("/api/auth/login").json(typed).send().await.problem(401);
        let operator = app.operator().await;
        let feed = operator.get("/api/events?types=auth.login_failed").send().await.ok(200)["data"].clone();
        assert_eq!(feed.as_array().unwrap().len(), 1);
        assert_eq!(feed[0]["data"]["sign_in"]["reason"], "no_account");
        assert!(!feed.to_string().contains("hunter2"), "what was typed can be a password");
        assert_eq!(actions(&read(&operator, "action=auth.login_failed").await), ["auth.login_failed"]);
        assert!(actions(&read(&admin, "action=auth.login_failed").await).is_empty());

        let key = acme.key(&["*"]).await;
        assert_eq!(key.delete(&format!("/api/admin/users/{me}/sessions")).send().await.status, 204);
        assert_eq!(admin.get("/api/auth/session").send().await.status, 401);
        let ended = read(&key, "action=auth.sessions_ended").await;
        assert_eq!((ended["data"].as_array().unwrap().len(), &ended["data"][0]["resource"]["id"]), (1, &json!(me)));
    })
    .await;
}

#[tokio::test]
async fn operator_actions_are_in_the_platform_audit_only() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let target = app.data_directory().join("snapshot").display().to_string();
        app.local().post("/internal/admin/backup").json(json!({"path": target})).send().await.ok(200);
        app.local().post("/internal/admin/search/reindex").send().await.ok(200);
        app.local().get("/internal/admin/search").send().await.ok(200);
        let operator = app.operator().await;
        let list = read(&operator, "action=operator.*&sort=at").await;
        let events = operator.get("/api/events?types=operator.acted&limit=200").send().await.ok(200)["data"].clone();
        let acts: Vec<&str> =
            events.as_array().unwrap().iter().map(|event| event["data"]["act"]["operation"].as_str().unwrap()).collect();
        assert_eq!(acts[acts.len() - 2..], ["create_backup", "rebuild_search_index"], "{acts:?}");
        assert_eq!(list["data"].as_array().unwrap().len(), acts.len());
        assert!(list["data"].as_array().unwrap().iter().all(|record| record["actor"]["id"] == "local_operator"));
        assert!(actions(&read(&operator, "action=tenant.*").await).contains(&"tenant.created"));
        let seen = read(&admin, "limit=200").await;
        assert!(!actions(&seen).iter().any(|action| action.starts_with("operator.") || action.starts_with("tenant.")));
    })
    .await;
}

#[tokio::test]
async fn filters_select_by_actor_action_resource_and_time() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (writer, record) = acme.new_key("writer", &["api_keys:*", "tickets:read"]).await;
        let writer_id = record["id"].as_str().unwrap();
        app.advance(std::time::Duration::from_hours(1));
        let from = app.now();
        let made = writer.post(KEYS).json(json!({"name": "Made", "scopes": ["tickets:read"]})).send().await.ok(201).clone();
        let made_id = made["id"].as_str().unwrap();
        app.advance(std::time::Duration::from_hours(1));
        let to = app.now();
        writer.post(&format!("{KEYS}/{made_id}/rotate")).send().await.ok(200);
        let reader = acme.key(&["*:read"]).await;
        let admin = acme.admin().await;
        for (query, expected) in [
            (format!("actor_id={writer_id}&sort=at"), vec!["api_key.created", "api_key.rotated"]),
            (format!("resource_id={made_id}&sort=-at"), vec!["api_key.rotated", "api_key.created"]),
            (format!("action=api_key.rotated,auth.*&actor_id={writer_id}"), vec!["api_key.rotated"]),
            (format!("since={from}&until={to}"), vec!["api_key.created"]),
            (format!("until={from}"), vec!["api_key.created"]),
            ("resource_kind=user&sort=at".to_owned(), vec!["user.created", "auth.login"]),
            ("actor_id=usr_nobody".to_owned(), vec![]),
        ] {
            assert_eq!(actions(&read(&reader, &query).await), expected, "{query}");
            assert_eq!(read(&admin, &format!("{query}&include_total=true&limit=1")).await["page"]["total"], expected.len());
        }
        let wrong = reader.get(&format!("{AUDIT}?action=api_key.creatd&resource_kind=api_keys")).send().await;
        assert_eq!(wrong.problem(422), "validation_failed");
        let found: Vec<&str> =
            wrong.body["errors"].as_array().unwrap().iter().map(|error| error["suggestion"].as_str().unwrap()).collect();
        assert_eq!(found, ["api_key.created", "api_key"]);
        assert_eq!(reader.get(&format!("{AUDIT}?actor=x")).send().await.problem(400), "unknown_parameter");
    })
    .await;
}

#[tokio::test]
async fn pages_are_stable_while_records_are_added() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let reader = acme.key(&["*:read"]).await;
        for number in 0..10 {
            acme.new_key(&format!("key {number}"), &["tickets:read"]).await;
        }
        for sort in ["at", "-at"] {
            let (mut numbers, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = read(&reader, &format!("sort={sort}&limit=3{cursor}")).await;
                numbers.extend(page["data"].as_array().unwrap().iter().map(|record| record["number"].as_u64().unwrap()));
                let Some(next) = page["page"]["next_cursor"].as_str() else { break };
                cursor = format!("&cursor={next}");
                if sort == "-at" {
                    acme.new_key(&format!("meanwhile {}", numbers.len()), &["tickets:read"]).await;
                }
            }
            let expected: Vec<u64> = if sort == "at" { (1..=11).collect() } else { (1..=11).rev().collect() };
            assert_eq!(numbers, expected, "{sort}");
        }
        let page = read(&reader, "sort=at&limit=1").await;
        let cursor = page["page"]["next_cursor"].as_str().unwrap();
        let other = reader.get(&format!("{AUDIT}?sort=-at&limit=1&cursor={cursor}")).send().await;
        assert_eq!(other.problem(400), "cursor_mismatch");
    })
    .await;
}

#[tokio::test]
async fn reading_the_audit_needs_rights_to_all_its_content() {
    with_app(async |app| {
        let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
        for role in ["technician", "viewer"] {
            let refused = acme.user(role).await.get(AUDIT).send().await;
            assert_eq!(refused.problem(403), "admin_required");
            assert_eq!(refused.body["required_scopes"], json!(["api_keys:read", "webhooks:read"]));
        }
        let scopes = ["api_keys:read", "webhooks:read", "events:read", "users:read"];
        for lacking in scopes {
            let others: Vec<&str> = scopes.into_iter().filter(|scope| *scope != lacking).collect();
            let refused = acme.key(&others).await.get(AUDIT).send().await;
            assert_eq!(refused.problem(403), "insufficient_scope");
            assert_eq!(refused.body["required_scopes"], json!([lacking]));
        }
        acme.key(&scopes).await.get(AUDIT).send().await.ok(200);
        acme.admin().await.get(AUDIT).send().await.ok(200);
        let organization = acme.organization("Some").await;
        let body = json!({"name": "Some only", "scopes": ["*"], "organization_ids": [organization]});
        let limited = acme.key(&["*"]).await.post(KEYS).json(body).send().await.ok(201)["key"].as_str().unwrap().to_owned();
        for path in [AUDIT.to_owned(), format!("{AUDIT}/checkpoint")] {
            assert_eq!(app.anonymous().bearer(&limited).get(&path).send().await.problem(403), "insufficient_scope");
        }
        let stranger = globex.key(&["*"]).await;
        let export = stranger.get(&format!("{AUDIT}?format=ndjson")).send().await;
        assert!(!export.text.contains(&acme.id) && !export.text.contains("technician"), "{}", export.text);
        assert_eq!(read(&stranger, "include_total=true&action=api_key.*").await["page"]["total"], 1);
    })
    .await;
}

/// Creates secrets of every kind that administration records.
async fn canaries(app: &TestApp, admin: &Actor) -> Vec<String> {
    let mut canaries = vec![PASSWORD.to_owned(), "canary-of-a-header".to_owned(), "canary-secret-access-key".to_owned()];
    let mut keep = |reply: &Value, member: &str| canaries.push(reply[member].as_str().unwrap().to_owned());
    let key = admin.post(KEYS).json(json!({"name": "Canary", "scopes": ["tickets:read"]})).send().await.ok(201).clone();
    keep(&key, "key");
    let rotated = admin.post(&format!("{KEYS}/{}/rotate", key["id"].as_str().unwrap())).send().await.ok(200).clone();
    keep(&rotated, "key");
    let endpoint = json!({"url": "https://example.com/hook", "events": ["*"], "headers": {"x-secret": "canary-of-a-header"}});
    let endpoint = admin.post("/api/admin/webhooks").json(endpoint).send().await;
    assert!([201, 422].contains(&endpoint.status), "{}", endpoint.text);
    if endpoint.status == 201 {
        keep(&endpoint.body, "secret");
    }
    let wrong = json!({"email": "admin@acme.example", "password": "canary-of-a-wrong-password"});
    app.anonymous().post("/api/auth/login").json(wrong).send().await.problem(401);
    canaries.push("canary-of-a-wrong-password".to_owned());
    canaries
}

#[tokio::test]
async fn the_audit_contains_no_secret() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let canaries = canaries(app, &admin).await;
        for format in ["json&limit=200", "ndjson", "csv"] {
            let recorded = admin.get(&format!("{AUDIT}?format={format}")).send().await;
            assert!(recorded.text.contains("api_key.rotated"), "{}", recorded.text);
            for canary in &canaries {
                assert!(!recorded.text.contains(canary.as_str()), "{canary} is in {}", recorded.text);
            }
        }
        let platform = app.operator().await.get(&format!("{AUDIT}?format=ndjson")).send().await;
        assert!(canaries.iter().all(|canary| !platform.text.contains(canary.as_str())));
    })
    .await;
}
