//! Ends the process when the orderly stop does not. A writer that hangs, or a thread that never comes back, must not keep the server
//! from stopping.
//!
//! Nothing that was acknowledged is lost: it is in the journal, and the next start replays it.

use std::{
    thread,
    time::{Duration, Instant},
};

use tenantd_store::WriterWatch;

use crate::app::StopLimits;

/// How often it looks whether the time is over.
const LOOKS: Duration = Duration::from_millis(250);

/// Gives the orderly stop, which begins now, its time. A thread of its own, because the runtime may be what hangs.
pub(super) fn arm(writer: WriterWatch, limits: StopLimits) {
    let spawned = thread::Builder::new().name("last-resort".to_owned()).spawn(move || wait(&writer, limits));
    if let Err(error) = spawned {
        tracing::warn!(%error, "nothing ends this process if its orderly stop hangs");
    }
}

#[allow(clippy::disallowed_methods, reason = "a stop that hangs has no other way out; what was acknowledged is in the journal")]
fn wait(writer: &WriterWatch, limits: StopLimits) {
    let started = Instant::now();
    loop {
        thread::park_timeout(LOOKS);
        let (elapsed, stalled) = (started.elapsed(), writer.stalled());
        if elapsed >= limits.longest || (elapsed >= limits.with_stalled_writer && stalled.is_some()) {
            let work = stalled.map_or("nothing", |busy| busy.work);
            tracing::error!(
                seconds = elapsed.as_secs(),
                work,
                "the orderly stop does not end, so the process ends now; the next start replays the journal"
            );
            std::process::exit(1);
        }
    }
}
