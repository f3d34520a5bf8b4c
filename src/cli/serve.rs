//! `tenantd serve`: runs the server until it is shut down.

use clap::Args;
use listenfd::ListenFd;
use tokio::signal::unix::{Signal, SignalKind, signal};

use tenantd_base::{
    clock::Clock,
    config::Config,
    telemetry::{self, LogOutput},
};
use tenantd_store::DataDirectory;

use super::{Common, Failure, last_resort, watchdog::Watchdog};
use crate::app::{self, App, Operator, Running, Sockets};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The address of the API. Default: `listen.address` of the configuration.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Upgrade the store of an older release without first writing a snapshot.
    #[arg(long)]
    without_snapshot: bool,
    /// Start without workflow triggers, schedules, runs and webhook deliveries. Use it to sign in if one of them prevents the
    /// server from working.
    #[arg(long)]
    safe_mode: bool,
}

impl Serve {
    fn settings(&self, common: &Common) -> Result<Config, Failure> {
        let mut flags: Vec<(&str, String)> = self.listen.iter().map(|address| ("listen.address", address.clone())).collect();
        if self.without_snapshot {
            flags.push(("snapshots.before_upgrade", false.to_string()));
        }
        common.settings(&flags)
    }

    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let config = self.settings(common)?;
        let output = if common.json { LogOutput::Stderr } else { LogOutput::Stdout };
        let logs = telemetry::install_logs(&config.telemetry, output)?;
        let signals = Signals::take()?;
        let sockets = inherited_sockets()?;
        let (directory, scheme) = (config.data.directory.clone(), if config.listen.tls { "https" } else { "http" });
        let app = open(config, Clock::System, Operator::default()).await?;
        let app = if self.safe_mode { app.in_safe_mode() } else { app };
        let running = app.listen_on(sockets)?;
        let url = format!("{scheme}://{}", running.addresses.api);
        tracing::info!(address = %running.addresses.api, url, version = env!("CARGO_PKG_VERSION"), "ready");
        if let Some(password_file) = app::first_password_file(&directory) {
            let email = Operator::default().email;
            let password_file = password_file.display();
            tracing::info!(
                "sign in at {url}/sign-in as the operator; the password is in {password_file}: remove the file after you have read it"
            );
            tracing::info!(operator = email, "create the first tenant with `tenantd tenant create NAME`");
        }
        serve_until_stopped(running, signals, || {
            let config = self.settings(common).map_err(|failure| failure.text().to_owned())?;
            logs.set_level(&config.telemetry.log_level)?;
            Ok(config)
        })
        .await
    }
}

/// Opens the installation. Creates it in an empty directory. Nothing runs or listens yet.
pub(super) async fn open(config: Config, clock: Clock, operator: Operator) -> Result<App, Failure> {
    let data = DataDirectory::lock(&config.data.directory).map_err(|error| error.to_string())?;
    open_locked(config, data, clock, operator).await
}

/// Like [`open`], in a directory that this process has locked.
pub(super) async fn open_locked(config: Config, data: DataDirectory, clock: Clock, operator: Operator) -> Result<App, Failure> {
    raise_open_files();
    if !data.is_initialized().map_err(|error| error.to_string())? {
        app::prepare_installation(&config, &data).map_err(|error| error.to_string())?;
    }
    let progress = std::sync::Arc::new(|done: f64| {
        tracing::info!(percent = (done * 100.0).round(), "repairing the store after a crash");
        notify(&[sd_notify::NotifyState::ExtendTimeoutUsec(60_000_000)]);
    });
    Ok(App::open(config, data, clock, operator, Some(progress)).await?)
}

/// The signals that control a server. The handlers are installed before the server reports that it is ready, so that an early
/// shutdown is orderly too.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn take() -> Result<Self, Failure> {
        let signal_of = |kind: SignalKind| signal(kind).map_err(|error| Failure::Failed(error.to_string()));
        Ok(Self {
            interrupt: signal_of(SignalKind::interrupt())?,
            terminate: signal_of(SignalKind::terminate())?,
            hangup: signal_of(SignalKind::hangup())?,
        })
    }
}

impl Signals {
    /// Waits for a signal to terminate.
    pub(super) async fn stop(self) {
        let Self { mut interrupt, mut terminate, .. } = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Serves until a signal or a failure of the store. `reload` loads the configuration again.
pub(super) async fn serve_until_stopped(
    mut running: Running,
    signals: Signals,
    reload: impl Fn() -> Result<Config, String>,
) -> Result<(), Failure> {
    let Signals { mut interrupt, mut terminate, mut hangup } = signals;
    notify(&[sd_notify::NotifyState::Ready]);
    let store = running.app.store.clone();
    let watchdog = Watchdog::start(store.clone());
    let failure = loop {
        tokio::select! {
            _ = interrupt.recv() => break None,
            _ = terminate.recv() => break None,
            reason = store.failed() => break Some(reason),
            _ = hangup.recv() => drop(apply(&running, &reload)),
            // The requester may have disconnected.
            request = running.reload_request() => drop(request.send(apply(&running, &reload))),
        }
    };
    notify(&[sd_notify::NotifyState::Stopping]);
    last_resort::arm(store.writer(), running.stop_limits());
    drop(watchdog);
    drop(store);
    running.shutdown().await;
    match failure {
        None => Ok(()),
        Some(reason) => Err(Failure::Failed(format!("the store has failed: {reason}"))),
    }
}

fn apply(running: &Running, reload: impl Fn() -> Result<Config, String>) -> Result<Vec<String>, String> {
    let outcome = reload().and_then(|config| running.reload(&config));
    match &outcome {
        Ok(needs_restart) if needs_restart.is_empty() => tracing::info!("reloaded the settings"),
        Ok(needs_restart) => {
            tracing::warn!(needs_restart = needs_restart.join(", "), "reloaded the settings; some changes need a restart");
        }
        Err(error) => tracing::error!(error, "cannot reload the settings; the previous settings stay in effect"),
    }
    outcome
}

/// The sockets from the service manager: the first for the API, the second for the redirect to it.
fn inherited_sockets() -> Result<Sockets, Failure> {
    let mut inherited = ListenFd::from_env();
    let mut take = |place: usize| {
        let socket = if place < inherited.len() { inherited.take_tcp_listener(place) } else { Ok(None) };
        socket.map_err(|error| {
            Failure::Failed(format!("socket {place} of the service manager is not a listening TCP socket: {error}"))
        })
    };
    Ok(Sockets { api: take(0)?, redirect: take(1)? })
}

/// Notifies the service manager, if there is one.
pub(super) fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

/// Raises the limit of open files to the maximum, because every connection is an open file.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}
