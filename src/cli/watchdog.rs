//! Tells the service manager that the server lives. Only a write that came back from the writer is a sign of life: a server that
//! answers reads and hangs on writes must be started anew.

use std::time::Duration;

use crate::kernel::{clock::Clock, store::Store};

/// Feeds the watchdog, if the service manager has one, until it is dropped.
#[derive(Debug)]
pub(super) struct Watchdog(Option<tokio::task::JoinHandle<()>>);

impl Watchdog {
    pub(super) fn start(store: Store) -> Self {
        Self(sd_notify::watchdog_enabled().map(|limit| tokio::spawn(feed(store, limit / 3))))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

async fn feed(store: Store, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = store.probe(Clock::System.now()).await {
            // A full disk is no reason to start anew: the writer has answered.
            tracing::warn!(%error, "the write that feeds the watchdog failed");
        }
        super::serve::notify(&[sd_notify::NotifyState::Watchdog]);
    }
}
