//! Webhooks: endpoints that receive the tenant's events as they happen. Deliveries are signed by Standard Webhooks and retried on a
//! schedule.
//!
//! **Boundary:** every request goes through the kernel's egress, which checks every address. **Invariant:** an event that an
//! endpoint subscribes to is delivered at least once, or its delivery records why not. Secrets and the values of custom headers
//! leave the store only inside deliveries.

mod api;
mod body;
mod delivery;
mod dispatch;
mod error;
mod filter;
mod health;
mod interrupted;
mod ledger;
mod listing;
mod model;
mod replay;
mod repo;
mod schedule;
mod sender;
mod service;
mod signature;
mod stats;
mod subscriptions;

use std::{sync::Arc, time::Duration};

use poem_openapi::OpenApi;
use serde_json::{Map, Value};

use tenantd_base::{
    access::TenantKind,
    clocks::Clocks,
    config::Config,
    fault::{Fault, listed},
    secrets::Sealer,
    telemetry::Usage,
};
use tenantd_egress::{Egress, TargetUrl};
use tenantd_platform::Tenants;
use tenantd_store::{
    Checked, SealedTable, Store, TenantRows,
    events::{EventKind, EventPattern, Kinds},
    holders::Holders,
    is_rehearsal,
    portable::Portable,
    tasks::Tasks,
};

pub use error::WebhookError;
pub use filter::Lookups;
pub use signature::{SIGNATURE_HEADERS, is_signed};

use dispatch::{Dispatch, Parts};
use replay::Missed;
use repo::EndpointKey;
use sender::Sender;
use service::Service;
use subscriptions::{Subscriptions, audience_of};

pub const EVENTS: &[&EventKind] = &[&service::CREATED, &service::UPDATED, &service::DELETED, &service::DISABLED, &service::TEST];

/// The state that all handlers share.
#[derive(Debug)]
struct Core {
    store: Store,
    clocks: Clocks,
    service: Service,
    subscriptions: Subscriptions,
    sender: Sender,
    egress: Egress,
    dispatch: Dispatch,
}

impl Core {
    /// The fault of a URL whose address is not allowed. A rehearsal looks up no names. Every delivery checks the address again.
    async fn vet(&self, url: &str, tenant: TenantKind) -> Option<Fault> {
        let (url, audience) = (TargetUrl::parse(url).ok()?, audience_of(tenant));
        let vetted = if is_rehearsal() { self.egress.vet_address(&url, audience) } else { self.egress.vet(&url, audience).await };
        vetted.err().map(|_| error::refused_url())
    }

    /// The events that were skipped while the endpoint was disabled. Counting can be slow, so it runs outside the writer.
    async fn missed(&self, key: EndpointKey) -> Result<Option<Missed>, WebhookError> {
        Ok(self.store.scan_for(key.0, move |tx| replay::missed(tx, key)).await?)
    }

    fn patterns(&self, texts: &[String]) -> Result<Vec<EventPattern>, WebhookError> {
        let unknown = self.service.unknown_events(texts);
        if !unknown.is_empty() {
            return Err(WebhookError::Invalid(unknown));
        }
        Ok(texts.iter().filter_map(|text| self.service.kinds.parse(text).ok()).collect())
    }
}

/// What webhooks need from the rest of the server.
#[derive(Debug)]
pub struct Dependencies {
    pub sealer: Sealer,
    pub egress: Egress,
    pub tenants: Tenants,
    pub kinds: Kinds,
    /// Counts attempts.
    pub usage: Arc<Usage>,
    /// Looks up the rights of endpoint owners.
    pub holders: Holders,
    /// Looks up the records that filters name.
    pub lookups: Lookups,
}

#[derive(Clone, Debug)]
pub struct Webhooks {
    core: Arc<Core>,
}

impl Webhooks {
    /// The readers of the log. Retention keeps events until all of them have read them.
    pub const CONSUMERS: &'static [&'static str] = &[dispatch::CURSOR];

    pub fn new(store: Store, clocks: Clocks, config: &Config, around: Dependencies) -> Self {
        let Dependencies { sealer, egress, tenants, kinds, usage, holders, lookups } = around;
        let kinds = Arc::new(kinds);
        let max_endpoints = config.webhooks.max_endpoints;
        let service = Service { sealer: sealer.clone(), kinds: kinds.clone(), max_endpoints, lookups };
        let subscriptions = Subscriptions::new(store.clone(), sealer, kinds, tenants, holders, clocks.clone());
        let sender = Sender { egress: egress.clone(), clocks: clocks.clone() };
        let dispatch = Dispatch::new(Parts {
            store: store.clone(),
            clocks: clocks.clone(),
            subscriptions: subscriptions.clone(),
            sender: sender.clone(),
            settings: config.webhooks,
            keep: Duration::from_secs(u64::from(config.events.retention_days) * 86_400),
            usage,
        });
        Self { core: Arc::new(Core { store, clocks, service, subscriptions, sender, egress, dispatch }) }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let core = || self.core.clone();
        (
            api::WebhooksApi { core: core() },
            api::WebhookApi { core: core() },
            api::OperationsApi { core: core() },
            api::DeliveriesApi { core: core() },
        )
    }

    /// The `webhooks` section of the OpenAPI document: what receivers get for each kind of event.
    pub fn document(kinds: &Kinds) -> Map<String, Value> {
        api::webhooks(kinds)
    }

    /// The operations that only the admin socket serves.
    pub fn admin_api(&self, tenants: Tenants) -> impl OpenApi + use<> {
        api::AdminWebhooksApi { core: self.core.clone(), tenants }
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(self.core.dispatch.task());
    }

    /// Settles the endpoints of older releases before anything is sent to them: stores the scopes of their owners, and marks those
    /// without an owner. Returns how many have none.
    pub async fn adopt(&self) -> Result<u64, WebhookError> {
        const AT_ONCE: usize = 256;
        let Core { store, clocks, subscriptions, .. } = self.core.as_ref();
        for endpoint in store.read(repo::unbounded)? {
            let Some(owner) = &endpoint.owner else { continue };
            let (key, held) = ((endpoint.tenant_id, endpoint.id), subscriptions.holder_rights(endpoint.tenant_id, owner)?.scopes());
            store.write(move |tx| repo::bound(tx, key, held)).await?;
        }
        let unowned = store.read(repo::unowned)?;
        for keys in unowned.chunks(AT_ONCE) {
            let noted: Vec<_> = keys.iter().map(|key| (*key, clocks.now(key.0))).collect();
            store.write(move |tx| noted.iter().try_for_each(|(key, since)| repo::note_legacy(tx, *key, *since))).await?;
        }
        Ok(unowned.len() as u64)
    }

    /// The number of waiting deliveries, and how long the oldest due one has been waiting.
    pub fn queue(&self) -> (u64, Option<Duration>) {
        self.core.dispatch.queue()
    }

    /// The parts of a tenant's endpoints that move to another installation. Waiting deliveries stay: the installation where the
    /// event happened sends them.
    pub fn portable(&self) -> Result<Vec<Box<dyn Portable>>, String> {
        let (fields, service) = (api::endpoint_fields()?, self.core.service.clone());
        let endpoints = repo::portable::endpoints(repo::portable::Rules {
            most: service.max_endpoints as u64,
            egress: self.core.egress.clone(),
            fields: Box::new(move |record| fields.check(record)),
            events: Box::new(move |given| match service.unknown_events(given).as_slice() {
                [] => Ok(()),
                unknown => Err(listed(unknown)),
            }),
        });
        Ok(vec![stats::portable(), endpoints])
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![
            &repo::ENDPOINTS,
            &repo::STATES,
            &ledger::COUNTED_DELIVERIES,
            &ledger::DUE,
            &ledger::HELD,
            &stats::FIGURES,
            &replay::REPLAYS,
            &interrupted::UNDER_WAY,
        ]
    }

    /// Tenant data that is stored in segments.
    pub fn tenant_rows() -> Vec<&'static dyn TenantRows> {
        vec![&ledger::DELIVERIES_OF_TENANTS]
    }

    /// Tables with secrets that are sealed under the installation key.
    pub fn sealed_tables() -> Vec<&'static dyn SealedTable> {
        vec![&repo::ENDPOINTS]
    }
}
