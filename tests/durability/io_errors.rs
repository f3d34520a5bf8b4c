//! The real binary on a failing disk: `strace` makes its syncs fail with an I/O error.
//!
//! A failed sync may have dropped its pages, so a later successful sync proves nothing: the server must stop, whether the error
//! persists or not. Without `strace`, or without the permission to trace, the test proves nothing and says so.

use std::{path::Path, process::Command};

use reqwest::{Client, Method, StatusCode};

use tenantd_base::entropy::Entropy;

use crate::{
    books::{Books, Caller},
    clients::{Left, http_client, work},
    process::{Server, bare, demo, tenantd},
};

/// The first failing sync, counted in each thread. A commit has several, and a start has fewer than the first of these.
const FAILING_SYNCS: std::ops::Range<u64> = 21..27;

/// The reason why system calls cannot be made to fail here.
pub fn obstacle() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory.join("strace").is_file()) {
        return Some("strace is not installed".to_owned());
    }
    let output = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output().unwrap();
    (!output.status.success()).then(|| format!("strace cannot trace: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// The server with a fault in its syncs, such as `error=EIO:when=20+`.
fn start_with(fault: &str, directory: &Path) -> Server {
    Server::start(with_fault(fault, directory))
}

pub fn with_fault(fault: &str, directory: &Path) -> Command {
    let mut command = bare(Command::new("strace"));
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e"]).arg(format!("inject=fdatasync:{fault}"));
    command.arg(env!("CARGO_BIN_EXE_tenantd"));
    demo(command, directory)
}

/// After a failure the server is not ready or does not respond.
async fn is_not_ready(caller: &Caller) {
    if let Ok(answer) = caller.send(Method::GET, "/readyz", "", None).await {
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "after a failed commit: {}", answer.body);
    }
}

/// One life that a failing sync ends. Returns the last problem codes of the clients.
async fn fail(fault: &str, life: u64, directory: &Path, client: &Client, books: &mut Books) -> Vec<String> {
    let server = start_with(fault, directory);
    let caller = Caller::new(client, &server);
    assert_eq!(caller.send(Method::GET, "/readyz", "", None).await.unwrap().status, StatusCode::OK);
    let left = work(&caller, life, &mut Entropy::from_seed(life), &|_| {}).await;
    is_not_ready(&caller).await;
    let (status, output) = server.wait();
    assert_eq!(status.code(), Some(1), "{fault}: it ended with {status}:\n{output}");
    assert!(output.contains("the store has failed"), "{fault}: it said:\n{output}");

    let server = Server::start(demo(tenantd(), directory));
    let caller = Caller::new(client, &server);
    let mut codes = Vec::new();
    for Left { keys, code } in left {
        books.keys.extend(keys);
        codes.extend(code);
    }
    assert!(codes.iter().all(|code| code == "outcome_unknown" || code == "unavailable"), "{codes:?}, and it said:\n{output}");
    books.prove(&caller).await;
    codes
}

#[tokio::test]
async fn a_failing_disk_stops_the_server_without_loss() {
    if let Some(obstacle) = obstacle() {
        println!("{obstacle}: I/O error injection not run");
        return;
    }
    let (directory, client) = (tempfile::tempdir().unwrap(), http_client());
    let (mut books, mut codes) = (Books::default(), Vec::new());
    // The first start creates the installation. Its many syncs are not tested here.
    drop(Server::start(demo(tenantd(), directory.path())));
    for at in FAILING_SYNCS {
        for (life, fault) in [(2 * at, format!("error=EIO:when={at}+")), (2 * at + 1, format!("error=EIO:when={at}"))] {
            codes.extend(fail(&fault, life, directory.path(), &client, &mut books).await);
        }
    }
    let unknown = codes.iter().filter(|code| *code == "outcome_unknown").count();
    println!(
        "{} failed disks: {} keys, {} in doubt of which {} had taken effect; {unknown} of {} last answers were outcome_unknown",
        2 * FAILING_SYNCS.count(),
        books.keys.len(),
        books.in_doubt,
        books.replayed,
        codes.len()
    );
    assert!(unknown > 0, "no response reported an unknown outcome: {codes:?}");
}
