//! The tables of named secrets, indexed by ID and by name. The time of the last use has its own small row.

pub(super) mod portable;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{SecretId, TenantId},
    secrets::{SealError, SealedPlace},
};
use tenantd_store::{
    Counts, Direction, Flow, Index, Key, KeyRange, Read, SealedRecord, SealedVisitor, StoreError, Table, WriteTx, catalog,
    codec::Record,
};

use super::model::{Host, NamedSecret, target};

/// Identifies a secret across all tenants.
pub(super) type SecretKey = (TenantId, SecretId);

impl Record for NamedSecret {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.id) = Key::from_bytes(key)?;
        Some(())
    }
}

/// Names are not case-sensitive, so two secrets cannot differ in case only.
static BY_NAME: Index<SecretKey, NamedSecret> = Index {
    table: catalog::SECRETS_BY_NAME,
    unique: true,
    keys: |key, secret| vec![(key.0, secret.name.to_ascii_lowercase()).to_bytes()],
};

pub(super) static SECRETS: Table<SecretKey, NamedSecret> = Table::new(catalog::SECRETS, &[&BY_NAME]).counting(Counts::Records);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UseRecord {
    last_at: Timestamp,
}

impl Record for UseRecord {
    const VERSION: u8 = 1;
}

pub(super) static USES: Table<SecretKey, UseRecord> = Table::new(catalog::SECRET_USES, &[]);

/// The place of a sealed value, which includes the servers to which it may be sent.
pub(super) fn sealed_place<'a>((tenant, id): &'a SecretKey, hosts: &[Host]) -> SealedPlace<'a> {
    let target = Some(target(hosts).digest());
    SealedPlace { tenant: tenant.as_bytes(), table: catalog::SECRETS.name(), key: id.as_bytes(), target }
}

impl SealedRecord<SecretKey> for NamedSecret {
    fn each_sealed(&mut self, key: &SecretKey, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        visit(sealed_place(key, &self.hosts), &mut self.value)
    }
}

pub(super) fn get(tx: &impl Read, key: SecretKey) -> Result<Option<NamedSecret>, StoreError> {
    SECRETS.get(tx, &key)
}

/// Finds a secret by name, ignoring case.
pub(super) fn by_name(tx: &impl Read, tenant: TenantId, name: &str) -> Result<Option<NamedSecret>, StoreError> {
    match BY_NAME.find(tx, &(tenant, name.to_ascii_lowercase()).to_bytes())? {
        Some(key) => get(tx, key),
        None => Ok(None),
    }
}

/// The tenant's secrets, oldest first. Their number is limited to `MAX_SECRETS`.
pub(super) fn list(tx: &impl Read, tenant: TenantId) -> Result<Vec<NamedSecret>, StoreError> {
    let mut found = Vec::new();
    SECRETS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |_, secret| {
        found.push(secret);
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

pub(super) fn put(tx: &mut WriteTx, secret: &NamedSecret) -> Result<(), StoreError> {
    SECRETS.put(tx, &(secret.tenant_id, secret.id), secret)
}

pub(super) fn remove(tx: &mut WriteTx, key: SecretKey) -> Result<(), StoreError> {
    USES.remove(tx, &key)?;
    SECRETS.remove(tx, &key).map(drop)
}

pub(super) fn last_use(tx: &impl Read, key: SecretKey) -> Result<Option<Timestamp>, StoreError> {
    Ok(USES.get(tx, &key)?.map(|record| record.last_at))
}

/// Records a use. Does nothing if the secret no longer exists.
pub(super) fn record_use(tx: &mut WriteTx, key: SecretKey, at: Timestamp) -> Result<(), StoreError> {
    if SECRETS.get(tx, &key)?.is_none() {
        return Ok(());
    }
    let last_at = last_use(tx, key)?.map_or(at, |before| before.max(at));
    USES.put(tx, &key, &UseRecord { last_at })
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        entropy::Entropy,
        id::WorkflowId,
        secrets::{InstallationKey, Sealer, Secret},
    };
    use tenantd_store::{codec::assert_golden, events::Actor};

    use super::*;

    #[test]
    fn stored_records_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let key = (TenantId::from_bytes([2; 16]), SecretId::from_bytes([1; 16]));
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        let hosts = vec![Host::parse("api.example.com").unwrap(), Host::parse("http://10.0.0.1:8080").unwrap()];
        let secret = NamedSecret {
            id: key.1,
            tenant_id: key.0,
            name: "github".to_owned(),
            description: Some("Deploys".to_owned()),
            value: sealer.seal(sealed_place(&key, &hosts), &Secret::new("s3cret"), &mut entropy).unwrap(),
            hosts,
            workflow_ids: Some(vec![WorkflowId::from_bytes([3; 16])]),
            created_at: at,
            created_by: Actor::system("test"),
            updated_at: at,
            rotated_at: Some(at),
            version: 3,
        };
        assert_golden("secret", &secret);
        assert_golden("secret_use", &UseRecord { last_at: at });
    }
}
