//! The real binary on a hanging disk: `strace` delays its syncs for longer than any timeout.
//!
//! The server must report that it is not ready, refuse changes instead of leaving them in doubt, and stop on request. The next
//! start must have everything that was acknowledged.

use reqwest::{Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};

use tenantd_base::entropy::Entropy;

use crate::{
    books::{Books, Caller},
    clients::{Left, http_client, work},
    io_errors::{obstacle, with_fault},
    process::{Server, demo, tenantd},
};

/// Starting with this sync of a thread, each takes half a minute, longer than the server may take to stop. A start has fewer. The
/// tracer itself does not end before the delayed sync.
const FAULT: &str = "delay_enter=30000000:when=21+";

#[tokio::test]
async fn a_stalled_writer_is_reported_and_the_server_stops() {
    if let Some(obstacle) = obstacle() {
        println!("{obstacle}: a writer that hangs was not tried");
        return;
    }
    let (directory, client) = (tempfile::tempdir().unwrap(), http_client());
    drop(Server::start(demo(tenantd(), directory.path())));
    let mut command = with_fault(FAULT, directory.path());
    command.env("TENANTD_STORAGE__STALL_SECONDS", "1").env("TENANTD_LIMITS__REQUEST_SECONDS", "3");
    command.env("TENANTD_LIMITS__SHUTDOWN_SECONDS", "1");
    let server = Server::start(command);
    let caller = Caller::new(&client, &server);

    let left = work(&caller, 1, &mut Entropy::from_seed(1), &|_| {}).await;
    let ready = caller.send(Method::GET, "/readyz", "", None).await.unwrap();
    assert_eq!((ready.status, &ready.body["failing"][0]), (StatusCode::SERVICE_UNAVAILABLE, &"storage".into()), "{}", ready.body);
    assert_eq!(caller.send(Method::GET, "/healthz", "", None).await.unwrap().status, StatusCode::OK);

    // Sent to the server itself, because its tracer would detach.
    let pid = std::fs::read_to_string(directory.path().join("tenantd.lock")).unwrap();
    kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::TERM).unwrap();
    let (status, output) = server.wait();
    // A shutdown that waited for the sync would be a regular one.
    assert_eq!(status.code(), Some(1), "it ended with {status}:\n{output}");
    assert!(output.contains("the writer hangs") && output.contains("the orderly shutdown hangs"), "{output}");

    let server = Server::start(demo(tenantd(), directory.path()));
    let (mut books, mut codes) = (Books::default(), Vec::new());
    for Left { keys, code } in left {
        books.keys.extend(keys);
        codes.extend(code);
    }
    assert!(codes.iter().all(|code| code == "outcome_unknown" || code == "unavailable"), "{codes:?}");
    assert!(books.keys.iter().any(|key| !key.history.is_empty()), "nothing was acknowledged before the writer hung");
    books.prove(&Caller::new(&client, &server)).await;
}
