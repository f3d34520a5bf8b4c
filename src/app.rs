//! The composition root: opens the installation, builds the kernel and the slices, assembles the API, and runs everything until
//! shutdown. **Boundary:** only `cli` imports this module. Nothing that it builds depends on it.

mod bootstrap;
mod documents;
mod edges;
mod erasure;
mod gauges;
mod portable;
mod running;
mod slices;
pub mod upgrade;

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tenantd_analytics::{Analytics, HealthMonitor, HealthParts, Queue, SAFE_MODE};
use tenantd_api_keys::{self as api_keys, ApiKeySlice};
use tenantd_audit::Audit;
use tenantd_auth::{self as auth, Auth};
use tenantd_backup::{self as backup, Backups};
use tenantd_base::{
    access::{Grants, Identity, Principal, Reach},
    clock::Clock,
    clocks::Clocks,
    config::{self, Config},
    entropy::Entropy,
    secrets::{KeySource, Passwords},
    telemetry::Usage,
};
use tenantd_cloud::{self as cloud, Clouds};
use tenantd_directory::{self as directory, Directory};
use tenantd_egress::Egress;
use tenantd_http::{
    acts,
    edge::Edge,
    idempotency::{Idempotency, IdempotencyPurge},
    listener::{self, Listeners},
    rate::{RateLimitSweep, RateLimits},
    tls::{Certificate, CertificateFiles, CertificateWatch},
};
use tenantd_platform::{self as platform, Platform, Reload, ReloadRequests, Tenant};
use tenantd_quotas::{self as quotas, TenantQuotas};
use tenantd_scim::{self as scim, Provisioning};
use tenantd_secrets::{self as secrets, NamedSecrets};
use tenantd_sso::{self as sso, SingleSignOn};
use tenantd_store::{
    Checked, DataDirectory, KeyFiles, RepairProgress, Rotation, SealedTable, Store, StoreSettings, WriterSettings,
    events::{self, Actor, Intent, Kinds, Retention},
    keys_in_force,
    tasks::{MetricsUpkeep, Scrub, Tasks, WriterAlarm},
    usage,
};
use tenantd_tickets::{self as tickets, Tickets};
use tenantd_transfer::Transfer;
use tenantd_upkeep::{self as upkeep, Places, Upkeep};
use tenantd_webhooks::{self as webhooks, Webhooks};
use tenantd_workflows::{self as workflows, Workflows};

pub use bootstrap::{Operator, first_password_file, prepare_installation};
pub use documents::{ingest_document, internal_document, public_document};
use edges::Parts;
pub use portable::TABLES_NOT_EXPORTED;
pub use running::{Running, StopLimits};
use slices::SliceParts;
pub use slices::Slices;

const ADMIN_SOCKET: &str = "admin.sock";
const SEARCH_DIRECTORY: &str = "search";

pub fn admin_socket(data_directory: &Path) -> PathBuf {
    data_directory.join(ADMIN_SOCKET)
}

/// The directory of the search index. It is derived data and can be removed while no server runs.
pub fn search_directory(data_directory: &Path) -> PathBuf {
    data_directory.join(SEARCH_DIRECTORY)
}

/// The tables of all slices that `tenantd check` compares with their indexes.
pub fn checked_tables() -> Vec<&'static dyn Checked> {
    [
        usage::tables(),
        events::tables(),
        Idempotency::tables(),
        Platform::tables(),
        Directory::tables(),
        Auth::tables(),
        SingleSignOn::tables(),
        Provisioning::tables(),
        ApiKeySlice::tables(),
        Tickets::tables(),
        Webhooks::tables(),
        TenantQuotas::tables(),
        NamedSecrets::tables(),
        Workflows::tables(),
        Clouds::tables(),
        Analytics::tables(),
        Backups::tables(),
        Audit::tables(),
        Transfer::tables(),
        Upkeep::tables(),
        Scrub::tables(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The tables of all slices that contain secrets sealed with the installation key.
pub fn sealed_tables() -> Vec<&'static dyn SealedTable> {
    [
        Auth::sealed_tables(),
        Webhooks::sealed_tables(),
        Clouds::sealed_tables(),
        SingleSignOn::sealed_tables(),
        NamedSecrets::sealed_tables(),
        Idempotency::sealed_tables(),
    ]
    .concat()
}

/// All event kinds that slices emit.
pub fn event_kinds() -> Kinds {
    Kinds::new(
        [
            platform::EVENTS,
            directory::EVENTS,
            auth::EVENTS,
            sso::EVENTS,
            scim::EVENTS,
            api_keys::EVENTS,
            tickets::EVENTS,
            webhooks::EVENTS,
            quotas::EVENTS,
            secrets::EVENTS,
            workflows::EVENTS,
            cloud::EVENTS,
            backup::EVENTS,
            upkeep::EVENTS,
            acts::EVENTS,
        ]
        .into_iter()
        .flatten()
        .copied(),
    )
    .with_members(tickets::EVENT_MEMBERS)
    .with_members(scim::EVENT_MEMBERS)
}

/// The consumers of the event log that have a cursor in the store. An event is kept until all of them have read it.
pub fn consumers() -> Vec<&'static str> {
    [
        Platform::CONSUMERS,
        TenantQuotas::CONSUMERS,
        Webhooks::CONSUMERS,
        Workflows::CONSUMERS,
        Analytics::CONSUMERS,
        Backups::CONSUMERS,
        Audit::CONSUMERS,
    ]
    .concat()
}

fn health_monitor(store: &Store, clock: &Clock, tasks: &Tasks, webhooks: &Webhooks) -> Arc<HealthMonitor> {
    let webhooks = webhooks.clone();
    Arc::new(HealthMonitor::new(HealthParts {
        store: store.clone(),
        clock: clock.clone(),
        tasks: tasks.board(),
        queue: Arc::new(move || {
            let (depth, oldest) = webhooks.queue();
            Queue { depth, oldest }
        }),
        consumers: consumers(),
    }))
}

/// The principal of callers of the admin socket. Anyone who can open the socket is the operator.
fn local_operator(platform: Tenant) -> Principal {
    Principal {
        tenant_id: platform.id,
        tenant_name: platform.name,
        tenant_kind: platform.kind,
        identity: Identity::LocalOperator,
        grants: Grants::all(),
        reach: Reach::Everything,
        networks: None,
        until: None,
        superseded: false,
    }
}

/// An open installation that does not listen yet.
#[derive(Debug)]
pub struct App {
    pub store: Store,
    pub clock: Clock,
    pub clocks: Clocks,
    pub slices: Box<Slices>,
    health: Arc<HealthMonitor>,
    egress: Egress,
    config: Config,
    rates: Arc<RateLimits>,
    public: Arc<Edge>,
    admin: Arc<Edge>,
    tasks: Tasks,
    reloads: ReloadRequests,
    safe_mode: bool,
    /// Keeps the data directory locked until the store is closed.
    data: DataDirectory,
}

/// Sockets that the service manager opened. With them, the server needs no privilege to bind ports.
#[derive(Debug, Default)]
pub struct Sockets {
    pub api: Option<TcpListener>,
    /// Redirects plain HTTP to the API socket.
    pub redirect: Option<TcpListener>,
}

impl Sockets {
    /// Binds the configured addresses that have no socket yet.
    pub fn bind(self, listen: &config::Listen) -> Result<Self, String> {
        let bind = |address: SocketAddr| listener::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"));
        let api = self.api.map_or_else(|| bind(listen.address), Ok)?;
        let redirect = match (self.redirect, listen.redirect_address) {
            (None, Some(address)) => Some(bind(address)?),
            (socket, _) => socket,
        };
        Ok(Self { api: Some(api), redirect })
    }
}

/// The addresses that a running server listens on.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub api: SocketAddr,
    pub redirect: Option<SocketAddr>,
}

impl App {
    /// Opens the installation in a data directory that this process has locked.
    pub async fn open(
        config: Config,
        data: DataDirectory,
        clock: Clock,
        operator: Operator,
        progress: Option<RepairProgress>,
    ) -> Result<Self, String> {
        let mut entropy = Entropy::from_os();
        let files = KeyFiles::new(key_source(&config, data.path()), data.path());
        let settings = StoreSettings {
            cache_bytes: config.storage.cache_bytes,
            journal_bytes: data.volume().journal_bytes(config.storage.journal_bytes).map_err(|error| error.to_string())?,
            writer: WriterSettings { batch_size: config.storage.batch_size, queue_length: config.storage.queue_length },
            clock: clock.clone(),
        };
        data.outgoing().set(config.offsite.sends_commits()).map_err(|error| error.to_string())?;
        let (store, _) = data.open_store(settings, progress).map_err(|error| error.to_string())?;
        store.set_writer_patience(Duration::from_secs(config.storage.stall_seconds));
        store.set_quotas(config.quotas);
        store.set_checked_tables(checked_tables());
        let (key, sealer) = keys_in_force(&store, &files).map_err(|error| error.to_string())?;
        let rotation =
            Rotation { store: store.clone(), clock: clock.clone(), sealer: sealer.clone(), files, tables: sealed_tables() };
        if let Some(action) = rotation.status().map_err(|error| error.to_string())?.operator_action {
            tracing::warn!(action, "the new installation key is not in place yet; follow the action");
        }
        let before_upgrade = upgrade::run_steps(&store, &data, &config, &clock, upgrade::STEPS).await?;
        let bound = rotation.bind_targets().await.map_err(|error| error.to_string())?;
        if bound > 0 {
            tracing::info!(records = bound, "bound stored secrets to their targets");
        }
        let passwords = Passwords::new(config.secrets.password_hashes, config.secrets.password_queue, &mut entropy);
        let (reload, reloads) = Reload::channel();
        let egress = Egress::new(&config.egress, &[config.listen.address])?;
        let usage = Arc::new(Usage::new(config.analytics.count_requests));
        let clocks = Clocks::new(clock.clone());
        let slices = Box::new(Slices::new(SliceParts {
            store: &store,
            clocks: &clocks,
            config: &config,
            key: &key,
            rotation: &rotation,
            passwords,
            reload,
            egress: &egress,
            usage: &usage,
            search_directory: search_directory(data.path()),
            places: Places { data: data.path().to_owned(), store_file: data.store_file() },
        })?);
        slices.platform.tenants.follow_clocks().map_err(|error| error.to_string())?;
        upgrade::adopt(&slices).await?;
        let operator = bootstrap::ensure_operator(&store, &clock, &slices.platform, &slices.auth, data.path(), operator);
        let platform = operator.await?;
        if let Some(run) = before_upgrade {
            let intent = Intent::new(platform.id, clock.now(), Actor::system("upgrade"));
            slices.upkeep.snapshots.note(intent, run).await.map_err(|error| error.to_string())?;
        }
        let local_operator = Arc::new(local_operator(platform));
        let rates = Arc::new(RateLimits::new(&config.rate_limits, clock.clone()));
        let tasks = Tasks::new(clock.clone());
        slices.platform.set_sample_generator(Arc::new(slices.sampler(&store, tasks.quiet())));
        let health = health_monitor(&store, &clock, &tasks, &slices.webhooks);
        let parts = Parts {
            config: &config,
            store: &store,
            clocks: &clocks,
            rates: &rates,
            idempotency: Arc::new(Idempotency::new(store.clone(), sealer)),
            usage: &usage,
            slices: &slices,
            health: &health,
        };
        let public = parts.edge(documents::public_service(&slices)?, None)?;
        let admin = parts.edge(documents::admin_service(&slices)?, Some(local_operator))?;
        let safe_mode = false;
        Ok(Self { store, clock, clocks, slices, health, egress, config, rates, public, admin, tasks, reloads, safe_mode, data })
    }

    /// Turns off workflow triggers, schedules and runs, and webhook deliveries. In safe mode, the operator can sign in even if one
    /// of them prevents the server from working. They continue after a normal start.
    pub fn in_safe_mode(mut self) -> Self {
        tracing::warn!("{SAFE_MODE}");
        self.health.enter_safe_mode();
        self.safe_mode = true;
        self
    }

    fn spawn_tasks(&mut self) {
        let gauges = gauges::all(self);
        let (store, clock, tasks, slices) = (&self.store, &self.clock, &mut self.tasks, &self.slices);
        slices.platform.spawn(tasks, erasure::tenant_rows());
        slices.auth.spawn(tasks);
        slices.sso.spawn(tasks);
        slices.provisioning.spawn(tasks);
        slices.keys.spawn(tasks);
        slices.tickets.spawn(tasks);
        slices.search.spawn(tasks);
        if !self.safe_mode {
            slices.webhooks.spawn(tasks);
            slices.workflows.spawn(tasks);
        }
        slices.clouds.spawn(tasks);
        slices.analytics.spawn(tasks, gauges, self.health.clone());
        slices.backups.spawn(tasks);
        slices.audit.spawn(tasks);
        slices.upkeep.spawn(tasks);
        slices.quotas.spawn(tasks);
        tasks.spawn(self.egress.upkeep());
        tasks.spawn(IdempotencyPurge { store: store.clone(), clock: clock.clone() });
        tasks.spawn(Retention::new(store.clone(), clock.clone(), self.config.events.retention_days, consumers()));
        tasks.spawn(RateLimitSweep(self.rates.clone()));
        tasks.spawn(MetricsUpkeep);
        tasks.spawn(WriterAlarm::new(store.writer()));
        if self.config.storage.scrub_days > 0 {
            let (days, file) = (self.config.storage.scrub_days, self.data.store_file());
            tasks.spawn(Scrub::new(store.clone(), clock.clone(), days, checked_tables(), file));
        }
    }

    /// Listens on the configured addresses, answers requests and starts the background tasks.
    pub fn listen(self) -> Result<Running, String> {
        self.listen_on(Sockets::default())
    }

    /// Like `listen`, but uses the given sockets where there are any.
    pub fn listen_on(self, sockets: Sockets) -> Result<Running, String> {
        self.slices.upkeep.watch_disk()?;
        let mut running = self.answer_on(sockets)?;
        running.app.spawn_tasks();
        Ok(running)
    }

    /// Answers a request of the local operator without listening. Commands use it while no server runs.
    pub async fn answer_locally(&self, request: http::Request<bytes::Bytes>) -> Result<(http::StatusCode, bytes::Bytes), String> {
        self.admin.answer_locally(request).await
    }

    /// Listens without background tasks: nothing is sent, collected or cleaned up.
    pub fn listen_quietly(self) -> Result<Running, String> {
        self.answer_on(Sockets::default())
    }

    fn answer_on(mut self, sockets: Sockets) -> Result<Running, String> {
        let listen = self.config.listen.clone();
        let certificate = if listen.tls { Some(self.certificate()?) } else { None };
        let tls = certificate
            .as_ref()
            .map(|certificate| certificate.server_config(self.config.tls.client_ca_file.as_deref()))
            .transpose()?;
        let fail = |what: &dyn std::fmt::Display, error: std::io::Error| format!("cannot listen on {what}: {error}");
        let open = |socket: Option<TcpListener>, address: SocketAddr| socket.map_or_else(|| listener::bind(address), Ok);
        let mut public = Listeners::new(self.public.clone());
        let api = open(sockets.api, listen.address).and_then(|socket| public.serve_tcp(socket, tls));
        let api = api.map_err(|error| fail(&listen.address, error))?;
        let redirect = match (sockets.redirect, listen.redirect_address) {
            (Some(socket), _) => {
                Some(public.serve_redirect(socket, api.port()).map_err(|error| fail(&"the redirect socket", error))?)
            }
            (None, Some(address)) => {
                let served = listener::bind(address).and_then(|socket| public.serve_redirect(socket, api.port()));
                Some(served.map_err(|error| fail(&address, error))?)
            }
            (None, None) => None,
        };
        self.egress.set_listening(&[Some(api), redirect].into_iter().flatten().collect::<Vec<_>>());
        let mut admin = Listeners::new(self.admin.clone());
        let socket = admin_socket(self.data.path());
        admin.serve_unix(&socket).map_err(|error| fail(&socket.display(), error))?;
        if let Some(certificate) = &certificate {
            let period = Duration::from_secs(self.config.tls.reload_seconds);
            self.tasks.spawn(CertificateWatch { certificate: certificate.clone(), period });
        }
        Ok(Running { app: self, addresses: Addresses { api, redirect }, public, admin, certificate })
    }

    fn certificate(&self) -> Result<Arc<Certificate>, String> {
        let files = if let (Some(certificate), Some(private_key)) =
            (&self.config.tls.certificate_file, &self.config.tls.private_key_file)
        {
            CertificateFiles { certificate: certificate.clone(), private_key: private_key.clone() }
        } else {
            let files = CertificateFiles::self_signed(self.data.path());
            files.create_self_signed(bootstrap::host_names(self.config.listen.address.ip()))?;
            files
        };
        Certificate::load(files)
    }
}

pub fn key_source(config: &Config, data_directory: &Path) -> KeySource {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    KeySource::find(config.secrets.installation_key_file.as_deref(), credentials.as_deref(), data_directory)
}
