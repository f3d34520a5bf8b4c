//! The customer report over 1,000 organizations with 100,000 devices and 5,000,000 jobs of one tenant, sent as agents send them. It
//! is compared only with its target. `--quick` uses a hundredth of the data.

use std::{net::SocketAddr, time::Instant};

use serde_json::{Value, json};

use crate::{
    Plan,
    load::{self, Request},
    process::Server,
    report::{Report, Target},
};

/// The number of lines per request.
const BULK: usize = 10_000;
const REPORT: &str = "/api/backup/customer-aggregate";
const INGEST: &str = "/internal/ingest?answer=errors";
const LINES: &str = "application/x-ndjson";
const HOUR: i64 = 3_600_000;
/// The time between two jobs of a device. Fifty jobs cover 25 days.
const EVERY: i64 = 12 * HOUR;

struct Estate {
    organizations: usize,
    devices: usize,
    jobs: usize,
}

pub fn measure(plan: Plan) {
    let estate = if plan.quick {
        Estate { organizations: 10, devices: 1_000, jobs: 50 }
    } else {
        Estate { organizations: 1_000, devices: 100_000, jobs: 50 }
    };
    let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::start_tenantd(directory.path());
    let key = server.text("api_key");
    let started = Instant::now();
    let names = (0..estate.organizations).map(
        |number| json!({"kind": "organization", "external_id": format!("o{number}"), "name": format!("Organization {number}")}),
    );
    send(server.address, &key, names);
    send(server.address, &key, (0..estate.devices).map(|number| device(number, estate.organizations)));
    let devices_in = started.elapsed().as_secs_f64();
    let now = jiff::Timestamp::now().as_millisecond();
    for round in 0..estate.jobs {
        let back = EVERY * i64::try_from(estate.jobs - round).unwrap() - 6 * HOUR;
        send(server.address, &key, (0..estate.devices).map(|number| job(number, round, now - back)));
    }
    let filled = started.elapsed().as_secs_f64();
    let (devices, jobs) = (estate.devices, estate.devices * estate.jobs);
    let mut report = Report::default();
    report.note(format!(
        "{} organizations, {devices} devices and {jobs} jobs, sent in {filled:.0} s; {:.0} jobs a second.",
        estate.organizations,
        jobs as f64 / (filled - devices_in)
    ));
    for (name, query, target) in [
        ("worst first", "", Target::AtMost(30.0)),
        ("worst first, 200 rows", "?limit=200", Target::AtMost(30.0)),
        ("by name", "?sort=name", Target::AtMost(30.0)),
        ("explained, below 80", "?explain=true&score_lt=80", Target::AtMost(30.0)),
        ("evidence", "?view=evidence", Target::None),
    ] {
        let request = Request::get(&format!("{REPORT}{query}"), Some(&key));
        let measured = load::run(server.address, server.process_id(), 1, &request, plan.span);
        let millis = |span: std::time::Duration| span.as_secs_f64() * 1000.0;
        report.measurement(&format!("{name}, p50"), "ms", &[millis(measured.p50)], Target::None);
        report.measurement(&format!("{name}, p99 of {}", measured.count), "ms", &[millis(measured.p99)], target);
    }
    report.measurement("peak memory", "MiB", &[server.peak_mebibytes()], Target::None);
    server.stop();
    println!("\n{}", report.render());
}

fn send(address: SocketAddr, key: &str, lines: impl Iterator<Item = Value>) {
    let mut lines = lines.peekable();
    while lines.peek().is_some() {
        let body: String = lines.by_ref().take(BULK).map(|line| format!("{line}\n")).collect();
        let answer = load::post(address, INGEST, key, LINES, body.as_bytes());
        let end: Value = serde_json::from_slice(answer.trim_ascii()).unwrap();
        assert_eq!(end["failed"], 0, "{end}");
    }
}

fn device(number: usize, organizations: usize) -> Value {
    json!({
        "kind": "device", "external_id": format!("d{number}"), "name": format!("WS-{number:08}"),
        "class": if number.is_multiple_of(10) { "server" } else { "workstation" },
        "organization_external_id": format!("o{}", number % organizations),
    })
}

/// One of forty jobs fails. One of fifty devices has no successful job.
fn job(number: usize, round: usize, started_at: i64) -> Value {
    let at = |millis: i64| jiff::Timestamp::from_millisecond(millis).unwrap().to_string();
    let started_at = started_at + i64::try_from(number % 600).unwrap() * 1_000;
    let fails = (number + round).is_multiple_of(40) || number.is_multiple_of(50);
    json!({
        "kind": "backup_job", "external_id": format!("j{round}"), "device": format!("d{number}"), "started_at": at(started_at),
        "ended_at": at(started_at + 900_000), "status": if fails { "failed" } else { "success" }, "bytes": 50_000_000_000_u64,
    })
}
