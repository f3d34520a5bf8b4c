//! Workflows: completed runs of three local steps per second, the delay of the first step of a run on an idle server, and the cost
//! of many waiting runs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    Plan,
    load::{self, Request},
    process::{Server, cpu_time},
    report::{Report, Target},
};

const PATH: &str = "/api/psa/workflows/trigger";

struct Bench {
    server: Server,
    key: String,
    _directory: tempfile::TempDir,
}

pub fn measure(plan: Plan) {
    let bench = Bench::new();
    bench.create("three", json!([set("a"), set("b"), set("c")]));
    bench.create("waits", json!([{"id": "w", "type": "wait.duration", "with": {"seconds": 2_000_000}}]));
    let mut report = Report::default();
    let latencies = bench.first_steps(if plan.quick { 50 } else { 300 });
    report.measurement("trigger to first step, idle, p95", "ms", &[latencies], Target::AtMost(20.0));
    let (runs, rounds) = if plan.quick { (2_000, 2) } else { (10_000, plan.rounds) };
    let rates: Vec<f64> = (0..rounds).map(|_| bench.throughput(runs)).collect();
    report.measurement("three-step runs, end to end", "/s", &rates, Target::AtLeast(500.0));
    let waiting = if plan.quick { 10_000 } else { 100_000 };
    bench.start_many("waits", waiting);
    bench.settle();
    let idle = Duration::from_secs(if plan.quick { 3 } else { 15 });
    let before = cpu_time(bench.server.process_id());
    std::thread::sleep(idle);
    let used = cpu_time(bench.server.process_id()).saturating_sub(before).as_secs_f64() / idle.as_secs_f64() * 100.0;
    report.measurement(&format!("processor with {waiting} waiting runs"), "% of one", &[used], Target::AtMost(2.0));
    report.measurement(
        &format!("memory with {waiting} waiting runs"),
        "MiB",
        &[bench.server.resident_mebibytes()],
        Target::AtMost(200.0),
    );
    bench.server.stop();
    println!("\n{}", report.render());
}

fn set(id: &str) -> Value {
    json!({"id": id, "type": "set", "with": {"value": "{{ inputs.n }}"}})
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = Server::start_tenantd(directory.path());
        let key = server.text("api_key");
        Self { server, key, _directory: directory }
    }

    fn get(&self, query: &str) -> Value {
        let request = Request::get(&format!("{PATH}{query}"), Some(&self.key));
        serde_json::from_slice(&load::once(self.server.address, &request)).unwrap()
    }

    fn create(&self, key: &str, steps: Value) {
        let definition = json!({"key": key, "name": key, "timeout_seconds": 2_592_000, "steps": steps});
        let body = json!({"action": "create", "definition": definition}).to_string();
        load::post(self.server.address, PATH, &self.key, "application/json", body.as_bytes());
    }

    fn request(&self, key: &str) -> Request {
        let body = json!({"workflow_key": key, "inputs": {"n": 1}}).to_string();
        Request::create(PATH, &self.key, &body).answered(202)
    }

    /// Starts a number of runs over several connections.
    fn start_many(&self, key: &str, count: usize) {
        load::repeat(self.server.address, 32, &self.request(key), count);
    }

    /// Waits until no run is in progress: all have ended or wait.
    fn settle(&self) {
        loop {
            // One status at a time, because such a list comes directly from an index.
            let none =
                |status: &str| self.get(&format!("?view=runs&status={status}&limit=1"))["data"].as_array().unwrap().is_empty();
            if none("queued") && none("running") {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn throughput(&self, runs: usize) -> f64 {
        let started = Instant::now();
        self.start_many("three", runs);
        self.settle();
        runs as f64 / started.elapsed().as_secs_f64()
    }

    /// The 95th percentile of the time from the record of a run to its first step, one run after another.
    fn first_steps(&self, count: usize) -> f64 {
        let mut millis: Vec<f64> = Vec::with_capacity(count);
        for _ in 0..count {
            let run: Value = serde_json::from_slice(&load::once(self.server.address, &self.request("three"))).unwrap();
            let ended = self.get(&format!("?run_id={}&wait_seconds=10", run["id"].as_str().unwrap()));
            millis.push(between(&ended["created_at"], &ended["started_at"]));
        }
        millis.sort_by(f64::total_cmp);
        millis[millis.len() * 95 / 100]
    }
}

fn between(from: &Value, to: &Value) -> f64 {
    let at = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    (at(to).as_millisecond() - at(from).as_millisecond()) as f64
}
