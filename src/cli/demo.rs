//! `tenantd demo`: runs a server with an evaluation tenant. With an existing data directory, it continues with the data in it.

use std::{
    io::IsTerminal,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use serde::{Deserialize, Serialize};

use tenantd_api_keys::{ApiKeyError, NewApiKey, Plaintext};
use tenantd_auth::{AuthError, PasswordContext};
use tenantd_base::{
    access::TenantKind,
    clock::Clock,
    config::Config,
    entropy::Entropy,
    id::TenantId,
    secrets::Secret,
    telemetry::{self, LogOutput},
};
use tenantd_directory::person_by_email;
use tenantd_platform::{Evaluation, NewTenant, SampleSpec, Tenant, TenantStatus, Tenants};
use tenantd_store::{
    DataDirectory, Store, StoreError, catalog,
    events::{Actor, Intent},
    write_private_file,
};

use super::{
    Common, Failure, browser, output,
    serve::{Signals, open_locked, serve_until_stopped},
};
use crate::app::{App, Operator, Running, Sockets};

const CREDENTIALS_FILE: &str = "demo.json";
const DIRECTORY_PREFIX: &str = "tenantd-demo-";
const ADDRESS: &str = "127.0.0.1:8080";
const ANY_PORT: &str = "127.0.0.1:0";
const SLUG: &str = "demo";
const EMAIL: &str = "admin@demo.example";
const ORGANIZATIONS: u32 = 24;
const DEVICES_EACH: u32 = 20;
/// The interval of progress updates.
const PROGRESS: Duration = Duration::from_millis(200);
/// How long a start waits for the sign-in link. A store that holds writes back must not prevent it.
const LINK_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// The address to listen on. Port 0 picks a free port. Default: 127.0.0.1:8080, or a free port if 8080 is in use.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Serve HTTPS with a self-signed certificate.
    #[arg(long)]
    tls: bool,
    /// The number of sample tickets. The sample data also has organizations, people and devices. 0 creates an empty tenant.
    #[arg(long, value_name = "COUNT", default_value_t = 3000)]
    tickets: u32,
    /// The seed of the sample data. The same seed generates the same data.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Open the sign-in link in the browser.
    #[arg(long)]
    open: bool,
}

/// The credentials of the visitor, stored in the data directory so that the next start can print them again.
#[derive(Debug, Serialize, Deserialize)]
struct Credentials {
    tenant_id: TenantId,
    email: String,
    password: String,
    api_key: String,
}

impl Demo {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        if let Some(directory) = &common.data_dir {
            return self.run_in(common, directory).await;
        }
        let directory = fresh_directory()?;
        let result = self.run_in(common, &directory).await;
        // The directory is temporary. Its keys must not outlive this process.
        match std::fs::remove_dir_all(&directory) {
            Err(error) if result.is_ok() => Err(Failure::Failed(format!("{}: {error}", directory.display()))),
            _ => result,
        }
    }

    async fn run_in(&self, common: &Common, directory: &Path) -> Result<(), Failure> {
        let listen = self.listen.clone().unwrap_or_else(free_address);
        let mut flags = vec![
            ("data.directory", directory.display().to_string()),
            ("listen.address", listen.clone()),
            ("listen.tls", self.tls.to_string()),
            ("telemetry.log_level", "warn".to_owned()),
            // There are no other tenants to protect from this visitor.
            ("limits.evaluation_events", i64::MAX.to_string()),
            ("rate_limits.evaluation_percent", "100".to_owned()),
            // A demo needs no backups, and the settings of an installation on the same host do not apply to it.
            ("offsite.url", String::new()),
            ("snapshots.max_age_hours", "0".to_owned()),
        ];
        if common.data_dir.is_none() {
            // A temporary directory needs no reserve.
            flags.push(("disk.reserve_bytes", "0".to_owned()));
        }
        let config = common.settings(&flags)?;
        // Standard output is for the credentials.
        telemetry::install_logs(&config.telemetry, LogOutput::Stderr)?;
        let signals = Signals::take()?;
        // The most likely failure comes before anything is created.
        let another = |failure: String| Failure::Failed(format!("{failure}; specify another address with --listen"));
        let sockets = Sockets::default().bind(&config.listen).map_err(another)?;
        let running = start(&config, directory, sockets).await?;
        let credentials = self.credentials(&running.app, directory).await?;
        let filling = Filling::new(&running.app, credentials.tenant_id, self.tickets);
        let scheme = if self.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}", running.addresses.api);
        if common.json {
            // A program expects to find everything, and to make changes at once.
            filling.clone().follow().await?;
        }
        let link = sign_in_link(&running.app, &url, &credentials).await;
        print_welcome(common, &url, &credentials, link.as_deref(), directory, self.tls)?;
        if self.open {
            browser::open(&link.unwrap_or_else(|| format!("{url}/sign-in")));
        }
        let mut serving = Box::pin(serve_until_stopped(running, signals, || Ok(config.clone())));
        tokio::select! {
            stopped = &mut serving => stopped,
            filled = filling.follow() => {
                filled?;
                serving.await
            }
        }
    }

    /// Returns the credentials of the demo tenant, once they work. Creates the tenant if it is missing.
    async fn credentials(&self, app: &App, directory: &Path) -> Result<Credentials, Failure> {
        let path = directory.join(CREDENTIALS_FILE);
        if let Ok(text) = std::fs::read_to_string(&path) {
            let known: Credentials =
                serde_json::from_str(&text).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
            // If the last start was interrupted, tenantd removes the incomplete data, with everything that is issued before.
            Filling::new(app, known.tenant_id, self.tickets).follow().await?;
            return Ok(known);
        }
        let tenants = &app.slices.platform.tenants;
        let (platform, known) = app
            .store
            .read(|tx| Ok::<_, StoreError>((tenants.platform(tx)?, tenants.find(tx, SLUG)?)))
            .map_err(|error| error.to_string())?;
        let platform = platform.ok_or_else(|| Failure::Failed("the installation has no platform tenant".to_owned()))?;
        let intent = Intent::new(platform.id, app.clock.now(), Actor::system("demo"));
        let credentials = match known {
            // A start that crashed before it stored the credentials left a tenant. Give it new credentials.
            Some(tenant) => {
                Filling::new(app, tenant.id, self.tickets).follow().await?;
                renew_credentials(app, intent, &tenant).await?
            }
            None => self.create(app, intent).await?,
        };
        let text = serde_json::to_string(&credentials).map_err(|error| Failure::Failed(error.to_string()))?;
        write_private_file(&path, text.as_bytes()).map_err(|error| error.to_string())?;
        Ok(credentials)
    }

    async fn create(&self, app: &App, intent: Intent) -> Result<Credentials, Failure> {
        let platform = &app.slices.platform;
        let organizations = if self.tickets == 0 { 0 } else { ORGANIZATIONS };
        let spec = SampleSpec {
            seed: self.seed,
            organizations,
            devices: organizations * DEVICES_EACH,
            tickets: self.tickets,
            ends_at: intent.now,
            runs: true,
        };
        let (access, admission) = platform.admit(SLUG, intent.now).await.map_err(|error| error.to_string())?;
        let (tenants, evaluation) = (platform.tenants.clone(), Evaluation { story: spec, admission });
        let new =
            NewTenant { name: "Demo".to_owned(), slug: Some(SLUG.to_owned()), kind: TenantKind::Evaluation, expires_days: None };
        let made = app.store.write(move |tx| tenants.create_evaluation(tx, &mut intent.begin(), &new, &evaluation));
        let tenant = made.await.map_err(|error| error.to_string())?;
        until_visitor(app, tenant.id, &access.email).await?;
        Ok(Credentials {
            tenant_id: tenant.id,
            email: access.email,
            password: access.password.expose().to_owned(),
            api_key: access.api_key.expose().to_owned(),
        })
    }
}

/// Opens the installation and serves it. If that fails in a directory without files, removes everything that it has created.
async fn start(config: &Config, directory: &Path, sockets: Sockets) -> Result<Running, Failure> {
    let existed = directory.exists();
    let data = DataDirectory::lock(directory).map_err(|error| error.to_string())?;
    // Only this process can write to the directory while it has the lock.
    let is_new = std::fs::read_dir(directory).is_ok_and(|entries| entries.count() == 1);
    let started = match open_locked(config.clone(), data, Clock::System, Operator::default()).await {
        Ok(app) => app.listen_on(sockets).map_err(Failure::Failed),
        Err(failure) => Err(failure),
    };
    if started.is_err() && is_new {
        remove_unserved(directory, existed);
    }
    started
}

/// Removes the files of an installation that has not served, and the directory itself unless it existed before.
fn remove_unserved(directory: &Path, existed: bool) {
    // Without the lock, another process has taken the directory over.
    let Ok(_lock) = DataDirectory::lock(directory) else { return };
    let removed = if existed { remove_entries(directory) } else { std::fs::remove_dir_all(directory) };
    if let Err(error) = removed {
        tracing::warn!(%error, path = %directory.display(), "cannot remove what the demo has created");
    }
}

fn remove_entries(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { std::fs::remove_dir_all(entry.path())? } else { std::fs::remove_file(entry.path())? }
    }
    Ok(())
}

/// Waits until the new tenant has its visitor. The rest of its data arrives afterwards.
async fn until_visitor(app: &App, tenant: TenantId, email: &str) -> Result<(), Failure> {
    loop {
        let seen = app.store.version(catalog::USERS);
        let visitor = app.store.read(|tx| person_by_email(tx, tenant, email)).map_err(|error| error.to_string())?;
        if visitor.is_some() {
            return Ok(());
        }
        app.store.changed(catalog::USERS, seen).await;
    }
}

/// Follows the sample data of a tenant while tenantd writes it.
#[derive(Clone)]
struct Filling {
    store: Store,
    tenants: Tenants,
    tenant: TenantId,
    tickets: u32,
}

impl Filling {
    fn new(app: &App, tenant: TenantId, tickets: u32) -> Self {
        Self { store: app.store.clone(), tenants: app.slices.platform.tenants.clone(), tenant, tickets }
    }

    /// Returns once the data is complete or the server stops. Shows the progress on standard error.
    #[allow(clippy::print_stderr, reason = "standard output is for the credentials")]
    async fn follow(self) -> Result<(), Failure> {
        let what = format!("Creating {} sample tickets and {} devices …", self.tickets, ORGANIZATIONS * DEVICES_EACH);
        let (shows, overwrites) = (self.tickets > 0 && self.is_incomplete()?, std::io::stderr().is_terminal());
        if shows && !overwrites {
            eprintln!("{what}");
        }
        while self.is_incomplete()? && !self.store.is_stopping() {
            let seen = self.store.version(catalog::TENANTS);
            if shows && overwrites {
                eprint!("\r{what} {} %", self.percent()?);
            }
            drop(tokio::time::timeout(PROGRESS, self.store.changed(catalog::TENANTS, seen)).await);
        }
        if shows && !self.store.is_stopping() {
            eprintln!("{}The sample data is complete.", if overwrites { "\n" } else { "" });
        }
        Ok(())
    }

    fn is_incomplete(&self) -> Result<bool, Failure> {
        let found = self.tenants.cached(self.tenant).map_err(|error| error.to_string())?;
        let status = found.as_ref().as_ref().map(|tenant| tenant.status);
        Ok(matches!(status, Some(TenantStatus::Preparing | TenantStatus::Filling)))
    }

    fn percent(&self) -> Result<u64, Failure> {
        let written = self.store.read(|tx| tenantd_tickets::newest_number(tx, self.tenant)).map_err(|error| error.to_string())?;
        Ok((written * 100 / u64::from(self.tickets)).min(99))
    }
}

/// Creates a new password and a new API key for the visitor.
async fn renew_credentials(app: &App, intent: Intent, tenant: &Tenant) -> Result<Credentials, Failure> {
    let password = Secret::random_password(&mut Entropy::from_os());
    let hash = app
        .slices
        .auth
        .users
        .hash_password(password.clone(), &PasswordContext::default(), &intent)
        .await
        .map_err(|error| error.to_string())?;
    let (users, keys) = (app.slices.auth.users.clone(), app.slices.keys.clone());
    let (tenant_id, key) = (tenant.id, Plaintext::generate(tenant.kind, &mut Entropy::from_os()));
    let stored = key.to_stored();
    let made = app.store.write(move |tx| {
        let mut act = intent.begin();
        users.reset_password(tx, &mut act, EMAIL, Some(tenant_id), &hash)?;
        let new = NewApiKey {
            name: format!("Demo key {}", act.now),
            description: Some("Created by tenantd demo.".to_owned()),
            scopes: vec!["*".to_owned()],
            organization_ids: Vec::new(),
            allowed_ips: Vec::new(),
            expires_days: None,
        };
        act.tenant_id = tenant_id;
        keys.create_for_visitor(tx, &mut act, &new, stored.clone())?;
        Ok::<_, DemoError>(())
    });
    made.await.map_err(|error| error.to_string())?;
    Ok(Credentials { tenant_id, email: EMAIL.to_owned(), password: password.expose().to_owned(), api_key: key.expose().to_owned() })
}

/// Issues a link that signs the visitor in once. Returns `None` if no link works: the tenant is suspended or gone, the user is
/// disabled or has another address, or the disk is full.
async fn sign_in_link(app: &App, url: &str, credentials: &Credentials) -> Option<String> {
    let tenant = credentials.tenant_id;
    if app.store.ensure_room().is_err() {
        return None;
    }
    let intent = app.slices.platform.tenants.guarding_intent(tenant, app.clock.now(), Actor::system("demo"));
    let (users, email) = (app.slices.auth.users.clone(), credentials.email.clone());
    // After a crash, the next start issues another link, so this one need not be on the disk.
    let issued = app.store.write_derived(move |tx| users.issue_sign_in_link(tx, &mut intent.begin(), tenant, &email));
    let token = match tokio::time::timeout(LINK_TIMEOUT, issued).await {
        Ok(Ok(token)) => token,
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot issue a sign-in link");
            None
        }
        Err(_) => None,
    };
    token.map(|token| format!("{url}/sign-in?link={}", token.expose()))
}

/// The default address, or any free port if another program uses that address.
fn free_address() -> String {
    let is_free = std::net::TcpListener::bind(ADDRESS).is_ok();
    if is_free { ADDRESS } else { ANY_PORT }.to_owned()
}

/// The data directories of demos that this user runs.
pub(super) fn directories() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let is_demo = entry.file_name().to_string_lossy().starts_with(DIRECTORY_PREFIX);
        // Another user could create such a directory with a server that collects secrets.
        let is_private = entry.metadata().is_ok_and(|found| {
            found.is_dir() && found.uid() == rustix::process::getuid().as_raw() && found.mode().trailing_zeros() >= 6
        });
        is_demo && is_private
    });
    ours.map(|entry| entry.path()).collect()
}

fn fresh_directory() -> Result<PathBuf, Failure> {
    let name = format!("{DIRECTORY_PREFIX}{}-{:08x}", std::process::id(), Entropy::from_os().below(1 << 32));
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir(&path).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    Ok(path)
}

#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Key(#[from] ApiKeyError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn print_welcome(
    common: &Common,
    url: &str,
    credentials: &Credentials,
    link: Option<&str>,
    directory: &Path,
    tls: bool,
) -> Result<(), Failure> {
    let Credentials { tenant_id, email, password, api_key } = credentials;
    if common.json {
        let mut value =
            serde_json::json!({"url": url, "tenant_id": tenant_id, "email": email, "password": password, "api_key": api_key});
        if let (Some(link), Some(members)) = (link, value.as_object_mut()) {
            members.insert("sign_in_url".to_owned(), link.into());
        }
        return output::json(&value);
    }
    let once = link.map(|link| format!("Open {link} to sign in. The link works once.\n\n")).unwrap_or_default();
    let curl = if tls { "curl -sSk" } else { "curl -sS" };
    output::line(&format!(
        "{}\n\n{once}\
         sign in        {url}/sign-in\n\
         as             {email}\n\
         password       {password}\n\
         documentation  {url}/documentation/\n\
         data           {}\n\n\
         Try, in another terminal:\n\
         export URL={url} KEY={api_key}\n\
         {curl} $URL/api/auth/session -H \"X-API-Key: $KEY\"\n\
         {curl} \"$URL/api/psa/tickets?status_category=open&sort=priority&limit=5\" -H \"X-API-Key: $KEY\"\n\
         {curl} \"$URL/api/rmm/reports/asset-inventory?group_by=os_version&summary=true\" -H \"X-API-Key: $KEY\"\n\
         {curl} \"$URL/api/psa/workflows/trigger?view=runs&limit=5\" -H \"X-API-Key: $KEY\"\n\
         {curl} $URL/api/admin/api-keys -H \"X-API-Key: $KEY\" -H 'Content-Type: application/json' -d '{{\"name\":\"My first key\",\"scopes\":[\"*\"],\"expires_days\":30}}'\n\n\
         Press Ctrl-C to stop the server.",
        output::bold(&format!("tenantd {} is ready at {url}", env!("CARGO_PKG_VERSION"))),
        directory.display()
    ))
}
