//! The APIs that the two edges serve, and their published documents.

use poem::{EndpointExt, IntoEndpoint, Response, endpoint::BoxEndpoint};
use poem_openapi::{OpenApi, OpenApiService};
use serde_json::Value;

use super::{checked_tables, event_kinds};
use crate::{
    kernel::{
        clock::Clock,
        config::Config,
        entropy::Entropy,
        http::openapi::{self, About},
        secrets::Passwords,
        store::{RedbEngine, Store, WriterSettings},
    },
    slices::{api_keys::ApiKeySlice, auth::Auth, directory::Directory, platform::Platform},
};

const PUBLIC: About = About {
    title: "tenantd",
    version: env!("CARGO_PKG_VERSION"),
    description: "The control plane of a multi-tenant IT operations platform: API keys, events and tenants. \
        Authenticate with an API key (`Authorization: Bearer …` or `X-API-Key: …`) or a session cookie. \
        Errors are application/problem+json with a stable `code`. Lists are pages with a cursor. \
        Records carry a version as their ETag. Every POST that changes a record takes an Idempotency-Key. \
        The documentation is at /documentation/.",
};
const INTERNAL: About = About {
    title: "tenantd administration",
    description: "What the admin socket serves beside the public API: for the local operator and the tenantd command.",
    ..PUBLIC
};

type Service = (BoxEndpoint<'static, Response>, Result<Value, String>);

fn service(api: impl OpenApi + 'static, about: About) -> Service {
    let service = OpenApiService::new(api, about.title, about.version);
    let document = openapi::publish(&service.spec(), about, &event_kinds());
    (service.into_endpoint().map_to_response().boxed(), document)
}

/// The slices that have an API.
#[derive(Clone, Copy)]
pub(super) struct Slices<'a> {
    pub(super) platform: &'a Platform,
    pub(super) directory: &'a Directory,
    pub(super) auth: &'a Auth,
    pub(super) keys: &'a ApiKeySlice,
}

pub(super) fn public_service(slices: &Slices<'_>) -> Service {
    service(public_api(slices), PUBLIC)
}

/// The admin socket serves the public API too, so that one client can do everything.
pub(super) fn admin_service(slices: &Slices<'_>) -> Service {
    service((public_api(slices), admin_api(slices)), INTERNAL)
}

fn public_api(slices: &Slices<'_>) -> impl OpenApi + use<> {
    let Slices { platform, directory, auth, keys } = slices;
    (auth.api(), keys.api(), platform.api(&event_kinds()), directory.api())
}

fn admin_api(slices: &Slices<'_>) -> impl OpenApi + use<> {
    let Slices { platform, auth, keys, .. } = slices;
    (auth.admin_api(platform.tenants.clone()), keys.admin_api(platform.tenants.clone()), platform.admin_api(checked_tables()))
}

/// The slices over an empty store in a file that is removed: enough to say what their API looks like.
fn describe<T>(config: &Config, with: impl FnOnce(&Slices<'_>) -> T) -> Result<T, String> {
    let path = std::env::temp_dir().join(format!("tenantd-openapi-{}-{}", std::process::id(), Entropy::from_os().next_u64()));
    let engine = RedbEngine::create(&path, 1 << 20).map_err(|error| error.to_string())?;
    drop(std::fs::remove_file(&path));
    let store = Store::new(engine, WriterSettings { batch_size: 1, queue_length: 1 }).map_err(|error| error.to_string())?;
    let passwords = Passwords::new(1, 1, &mut Entropy::from_os()).map_err(|error| error.to_string())?;
    let platform = Platform::new(store.clone(), Clock::System);
    let keys = ApiKeySlice::new(store.clone(), Clock::System, &config.api_keys);
    let directory = Directory::new(&config.directory);
    let (tenants, admitted) = (platform.tenants.clone(), keys.keys.clone());
    let auth = Auth::new(store, Clock::System, &config.sessions, passwords, directory, tenants, admitted);
    Ok(with(&Slices { platform: &platform, directory: &directory, auth: &auth, keys: &keys }))
}

/// The published document.
pub fn public_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| public_service(slices).1)?
}

/// The document of what only the admin socket serves.
pub fn internal_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| service(admin_api(slices), INTERNAL).1)?
}
