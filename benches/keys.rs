//! API keys: reads compared with a bare handler that returns the same object, creations compared with raw commits, and an idle
//! server.

use std::{path::Path, time::Duration};

use serde_json::Value;

use crate::{
    Plan, bare,
    load::{self, Measured, Request, Span, UNIQUE},
    process::{Raw, Server, raw_commits},
    report::{Pair, Report, Target, median},
};

const KEYS: &str = "/api/admin/api-keys";
const READERS: usize = 32;
const STARTS: usize = 5;
/// How long the server is idle before its memory is measured.
const SETTLING: Duration = Duration::from_secs(1);

/// The measurements of all rounds.
#[derive(Default)]
struct Rounds {
    read: Vec<(Measured, Measured)>,
    list: Vec<(Measured, Measured)>,
    creations: Vec<Creations>,
}

/// One round of writes.
struct Creations {
    raw: Raw,
    raw_one_phase: Raw,
    alone: Measured,
    by_32: Measured,
    by_128: Measured,
}

pub fn measure(plan: Plan) {
    let directory = tempfile::Builder::new().prefix("tenantd-bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let server = Server::start_tenantd(&data);
    std::thread::sleep(SETTLING);
    let first_memory = server.resident_mebibytes();

    let key = server.text("api_key");
    let create =
        Request::create(KEYS, &key, &format!(r#"{{"name":"load {UNIQUE}","scopes":["api_keys:read"],"expires_days":30}}"#));
    let sample = prepare(&server, &key, &create);
    let bare = Server::start_role(bare::SERVE, &sample.to_string());
    let path = format!("{KEYS}/{}", sample["id"].as_str().unwrap());
    let list = format!("{KEYS}?limit={}", bare::LIST_LENGTH);
    assert_same(&server, &bare, &path, &key, &sample);

    let mut rounds = Rounds::default();
    for round in 1..=plan.rounds {
        println!("round {round} of {}", plan.rounds);
        rounds.read.push(read(&server, &bare, &key, &path, plan.span));
        rounds.list.push(read(&server, &bare, &key, &list, plan.span));
        rounds.creations.push(write(&server, &create, directory.path(), plan.span));
    }
    let loaded_memory = server.resident_mebibytes();
    server.stop();
    drop(bare);

    let mut report = Report::default();
    tell_rounds(&mut report, &rounds);
    let store = std::fs::metadata(data.join("tenantd.redb")).unwrap().len() as f64 / f64::from(1 << 20);
    let (ready_millis, idle_memory) = starts(&data);
    report.measurement("memory, idle", "MiB", &idle_memory, Target::AtMost(60.0));
    report.measurement("memory, idle after the first start", "MiB", &[first_memory], Target::None);
    report.measurement("memory, after the load", "MiB", &[loaded_memory], Target::None);
    report.measurement("start to ready, existing directory", "ms", &ready_millis, Target::AtMost(300.0));
    let binary = std::fs::metadata(env!("CARGO_BIN_EXE_tenantd")).unwrap().len();
    report.measurement("size of the release binary", "MiB", &[binary as f64 / f64::from(1 << 20)], Target::AtMost(40.0));
    report.note(format!("The store that was started again: {store:.0} MiB."));
    println!("\n{}", report.render());
}

/// Creates slightly more keys than a page has. Returns one of them as the server shows it.
fn prepare(server: &Server, key: &str, create: &Request) -> Value {
    let mut id = String::new();
    for _ in 0..2 * bare::LIST_LENGTH {
        let created: Value = serde_json::from_slice(&load::once(server.address, create)).unwrap();
        created["id"].as_str().unwrap().clone_into(&mut id);
    }
    serde_json::from_slice(&load::once(server.address, &Request::get(&format!("{KEYS}/{id}"), Some(key)))).unwrap()
}

/// Checks that the ceiling does the same work.
fn assert_same(server: &Server, bare: &Server, path: &str, key: &str, sample: &Value) {
    let body = |server: &Server, path: &str| load::once(server.address, &Request::get(path, Some(key)));
    let ours = body(server, path);
    assert_eq!(serde_json::from_slice::<Value>(&ours).unwrap(), *sample);
    assert_eq!(serde_json::from_slice::<Value>(&body(bare, path)).unwrap(), *sample, "the bare server shows another object");
    let list = format!("{KEYS}?limit={}", bare::LIST_LENGTH);
    let (ours, theirs) = (body(server, &list).len(), body(bare, &list).len());
    assert!(ours.abs_diff(theirs) * 50 < ours, "the lists are of different lengths: {ours} and {theirs} bytes");
}

fn read(server: &Server, bare: &Server, key: &str, path: &str, span: Span) -> (Measured, Measured) {
    let ceiling = load::run(bare.address, bare.process_id(), READERS, &Request::get(path, None), span);
    let ours = load::run(server.address, server.process_id(), READERS, &Request::get(path, Some(key)), span);
    (ours, ceiling)
}

fn write(server: &Server, create: &Request, directory: &Path, span: Span) -> Creations {
    let run = |clients: usize| load::run(server.address, server.process_id(), clients, create, span);
    Creations {
        raw: raw_commits(directory, span.measure, "2"),
        alone: run(1),
        by_32: run(32),
        by_128: run(128),
        raw_one_phase: raw_commits(directory, span.measure, "1"),
    }
}

/// Starts servers on an existing directory. Returns the milliseconds until each is ready, and its memory when idle.
fn starts(data: &Path) -> (Vec<f64>, Vec<f64>) {
    let start = |_| {
        let server = Server::start_tenantd(data);
        // The server handles signals only shortly after its announcement, so do not stop it at once.
        std::thread::sleep(SETTLING);
        let values = (server.ready_after.as_secs_f64() * 1000.0, server.resident_mebibytes());
        server.stop();
        values
    };
    (0..STARTS).map(start).unzip()
}

fn tell_rounds(report: &mut Report, rounds: &Rounds) {
    let per_second = |pairs: &[(Measured, Measured)]| -> Vec<Pair> {
        pairs.iter().map(|(ours, ceiling)| (ours.per_second, ceiling.per_second)).collect()
    };
    report.ratio("read one key, 32 clients", "/s", &per_second(&rounds.read), Target::AtLeast(0.7));
    report.ratio("list 20 keys, 32 clients", "/s", &per_second(&rounds.list), Target::AtLeast(1.4));
    let creations = |pick: fn(&Creations) -> Pair| -> Vec<Pair> { rounds.creations.iter().map(pick).collect() };
    let millis = |measured: &Measured| measured.p50.as_secs_f64() * 1000.0;
    let alone: Vec<Pair> = rounds.creations.iter().map(|round| (millis(&round.alone), round.raw.p50_seconds * 1000.0)).collect();
    report.ratio("create a key, 1 client, p50", "ms", &alone, Target::AtMost(4.0));
    let rate = "/s";
    report.ratio("create a key, 1 client", rate, &creations(|round| (round.alone.per_second, round.raw.per_second)), Target::None);
    let by_32 = creations(|round| (round.by_32.per_second, round.raw.per_second));
    report.ratio("create a key, 32 clients", rate, &by_32, Target::AtLeast(1.5));
    let by_128 = creations(|round| (round.by_128.per_second, round.raw.per_second));
    report.ratio("create a key, 128 clients", rate, &by_128, Target::AtLeast(2.0));

    note_latencies(report, "read one key", rounds.read.iter().map(|pair| pair.0));
    note_latencies(report, "read one key, bare", rounds.read.iter().map(|pair| pair.1));
    note_latencies(report, "list 20 keys", rounds.list.iter().map(|pair| pair.0));
    note_latencies(report, "list 20 keys, bare", rounds.list.iter().map(|pair| pair.1));
    note_latencies(report, "create, 1 client", rounds.creations.iter().map(|round| round.alone));
    note_latencies(report, "create, 32 clients", rounds.creations.iter().map(|round| round.by_32));
    note_latencies(report, "create, 128 clients", rounds.creations.iter().map(|round| round.by_128));
    let one_phase = median(&mut rounds.creations.iter().map(|round| round.raw_one_phase.per_second).collect::<Vec<_>>());
    report.note(format!("Raw commits in one phase, for information: {one_phase:.0} /s."));
}

fn note_latencies(report: &mut Report, name: &str, rounds: impl Iterator<Item = Measured> + Clone) {
    let micros = |pick: fn(&Measured) -> Duration| {
        median(&mut rounds.clone().map(|round| pick(&round).as_secs_f64() * 1e6).collect::<Vec<_>>())
    };
    let (p50, p99, cpu) = (micros(|round| round.p50), micros(|round| round.p99), micros(|round| round.cpu));
    report.note(format!("{name:<22} p50 {p50:>7.0} us   p99 {p99:>7.0} us   processor {cpu:>6.1} us a request"));
}
