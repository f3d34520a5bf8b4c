//! Tickets: the latency of a tenant with many tickets compared with a tenant with few, and creations compared with raw commits.
//!
//! Both servers have the same mix of tickets. A ratio is the median latency with many tickets divided by the median with few.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{
    Plan, bare, console,
    load::{self, Measured, Request, UNIQUE},
    process::{Server, raw_commits},
    report::{Pair, Report, Target},
};

const TICKETS: &str = "/api/psa/tickets";
const FEW: usize = 10_000;
const BULK: usize = 100;
const READERS: usize = 32;
const ORGANIZATIONS: usize = 200;
const LINES: &str = "/internal/ingest?answer=all";

/// A server with a number of tickets, and the ids that queries need.
struct Tenant {
    server: Server,
    key: String,
    organizations: Vec<String>,
    devices: Vec<String>,
    contacts: Vec<String>,
    sample: Value,
    directory: tempfile::TempDir,
}

pub fn measure(plan: Plan) {
    let many = if plan.quick { 100_000 } else { 1_000_000 };
    let few = Tenant::new(FEW);
    let started = std::time::Instant::now();
    let many_tenant = Tenant::new(many);
    let mut report = Report::default();
    report.note(format!("{many} tickets were made in {:.0} s, in requests of {BULK}.", started.elapsed().as_secs_f64()));
    for (name, path) in queries(&many_tenant) {
        let ours: Vec<Measured> = [&many_tenant, &few].into_iter().map(|tenant| tenant.latency(&path(tenant), plan)).collect();
        report.ratio(&format!("{name}, {many} to {FEW}, p50"), "us", &[micros(&ours)], Target::AtMost(2.0));
        report.measurement(&format!("{name}, p99 of {many}"), "ms", &[ours[0].p99.as_secs_f64() * 1000.0], Target::AtMost(20.0));
    }
    console::pages(&mut report, &many_tenant.server, &many_tenant.key, plan, 60.0);
    let creations: Vec<Measured> = [&many_tenant, &few].into_iter().map(|tenant| tenant.creations(1, plan)).collect();
    report.ratio(&format!("create, 1 client, {many} to {FEW}, p50"), "us", &[micros(&creations)], Target::AtMost(2.0));
    let (mut by_32, mut by_128) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let raw = raw_commits(many_tenant.directory.path(), plan.span.measure, "2").per_second;
        by_32.push((few.creations(32, plan).per_second, raw));
        by_128.push((few.creations(128, plan).per_second, raw));
    }
    report.ratio("create, 32 clients, against raw commits", "/s", &by_32, Target::AtLeast(1.0));
    report.ratio("create, 128 clients, against raw commits", "/s", &by_128, Target::AtLeast(2.0));
    reads(&mut report, &few, plan);
    report.measurement("memory with many", "MiB", &[many_tenant.server.resident_mebibytes()], Target::None);
    few.server.stop();
    many_tenant.server.stop();
    println!("\n{}", report.render());
}

/// Compares one ticket and a page of 50 with a bare poem-openapi handler that sends the same JSON.
fn reads(report: &mut Report, tenant: &Tenant, plan: Plan) {
    let one = format!("{TICKETS}/{}", tenant.sample["id"].as_str().unwrap());
    let list = format!("{TICKETS}?limit=50");
    let sample = |path: &str| load::once(tenant.server.address, &Request::get(path, Some(&tenant.key)));
    let samples = [&one, &list].map(|path| serde_json::from_slice::<Value>(&sample(path)).unwrap());
    let bare = Server::start_role(bare::SERVE_TICKETS, &Value::from(samples.to_vec()).to_string());
    for (name, path, target) in [("get one", &one, Target::AtLeast(0.75)), ("list 50", &list, Target::AtLeast(3.0))] {
        let (mut kept, mut uncached) = (Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            let run = |server: &Server, request: &Request| {
                load::run(server.address, server.process_id(), READERS, request, plan.span).per_second
            };
            let ceiling = run(&bare, &Request::get(path, None));
            kept.push((run(&tenant.server, &Request::get(path, Some(&tenant.key))), ceiling));
            uncached.push((run(&tenant.server, &Request::get_uncached(path, &tenant.key)), ceiling));
        }
        report.ratio(&format!("{name}, {READERS} clients, against a bare handler"), "/s", &kept, target);
        report.ratio(&format!("{name}, {READERS} clients, uncached"), "/s", &uncached, Target::None);
    }
}

fn micros(measured: &[Measured]) -> Pair {
    (measured[0].p50.as_secs_f64() * 1e6, measured[1].p50.as_secs_f64() * 1e6)
}

type Path = Box<dyn Fn(&Tenant) -> String>;

fn queries(tenant: &Tenant) -> Vec<(&'static str, Path)> {
    let fixed = |query: &'static str| -> Path { Box::new(move |_| format!("{TICKETS}?limit=50&{query}")) };
    let from_sample = |name: &'static str, pointer: &'static str| -> Path {
        Box::new(move |tenant: &Tenant| {
            format!("{TICKETS}?limit=50&{name}={}", tenant.sample.pointer(pointer).unwrap().as_str().unwrap())
        })
    };
    assert!(tenant.organizations.len() == ORGANIZATIONS && tenant.devices.len() == ORGANIZATIONS);
    vec![
        ("get", Box::new(|tenant: &Tenant| format!("{TICKETS}/{}", tenant.sample["id"].as_str().unwrap())) as Path),
        ("list", fixed("sort=-updated_at")),
        ("sort=updated_at", fixed("sort=updated_at")),
        ("sort=created_at", fixed("sort=created_at")),
        ("sort=-created_at", fixed("sort=-created_at")),
        ("sort=priority", fixed("sort=priority")),
        ("sort=-priority", fixed("sort=-priority")),
        ("sort=due_at", fixed("sort=due_at")),
        ("sort=number", fixed("sort=number")),
        ("sort=-number", fixed("sort=-number")),
        ("status=new", fixed("status=new")),
        ("status=in_progress", fixed("status=in_progress")),
        ("status of three", fixed("status=new,open,on_hold")),
        ("status_category=open", fixed("status_category=open")),
        ("priority=critical", fixed("priority=critical")),
        ("type=alert", fixed("type=alert")),
        ("source=monitoring", fixed("source=monitoring")),
        ("organization_id", Box::new(|tenant: &Tenant| format!("{TICKETS}?limit=50&organization_id={}", tenant.organizations[7]))),
        ("contact_id", Box::new(|tenant: &Tenant| format!("{TICKETS}?limit=50&contact_id={}", tenant.contacts[7]))),
        ("device_id", Box::new(|tenant: &Tenant| format!("{TICKETS}?limit=50&device_id={}", tenant.devices[7]))),
        ("assignee_id=none", fixed("assignee_id=none")),
        ("tag", fixed("tag=tag-3")),
        ("sla_state=on_track", fixed("sla_state=on_track")),
        ("dedup_key", from_sample("dedup_key", "/dedup_key")),
        (
            "external_system+external_id",
            Box::new(|tenant: &Tenant| {
                let id = tenant.sample.pointer("/external_refs/0/id").unwrap().as_str().unwrap();
                format!("{TICKETS}?limit=50&external_system=bench&external_id={id}")
            }),
        ),
        ("created_after", fixed("created_after=2020-01-01T00:00:00Z")),
        ("updated_before", fixed("updated_before=2100-01-01T00:00:00Z")),
        ("due_before", fixed("due_before=2100-01-01T00:00:00Z")),
        ("q", fixed("q=printer")),
        ("since_seq", fixed("since_seq=0")),
        ("counts_by=status", fixed("counts_by=status")),
    ]
}

impl Tenant {
    fn new(tickets: usize) -> Self {
        let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = Server::start_tenantd(directory.path());
        let key = server.text("api_key");
        let ingest = |make: fn(usize) -> Value| -> Vec<String> {
            let lines: String = (0..ORGANIZATIONS).map(|number| format!("{}\n", make(number))).collect();
            let answer = load::post(server.address, LINES, &key, "application/x-ndjson", lines.as_bytes());
            let answer = String::from_utf8(answer).unwrap();
            answer
                .lines()
                .filter_map(|line| Some(serde_json::from_str::<Value>(line).unwrap()["id"].as_str()?.to_owned()))
                .collect()
        };
        let organizations = ingest(
            |number| json!({"kind": "organization", "external_id": format!("o{number}"), "name": format!("Organization {number}")}),
        );
        let contacts = ingest(|number| {
            json!({"kind": "user", "external_id": format!("u{number}"), "name": format!("Person {number}"),
                "email": format!("person{number}@example.com"), "organization_external_id": format!("o{number}")})
        });
        let devices = ingest(|number| {
            json!({"kind": "device", "external_id": format!("d{number}"), "name": format!("Device {number}"),
                "organization_external_id": format!("o{number}")})
        });
        let mut tenant = Self { server, key, organizations, devices, contacts, sample: Value::Null, directory };
        for first in (0..tickets).step_by(BULK) {
            tenant.fill(first);
        }
        let middle = format!("{TICKETS}/{}", tickets / 2);
        tenant.sample =
            serde_json::from_slice(&load::once(tenant.server.address, &Request::get(&middle, Some(&tenant.key)))).unwrap();
        tenant
    }

    /// Creates tickets that differ in every filterable field. A tenth of them is in progress.
    fn fill(&self, first: usize) {
        let pick = |choices: &[&'static str], number: usize| choices[number % choices.len()];
        let tickets: Vec<Value> = (first..first + BULK)
            .map(|number| {
                let place = number * 7919 % ORGANIZATIONS;
                json!({
                    "subject": format!("{} {} {number}", pick(&["Printer", "Laptop", "Mail", "Backup", "Network"], number / 3), pick(&["offline", "slow", "broken"], number)),
                    "organization_id": self.organizations[place],
                    "contact_id": self.contacts[place],
                    "device_ids": [self.devices[place]],
                    "priority": pick(&["critical", "high", "medium", "low", "low", "medium"], number / 5),
                    "type": pick(&["incident", "alert", "task", "question"], number / 2),
                    "source": pick(&["api", "monitoring", "email", "phone"], number / 7),
                    "tags": [format!("tag-{}", number % 20)],
                    "dedup_key": format!("check-{number}"),
                    "external_refs": [{"system": "bench", "id": format!("x{number}")}],
                })
            })
            .collect();
        let body = json!({"tickets": tickets, "atomic": true}).to_string();
        let answer = load::post(self.server.address, TICKETS, &self.key, "application/json", body.as_bytes());
        if first.is_multiple_of(10 * BULK) {
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            let ids: Vec<&Value> = answer["results"].as_array().unwrap().iter().map(|result| &result["ticket"]["id"]).collect();
            let patch = json!({"ids": ids, "patch": {"status": "in_progress"}}).to_string();
            load::patch(self.server.address, TICKETS, &self.key, patch.as_bytes());
        }
    }

    fn latency(&self, path: &str, plan: Plan) -> Measured {
        load::run(self.server.address, self.server.process_id(), 1, &Request::get_uncached(path, &self.key), plan.span)
    }

    fn creations(&self, clients: usize, plan: Plan) -> Measured {
        let body = format!(
            r#"{{"subject":"Printer {UNIQUE}","organization_id":"{}","device_ids":["{}"],"priority":"high","tags":["bench"],"description":"It prints nothing since this morning."}}"#,
            self.organizations[3], self.devices[3]
        );
        let address: SocketAddr = self.server.address;
        load::run(address, self.server.process_id(), clients, &Request::create(TICKETS, &self.key, &body), plan.span)
    }
}
