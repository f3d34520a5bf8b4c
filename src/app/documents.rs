//! Assembles the APIs of the two edges and their OpenAPI documents.

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
    openapi::{self, About, Additions, Document},
};
use tenantd_platform::{Platform, Reload};
use tenantd_scim::Provisioning;
use tenantd_store::{KeyFiles, RedbEngine, Rotation, Store, WriterSettings};
use tenantd_upkeep::{Places, Upkeep};
use tenantd_webhooks::Webhooks;

use super::{SliceParts, Slices, checked_tables, event_kinds};

const PUBLIC: About = About {
    title: "tenantd",
    version: env!("CARGO_PKG_VERSION"),
    description: "The control plane of a multi-tenant IT operations platform: tickets, search, asset inventory, workflows, clouds, backups, analytics, API keys, webhooks, events and tenants. \
        Authenticate with an API key (`Authorization: Bearer …` or `X-API-Key: …`) or a session cookie. \
        Errors are application/problem+json with a stable `code`. Lists are paginated with a cursor. \
        The ETag of a record is its version. Every POST that changes a record accepts an Idempotency-Key. \
        The documentation is at /documentation/.",
};
const INGEST: About = About {
    title: "tenantd ingest",
    description: "The API that agents and imports use to send organizations, users, devices and backup jobs to a tenant. Authenticate with an API \
        key that has the scope `ingest:write`. The public API is described at /api/openapi.json.",
    ..PUBLIC
};
const INTERNAL: About = About {
    title: "tenantd administration",
    description: "The operations that the admin socket serves in addition to the public API. The local operator and the tenantd command use them.",
    ..PUBLIC
};

/// The API of an edge, and the documents of its operations.
pub(super) struct Service {
    pub(super) api: BoxEndpoint<'static, Response>,
    pub(super) documents: &'static Documents,
}

/// OpenAPI documents. They depend only on the code, so all servers of a process share them.
pub(super) struct Documents {
    /// The document of the API, which the documentation pages describe.
    pub(super) api: Document,
    /// The document of the ingest API for agents and imports.
    pub(super) ingest: Document,
}

impl Documents {
    fn new(slices: &Slices, api: Result<Document, String>) -> Result<Self, String> {
        Ok(Self { api: api?, ingest: document(slices.ingest.api(), INGEST)? })
    }
}

static PUBLIC_DOCUMENTS: OnceLock<Result<Documents, String>> = OnceLock::new();
static ADMIN_DOCUMENTS: OnceLock<Result<Documents, String>> = OnceLock::new();

fn endpoint(api: impl OpenApi + 'static) -> BoxEndpoint<'static, Response> {
    OpenApiService::new(api, "", "").into_endpoint().map_to_response().boxed()
}

fn document(api: impl OpenApi + 'static, about: About) -> Result<Document, String> {
    let draft = OpenApiService::new(api, about.title, about.version).spec();
    openapi::publish(&draft, about, Additions::default())
}

/// The document of an API with the event feed. Events contain records of all slices, including records that no operation returns.
fn document_with_events(api: impl OpenApi + 'static, about: About) -> Result<Document, String> {
    let draft = OpenApiService::new(api, about.title, about.version).spec();
    let mut schemas = Directory::record_schemas();
    schemas.extend(Auth::record_schemas());
    schemas.extend(Backups::record_schemas());
    schemas.extend(Upkeep::record_schemas());
    schemas.extend(Provisioning::record_schemas());
    schemas.extend(acts::schemas());
    let kinds = event_kinds();
    schemas.extend(Platform::event_schemas(&kinds));
    openapi::publish(&draft, about, Additions { schemas, webhooks: Webhooks::document(&kinds) })
}

pub(super) fn public_service(slices: &Slices) -> Result<Service, String> {
    let api = endpoint((public_api(slices), slices.ingest.api()));
    let documents = PUBLIC_DOCUMENTS.get_or_init(|| Documents::new(slices, document_with_events(public_api(slices), PUBLIC)));
    Ok(Service { api, documents: documents.as_ref()? })
}

/// The admin socket also serves the public API, so that one client can call every operation.
pub(super) fn admin_service(slices: &Slices) -> Result<Service, String> {
    let api = endpoint((public_api(slices), admin_api(slices), slices.ingest.api()));
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
        provisioning,
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
    let control =
        (auth.api(), sso.api(tenantd_console::notice), provisioning.api(), keys.api(), secrets.api(), audit.api(&event_kinds()));
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

/// Builds the slices over an empty store in a removed file. This is enough to describe their API.
fn describe<T>(config: &Config, with: impl FnOnce(&Slices) -> T) -> Result<T, String> {
    let path = std::env::temp_dir().join(format!("tenantd-openapi-{}-{}", std::process::id(), Entropy::from_os().next_u64()));
    let engine = RedbEngine::create(&path, 1 << 20).map_err(|error| error.to_string())?;
    drop(std::fs::remove_file(&path));
    let store = Store::new(engine, WriterSettings { batch_size: 1, queue_length: 1 }).map_err(|error| error.to_string())?;
    let mut entropy = Entropy::from_os();
    let key = InstallationKey::generate(&mut entropy);
    let slices = Slices::new(SliceParts {
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
        // Nothing is written here, because only the task of the index opens it.
        search_directory: path.clone(),
        places: Places { data: path.clone(), store_file: path },
    })?;
    Ok(with(&slices))
}

/// The published OpenAPI document.
pub fn public_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| document_with_events(public_api(slices), PUBLIC))?
        .map(|document| Arc::unwrap_or_clone(document.published))
}

/// The document of the operations that only the admin socket serves.
pub fn internal_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| document(admin_api(slices), INTERNAL))?.map(|document| Arc::unwrap_or_clone(document.published))
}

/// The document of the ingest API for agents and imports.
pub fn ingest_document(config: &Config) -> Result<Value, String> {
    describe(config, |slices| document(slices.ingest.api(), INGEST))?.map(|document| Arc::unwrap_or_clone(document.published))
}
