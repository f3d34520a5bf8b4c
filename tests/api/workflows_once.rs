//! Requests about runs that come twice or too late, and definitions that could never do what they say.

use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestApp, with_app},
    workflows::{Desk, PATH, set},
    workflows_approvals::Bench,
};

/// A run that has failed.
async fn failed(desk: &Desk) -> Value {
    desk.workflow("w", json!([{"id": "f", "type": "fail", "with": {"message": "No."}}])).await;
    let run = desk.start("w", json!({})).await;
    desk.status(&run, "failed").await
}

#[tokio::test]
async fn a_retry_with_a_key_starts_one_run() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let run = failed(&desk).await["id"].as_str().unwrap().to_owned();
        let (by_path, by_query) = (format!("{PATH}/runs/{run}"), format!("{PATH}?run_id={run}"));
        for (number, path) in [by_path, by_query].iter().enumerate() {
            let retry = || desk.key.patch(path).header("idempotency-key", "again").json(json!({"action": "retry"})).send();
            let both: Vec<Reply> = futures_util::future::join_all([retry(), retry()]).await;
            assert!(both.iter().all(|reply| reply.status == 200 || reply.problem(409) == "idempotency_in_progress"), "{path}");
            let first = both.iter().find(|reply| reply.status == 200).unwrap();
            let later = retry().await;
            assert_eq!((later.header("idempotency-replayed"), &later.ok(200)["id"]), ("true", &first.body["id"]), "{path}");
            assert_eq!(first.body["retry_of"], run, "{path}");
            assert_eq!(desk.runs("").await.len(), 2 + number, "{path}");
        }
        let other = desk.key.patch(&format!("{PATH}/runs/{run}")).header("idempotency-key", "again");
        assert_eq!(other.json(json!({"action": "resume"})).send().await.problem(422), "idempotency_key_reused");
    })
    .await;
}

#[tokio::test]
async fn a_change_with_a_key_makes_one_version() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let workflow = desk.workflow("w", json!([set("a", json!(1))])).await;
        let path = format!("{PATH}?id={}", workflow["id"].as_str().unwrap());
        let rename = |name: &str| desk.key.patch(&path).header("idempotency-key", name).json(json!({"name": name})).send();
        assert_eq!(rename("One").await.ok(200)["version"], 2);
        assert_eq!(rename("Two").await.ok(200)["version"], 3);
        let again = rename("One").await;
        assert_eq!((again.header("idempotency-replayed"), &again.ok(200)["version"]), ("true", &json!(2)));
        assert_eq!(desk.key.get(&path).send().await.ok(200)["name"], "Two");
    })
    .await;
}

async fn decide(actor: &crate::harness::Actor, run: &str, step: Option<&str>) -> Reply {
    let mut body = json!({"action": "approve", "comment": "Mine."});
    if let Some(step) = step {
        body["step"] = step.into();
    }
    actor.patch(&format!("{PATH}/runs/{run}")).json(body).send().await
}

#[tokio::test]
async fn a_late_decision_says_who_decided_and_when() {
    with_app(async |app: &TestApp| {
        let bench = Bench::new(app).await;
        let ((starter, _), (ada, ada_path), (bo, _)) =
            (bench.person("starter").await, bench.person("ada").await, bench.person("bo").await);
        let steps = json!([{"id": "ok", "type": "approval"}, {"id": "then", "type": "approval"}]);
        bench.workflow("two", json!({"steps": steps})).await;
        let run = bench.start(&starter, "two").await;
        let ada_id = ada_path.rsplit('/').next().unwrap().to_owned();
        decide(&ada, &run, Some("ok")).await.ok(200);
        bench.until_waiting(&run).await;
        let late = decide(&bo, &run, Some("ok")).await;
        assert_eq!(late.problem(409), "invalid_transition");
        assert_eq!((&late.body["decided_by"], &late.body["decided_at"]), (&json!(ada_id), &json!(app.now().to_string())));
        let detail = late.body["detail"].as_str().unwrap();
        assert!(detail.contains("ada approved the step ok") && detail.contains("was not recorded"), "{detail}");
        decide(&bo, &run, Some("then")).await.ok(200);
        let ended = starter.get(&format!("{PATH}/runs/{run}?wait_seconds=30")).send().await.ok(200).clone();
        assert_eq!(ended["status"], "succeeded");
        let late = decide(&ada, &run, None).await;
        assert_eq!(late.problem(409), "invalid_transition");
        assert!(late.body["detail"].as_str().unwrap().contains("bo approved the step then"), "{}", late.text);
        let comments = ended["steps"][0]["decisions"].as_array().unwrap().len();
        assert_eq!(comments, 1, "the late decision is not stored");
        // Somebody who may not decide learns nothing of who did.
        let runner = bench.key(&["workflows:run"]).await;
        assert_eq!(decide(&runner, &run, Some("ok")).await.problem(403), "insufficient_scope");
        let nothing = decide(&ada, &run, Some("missing")).await;
        assert_eq!(nothing.problem(409), "run_not_cancellable");
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_refuses_a_ticket_as_a_start_does() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        desk.workflow("w", json!([set("a", json!(1))])).await;
        desk.ticket("Printer").await;
        let start = |subject: &str, dry_run: bool| {
            desk.key.post(PATH).json(json!({"workflow_key": "w", "subject_id": subject, "dry_run": dry_run})).send()
        };
        for dry_run in [true, false] {
            let refused = start("T-4711", dry_run).await;
            assert_eq!(refused.problem(422), "validation_failed");
            assert_eq!(refused.field_errors(), [("/subject_id".to_owned(), "unknown_reference".to_owned())], "{dry_run}");
            start("T-1", dry_run).await.ok(if dry_run { 200 } else { 202 });
        }
    })
    .await;
}

#[tokio::test]
async fn a_definition_that_nobody_could_approve_or_name_is_refused() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let approval = |roles: Value| json!([{"id": "ok", "type": "approval", "with": {"roles": roles}}]);
        let inner = json!([{"id": "if", "type": "if", "with": {"condition": "true", "then": approval(json!(["viewer"]))}}]);
        for (steps, place) in [
            (approval(json!(["viewer"])), "/definition/steps/0/with/roles/0"),
            (approval(json!(["admin", "viewer"])), "/definition/steps/0/with/roles/1"),
            (inner, "/definition/steps/0/with/then/0/with/roles/0"),
        ] {
            let refused = desk.try_create(json!({"key": "a", "name": "A", "steps": steps})).await;
            assert_eq!(refused.problem(422), "validation_failed");
            assert_eq!(refused.field_errors(), [(place.to_owned(), "not_allowed".to_owned())]);
        }
        let workflow = desk.workflow("a", approval(json!(["admin", "technician"]))).await;
        let path = format!("{PATH}?id={}", workflow["id"].as_str().unwrap());
        let changed = desk.key.patch(&path).json(json!({"steps": approval(json!(["viewer"]))})).send().await;
        assert_eq!(changed.field_errors()[0].0, "/steps/0/with/roles/0");
        let blank = desk.try_create(json!({"key": "b", "name": "\u{200b}\u{2060}", "steps": [set("a", json!(1))]})).await;
        assert_eq!(blank.field_errors(), [("/definition/name".to_owned(), "wrong_form".to_owned())]);
        let catalog = desk.key.get(&format!("{PATH}?view=catalog")).send().await.ok(200).clone();
        assert!(!catalog["steps"].to_string().contains("viewer"), "the catalog offers only roles that can decide");
    })
    .await;
}
