//! The operator's wish to take up the settings anew, on its way from the admin socket to whoever runs the server.

use tokio::sync::{mpsc, oneshot};

/// Settings that have changed and that only a restart takes up; or why the old settings stay.
type Outcome = Result<Vec<String>, String>;

/// Whom to tell what came of it.
pub type Reloaded = oneshot::Sender<Outcome>;

/// One at a time: whoever asks meanwhile waits.
const WAITING: usize = 1;

#[derive(Clone, Debug)]
pub struct Reload(mpsc::Sender<Reloaded>);

#[derive(Debug)]
pub struct ReloadRequests(mpsc::Receiver<Reloaded>);

impl Reload {
    pub fn channel() -> (Self, ReloadRequests) {
        let (ask, requests) = mpsc::channel(WAITING);
        (Self(ask), ReloadRequests(requests))
    }

    /// Returns when the settings were taken up.
    pub(super) async fn ask(&self) -> Outcome {
        let stopping = || "the server is stopping".to_owned();
        let (told, outcome) = oneshot::channel();
        self.0.send(told).await.map_err(|_| stopping())?;
        outcome.await.map_err(|_| stopping())?
    }
}

impl ReloadRequests {
    pub async fn next(&mut self) -> Reloaded {
        match self.0.recv().await {
            Some(request) => request,
            // Nobody is left who could ask.
            None => std::future::pending().await,
        }
    }
}
