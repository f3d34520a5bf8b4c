//! Tells the service manager that the server lives. Only a write that came back from the writer is a sign of life: a server that
//! answers reads and hangs on writes must be restarted.

use std::{
    pin::pin,
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    time::Duration,
};

use sd_notify::NotifyState;

use tenantd_base::clock::Clock;
use tenantd_store::{Store, StoreError};

/// Feeds the watchdog, if the service manager has one, until it is dropped.
#[derive(Debug)]
pub(super) struct Watchdog(Option<tokio::task::JoinHandle<()>>);

impl Watchdog {
    pub(super) fn start(store: Store) -> Self {
        Self(sd_notify::watchdog_enabled().map(|limit| tokio::spawn(feed(store, Teller::start(), limit / 3))))
    }
}

enum Message {
    Lives,
    Status(String),
}

/// Sends messages to the service manager on a thread of its own, because sending blocks while the manager reads nothing.
struct Teller(SyncSender<Message>);

impl Teller {
    fn start() -> Self {
        let (teller, messages) = sync_channel(1);
        std::thread::spawn(move || {
            for message in messages {
                match message {
                    Message::Lives => super::serve::notify(&[NotifyState::Watchdog]),
                    Message::Status(text) => super::serve::notify(&[NotifyState::Status(&text)]),
                }
            }
        });
        Self(teller)
    }

    fn tell(&self, message: Message) {
        match self.0.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => tracing::debug!("the service manager does not read its messages"),
            Err(TrySendError::Disconnected(_)) => tracing::warn!("the service manager gets no more messages"),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

async fn feed(store: Store, teller: Teller, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = write(&store, &teller, period).await {
            // A full disk is no reason to restart: the writer has answered.
            tracing::warn!(%error, "the write that feeds the watchdog failed");
        }
        teller.tell(Message::Lives);
    }
}

/// Returns when the writer has answered. Meanwhile `systemctl status` shows what the watchdog waits for.
async fn write(store: &Store, teller: &Teller, period: Duration) -> Result<(), StoreError> {
    let mut writing = pin!(store.probe(Clock::System.now()));
    let mut late = false;
    loop {
        if let Ok(answer) = tokio::time::timeout(period, writing.as_mut()).await {
            if late {
                teller.tell(Message::Status("The writer has come back.".to_owned()));
            }
            return answer;
        }
        late = true;
        let seconds = store.writer().busy().map_or(0, |busy| busy.elapsed.as_secs());
        teller.tell(Message::Status(format!("The writer has not come back for {seconds} seconds: no change is accepted.")));
    }
}
