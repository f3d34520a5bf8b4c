//! Builds the two edges: the public edge and the edge of the admin socket.

use std::sync::Arc;

use tenantd_analytics::HealthMonitor;
use tenantd_auth::AuthError;
use tenantd_base::{
    access::Principal,
    clocks::Clocks,
    config::Config,
    secrets::Secret,
    telemetry::{self, Usage},
};
use tenantd_console::{Account, AnalyticsPage, Assets, Desk, Documentation, Metric, PasswordLinks, Sources, Status, problem_page};
use tenantd_http::{
    edge::{Edge, EdgeParts, EdgeSettings},
    idempotency::Idempotency,
    operations::Operations,
    pages::{Page, PageSources, Pages},
    protocol::Protocols,
    rate::RateLimits,
};
use tenantd_store::Store;

use super::{Slices, documents, event_kinds};

/// The parts that both edges share.
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
        // The admin socket is for the operator of the host, who provisions nobody.
        let provisioning = self.slices.provisioning.protocol()?;
        let protocols = Protocols::new(if local_operator.is_none() { vec![provisioning] } else { Vec::new() });
        let described = [&documents.api, &documents.ingest].into_iter().chain(protocols.documents());
        let operations = Operations::compile(&described.collect::<Vec<_>>())?;
        let Slices { platform, auth, backups, audit, transfer, upkeep, .. } = self.slices;
        platform.set_document(documents.api.published.clone());
        let metrics_token = match &self.config.telemetry.metrics_token_file {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                Some(Secret::new(text.trim()))
            }
            None => None,
        };
        // Installs the recorder before the first request.
        telemetry::metrics();
        let health = self.health.clone();
        let documentation = Documentation::new(Sources {
            document: documents.api.published.clone(),
            kinds: event_kinds(),
            rates: self.rates.clone(),
            signing_keys: vec![backups.public_key().map_err(|error| error.to_string())?, audit.public_key(), transfer.public_key()],
        });
        let (desk, portal) = (Desk::new(&documents.api.published)?, Desk::portal(&documents.api.published)?);
        let status = upkeep.status(&health);
        let status = Status::new(Box::new(move |for_operator| status.report(for_operator)));
        let pages: Vec<Box<dyn Page>> = vec![
            upkeep.readiness(&health),
            Box::new(Assets),
            Box::new(Account::new(self.password_links())),
            Box::new(desk),
            Box::new(portal),
            Box::new(status),
            Box::new(AnalyticsPage::new(metrics())),
            Box::new(documentation),
        ];
        let pages = Pages::new(PageSources {
            document: documents.api.published.clone(),
            internal_document: documents.ingest.published.clone(),
            store: self.store.clone(),
            pages,
            problem: problem_page,
            is_safe_mode: Box::new(move || health.is_safe_mode()),
            metrics_token,
        });
        Ok(Arc::new(Edge::new(EdgeParts {
            api,
            protocols,
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

    /// Says whether a link sets a password. The operation of the API would use up its token.
    fn password_links(&self) -> PasswordLinks {
        let (users, clock) = (self.slices.auth.users.clone(), self.clocks.installation().clone());
        Box::new(move |token: &str| match users.check_password_token(&Secret::new(token), clock.now()) {
            Ok(()) => Ok(true),
            Err(AuthError::BadToken) => Ok(false),
            Err(error) => Err(error.into()),
        })
    }
}

fn metrics() -> Vec<Metric> {
    let metric = |known: tenantd_analytics::MetricDescription| {
        let tenantd_analytics::MetricDescription { name, summary, unit, reads } = known;
        Metric { name, summary, unit, reads }
    };
    tenantd_analytics::metrics().map(metric).collect()
}
