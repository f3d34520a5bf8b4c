//! The first start: creates the installation key, the store, the platform tenant and its operator. **Invariant:** every step can be
//! repeated after a crash.

use std::{
    net::{IpAddr, UdpSocket},
    path::{Path, PathBuf},
};

use tenantd_auth::{Auth, AuthError, FirstPassword, NewUser, PasswordContext};
use tenantd_base::{
    access::{Role, TenantKind},
    clock::Clock,
    config::Config,
    entropy::Entropy,
    id::TenantId,
    secrets::{InstallationKey, Secret},
};
use tenantd_platform::{NewTenant, Platform, Tenant, TenantError};
use tenantd_store::{
    DataDirectory, Store, StoreError,
    events::{Actor, Intent},
    write_private_file,
};

use super::key_source;

const PASSWORD_FILE: &str = "initial-operator-password";

/// The file with the password of the first operator. `None` if it was removed.
pub fn first_password_file(data_directory: &Path) -> Option<PathBuf> {
    let file = data_directory.join(PASSWORD_FILE);
    file.exists().then_some(file)
}

/// The account of the first operator.
#[derive(Clone, Debug)]
pub struct Operator {
    pub email: String,
    /// If absent, tenantd generates a random password and writes it to a file.
    pub password: Option<Secret>,
}

impl Default for Operator {
    fn default() -> Self {
        Self { email: "operator@localhost.localdomain".to_owned(), password: None }
    }
}

/// Creates the installation in an empty directory: the store, and the installation key unless it comes from outside.
pub fn prepare_installation(config: &Config, data: &DataDirectory) -> Result<(), StoreError> {
    let mut entropy = Entropy::from_os();
    let id = entropy.bytes();
    let source = key_source(config, data.path());
    data.initialize(id, || {
        if source.may_create && !source.path.exists() {
            let key = InstallationKey::generate(&mut entropy);
            write_private_file(&source.path, key.to_file().as_bytes())?;
        }
        Ok(InstallationKey::load(&source.path).map_err(StoreError::Installation)?.fingerprint())
    })
}

enum BootstrapError {
    Tenant(TenantError),
    Auth(AuthError),
    Store(StoreError),
}

impl From<StoreError> for BootstrapError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tenant(error) => error.fmt(f),
            Self::Auth(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

/// Returns the platform tenant. Creates it and its operator if it is missing.
pub(super) async fn ensure_operator(
    store: &Store,
    clock: &Clock,
    platform: &Platform,
    auth: &Auth,
    data_directory: &Path,
    operator: Operator,
) -> Result<Tenant, String> {
    let known = store.read(|tx| platform.tenants.platform(tx)).map_err(|error: StoreError| error.to_string())?;
    if let Some(tenant) = known {
        return Ok(tenant);
    }
    let intent = Intent::new(TenantId::from_bytes([0; 16]), clock.now(), Actor::system("first start"));
    let is_chosen = operator.password.is_some();
    let password = if let Some(password) = operator.password {
        password
    } else {
        let password = Secret::random_password(&mut Entropy::from_os());
        let path = data_directory.join(PASSWORD_FILE);
        let content = format!("{}\n", password.expose());
        write_private_file(&path, content.as_bytes()).map_err(|error| error.to_string())?;
        password
    };
    let context = PasswordContext::default().with_person("Operator", Some(&operator.email));
    let hash = auth.users.hash_password(password, &context, &intent).await.map_err(|error| error.to_string())?;
    let (tenants, users) = (platform.tenants.clone(), auth.users.clone());
    let made = store.write(move |tx| {
        let mut act = intent.begin();
        let new = NewTenant {
            name: "Platform".to_owned(),
            slug: Some("platform".to_owned()),
            kind: TenantKind::Platform,
            expires_days: None,
        };
        let tenant = tenants.create(tx, &mut act, &new).map_err(BootstrapError::Tenant)?;
        let user =
            NewUser { tenant_id: tenant.id, email: operator.email.clone(), name: "Operator".to_owned(), role: Role::Operator };
        let first = if is_chosen { FirstPassword::Chosen(&hash) } else { FirstPassword::Temporary(&hash) };
        users.create(tx, &mut act, &user, first, true).map_err(BootstrapError::Auth)?;
        Ok::<_, BootstrapError>(tenant)
    });
    made.await.map_err(|error| error.to_string())
}

/// The names and addresses of the self-signed certificate.
pub(super) fn host_names(listen: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if !host.is_empty() {
        names.push(host);
    }
    if listen.is_unspecified() {
        names.extend(outgoing_address().map(|address| address.to_string()));
    } else {
        names.push(listen.to_string());
    }
    names.sort();
    names.dedup();
    names
}

/// The source address of outgoing connections. Connecting a UDP socket finds it without sending anything.
fn outgoing_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_unspecified())
}
