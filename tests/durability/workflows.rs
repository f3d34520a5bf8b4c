//! Runs with effects on a server that is killed repeatedly: each local effect exists exactly once, and every run ends.
//!
//! The moment of each kill is a number of responses, drawn by the seed: before a start is acknowledged, between steps, or in the
//! middle of a commit.

use std::{collections::BTreeMap, path::Path};

use futures_util::future::join_all;
use reqwest::Client;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use tenantd_base::entropy::Entropy;

use crate::{
    clients::http_client,
    process::{Server, demo, tenantd},
};

const RUNS: usize = 200;
const RUNS_PER_LIFE: usize = 10;
const PATH: &str = "/api/psa/workflows/trigger";
/// The latest moment of a kill, in responses of one life.
const LATEST: u64 = 60;
const SEED: u64 = 20_260_131;

struct Caller<'a> {
    client: &'a Client,
    server: &'a Server,
}

impl Caller<'_> {
    async fn send(&self, method: &str, path: &str, name: Option<&str>, body: Option<(&str, String)>) -> Option<Value> {
        let method = method.parse().unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.server.url)).bearer_auth(&self.server.api_key);
        if let Some(name) = name {
            request = request.header("idempotency-key", name);
        }
        if let Some((kind, body)) = body {
            request = request.header("content-type", kind).body(body);
        }
        let response = request.send().await.ok()?;
        let status = response.status();
        let text = response.text().await.ok()?;
        assert!(status.is_success(), "{path}: {status} {text}");
        text.lines().next().and_then(|line| serde_json::from_str(line).ok())
    }

    async fn get(&self, path: &str) -> Option<Value> {
        self.send("GET", path, None, None).await
    }

    async fn start(&self, number: usize) -> Option<String> {
        let body = json!({"workflow_key": "effects", "inputs": {"number": number}}).to_string();
        let run = self.send("POST", PATH, Some(&format!("run-{number}")), Some(("application/json", body))).await?;
        Some(run["id"].as_str().unwrap().to_owned())
    }
}

fn start(directory: &Path) -> Server {
    Server::start(demo(tenantd(), directory))
}

/// A workflow whose effects can be counted per run.
async fn prepare(caller: &Caller<'_>) {
    let line = json!({"kind": "organization", "external_id": "acme", "name": "Acme"}).to_string();
    let made = caller.send("POST", "/internal/ingest?answer=all", None, Some(("application/x-ndjson", line))).await.unwrap();
    let ticket = |id: &str| json!({"id": id, "type": "ticket.create", "with": {"subject": format!("{{{{ inputs.number }}}} {id}"), "organization_id": made["id"]}});
    let steps = json!([
        ticket("first"),
        {"id": "note", "type": "ticket.comment", "with": {"id": "{{ steps.first.output.id }}", "body": "{{ run.id }}"}},
        {"id": "each", "type": "for_each", "with": {"items": [1, 2], "max_parallel": 2, "steps": [
            {"id": "part", "type": "ticket.create", "with": {"subject": "{{ inputs.number }} part {{ item }}", "organization_id": made["id"]}},
        ]}},
    ]);
    let body = json!({"action": "create", "definition": {"key": "effects", "name": "Effects", "steps": steps}}).to_string();
    caller.send("POST", PATH, None, Some(("application/json", body))).await.unwrap();
}

#[tokio::test]
async fn runs_survive_repeated_kills_with_each_effect_once() {
    let (directory, client) = (tempfile::tempdir().unwrap(), http_client());
    let mut random = Entropy::from_seed(SEED);
    let mut server = start(directory.path());
    prepare(&Caller { client: &client, server: &server }).await;
    let (mut known, mut kills) = (BTreeMap::<usize, String>::new(), 0_u64);
    while known.len() < RUNS {
        let caller = Caller { client: &client, server: &server };
        let wanted: Vec<usize> = (0..RUNS).filter(|number| !known.contains_key(number)).take(RUNS_PER_LIFE).collect();
        let (pid, mut left) = (server.pid(), random.below(LATEST));
        if left < RUNS_PER_LIFE as u64 / 2 {
            // The kill interrupts some of the starts.
            let starting = join_all(wanted.iter().map(|number| async { (*number, caller.start(*number).await) }));
            let (started, ()) = tokio::join!(starting, async {
                drop(caller.get("/api/auth/session").await);
                kill_process(pid, Signal::KILL).unwrap();
            });
            known.extend(started.into_iter().filter_map(|(number, id)| Some((number, id?))));
        } else {
            for number in wanted {
                known.extend(caller.start(number).await.map(|id| (number, id)));
            }
            while left > 0 {
                left -= 1;
                drop(caller.get(&format!("{PATH}?view=runs&status=running&limit=1")).await);
            }
            kill_process(pid, Signal::KILL).unwrap();
        }
        kills += 1;
        server.was_killed();
        server = start(directory.path());
    }
    let caller = Caller { client: &client, server: &server };
    for (number, id) in &known {
        let ended = loop {
            let run = caller.get(&format!("{PATH}?run_id={id}&wait_seconds=30")).await.unwrap();
            if run["ended_at"].is_string() {
                break run;
            }
        };
        assert_eq!(ended["status"], "succeeded", "run {number}: {ended}");
    }
    let mut subjects: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut path = "/api/psa/tickets?limit=200&sort=number".to_owned();
    loop {
        let page = caller.get(&path).await.unwrap();
        for ticket in page["data"].as_array().unwrap() {
            let seen = subjects.entry(ticket["subject"].as_str().unwrap().to_owned()).or_default();
            *seen = (seen.0 + 1, seen.1 + ticket["counts"]["comments"].as_u64().unwrap());
        }
        match page["page"]["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/psa/tickets?limit=200&sort=number&cursor={cursor}"),
            None => break,
        }
    }
    for number in 0..RUNS {
        for (part, comments) in [("first", 1), ("part 1", 0), ("part 2", 0)] {
            assert_eq!(subjects.get(&format!("{number} {part}")), Some(&(1, comments)), "run {number}, {part}");
        }
    }
    assert_eq!(subjects.len(), 3 * RUNS);
    let total = caller.get(&format!("{PATH}?view=runs&limit=1&include_total=true")).await.unwrap();
    assert_eq!(total["page"]["total"], RUNS as u64, "a start that was repeated has started another run");
    println!("{RUNS} runs over {kills} kills");
    assert!(kills >= 20, "the kills hit too little");
}
