//! Identity providers as they are stored, found by id and by domain; and the states that sign-ons have come back with, until they would have
//! ended anyway.

pub(super) mod portable;

use serde::{Deserialize, Serialize};

use super::model::{Domain, IdentityProvider, secret_target};
use crate::kernel::{
    access::Role,
    clock::Timestamp,
    id::{IdentityProviderId, TenantId},
    secrets::{SealError, Sealed, SealedPlace},
    store::{
        Direction, Flow, Index, Key, KeyRange, Read, SealedRecord, SealedVisitor, StoreError, Table, WriteTx, catalog,
        codec::Record,
    },
};

/// Names a provider over all tenants.
pub(super) type ProviderKey = (TenantId, IdentityProviderId);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProviderRecord {
    name: String,
    issuer: String,
    client_id: String,
    client_secret: Sealed,
    domains: Vec<Domain>,
    enabled: bool,
    default_role: Role,
    auto_provision: bool,
    scopes: Vec<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
}

impl Record for ProviderRecord {
    const VERSION: u8 = 1;
}

static BY_DOMAIN: Index<ProviderKey, ProviderRecord> = Index {
    table: catalog::IDENTITY_PROVIDERS_BY_DOMAIN,
    unique: true,
    keys: |_, provider| provider.domains.iter().map(|domain| domain.as_str().to_owned().to_bytes()).collect(),
};
pub(super) static PROVIDERS: Table<ProviderKey, ProviderRecord> = Table::new(catalog::IDENTITY_PROVIDERS, &[&BY_DOMAIN]);

fn to_model((tenant_id, id): ProviderKey, record: ProviderRecord) -> IdentityProvider {
    let ProviderRecord {
        name,
        issuer,
        client_id,
        client_secret,
        domains,
        enabled,
        default_role,
        auto_provision,
        scopes,
        created_at,
        updated_at,
        version,
    } = record;
    IdentityProvider {
        id,
        tenant_id,
        name,
        issuer,
        client_id,
        client_secret,
        domains,
        enabled,
        default_role,
        auto_provision,
        scopes,
        created_at,
        updated_at,
        version,
    }
}

fn to_record(provider: &IdentityProvider) -> ProviderRecord {
    ProviderRecord {
        name: provider.name.clone(),
        issuer: provider.issuer.clone(),
        client_id: provider.client_id.clone(),
        client_secret: provider.client_secret.clone(),
        domains: provider.domains.clone(),
        enabled: provider.enabled,
        default_role: provider.default_role,
        auto_provision: provider.auto_provision,
        scopes: provider.scopes.clone(),
        created_at: provider.created_at,
        updated_at: provider.updated_at,
        version: provider.version,
    }
}

/// Where the client secret of a provider is sealed, and the issuer that it may be used with.
pub(super) fn sealed_place<'a>((tenant, id): &'a ProviderKey, issuer: &str) -> SealedPlace<'a> {
    let target = Some(secret_target(issuer).digest());
    SealedPlace { tenant: tenant.as_bytes(), table: catalog::IDENTITY_PROVIDERS.name(), key: id.as_bytes(), target }
}

impl SealedRecord<ProviderKey> for ProviderRecord {
    fn each_sealed(&mut self, key: &ProviderKey, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        visit(sealed_place(key, &self.issuer), &mut self.client_secret)
    }
}

pub(super) fn get(tx: &impl Read, key: ProviderKey) -> Result<Option<IdentityProvider>, StoreError> {
    Ok(PROVIDERS.get(tx, &key)?.map(|record| to_model(key, record)))
}

/// The provider that a domain belongs to. A domain of nobody costs the same look-ups.
pub(super) fn by_domain(tx: &impl Read, domain: &Domain) -> Result<Option<IdentityProvider>, StoreError> {
    const NOBODY: ProviderKey = (TenantId::from_bytes([0; 16]), IdentityProviderId::from_bytes([0; 16]));
    let found = owner(tx, domain)?;
    get(tx, found.unwrap_or(NOBODY))
}

pub(super) fn owner(tx: &impl Read, domain: &Domain) -> Result<Option<ProviderKey>, StoreError> {
    BY_DOMAIN.find(tx, &domain.as_str().to_owned().to_bytes())
}

/// The tenant's providers, the oldest first. They are few.
pub(super) fn list(tx: &impl Read, tenant: TenantId) -> Result<Vec<IdentityProvider>, StoreError> {
    let mut found = Vec::new();
    PROVIDERS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |key, record| {
        found.push(to_model(key, record));
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

pub(super) fn put(tx: &mut WriteTx, provider: &IdentityProvider) -> Result<(), StoreError> {
    PROVIDERS.put(tx, &(provider.tenant_id, provider.id), &to_record(provider))
}

pub(super) fn remove(tx: &mut WriteTx, key: ProviderKey) -> Result<(), StoreError> {
    PROVIDERS.remove(tx, &key).map(drop)
}

/// The digest of a state.
pub(super) type StateDigest = [u8; 32];

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpentRecord {
    expires_at: Timestamp,
}

impl Record for SpentRecord {
    const VERSION: u8 = 1;
}

static SPENT_BY_EXPIRY: Index<StateDigest, SpentRecord> =
    Index { table: catalog::SPENT_SIGN_ONS_BY_EXPIRY, unique: false, keys: |_, spent| vec![spent.expires_at.to_bytes()] };
pub(super) static SPENT: Table<StateDigest, SpentRecord> = Table::new(catalog::SPENT_SIGN_ONS, &[&SPENT_BY_EXPIRY]);

/// Takes a state out of circulation until its sign-on has ended. Whether it was in circulation.
pub(super) fn spend(tx: &mut WriteTx, state: &StateDigest, expires_at: Timestamp) -> Result<bool, StoreError> {
    if SPENT.get(tx, state)?.is_some() {
        return Ok(false);
    }
    SPENT.insert(tx, state, &SpentRecord { expires_at })?;
    Ok(true)
}

/// Forgets states whose sign-ons have ended. How many.
pub(super) fn forget_ended(tx: &mut WriteTx, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let ended = SPENT_BY_EXPIRY.list(tx, &KeyRange::before(now.to_bytes()), limit)?;
    for state in &ended {
        SPENT.remove(tx, state)?;
    }
    Ok(ended.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{
        entropy::Entropy,
        secrets::{InstallationKey, Sealer, Secret},
        store::codec::assert_golden,
    };

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let (tenant_id, id) = (TenantId::from_bytes([2; 16]), IdentityProviderId::from_bytes([1; 16]));
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        // As version 1 was first written: secrets were not bound to their issuers yet.
        let key = (tenant_id, id);
        let place = SealedPlace { target: None, ..sealed_place(&key, "") };
        let provider = IdentityProvider {
            id,
            tenant_id,
            name: "Acme".to_owned(),
            issuer: "https://id.acme.example".to_owned(),
            client_id: "tenantd".to_owned(),
            client_secret: sealer.seal(place, &Secret::new("s3cret"), &mut entropy).unwrap(),
            domains: vec![Domain::parse("acme.example").unwrap()],
            enabled: true,
            default_role: Role::Viewer,
            auto_provision: true,
            scopes: vec!["openid".to_owned(), "email".to_owned()],
            created_at: at,
            updated_at: at,
            version: 3,
        };
        let record = to_record(&provider);
        assert_golden("identity_provider", &record);
        assert_eq!(to_model((tenant_id, id), record), provider);
        assert_golden("spent_sign_on", &SpentRecord { expires_at: at });
    }
}
