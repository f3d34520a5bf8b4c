//! Pages of the console: the time from request to answer, uncached, on the sample data of an evaluation and with many tickets.

use serde_json::Value;

use crate::{
    Plan,
    load::{self, Request},
    process::Server,
    report::{Report, Target},
};

/// Ticket numbers of the sample data that a new evaluation has.
const SAMPLE_TICKETS: &str = "3000";

pub fn measure(plan: Plan) {
    let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::start_tenantd_with(directory.path(), SAMPLE_TICKETS, &[]);
    let key = server.text("api_key");
    let mut report = Report::default();
    pages(&mut report, &server, &key, plan, 20.0);
    server.stop();
    println!("\n{}", report.render());
}

/// Measures every kind of page on a server, each with an existing record. `target` is the p99 to hold, in milliseconds.
pub fn pages(report: &mut Report, server: &Server, key: &str, plan: Plan, target: f64) {
    let first = |path: &str, field: &str| {
        let answer: Value = serde_json::from_slice(&load::once(server.address, &Request::get(path, Some(key)))).unwrap();
        answer["data"][0][field].as_str().unwrap_or_else(|| panic!("{path} has no record")).to_owned()
    };
    let ticket = first("/api/psa/tickets?status_category=open&limit=1", "ref");
    let organization = first("/api/directory/organizations?limit=1", "id");
    let device = first("/api/directory/devices?limit=1", "id");
    let contact = first("/api/directory/contacts?limit=1", "id");
    let paths = [
        ("home", "/".to_owned()),
        ("queue", "/tickets".to_owned()),
        ("queue, filtered", "/tickets?q=printer&priority=high&sort=due_at".to_owned()),
        ("ticket", format!("/tickets/{ticket}")),
        ("new ticket", format!("/tickets/new?organization_id={organization}")),
        ("organizations", "/organizations".to_owned()),
        ("organization", format!("/organizations/{organization}")),
        ("contacts", format!("/organizations/{organization}/contacts")),
        ("contact", format!("/contacts/{contact}")),
        ("devices", "/devices".to_owned()),
        ("devices by system", "/devices?group_by=os".to_owned()),
        ("device", format!("/devices/{device}")),
        ("search", "/search?q=printer".to_owned()),
        ("suggestions", "/search/suggest?q=pri".to_owned()),
        ("profile", "/profile".to_owned()),
        ("workflows", "/workflows".to_owned()),
        ("runs", "/workflows/runs".to_owned()),
        ("webhooks", "/webhooks".to_owned()),
        ("events of webhooks", "/webhooks/events".to_owned()),
        ("clouds", "/clouds".to_owned()),
        ("VMs", "/vms".to_owned()),
        ("backups", "/backups".to_owned()),
        ("analytics", "/analytics".to_owned()),
        ("users", "/settings/users".to_owned()),
        ("API keys", "/settings/keys".to_owned()),
        ("audit", "/settings/audit".to_owned()),
        ("quotas", "/settings/quotas".to_owned()),
        ("who can do what", "/settings/rights".to_owned()),
        ("roles", "/settings/roles".to_owned()),
        ("service levels", "/settings/service-levels".to_owned()),
    ];
    for (name, path) in paths {
        let measured = load::run(server.address, server.process_id(), 1, &Request::get_uncached(&path, key), plan.span);
        report.measurement(&format!("page {name}, p99"), "ms", &[measured.p99.as_secs_f64() * 1000.0], Target::AtMost(target));
    }
}
