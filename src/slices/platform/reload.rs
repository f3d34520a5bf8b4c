//! Carries the operator's reload requests from the admin socket to the code that runs the server.

use tokio::sync::{mpsc, oneshot};

/// The changed settings that need a restart, or the reason why the old configuration stays in use.
type Outcome = Result<Vec<String>, String>;

/// The channel for the result of a reload.
pub type ReloadReply = oneshot::Sender<Outcome>;

/// The server handles one request at a time; others wait.
const WAITING: usize = 1;

#[derive(Clone, Debug)]
pub struct Reload(mpsc::Sender<ReloadReply>);

#[derive(Debug)]
pub struct ReloadRequests(mpsc::Receiver<ReloadReply>);

impl Reload {
    pub fn channel() -> (Self, ReloadRequests) {
        let (ask, requests) = mpsc::channel(WAITING);
        (Self(ask), ReloadRequests(requests))
    }

    /// Requests a reload and waits for the result.
    pub(super) async fn request(&self) -> Outcome {
        let stopping = || "the server is shutting down".to_owned();
        let (reply, outcome) = oneshot::channel();
        self.0.send(reply).await.map_err(|_| stopping())?;
        outcome.await.map_err(|_| stopping())?
    }
}

impl ReloadRequests {
    pub async fn next(&mut self) -> ReloadReply {
        match self.0.recv().await {
            Some(request) => request,
            // All senders are gone, so no request can arrive.
            None => std::future::pending().await,
        }
    }
}
