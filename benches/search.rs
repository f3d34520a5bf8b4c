//! Search: a million documents of two hundred tenants, one of them large, one with a hundred documents. It is compared with its
//! targets, and the small tenant with the same tenant alone on a server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Plan,
    load::{self, Measured, Request},
    process::{Server, cpu_time},
    report::{Pair, Report, Target},
};

const CLIENTS: usize = 8;
const TENANTS: usize = 200;
const SMALL: usize = 100;
const CHUNK_LINES: usize = 200;
/// The maximum time until changes are searchable during writes. Then the bench gives up.
const PATIENCE: Duration = Duration::from_mins(10);

const SUGGESTIONS: [(&str, &str); 4] =
    [("one letter", "w"), ("two letters", "ws"), ("a beginning", "ws-0000"), ("two words", "mueller an")];
const QUERIES: [(&str, &str); 9] = [
    ("a serial number", "SN0000000042"),
    ("a MAC address", "02-00-00-05-00-2a"),
    ("a rare word", "ws-00000042"),
    ("a common word", "latitude"),
    ("two words", "latitude%20contoso"),
    ("a phrase", "%22site%207%22"),
    ("a prefix", "lati*"),
    ("a typo", "lattitude"),
    ("fields", "type:device%20tag:managed%20os:windows"),
];

pub fn measure(plan: Plan) {
    let documents = if plan.quick { 50_000 } else { 1_000_000 };
    let tenants = if plan.quick { 20 } else { TENANTS };
    let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::start_tenantd(directory.path());
    let mut report = Report::default();
    let large_key = server.text("api_key");
    let (small_key, others) = make_tenants(directory.path(), tenants - 1);
    let large = documents * 3 / 10;
    let each = (documents - large - SMALL) / others.len();
    let started = Instant::now();
    let mut bytes = fill(server.address, &large_key, 0, large);
    bytes += fill(server.address, &small_key, 0, SMALL);
    for key in &others {
        bytes += fill(server.address, key, 0, each);
    }
    let written = started.elapsed().as_secs_f64();
    let behind = caught_up(directory.path());
    let taken = large + SMALL + each * others.len();
    report.measurement("documents searchable during writes", "/s", &[taken as f64 / (written + behind)], Target::AtLeast(5000.0));
    report.note(format!(
        "{taken} documents in {tenants} tenants, {large} in the largest: written in {written:.0} s, searchable {behind:.1} s later."
    ));

    latencies(&mut report, &server, &large_key, plan);
    small_to_alone(&mut report, &server, directory.path(), &small_key, plan);
    freshness(&mut report, &server, &large_key);

    let index = size_of(&directory.path().join("search"));
    report.measurement("index by text", "", &[index as f64 / bytes as f64], Target::AtMost(1.5));
    report.note(format!("The index has {} MiB, the records' text {} MiB.", index >> 20, bytes >> 20));
    let started = Instant::now();
    let before = status(directory.path())["rebuilds"].as_u64().unwrap();
    ask(directory.path(), "POST", "/internal/admin/search/reindex", "");
    while status(directory.path())["rebuilds"].as_u64().unwrap() == before {
        assert!(started.elapsed() < PATIENCE, "the index was not built");
        std::thread::yield_now();
    }
    report.measurement("rebuild", "s", &[started.elapsed().as_secs_f64()], Target::AtMost(300.0));
    report.measurement("peak memory", "MiB", &[server.peak_mebibytes()], Target::None);
    server.stop();
    println!("\n{}", report.render());
}

fn millis(measured: &Measured) -> f64 {
    measured.p99.as_secs_f64() * 1000.0
}

fn ask_for(server: &Server, key: &str, query: &str, plan: Plan) -> Measured {
    let request = Request::get(&format!("/api/search?{query}"), Some(key));
    load::run(server.address, server.process_id(), CLIENTS, &request, plan.span)
}

fn latencies(report: &mut Report, server: &Server, key: &str, plan: Plan) {
    for (name, q) in SUGGESTIONS {
        let measured = ask_for(server, key, &format!("mode=suggest&q={}", q.replace(' ', "%20")), plan);
        report.measurement(&format!("suggest, {name}, p99"), "ms", &[millis(&measured)], Target::AtMost(30.0));
    }
    for (name, q) in QUERIES {
        let measured = ask_for(server, key, &format!("q={q}&facets=type,organization,status"), plan);
        report.measurement(&format!("full, {name}, p99"), "ms", &[millis(&measured)], Target::AtMost(50.0));
    }
}

/// Measures the tenant with a hundred documents, in turns with the same tenant on a separate server. Both servers are idle, so the
/// result does not include the work of other log consumers.
fn small_to_alone(report: &mut Report, among: &Server, among_directory: &Path, among_key: &str, plan: Plan) {
    let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = Server::start_tenantd(directory.path());
    let alone_key = alone.text("api_key");
    fill(alone.address, &alone_key, 0, SMALL);
    rest(among, among_directory);
    rest(&alone, directory.path());
    for (name, query) in [("a word", "q=latitude"), ("a typo", "q=lattitude"), ("suggest", "mode=suggest&q=ws")] {
        let micros = |server: &Server, key: &str| ask_for(server, key, query, plan).p50.as_secs_f64() * 1e6;
        let rounds: Vec<Pair> = (0..plan.rounds).map(|_| (micros(among, among_key), micros(&alone, &alone_key))).collect();
        report.ratio(&format!("{SMALL} documents among all to alone, {name}, p50"), "us", &rounds, Target::AtMost(1.5));
    }
    alone.stop();
}

/// Waits until every log consumer is at the end of the log, and the process is idle.
fn rest(server: &Server, directory: &Path) {
    caught_up(directory);
    let started = Instant::now();
    let lags = || {
        let metrics = fetch(directory, "GET", "/metrics", "");
        let lag = |line: &str| line.strip_prefix("tenantd_consumer_lag_events{")?.rsplit_once(' ')?.1.parse::<f64>().ok();
        let lags: Vec<f64> = metrics.lines().filter_map(lag).collect();
        assert!(!lags.is_empty(), "the metrics have no log consumer");
        lags.iter().any(|lag| *lag > 0.0)
    };
    loop {
        let before = cpu_time(server.process_id());
        std::thread::sleep(Duration::from_secs(1));
        let used = cpu_time(server.process_id()).saturating_sub(before);
        if !lags() && used < Duration::from_millis(50) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "the server does not come to rest");
    }
}

/// The duration of a search that has to index a write first.
fn freshness(report: &mut Report, server: &Server, key: &str) {
    let mut spans = Vec::new();
    for round in 0..100_usize {
        // Every fifth document is not a device.
        let number = 50_000_000 + round * 5;
        send(server.address, key, &[line(number)]);
        let started = Instant::now();
        let answer = load::once(server.address, &Request::get(&format!("/api/search?q=ws-{number:08}"), Some(key)));
        spans.push(started.elapsed().as_secs_f64() * 1000.0);
        let found: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(found["page"]["total"], 1, "{found}");
    }
    spans.sort_by(f64::total_cmp);
    report.measurement("a search directly after a write, p50", "ms", &[spans[50]], Target::None);
    report.measurement("a search directly after a write, p99", "ms", &[spans[98]], Target::AtMost(50.0));
}

/// The seconds until a search answers. Then the index covers the whole log, because there are no writes meanwhile.
fn caught_up(directory: &Path) -> f64 {
    let started = Instant::now();
    loop {
        let answer = ask(directory, "GET", "/api/search?q=ws", "");
        if answer.get("data").is_some() {
            return started.elapsed().as_secs_f64();
        }
        assert!(started.elapsed() < PATIENCE && answer["code"] == "unavailable", "the index does not come up: {answer}");
    }
}

/// The texts of a line, without the names of its fields.
fn text_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_of).sum(),
        Value::Object(fields) => fields.values().map(text_of).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn status(directory: &Path) -> Value {
    ask(directory, "GET", "/internal/admin/search", "")
}

/// Sends a request over the admin socket. Returns the JSON response.
fn ask(directory: &Path, method: &str, path: &str, body: &str) -> Value {
    let answer = fetch(directory, method, path, body);
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// The body of a response over the admin socket.
fn fetch(directory: &Path, method: &str, path: &str, body: &str) -> String {
    let mut connection = UnixStream::connect(directory.join("admin.sock")).unwrap();
    write!(
        connection,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The key of a small tenant, and the keys of the others.
fn make_tenants(directory: &Path, count: usize) -> (String, Vec<String>) {
    let key = |number: usize| {
        let name = format!("tenant-{number}");
        let tenant =
            ask(directory, "POST", "/api/platform/tenants", &json!({"name": name, "slug": name, "kind": "standard"}).to_string());
        let path = format!("/internal/admin/tenants/{}/api-keys", tenant["id"].as_str().unwrap());
        let made = ask(directory, "POST", &path, &json!({"name": "bench", "scopes": ["*"]}).to_string());
        made["key"].as_str().unwrap().to_owned()
    };
    let mut keys: Vec<String> = (0..count).map(key).collect();
    (keys.remove(0), keys)
}

fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| if entry.path().is_dir() { size_of(&entry.path()) } else { entry.metadata().unwrap().len() }).sum()
}

const NAMES: [&str; 8] =
    ["Anna Mueller", "Ben Novak", "Chloé Martin", "David Rossi", "Eva Svensson", "Farid Haddad", "Grace Okafor", "Hugo Mueller"];

/// Generates mostly devices, and some contacts.
fn line(number: usize) -> String {
    let (site, model) = (number % 40, number % 17);
    let (high, low) = (number / 250 % 250, number % 250);
    if number % 5 == 4 {
        let name = NAMES[number / 5 % NAMES.len()];
        return format!(
            r#"{{"kind":"user","external_id":"person-{number:08}","name":"{name} {number}","email":"person{number}@bench.example","organization_external_id":"org-{}"}}"#,
            number % 10
        );
    }
    format!(
        concat!(
            r#"{{"kind":"device","external_id":"agent-{number:08}","name":"WS-{number:08}","class":"workstation","#,
            r#""organization_external_id":"org-{organization}","site":"Site {site}","tags":["managed","batch-{model}"],"#,
            r#""hardware":{{"manufacturer":"Contoso","model":"Latitude {model}","serial":"SN{number:010}"}},"#,
            r#""os":{{"family":"windows","name":"Windows 11 Pro","version":"24H2","build":"26100"}},"#,
            r#""network":{{"hostname":"ws-{number:08}","primary_ip":"10.{model}.{high}.{low}","interfaces":[{{"name":"eth0","mac":"02:00:00:{model:02x}:{high:02x}:{low:02x}"}}]}},"#,
            r#""software":[{{"name":"Google Chrome","version":"131.0"}},{{"name":"Package {site}","version":"1.{model}"}}]}}"#
        ),
        number = number,
        organization = number % 10,
        site = site,
        model = model,
        high = high,
        low = low
    )
}

/// Sends organizations and records. Returns the number of bytes of text in their values.
fn fill(address: SocketAddr, key: &str, first: usize, count: usize) -> usize {
    let organizations: Vec<String> = (0..10)
        .map(|number| format!(r#"{{"kind":"organization","external_id":"org-{number}","name":"Customer {number}"}}"#))
        .collect();
    send(address, key, &organizations);
    let mut connection = TcpStream::connect(address).unwrap();
    let answer = connection.try_clone().unwrap();
    let reader = std::thread::spawn(move || end_of(answer));
    connection.write_all(head(key).as_bytes()).unwrap();
    let (mut chunk, mut bytes) = (String::new(), 0);
    for start in (first..first + count).step_by(CHUNK_LINES) {
        chunk.clear();
        for number in start..(start + CHUNK_LINES).min(first + count) {
            chunk.push_str(&line(number));
            chunk.push('\n');
        }
        // The lines of a chunk are similar.
        let sample = (start..start + 10).map(|number| text_of(&serde_json::from_str(&line(number)).unwrap())).sum::<usize>();
        bytes += sample * CHUNK_LINES / 10;
        write!(connection, "{:x}\r\n{chunk}\r\n", chunk.len()).unwrap();
    }
    connection.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(reader.join().unwrap()["failed"], 0);
    bytes
}

fn head(key: &str) -> String {
    format!(
        "POST /internal/ingest?answer=errors HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
}

fn send(address: SocketAddr, key: &str, lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "{}{:x}\r\n{text}\r\n0\r\n\r\n", head(key), text.len()).unwrap();
    assert_eq!(end_of(connection)["failed"], 0);
}

/// The last line of the response.
fn end_of(connection: TcpStream) -> Value {
    let lines = BufReader::new(connection).lines().map(Result::unwrap);
    let end = lines.filter(|line| line.contains("_end") || line.contains("\"error\"")).last().expect("the answer ends");
    serde_json::from_str(&end).unwrap_or_else(|error| panic!("{error}: {end}"))
}
