//! The APIs that the two edges serve, and their published documents.

use std::sync::Arc;

use poem::{EndpointExt, IntoEndpoint, Response, endpoint::BoxEndpoint};
use poem_openapi::{OpenApi, OpenApiService};
use serde_json::{Map, Value};

use super::{checked_tables, event_kinds, step_catalogue};
use crate::{
    kernel::{
        clock::Clock,
        config::Config,
        egress::Egress,
        entropy::Entropy,
        http::{
            acts,
            openapi::{self, About},
        },
        secrets::{InstallationKey, Passwords, Sealer},
        store::{RedbEngine, Store, WriterSettings},
    },
    slices::{
        analytics::Analytics,
        api_keys::ApiKeySlice,
        audit::Audit,
        auth::Auth,
        backup::Backups,
        cloud::Clouds,
        directory::{Directory, DirectoryIngest},
        inventory::Inventory,
        platform::{Platform, Reload},
        search::Search,
        sso::SingleSignOn,
        tickets::Tickets,
        webhooks::{Surroundings, Webhooks},
        workflows::Workflows,
    },
};

const PUBLIC: About = About {
    title: "tenantd",
    version: env!("CARGO_PKG_VERSION"),
    description: "The control plane of a multi-tenant IT operations platform: tickets, search, asset inventory, workflows, clouds, backups, analytics, API keys, webhooks, events and tenants. \
        Authenticate with an API key (`Authorization: Bearer …` or `X-API-Key: …`) or a session cookie. \
        Errors are application/problem+json with a stable `code`. Lists are pages with a cursor. \
        Records carry a version as their ETag. Every POST that changes a record takes an Idempotency-Key. \
        The documentation is at /documentation/.",
};
const INGEST: About = About {
    title: "tenantd ingest",
    description: "How agents and imports bring organizations, users, devices and backup jobs into a tenant. Authenticate with an API key that has \
        the scope `ingest:write`. The public API is described at /api/openapi.json.",
    ..PUBLIC
};
const INTERNAL: About = About {
    title: "tenantd administration",
    description: "What the admin socket serves beside the public API: for the local operator and the tenantd command.",
    ..PUBLIC
};

const PAGES: About = About {
    title: "tenantd pages",
    description: "The pages for people who sign in. Nobody publishes this: it is what their input is checked against.",
    ..PUBLIC
};

/// What an edge serves, and the documents that its operations are in.
pub(super) struct Service {
    pub(super) api: BoxEndpoint<'static, Response>,
    /// Of the API that the pages are about.
    pub(super) document: Value,
    /// Of the way in for agents and imports.
    pub(super) ingest: Value,
    /// Of the pages for people who sign in.
    pub(super) pages: Value,
}

fn endpoint(api: impl OpenApi + 'static) -> BoxEndpoint<'static, Response> {
    OpenApiService::new(api, "", "").into_endpoint().map_to_response().boxed()
}

fn document(api: impl OpenApi + 'static, about: About) -> Result<Value, String> {
    let draft = OpenApiService::new(api, about.title, about.version).spec();
    openapi::publish(&draft, about, Map::new())
}

/// The document of an API with the event feed, which carries records of all slices, also such that no operation has.
fn document_with_events(api: impl OpenApi + 'static, about: About) -> Result<Value, String> {
    let draft = OpenApiService::new(api, about.title, about.version).spec();
    let mut schemas = Directory::record_schemas();
    schemas.extend(Auth::record_schemas());
    schemas.extend(Backups::record_schemas());
    schemas.extend(acts::schemas());
    schemas.extend(Platform::event_schemas(&event_kinds()));
    openapi::publish(&draft, about, schemas)
}

/// The slices that have an API.
#[derive(Clone, Copy)]
pub(super) struct Slices<'a> {
    pub(super) platform: &'a Platform,
    pub(super) ingest: &'a DirectoryIngest,
    pub(super) auth: &'a Auth,
    pub(super) sso: &'a SingleSignOn,
    pub(super) keys: &'a ApiKeySlice,
    pub(super) tickets: &'a Tickets,
    pub(super) inventory: &'a Inventory,
    pub(super) search: &'a Search,
    pub(super) webhooks: &'a Webhooks,
    pub(super) workflows: &'a Workflows,
    pub(super) clouds: &'a Clouds,
    pub(super) analytics: &'a Analytics,
    pub(super) backups: &'a Backups,
    pub(super) audit: &'a Audit,
}

pub(super) fn public_service(slices: &Slices<'_>) -> Result<Service, String> {
    Ok(Service {
        api: endpoint((public_api(slices), slices.ingest.api(), slices.sso.pages())),
        document: document_with_events(public_api(slices), PUBLIC)?,
        ingest: document(slices.ingest.api(), INGEST)?,
        pages: document(slices.sso.pages(), PAGES)?,
    })
}

/// The admin socket serves the public API too, so that one client can do everything.
pub(super) fn admin_service(slices: &Slices<'_>) -> Result<Service, String> {
    Ok(Service {
        api: endpoint((public_api(slices), admin_api(slices), slices.ingest.api(), slices.sso.pages())),
        document: document_with_events((public_api(slices), admin_api(slices)), INTERNAL)?,
        ingest: document(slices.ingest.api(), INGEST)?,
        pages: document(slices.sso.pages(), PAGES)?,
    })
}

fn public_api(slices: &Slices<'_>) -> impl OpenApi + use<> {
    let Slices {
        platform,
        auth,
        sso,
        keys,
        tickets,
        inventory,
        search,
        webhooks,
        workflows,
        clouds,
        backups,
        analytics,
        audit,
        ..
    } = slices;
    let control = (auth.api(), sso.api(), keys.api(), audit.api(&event_kinds()));
    let found = (inventory.api(), search.api(), backups.api(), analytics.api());
    (control, platform.api(&event_kinds()), tickets.api(), found, webhooks.api(), workflows.api(), clouds.api())
}

fn admin_api(slices: &Slices<'_>) -> impl OpenApi + use<> {
    let Slices { platform, ingest, auth, keys, search, webhooks, audit, .. } = slices;
    let tenants = || platform.tenants.clone();
    (
        auth.admin_api(tenants()),
        keys.admin_api(tenants()),
        ingest.admin_api(tenants()),
        webhooks.admin_api(tenants()),
        search.admin_api(),
        audit.admin_api(),
        platform.admin_api(checked_tables()),
    )
}

/// The slices over an empty store in a file that is removed: enough to say what their API looks like.
fn describe<T>(config: &Config, with: impl FnOnce(&Slices<'_>) -> T) -> Result<T, String> {
    let path = std::env::temp_dir().join(format!("tenantd-openapi-{}-{}", std::process::id(), Entropy::from_os().next_u64()));
    let engine = RedbEngine::create(&path, 1 << 20).map_err(|error| error.to_string())?;
    drop(std::fs::remove_file(&path));
    let store = Store::new(engine, WriterSettings { batch_size: 1, queue_length: 1 }).map_err(|error| error.to_string())?;
    let mut entropy = Entropy::from_os();
    let passwords = Passwords::new(1, 1, &mut entropy);
    let key = InstallationKey::generate(&mut entropy);
    let sealer = Sealer::new(&key);
    let platform = Platform::new(store.clone(), Clock::System, Reload::channel().0);
    let keys = ApiKeySlice::new(store.clone(), Clock::System, &config.api_keys);
    let directory = Directory::new(&config.directory);
    let (tenants, admitted) = (platform.tenants.clone(), keys.keys.clone());
    let auth = Auth::new(store.clone(), Clock::System, &config.sessions, passwords, directory, tenants, admitted);
    let tickets = Tickets::new(store.clone(), Clock::System, &config.tickets, &config.limits);
    let backups = Backups::new(store.clone(), Clock::System, config.backup, &config.limits, &key, tickets.clone())?;
    let ingest = DirectoryIngest::new(directory, store.clone(), Clock::System, &config.limits, backups.job_taker());
    let egress = Egress::new(&config.egress, &[])?;
    let inventory = Inventory::new(directory, store.clone(), Clock::System, &config.limits);
    // Nothing is written there: an index is opened by its task only.
    let search = Search::new(store.clone(), Clock::System, path);
    let tenants = platform.tenants.clone();
    let clouds = Clouds::new(store.clone(), Clock::System, &config.cloud, sealer.clone(), egress.clone(), tenants);
    let catalogue = step_catalogue(&tickets, &inventory, &search, &clouds, &backups, &egress, &platform)?;
    let workflows = Workflows::new(store.clone(), Clock::System, config.workflows, catalogue, event_kinds());
    let analytics = Analytics::new(store.clone(), Clock::System, Arc::default(), &config.limits);
    let audit = Audit::new(store.clone(), Clock::System, &config.audit, &config.limits, &key).map_err(|error| error.to_string())?;
    let tenants = platform.tenants.clone();
    let (sso_store, sso_egress) = (store.clone(), egress.clone());
    let sso = SingleSignOn::new(sso_store, Clock::System, sealer.clone(), sso_egress, tenants, auth.clone(), directory);
    let (tenants, kinds) = (platform.tenants.clone(), event_kinds());
    let around = Surroundings { sealer, egress, tenants, kinds, usage: Arc::default() };
    let webhooks = Webhooks::new(store, Clock::System, config, around);
    Ok(with(&Slices {
        platform: &platform,
        ingest: &ingest,
        auth: &auth,
        sso: &sso,
        keys: &keys,
        tickets: &tickets,
        inventory: &inventory,
        search: &search,
        webhooks: &webhooks,
        workflows: &workflows,
        clouds: &clouds,
        analytics: &analytics,
        backups: &backups,
        audit: &audit,
    }))
}

/// The published document.
pub fn public_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| document_with_events(public_api(slices), PUBLIC))?
}

/// The document of what only the admin socket serves.
pub fn internal_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| document(admin_api(slices), INTERNAL))?
}

/// The document of the way in for agents and imports.
pub fn ingest_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| document(slices.ingest.api(), INGEST))?
}
