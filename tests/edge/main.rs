//! The network edge under attack: the real binary, plain HTTP on loopback, and attackers from other loopback addresses.
//!
//! A healthy client sends requests all the time and is always served. The attacks run one after another against one server, so that
//! its memory and its shutdown show the effect of all of them. No test waits for time to pass: attacks wait for reactions of the
//! server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "all of this is test code")]

mod crowd;
mod healthy;
mod large;
#[path = "../process/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod process;
mod slow;
mod streams;
mod wire;

use std::time::{Duration, Instant};

use rustix::process::{Resource, Signal, getrlimit, kill_process, setrlimit};

use healthy::Healthy;
use process::{Server, demo, tenantd};

/// The memory that attacks may add to the server, in KiB. Without optimization its code and its futures are larger.
const ADDED_AT_MOST: u64 = if cfg!(debug_assertions) { 150 << 10 } else { 120 << 10 };
/// The longest time in which the server must have handled an attack.
const PATIENCE: Duration = Duration::from_mins(1);

/// A memory value of the server from the kernel, in KiB.
fn memory(server: &Server, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The maximum number of open files.
fn open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    limit.maximum.unwrap_or(u64::MAX)
}

/// Runs one attack to its end while the healthy client is served.
#[allow(clippy::disallowed_methods, reason = "the report says how long it took")]
async fn attack(name: &str, server: &Server, healthy: &Healthy, attack: impl Future<Output = String>) {
    let (started, served) = (Instant::now(), healthy.served());
    let report =
        tokio::time::timeout(PATIENCE, attack).await.unwrap_or_else(|_| panic!("{name}: the server does not deal with it"));
    healthy.is_served().await;
    let (now, most) = (memory(server, "VmRSS"), memory(server, "VmHWM"));
    let (took, served) = (started.elapsed(), healthy.served() - served);
    println!("{name}: {report}; {took:?}, {served} healthy requests served, memory {now} KiB, at most {most} KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_do_not_affect_a_healthy_client() {
    let files = open_files();
    let directory = tempfile::tempdir().unwrap();
    let mut command = demo(tenantd(), directory.path());
    command.env("TENANTD_LIMITS__HEADER_SECONDS", "1").env("TENANTD_LIMITS__REQUEST_SECONDS", "4");
    let server = Server::start(command);
    let healthy = Healthy::start(&server);
    let before = memory(&server, "VmRSS");
    println!("memory at the start {before} KiB");

    attack("slow headers", &server, &healthy, slow::headers(&server, &healthy)).await;
    attack("slow bodies", &server, &healthy, slow::bodies(&server)).await;
    attack("endless bodies", &server, &healthy, large::endless_bodies(&server)).await;
    attack("large requests", &server, &healthy, large::requests(&server)).await;
    attack("too many streams", &server, &healthy, streams::too_many(&server)).await;
    attack("reset streams", &server, &healthy, streams::reset(&server)).await;
    attack("a crowd", &server, &healthy, crowd::connections(&server, &healthy, files)).await;

    let (served, slowest) = healthy.stop().await;
    let most = memory(&server, "VmHWM");
    println!("{served} healthy requests, the slowest in {slowest:?}; the server had at most {most} KiB in memory");
    assert!(most < before + ADDED_AT_MOST, "the server had {before} KiB in memory, and then {most}");
    kill_process(server.pid(), Signal::TERM).unwrap();
    let (status, output) = server.wait();
    assert_eq!(status.code(), Some(0), "it ended with {status}:\n{output}");
}
