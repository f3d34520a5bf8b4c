//! Rights that are lost while work is pending: nothing that a person has set up uses a right that the person has lost. Every way to
//! lose rights against every kind of pending work, with and without a restart of the server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};

use tenantd_base::clock::Timestamp;

use crate::{
    harness::{Actor, Receiver, Script, Setup, Tenant, TestApp, WEBHOOKS},
    key_owners::person,
    workflows::PATH,
};

const KEYS: &str = "/api/admin/api-keys";
/// The delay of timers, which is longer than the lifetime of the shortest key.
const DELAY: Duration = Duration::from_hours(26);

const HELD: [&str; 5] = ["workflows:*", "webhooks:*", "events:read", "tickets:*", "api_keys:read"];

/// How rights are lost. `None` changes nothing: pending work then continues, otherwise the other cases would prove nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    None,
    KeyRevoked,
    KeyDisabled,
    KeyExpired,
    ScopesReduced,
    OrganizationsRestricted,
    UserDisabled,
    UserDemoted,
    UserRemoved,
}

const LOSSES: [Loss; 9] = [
    Loss::None,
    Loss::KeyRevoked,
    Loss::KeyDisabled,
    Loss::KeyExpired,
    Loss::ScopesReduced,
    Loss::OrganizationsRestricted,
    Loss::UserDisabled,
    Loss::UserDemoted,
    Loss::UserRemoved,
];

/// Waiting runs, and workflows that wait for their trigger.
const STATES: [&str; 9] =
    ["delay", "event", "approval", "retry", "queued", "called", "scheduled", "triggered", "sends-what-it-has-read"];
struct Holder {
    loss: Loss,
    actor: Actor,
    /// The path of the key or user to change.
    path: String,
    /// The webhook endpoint of the holder.
    endpoint: String,
}

impl Holder {
    fn name(&self) -> String {
        format!("{:?}", self.loss).to_lowercase()
    }

    fn key(&self, state: &str) -> String {
        format!("{}-{state}", self.name())
    }
}

/// What receivers got: the mark of the sending endpoint or step, and the kind of event.
type Seen = Arc<Mutex<Vec<String>>>;

struct Bench {
    full: Actor,
    organization: String,
    receiver: Receiver,
    seen: Seen,
}

impl Bench {
    async fn new(tenant: &Tenant<'_>) -> Self {
        let seen = Seen::default();
        let written = seen.clone();
        let receiver = Receiver::start(move |_, request| {
            let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
            let mark = body["mark"].as_str().map_or_else(|| request.header("x-mark").to_owned(), str::to_owned);
            written.lock().unwrap().push(format!("{mark} {}", body["type"].as_str().unwrap_or_default()));
            Script::status(if mark.ends_with("retry") { 503 } else { 200 })
        })
        .await;
        Self { full: tenant.key(&["*"]).await, organization: tenant.organization("Ours").await, receiver, seen }
    }

    async fn holder(&self, app: &TestApp, admin: &Actor, loss: Loss) -> Holder {
        let name = format!("{loss:?}").to_lowercase();
        let (actor, path) = match loss {
            Loss::UserDisabled | Loss::UserDemoted | Loss::UserRemoved => person(app, admin, &name, "admin").await,
            _ => {
                let mut body = json!({"name": name, "scopes": HELD});
                if loss == Loss::KeyExpired {
                    body["expires_days"] = json!(1);
                }
                let key = self.full.post(KEYS).json(body).send().await.ok(201).clone();
                (app.anonymous().bearer(key["key"].as_str().unwrap()), format!("{KEYS}/{}", key["id"].as_str().unwrap()))
            }
        };
        Holder { loss, actor, path, endpoint: String::new() }
    }

    /// Creates the endpoint of a holder.
    async fn listen(&self, holder: &mut Holder) {
        let name = holder.name();
        let body = json!({"name": name, "url": self.receiver.url(), "events": ["api_key.created"], "headers": {"x-mark": name}});
        let made = holder.actor.post(WEBHOOKS).json(body).send().await;
        holder.endpoint = format!("{WEBHOOKS}/{}", made.ok(201)["id"].as_str().unwrap());
    }

    /// Saves the workflows of a holder, and starts the manual ones.
    async fn arm(&self, holder: &Holder) {
        let wait = json!({"id": "wait", "type": "wait.duration", "with": {"seconds": DELAY.as_secs()}});
        let event = json!({"id": "wait", "type": "wait.event", "with": {"event": "api_key.created"}});
        let approval = json!({"id": "wait", "type": "approval", "with": {"required": 1}});
        let on_key = json!([{"type": "event", "event": "api_key.created"}]);
        let by_hand = json!([{"type": "manual"}]);
        let hourly = json!([{"type": "schedule", "cron": "0 * * * *", "timezone": "UTC", "catch_up": "run_once"}]);
        let forever = json!({"timeout_seconds": 30 * 86_400});
        for state in STATES {
            let mark = holder.key(state);
            let ticket =
                json!({"id": "act", "type": "ticket.create", "with": {"subject": mark, "organization_id": self.organization}});
            let send = json!({"id": "act", "type": "http.request", "with": {"method": "POST", "url": self.receiver.url(), "body": {"mark": mark}},
                "retry": {"max_attempts": 3, "backoff": "fixed", "initial_seconds": 3600, "max_seconds": 3600}});
            let call = json!({"id": "call", "type": "workflow.call", "with": {"workflow_key": holder.key("delay")}});
            let (triggers, steps) = match state {
                "delay" | "queued" => (by_hand.clone(), json!([wait, ticket])),
                "event" => (by_hand.clone(), json!([event, ticket])),
                "approval" => (by_hand.clone(), json!([approval, ticket])),
                // Data that was read earlier must not be sent.
                "retry" => (on_key.clone(), json!([send])),
                "sends-what-it-has-read" => (on_key.clone(), json!([wait, send])),
                "called" => (by_hand.clone(), json!([call, ticket])),
                "scheduled" => (hourly.clone(), json!([ticket])),
                _ => (on_key.clone(), json!([ticket])),
            };
            let mut definition = json!({"key": mark, "name": mark, "triggers": triggers, "steps": steps});
            definition.as_object_mut().unwrap().extend(forever.as_object().unwrap().clone());
            if state == "queued" {
                definition["concurrency"] = json!({"key": "one", "limit": 1, "on_conflict": "queue"});
            }
            holder.actor.post(PATH).json(json!({"action": "create", "definition": definition})).send().await.ok(201);
            let starts = match state {
                "scheduled" | "triggered" | "retry" | "sends-what-it-has-read" | "event" => 0,
                "queued" => 2,
                _ => 1,
            };
            for _ in 0..starts {
                holder.actor.post(PATH).json(json!({"workflow_key": mark})).send().await.ok(202);
            }
        }
    }

    async fn runs(&self, key: &str) -> Vec<Value> {
        let all = self.full.get(&format!("{PATH}?view=runs&limit=200")).send().await.ok(200)["data"].as_array().unwrap().clone();
        all.into_iter().filter(|run| run["workflow"]["key"] == key).collect()
    }

    /// The runs of a workflow, once this number exists and all match.
    async fn until(&self, key: &str, count: usize, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let asking = async {
            loop {
                let runs = self.runs(key).await;
                if runs.len() >= count && runs.iter().all(&wanted) {
                    return runs;
                }
            }
        };
        if let Ok(runs) = tokio::time::timeout(Duration::from_secs(30), asking).await {
            return runs;
        }
        panic!("the runs of {key} did not become what they should: {:#?}", self.runs(key).await);
    }

    /// Creates a key. Its event is what pending work waits for.
    async fn happens(&self, name: &str) {
        self.full.post(KEYS).json(json!({"name": name, "scopes": ["tickets:read"]})).send().await.ok(201);
    }

    fn sent(&self, mark: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|line| line.split(' ').next() == Some(mark)).count()
    }

    async fn until_sent(&self, mark: &str, times: usize) {
        let asking = async {
            while self.sent(mark) < times {
                self.full.get("/api/auth/session").send().await.ok(200);
            }
        };
        let patience = tokio::time::timeout(Duration::from_secs(30), asking).await;
        assert!(patience.is_ok(), "{mark} came {} times: {:?}", self.sent(mark), self.seen.lock().unwrap());
    }

    async fn tickets(&self, subject: &str) -> usize {
        let all = self.full.get("/api/psa/tickets?limit=200").send().await.ok(200)["data"].as_array().unwrap().clone();
        all.iter().filter(|ticket| ticket["subject"] == subject).count()
    }
}

async fn lose(bench: &Bench, holder: &Holder) {
    let change = match holder.loss {
        Loss::None | Loss::KeyExpired => return,
        Loss::KeyRevoked | Loss::UserRemoved => {
            assert!([200, 204].contains(&bench.full.delete(&holder.path).send().await.status));
            return;
        }
        Loss::KeyDisabled => json!({"enabled": false}),
        Loss::ScopesReduced => json!({"scopes": ["workflows:*", "webhooks:*", "events:read", "tickets:read"]}),
        Loss::OrganizationsRestricted => json!({"scopes": ["tickets:*"], "organization_ids": [bench.organization]}),
        Loss::UserDisabled => json!({"status": "disabled"}),
        Loss::UserDemoted => json!({"role": "viewer"}),
    };
    bench.full.put(&holder.path).json(change).send().await.ok(200);
}

/// Brings everything into its waiting state.
async fn settle(bench: &Bench, holders: &[Holder]) {
    bench.happens("first").await;
    for holder in holders {
        // Created only now: the earlier event does not belong to these holders.
        let event = holder.key("event");
        holder.actor.post(PATH).json(json!({"workflow_key": event})).send().await.ok(202);
        bench.until(&event, 1, |run| run["waiting_on"] == "event").await;
        bench.until(&holder.key("delay"), 2, |run| run["waiting_on"] == "time").await;
        bench.until(&holder.key("approval"), 1, |run| run["waiting_on"] == "approval").await;
        bench.until(&holder.key("called"), 1, |run| run["waiting_on"] == "event").await;
        bench.until(&holder.key("retry"), 1, |run| run["waiting_on"] == "retry").await;
        bench.until(&holder.key("sends-what-it-has-read"), 1, |run| run["waiting_on"] == "time").await;
        bench.until(&holder.key("triggered"), 1, |run| run["status"] == "succeeded").await;
        let queued = bench.until(&holder.key("queued"), 2, |run| run["waiting_on"].is_string()).await;
        assert!(queued.iter().any(|run| run["waiting_on"] == "concurrency"), "{queued:#?}");
        bench.until_sent(&holder.name(), 1).await;
        assert_eq!((bench.sent(&holder.key("retry")), bench.sent(&holder.name())), (1, 1));
    }
}

/// Lets everything happen that pending work waits for.
async fn push(app: &TestApp, bench: &Bench, holders: &[Holder]) {
    for holder in holders {
        for run in bench.runs(&holder.key("queued")).await.iter().filter(|run| run["waiting_on"] == "time") {
            bench.full.delete(&format!("{PATH}/runs/{}", run["id"].as_str().unwrap())).send().await.ok(200);
        }
        bench.until(&holder.key("queued"), 2, |run| run["status"] == "cancelled" || run["waiting_on"] == "time").await;
    }
    app.advance(DELAY + Duration::from_hours(1));
    let approver = app.sign_in("approver@acme.example").await;
    for holder in holders {
        for run in bench.runs(&holder.key("approval")).await {
            let path = format!("{PATH}/runs/{}", run["id"].as_str().unwrap());
            let decided = approver.patch(&path).json(json!({"action": "approve"})).send().await;
            assert_eq!(decided.status, 200, "{}: {}", holder.name(), decided.text);
        }
    }
    bench.happens("second").await;
}

/// Whether a run has reached its final state: it acted, or it reports a missing right and waits.
fn is_judged(state: &str, acts: bool, run: &Value) -> bool {
    let early = run["created_at"].as_str().unwrap().starts_with("2026-01-01");
    match (run["status"].as_str(), run["waiting_on"].as_str()) {
        // Cancelled by the test.
        (Some("cancelled"), _) => true,
        // The first event preceded the loss.
        (Some("succeeded"), _) => acts || (state == "triggered" && early),
        // The second event has just started it.
        (_, Some("time")) => state == "sends-what-it-has-read" && !early,
        // The receiver responds to no attempt.
        (_, Some("retry")) => acts && state == "retry",
        // The called run lacks the right.
        (_, Some("event")) => !acts && state == "called",
        (_, Some("authority")) => !acts,
        _ => false,
    }
}

/// Checks the effects of each kind of pending work.
async fn judge(bench: &Bench, holder: &Holder, replayed: usize) -> usize {
    let acts = holder.loss == Loss::None;
    for state in STATES {
        let key = holder.key(state);
        let count = if ["delay", "queued", "triggered", "retry", "sends-what-it-has-read"].contains(&state) { 2 } else { 1 };
        bench.until(&key, count, |run| is_judged(state, acts, run)).await;
        let before = usize::from(["retry", "triggered"].contains(&state));
        if acts && state == "retry" {
            bench.until_sent(&key, 2).await;
        }
        let done = if ["retry", "sends-what-it-has-read"].contains(&state) { bench.sent(&key) } else { bench.tickets(&key).await };
        assert_eq!(done > before, acts, "{key} has acted {done} times");
    }
    // The endpoint received the first event before the loss. A replay sends everything again, to readers with the right.
    if acts {
        bench.until_sent(&holder.name(), 2 + replayed).await;
    } else {
        assert_eq!((bench.sent(&holder.name()), replayed), (1, 0), "{}: {:?}", holder.name(), bench.seen.lock().unwrap());
    }
    STATES.len() + 2
}

/// Replays everything to every endpoint, and returns the number of queued deliveries of each.
async fn replay(bench: &Bench, holders: &[Holder]) -> Vec<usize> {
    let mut queued = Vec::new();
    for holder in holders {
        let body = json!({"from_seq": 1, "only": "all"});
        let replay = bench.full.post(&format!("{}/replay", holder.endpoint)).json(body).send().await.ok(202).clone();
        let path = format!("{}/replays/{}", holder.endpoint, replay["id"].as_str().unwrap());
        queued.push(loop {
            let replay = bench.full.get(&path).send().await.ok(200).clone();
            if replay["status"] == "succeeded" {
                break usize::try_from(replay["queued"].as_u64().unwrap()).unwrap();
            }
        });
    }
    queued
}

async fn everything_that_waits(restarts: bool) -> usize {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let start = Timestamp::from_millis(1_767_225_600_000);
    let mut app = TestApp::start(tempfile::tempdir().unwrap(), &setup, start).await;
    let (mut bench, mut holders);
    {
        let tenant = app.evaluation_tenant("acme").await;
        let admin = tenant.admin().await;
        person(&app, &admin, "approver", "admin").await;
        bench = Bench::new(&tenant).await;
        holders = Vec::new();
        for loss in LOSSES {
            holders.push(bench.holder(&app, &admin, loss).await);
        }
        // After all keys exist, because their creation is also an event.
        for holder in &mut holders {
            bench.listen(holder).await;
            bench.arm(holder).await;
        }
    }
    settle(&bench, &holders).await;
    for holder in &holders {
        lose(&bench, holder).await;
    }
    if restarts {
        let (directory, now) = app.stop().await;
        app = TestApp::start(directory, &setup, now).await;
        bench.full = bench.full.moved(app.base_url());
    }
    push(&app, &bench, &holders).await;
    let replayed = replay(&bench, &holders).await;
    let mut cases = 0;
    for (holder, replayed) in holders.iter().zip(replayed) {
        cases += judge(&bench, holder, replayed).await;
    }
    drop(app.stop().await);
    cases
}

#[tokio::test]
async fn pending_work_does_not_use_lost_rights() {
    let cases = everything_that_waits(false).await;
    assert!(cases >= 99, "there are only {cases} cases");
}

#[tokio::test]
async fn pending_work_does_not_use_lost_rights_after_a_restart() {
    let cases = everything_that_waits(true).await;
    assert!(cases >= 99, "there are only {cases} cases");
}

#[tokio::test]
async fn a_long_poll_uses_the_rights_at_its_end() {
    crate::harness::with_app(async |app| {
        let tenant = app.evaluation_tenant("acme").await;
        let admin = tenant.admin().await;
        let bench = Bench::new(&tenant).await;
        let mut cases = 0;
        for loss in LOSSES.into_iter().filter(|loss| *loss != Loss::KeyExpired) {
            let holder = bench.holder(app, &admin, loss).await;
            let head = bench.full.get("/api/events?limit=200&types=tenant.created").send().await.ok(200)["next_after"].clone();
            let poll = format!("/api/events?types=api_key.created&after={head}&wait_seconds=30");
            let polling = tokio::spawn(holder.actor.get(&poll).send());
            // The request starts before the rights are lost.
            for _ in 0..20 {
                bench.full.get("/api/auth/session").send().await.ok(200);
            }
            lose(&bench, &holder).await;
            let name = format!("after-{loss:?}");
            bench.happens(&name).await;
            let reply = polling.await.unwrap();
            assert_eq!(reply.text.contains(&name), loss == Loss::None, "{loss:?}: {}", reply.text);
            if loss != Loss::None {
                assert!([401, 403].contains(&reply.status), "{loss:?}: {}", reply.text);
            }
            cases += 1;
        }
        assert_eq!(cases, LOSSES.len() - 1);
    })
    .await;
}
