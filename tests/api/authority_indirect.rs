//! Indirect access obeys the same rules as direct access: a caller that cannot read a record does not see it in an event or a run,
//! and a caller that cannot change it cannot change it through a workflow. The matrices are built from the catalogs, so they
//! include everything that is added later.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Endpoint, Receiver, Tenant, WEBHOOKS, with_app},
    workflows::{PATH, set},
};

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Types of steps or kinds of events, each with the scopes that it needs.
async fn needs(reader: &Actor, path: &str, list: &str) -> Vec<(String, Vec<String>)> {
    let catalog = reader.get(path).send().await.ok(200).clone();
    let entry = |entry: &Value| (entry["type"].as_str().unwrap().to_owned(), texts(&entry["required_scopes"]));
    let found: Vec<_> = catalog[list].as_array().unwrap().iter().map(entry).collect();
    assert!(found.iter().any(|(_, scopes)| !scopes.is_empty()));
    found
}

/// Keys with every scope but one. Each is named after its missing scope and created once.
struct Keys<'a> {
    tenant: Tenant<'a>,
    all: Vec<String>,
    made: std::collections::BTreeMap<String, Actor>,
}

impl<'a> Keys<'a> {
    async fn new(tenant: Tenant<'a>) -> Self {
        let session = tenant.admin().await.get("/api/auth/session").send().await.ok(200).clone();
        Self { tenant, all: texts(&session["scopes"]), made: std::collections::BTreeMap::new() }
    }

    async fn without(&mut self, scope: &str) -> Actor {
        if let Some(key) = self.made.get(scope) {
            return key.clone();
        }
        let scopes: Vec<&str> = self.all.iter().map(String::as_str).filter(|other| *other != scope).collect();
        let (key, _) = self.tenant.new_key(&format!("without {scope}"), &scopes).await;
        self.made.insert(scope.to_owned(), key.clone());
        key
    }
}

fn refused_for(reply: &crate::harness::Reply, scope: &str, what: &str) {
    assert_eq!(reply.problem(403), "insufficient_scope", "{what}");
    assert!(texts(&reply.body["required_scopes"]).contains(&scope.to_owned()), "{what}: {}", reply.body);
}

#[tokio::test]
async fn every_event_needs_the_scope_of_its_record() {
    with_app(async |app| {
        let mut keys = Keys::new(app.tenant("acme").await).await;
        let everything = keys.without("none").await;
        let mut cases = 0;
        for (kind, scopes) in needs(&everything, "/api/events/catalog", "data").await {
            for scope in scopes.iter().filter(|scope| !scope.starts_with("platform:") && *scope != "events:read") {
                let reply = keys.without(scope).await.get(&format!("/api/events?types={kind}")).send().await;
                refused_for(&reply, scope, &kind);
                let trigger = json!({"type": "event", "event": kind});
                let definition = json!({"key": "x", "name": "X", "triggers": [trigger], "steps": [set("a", json!(1))]});
                let body = json!({"action": "create", "definition": definition});
                refused_for(&keys.without(scope).await.post(PATH).json(body).send().await, scope, &kind);
                let wait = json!({"id": "w", "type": "wait.event", "with": {"event": kind}});
                let body = json!({"action": "create", "definition": {"key": "x", "name": "X", "steps": [wait]}});
                refused_for(&keys.without(scope).await.post(PATH).json(body).send().await, scope, &kind);
                cases += 3;
            }
            if !scopes.iter().any(|scope| scope.starts_with("platform:")) {
                everything.get(&format!("/api/events?types={kind}")).send().await.ok(200);
            }
        }
        assert!(cases > 150, "{cases}");
    })
    .await;
}

#[tokio::test]
async fn an_unfiltered_feed_has_only_readable_events() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let organization = tenant.organization("Acme").await;
        let all = tenant.key(&["*"]).await;
        all.post("/api/psa/tickets").json(json!({"subject": "secret", "organization_id": organization})).send().await.ok(201);
        let kinds = async |reader: &Actor| -> BTreeSet<String> {
            let feed = reader.get("/api/events?limit=200").send().await.ok(200).clone();
            feed["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
        };
        let (alone, tickets) = (tenant.key(&["events:read"]).await, tenant.key(&["events:read", "tickets:read"]).await);
        assert_eq!(kinds(&tickets).await, BTreeSet::from(["ticket.created".to_owned()]));
        assert!(kinds(&alone).await.is_empty(), "{:?}", kinds(&alone).await);
        let everything = kinds(&all).await;
        assert!(everything.contains("api_key.created") && everything.contains("organization.created"), "{everything:?}");
        let viewer = kinds(&tenant.user("viewer").await).await;
        assert!(viewer.contains("ticket.created") && !viewer.contains("api_key.created"), "{viewer:?}");
        // A page without readable events still advances.
        let page = alone.get("/api/events?limit=200").send().await.ok(200).clone();
        assert!(page["next_after"].as_u64().unwrap() > 0);
    })
    .await;
}

/// Replaces every template that refers to inputs: the inputs of an example do not exist in a definition of one step.
fn with_known_names(text: &str) -> String {
    let mut parts = text.split("{{");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |made, part| format!("{made}{{{{ inputs.x }}}}{}", part.split_once("}}").unwrap().1))
}

#[tokio::test]
async fn every_step_needs_a_scope_of_its_author() {
    with_app(async |app| {
        let mut keys = Keys::new(app.tenant("acme").await).await;
        let everything = keys.without("none").await;
        let mut cases = 0;
        let catalog = everything.get(&format!("{PATH}?view=catalog")).send().await.ok(200).clone();
        for entry in catalog["step_types"].as_array().unwrap() {
            let name = entry["type"].as_str().unwrap();
            let step = json!({"id": "s", "type": name, "with": entry["example"]});
            let step: Value = serde_json::from_str(&with_known_names(&step.to_string())).unwrap();
            for scope in texts(&entry["required_scopes"]) {
                let body = json!({"action": "create", "definition": {"key": "x", "name": "X", "steps": [step.clone()]}});
                let reply = keys.without(&scope).await.post(PATH).json(body).send().await;
                refused_for(&reply, &scope, name);
                cases += 1;
            }
        }
        assert!(cases >= 16, "{cases}");
    })
    .await;
}

/// Saves a workflow that creates a ticket, with the rights of the author.
async fn ticketing(author: &Actor, organization: &str) -> Value {
    let with = json!({"subject": "made", "organization_id": organization});
    let definition = json!({"key": "t", "name": "T", "steps": [{"id": "make", "type": "ticket.create", "with": with}]});
    author.post(PATH).json(json!({"action": "create", "definition": definition})).send().await.ok(201).clone()
}

#[tokio::test]
async fn a_run_has_the_common_rights_of_author_and_starter() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let organization = tenant.organization("Acme").await;
        let (author, record) = tenant.new_key("author", &["workflows:*", "tickets:*"]).await;
        ticketing(&author, &organization).await;
        let weak = tenant.key(&["workflows:*"]).await;
        let start = json!({"workflow_key": "t", "inputs": {}});
        refused_for(&weak.post(PATH).json(start.clone()).send().await, "tickets:write", "a start");
        let dry = weak.post(PATH).json(json!({"workflow_key": "t", "inputs": {}, "dry_run": true})).send().await.ok(200).clone();
        assert_eq!(dry["steps"][0]["error"]["code"], "insufficient_scope", "{dry}");
        // The author's key is disabled: its workflow waits until a caller with the rights takes it over.
        let admin = tenant.admin().await;
        let path = format!("/api/admin/api-keys/{}", record["id"].as_str().unwrap());
        admin.put(&path).json(json!({"enabled": false})).send().await.ok(200);
        let run = admin.post(PATH).json(start.clone()).send().await.ok(202).clone();
        let read = format!("{PATH}?run_id={}", run["id"].as_str().unwrap());
        let waiting = async {
            loop {
                let run = admin.get(&read).send().await.ok(200).clone();
                if run["waiting_on"] == "authority" {
                    return run;
                }
                assert_ne!(run["status"], "succeeded", "{run}");
            }
        };
        let run = tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.unwrap();
        assert_eq!(run["steps"][0]["input"]["required_scopes"], json!(["tickets:read", "tickets:write"]));
        assert_eq!(admin.get("/api/psa/tickets").send().await.ok(200)["data"], json!([]));
        refused_for(
            &weak.post(PATH).json(json!({"action": "take_over", "workflow_key": "t"})).send().await,
            "tickets:write",
            "a takeover",
        );
        let taken = admin.post(PATH).json(json!({"action": "take_over", "workflow_key": "t"})).send().await.ok(200).clone();
        assert_eq!(taken["version"], 2);
        let run = admin.post(PATH).json(start).send().await.ok(202).clone();
        let read = format!("{PATH}?run_id={}&wait_seconds=30", run["id"].as_str().unwrap());
        assert_eq!(admin.get(&read).send().await.ok(200)["status"], "succeeded");
        // Any key with the scope of workflows can disable it.
        weak.patch(&format!("{PATH}?id={}", taken["id"].as_str().unwrap())).json(json!({"enabled": false})).send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn run_data_is_hidden_without_the_right_to_read_it() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let organization = tenant.organization("Acme").await;
        let author = tenant.key(&["*"]).await;
        ticketing(&author, &organization).await;
        let run = author.post(PATH).json(json!({"workflow_key": "t", "inputs": {"x": 1}})).send().await.ok(202).clone();
        let read = format!("{PATH}?run_id={}&wait_seconds=30", run["id"].as_str().unwrap());
        assert_eq!(author.get(&read).send().await.ok(200)["steps"][0]["output"]["subject"], "made");
        let stranger = tenant.key(&["workflows:read", "events:read"]).await;
        let shown = stranger.get(&read).send().await.ok(200).clone();
        let hidden = json!({"redacted": true, "required_scopes": ["tickets:read"]});
        assert_eq!((&shown["inputs"], &shown["steps"][0]["output"], &shown["steps"][0]["input"]), (&hidden, &hidden, &hidden));
        let listed = stranger.get(&format!("{PATH}?view=runs")).send().await.ok(200).clone();
        assert_eq!(listed["data"][0]["inputs"], hidden);
        let events = stranger.get("/api/events?types=workflow.run.*").send().await.ok(200).clone();
        for event in events["data"].as_array().unwrap() {
            assert!(event["data"]["run"].get("inputs").is_none() && event["data"]["run"].get("output").is_none(), "{event}");
        }
        assert!(!events["data"].as_array().unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_search_step_has_the_rights_of_its_author() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let organization = tenant.organization("Acme").await;
        let all = tenant.key(&["*"]).await;
        all.post("/api/psa/tickets").json(json!({"subject": "zebra", "organization_id": organization})).send().await.ok(201);
        for (name, scopes, total) in
            [("blind", vec!["workflows:*", "search:read"], 0), ("seeing", vec!["workflows:*", "search:read", "tickets:read"], 1)]
        {
            let (key, _) = tenant.new_key(name, &scopes).await;
            let step = json!({"id": "find", "type": "search.query", "with": {"q": "zebra"}});
            let body = json!({"action": "create", "definition": {"key": name, "name": name, "steps": [step]}});
            key.post(PATH).json(body).send().await.ok(201);
            let run = key.post(PATH).json(json!({"workflow_key": name, "inputs": {}})).send().await.ok(202).clone();
            let run =
                key.get(&format!("{PATH}?run_id={}&wait_seconds=30", run["id"].as_str().unwrap())).send().await.ok(200).clone();
            assert_eq!(run["steps"][0]["output"]["total"], total, "{name}: {run}");
        }
    })
    .await;
}

#[tokio::test]
async fn deliveries_check_the_owner_at_each_attempt() {
    with_app(async |app| {
        let tenant = app.evaluation_tenant("acme").await;
        let organization = tenant.organization("Acme").await;
        let receiver = Receiver::always(200).await;
        let (owner, record) = tenant.new_key("owner", &["webhooks:*", "tickets:read"]).await;
        let body = json!({"name": "X", "url": receiver.url(), "events": ["ticket.*", "api_key.*"]});
        refused_for(&owner.post(WEBHOOKS).json(body).send().await, "api_keys:read", "a subscription");
        let endpoint = Endpoint::of(owner, &receiver.url(), json!({"events": ["*"]})).await;
        let all = tenant.key(&["*"]).await;
        let ticket = async |subject: &str| {
            all.post("/api/psa/tickets").json(json!({"subject": subject, "organization_id": organization})).send().await.ok(201);
        };
        tenant.key(&["tickets:write"]).await;
        ticket("first").await;
        // The event of the key created before the ticket is not sent, so the ticket is first.
        let mut received = receiver.next().await.json();
        while received["type"] == "webhook.created" {
            received = receiver.next().await.json();
        }
        assert_eq!(received["type"], "ticket.created");
        // A waiting delivery is checked again before it is sent.
        endpoint.ask("pause").await.ok(200);
        ticket("second").await;
        let path = format!("/api/admin/api-keys/{}", record["id"].as_str().unwrap());
        all.put(&path).json(json!({"scopes": ["webhooks:read", "webhooks:write"]})).send().await.ok(200);
        endpoint.ask("resume").await.ok(200);
        let skipped = endpoint.until(|found| found.iter().any(|delivery| delivery["status"] == "skipped")).await;
        let skipped: Vec<&Value> = skipped.iter().filter(|delivery| delivery["status"] == "skipped").collect();
        assert!(
            skipped.iter().all(|delivery| delivery["skipped_reason"] == "not_readable" && delivery["type"] == "ticket.created")
        );
        assert_eq!(endpoint.read().await["health"]["state"], "healthy");
        // A caller who changes the target gets only the events that this caller may read.
        let weak = tenant.key(&["webhooks:*"]).await;
        weak.put(&endpoint.path).json(json!({"url": format!("{}/other", receiver.url())})).send().await.ok(200);
        all.put(&path).json(json!({"scopes": ["webhooks:*", "tickets:read"]})).send().await.ok(200);
        ticket("third").await;
        weak.put(&endpoint.path).json(json!({"description": "last"})).send().await.ok(200);
        loop {
            let received = receiver.next().await.json();
            assert_ne!(received["type"], "ticket.created", "{received}");
            if received["data"]["webhook"]["description"] == "last" {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn redelivery_needs_the_right_to_read_the_event() {
    with_app(async |app| {
        let tenant = app.evaluation_tenant("acme").await;
        let organization = tenant.organization("Acme").await;
        let receiver = Receiver::always(200).await;
        let endpoint = Endpoint::of(tenant.key(&["*"]).await, &receiver.url(), json!({"events": ["ticket.*", "webhook.*"]})).await;
        let ticket = json!({"subject": "Printer", "organization_id": organization});
        endpoint.admin.post("/api/psa/tickets").json(ticket).send().await.ok(201);
        assert_eq!(receiver.next().await.json()["type"], "ticket.created");
        let sent = endpoint.until_all(1, "delivered").await.remove(0);
        let weak = tenant.key(&["webhooks:*"]).await;
        let redeliver = format!("{}/deliveries/{}/redeliver", endpoint.path, sent["id"].as_str().unwrap());
        refused_for(&weak.post(&redeliver).send().await, "tickets:read", "a redelivery");
        let replay = async |actor: &Actor| {
            let range = json!({"from_seq": 1, "only": "all"});
            let asked = actor.post(&format!("{}/replay", endpoint.path)).json(range).send().await.ok(202).clone();
            let progress = format!("{}/replays/{}", endpoint.path, asked["id"].as_str().unwrap());
            loop {
                let replay = actor.get(&progress).send().await.ok(200).clone();
                if replay["status"] == "succeeded" {
                    break replay["queued"].as_u64().unwrap();
                }
            }
        };
        assert_eq!(replay(&weak).await, 1);
        assert_eq!(receiver.next().await.json()["type"], "webhook.created");
        endpoint.admin.post(&redeliver).send().await.ok(202);
        assert_eq!(receiver.next().await.json()["type"], "ticket.created");
        endpoint.until_all(2, "delivered").await;
        assert_eq!(replay(&endpoint.admin).await, 2);
    })
    .await;
}
