//! The real binary on a real file system, killed repeatedly under load on the same data directory.
//!
//! The page cache outlives a killed process, so this proves how the process handles its death and what it reports to clients;
//! `crash` covers power losses. The moment of each kill is a number of requests, drawn by the seed.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use reqwest::StatusCode;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use tenantd_base::entropy::Entropy;

use crate::{
    books::{Act, Books, Caller, Key},
    clients::{Step, http_client, work},
    process::{Server, demo, tenantd},
};

const KILLS: u64 = 60;
/// The latest moment of a kill, in requests or in acknowledgements of one life.
const LATEST: u64 = 60;
const LIVES_PER_CHECK: u64 = 10;
const SEED: u64 = 20_260_131;

/// One life of a server under load, ended by the signal at this step. Returns the clients' keys.
async fn live(
    caller: &Caller,
    server: &Server,
    signal: Signal,
    counted: Step,
    at: u64,
    life: u64,
    random: &mut Entropy,
) -> Vec<Key> {
    let (pid, count) = (server.pid(), AtomicU64::new(0));
    let step = |step: Step| {
        if step == counted && count.fetch_add(1, Ordering::SeqCst) + 1 == at {
            kill_process(pid, signal).unwrap();
        }
    };
    let left = work(caller, life, random, &step).await;
    let codes: Vec<_> = left.iter().filter_map(|left| left.code.as_ref()).collect();
    assert!(codes.is_empty(), "requests were refused: {codes:?}");
    left.into_iter().flat_map(|left| left.keys).collect()
}

fn start(directory: &Path) -> Server {
    Server::start(demo(tenantd(), directory))
}

/// Runs `tenantd check` over the admin socket of the running server.
fn check(directory: &Path) -> u64 {
    let output = tenantd().args(["check", "--json", "--data-dir"]).arg(directory).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report["clean"] == true, "{}: {report} {said}", output.status);
    report["records"].as_u64().unwrap()
}

/// Whether the store in `directory` is in the state after a crash. The check uses a copy.
fn needs_repair(directory: &Path) -> bool {
    let copy = tempfile::NamedTempFile::new().unwrap();
    std::fs::copy(directory.join("tenantd.redb"), copy.path()).unwrap();
    let repaired = Arc::new(AtomicBool::new(false));
    let seen = repaired.clone();
    let mut builder = redb::Database::builder();
    builder.set_repair_callback(move |_| seen.store(true, Ordering::SeqCst));
    drop(builder.open(copy.path()).unwrap());
    repaired.load(Ordering::SeqCst)
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the report says how long it took")]
async fn repeated_kills_lose_no_acknowledged_change() {
    let (directory, client, started) = (tempfile::tempdir().unwrap(), http_client(), Instant::now());
    let (mut random, mut books, mut records, mut repairs) = (Entropy::from_seed(SEED), Books::default(), 0, 0);
    let mut server = start(directory.path());
    for life in 1..=KILLS {
        let counted = if random.below(2) == 0 { Step::Request } else { Step::Acknowledgement };
        let at = 1 + random.below(LATEST);
        books.keys.extend(live(&Caller::new(&client, &server), &server, Signal::KILL, counted, at, life, &mut random).await);
        server.was_killed();
        repairs += u64::from(needs_repair(directory.path()));
        server = start(directory.path());
        books.prove(&Caller::new(&client, &server)).await;
        if life % LIVES_PER_CHECK == 0 {
            records = check(directory.path());
        }
    }
    books.prove_all(&Caller::new(&client, &server)).await;
    let changes: usize = books.keys.iter().map(|key| key.history.len()).sum();
    println!(
        "{KILLS} kills in {:?}: {} keys with {changes} changes, {} in doubt of which {} had taken effect, {repairs} repairs, {records} records sound",
        started.elapsed(),
        books.keys.len(),
        books.in_doubt,
        books.replayed,
    );
    // Kills that never hit an open request before and after its commit would prove little.
    assert!(books.in_doubt - books.replayed >= KILLS && books.replayed > 0, "the kills hit too little");
}

#[tokio::test]
async fn a_shutdown_under_load_loses_nothing() {
    let (directory, client) = (tempfile::tempdir().unwrap(), http_client());
    let (mut random, mut books) = (Entropy::from_seed(SEED), Books::default());
    for life in 1..=5 {
        let server = start(directory.path());
        let caller = Caller::new(&client, &server);
        books.prove(&caller).await;
        let at = 1 + random.below(LATEST);
        books.keys.extend(live(&caller, &server, Signal::TERM, Step::Acknowledgement, at, life, &mut random).await);
        let (status, output) = server.wait();
        assert_eq!(status.code(), Some(0), "it ended with {status}:\n{output}");
        assert!(!needs_repair(directory.path()), "the store was not closed in order");
    }
    let server = start(directory.path());
    books.prove_all(&Caller::new(&client, &server)).await;
}

#[tokio::test]
async fn a_second_process_is_refused_with_the_holder() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let output = demo(tenantd(), directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {}", server.pid())), "{said}");
    let caller = Caller::new(&http_client(), &server);
    let answer = Key::new("after-the-second".to_owned()).ask(&caller, Act::Create).await.unwrap();
    assert_eq!(answer.status, StatusCode::CREATED, "the first one is disturbed: {}", answer.body);
}
