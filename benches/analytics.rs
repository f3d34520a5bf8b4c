//! Analytics: daily metrics of a year of the demo, and the cost of counting requests. For the cost, a server that counts and one
//! that does not take turns under the same load.

use crate::{
    Plan,
    load::{self, Request},
    process::Server,
    report::{Report, Target},
};

const CLIENTS: usize = 32;
const YEAR: &str = "/api/analytics/tenant?range=12mo&bucket=day";

pub fn measure(plan: Plan) {
    let mut report = Report::default();
    questions(plan, &mut report);
    counting(plan, &mut report);
    println!("\n{}", report.render());
}

fn questions(plan: Plan, report: &mut Report) {
    let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tickets = if plan.quick { "300" } else { "3000" };
    let server = Server::start_tenantd_with(directory.path(), tickets, &[]);
    report.note(format!("the demo with {tickets} tickets and its year was ready after {:.1} s.", server.ready_after.as_secs_f64()));
    let key = server.text("api_key");
    for (name, query) in [
        ("12 months by day, one metric", "&metrics=tickets_created"),
        ("12 months by day, all metrics", ""),
        ("12 months by day, all metrics, Kathmandu, compared", "&timezone=Asia/Kathmandu&compare=previous_period"),
        ("12 months by day, requests by route", "&metrics=api_requests,api_request_p95_ms&group_by=route"),
    ] {
        let request = Request::get(&format!("{YEAR}{query}"), Some(&key));
        let measured = load::run(server.address, server.process_id(), 1, &request, plan.span);
        let millis = |span: std::time::Duration| span.as_secs_f64() * 1000.0;
        report.measurement(&format!("{name}, p50"), "ms", &[millis(measured.p50)], Target::None);
        report.measurement(&format!("{name}, p99 of {}", measured.count), "ms", &[millis(measured.p99)], Target::AtMost(30.0));
    }
    server.stop();
}

/// The throughput with counting, relative to the throughput without.
fn counting(plan: Plan, report: &mut Report) {
    let directory = || tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (with, without) = (directory(), directory());
    let counts = Server::start_tenantd_with(with.path(), "0", &[("TENANTD_ANALYTICS__COUNT_REQUESTS", "true")]);
    let silent = Server::start_tenantd_with(without.path(), "0", &[("TENANTD_ANALYTICS__COUNT_REQUESTS", "false")]);
    let mut rounds = Vec::new();
    // The difference is small, so there are more rounds than usual, each in both orders.
    for round in 0..plan.rounds * 2 {
        let run = |server: &Server| {
            let request = Request::get("/api/auth/session", Some(&server.text("api_key")));
            load::run(server.address, server.process_id(), CLIENTS, &request, plan.span).per_second
        };
        let (counted, bare) = if round % 2 == 0 {
            let counted = run(&counts);
            (counted, run(&silent))
        } else {
            let bare = run(&silent);
            (run(&counts), bare)
        };
        rounds.push((counted, bare));
    }
    report.ratio("requests with counting, by those without", "/s", &rounds, Target::AtLeast(0.98));
    counts.stop();
    silent.stop();
}
