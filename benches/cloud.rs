//! Clouds: lists and filters of a tenant with many VMs at several providers, also while syncs change some VMs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    Plan,
    load::{self, Measured, Request},
    process::Server,
    report::{Report, Target},
};

const VMS: &str = "/api/cloud/vms";
const PROVIDERS: usize = 20;
const VMS_EACH: usize = 500;

struct Bench {
    server: Server,
    key: String,
    first: String,
    _directory: tempfile::TempDir,
}

pub fn measure(plan: Plan) {
    let bench = Bench::new();
    let total = PROVIDERS * VMS_EACH;
    let mut report = Report::default();
    let queries = [
        ("list", String::new()),
        ("second page of the middle", bench.cursor()),
        ("state=running", "&state=running".to_owned()),
        ("region", "&region=sim-west".to_owned()),
        ("tag.role", "&tag.role=vpn".to_owned()),
        ("name", "&name=mail-4".to_owned()),
        ("unused ip", "&ip=192.0.2.1".to_owned()),
        ("provider_id", format!("&provider_id={}", bench.first)),
        ("group_by=state and total", "&group_by=state&include_total=true".to_owned()),
    ];
    for (name, query) in &queries {
        let measured = bench.latency(query, plan);
        let p99 = measured.p99.as_secs_f64() * 1000.0;
        report.measurement(&format!("{name}, {total} VMs over {PROVIDERS} providers, p99"), "ms", &[p99], Target::AtMost(20.0));
    }
    report.measurement("memory", "MiB", &[bench.server.resident_mebibytes()], Target::None);
    bench.server.stop();
    println!("\n{}", report.render());
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = Server::start_tenantd(directory.path());
        let key = server.text("api_key");
        let mut bench = Self { server, key, first: String::new(), _directory: directory };
        for number in 0..PROVIDERS {
            let config = json!({"seed": number, "vm_count": VMS_EACH, "quota": VMS_EACH});
            let body =
                json!({"name": format!("Bench {number}"), "kind": "simulated", "config": config, "sync_interval_seconds": 60})
                    .to_string();
            let made = load::post(bench.server.address, "/api/cloud/providers", &bench.key, "application/json", body.as_bytes());
            let made: Value = serde_json::from_slice(&made).unwrap();
            made["id"].as_str().unwrap().clone_into(&mut bench.first);
        }
        // The syncs have reported all VMs, in addition to those of the sample data.
        while bench.get("&limit=1&include_total=true&name=-")["page"]["total"].as_u64().unwrap() < (PROVIDERS * VMS_EACH) as u64 {
            std::thread::sleep(Duration::from_millis(100));
        }
        bench
    }

    fn get(&self, query: &str) -> Value {
        let request = Request::get(&format!("{VMS}?{}", query.trim_start_matches('&')), Some(&self.key));
        serde_json::from_slice(&load::once(self.server.address, &request)).unwrap()
    }

    /// The cursor after the first half.
    fn cursor(&self) -> String {
        let mut cursor = String::new();
        for _ in 0..PROVIDERS * VMS_EACH / 400 {
            let page = self.get(&format!("&limit=200{cursor}"));
            cursor = format!("&cursor={}", page["page"]["next_cursor"].as_str().unwrap());
        }
        cursor
    }

    fn latency(&self, query: &str, plan: Plan) -> Measured {
        let request = Request::get(&format!("{VMS}?limit=50{query}"), Some(&self.key));
        load::run(self.server.address, self.server.process_id(), 1, &request, plan.span)
    }
}
