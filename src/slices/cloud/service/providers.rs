//! The use cases of providers: create, update, delete, verify.

use serde_json::json;

use tenantd_base::{
    access::Reach,
    change::Change,
    fault::Fault,
    id::{CloudProviderId, OrganizationId},
    versions::ExpectedVersion,
};
use tenantd_directory as directory;
use tenantd_egress::without_query;
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{Act, Changes},
};

use super::{
    super::{
        error::CloudError,
        model::{Credential, OperationWork, Provider, ProviderConfig, ProviderKind, StoredCredential, SyncState, Verification},
        repo::{
            operations,
            providers::{self, ProviderKey},
        },
    },
    PROVIDER_CREATED, PROVIDER_DELETED, PROVIDER_NOT_VERIFIED, PROVIDER_UPDATED, PROVIDER_VERIFIED, Service, announce_provider,
};

/// The provider to create.
#[derive(Clone, Debug)]
pub(crate) struct NewProvider {
    pub(crate) name: String,
    pub(crate) kind: ProviderKind,
    pub(crate) organization_id: Option<OrganizationId>,
    pub(crate) enabled: bool,
    pub(crate) config: ProviderConfig,
    pub(crate) credential: Credential,
    pub(crate) interval_seconds: u32,
    /// Fields with an invalid form or a refused target. The service reports them together with its own findings.
    pub(crate) faults: Vec<Fault>,
}

/// The changes to a provider. The kind cannot change.
#[derive(Clone, Debug)]
pub(crate) struct ProviderChange {
    pub(crate) name: Option<String>,
    pub(crate) organization_id: Change<OrganizationId>,
    pub(crate) enabled: Option<bool>,
    pub(crate) config: Option<ProviderConfig>,
    pub(crate) credential: Option<Credential>,
    pub(crate) interval_seconds: Option<u32>,
}

/// The fault of an organization that does not exist or that the caller cannot reach. The caller cannot tell the two apart.
pub(super) fn check_organization(
    tx: &impl Read,
    act: &Act,
    reach: &Reach,
    organization: Option<OrganizationId>,
) -> Result<Option<Fault>, StoreError> {
    let refuse = |message: &str| Ok(Some(Fault::new("/organization_id", "not_found", message)));
    match organization {
        None if reach.covers(None) => Ok(None),
        None => refuse("this credential is restricted to some organizations: name one of them"),
        Some(id) if reach.covers(Some(id)) && directory::organization(tx, act.tenant_id, id)?.is_some() => Ok(None),
        Some(id) => refuse(&format!("the organization {id} was not found")),
    }
}

impl Service {
    pub(crate) fn seal(
        &self,
        act: &mut Act,
        id: CloudProviderId,
        config: &ProviderConfig,
        credential: &Credential,
    ) -> Result<StoredCredential, CloudError> {
        let key = (act.tenant_id, id);
        let place = providers::credential_place(&key, config.target().digest());
        let sealed = self.sealer.seal(place, &credential.sealable()?, &mut act.entropy)?;
        let type_name = credential.type_name().to_owned();
        Ok(StoredCredential { type_name, hint: credential.hint(), set_at: act.now, sealed })
    }

    /// Unseals the credential of a provider, for a call to its cloud. It unseals only for the target that it was given for.
    pub(crate) fn unseal(&self, provider: &Provider) -> Result<Credential, CloudError> {
        let key = (provider.tenant_id, provider.id);
        let place = providers::credential_place(&key, provider.target().digest());
        Ok(Credential::from_sealed(&self.sealer.open(place, &provider.credential.sealed)?)?)
    }

    /// Reports all faults of a new provider at once: the given ones and those that only the store can find.
    pub(crate) fn check_provider(tx: &impl Read, act: &Act, reach: &Reach, new: &NewProvider) -> Result<(), CloudError> {
        let mut faults = new.faults.clone();
        faults.extend(check_organization(tx, act, reach, new.organization_id)?);
        CloudError::ensure_none(faults)
    }

    pub(crate) fn create_provider(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        reach: &Reach,
        new: &NewProvider,
        verification: Option<&Verification>,
    ) -> Result<Provider, CloudError> {
        Self::check_provider(tx, act, reach, new)?;
        if providers::list(tx, act.tenant_id)?.len() >= self.max_providers {
            return Err(CloudError::LimitReached { most: self.max_providers });
        }
        if providers::name_taken(tx, act.tenant_id, &new.name, None)? {
            return Err(CloudError::NameTaken);
        }
        let id = CloudProviderId::new(act.now, &mut act.entropy);
        let mut provider = Provider {
            id,
            tenant_id: act.tenant_id,
            name: new.name.clone(),
            kind: new.kind,
            organization_id: new.organization_id,
            enabled: new.enabled,
            config: new.config.clone(),
            credential: self.seal(act, id, &new.config, &new.credential)?,
            verification: None,
            interval_seconds: new.interval_seconds,
            created_at: act.now,
            updated_at: act.now,
            version: 1,
        };
        let due_at = new.enabled.then_some(act.now);
        providers::put_sync(tx, (act.tenant_id, id), &SyncState { due_at, ..SyncState::default() })?;
        providers::put(tx, &provider)?;
        announce_provider(tx, act, &PROVIDER_CREATED, &provider, None)?;
        if let Some(verification) = verification {
            Self::apply_verification(tx, act, &mut provider, verification)?;
        }
        Ok(provider)
    }

    pub(crate) fn update_provider(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        reach: &Reach,
        id: CloudProviderId,
        expected: &ExpectedVersion,
        change: &ProviderChange,
    ) -> Result<Provider, CloudError> {
        let before = find(tx, act, reach, id)?;
        expected.check(before.version)?;
        let mut after = before.clone();
        if let Some(name) = &change.name {
            after.name.clone_from(name);
        }
        after.organization_id = change.organization_id.clone().apply(after.organization_id);
        after.enabled = change.enabled.unwrap_or(after.enabled);
        after.interval_seconds = change.interval_seconds.unwrap_or(after.interval_seconds);
        if let Some(config) = &change.config {
            after.config.clone_from(config);
        }
        let moved = after.target().differences(&before.target());
        match &change.credential {
            Some(credential) => after.credential = self.seal(act, id, &after.config, credential)?,
            None if moved.is_empty() => {}
            None => return Err(CloudError::Invalid(vec![credential_needed(&moved)])),
        }
        if !moved.is_empty() && is_provisioning(tx, (act.tenant_id, id))? {
            // Running orders contain user data that was given for the current target.
            return Err(CloudError::InUse);
        }
        if after == before {
            return Ok(before);
        }
        if after.organization_id != before.organization_id
            && let Some(fault) = check_organization(tx, act, reach, after.organization_id)?
        {
            return Err(CloudError::Invalid(vec![fault]));
        }
        if providers::name_taken(tx, act.tenant_id, &after.name, Some(id))? {
            return Err(CloudError::NameTaken);
        }
        let access_changed = after.config != before.config || after.credential != before.credential;
        if access_changed {
            after.verification = None;
        }
        after.updated_at = act.now;
        after.version += 1;
        let mut sync = providers::sync(tx, (act.tenant_id, id))?;
        if access_changed {
            (sync.failures, sync.error) = (0, None);
        }
        if access_changed || after.enabled != before.enabled || after.interval_seconds != before.interval_seconds {
            sync.due_at = after.enabled.then_some(act.now);
            providers::put_sync(tx, (act.tenant_id, id), &sync)?;
        }
        providers::put(tx, &after)?;
        announce_provider(tx, act, &PROVIDER_UPDATED, &after, Some(changes(&before, &after)))?;
        Ok(after)
    }

    /// Deletes the provider and its VMs in tenantd, not in the cloud. A background task removes the rows of the VMs. The row of the
    /// sync drives this task, so it stays until the VMs are removed.
    pub(crate) fn delete_provider(
        tx: &mut WriteTx,
        act: &mut Act,
        reach: &Reach,
        id: CloudProviderId,
        expected: &ExpectedVersion,
    ) -> Result<(), CloudError> {
        let provider = find(tx, act, reach, id)?;
        expected.check(provider.version)?;
        let key = (act.tenant_id, id);
        if is_provisioning(tx, key)? {
            return Err(CloudError::InUse);
        }
        for mut operation in operations::open(tx, key)? {
            Self::end_refresh(tx, act, &mut operation, id, None)?;
        }
        announce_provider(tx, act, &PROVIDER_DELETED, &provider, None)?;
        providers::PROVIDERS.remove(tx, &key)?;
        providers::put_sync(tx, key, &SyncState { due_at: Some(act.now), ..SyncState::default() })?;
        Ok(())
    }

    /// Stores a verification, unless the configuration or the credential has changed since.
    pub(crate) fn store_verification(
        tx: &mut WriteTx,
        act: &mut Act,
        seen: &Provider,
        verification: &Verification,
    ) -> Result<(), CloudError> {
        let Some(mut provider) = providers::get(tx, (seen.tenant_id, seen.id))? else { return Ok(()) };
        if provider.config != seen.config || provider.credential != seen.credential {
            return Ok(());
        }
        Self::apply_verification(tx, act, &mut provider, verification)
    }

    fn apply_verification(
        tx: &mut WriteTx,
        act: &mut Act,
        provider: &mut Provider,
        verification: &Verification,
    ) -> Result<(), CloudError> {
        let valid = verification.outcome.is_valid();
        provider.verification = Some(verification.clone());
        providers::put(tx, provider)?;
        let key = (provider.tenant_id, provider.id);
        let mut sync = providers::sync(tx, key)?;
        if valid && sync.failures > 0 && provider.enabled {
            // Syncs failed before, so the next one starts now.
            sync.due_at = Some(act.now);
            providers::put_sync(tx, key, &sync)?;
        }
        let kind = if valid { &PROVIDER_VERIFIED } else { &PROVIDER_NOT_VERIFIED };
        announce_provider(tx, act, kind, provider, None)
    }
}

/// Whether VMs are being created at the provider.
fn is_provisioning(tx: &impl Read, key: ProviderKey) -> Result<bool, CloudError> {
    let open = operations::open(tx, key)?;
    Ok(open.iter().any(|operation| matches!(operation.work, OperationWork::Provision { .. })))
}

/// The fault for a change of these fields without the credential in the same request.
fn credential_needed(moved: &[&str]) -> Fault {
    let fields: Vec<String> = moved.iter().map(|field| format!("config.{field}")).collect();
    let message =
        format!("the stored credential is bound to its target: to change {}, send the credential again", fields.join(", "));
    Fault::new("/credential", "required", message)
}

/// A provider that the caller can reach.
pub(crate) fn find(tx: &impl Read, act: &Act, reach: &Reach, id: CloudProviderId) -> Result<Provider, CloudError> {
    let found = providers::get(tx, (act.tenant_id, id))?;
    found.filter(|provider| reach.covers(provider.organization_id)).ok_or(CloudError::NoProvider)
}

/// The differences, field by field. For credentials they contain only the time when the credential was set.
fn changes(before: &Provider, after: &Provider) -> Changes {
    let fields = |provider: &Provider| {
        json!({
            "name": provider.name,
            "organization_id": provider.organization_id,
            "enabled": provider.enabled,
            "endpoint": provider.config.endpoint.as_deref().map(without_query),
            "regions": provider.config.regions,
            "auth_url": provider.config.auth_url.as_deref().map(without_query),
            "credential_set_at": provider.credential.set_at,
            "sync_interval_seconds": provider.interval_seconds,
        })
    };
    Changes::between(&fields(before), &fields(after))
}
