//! The APIs that the two edges serve, and their published documents.

use std::sync::{Arc, OnceLock};

use poem::{EndpointExt, IntoEndpoint, Response, endpoint::BoxEndpoint};
use poem_openapi::{OpenApi, OpenApiService};
use serde_json::Value;

use tenantd_auth::Auth;
use tenantd_backup::Backups;
use tenantd_base::{
    clock::Clock,
    clocks::Clocks,
    config::Config,
    entropy::Entropy,
    secrets::{InstallationKey, KeySource, Passwords, Sealer},
};
use tenantd_directory::Directory;
use tenantd_egress::Egress;
use tenantd_http::{
    acts,
    openapi::{self, About, Document, More},
};
use tenantd_platform::{Platform, Reload};
use tenantd_store::{KeyFiles, RedbEngine, Rotation, Store, WriterSettings};
use tenantd_upkeep::{Places, Upkeep};
use tenantd_webhooks::Webhooks;

use super::{Ground, Slices, checked_tables, event_kinds};

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
    pub(super) documents: &'static Documents,
}

/// Follow from the code alone, so that all servers of a process share them.
pub(super) struct Documents {
    /// Of the API that the pages are about.
    pub(super) api: Document,
    /// Of the way in for agents and imports.
    pub(super) ingest: Document,
    /// Of the pages for people who sign in.
    pub(super) pages: Document,
}

impl Documents {
    fn new(slices: &Slices, api: Result<Document, String>) -> Result<Self, String> {
        Ok(Self { api: api?, ingest: document(slices.ingest.api(), INGEST)?, pages: document(slices.sso.pages(), PAGES)? })
    }
}

static PUBLIC_DOCUMENTS: OnceLock<Result<Documents, String>> = OnceLock::new();
static ADMIN_DOCUMENTS: OnceLock<Result<Documents, String>> = OnceLock::new();

fn endpoint(api: impl OpenApi + 'static) -> BoxEndpoint<'static, Response> {
    OpenApiService::new(api, "", "").into_endpoint().map_to_response().boxed()
}

fn document(api: impl OpenApi + 'static, about: About) -> Result<Document, String> {
    let draft = OpenApiService::new(api, about.title, about.version).spec();
    openapi::publish(&draft, about, More::default())
}

/// The document of an API with the event feed, which carries records of all slices, also such that no operation has.
fn document_with_events(api: impl OpenApi + 'static, about: About) -> Result<Document, String> {
    let draft = OpenApiService::new(api, about.title, about.version).spec();
    let mut schemas = Directory::record_schemas();
    schemas.extend(Auth::record_schemas());
    schemas.extend(Backups::record_schemas());
    schemas.extend(Upkeep::record_schemas());
    schemas.extend(acts::schemas());
    let kinds = event_kinds();
    schemas.extend(Platform::event_schemas(&kinds));
    openapi::publish(&draft, about, More { schemas, webhooks: Webhooks::document(&kinds) })
}

pub(super) fn public_service(slices: &Slices) -> Result<Service, String> {
    let api = endpoint((public_api(slices), slices.ingest.api(), slices.sso.pages()));
    let documents = PUBLIC_DOCUMENTS.get_or_init(|| Documents::new(slices, document_with_events(public_api(slices), PUBLIC)));
    Ok(Service { api, documents: documents.as_ref()? })
}

/// The admin socket serves the public API too, so that one client can do everything.
pub(super) fn admin_service(slices: &Slices) -> Result<Service, String> {
    let api = endpoint((public_api(slices), admin_api(slices), slices.ingest.api(), slices.sso.pages()));
    let document = || document_with_events((public_api(slices), admin_api(slices)), INTERNAL);
    let documents = ADMIN_DOCUMENTS.get_or_init(|| Documents::new(slices, document()));
    Ok(Service { api, documents: documents.as_ref()? })
}

fn public_api(slices: &Slices) -> impl OpenApi + use<> {
    let Slices {
        platform,
        records,
        auth,
        sso,
        keys,
        tickets,
        inventory,
        search,
        webhooks,
        quotas,
        secrets,
        workflows,
        clouds,
        backups,
        analytics,
        audit,
        ..
    } = slices;
    let control = (auth.api(), sso.api(), keys.api(), secrets.api(), audit.api(&event_kinds()));
    let found = (records.api(), inventory.api(), search.api(), backups.api(), analytics.api());
    (control, (platform.api(&event_kinds()), quotas.api()), tickets.api(), found, webhooks.api(), workflows.api(), clouds.api())
}

fn admin_api(slices: &Slices) -> impl OpenApi + use<> {
    let Slices { platform, ingest, auth, sso, keys, search, webhooks, workflows, audit, transfer, upkeep, .. } = slices;
    let tenants = || platform.tenants.clone();
    (
        (auth.admin_api(tenants()), sso.admin_api(tenants())),
        keys.admin_api(tenants()),
        ingest.admin_api(tenants()),
        (webhooks.admin_api(tenants()), workflows.admin_api()),
        search.admin_api(),
        (audit.admin_api(), transfer.admin_api(), upkeep.admin_api()),
        platform.admin_api(checked_tables()),
    )
}

/// The slices over an empty store in a file that is removed: enough to say what their API looks like.
fn describe<T>(config: &Config, with: impl FnOnce(&Slices) -> T) -> Result<T, String> {
    let path = std::env::temp_dir().join(format!("tenantd-openapi-{}-{}", std::process::id(), Entropy::from_os().next_u64()));
    let engine = RedbEngine::create(&path, 1 << 20).map_err(|error| error.to_string())?;
    drop(std::fs::remove_file(&path));
    let store = Store::new(engine, WriterSettings { batch_size: 1, queue_length: 1 }).map_err(|error| error.to_string())?;
    let mut entropy = Entropy::from_os();
    let key = InstallationKey::generate(&mut entropy);
    let slices = Slices::new(Ground {
        store: &store,
        clocks: &Clocks::new(Clock::System),
        config,
        key: &key,
        rotation: &Rotation {
            store: store.clone(),
            clock: Clock::System,
            sealer: Sealer::new(&key),
            files: KeyFiles::new(KeySource { path: path.clone(), may_create: false }, &path),
            tables: Vec::new(),
        },
        passwords: Passwords::new(1, 1, &mut entropy),
        reload: Reload::channel().0,
        egress: &Egress::new(&config.egress, &[])?,
        usage: &Arc::default(),
        // Nothing is written there: an index is opened by its task only.
        search_directory: path.clone(),
        places: Places { data: path.clone(), store_file: path },
    })?;
    Ok(with(&slices))
}

/// The published document.
pub fn public_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| document_with_events(public_api(slices), PUBLIC))?
        .map(|document| Arc::unwrap_or_clone(document.published))
}

/// The document of what only the admin socket serves.
pub fn internal_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| document(admin_api(slices), INTERNAL))?.map(|document| Arc::unwrap_or_clone(document.published))
}

/// The document of the way in for agents and imports.
pub fn ingest_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| document(slices.ingest.api(), INGEST))?.map(|document| Arc::unwrap_or_clone(document.published))
}
