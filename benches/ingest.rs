//! Ingest: one stream of devices into an empty tenant, like the first synchronization of an agent. The bench compares lines per
//! second and peak memory only with their targets.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    time::Instant,
};

use serde_json::Value;

use crate::{
    Plan,
    process::Server,
    report::{Report, Target},
};

const PATH: &str = "/internal/ingest";
/// The number of lines per chunk of the request.
const CHUNK_LINES: usize = 200;

pub fn measure(plan: Plan) {
    let devices = if plan.quick { 100_000 } else { 1_000_000 };
    let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::start_tenantd(directory.path());
    let key = server.text("api_key");
    send(server.address, &key, &[r#"{"kind":"organization","external_id":"bench","name":"Bench"}"#.to_owned()].concat(), 1);
    let memory_before = server.peak_mebibytes();
    let started = Instant::now();
    let created = stream(server.address, &key, devices);
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(created, devices);
    let again = Instant::now();
    let unchanged = 20_000.min(devices);
    assert_eq!(stream(server.address, &key, unchanged), 0, "what is sent again is unchanged");
    let mut report = Report::default();
    report.measurement("devices imported in one stream", "/s", &[devices as f64 / seconds], Target::AtLeast(10_000.0));
    report.measurement("unchanged devices", "/s", &[unchanged as f64 / again.elapsed().as_secs_f64()], Target::None);
    report.measurement("peak memory", "MiB", &[server.peak_mebibytes()], Target::AtMost(200.0));
    report.note(format!("{devices} devices of {} bytes; {memory_before:.0} MiB before them.", line(0).len()));
    server.stop();
    println!("\n{}", report.render());
}

/// A device as an agent reports it.
fn line(number: usize) -> String {
    let (site, model, minute) = (number % 40, number % 17, number % 60);
    let (high, low) = (number / 250 % 250, number % 250);
    format!(
        concat!(
            r#"{{"kind":"device","external_id":"agent-{number:08}","name":"WS-{number:08}","class":"workstation","lifecycle":"active","#,
            r#""organization_external_id":"bench","site":"Site {site}","tags":["managed","batch-{model}"],"#,
            r#""agent":{{"version":"5.2.{model}","last_seen_at":"2026-01-15T09:{minute:02}:00Z"}},"#,
            r#""hardware":{{"manufacturer":"Contoso","model":"Latitude {model}","serial":"SN{number:010}","cpu":{{"model":"8-core","cores":8}},"memory_bytes":17179869184}},"#,
            r#""os":{{"family":"windows","name":"Windows 11 Pro","version":"24H2","build":"26100"}},"#,
            r#""network":{{"hostname":"ws-{number:08}","primary_ip":"10.{model}.{high}.{low}","interfaces":[{{"name":"eth0","mac":"02:00:00:{model:02x}:{high:02x}:{low:02x}","ips":["10.{model}.{high}.{low}"]}}]}},"#,
            r#""patch":{{"status":"compliant","missing_critical":0,"missing_other":{model}}}}}"#
        ),
        number = number,
        site = site,
        model = model,
        minute = minute,
        high = high,
        low = low
    )
}

fn head(key: &str) -> String {
    format!(
        "POST {PATH}?answer=errors HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
}

/// Sends the lines unchanged.
fn send(address: SocketAddr, key: &str, lines: &str, expected: u64) {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "{}{:x}\r\n{lines}\r\n0\r\n\r\n", head(key), lines.len()).unwrap();
    assert_eq!(end_of(connection)["created"].as_u64(), Some(expected));
}

/// Streams devices. Returns the number of new devices.
fn stream(address: SocketAddr, key: &str, devices: usize) -> usize {
    let mut connection = TcpStream::connect(address).unwrap();
    let answer = connection.try_clone().unwrap();
    let reader = std::thread::spawn(move || end_of(answer));
    connection.write_all(head(key).as_bytes()).unwrap();
    let mut chunk = String::new();
    for first in (0..devices).step_by(CHUNK_LINES) {
        chunk.clear();
        for number in first..(first + CHUNK_LINES).min(devices) {
            chunk.push_str(&line(number));
            chunk.push('\n');
        }
        write!(connection, "{:x}\r\n{chunk}\r\n", chunk.len()).unwrap();
    }
    connection.write_all(b"0\r\n\r\n").unwrap();
    let end = reader.join().unwrap();
    assert_eq!(end["failed"].as_u64(), Some(0), "{end}");
    usize::try_from(end["created"].as_u64().unwrap()).unwrap()
}

/// The last line of the response.
fn end_of(connection: TcpStream) -> Value {
    let lines = BufReader::new(connection).lines().map(Result::unwrap);
    let ends: Vec<String> = lines.filter(|line| line.contains("_end") || line.contains("\"error\"")).collect();
    let end = ends.last().expect("the answer ends");
    serde_json::from_str(end).unwrap_or_else(|error| panic!("{error}: {end}"))
}
