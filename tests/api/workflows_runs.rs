//! Execution of runs: control steps, effects, retries, timeouts, approvals, concurrency, transitions, restarts.

use std::time::Duration;

use serde_json::{Value, json};

use tenantd_base::clock::Timestamp;

use crate::{
    harness::{Receiver, Script, Setup, TestApp, with_app},
    workflows::{Desk, PATH, set, step},
};

#[tokio::test]
async fn steps_act_as_the_workflow_and_name_the_run() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let steps = json!([
            {"id": "ticket", "type": "ticket.create", "with": {"subject": "From {{ inputs.who }}", "organization_id": desk.organization}},
            {"id": "note", "type": "ticket.comment", "with": {"id": "{{ steps.ticket.output.id }}", "body": "Ticket {{ steps.ticket.output.ref }}"}},
            {"id": "raise", "type": "ticket.update", "with": {"id": "{{ steps.ticket.output.ref }}", "priority": "high"}},
            {"id": "end", "type": "return", "with": {"output": "{{ steps.raise.output.priority }}"}},
        ]);
        let workflow = desk.workflow("act", steps).await;
        let run = desk.start("act", json!({"who": "Ada"})).await;
        let ended = desk.status(&run, "succeeded").await;
        assert_eq!(ended["output"], "high");
        let made = step(&ended, "ticket");
        assert_eq!((&made["effects"][0]["kind"], &made["effects"][0]["id"]), (&json!("ticket"), &made["output"]["id"]));
        assert_eq!((&made["input"]["subject"], &made["attempts"]), (&json!("From Ada"), &json!(1)));
        let tickets = desk.tickets().await;
        assert_eq!((tickets.len(), &tickets[0]["source"], &tickets[0]["counts"]["comments"]), (1, &json!("workflow"), &json!(1)));
        let events = desk.key.get("/api/events?types=ticket.*,workflow.*").send().await.ok(200)["data"].as_array().unwrap().clone();
        let created = events.iter().find(|event| event["type"] == "ticket.created").unwrap();
        assert_eq!((&created["actor"]["kind"], &created["actor"]["id"]), (&json!("workflow"), &workflow["id"]));
        assert_eq!(created["cause"]["run_id"], run["id"]);
        for kind in ["workflow.created", "workflow.run.started", "workflow.run.succeeded"] {
            assert!(events.iter().any(|event| event["type"] == kind), "{kind}");
        }
        let unchanged = desk.read(&run).await;
        assert_eq!(unchanged["version"], ended["version"], "an ended run never changes");
    })
    .await;
}

#[tokio::test]
async fn control_steps_branch_loop_and_join() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let each = json!({"items": "{{ inputs.list }}", "max_parallel": 3, "steps": [
            {"id": "inner", "type": "set", "with": {"double": "{{ item | times(2) }}", "at": "{{ item_index }}"}},
            {"id": "small", "type": "set", "if": "steps.inner.output.double < 6", "with": {"yes": true}},
        ]});
        let both = json!({"branches": [[set("left", json!("l"))], [set("right", json!("r")), set("more", json!("{{ steps.right.output.value }}!"))]]});
        let steps = json!([
            {"id": "each", "type": "for_each", "with": each},
            {"id": "which", "type": "if", "with": {"condition": "steps.each.output.count > 3", "then": [set("many", json!(true))], "else": [set("few", json!(true))]}},
            {"id": "both", "type": "parallel", "with": both},
            {"id": "check", "type": "assert", "with": {"condition": "steps.more.output.value == 'r!'"}},
            {"id": "end", "type": "return", "with": {"output": {"count": "{{ steps.each.output.count }}", "few": "{{ steps.few.output.value }}"}}},
        ]);
        desk.workflow("control", steps).await;
        let run = desk.start("control", json!({"list": [1, 2, 5]})).await;
        let ended = desk.status(&run, "succeeded").await;
        assert_eq!(ended["output"], json!({"count": 3, "few": true}));
        let each = [(2, 0), (4, 1), (10, 2)].map(|(double, at)| json!({"inner": {"double": double, "at": at}}));
        let outputs = step(&ended, "each")["output"]["outputs"].clone();
        assert_eq!([&outputs[0]["inner"], &outputs[1]["inner"], &outputs[2]["inner"]], [&each[0]["inner"], &each[1]["inner"], &each[2]["inner"]]);
        assert_eq!((&outputs[0]["small"]["yes"], outputs[2].get("small")), (&json!(true), None), "a step that was skipped has no output");
        assert_eq!(step(&ended, "each[2]/inner")["output"], json!({"double": 10, "at": 2}));
        assert_eq!(step(&ended, "each[0]/small")["status"], "succeeded");
        assert_eq!(step(&ended, "each[2]/small")["status"], "skipped");
        assert!(step(&ended, "many").is_null());
        let many = desk.start("control", json!({"list": (0..200).collect::<Vec<_>>()})).await;
        let failed = desk.status(&many, "failed").await;
        assert_eq!((&failed["error"]["code"], &failed["error"]["step"]), (&json!("expression_failed"), &json!("end")), "the other branch was taken");
        assert_eq!(step(&failed, "each")["output"]["count"], 200);
        let too_many = desk.start("control", json!({"list": (0..1001).collect::<Vec<_>>()})).await;
        assert_eq!(desk.status(&too_many, "failed").await["error"]["code"], "invalid_input");
        let none = desk.start("control", json!({"list": []})).await;
        assert_eq!(desk.status(&none, "succeeded").await["output"]["count"], 0);
    })
    .await;
}

#[tokio::test]
async fn a_failure_ends_its_block_and_runs_the_failure_steps() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let definition = json!({
            "key": "fails", "name": "F",
            "steps": [
                {"id": "soft", "type": "fail", "with": {"message": "never mind", "code": "soft"}, "on_error": "continue"},
                {"id": "seen", "type": "set", "with": {"v": "{{ steps.soft.error.code }}"}},
                {"id": "both", "type": "parallel", "with": {"branches": [
                    [{"id": "long", "type": "wait.duration", "with": {"seconds": 3600}}],
                    [{"id": "hard", "type": "fail", "with": {"message": "no {{ inputs.what }}", "code": "hard"}}],
                ]}},
                {"id": "never", "type": "set"},
            ],
            "on_failure": [{"id": "tell", "type": "ticket.create", "with": {"subject": "{{ run.error.code }}: {{ run.error.message }}", "organization_id": desk.organization}}],
        });
        desk.create(definition).await;
        let run = desk.start("fails", json!({"what": "way"})).await;
        let ended = desk.status(&run, "failed").await;
        assert_eq!((&ended["error"]["code"], &ended["error"]["message"], &ended["error"]["step"]), (&json!("hard"), &json!("no way"), &json!("hard")));
        assert_eq!((&step(&ended, "seen")["output"]["v"], &step(&ended, "long")["status"]), (&json!("soft"), &json!("cancelled")));
        assert_eq!((&step(&ended, "both")["status"], step(&ended, "never").is_null()), (&json!("failed"), true));
        assert_eq!(desk.tickets().await[0]["subject"], "hard: no way");
        let retried = desk.steer(&run, "retry").await;
        assert_eq!(retried.ok(200)["retry_of"], run["id"]);
        assert_eq!(retried.body["inputs"], json!({"what": "way"}));
        desk.status(&retried.body, "failed").await;
        assert_eq!(desk.read(&run).await["version"], ended["version"]);
    })
    .await;
}

/// Moves the clock to a time in a record.
fn advance_to(app: &TestApp, at: &Value) {
    let at = Timestamp::parse(at.as_str().unwrap()).unwrap();
    app.advance(at.since(app.now()));
}

#[tokio::test]
async fn a_call_is_retried_with_growing_delays() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let receiver = Receiver::start(|number, _| if number < 3 { Script::status(503) } else { Script::status(200) }).await;
        let with = json!({"method": "POST", "url": receiver.url(), "headers": {"authorization": "Bearer {{ inputs.token }}", "x-plain": "seen"}, "body": {"n": "{{ inputs.n }}"}});
        let retry = json!({"max_attempts": 4, "backoff": "exponential", "initial_seconds": 10, "max_seconds": 25});
        desk.workflow("call", json!([{"id": "call", "type": "http.request", "with": with, "retry": retry}])).await;
        let run = desk.start("call", json!({"n": 7, "token": "tck_secret"})).await;
        let mut keys = Vec::new();
        for (attempt, delay) in [(1_u64, 10_u64), (2, 20), (3, 25)] {
            let sent = receiver.next().await;
            assert_eq!((sent.header("authorization"), sent.json()), ("Bearer tck_secret", json!({"n": 7})));
            keys.push(sent.header("idempotency-key").to_owned());
            let waiting = desk.until(&run, |run| run["waiting_on"] == "retry" && step(run, "call")["attempts"] == attempt).await;
            let call = step(&waiting, "call");
            assert_eq!((&waiting["status"], &call["status"], &call["error"]["code"]), (&json!("waiting"), &json!("retrying"), &json!("http_status")));
            let next = Timestamp::parse(call["next_attempt_at"].as_str().unwrap()).unwrap();
            assert_eq!(next.since(app.now()), Duration::from_secs(delay));
            assert!(receiver.is_quiet().await);
            advance_to(app, &call["next_attempt_at"]);
        }
        keys.push(receiver.next().await.header("idempotency-key").to_owned());
        let ended = desk.status(&run, "succeeded").await;
        keys.dedup();
        assert_eq!(keys, [format!("{}/call", run["id"].as_str().unwrap())]);
        let call = step(&ended, "call");
        assert_eq!((&call["attempts"], &call["output"]["status"]), (&json!(4), &json!(200)));
        assert_eq!(call["input"]["headers"], json!({"authorization": "[hidden]", "x-plain": "seen"}));
        let gone = Receiver::always(404).await;
        desk.workflow("gone", json!([{"id": "call", "type": "http.request", "with": {"url": gone.url()}, "retry": {"max_attempts": 5}}])).await;
        let failed = desk.start("gone", json!({})).await;
        assert_eq!(step(&desk.status(&failed, "failed").await, "call")["attempts"], 1, "what cannot get better is not tried again");
        let inside = json!([{"id": "call", "type": "http.request", "with": {"url": "http://169.254.169.254/latest"}}]);
        desk.workflow("inside", inside).await;
        let blocked = desk.start("inside", json!({})).await;
        assert_eq!(desk.status(&blocked, "failed").await["error"]["code"], "http_blocked");
    })
    .await;
}

#[tokio::test]
async fn waits_and_timeouts_follow_the_clock() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let waits = json!([
            {"id": "w", "type": "wait.duration", "with": {"seconds": "{{ inputs.seconds }}"}},
            {"id": "e", "type": "wait.event", "with": {"event": "ticket.created", "condition": "event.data.ticket.subject == inputs.wanted"}, "timeout_seconds": 100, "on_error": "continue"},
            {"id": "end", "type": "return", "with": {"output": "{{ steps.e.status }}"}},
        ]);
        desk.create(json!({"key": "waits", "name": "W", "timeout_seconds": 1000, "steps": waits})).await;
        let inputs = |seconds: u64| json!({"seconds": seconds, "wanted": "yes"});
        let (late, event, slow) = (desk.start("waits", inputs(60)).await, desk.start("waits", inputs(60)).await, desk.start("waits", inputs(2000)).await);
        for run in [&late, &event, &slow] {
            assert_eq!(desk.status(run, "waiting").await["waiting_on"], "time");
        }
        app.advance(Duration::from_mins(1));
        for run in [&late, &event] {
            desk.until(run, |run| run["waiting_on"] == "event").await;
        }
        desk.ticket("no").await;
        desk.steer(&late, "pause").await.ok(200);
        desk.ticket("yes").await;
        let ended = desk.status(&event, "succeeded").await;
        assert_eq!((&ended["output"], &step(&ended, "e")["output"]["data"]["ticket"]["subject"]), (&json!("succeeded"), &json!("yes")));
        let resumed = desk.steer(&late, "resume").await;
        let resumed = desk.until(resumed.ok(200), |run| run["status"] != "running").await;
        if resumed["status"] == "waiting" {
            app.advance(Duration::from_secs(100));
            assert_eq!(desk.status(&late, "succeeded").await["output"], "timed_out");
        }
        app.advance(Duration::from_secs(1000));
        let timed_out = desk.status(&slow, "timed_out").await;
        assert_eq!(step(&timed_out, "w")["status"], "cancelled");
    })
    .await;
}

#[tokio::test]
async fn an_approval_needs_enough_other_people() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, technician, viewer) = (tenant.admin().await, tenant.user("technician").await, tenant.user("viewer").await);
        let steps = json!([{"id": "ok", "type": "approval", "with": {"roles": ["admin", "technician"], "required": 2, "timeout_seconds": 3600, "message": "Go?"}}, set("after", json!(1))]);
        admin.post(PATH).json(json!({"action": "create", "definition": {"key": "ask", "name": "Ask", "steps": steps}})).send().await.ok(201);
        let start = async || admin.post(PATH).json(json!({"workflow_key": "ask"})).send().await.ok(202)["id"].as_str().unwrap().to_owned();
        let waiting = async |run: &str| {
            let asking = async {
                loop {
                    let found = admin.get(&format!("{PATH}/runs/{run}")).send().await.ok(200).clone();
                    if found["waiting_on"] == "approval" {
                        return found;
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(30), asking).await.unwrap()
        };
        let decide = async |who: &crate::harness::Actor, run: &str, action: &str| {
            who.patch(&format!("{PATH}/runs/{run}")).json(json!({"action": action, "comment": "because"})).send().await
        };
        let run = start().await;
        waiting(&run).await;
        let own = decide(&admin, &run, "approve").await;
        assert_eq!(own.problem(409), "invalid_transition");
        assert_eq!(decide(&viewer, &run, "approve").await.status, 403);
        assert_eq!(decide(&technician, &run, "approve").await.ok(200)["status"], "waiting");
        assert_eq!(decide(&technician, &run, "approve").await.problem(409), "invalid_transition");
        let rejected = decide(&admin, &run, "reject").await;
        assert_eq!((&rejected.ok(200)["status"], &rejected.body["error"]["code"]), (&json!("failed"), &json!("rejected")));
        let decisions = &step(&rejected.body, "ok")["decisions"];
        assert_eq!((&decisions[0]["by"]["name"], &decisions[0]["approved"], &decisions[1]["comment"]), (&json!("technician"), &json!(true), &json!("because")));
        assert_eq!(decide(&technician, &run, "approve").await.problem(409), "invalid_transition", "the step is already decided");
        let late = start().await;
        waiting(&late).await;
        let requested = admin.get("/api/events?types=workflow.run.waiting").send().await;
        assert_eq!(requested.ok(200)["data"].as_array().unwrap().len(), 2);
        app.advance(Duration::from_hours(1));
        let ended = admin.get(&format!("{PATH}/runs/{late}?wait_seconds=30")).send().await;
        assert_eq!((&ended.ok(200)["status"], &ended.body["error"]["code"]), (&json!("failed"), &json!("approval_timed_out")));
        let itself = json!([{"id": "ok", "type": "approval", "with": {"self_approval": true}}]);
        admin.post(PATH).json(json!({"action": "create", "definition": {"key": "self", "name": "Self", "steps": itself}})).send().await.ok(201);
        let run = admin.post(PATH).json(json!({"workflow_key": "self"})).send().await.ok(202)["id"].as_str().unwrap().to_owned();
        waiting(&run).await;
        assert_eq!(decide(&technician, &run, "approve").await.problem(403), "insufficient_scope");
        decide(&admin, &run, "approve").await.ok(200);
        let ended = admin.get(&format!("{PATH}/runs/{run}?wait_seconds=30")).send().await;
        assert_eq!(ended.ok(200)["status"], "succeeded");
    })
    .await;
}

#[tokio::test]
async fn every_concurrency_policy_works() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let wait = json!([{"id": "w", "type": "wait.duration", "with": {"seconds": 60}}]);
        for policy in ["queue", "reject", "use_existing", "cancel_existing"] {
            let concurrency = json!({"key": "{{ inputs.k }}", "limit": 1, "on_conflict": policy});
            desk.create(json!({"key": policy.replace('_', "-"), "name": policy, "concurrency": concurrency, "steps": wait})).await;
        }
        let first = desk.start("queue", json!({"k": "a"})).await;
        desk.status(&first, "waiting").await;
        let (second, third, other) = (
            desk.start("queue", json!({"k": "a"})).await,
            desk.start("queue", json!({"k": "a"})).await,
            desk.start("queue", json!({"k": "b"})).await,
        );
        assert_eq!((&second["status"], &second["waiting_on"]), (&json!("queued"), &json!("concurrency")));
        desk.status(&other, "waiting").await;
        desk.steer(&second, "cancel").await.ok(200);
        assert_eq!(desk.read(&third).await["status"], "queued", "one that queued leaves no place behind");
        desk.steer(&first, "cancel").await.ok(200);
        assert_eq!(desk.status(&third, "waiting").await["waiting_on"], "time");
        let first = desk.start("reject", json!({"k": "a"})).await;
        let refused = desk.key.post(PATH).json(json!({"workflow_key": "reject", "inputs": {"k": "a"}})).send().await;
        assert_eq!((refused.problem(409), &refused.body["run_id"]), ("in_use", &first["id"]));
        let first = desk.start("use-existing", json!({"k": "a"})).await;
        let same = desk.key.post(PATH).json(json!({"workflow_key": "use-existing", "inputs": {"k": "a"}})).send().await;
        assert_eq!(same.ok(200)["id"], first["id"]);
        let first = desk.start("cancel-existing", json!({"k": "a"})).await;
        let second = desk.start("cancel-existing", json!({"k": "a"})).await;
        assert_eq!(desk.read(&first).await["status"], "cancelled");
        desk.status(&second, "waiting").await;
    })
    .await;
}

#[tokio::test]
async fn a_called_workflow_returns_its_output() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        desk.workflow("inner", json!([{"id": "w", "type": "wait.duration", "if": "inputs.wait", "with": {"seconds": 60}}, {"id": "end", "type": "return", "with": {"output": {"got": "{{ inputs.x }}"}}}])).await;
        let call = json!({"id": "call", "type": "workflow.call", "with": {"workflow_key": "inner", "inputs": "{{ inputs }}"}});
        desk.workflow("outer", json!([call, {"id": "end", "type": "return", "with": {"output": "{{ steps.call.output.got }}"}}])).await;
        let run = desk.start("outer", json!({"x": 5})).await;
        assert_eq!(desk.status(&run, "succeeded").await["output"], 5);
        let run = desk.start("outer", json!({"x": 5, "wait": true})).await;
        let waiting = desk.status(&run, "waiting").await;
        let inner = json!({"id": step(&waiting, "call")["effects"][0]["id"]});
        assert_eq!(desk.status(&inner, "waiting").await["trigger"]["run_id"], run["id"]);
        desk.steer(&run, "cancel").await.ok(200);
        assert_eq!(desk.read(&inner).await["status"], "cancelled");
        let dynamic = json!({"id": "again", "type": "workflow.call", "with": {"workflow_key": "{{ inputs.key }}", "inputs": {"key": "{{ inputs.key }}"}}});
        desk.workflow("dynamic", json!([dynamic])).await;
        let run = desk.start("dynamic", json!({"key": "dynamic"})).await;
        desk.status(&run, "failed").await;
        let failed = desk.runs("&status=failed").await;
        assert_eq!(failed.iter().filter(|run| run["error"]["code"] == "loop_detected").count(), 1);
        assert_eq!(failed.len(), 10, "eight below the first, and the one that was refused");
    })
    .await;
}

#[tokio::test]
async fn invalid_run_transitions_are_a_conflict() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        desk.workflow("w", json!([{"id": "w", "type": "wait.duration", "with": {"seconds": 60}}])).await;
        let run = desk.start("w", json!({})).await;
        desk.status(&run, "waiting").await;
        for action in ["resume", "retry", "approve", "reject"] {
            assert_eq!(desk.steer(&run, action).await.problem(409), "invalid_transition", "{action}");
        }
        assert_eq!(desk.steer(&run, "pause").await.ok(200)["status"], "paused");
        assert_eq!(desk.steer(&run, "pause").await.problem(409), "invalid_transition");
        app.advance(Duration::from_mins(2));
        assert_eq!(desk.read(&run).await["status"], "paused", "time does nothing to a paused run");
        desk.steer(&run, "resume").await.ok(200);
        desk.status(&run, "succeeded").await;
        for action in ["cancel", "pause", "resume"] {
            assert_eq!(desk.steer(&run, action).await.problem(409), "run_not_cancellable", "{action}");
        }
        assert_eq!(desk.steer(&run, "retry").await.problem(409), "invalid_transition", "what went well is not retried");
    })
    .await;
}

#[tokio::test]
async fn runs_continue_after_a_restart() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let directory = tempfile::tempdir().unwrap();
    let app = TestApp::start(directory, &setup, Timestamp::from_millis(1_767_225_600_000)).await;
    let desk = Desk::new(&app, "acme").await;
    let silent = Receiver::start(|number, _| if number == 0 { Script::Silence } else { Script::status(200) }).await;
    desk.workflow("w", json!([{"id": "w", "type": "wait.duration", "with": {"seconds": 60}}, {"id": "t", "type": "ticket.create", "with": {"subject": "after", "organization_id": desk.organization}}])).await;
    desk.workflow("call", json!([{"id": "call", "type": "http.request", "with": {"url": silent.url()}}])).await;
    let (paused, waiting, calling) =
        (desk.start("w", json!({})).await, desk.start("w", json!({})).await, desk.start("call", json!({})).await);
    desk.status(&paused, "waiting").await;
    desk.status(&waiting, "waiting").await;
    desk.steer(&paused, "pause").await.ok(200);
    let first = silent.next().await.header("idempotency-key").to_owned();
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now + Duration::from_mins(1)).await;
    let again = desk.at(&app);
    again.status(&waiting, "succeeded").await;
    assert_eq!(again.read(&paused).await["status"], "paused");
    assert_eq!(silent.next().await.header("idempotency-key"), first, "a call that was cut off is made again under its key");
    again.status(&calling, "succeeded").await;
    assert_eq!(again.tickets().await.len(), 1);
    again.steer(&paused, "resume").await.ok(200);
    again.status(&paused, "succeeded").await;
    assert_eq!(again.tickets().await.len(), 2);
    drop(app.stop().await);
}
