//! The two edges: the public one and that of the admin socket, each over its documents, with what both share.

use std::sync::Arc;

use tenantd_analytics::HealthMonitor;
use tenantd_base::{
    access::Principal,
    clocks::Clocks,
    config::Config,
    secrets::Secret,
    telemetry::{self, Usage},
};
use tenantd_http::{
    edge::{Edge, EdgeParts, EdgeSettings},
    idempotency::Idempotency,
    operations::Operations,
    pages::{PageSources, Pages},
    rate::RateLimits,
};
use tenantd_store::Store;

use super::{Slices, documents, event_kinds};

/// What both edges share.
pub(super) struct Parts<'a> {
    pub(super) config: &'a Config,
    pub(super) store: &'a Store,
    pub(super) clocks: &'a Clocks,
    pub(super) rates: &'a Arc<RateLimits>,
    pub(super) idempotency: Arc<Idempotency>,
    pub(super) usage: &'a Arc<Usage>,
    pub(super) slices: &'a Slices,
    pub(super) health: &'a Arc<HealthMonitor>,
}

impl Parts<'_> {
    pub(super) fn edge(&self, service: documents::Service, local_operator: Option<Arc<Principal>>) -> Result<Arc<Edge>, String> {
        let documents::Service { api, documents } = service;
        let operations = Operations::compile(&[&documents.api, &documents.ingest, &documents.pages])?;
        let Slices { platform, auth, analytics, backups, audit, transfer, upkeep, .. } = self.slices;
        platform.set_document(documents.api.published.clone());
        let metrics_token = match &self.config.telemetry.metrics_token_file {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                Some(Secret::new(text.trim()))
            }
            None => None,
        };
        // Metrics are recorded from the first request on.
        telemetry::metrics();
        let health = self.health.clone();
        let pages = upkeep.pages(&health).into_iter().chain([analytics.page()]).collect();
        let pages = Pages::new(PageSources {
            document: documents.api.published.clone(),
            internal_document: documents.ingest.published.clone(),
            kinds: event_kinds(),
            rates: self.rates.clone(),
            store: self.store.clone(),
            pages,
            is_safe_mode: Box::new(move || health.is_safe_mode()),
            signing_keys: vec![backups.public_key().map_err(|error| error.to_string())?, audit.public_key(), transfer.public_key()],
            metrics_token,
        });
        Ok(Arc::new(Edge::new(EdgeParts {
            api,
            operations,
            pages,
            authenticator: auth.authenticator.clone(),
            local_operator,
            rates: self.rates.clone(),
            usage: self.usage.clone(),
            idempotency: self.idempotency.clone(),
            store: self.store.clone(),
            clocks: self.clocks.clone(),
            settings: EdgeSettings::new(self.config),
        })))
    }
}
