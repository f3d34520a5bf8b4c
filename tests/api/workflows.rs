//! Workflows from the client's view: every documented method, definitions and their versions, invalid input, dry runs.

use serde_json::{Value, json};

use tenantd_store::{StoreError, events};

use crate::harness::{Actor, Reply, TestApp, with_app};

pub const PATH: &str = "/api/psa/workflows/trigger";

/// A key with all scopes for workflows and tickets, and an organization for tickets.
pub struct Desk {
    pub key: Actor,
    pub organization: String,
    pub device: String,
}

impl Desk {
    pub async fn new(app: &TestApp, slug: &str) -> Self {
        let tenant = app.evaluation_tenant(slug).await;
        let organization = tenant.organization("Acme").await;
        let device = tenant.device(&organization, "srv-1").await;
        Self { key: tenant.key(&["*"]).await, organization, device }
    }

    /// The same, at a restarted server.
    pub fn at(&self, app: &TestApp) -> Self {
        let (organization, device) = (self.organization.clone(), self.device.clone());
        Self { key: self.key.clone().moved(app.base_url()), organization, device }
    }

    pub async fn try_create(&self, definition: Value) -> Reply {
        self.key.post(PATH).json(json!({"action": "create", "definition": definition})).send().await
    }

    pub async fn create(&self, definition: Value) -> Value {
        self.try_create(definition).await.ok(201).clone()
    }

    /// A workflow of these steps with a manual trigger.
    pub async fn workflow(&self, key: &str, steps: Value) -> Value {
        self.create(json!({"key": key, "name": key, "steps": steps})).await
    }

    pub async fn start(&self, key: &str, inputs: Value) -> Value {
        self.key.post(PATH).json(json!({"workflow_key": key, "inputs": inputs})).send().await.ok(202).clone()
    }

    pub async fn read(&self, run: &Value) -> Value {
        self.key.get(&format!("{PATH}?run_id={}", run["id"].as_str().unwrap())).send().await.ok(200).clone()
    }

    /// The run, once the condition is true.
    pub async fn until(&self, run: &Value, wanted: impl Fn(&Value) -> bool) -> Value {
        let asking = async {
            loop {
                let found = self.read(run).await;
                if wanted(&found) {
                    return found;
                }
            }
        };
        let patience = std::time::Duration::from_secs(30);
        match tokio::time::timeout(patience, asking).await {
            Ok(found) => found,
            Err(late) => panic!("the run did not become what it should ({late}): {}", self.read(run).await["error"]),
        }
    }

    pub async fn status(&self, run: &Value, status: &str) -> Value {
        if ["succeeded", "failed", "timed_out"].contains(&status) {
            let path = format!("{PATH}?run_id={}&wait_seconds=30", run["id"].as_str().unwrap());
            let found = self.key.get(&path).send().await.ok(200).clone();
            assert_eq!(found["status"], status, "{}: {}", found["error"], found["steps"]);
            return found;
        }
        self.until(run, |found| found["status"] == status).await
    }

    pub async fn steer(&self, run: &Value, action: &str) -> Reply {
        let path = format!("{PATH}?run_id={}", run["id"].as_str().unwrap());
        self.key.patch(&path).json(json!({"action": action})).send().await
    }

    pub async fn ticket(&self, subject: &str) -> Value {
        let body = json!({"subject": subject, "organization_id": self.organization});
        self.key.post("/api/psa/tickets").json(body).send().await.ok(201).clone()
    }

    pub async fn tickets(&self) -> Vec<Value> {
        self.key.get("/api/psa/tickets?limit=200&sort=number").send().await.ok(200)["data"].as_array().unwrap().clone()
    }

    pub async fn runs(&self, query: &str) -> Vec<Value> {
        self.key.get(&format!("{PATH}?view=runs{query}")).send().await.ok(200)["data"].as_array().unwrap().clone()
    }
}

pub fn step<'a>(run: &'a Value, path: &str) -> &'a Value {
    run["steps"].as_array().unwrap().iter().find(|step| step["path"] == path).unwrap_or(&Value::Null)
}

pub fn set(id: &str, value: Value) -> Value {
    json!({"id": id, "type": "set", "with": {"value": value}})
}

#[tokio::test]
async fn every_documented_method_works() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let created = desk.try_create(json!({"key": "hello", "name": "Hello", "steps": [set("a", json!(1)), {"id": "end", "type": "return", "with": {"output": {"a": "{{ steps.a.output.value }}"}}}]})).await;
        let id = created.ok(201)["id"].as_str().unwrap().to_owned();
        assert_eq!((created.header("location"), created.header("etag")), (format!("{PATH}/{id}").as_str(), "\"v1\""));
        let list = desk.key.get(PATH).send().await;
        assert_eq!((&list.ok(200)["data"][0]["id"], &list.body["data"][0].get("last_run")), (&json!(id), &None));
        let started = desk.key.post(PATH).json(json!({"workflow_id": id, "inputs": {}})).send().await;
        let run = started.ok(202).clone();
        let run_id = run["id"].as_str().unwrap();
        assert_eq!(started.header("location"), format!("{PATH}/runs/{run_id}"));
        let ended = desk.key.get(&format!("{PATH}?run_id={run_id}&wait_seconds=30")).send().await;
        assert_eq!((&ended.ok(200)["status"], &ended.body["output"]), (&json!("succeeded"), &json!({"a": 1})));
        assert_eq!(desk.key.get(started.header("location")).send().await.ok(200)["steps"].as_array().unwrap().len(), 2);
        let list = desk.key.get(&format!("{PATH}?include_total=true")).send().await;
        assert_eq!(list.ok(200)["data"][0]["last_run"]["status"], "succeeded");
        assert_eq!(list.body["page"]["total"], 1);
        let runs = desk.runs(&format!("&workflow_id={id}&status=succeeded&started_after=2020-01-01T00:00:00Z")).await;
        assert_eq!(runs.len(), 1);
        assert!(desk.runs("&status=failed").await.is_empty());
        let catalog = desk.key.get(&format!("{PATH}?view=catalog")).send().await;
        let types: Vec<&str> = catalog.ok(200)["step_types"].as_array().unwrap().iter().map(|found| found["type"].as_str().unwrap()).collect();
        for wanted in ["ticket.create", "ticket.update", "ticket.comment", "inventory.report", "http.request", "workflow.call", "if", "for_each", "parallel", "wait.duration", "wait.event", "approval", "set", "assert", "fail", "return"] {
            assert!(types.contains(&wanted), "{wanted} is not in {types:?}");
        }
        assert_eq!(catalog.body["starters"].as_array().unwrap().len(), 13);
        let patched = desk.key.patch(&format!("{PATH}?id={id}")).header("if-match", "\"v1\"").json(json!({"enabled": false, "description": "x"})).send().await;
        assert_eq!((&patched.ok(200)["version"], &patched.body["enabled"]), (&json!(2), &json!(false)));
        let stale = desk.key.patch(&format!("{PATH}/{id}")).header("if-match", "\"v1\"").json(json!({"name": "Y"})).send().await;
        assert_eq!((stale.problem(412), &stale.body["current_version"]), ("version_conflict", &json!(2)));
        let first = desk.key.get(&format!("{PATH}?id={id}&version=1")).send().await;
        assert_eq!((&first.ok(200)["enabled"], first.body.get("description")), (&json!(true), None));
        let disabled = desk.key.post(PATH).json(json!({"workflow_key": "hello"})).send().await;
        assert_eq!(disabled.problem(409), "invalid_transition");
        assert_eq!(desk.key.delete(&format!("{PATH}?run_id={run_id}")).send().await.problem(409), "run_not_cancellable");
        let archived = desk.key.delete(&format!("{PATH}?id={id}")).send().await;
        assert!(archived.ok(200)["archived_at"].is_string());
        assert!(desk.key.get(PATH).send().await.ok(200)["data"].as_array().unwrap().is_empty());
        assert_eq!(desk.key.get(&format!("{PATH}?archived=true")).send().await.ok(200)["data"].as_array().unwrap().len(), 1);
        assert_eq!(desk.key.post(PATH).json(json!({"workflow_id": id})).send().await.problem(409), "invalid_transition");
        desk.workflow("hello", json!([set("a", json!(1))])).await;
    })
    .await;
}

#[tokio::test]
async fn conflicting_parameters_are_refused() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let workflow = desk.workflow("x", json!([set("a", json!(1))])).await;
        let id = workflow["id"].as_str().unwrap();
        let run = desk.start("x", json!({})).await;
        let run_id = run["id"].as_str().unwrap();
        for (query, place) in [
            (format!("id={id}&run_id={run_id}"), "id"),
            (format!("id={id}&view=runs"), "id"),
            (format!("run_id={run_id}&version=1"), "version"),
            (format!("id={id}&wait_seconds=1"), "wait_seconds"),
            (format!("id={id}&limit=5"), "limit"),
            ("view=catalog&cursor=x".to_owned(), "cursor"),
            ("status=failed".to_owned(), "status"),
            ("view=runs&enabled=true".to_owned(), "enabled"),
            ("view=everything".to_owned(), "view"),
            ("id=run_01k9z7w3v5e8g9m2n4p6r8t0x1".to_owned(), "id"),
        ] {
            let reply = desk.key.get(&format!("{PATH}?{query}")).send().await;
            assert_eq!(reply.problem(422), "validation_failed", "{query}");
            assert_eq!(reply.field_errors()[0].0, place, "{query}");
        }
        for (body, place) in [
            (json!({}), "/workflow_id"),
            (json!({"workflow_id": id, "workflow_key": "x"}), "/workflow_id"),
            (json!({"workflow_key": "x", "definition": {}}), "/definition"),
            (json!({"workflow_key": "x", "inputs": [1]}), "/inputs"),
            (json!({"workflow_key": "x", "event": {}}), "/event"),
            (json!({"action": "create"}), "/definition"),
            (json!({"action": "create", "definition": {}, "inputs": {}}), "/inputs"),
            (json!({"action": "create", "starter": "offbord-user"}), "/starter"),
            (json!({"action": "run", "workflow": "x"}), "/workflow"),
        ] {
            let reply = desk.key.post(PATH).json(body.clone()).send().await;
            assert_eq!(reply.problem(422), "validation_failed", "{body}");
            assert!(reply.field_errors().iter().any(|(at, _)| at == place), "{body}: {:?}", reply.field_errors());
        }
        for (path, body, place) in [
            (format!("{PATH}?run_id={run_id}"), json!({"name": "x"}), "/name"),
            (format!("{PATH}?id={id}"), json!({"action": "pause"}), "/action"),
            (format!("{PATH}?run_id={run_id}"), json!({"action": "cancel", "comment": "x"}), "/comment"),
            (PATH.to_owned(), json!({"action": "cancel"}), "id"),
        ] {
            let reply = desk.key.patch(&path).json(body.clone()).send().await;
            assert_eq!(reply.problem(422), "validation_failed", "{path} {body}");
            assert!(reply.field_errors().iter().any(|(at, _)| at == place), "{path} {body}: {:?}", reply.field_errors());
        }
        let other = desk.workflow("y", json!([set("a", json!(1))])).await;
        let mismatch = desk.key.patch(&format!("{PATH}?id={id}")).json(json!({"id": other["id"], "name": "z"})).send().await;
        assert_eq!(mismatch.problem(400), "id_mismatch");
        assert_eq!(desk.key.post(PATH).json(json!({"workflow_key": "nobody"})).send().await.problem(404), "not_found");
        let stranger = Desk::new(app, "other").await;
        assert_eq!(stranger.key.get(&format!("{PATH}?id={id}")).send().await.problem(404), "not_found");
        assert_eq!(stranger.key.get(&format!("{PATH}?run_id={run_id}")).send().await.problem(404), "not_found");
    })
    .await;
}

#[tokio::test]
async fn bad_definitions_are_refused_with_pointers() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let bad = json!({"key": "bad", "name": "Bad", "steps": [
            {"id": "a", "type": "ticket.creat", "with": {}},
            {"id": "b", "type": "ticket.create", "with": {"subject": "{{ steps.c.output }}", "priorty": "high", "priority": "urgent"}},
            {"id": "c", "type": "set", "with": {"x": "{{ 1 +"}},
            {"id": "d", "type": "workflow.call", "with": {"workflow_key": "bad"}},
        ]});
        let refused = desk.try_create(bad.clone()).await;
        assert_eq!(refused.problem(422), "validation_failed");
        let found = refused.field_errors();
        for (at, code) in [
            ("/definition/steps/0/type", "unknown_step_type"),
            ("/definition/steps/1/with/subject", "later_step"),
            ("/definition/steps/1/with/priorty", "unknown_field"),
            ("/definition/steps/1/with/priority", "not_allowed"),
            ("/definition/steps/2/with/x", "expression_invalid"),
        ] {
            assert!(found.contains(&(at.to_owned(), code.to_owned())), "{at} {code}: {found:?}");
        }
        let suggestions = refused.body["errors"].as_array().unwrap().iter().filter_map(|error| error["suggestion"].as_str());
        assert!(suggestions.clone().any(|text| text == "ticket.create"), "{:?}", suggestions.collect::<Vec<_>>());
        let validated = desk.key.post(PATH).json(json!({"action": "validate", "definition": bad})).send().await;
        assert_eq!(validated.ok(200)["valid"], false);
        assert_eq!(validated.body["errors"].as_array().unwrap().len(), found.len());
        let good = json!({"action": "validate", "starter": "offboard-user"});
        assert_eq!(desk.key.post(PATH).json(good).send().await.ok(200), &json!({"valid": true, "errors": []}));
        assert!(desk.key.get(PATH).send().await.ok(200)["data"].as_array().unwrap().is_empty());
        desk.workflow("first", json!([set("a", json!(1))])).await;
        desk.workflow("second", json!([{"id": "c", "type": "workflow.call", "with": {"workflow_key": "first"}}])).await;
        let first = desk.key.get(PATH).send().await.ok(200)["data"][1]["id"].as_str().unwrap().to_owned();
        let cycle = json!({"steps": [{"id": "c", "type": "workflow.call", "with": {"workflow_key": "second"}}]});
        let reply = desk.key.patch(&format!("{PATH}/{first}")).json(cycle).send().await;
        assert_eq!(reply.problem(422), "validation_failed");
        assert_eq!(reply.field_errors()[0].1, "cycle");
        let lonely = json!([{"id": "c", "type": "workflow.call", "with": {"workflow_key": "nobody"}}]);
        let reply = desk.try_create(json!({"key": "lonely", "name": "L", "steps": lonely})).await;
        assert_eq!(reply.field_errors()[0].1, "unknown_workflow");
        assert_eq!(desk.try_create(json!({"key": "first", "name": "F", "steps": [set("a", json!(1))]})).await.problem(409), "already_exists");
    })
    .await;
}

#[tokio::test]
async fn invalid_inputs_are_refused_and_templates_keep_types() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let schema = json!({"type": "object", "required": ["n"], "additionalProperties": false,
            "properties": {"n": {"type": "integer"}, "tags": {"type": "array", "default": ["x", "y"]}}});
        let steps = json!([
            {"id": "v", "type": "set", "with": {"n": "{{ inputs.n }}", "text": "n={{ inputs.n }}", "tags": "{{ inputs.tags }}", "deep": {"big": "{{ inputs.n > 3 }}"}}},
            {"id": "end", "type": "return", "with": {"output": "{{ steps.v.output }}"}},
        ]);
        desk.create(json!({"key": "typed", "name": "T", "input_schema": schema, "steps": steps})).await;
        let bad = desk.key.post(PATH).json(json!({"workflow_key": "typed", "inputs": {"n": "5", "m": 1}})).send().await;
        assert_eq!(bad.problem(422), "validation_failed");
        assert!(bad.field_errors().iter().all(|(at, _)| at.starts_with("/inputs")), "{:?}", bad.field_errors());
        let run = desk.start("typed", json!({"n": 5})).await;
        let ended = desk.status(&run, "succeeded").await;
        assert_eq!(ended["output"], json!({"n": 5, "text": "n=5", "tags": ["x", "y"], "deep": {"big": true}}));
        assert_eq!(ended["inputs"], json!({"n": 5, "tags": ["x", "y"]}));
    })
    .await;
}

#[tokio::test]
async fn a_repeated_start_starts_one_run() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        desk.workflow("once", json!([set("a", json!(1))])).await;
        let send = || desk.key.post(PATH).header("idempotency-key", "start-1").json(json!({"workflow_key": "once"})).send();
        let (first, second) = (send().await, send().await);
        assert_eq!(first.ok(202)["id"], second.ok(202)["id"]);
        assert_eq!(second.header("idempotency-replayed"), "true");
        desk.status(&first.body, "succeeded").await;
        assert_eq!(desk.runs("").await.len(), 1);
    })
    .await;
}

/// The store's content, byte by byte.
async fn content(app: &TestApp, name: &str) -> Vec<u8> {
    let path = app.data_directory().join(name);
    app.running().app.store.snapshot(path.clone()).await.unwrap();
    std::fs::read(path).unwrap()
}

/// Waits until the log reader that stores something for every event has processed the whole log.
async fn settled(app: &TestApp) {
    let store = &app.running().app.store;
    let behind = || {
        let readers = ["tenant_activity", "analytics"];
        let positions = store.read::<_, StoreError>(|tx| {
            let slowest = readers.map(|name| events::cursor(tx, name)).into_iter().collect::<Result<Vec<u64>, _>>()?;
            Ok((slowest.into_iter().min().unwrap(), events::head(tx)?))
        });
        positions.is_ok_and(|(slowest, head)| slowest < head)
    };
    let waiting = async {
        while behind() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("the log is not read");
}

/// A sample event that triggers a starter.
fn sample_event(kind: &str, ticket: &Value, desk: &Desk) -> Value {
    let id = if kind.starts_with("device.") { desk.device.as_str() } else { ticket["id"].as_str().unwrap() };
    let data = match kind.split('.').next().unwrap() {
        "api_key" => json!({"api_key": {"name": "Export", "expires_at": "2026-02-01T00:00:00.000Z"}}),
        "backup" => {
            let device = json!({"id": desk.device, "name": "srv-1"});
            let organization = json!({"id": desk.organization, "name": "Acme"});
            let times = json!({"external_id": "job-1", "started_at": "2026-01-01T00:00:00.000Z"});
            let mut job = json!({"device": device, "organization": organization, "status": "failed"});
            job.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
            json!({"backup_job": job})
        }
        "webhook" => json!({"webhook": {"name": "Chat"}}),
        "device" => {
            json!({"device": {"name": "srv-1", "class": "server", "organization": {"id": desk.organization, "name": "Acme"}}})
        }
        _ => json!({"ticket": ticket, "changes": {"status": {"from": "new", "to": "waiting_customer"}}}),
    };
    json!({"id": "evt_01k9z7w3v5e8g9m2n4p6r8t0x1", "type": kind, "resource": {"kind": "ticket", "id": id, "version": 1}, "data": data})
}

#[tokio::test]
async fn a_dry_run_of_a_starter_changes_nothing() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let ticket = desk.ticket("Printer").await;
        let catalog = desk.key.get(&format!("{PATH}?view=catalog")).send().await.ok(200).clone();
        let starters: Vec<Value> = catalog["starters"].as_array().unwrap().clone();
        for starter in &starters {
            desk.key.post(PATH).json(json!({"action": "create", "starter": starter["name"]})).send().await.ok(201);
        }
        // A workflow that waits for all readers of the log.
        let sentinel = desk.create(json!({"key": "sentinel", "name": "S", "triggers": [{"type": "event", "event": "ticket.commented"}], "steps": [set("a", json!(1))]})).await;
        desk.key.post(&format!("/api/psa/tickets/{}/comments", ticket["id"].as_str().unwrap())).json(json!({"body": "x"})).send().await.ok(201);
        while desk.runs(&format!("&workflow_id={}&status=succeeded", sentinel["id"].as_str().unwrap())).await.is_empty() {}
        settled(app).await;
        // A background task may write between two copies. A dry run that writes does so in every round.
        let mut rounds = 0;
        loop {
            rounds += 1;
            let before = content(app, &format!("before-{rounds}")).await;
            plan_all(&desk, &starters, &ticket).await;
            if content(app, &format!("after-{rounds}")).await == before {
                break;
            }
            assert!(rounds < 10, "a dry run has changed the store");
        }
        assert_eq!(desk.tickets().await.len(), 1);
        let by_query = desk.key.post(&format!("{PATH}?dry_run=true")).json(json!({"workflow_key": "weekly-review", "inputs": {"organization_id": "org_x"}})).send().await;
        assert_eq!(by_query.ok(200)["error"]["code"], "invalid_input");
    })
    .await;
}

/// Plans a run of every starter.
async fn plan_all(desk: &Desk, starters: &[Value], ticket: &Value) {
    for starter in starters {
        let name = starter["name"].as_str().unwrap();
        let kind = starter["definition"]["triggers"][0]["event"].as_str();
        let mut body = json!({"workflow_key": name, "dry_run": true});
        if let Some(kind) = kind {
            body["event"] = sample_event(kind, ticket, desk);
        }
        let wants = starter["definition"]["input_schema"]["properties"].as_object();
        if let Some(wants) = wants {
            body["inputs"] = json!({"organization_id": desk.organization});
            if wants.contains_key("name") {
                body["inputs"]["name"] = json!("Ada");
            }
        }
        let orders = name == "provision-vm-with-approval";
        if orders {
            body["inputs"] =
                json!({"provider_id": "prv_01k9z7w3v5e8g9m2n4p6r8t0x1", "name": "web-1", "region": "r", "size": "s", "image": "i"});
        }
        let planned = desk.key.post(PATH).json(body).send().await;
        assert_eq!(planned.ok(200)["dry_run"], true);
        if orders {
            assert_eq!(planned.body["error"]["code"], "invalid_input", "there is no provider: {}", planned.body);
            continue;
        }
        let steps = planned.body["steps"].as_array().unwrap();
        assert!(!steps.is_empty() && planned.body.get("error").is_none(), "{name}: {}", planned.body);
        assert!(steps.iter().all(|step| step["status"] != "failed"), "{name}: {steps:?}");
    }
}

#[tokio::test]
async fn scopes_decide_the_actions_on_one_path() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (writer, runner, reader) =
            (tenant.key(&["workflows:write"]).await, tenant.key(&["workflows:run"]).await, tenant.key(&["workflows:read"]).await);
        let create = json!({"action": "create", "definition": {"key": "x", "name": "X", "steps": [{"id": "w", "type": "wait.duration", "with": {"seconds": 60}}]}});
        assert_eq!(runner.post(PATH).json(create.clone()).send().await.problem(403), "insufficient_scope");
        assert_eq!(reader.post(PATH).json(create.clone()).send().await.problem(403), "insufficient_scope");
        let id = writer.post(PATH).json(create).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        assert_eq!(writer.post(PATH).json(json!({"workflow_key": "x"})).send().await.problem(403), "insufficient_scope");
        let run = runner.post(PATH).json(json!({"workflow_key": "x"})).send().await.ok(202)["id"].as_str().unwrap().to_owned();
        assert_eq!(runner.patch(&format!("{PATH}?id={id}")).json(json!({"name": "Y"})).send().await.problem(403), "insufficient_scope");
        assert_eq!(runner.delete(&format!("{PATH}?id={id}")).send().await.problem(403), "insufficient_scope");
        assert_eq!(writer.delete(&format!("{PATH}?run_id={run}")).send().await.problem(403), "insufficient_scope");
        assert_eq!(writer.get(PATH).send().await.problem(403), "insufficient_scope");
        let in_use = writer.delete(&format!("{PATH}?id={id}")).send().await;
        assert_eq!((in_use.problem(409), &in_use.body["active_runs"]), ("in_use", &json!(1)));
        writer.delete(&format!("{PATH}?id={id}&cancel_runs=true")).send().await.ok(200);
        assert_eq!(reader.get(&format!("{PATH}/runs/{run}")).send().await.ok(200)["status"], "cancelled");
    })
    .await;
}

#[tokio::test]
async fn credential_headers_are_shown_to_writers_only() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (writer, reader) = (tenant.key(&["workflows:*"]).await, tenant.key(&["workflows:read", "events:read"]).await);
        let call = |token: &str| json!([{"id": "both", "type": "parallel", "with": {"branches": [[{"id": "call", "type": "http.request", "with": {"url": "https://example.com/", "headers": {"authorization": token, "accept": "text/plain"}}}]]}}]);
        let body = json!({"action": "create", "definition": {"key": "call", "name": "Call", "steps": call("Bearer s3cret-1{{ inputs.x }}")}});
        let id = writer.post(PATH).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        writer.patch(&format!("{PATH}/{id}")).json(json!({"steps": call("Bearer s3cret-2{{ inputs.x }}")})).send().await.ok(200);
        let at = "/steps/0/with/branches/0/0/with/headers/authorization";
        let one = format!("{PATH}?id={id}&version=1");
        assert_eq!(writer.get(&one).send().await.ok(200).pointer(at).unwrap(), "Bearer s3cret-1{{ inputs.x }}");
        assert_eq!(reader.get(&one).send().await.ok(200).pointer(at).unwrap(), "[hidden]");
        for path in [format!("{PATH}/{id}"), PATH.to_owned(), "/api/events".to_owned()] {
            let seen = reader.get(&path).send().await;
            assert!(!seen.text.contains("s3cret") && seen.text.contains("text/plain"), "{path}: {}", seen.text);
        }
    })
    .await;
}
