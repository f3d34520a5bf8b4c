//! The providers that belong to an organization and keep it from being deleted.

use tenantd_base::{
    access::{Reach, Scope},
    change::Change,
    id::{CloudProviderId, TenantId},
    versions::ExpectedVersion,
};
use tenantd_directory::{Dependent, Dependents, DirectoryError, Subject};
use tenantd_store::{Read, ReadTx, StoreError, WriteTx, events::Act};

use super::{Clouds, error::CloudError, repo::providers, service::ProviderChange};

fn found(tx: &impl Read, tenant: TenantId, subject: Subject) -> Result<Vec<CloudProviderId>, StoreError> {
    let Subject::Organization(id) = subject else { return Ok(Vec::new()) };
    let belongs = |provider: &super::model::Provider| provider.organization_id == Some(id);
    Ok(providers::list(tx, tenant)?.into_iter().filter(belongs).map(|provider| provider.id).collect())
}

impl Dependents for Clouds {
    fn scopes(&self) -> (Scope, Scope) {
        (Scope::ProvidersRead, Scope::ProvidersWrite)
    }

    fn count(&self, tx: &ReadTx, tenant: TenantId, _reach: &Reach, subject: Subject) -> Result<Vec<Dependent>, StoreError> {
        let count = found(tx, tenant, subject)?.len() as u64;
        Ok((count > 0).then_some(Dependent { name: "cloud_providers", count }).into_iter().collect())
    }

    fn remains(&self, tx: &WriteTx, act: &Act, subject: Subject, _reassigned: bool) -> Result<bool, StoreError> {
        Ok(!found(tx, act.tenant_id, subject)?.is_empty())
    }

    fn reassign(&self, tx: &mut WriteTx, act: &mut Act, from: Subject, to: Subject) -> Result<u64, DirectoryError> {
        let Subject::Organization(to) = to else { return Ok(0) };
        let providers = found(tx, act.tenant_id, from)?;
        let change = ProviderChange {
            name: None,
            organization_id: Change::Set(to),
            enabled: None,
            config: None,
            credential: None,
            interval_seconds: None,
        };
        let reach = act.reach.clone();
        for id in &providers {
            let moved = self.core.service.update_provider(tx, act, &reach, *id, &ExpectedVersion::Unspecified, &change);
            moved.map_err(|error| match error {
                CloudError::Store(error) => DirectoryError::Store(error),
                CloudError::Event(error) => DirectoryError::Event(error),
                other => DirectoryError::CannotMove(format!("cloud provider {id}: {other}")),
            })?;
        }
        Ok(providers.len() as u64)
    }
}
