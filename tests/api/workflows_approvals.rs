//! Approvals need several people: a key counts as the person behind it, and the starter of a run cannot approve it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Reply, Tenant, TestApp, with_app},
    key_owners::{key_of, person},
    workflows::PATH,
};

const DECIDE: [&str; 2] = ["workflows:approve", "workflows:run"];

pub(crate) struct Bench<'a> {
    app: &'a TestApp,
    tenant: Tenant<'a>,
    /// The author of the workflows, who therefore approves none of their runs.
    author: Actor,
}

impl<'a> Bench<'a> {
    pub(crate) async fn new(app: &'a TestApp) -> Self {
        let tenant = app.tenant("acme").await;
        let author = tenant.admin().await;
        Self { app, tenant, author }
    }

    pub(crate) async fn person(&self, name: &str) -> (Actor, String) {
        person(self.app, &self.author, name, "admin").await
    }

    pub(crate) async fn key(&self, scopes: &[&str]) -> Actor {
        self.tenant.key(scopes).await
    }

    pub(crate) async fn workflow(&self, key: &str, more: Value) {
        let with = json!({"required": 1});
        let mut definition = json!({"key": key, "name": key, "steps": [{"id": "ok", "type": "approval", "with": with}]});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.author.post(PATH).json(json!({"action": "create", "definition": definition})).send().await.ok(201);
    }

    pub(crate) async fn until_waiting(&self, run: &str) {
        let asking =
            async { while self.author.get(&format!("{PATH}/runs/{run}")).send().await.ok(200)["waiting_on"] != "approval" {} };
        tokio::time::timeout(Duration::from_secs(30), asking).await.unwrap();
    }

    pub(crate) async fn start(&self, actor: &Actor, key: &str) -> String {
        let run = actor.post(PATH).json(json!({"workflow_key": key})).send().await.ok(202)["id"].as_str().unwrap().to_owned();
        self.until_waiting(&run).await;
        run
    }
}

async fn decide(actor: &Actor, run: &str, action: &str) -> Reply {
    actor.patch(&format!("{PATH}/runs/{run}")).json(json!({"action": action})).send().await
}

#[track_caller]
fn refused(reply: &Reply, reason: &str) {
    assert_eq!(reply.problem(409), "invalid_transition");
    assert!(reply.body["detail"].as_str().unwrap().contains(reason), "{}", reply.body["detail"]);
}

fn two() -> Value {
    json!({"steps": [{"id": "ok", "type": "approval", "with": {"required": 2}}]})
}

#[tokio::test]
async fn one_person_approves_once() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        let ((starter, _), (ada, _), (bo, _)) =
            (bench.person("starter").await, bench.person("ada").await, bench.person("bo").await);
        bench.workflow("two", two()).await;
        let run = bench.start(&starter, "two").await;
        let (first, _) = key_of(app, &ada, "First", &DECIDE).await;
        let (maker, _) = key_of(app, &ada, "Maker", &["api_keys:*", "workflows:approve", "workflows:run"]).await;
        let (second, _) = key_of(app, &maker, "Second", &DECIDE).await;
        assert_eq!(decide(&first, &run, "approve").await.ok(200)["status"], "waiting");
        for again in [&first, &second, &maker, &ada] {
            refused(&decide(again, &run, "approve").await, "already");
        }
        let nobody = bench.tenant.key(&DECIDE).await;
        refused(&decide(&nobody, &run, "approve").await, "No person");
        assert_ne!(decide(&bo, &run, "approve").await.ok(200)["status"], "waiting");
    })
    .await;
}

#[tokio::test]
async fn the_starter_of_a_run_cannot_approve_it() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        let ((ada, _), (bo, _)) = (bench.person("ada").await, bench.person("bo").await);
        bench.workflow("one", json!({})).await;
        let (key, _) = key_of(app, &ada, "Ada's", &DECIDE).await;
        let asked = "You asked for this run";
        for starter in [&ada, &key] {
            let run = bench.start(starter, "one").await;
            for same in [&ada, &key, &bench.author] {
                refused(&decide(same, &run, "approve").await, asked);
            }
            decide(&bo, &run, "approve").await.ok(200);
        }
        let run = bench.start(&ada, "one").await;
        assert_eq!(decide(&key, &run, "reject").await.ok(200)["status"], "failed", "to stop one's own run is free");
        let retried = bo.patch(&format!("{PATH}/runs/{run}")).json(json!({"action": "retry"})).send().await;
        let retried = retried.body["id"].as_str().unwrap_or_else(|| panic!("{}", retried.text)).to_owned();
        bench.until_waiting(&retried).await;
        for same in [&ada, &key, &bo] {
            refused(&decide(same, &retried, "approve").await, asked);
        }
        let (cy, _) = bench.person("cy").await;
        decide(&cy, &retried, "approve").await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn unchanged_steps_keep_their_authors() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        let ((ada, _), (bo, _)) = (bench.person("ada").await, bench.person("bo").await);
        let key = bench.tenant.key(&["*"]).await;
        bench.workflow("one", json!({})).await;
        let path = {
            let list = ada.get(&format!("{PATH}?limit=50")).send().await.ok(200).clone();
            format!("{PATH}?id={}", list["data"][0]["id"].as_str().unwrap())
        };
        for (editor, name) in [(&ada, "Renamed"), (&key, "Again")] {
            editor.patch(&path).json(json!({"name": name})).send().await.ok(200);
        }
        let run = bench.start(&key, "one").await;
        for author in [&bench.author, &ada] {
            refused(&decide(author, &run, "approve").await, "wrote steps of its definition");
        }
        decide(&bo, &run, "approve").await.ok(200);

        // A person who replaces every step becomes the only author.
        let steps = json!([{"id": "again", "type": "approval", "with": {"required": 1}}]);
        key.patch(&path).json(json!({"steps": steps})).send().await.ok(200);
        let run = bench.start(&key, "one").await;
        decide(&bench.author, &run, "approve").await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn the_actor_behind_a_trigger_cannot_approve() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        let ((ada, _), (bo, _)) = (bench.person("ada").await, bench.person("bo").await);
        bench.workflow("on-ticket", json!({"triggers": [{"type": "event", "event": "ticket.created"}]})).await;
        bench.workflow("called", json!({})).await;
        let call = json!([{"id": "call", "type": "workflow.call", "with": {"workflow_key": "called", "wait": false}}]);
        bench.workflow("calling", json!({"steps": call})).await;
        let organization = bench.tenant.organization("One").await;
        let (key, _) = key_of(app, &ada, "Ada's", &["tickets:write"]).await;
        let run_of = async |workflow: &str| {
            let asking = async {
                loop {
                    let runs = bench.author.get(&format!("{PATH}?view=runs")).send().await;
                    let runs = runs.ok(200)["data"].as_array().unwrap();
                    if let Some(run) = runs.iter().find(|run| run["workflow"]["key"] == workflow) {
                        return run["id"].as_str().unwrap().to_owned();
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(30), asking).await.unwrap()
        };
        key.post("/api/psa/tickets").json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        ada.post(PATH).json(json!({"workflow_key": "calling"})).send().await.ok(202);
        for workflow in ["on-ticket", "called"] {
            let run = run_of(workflow).await;
            bench.until_waiting(&run).await;
            refused(&decide(&ada, &run, "approve").await, "You asked for this run");
            decide(&bo, &run, "approve").await.ok(200);
        }
    })
    .await;
}

#[tokio::test]
async fn losing_the_right_withdraws_the_approval() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        let (starter, _) = bench.person("starter").await;
        let ((bo, _), (cy, _)) = (bench.person("bo").await, bench.person("cy").await);
        bench.workflow("two", two()).await;
        for (number, loss) in [json!({"role": "technician"}), json!({"status": "disabled"})].into_iter().enumerate() {
            let (ada, ada_path) = bench.person(&format!("ada{number}")).await;
            let run = bench.start(&starter, "two").await;
            decide(&ada, &run, "approve").await.ok(200);
            bench.author.put(&ada_path).json(loss.clone()).send().await.ok(200);
            assert_eq!(decide(&bo, &run, "approve").await.ok(200)["status"], "waiting", "{loss}");
            assert_ne!(decide(&cy, &run, "approve").await.ok(200)["status"], "waiting", "{loss}");
        }
    })
    .await;
}
