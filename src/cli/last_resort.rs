//! Terminates the process if the orderly shutdown hangs. A stalled writer or a blocked thread must not prevent the shutdown.
//!
//! **Invariant:** no acknowledged write is lost, because it is in the journal and the next start replays it.

use std::{
    thread,
    time::{Duration, Instant},
};

use tenantd_store::WriterWatch;

use crate::app::StopLimits;

/// The interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Starts the time limit of the orderly shutdown. It uses a separate thread, because the runtime itself may hang.
pub(super) fn arm(writer: WriterWatch, limits: StopLimits) {
    let spawned = thread::Builder::new().name("last-resort".to_owned()).spawn(move || wait(&writer, limits));
    if let Err(error) = spawned {
        tracing::warn!(%error, "cannot start the thread that terminates this process if the shutdown hangs");
    }
}

#[allow(clippy::disallowed_methods, reason = "a shutdown that hangs has no other way out; acknowledged writes are in the journal")]
fn wait(writer: &WriterWatch, limits: StopLimits) {
    let started = Instant::now();
    loop {
        thread::park_timeout(CHECK_INTERVAL);
        let (elapsed, stalled) = (started.elapsed(), writer.stalled());
        if elapsed >= limits.longest || (elapsed >= limits.with_stalled_writer && stalled.is_some()) {
            let work = stalled.map_or("nothing", |busy| busy.work);
            tracing::error!(
                seconds = elapsed.as_secs(),
                work,
                "the orderly shutdown hangs, so the process terminates now; the next start replays the journal"
            );
            std::process::exit(1);
        }
    }
}
