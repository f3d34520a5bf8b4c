//! A running server: what it reloads, and how it shuts down.

use std::{sync::Arc, time::Duration};

use tenantd_base::config::Config;
use tenantd_http::{edge::EdgeSettings, listener::Listeners, tls::Certificate};
use tenantd_platform::ReloadReply;

use super::{Addresses, App, admin_socket};

/// The maximum duration of a shutdown.
#[derive(Clone, Copy, Debug)]
pub struct StopLimits {
    /// While the writer is stalled. Requests and tasks that wait for the writer would not end by themselves.
    pub with_stalled_writer: Duration,
    /// In all other cases.
    pub longest: Duration,
}

/// A server that listens and answers requests.
#[derive(Debug)]
pub struct Running {
    pub app: App,
    pub addresses: Addresses,
    pub(super) public: Listeners,
    pub(super) admin: Listeners,
    pub(super) certificate: Option<Arc<Certificate>>,
}

/// How long a shutdown waits for the last reads.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

impl Running {
    /// Applies the settings that can change while the server runs: certificates, rate limits, request limits, trusted proxies and
    /// disk thresholds. Returns the changed settings that need a restart.
    pub fn reload(&self, config: &Config) -> Result<Vec<String>, String> {
        if let Some(certificate) = &self.certificate {
            certificate.reload()?;
        }
        self.app.slices.upkeep.reload(config);
        self.app.store.set_writer_patience(Duration::from_secs(config.storage.stall_seconds));
        self.app.rates.reload(&config.rate_limits);
        self.app.public.reload(EdgeSettings::new(config));
        self.app.admin.reload(EdgeSettings::new(config));
        Ok(self.app.config.needs_restart(config))
    }

    /// Slightly longer than an orderly shutdown takes: first the requests, then the tasks, then closing the store.
    pub fn stop_limits(&self) -> StopLimits {
        let Config { limits, webhooks, workflows, .. } = &self.app.config;
        let requests = Duration::from_secs(limits.shutdown_seconds) + Duration::from_secs(2);
        let tasks = Duration::from_secs(webhooks.shutdown_seconds.max(workflows.shutdown_seconds));
        StopLimits { with_stalled_writer: requests, longest: requests + tasks + Duration::from_secs(10) }
    }

    /// Waits for the next reload request of the operator over the admin socket. Returns the channel for its result.
    pub async fn reload_request(&mut self) -> ReloadReply {
        self.app.reloads.next().await
    }

    /// Shuts down in order: refuses new connections, finishes requests, finishes tasks, closes the store.
    pub async fn shutdown(self) {
        let closed = self.app.store.closed();
        self.finish().await;
        // A read for a request that has ended can still be under way.
        if tokio::time::timeout(CLOSE_PATIENCE, closed).await.is_err() {
            tracing::warn!("a read is still under way, so the store is not closed; the next start replays the journal");
        }
    }

    async fn finish(self) {
        let Self { app, public, admin, .. } = self;
        app.store.begin_shutdown();
        let patience = Duration::from_secs(app.config.limits.shutdown_seconds);
        tokio::join!(public.shutdown(patience), admin.shutdown(patience));
        app.tasks.shutdown().await;
        drop(std::fs::remove_file(admin_socket(app.data.path())));
    }
}
