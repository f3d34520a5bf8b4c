//! Simulated clouds for evaluation tenants.

use std::time::Duration;

use tenantd_base::{access::Reach, id::OrganizationId};
use tenantd_store::{WriteTx, events::Intent};

use super::{
    Clouds, adapters,
    error::CloudError,
    model::{Credential, ProviderConfig, ProviderKind, SyncError},
    service::{NewProvider, Service, SyncEnd},
    sync::{differences, whole_fleet},
};

const VERIFY_LIMIT: Duration = Duration::from_secs(20);

impl Clouds {
    /// Creates a provider with a simulated cloud and all of its VMs.
    pub async fn connect_simulated(
        &self,
        intent: Intent,
        name: &str,
        organization_id: Option<OrganizationId>,
        seed: u64,
        vm_count: u32,
    ) -> Result<(), CloudError> {
        let config = ProviderConfig { seed: Some(seed), vm_count: Some(vm_count), ..ProviderConfig::default() };
        let connection = (ProviderKind::Simulated, config.clone(), Credential::None {});
        let (adapter, access) = self.core.access(intent.tenant_id, None, connection, VERIFY_LIMIT);
        let verification = adapters::verify(adapter, &access, VERIFY_LIMIT).await;
        let new = NewProvider {
            name: name.to_owned(),
            kind: ProviderKind::Simulated,
            organization_id,
            enabled: true,
            config,
            credential: Credential::None {},
            interval_seconds: self.core.default_interval_seconds,
            faults: Vec::new(),
        };
        // One transaction for the provider and its VMs, so that all ids derive from the same intent.
        let fleet = whole_fleet(adapter, &access).await;
        let seen = fleet.as_ref().map_or_else(|_| Vec::new(), |fleet| differences(&[], fleet, intent.now));
        let result = fleet.map(|fleet| fleet.counts()).map_err(|failure| SyncError::new(&failure, intent.now));
        let (core, end) = (self.core.clone(), SyncEnd { started_at: intent.now, result });
        let create = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            let provider = core.service.create_provider(tx, &mut act, &Reach::Everything, &new, Some(&verification))?;
            Service::apply_sync(tx, &mut act, &provider, &seen)?;
            Service::end_sync(tx, &mut act, &provider, &end)
        };
        self.core.store.write(create).await
    }
}
