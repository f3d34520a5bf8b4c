//! A well-behaved client that must not notice the attacks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::{Client, StatusCode};
use tokio::{sync::Notify, task::JoinHandle};

use crate::process::Server;

#[derive(Default)]
struct Shared {
    served: AtomicU64,
    stopped: AtomicBool,
    news: Notify,
}

pub struct Healthy {
    shared: Arc<Shared>,
    task: JoinHandle<Duration>,
}

impl Healthy {
    /// Sends one request after another, alternately over a kept and a new connection.
    pub fn start(server: &Server) -> Self {
        // Without a provider no client can be built, even for plain HTTP.
        drop(rustls::crypto::ring::default_provider().install_default());
        let kept = Client::builder().no_proxy().build().unwrap();
        let new = Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        let (url, key) = (format!("{}/api/auth/session", server.url), server.api_key.clone());
        let shared = Arc::new(Shared::default());
        let task = tokio::spawn({
            let shared = shared.clone();
            async move {
                let mut slowest = Duration::ZERO;
                while !shared.stopped.load(Ordering::SeqCst) {
                    for (kind, client) in [("kept", &kept), ("new", &new)] {
                        slowest = slowest.max(ask(client, &url, &key, kind).await);
                        shared.served.fetch_add(1, Ordering::SeqCst);
                        shared.news.notify_waiters();
                    }
                }
                slowest
            }
        });
        Self { shared, task }
    }

    pub fn served(&self) -> u64 {
        self.shared.served.load(Ordering::SeqCst)
    }

    /// Waits until a request that starts now has been served.
    pub async fn is_served(&self) {
        let enough = self.served() + 2;
        loop {
            let news = self.shared.news.notified();
            if self.served() >= enough {
                return;
            }
            assert!(!self.task.is_finished(), "the healthy client has failed");
            // A client that has just failed sends no more results.
            drop(tokio::time::timeout(Duration::from_secs(1), news).await);
        }
    }

    /// The number of requests, and the duration of the slowest.
    pub async fn stop(self) -> (u64, Duration) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let slowest = self.task.await.unwrap();
        (self.shared.served.load(Ordering::SeqCst), slowest)
    }
}

#[allow(clippy::disallowed_methods, reason = "the report says how long the slowest request took")]
async fn ask(client: &Client, url: &str, key: &str, kind: &str) -> Duration {
    let started = Instant::now();
    let response = client.get(url).bearer_auth(key).send().await;
    let response = response.unwrap_or_else(|error| panic!("over a {kind} connection, after {:?}: {error:?}", started.elapsed()));
    let status = response.status();
    let body = response.text().await.unwrap();
    assert_eq!(status, StatusCode::OK, "over a {kind} connection: {body}");
    started.elapsed()
}
