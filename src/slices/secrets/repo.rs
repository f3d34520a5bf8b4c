//! Named secrets as they are stored, found by id and by name; and when each was last sent, in a small row of its own.

pub(super) mod portable;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{SecretId, TenantId, WorkflowId},
    secrets::{SealError, Sealed, SealedPlace},
};
use tenantd_store::{
    Counts, Direction, Flow, Index, Key, KeyRange, Read, SealedRecord, SealedVisitor, StoreError, Table, WriteTx, catalog,
    codec::Record, events::Actor,
};

use super::model::{Host, NamedSecret, target};

/// Names a secret over all tenants.
pub(super) type SecretKey = (TenantId, SecretId);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SecretRecord {
    name: String,
    description: Option<String>,
    hosts: Vec<Host>,
    workflow_ids: Option<Vec<WorkflowId>>,
    value: Sealed,
    created_at: Timestamp,
    created_by: Actor,
    updated_at: Timestamp,
    rotated_at: Option<Timestamp>,
    version: u64,
}

impl Record for SecretRecord {
    const VERSION: u8 = 1;
}

/// Names are compared without case, so that nobody takes one for another.
static BY_NAME: Index<SecretKey, SecretRecord> = Index {
    table: catalog::SECRETS_BY_NAME,
    unique: true,
    keys: |key, secret| vec![(key.0, secret.name.to_ascii_lowercase()).to_bytes()],
};

pub(super) static SECRETS: Table<SecretKey, SecretRecord> = Table::new(catalog::SECRETS, &[&BY_NAME]).counting(Counts::Records);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UseRecord {
    last_at: Timestamp,
}

impl Record for UseRecord {
    const VERSION: u8 = 1;
}

pub(super) static USES: Table<SecretKey, UseRecord> = Table::new(catalog::SECRET_USES, &[]);

/// Where a value is sealed, and the servers that it may be sent to.
pub(super) fn sealed_place<'a>((tenant, id): &'a SecretKey, hosts: &[Host]) -> SealedPlace<'a> {
    let target = Some(target(hosts).digest());
    SealedPlace { tenant: tenant.as_bytes(), table: catalog::SECRETS.name(), key: id.as_bytes(), target }
}

impl SealedRecord<SecretKey> for SecretRecord {
    fn each_sealed(&mut self, key: &SecretKey, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        visit(sealed_place(key, &self.hosts), &mut self.value)
    }
}

fn to_model((tenant_id, id): SecretKey, record: SecretRecord) -> NamedSecret {
    let SecretRecord { name, description, hosts, workflow_ids, value, created_at, created_by, updated_at, rotated_at, version } =
        record;
    NamedSecret {
        id,
        tenant_id,
        name,
        description,
        hosts,
        workflow_ids,
        value,
        created_at,
        created_by,
        updated_at,
        rotated_at,
        version,
    }
}

fn to_record(secret: &NamedSecret) -> SecretRecord {
    SecretRecord {
        name: secret.name.clone(),
        description: secret.description.clone(),
        hosts: secret.hosts.clone(),
        workflow_ids: secret.workflow_ids.clone(),
        value: secret.value.clone(),
        created_at: secret.created_at,
        created_by: secret.created_by.clone(),
        updated_at: secret.updated_at,
        rotated_at: secret.rotated_at,
        version: secret.version,
    }
}

pub(super) fn get(tx: &impl Read, key: SecretKey) -> Result<Option<NamedSecret>, StoreError> {
    Ok(SECRETS.get(tx, &key)?.map(|record| to_model(key, record)))
}

/// The secret of this name, in any case of its letters.
pub(super) fn by_name(tx: &impl Read, tenant: TenantId, name: &str) -> Result<Option<NamedSecret>, StoreError> {
    match BY_NAME.find(tx, &(tenant, name.to_ascii_lowercase()).to_bytes())? {
        Some(key) => get(tx, key),
        None => Ok(None),
    }
}

/// The tenant's secrets, the oldest first. They are few.
pub(super) fn list(tx: &impl Read, tenant: TenantId) -> Result<Vec<NamedSecret>, StoreError> {
    let mut found = Vec::new();
    SECRETS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |key, record| {
        found.push(to_model(key, record));
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

pub(super) fn put(tx: &mut WriteTx, secret: &NamedSecret) -> Result<(), StoreError> {
    SECRETS.put(tx, &(secret.tenant_id, secret.id), &to_record(secret))
}

pub(super) fn remove(tx: &mut WriteTx, key: SecretKey) -> Result<(), StoreError> {
    USES.remove(tx, &key)?;
    SECRETS.remove(tx, &key).map(drop)
}

pub(super) fn last_use(tx: &impl Read, key: SecretKey) -> Result<Option<Timestamp>, StoreError> {
    Ok(USES.get(tx, &key)?.map(|record| record.last_at))
}

/// Notes a use. A secret that is gone has none.
pub(super) fn note_use(tx: &mut WriteTx, key: SecretKey, at: Timestamp) -> Result<(), StoreError> {
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
        secrets::{InstallationKey, Sealer, Secret},
    };
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
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
        let record = to_record(&secret);
        assert_golden("secret", &record);
        assert_eq!(to_model(key, record), secret);
        assert_golden("secret_use", &UseRecord { last_at: at });
    }
}
