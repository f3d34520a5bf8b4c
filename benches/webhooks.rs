//! Webhooks: from the request that creates a ticket to its signed delivery to a receiver on the same host. A latency is the time
//! from sending the request to receiving the delivery.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Plan, bare_deliveries,
    load::{self, Measured, Request, UNIQUE},
    process::{Server, run_role},
    receiver::{self, BLACK_HOLE, MARK, Receiver},
    report::{Pair, Report, Target},
};

const TICKETS: &str = "/api/psa/tickets";
const ENDPOINTS: &str = "/api/admin/webhooks";
const BULK: usize = 100;
/// The number of deliveries that wait for the endpoint that never answers.
const BLACK_HOLE_PENDING: usize = 10_000;
const CALM_PER_SECOND: u32 = 100;
/// The load on the healthy endpoint while another one never answers.
const BESIDE_PER_SECOND: u32 = 200;

/// A server with an endpoint that accepts everything.
struct Sender<'a> {
    server: Server,
    key: String,
    organization: String,
    receiver: &'a Receiver,
    directory: tempfile::TempDir,
}

pub fn measure(plan: Plan) {
    let receiver = Receiver::start();
    let mut report = Report::default();
    throughput(plan, &receiver, &mut report);
    beside_a_black_hole(plan, &receiver, &mut report);
    many_pending(plan, &receiver, &mut report);
    println!("\n{}", report.render());
}

fn throughput(plan: Plan, receiver: &Receiver, report: &mut Report) {
    let sender = Sender::new(receiver);
    sender.subscribe("/hook");
    let (mut rates, mut middle) = (Vec::new(), Vec::new());
    let (mut created, mut received) = (0, 0);
    for _ in 0..plan.rounds {
        let bare = sender.bare(plan.span.measure);
        receiver.take();
        let begin = Instant::now() + plan.span.warm_up;
        let creations = load::run(sender.server.address, sender.server.process_id(), 32, &sender.creation(), plan.span);
        let arrivals = receiver.settled();
        let delivered = receiver::within(&arrivals, (begin, begin + plan.span.measure));
        rates.push((delivered.per_second, bare));
        middle.push(delivered.p50.as_secs_f64() * 1000.0);
        created += creations.count;
        received += arrivals.len();
        report.note(format!(
            "32 clients: {:.0} tickets/s, {:.0} deliveries/s, p99 {:.1} ms, {} us of processor time a ticket.",
            creations.per_second,
            delivered.per_second,
            delivered.p99.as_secs_f64() * 1000.0,
            creations.cpu.as_micros()
        ));
    }
    report.measurement(
        "ticket to delivery, 32 clients",
        "/s",
        &rates.iter().map(|pair| pair.0).collect::<Vec<_>>(),
        Target::AtLeast(7000.0),
    );
    report.ratio("ticket to delivery, 32 clients, against a bare loop", "/s", &rates, Target::None);
    report.measurement("ticket to delivery, 32 clients, p50", "ms", &middle, Target::AtMost(10.0));
    let calm: Vec<Measured> = (0..plan.rounds).map(|_| sender.at_pace(CALM_PER_SECOND, plan.span.measure)).collect();
    let millis = |pick: fn(&Measured) -> Duration| calm.iter().map(|one| pick(one).as_secs_f64() * 1000.0).collect::<Vec<_>>();
    report.measurement("ticket to delivery, 100/s, p50", "ms", &millis(|one| one.p50), Target::AtMost(3.0));
    report.measurement("ticket to delivery, 100/s, p99", "ms", &millis(|one| one.p99), Target::AtMost(15.0));
    assert!(received >= created, "{received} deliveries of {created} tickets");
    report.note(format!(
        "{received} deliveries of at least {created} tickets have come; {} signatures were checked.",
        receiver.verified()
    ));
    sender.server.stop();
}

/// Measures the effect of an endpoint that never answers and has many waiting deliveries on a healthy endpoint.
fn beside_a_black_hole(plan: Plan, receiver: &Receiver, report: &mut Report) {
    let alone = Sender::new(receiver);
    alone.subscribe("/alone");
    alone.fill(BLACK_HOLE_PENDING);
    let beside = Sender::new(receiver);
    beside.subscribe("/beside");
    beside.subscribe(BLACK_HOLE);
    beside.fill(BLACK_HOLE_PENDING);
    receiver.settled();
    let rounds: Vec<Pair> = (0..plan.rounds)
        .map(|_| {
            let [hindered, free] = [&beside, &alone].map(|sender| sender.at_pace(BESIDE_PER_SECOND, plan.span.measure));
            (hindered.p95.as_secs_f64() * 1000.0, free.p95.as_secs_f64() * 1000.0)
        })
        .collect();
    report.ratio("next to a black hole with 10,000 pending, p95", "ms", &rounds, Target::AtMost(1.2));
    let pending = beside.pending();
    assert!(pending >= BLACK_HOLE_PENDING as u64, "{pending} wait for the black hole");
    alone.server.stop();
    beside.server.stop();
}

/// Measures a start with many waiting deliveries for a hundred endpoints of one tenant, whose receiver is down.
fn many_pending(plan: Plan, receiver: &Receiver, report: &mut Report) {
    let events = if plan.quick { 1000 } else { 10_000 };
    let sender = Sender::new(receiver);
    // Nothing listens there.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for number in 0..100 {
        sender.create_endpoint(&format!("Down {number}"), &format!("http://{closed}/"));
    }
    sender.fill(events);
    let wanted = events as u64 * 100;
    let filling = Instant::now();
    while sender.pending() < wanted {
        assert!(filling.elapsed() < Duration::from_mins(10), "{} of {wanted} wait", sender.pending());
        std::thread::sleep(Duration::from_millis(200));
    }
    let Sender { server, directory, .. } = sender;
    server.stop();
    let server = Server::start_tenantd(directory.path());
    report.measurement(&format!("start with {wanted} pending"), "s", &[server.ready_after.as_secs_f64()], Target::AtMost(3.0));
    // Long enough for the dispatcher to check all of them.
    std::thread::sleep(Duration::from_secs(5));
    report.measurement(&format!("memory with {wanted} pending, peak"), "MiB", &[server.peak_mebibytes()], Target::AtMost(150.0));
    server.stop();
}

impl<'a> Sender<'a> {
    fn new(receiver: &'a Receiver) -> Self {
        let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = Server::start_tenantd(directory.path());
        let key = server.text("api_key");
        let line = json!({"kind": "organization", "external_id": "bench", "name": "Bench"}).to_string();
        let answer = load::post(server.address, "/internal/ingest?answer=all", &key, "application/x-ndjson", line.as_bytes());
        let first = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let organization = serde_json::from_slice::<Value>(first).unwrap()["id"].as_str().unwrap().to_owned();
        Self { server, key, organization, receiver, directory }
    }

    /// Sends created tickets to a path of the receiver, which verifies them.
    fn subscribe(&self, path: &str) {
        let secret = self.create_endpoint(path.trim_start_matches('/'), &self.receiver.url(path));
        self.receiver.expect_signed(path, &secret);
    }

    /// Creates an endpoint. Returns its secret.
    fn create_endpoint(&self, name: &str, url: &str) -> String {
        let body = json!({"name": name, "url": url, "events": ["ticket.created"]}).to_string();
        let answer = load::post(self.server.address, ENDPOINTS, &self.key, "application/json", body.as_bytes());
        let created: Value = serde_json::from_slice(&answer).unwrap();
        created["secret"].as_str().expect("a new endpoint has a secret").to_owned()
    }

    fn creation(&self) -> Request {
        let body = format!(
            r#"{{"subject":"{MARK}{UNIQUE}","organization_id":"{}","priority":"high","tags":["bench"],"description":"It prints nothing since this morning."}}"#,
            self.organization
        );
        Request::create(TICKETS, &self.key, &body)
    }

    fn fill(&self, tickets: usize) {
        for first in (0..tickets).step_by(BULK) {
            let tickets: Vec<Value> = (first..first + BULK)
                .map(|number| json!({"subject": format!("Screen {number}"), "organization_id": self.organization}))
                .collect();
            let body = json!({"tickets": tickets, "atomic": true}).to_string();
            load::post(self.server.address, TICKETS, &self.key, "application/json", body.as_bytes());
        }
    }

    fn at_pace(&self, per_second: u32, span: Duration) -> Measured {
        self.receiver.take();
        let begin = Instant::now();
        load::run_at_pace(self.server.address, &self.creation(), per_second, span);
        receiver::within(&self.receiver.settled(), (begin, begin + span))
    }

    fn pending(&self) -> u64 {
        let answer = load::once(self.server.address, &Request::get(&format!("{ENDPOINTS}?limit=200"), Some(&self.key)));
        let list: Value = serde_json::from_slice(&answer).unwrap();
        let pending = |endpoint: &Value| endpoint["health"]["pending"].as_u64();
        list["data"].as_array().unwrap().iter().filter_map(pending).sum()
    }

    fn bare(&self, span: Duration) -> f64 {
        let address: SocketAddr = self.receiver.address;
        let (address, millis) = (address.to_string(), span.as_millis().to_string());
        let result = run_role(bare_deliveries::DELIVER, &[&address, self.directory.path().to_str().unwrap(), &millis]);
        result["per_second"].as_f64().unwrap()
    }
}
