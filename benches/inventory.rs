//! The asset inventory over 100,000 devices of one tenant, each with two dozen packages: full exports, pages with selective
//! filters, and counts. They are compared only with their targets. Memory is the growth during an export.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    Plan,
    load::{self, Request},
    process::Server,
    report::{Report, Target},
};

const DEVICES: usize = 100_000;
const ORGANIZATIONS: usize = 200;
const PACKAGES: usize = 24;
/// The number of devices per request.
const BULK: usize = 2_000;
const REPORT: &str = "/api/rmm/reports/asset-inventory";
const INGEST: &str = "/internal/ingest?answer=errors";
const LINES: &str = "application/x-ndjson";
const ALL: &str = "sections=summary,hardware,os,network,security,patch,software,warranty,backup";

pub fn measure(plan: Plan) {
    let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::start_tenantd(directory.path());
    let key = server.text("api_key");
    let started = Instant::now();
    fill(server.address, &key);
    let filled = started.elapsed().as_secs_f64();
    // Moves the changes from memory to the file before the exports.
    server.stop();
    let server = Server::start_tenantd(directory.path());
    let mut report = Report::default();
    report.note(format!(
        "{DEVICES} devices of {} bytes with {PACKAGES} packages, sent in {filled:.0} s.",
        device(7).to_string().len()
    ));
    let exports = [
        ("ndjson, summary", "format=ndjson".to_owned(), Target::AtMost(5.0)),
        ("ndjson, all sections", format!("format=ndjson&{ALL}"), Target::AtMost(5.0)),
        ("csv, summary", "format=csv".to_owned(), Target::None),
        ("csv, all sections", format!("format=csv&{ALL}"), Target::None),
        ("ndjson, a row a package", "format=ndjson&rows=software&sections=os".to_owned(), Target::None),
    ];
    for (name, query, target) in exports {
        let before = server.resident_mebibytes();
        let exported = export(server.address, &key, &query);
        report.measurement(name, "s", &[exported.seconds], target);
        report.note(format!(
            "{name}: {} rows, {:.0} MB, {:.0} to {:.0} MiB resident, {:.0} at most so far.",
            exported.rows,
            exported.bytes as f64 / 1e6,
            before,
            server.resident_mebibytes(),
            server.peak_mebibytes(),
        ));
    }
    for (name, query) in [
        ("first page", "limit=50"),
        ("first page, all sections", "limit=50&sections=summary,hardware,os,network,security,patch,software,warranty,backup"),
        ("class=server, 1 in 50", "limit=50&class=server"),
        ("site, 1 in 5,000", "limit=50&site=Rare"),
        ("serial, the last but one", "limit=50&serial=SN0000099998"),
        ("software, 1 in 10,000", "limit=50&software=Rare%20Package%3E%3D2"),
        ("q, nothing", "limit=50&q=nothing-has-this"),
        ("include_total", "limit=50&include_total=true"),
        ("summary", "limit=50&summary=true"),
        ("group_by=class", "group_by=class"),
        ("group_by=software", "group_by=software"),
    ] {
        let request = Request::get(&format!("{REPORT}?{query}"), Some(&key));
        let measured = load::run(server.address, server.process_id(), 1, &request, plan.span);
        let millis = |span: std::time::Duration| span.as_secs_f64() * 1000.0;
        report.measurement(&format!("{name}, p50"), "ms", &[millis(measured.p50)], Target::None);
        report.measurement(&format!("{name}, p99 of {}", measured.count), "ms", &[millis(measured.p99)], Target::None);
    }
    report.measurement("peak memory", "MiB", &[server.peak_mebibytes()], Target::None);
    server.stop();
    println!("\n{}", report.render());
}

fn fill(address: SocketAddr, key: &str) {
    let organizations: String = (0..ORGANIZATIONS)
        .map(|number| {
            format!(
                "{}\n",
                json!({"kind": "organization", "external_id": format!("o{number}"), "name": format!("Organization {number}")})
            )
        })
        .collect();
    send(address, key, &organizations);
    for first in (0..DEVICES).step_by(BULK) {
        let lines: String = (first..first + BULK).map(|number| format!("{}\n", device(number))).collect();
        send(address, key, &lines);
    }
}

fn send(address: SocketAddr, key: &str, lines: &str) {
    let answer = load::post(address, INGEST, key, LINES, lines.as_bytes());
    let end: Value = serde_json::from_slice(answer.trim_ascii()).unwrap();
    assert_eq!(end["failed"], 0, "{end}");
}

fn device(number: usize) -> Value {
    let (high, low) = (number / 250 % 250, number % 250);
    let mut software: Vec<Value> = (0..PACKAGES)
        .map(|place| {
            let name = (number + place * 7) % 120;
            json!({"name": format!("Package {name} Professional"), "version": format!("{place}.{}.{low}", number % 9), "publisher": "Contoso Software, Inc."})
        })
        .collect();
    if number.is_multiple_of(10_000) {
        software.push(json!({"name": "Rare Package", "version": "2.1"}));
    }
    json!({
        "kind": "device", "external_id": format!("agent-{number:08}"), "name": format!("WS-{number:08}"),
        "class": if number.is_multiple_of(50) { "server" } else { "workstation" },
        "organization_external_id": format!("o{}", number % ORGANIZATIONS),
        "site": if number.is_multiple_of(5_000) { "Rare".to_owned() } else { format!("Site {}", number % 40) },
        "tags": ["managed"], "agent": {"version": "5.2.1", "last_seen_at": "2026-01-15T09:00:00Z"}, "health": "healthy",
        "hardware": {"manufacturer": "Contoso", "model": format!("Latitude {}", number % 17), "serial": format!("SN{number:010}"),
            "cpu": {"model": "8-core", "cores": 8}, "memory_bytes": 17_179_869_184_u64,
            "disks": [{"model": "NVMe", "bytes": 512_000_000_000_u64, "kind": "nvme"}],
            "volumes": [{"name": "C:", "bytes": 500_000_000_000_u64, "free_bytes": 90_000_000_000_u64, "encrypted": true}]},
        "os": {"family": "windows", "name": "Windows 11 Pro", "version": "24H2", "build": "26100", "reboot_required": false},
        "network": {"hostname": format!("ws-{number:08}"), "primary_ip": format!("10.1.{high}.{low}"),
            "interfaces": [{"name": "eth0", "mac": format!("02:00:00:01:{high:02x}:{low:02x}"), "ips": [format!("10.1.{high}.{low}")]}]},
        "security": {"antivirus": "Defender", "firewall": true}, "patch": {"status": "compliant", "missing_critical": 0, "missing_other": 3},
        "software": software, "warranty": {"status": "active", "ends_at": "2028-01-01T00:00:00Z"},
    })
}

struct Export {
    seconds: f64,
    rows: usize,
    bytes: usize,
}

/// Reads a whole export without storing it.
fn export(address: SocketAddr, key: &str, query: &str) -> Export {
    let mut connection = TcpStream::connect(address).unwrap();
    let started = Instant::now();
    write!(
        connection,
        "GET {REPORT}?{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut reader = BufReader::with_capacity(1 << 20, connection);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        assert!(!line.starts_with("HTTP/") || line.contains("200"), "{line}");
        line.clear();
    }
    let (mut bytes, mut piece, mut last) = (0, vec![0; 1 << 20], Vec::new());
    loop {
        let length = reader.read(&mut piece).unwrap();
        if length == 0 {
            break;
        }
        bytes += length;
        last.extend_from_slice(&piece[..length]);
        last.drain(..last.len().saturating_sub(100));
    }
    let seconds = started.elapsed().as_secs_f64();
    assert!(last.ends_with(b"0\r\n\r\n"), "the export is whole");
    let end = String::from_utf8_lossy(&last).into_owned();
    let count = end.split_once("\"_end\":true,\"count\":").and_then(|(_, rest)| rest.split('}').next()?.parse().ok());
    assert!(count.is_some() || query.contains("csv"), "the last line has the count: {end}");
    Export { seconds, rows: count.unwrap_or(DEVICES), bytes }
}
