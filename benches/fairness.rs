//! Fairness: the effect of a tenant that floods the server on another tenant. A quiet tenant writes, reads, receives webhooks and
//! starts workflows at a constant rate, first alone and then during each flood. Rate limits are off, so the floods are as fast as
//! their connections.
//!
//! Each row compares a percentile during the flood with the same percentile without it. **Invariant:** the server never refuses the
//! quiet tenant. An unexpected response ends the bench.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Plan,
    load::{self, Connection, Measured, Request, UNIQUE},
    process::Server,
    receiver::{self, Arrival, BLACK_HOLE, MARK, Receiver},
    report::{Pair, Report, Target},
};

const TICKETS: &str = "/api/psa/tickets";
const WORKFLOWS: &str = "/api/psa/workflows/trigger";
/// Requests of the quiet tenant per second, of each kind.
const PACE: u32 = 25;
/// The number of connections of a flood.
const CONNECTIONS: usize = 4;
const IMPORTED: usize = 500;
/// The number of words in the description of a long ticket.
const WORDS: usize = 4000;

/// The credential of a tenant, and an organization for its tickets.
struct Tenant {
    key: String,
    organization: String,
}

/// The measurements of the quiet tenant.
struct Latencies {
    writes: Measured,
    reads: Measured,
    deliveries: Measured,
    triggers: Measured,
}

pub fn measure(plan: Plan) {
    let (hooks, steps) = (Receiver::start(), Receiver::start());
    let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::start_tenantd(directory.path());
    let address = server.address;
    let quiet = Tenant::new(address, server.text("api_key"));
    quiet.subscribe(address, &hooks.url("/quiet"));
    quiet.workflow(
        address,
        "quiet",
        json!([{"type": "event", "event": "ticket.created"}]),
        json!([{"id": "tell", "type": "http.request", "with": {"method": "POST", "url": steps.url("/quiet"), "body": {"subject": "{{ event.data.ticket.subject }}"}}}]),
    );
    let noisy = Tenant::new(address, evaluation_key(directory.path()));
    let mut report = Report::default();
    report.note("The ceiling is the same percentile without a flood.".to_owned());
    let span = if plan.quick { Duration::from_secs(4) } else { Duration::from_secs(12) };
    let rounds = if plan.quick { 1 } else { plan.rounds.min(3) };
    for flood in noisy.floods(address, &hooks) {
        let mut pairs: Vec<(String, f64, Vec<Pair>)> = Vec::new();
        let mut answers = (0, 0);
        for _ in 0..rounds {
            let before = quiet.watch(address, (&hooks, &steps), span);
            let running = Flood::start(address, &flood.request);
            let beside = quiet.watch(address, (&hooks, &steps), span);
            let (taken, refused) = running.stop();
            answers = (answers.0 + taken, answers.1 + refused);
            for (place, (name, most, pair)) in rows(&beside, &before).into_iter().enumerate() {
                match pairs.get_mut(place) {
                    Some(row) => row.2.push(pair),
                    None => pairs.push((name, most, vec![pair])),
                }
            }
        }
        for (name, most, rounds) in pairs {
            report.ratio(&format!("{}: {name}", flood.name), "ms", &rounds, Target::AtMost(most));
        }
        let (taken, refused) = answers;
        report.note(format!(
            "{}: {taken} answers and {refused} refusals in {:?}.",
            flood.name,
            span * u32::try_from(rounds).unwrap()
        ));
    }
    server.stop();
    println!("\n{}", report.render());
}

type Pick = fn(&Latencies) -> &Measured;

/// Each percentile during the flood and without it, with the maximum ratio.
fn rows(beside: &Latencies, before: &Latencies) -> Vec<(String, f64, Pair)> {
    let millis = |latency: Duration| latency.as_secs_f64() * 1000.0;
    let parts: [(&str, Pick); 4] = [
        ("write", |seen| &seen.writes),
        ("read", |seen| &seen.reads),
        ("delivery", |seen| &seen.deliveries),
        ("trigger", |seen| &seen.triggers),
    ];
    let row = |(name, pick): (&str, Pick)| {
        let (beside, before) = (pick(beside), pick(before));
        [
            (format!("{name}, p50"), 2.0, (millis(beside.p50), millis(before.p50))),
            (format!("{name}, p99"), 3.0, (millis(beside.p99), millis(before.p99))),
        ]
    };
    parts.into_iter().flat_map(row).collect()
}

/// The API key of a new evaluation tenant, which can send to this host.
fn evaluation_key(directory: &std::path::Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenantd"));
    command.args(["tenant", "create", "Noisy", "--evaluation", "--organizations", "5", "--devices", "1000", "--tickets", "3000"]);
    let output = command.args(["--json", "--data-dir"]).arg(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["api_key"].as_str().unwrap().to_owned()
}

struct FloodPlan {
    name: &'static str,
    request: String,
}

impl Tenant {
    fn new(address: SocketAddr, key: String) -> Self {
        let line = json!({"kind": "organization", "external_id": "bench", "name": "Bench"}).to_string();
        let answer = load::post(address, "/internal/ingest?answer=all", &key, "application/x-ndjson", line.as_bytes());
        let first = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let organization = serde_json::from_slice::<Value>(first).unwrap()["id"].as_str().unwrap().to_owned();
        Self { key, organization }
    }

    fn subscribe(&self, address: SocketAddr, url: &str) {
        let body = json!({"name": "bench", "url": url, "events": ["ticket.created"]}).to_string();
        load::post(address, "/api/admin/webhooks", &self.key, "application/json", body.as_bytes());
    }

    fn workflow(&self, address: SocketAddr, key: &str, triggers: Value, steps: Value) {
        let definition = json!({"key": key, "name": key, "triggers": triggers, "steps": steps});
        let body = json!({"action": "create", "definition": definition}).to_string();
        load::post(address, WORKFLOWS, &self.key, "application/json", body.as_bytes());
    }

    fn ticket(&self) -> String {
        format!(r#"{{"subject":"{MARK}{UNIQUE}","organization_id":"{}"}}"#, self.organization)
    }

    /// A ticket with a description of thousands of words.
    fn long_ticket(&self) -> String {
        let words: String = (0..WORDS).map(|number| format!("{:04} ", number * 7919 % WORDS)).collect();
        json!({"subject": "Flood", "description": words, "organization_id": self.organization}).to_string()
    }

    /// Measures writes and reads at a constant rate, and the effects of the writes.
    fn watch(&self, address: SocketAddr, (hooks, steps): (&Receiver, &Receiver), span: Duration) -> Latencies {
        hooks.take();
        steps.take();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let begin = Instant::now();
        let (writes, reads) = runtime.block_on(async {
            tokio::join!(
                paced(address, Request::create(TICKETS, &self.key, &self.ticket()), span),
                paced(address, Request::get_uncached(&format!("{TICKETS}?limit=20"), &self.key), span),
            )
        });
        let all = writes.count;
        let came = |receiver: &Receiver| -> Measured {
            let mut arrivals: Vec<Arrival> = Vec::new();
            while arrivals.len() < all && begin.elapsed() < span * 5 {
                arrivals.extend(receiver.settled());
            }
            assert!(arrivals.len() >= all, "{} of {all} came", arrivals.len());
            receiver::within(&arrivals, (begin, Instant::now()))
        };
        Latencies { deliveries: came(hooks), triggers: came(steps), writes, reads }
    }

    fn floods(&self, address: SocketAddr, hooks: &Receiver) -> Vec<FloodPlan> {
        // The condition sorts thousands of words for each ticket and is never true.
        let condition = "{{ event.data.ticket.description | split(' ') | sort | length > 9000 }}";
        let costly = json!([{"type": "event", "event": "ticket.created", "condition": condition}]);
        self.workflow(address, "triggered", costly, json!([{"id": "a", "type": "set", "with": {"value": 1}}]));
        let each = json!({"items": (0..100).collect::<Vec<u8>>(), "steps": [{"id": "a", "type": "set", "with": {"value": 1}}]});
        self.workflow(address, "many", json!([{"type": "manual"}]), json!([{"id": "each", "type": "for_each", "with": each}]));
        self.subscribe(address, &hooks.url(BLACK_HOLE));
        let device = |number: usize| json!({"kind": "device", "external_id": format!("d{number}"), "name": format!("d{number}-{UNIQUE}"), "class": "server", "organization_external_id": "bench"});
        let devices: String = (0..IMPORTED).map(|number| format!("{}\n", device(number))).collect();
        let json = "application/json";
        let get = |name, path: &str, accept: &str| FloodPlan {
            name,
            request: format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: {accept}\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n",
                self.key
            ),
        };
        let post = |name, path: &str, kind: &str, body: &str| FloodPlan {
            name,
            request: format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                self.key,
                body.len()
            ),
        };
        vec![
            post("triggers and a black hole", TICKETS, json, &self.long_ticket()),
            post("runs", WORKFLOWS, json, &json!({"workflow_key": "many"}).to_string()),
            post("imports", "/internal/ingest", "application/x-ndjson", &devices),
            get("exports", TICKETS, "text/csv"),
            get("searches", "/api/search?q=printer", json),
            get("reports", "/api/rmm/reports/asset-inventory?limit=200", json),
            get("analytics", "/api/analytics/tenant?range=90d", json),
        ]
    }
}

/// The latencies of a request that is sent at a constant rate.
async fn paced(address: SocketAddr, mut request: Request, span: Duration) -> Measured {
    let mut connection = Connection::open(address).await;
    let mut due = tokio::time::interval(Duration::from_secs(1) / PACE);
    let mut latencies = Vec::new();
    let end = Instant::now() + span;
    while Instant::now() < end {
        due.tick().await;
        let sent = Instant::now();
        connection.exchange(&mut request).await;
        latencies.push(sent.elapsed());
    }
    Measured::new(latencies, span, Duration::ZERO)
}

/// Connections that send a request in a loop and ignore the response.
struct Flood {
    over: Arc<AtomicBool>,
    taken: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(address: SocketAddr, request: &str) -> Self {
        let (over, taken, refused) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let send = |_| {
            let (over, taken, refused, request) = (over.clone(), taken.clone(), refused.clone(), request.to_owned());
            std::thread::spawn(move || {
                let mut answer = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    answer.clear();
                    let mut connection = TcpStream::connect(address).expect("the server takes connections");
                    // A refusal can close the connection before the whole request is sent.
                    let sent = connection.write_all(request.as_bytes()).and_then(|()| connection.read_to_end(&mut answer));
                    let count = if sent.is_ok() && answer.starts_with(b"HTTP/1.1 2") { &taken } else { &refused };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let threads = (0..CONNECTIONS).map(send).collect();
        Self { over, taken, refused, threads }
    }

    /// The number of responses and of refusals.
    fn stop(self) -> (usize, usize) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        (self.taken.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}
