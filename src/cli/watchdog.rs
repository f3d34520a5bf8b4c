//! Feeds the watchdog of the service manager. Only a completed write proves that the server is alive, because a server that answers
//! reads but hangs on writes must be restarted.

use std::{
    pin::pin,
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    time::Duration,
};

use sd_notify::NotifyState;

use tenantd_base::clock::Clock;
use tenantd_store::{Store, StoreError};

/// Feeds the watchdog until it is dropped. Does nothing if the service manager has no watchdog.
#[derive(Debug)]
pub(super) struct Watchdog(Option<tokio::task::JoinHandle<()>>);

impl Watchdog {
    pub(super) fn start(store: Store) -> Self {
        Self(sd_notify::watchdog_enabled().map(|limit| tokio::spawn(feed(store, Notifier::start(), limit / 3))))
    }
}

enum Message {
    Alive,
    Status(String),
}

/// Sends messages to the service manager on a separate thread, because sending blocks while the manager does not read.
struct Notifier(SyncSender<Message>);

impl Notifier {
    fn start() -> Self {
        let (sender, messages) = sync_channel(1);
        std::thread::spawn(move || {
            for message in messages {
                match message {
                    Message::Alive => super::serve::notify(&[NotifyState::Watchdog]),
                    Message::Status(text) => super::serve::notify(&[NotifyState::Status(&text)]),
                }
            }
        });
        Self(sender)
    }

    fn send(&self, message: Message) {
        match self.0.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => tracing::debug!("the service manager does not read its messages"),
            Err(TrySendError::Disconnected(_)) => tracing::warn!("cannot send more messages to the service manager"),
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

async fn feed(store: Store, notifier: Notifier, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = write(&store, &notifier, period).await {
            // A full disk is no reason to restart, because the writer answered.
            tracing::warn!(%error, "the write that feeds the watchdog failed");
        }
        notifier.send(Message::Alive);
    }
}

/// Waits for the writer. Meanwhile `systemctl status` shows what the watchdog waits for.
async fn write(store: &Store, notifier: &Notifier, period: Duration) -> Result<(), StoreError> {
    let mut writing = pin!(store.probe(Clock::System.now()));
    let mut late = false;
    loop {
        if let Ok(answer) = tokio::time::timeout(period, writing.as_mut()).await {
            if late {
                notifier.send(Message::Status("The writer answers again.".to_owned()));
            }
            return answer;
        }
        late = true;
        let seconds = store.writer().busy().map_or(0, |busy| busy.elapsed.as_secs());
        notifier
            .send(Message::Status(format!("The writer has not answered for {seconds} seconds. The server accepts no changes.")));
    }
}
