//! A server for one test. It runs in this process with real sockets. After the test it shuts down; the store must be sound and no
//! background task may have failed.

mod actor;
pub mod authenticator;
#[path = "../../../src/kernel/egress/tests/certificates.rs"]
pub mod certificates;
mod directory;
#[path = "../../../src/kernel/egress/tests/dns.rs"]
#[allow(dead_code, reason = "each program of tests uses a part of it")]
pub mod dns;
#[path = "../../fakes/ec2.rs"]
#[allow(dead_code, reason = "each program of tests uses a part of it")]
pub mod ec2;
mod endpoint;
mod fill;
pub mod forge;
mod log;
pub mod oidc;
pub mod passkey;
pub mod portal;
mod receiver;
pub mod stream;

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use tenantd::app::{self, App, Operator, Running};

use tenantd_base::{
    clock::{Clock, Timestamp},
    config::{self, Config},
    secrets::Secret,
};
use tenantd_store::{DataDirectory, catalog};

pub use actor::{Actor, Call, Reply};
pub use endpoint::{Endpoint, WEBHOOKS};
pub use log::Log;
pub use receiver::{Received, Receiver, Script};

const OPERATOR_EMAIL: &str = "operator@example.com";
pub const PASSWORD: &str = "correct horse battery";

/// An example of the published document from its file, such as `tickets/create_ticket`.
pub fn example(name: &str) -> Value {
    let (slice, schema) = name.split_once('/').unwrap();
    let path = format!("{}/src/slices/{slice}/api/examples/{schema}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub struct TestApp {
    running: Running,
    clock: Clock,
    directory: tempfile::TempDir,
    client: reqwest::Client,
    base_url: String,
}

/// The settings of a test's server that differ from the defaults.
#[derive(Default)]
pub struct Setup {
    pub flags: Vec<(&'static str, String)>,
}

impl Setup {
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.flags.push((key, value.to_string()));
        self
    }
}

/// Runs a test with a server with default settings and no rate limits.
pub async fn with_app(test: impl AsyncFnOnce(&TestApp)) {
    with_setup(Setup::default().with("rate_limits.enabled", false), test).await;
}

pub async fn with_setup(setup: Setup, test: impl AsyncFnOnce(&TestApp)) {
    let directory = tempfile::tempdir().unwrap();
    let app = TestApp::start(directory, &setup, Timestamp::from_millis(1_767_225_600_000)).await;
    test(&app).await;
    drop(app.stop().await);
}

fn settings(directory: &Path, setup: &Setup) -> Config {
    let mut flags = vec![
        ("data.directory", directory.display().to_string()),
        ("listen.address", "127.0.0.1:0".to_owned()),
        ("listen.tls", "false".to_owned()),
        ("storage.cache_bytes", (4 << 20).to_string()),
        ("snapshots.max_age_hours", "0".to_owned()),
        // The free disk space of this machine does not matter.
        ("disk.low_percent", "0".to_owned()),
        ("disk.full_percent", "0".to_owned()),
        ("disk.reserve_bytes", "0".to_owned()),
    ];
    flags.extend(setup.flags.iter().cloned());
    config::load(None, [], &flags).unwrap()
}

impl TestApp {
    pub async fn start(directory: tempfile::TempDir, setup: &Setup, now: Timestamp) -> Self {
        let config = settings(directory.path(), setup);
        let tls = config.listen.tls;
        let data = DataDirectory::lock(directory.path()).unwrap();
        if !data.is_initialized().unwrap() {
            app::prepare_installation(&config, &data).unwrap();
        }
        let clock = Clock::movable(now);
        let operator = Operator { email: OPERATOR_EMAIL.to_owned(), password: Some(Secret::new(PASSWORD)) };
        let running = App::open(config, data, clock.clone(), operator, None).await.unwrap().listen().unwrap();
        let scheme = if tls { "https" } else { "http" };
        let base_url = format!("{scheme}://{}", running.addresses.api);
        Self { running, clock, client: actor::client(directory.path()), directory, base_url }
    }

    /// Shuts down the server and returns its data directory. The store must be sound.
    pub async fn stop(self) -> (tempfile::TempDir, Timestamp) {
        let report = self.running.app.store.check(app::checked_tables()).await.unwrap();
        assert!(report.is_clean(), "the store is not sound: {report:?}");
        let status = self.local().get("/status/").header("accept", "application/json").send().await;
        if status.status == 200 {
            assert_eq!(status.body["state"], "operational", "{}", status.body);
        }
        let now = self.clock.now();
        self.running.shutdown().await;
        (self.directory, now)
    }

    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    pub fn data_directory(&self) -> &Path {
        self.directory.path()
    }

    /// The state of the server and of one component, as shown by `/status/`.
    pub async fn status(&self, part: &str) -> (String, String) {
        let status = self.local().get("/status/").header("accept", "application/json").send().await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let components = status.ok(200)["components"].as_array().unwrap().clone();
        let found = components.iter().find(|component| component["name"] == part).unwrap();
        (text(&status.body["state"]), text(&found["state"]))
    }

    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Reloads the server with other settings.
    pub fn reload(&self, setup: &Setup) -> Result<(), String> {
        self.running.reload(&settings(self.directory.path(), setup)).map(drop)
    }

    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    pub fn anonymous(&self) -> Actor {
        Actor::new(self.client.clone(), self.base_url.clone())
    }

    /// The signed-in operator of the installation.
    pub async fn operator(&self) -> Actor {
        self.sign_in(OPERATOR_EMAIL).await
    }

    /// A client of the admin socket.
    pub fn local(&self) -> Actor {
        Actor::new(actor::socket_client(&app::admin_socket(self.directory.path())), "http://localhost".to_owned())
    }

    pub async fn sign_in(&self, email: &str) -> Actor {
        let reply = self.anonymous().post("/api/auth/login").json(json!({"email": email, "password": PASSWORD})).send().await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
        self.anonymous().with("cookie", &cookie)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits until a tenant has this status, or is gone if `None`. Commits wake it, so the work on the tenant is not delayed.
    pub async fn until_tenant(&self, id: &str, wanted: Option<&str>) {
        let (store, local) = (&self.running.app.store, self.local());
        let waiting = async {
            loop {
                let seen = store.version(catalog::TENANTS);
                let reply = local.get(&format!("/api/platform/tenants/{id}")).send().await;
                let status = (reply.status == 200).then(|| reply.body["status"].as_str().unwrap().to_owned());
                if status.as_deref() == wanted {
                    return;
                }
                store.changed(catalog::TENANTS, seen).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_mins(10), waiting).await;
        waited.unwrap_or_else(|_| panic!("the tenant did not become {wanted:?}"));
    }

    /// A new tenant.
    pub async fn tenant(&self, slug: &str) -> Tenant<'_> {
        self.new_tenant(slug, "standard").await
    }

    /// A new tenant whose receivers may be on loopback.
    pub async fn evaluation_tenant(&self, slug: &str) -> Tenant<'_> {
        self.new_tenant(slug, "evaluation").await
    }

    async fn new_tenant(&self, slug: &str, kind: &str) -> Tenant<'_> {
        let body = json!({"name": slug, "slug": slug, "kind": kind});
        let reply = self.local().post("/api/platform/tenants").json(body).send().await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        Tenant { app: self, slug: slug.to_owned(), id: reply.body["id"].as_str().unwrap().to_owned() }
    }
}

/// A tenant of the test's server with its people and keys.
pub struct Tenant<'a> {
    app: &'a TestApp,
    slug: String,
    pub id: String,
}

impl<'a> Tenant<'a> {
    /// An existing tenant.
    pub fn known(app: &'a TestApp, slug: &str, id: &str) -> Self {
        Self { app, slug: slug.to_owned(), id: id.to_owned() }
    }
}

impl Tenant<'_> {
    pub async fn user(&self, role: &str) -> Actor {
        let email = format!("{role}@{}.example", self.slug);
        let path = format!("/internal/admin/tenants/{}/users", self.id);
        let body = json!({"email": email, "name": role, "role": role, "password": PASSWORD});
        let reply = self.app.local().post(&path).json(body).send().await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        self.app.sign_in(&email).await
    }

    pub async fn admin(&self) -> Actor {
        self.user("admin").await
    }

    /// A key with these scopes, and its record.
    pub async fn new_key(&self, name: &str, scopes: &[&str]) -> (Actor, Value) {
        let path = format!("/internal/admin/tenants/{}/api-keys", self.id);
        let reply = self.app.local().post(&path).json(json!({"name": name, "scopes": scopes})).send().await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        let actor = self.app.anonymous().bearer(reply.body["key"].as_str().unwrap());
        (actor, reply.body)
    }

    pub async fn key(&self, scopes: &[&str]) -> Actor {
        self.new_key(&format!("key for {}", scopes.join(" ")), scopes).await.0
    }
}
