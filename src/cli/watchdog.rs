//! Tells the service manager that the server lives. Only a write that came back from the writer is a sign of life: a server that
//! answers reads and hangs on writes must be restarted.

use std::{pin::pin, time::Duration};

use tenantd_base::clock::Clock;
use tenantd_store::{Store, StoreError};

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
        if let Err(error) = write(&store, period).await {
            // A full disk is no reason to restart: the writer has answered.
            tracing::warn!(%error, "the write that feeds the watchdog failed");
        }
        super::serve::notify(&[sd_notify::NotifyState::Watchdog]);
    }
}

/// Returns when the writer has answered. Meanwhile `systemctl status` shows what the watchdog waits for.
async fn write(store: &Store, period: Duration) -> Result<(), StoreError> {
    let mut writing = pin!(store.probe(Clock::System.now()));
    let mut late = false;
    loop {
        if let Ok(answer) = tokio::time::timeout(period, writing.as_mut()).await {
            if late {
                super::serve::notify(&[sd_notify::NotifyState::Status("The writer has come back.")]);
            }
            return answer;
        }
        late = true;
        let seconds = store.writer().busy().map_or(0, |busy| busy.elapsed.as_secs());
        let status = format!("The writer has not come back for {seconds} seconds: no change is accepted.");
        super::serve::notify(&[sd_notify::NotifyState::Status(&status)]);
    }
}
