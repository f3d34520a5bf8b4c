//! The APIs that the two edges serve, and their published documents.

use poem::{EndpointExt, IntoEndpoint, Response, endpoint::BoxEndpoint};
use poem_openapi::{OpenApi, OpenApiService};
use serde_json::Value;

use super::{checked_tables, event_kinds};
use crate::{
    kernel::{
        clock::Clock,
        config::Config,
        egress::Egress,
        entropy::Entropy,
        http::openapi::{self, About},
        secrets::{InstallationKey, Passwords, Sealer},
        store::{RedbEngine, Store, WriterSettings},
    },
    slices::{api_keys::ApiKeySlice, auth::Auth, platform::Platform, webhooks::Webhooks},
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
    let document = openapi::publish(&service.spec(), about);
    (service.into_endpoint().map_to_response().boxed(), document)
}

pub(super) fn public_service(platform: &Platform, auth: &Auth, keys: &ApiKeySlice, webhooks: &Webhooks) -> Service {
    service(public_api(platform, auth, keys, webhooks), PUBLIC)
}

/// The admin socket serves the public API too, so that one client can do everything.
pub(super) fn admin_service(platform: &Platform, auth: &Auth, keys: &ApiKeySlice, webhooks: &Webhooks) -> Service {
    service((public_api(platform, auth, keys, webhooks), admin_api(platform, auth, keys, webhooks)), INTERNAL)
}

fn public_api(platform: &Platform, auth: &Auth, keys: &ApiKeySlice, webhooks: &Webhooks) -> impl OpenApi + use<> {
    (auth.api(), keys.api(), webhooks.api(), platform.api(&event_kinds()))
}

fn admin_api(platform: &Platform, auth: &Auth, keys: &ApiKeySlice, webhooks: &Webhooks) -> impl OpenApi + use<> {
    (
        auth.admin_api(platform.tenants.clone()),
        keys.admin_api(platform.tenants.clone()),
        webhooks.admin_api(platform.tenants.clone()),
        platform.admin_api(checked_tables()),
    )
}

/// The slices over an empty store in a file that is removed: enough to say what their API looks like.
fn describe<T>(config: &Config, with: impl FnOnce(&Platform, &Auth, &ApiKeySlice, &Webhooks) -> T) -> Result<T, String> {
    let path = std::env::temp_dir().join(format!("tenantd-openapi-{}-{}", std::process::id(), Entropy::from_os().next_u64()));
    let engine = RedbEngine::create(&path, 1 << 20).map_err(|error| error.to_string())?;
    drop(std::fs::remove_file(&path));
    let store = Store::new(engine, WriterSettings { batch_size: 1, queue_length: 1 }).map_err(|error| error.to_string())?;
    let mut entropy = Entropy::from_os();
    let passwords = Passwords::new(1, 1, &mut entropy);
    let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
    let platform = Platform::new(store.clone(), Clock::System);
    let keys = ApiKeySlice::new(store.clone(), Clock::System, &config.api_keys);
    let egress = Egress::new(&config.egress, &[])?;
    let tenants = platform.tenants.clone();
    let webhooks = Webhooks::new(store.clone(), Clock::System, config, sealer, egress, tenants, event_kinds());
    let auth = Auth::new(store, Clock::System, &config.sessions, passwords, platform.tenants.clone(), keys.keys.clone());
    Ok(with(&platform, &auth, &keys, &webhooks))
}

/// The published document.
pub fn public_document(config: &Config) -> Result<Value, String> {
    describe(config, |platform, auth, keys, webhooks| public_service(platform, auth, keys, webhooks).1)?
}

/// The document of what only the admin socket serves.
pub fn internal_document(config: &Config) -> Result<Value, String> {
    describe(config, |platform, auth, keys, webhooks| service(admin_api(platform, auth, keys, webhooks), INTERNAL).1)?
}
