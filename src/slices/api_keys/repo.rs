//! API keys as they are stored, and the ways to find them: by secret, by name, by what is due next.

pub(super) mod portable;

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::model::{ApiKey, PreviousSecret};
use crate::kernel::{
    access::Generation,
    clock::Timestamp,
    clocks::Reading,
    events::Actor,
    id::{ApiKeyId, OrganizationId, TenantId},
    store::{
        Direction, Due, Flow, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
        codec::{Record, decode_fields, encode_fields},
        due_key,
    },
};

pub(super) type KeyKey = (TenantId, ApiKeyId);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyRecord {
    name: String,
    description: Option<String>,
    prefix: String,
    last_four: String,
    digest: [u8; 32],
    previous: Option<([u8; 32], Timestamp)>,
    /// Behind them, unless it is the first, the generation that wildcards among them are of.
    scopes: Vec<String>,
    allowed_ips: Vec<IpNet>,
    enabled: bool,
    created_at: Timestamp,
    created_by: Actor,
    updated_at: Timestamp,
    expires_at: Timestamp,
    last_used_at: Option<Timestamp>,
    last_used_ip: Option<IpAddr>,
    use_count: u64,
    rotated_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    expired_at: Option<Timestamp>,
    expiry_announced: bool,
    /// When the key next changes by time alone.
    due_at: Timestamp,
    version: u64,
    organization_ids: Vec<OrganizationId>,
}

impl Record for KeyRecord {
    const VERSION: u8 = 2;

    /// Version 1 ended before the organizations, which were none.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        decode_fields(&[fields, &encode_fields(&Vec::<OrganizationId>::new())?].concat())
    }
}

impl KeyRecord {
    fn is_live(&self) -> bool {
        self.revoked_at.is_none() && self.expired_at.is_none()
    }
}

/// Names are compared without case.
fn folded(name: &str) -> String {
    name.to_lowercase()
}

static BY_DIGEST: Index<KeyKey, KeyRecord> = Index {
    table: catalog::API_KEYS_BY_HASH,
    unique: true,
    keys: |_, key| std::iter::once(key.digest.to_vec()).chain(key.previous.map(|(digest, _)| digest.to_vec())).collect(),
};
pub(super) static BY_NAME: Index<KeyKey, KeyRecord> =
    Index { table: catalog::API_KEYS_BY_NAME, unique: false, keys: |id, key| vec![(id.0, folded(&key.name)).to_bytes()] };
static BY_DUE: Index<KeyKey, KeyRecord> =
    Index { table: catalog::API_KEYS_BY_DUE, unique: false, keys: |id, key| vec![due_key(id.0, key.due_at)] };

pub(super) static KEYS: Table<KeyKey, KeyRecord> = Table::new(catalog::API_KEYS, &[&BY_DIGEST, &BY_NAME, &BY_DUE]);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyCount {
    live: u64,
}

impl Record for KeyCount {
    const VERSION: u8 = 1;
}

pub(super) static COUNTS: Table<TenantId, KeyCount> = Table::new(catalog::API_KEY_COUNTS, &[]);

/// What stands in front of the generation of wildcards, at the end of the scopes. It is no scope, so a release that does not know it passes
/// over it.
const GENERATION: &str = "generation:";

fn split_generation(mut scopes: Vec<String>) -> (Vec<String>, Generation) {
    let generation = scopes.last().and_then(|last| last.strip_prefix(GENERATION)).and_then(|number| number.parse().ok());
    match generation {
        Some(number) => {
            scopes.pop();
            (scopes, Generation(number))
        }
        None => (scopes, Generation::default()),
    }
}

fn join_generation(scopes: &[String], generation: Generation) -> Vec<String> {
    let last = (generation != Generation::default()).then(|| format!("{GENERATION}{}", generation.0));
    scopes.iter().cloned().chain(last).collect()
}

pub(super) fn to_model((tenant_id, id): KeyKey, record: KeyRecord) -> ApiKey {
    let (scopes, generation) = split_generation(record.scopes);
    ApiKey {
        id,
        tenant_id,
        name: record.name,
        description: record.description,
        prefix: record.prefix,
        last_four: record.last_four,
        digest: record.digest,
        previous: record.previous.map(|(digest, expires_at)| PreviousSecret { digest, expires_at }),
        scopes,
        generation,
        organization_ids: record.organization_ids,
        allowed_ips: record.allowed_ips,
        enabled: record.enabled,
        created_at: record.created_at,
        created_by: record.created_by,
        updated_at: record.updated_at,
        expires_at: record.expires_at,
        last_used_at: record.last_used_at,
        last_used_ip: record.last_used_ip,
        use_count: record.use_count,
        rotated_at: record.rotated_at,
        revoked_at: record.revoked_at,
        expired_at: record.expired_at,
        expiry_announced: record.expiry_announced,
        version: record.version,
    }
}

fn to_record(key: &ApiKey, due_at: Timestamp) -> KeyRecord {
    KeyRecord {
        name: key.name.clone(),
        description: key.description.clone(),
        prefix: key.prefix.clone(),
        last_four: key.last_four.clone(),
        digest: key.digest,
        previous: key.previous.map(|previous| (previous.digest, previous.expires_at)),
        scopes: join_generation(&key.scopes, key.generation),
        allowed_ips: key.allowed_ips.clone(),
        enabled: key.enabled,
        created_at: key.created_at,
        created_by: key.created_by.clone(),
        updated_at: key.updated_at,
        expires_at: key.expires_at,
        last_used_at: key.last_used_at,
        last_used_ip: key.last_used_ip,
        use_count: key.use_count,
        rotated_at: key.rotated_at,
        revoked_at: key.revoked_at,
        expired_at: key.expired_at,
        expiry_announced: key.expiry_announced,
        due_at,
        version: key.version,
        organization_ids: key.organization_ids.clone(),
    }
}

pub(super) fn get(tx: &impl Read, tenant: TenantId, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
    let key = (tenant, id);
    Ok(KEYS.get(tx, &key)?.map(|record| to_model(key, record)))
}

pub(super) fn find_digest(tx: &impl Read, digest: &[u8; 32]) -> Result<Option<ApiKey>, StoreError> {
    match BY_DIGEST.find(tx, digest)? {
        Some((tenant, id)) => get(tx, tenant, id),
        None => Ok(None),
    }
}

/// Whether a live key other than `except` has this name.
pub(super) fn name_taken(tx: &impl Read, tenant: TenantId, name: &str, except: Option<ApiKeyId>) -> Result<bool, StoreError> {
    let mut taken = false;
    let same_name = KeyRange::prefix(&(tenant, folded(name)).to_bytes());
    BY_NAME.scan(tx, &same_name, Direction::Forward, |key, _| {
        taken = Some(key.1) != except && KEYS.get(tx, &key)?.is_some_and(|record| record.is_live());
        Ok(if taken { Flow::Stop } else { Flow::Continue })
    })?;
    Ok(taken)
}

/// Stores the key and keeps the count of live ones. `was_live` is how it was before.
pub(super) fn put(
    tx: &mut WriteTx,
    key: &ApiKey,
    was_live: bool,
    expiring: Duration,
    retention: Duration,
) -> Result<(), StoreError> {
    KEYS.put(tx, &(key.tenant_id, key.id), &to_record(key, key.due_at(expiring, retention)))?;
    let change = i64::from(key.is_live()) - i64::from(was_live);
    if change != 0 {
        let live = live_count(tx, key.tenant_id)?.saturating_add_signed(change);
        COUNTS.put(tx, &key.tenant_id, &KeyCount { live })?;
    }
    Ok(())
}

/// Adds uses to a key's record. Not a change of the key: its version stays. Whether the key is there.
pub(super) fn note_use(
    tx: &mut WriteTx,
    key: KeyKey,
    count: u64,
    last_at: Timestamp,
    last_ip: Option<IpAddr>,
) -> Result<bool, StoreError> {
    let Some(mut record) = KEYS.get(tx, &key)? else { return Ok(false) };
    record.use_count += count;
    record.last_used_at = record.last_used_at.max(Some(last_at));
    record.last_used_ip = last_ip.or(record.last_used_ip);
    KEYS.put(tx, &key, &record)?;
    Ok(true)
}

pub(super) fn remove(tx: &mut WriteTx, key: &ApiKey) -> Result<(), StoreError> {
    KEYS.remove(tx, &(key.tenant_id, key.id)).map(drop)
}

pub(super) fn live_count(tx: &impl Read, tenant: TenantId) -> Result<u64, StoreError> {
    Ok(COUNTS.get(tx, &tenant)?.map_or(0, |count| count.live))
}

/// Keys of any tenant whose time has come, the longest overdue first, and when the next does.
pub(super) fn due(tx: &impl Read, reading: &Reading, limit: usize) -> Result<Due<ApiKey>, StoreError> {
    let Due { found, next } = BY_DUE.due(tx, reading, limit, |_| true)?;
    let mut keys = Vec::with_capacity(found.len());
    for (tenant, id) in found {
        keys.extend(get(tx, tenant, id)?);
    }
    Ok(Due { found: keys, next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{access::Scope, events::ActorKind, store::codec::assert_golden};

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let key = ApiKey {
            id: ApiKeyId::from_bytes([1; 16]),
            tenant_id: TenantId::from_bytes([2; 16]),
            name: "Export".to_owned(),
            description: Some("nightly".to_owned()),
            prefix: "tck_live_9f3k".to_owned(),
            last_four: "b2C3".to_owned(),
            organization_ids: vec![OrganizationId::from_bytes([3; 16])],
            digest: [5; 32],
            previous: Some(PreviousSecret { digest: [6; 32], expires_at: at }),
            scopes: vec!["*".to_owned()],
            generation: Generation::default(),
            allowed_ips: vec!["203.0.113.0/24".parse().unwrap()],
            enabled: true,
            created_at: at,
            created_by: Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() },
            updated_at: at,
            expires_at: at.plus_days(30),
            last_used_at: Some(at),
            last_used_ip: Some("203.0.113.7".parse().unwrap()),
            use_count: 7,
            rotated_at: Some(at),
            revoked_at: None,
            expired_at: None,
            expiry_announced: true,
            version: 4,
        };
        let record = to_record(&key, at.plus_days(16));
        assert_golden("api_key", &record);
        let read = to_model((key.tenant_id, key.id), record);
        assert_eq!(read, key);
        let all = ApiKey { organization_ids: Vec::new(), ..read };
        assert!(
            all.grants().allows(Scope::WebhooksWrite) && !all.grants().allows(Scope::SecretsWrite),
            "a key of an earlier release"
        );
        let later = ApiKey { generation: Generation::CURRENT, ..key };
        let record = to_record(&later, at.plus_days(16));
        assert_eq!(record.scopes, ["*", "generation:1"]);
        assert_eq!(to_model((later.tenant_id, later.id), record), later);
        assert_golden("api_key_count", &KeyCount { live: 12 });
    }
}
