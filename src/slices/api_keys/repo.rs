//! Stored API keys, with indexes by secret, name, owner and due time.

pub(super) mod portable;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::Generation,
    clock::Timestamp,
    clocks::Reading,
    id::{ApiKeyId, OrganizationId, TenantId, UserId},
};
use tenantd_store::{
    Counts, Direction, Due, Flow, Index, Key, KeyRange, Progress, Read, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields, encode_fields},
    due_key,
    events::Actor,
};

use super::model::{ApiKey, KeyRules, Origin, Pause};

pub(super) type KeyKey = (TenantId, ApiKeyId);

impl Record for ApiKey {
    const VERSION: u8 = 7;

    /// Version 1 lacks the organizations. Version 2 lacks the owner, who was always the creator. Version 3 does not say whether the
    /// owner covered the key. Version 4 lacks the retired secrets. Version 5 lacks the person. Version 6 lacks the holders of the
    /// secrets: if the key was never rotated, its creator has the secret.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        let owner = encode_fields(&(None::<Actor>, None::<Pause>, Generation::default()))?;
        let holders = encode_fields(&(None::<Actor>, None::<Actor>))?;
        let person = [encode_fields(&None::<UserId>)?, holders.clone()].concat();
        let retired = [encode_fields(&Vec::<[u8; 32]>::new())?, person.clone()].concat();
        let origin = [encode_fields(&Origin::Unchecked)?, retired.clone()].concat();
        let key: Self = match version {
            1 => decode_fields(&[fields, &encode_fields(&Vec::<OrganizationId>::new())?, &owner, &origin].concat()),
            2 => decode_fields(&[fields, &owner, &origin].concat()),
            3 => decode_fields(&[fields, &origin].concat()),
            4 => decode_fields(&[fields, &retired].concat()),
            5 => decode_fields(&[fields, &person].concat()),
            6 => decode_fields(&[fields, &holders].concat()),
            _ => Err(format!("format version {version} is not known to this release")),
        }?;
        Ok(Self { secret_holder: key.rotated_at.is_none().then(|| key.created_by.clone()), ..key })
    }

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.id) = Key::from_bytes(key)?;
        Some(())
    }
}

/// Lowercases a name. Names are unique regardless of case.
fn folded(name: &str) -> String {
    name.to_lowercase()
}

static BY_DIGEST: Index<KeyKey, ApiKey> = Index {
    table: catalog::API_KEYS_BY_HASH,
    unique: true,
    keys: |_, key| {
        let digests = std::iter::once(key.digest).chain(key.previous.map(|(digest, _)| digest)).chain(key.retired.iter().copied());
        digests.map(|digest| digest.to_vec()).collect()
    },
};
pub(super) static BY_NAME: Index<KeyKey, ApiKey> =
    Index { table: catalog::API_KEYS_BY_NAME, unique: false, keys: |id, key| vec![(id.0, folded(&key.name)).to_bytes()] };
static BY_DUE: Index<KeyKey, ApiKey> =
    Index { table: catalog::API_KEYS_BY_DUE, unique: false, keys: |id, key| vec![due_key(id.0, key.due_at)] };

static BY_OWNER: Index<KeyKey, ApiKey> = Index {
    table: catalog::API_KEYS_BY_OWNER,
    unique: false,
    keys: |id, key| key.is_live().then(|| (id.0, key.owner().id.clone()).to_bytes()).into_iter().collect(),
};

/// Personal keys only, including those that have ended. Keys of earlier releases have no person, so the index needs no filling.
static BY_PERSON: Index<KeyKey, ApiKey> = Index {
    table: catalog::API_KEYS_BY_PERSON,
    unique: false,
    keys: |id, key| key.person.map(|person| (id.0, person).to_bytes()).into_iter().collect(),
};

pub(super) static KEYS: Table<KeyKey, ApiKey> =
    Table::new(catalog::API_KEYS, &[&BY_DIGEST, &BY_NAME, &BY_DUE, &BY_OWNER, &BY_PERSON]).counting(Counts::Records);

/// Fills the index by owner with keys that were stored before the index existed.
pub fn index_owners(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    KEYS.fill(tx, &BY_OWNER)?;
    Ok(Progress::Done)
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyCount {
    live: u64,
}

impl Record for KeyCount {
    const VERSION: u8 = 1;
}

pub(super) static COUNTS: Table<TenantId, KeyCount> = Table::new(catalog::API_KEY_COUNTS, &[]);

pub(super) fn get(tx: &impl Read, tenant: TenantId, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
    KEYS.get(tx, &(tenant, id))
}

pub(super) fn find_digest(tx: &impl Read, digest: &[u8; 32]) -> Result<Option<ApiKey>, StoreError> {
    match BY_DIGEST.find(tx, digest)? {
        Some((tenant, id)) => get(tx, tenant, id),
        None => Ok(None),
    }
}

/// Returns the live keys that a person or a key owns.
pub(super) fn owned_by(tx: &impl Read, tenant: TenantId, owner: &str) -> Result<Vec<ApiKey>, StoreError> {
    let mut keys = Vec::new();
    for (tenant, id) in BY_OWNER.list(tx, &KeyRange::prefix(&(tenant, owner.to_owned()).to_bytes()), usize::MAX)? {
        keys.extend(get(tx, tenant, id)?);
    }
    Ok(keys)
}

/// Returns the live keys of a tenant whose newest secret was made since then, except personal ones.
pub(super) fn live_since(tx: &impl Read, tenant: TenantId, since: Timestamp) -> Result<Vec<ApiKey>, StoreError> {
    let mut keys = Vec::new();
    scan(tx, tenant, None, |key| {
        if key.is_live() && key.person.is_none() && key.rotated_at.unwrap_or(key.created_at) >= since {
            keys.push(key);
        }
        Ok(Flow::Continue)
    })?;
    Ok(keys)
}

/// Returns the personal keys of a person, oldest first, including those that have ended. Their number is limited.
pub(super) fn personal_of(tx: &impl Read, tenant: TenantId, person: UserId) -> Result<Vec<ApiKey>, StoreError> {
    let mut keys = Vec::new();
    for (tenant, id) in BY_PERSON.list(tx, &KeyRange::prefix(&(tenant, person).to_bytes()), usize::MAX)? {
        keys.extend(get(tx, tenant, id)?);
    }
    Ok(keys)
}

/// Visits the keys of a tenant after a position, which is an id, in the order of their creation.
pub(super) fn scan(
    tx: &impl Read,
    tenant: TenantId,
    after: Option<&[u8]>,
    mut visit: impl FnMut(ApiKey) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let prefix = tenant.to_bytes();
    let mut range = KeyRange::prefix(&prefix);
    if let Some(after) = after {
        range = range.after(&[&prefix, after].concat(), Direction::Forward);
    }
    KEYS.scan(tx, &range, Direction::Forward, |_, key| visit(key))
}

/// Returns the live keys of all tenants whose owner is not known to cover them.
pub(super) fn list_unchecked(tx: &impl Read) -> Result<Vec<ApiKey>, StoreError> {
    let mut keys = Vec::new();
    KEYS.scan(tx, &KeyRange::ALL, Direction::Forward, |_, key| {
        if key.is_live() && key.origin != Origin::Checked {
            keys.push(key);
        }
        Ok(Flow::Continue)
    })?;
    Ok(keys)
}

/// Whether a live key other than `except` has this name. Each person has names of their own for personal keys.
pub(super) fn name_taken(
    tx: &impl Read,
    tenant: TenantId,
    name: &str,
    person: Option<UserId>,
    except: Option<ApiKeyId>,
) -> Result<bool, StoreError> {
    let mut taken = false;
    let same_name = KeyRange::prefix(&(tenant, folded(name)).to_bytes());
    BY_NAME.scan(tx, &same_name, Direction::Forward, |key, _| {
        taken = Some(key.1) != except && KEYS.get(tx, &key)?.is_some_and(|record| record.is_live() && record.person == person);
        Ok(if taken { Flow::Stop } else { Flow::Continue })
    })?;
    Ok(taken)
}

/// Stores the key and updates the count of live keys, which does not include personal ones. `was_live` says whether the key was live before.
pub(super) fn put(tx: &mut WriteTx, key: &ApiKey, was_live: bool, rules: &KeyRules) -> Result<(), StoreError> {
    KEYS.put(tx, &(key.tenant_id, key.id), &ApiKey { due_at: key.next_due(rules), ..key.clone() })?;
    let change = i64::from(key.is_live()) - i64::from(was_live);
    if change != 0 && key.person.is_none() {
        let live = live_count(tx, key.tenant_id)?.saturating_add_signed(change);
        COUNTS.put(tx, &key.tenant_id, &KeyCount { live })?;
    }
    Ok(())
}

/// Adds uses to a key's record. Does not change the version. Returns whether the key exists.
pub(super) fn record_use(
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

/// Returns the due keys of all tenants, the longest overdue first, and when the next key is due.
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
    use tenantd_base::access::Scope;
    use tenantd_store::{codec::assert_golden, events::ActorKind};

    use super::*;
    use crate::PauseReason;

    #[test]
    fn the_stored_forms_match_the_golden_files() {
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
            previous: Some(([6; 32], at)),
            retired: vec![[7; 32]],
            person: Some(UserId::from_bytes([4; 16])),
            secret_holder: Some(Actor { kind: ActorKind::User, id: "usr_z".to_owned(), name: "Cy".to_owned() }),
            previous_holder: Some(Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() }),
            scopes: vec!["*".to_owned()],
            generation: Generation::default(),
            allowed_ips: vec!["203.0.113.0/24".parse().unwrap()],
            enabled: true,
            created_at: at,
            created_by: Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() },
            taken_over_by: Some(Actor { kind: ActorKind::User, id: "usr_y".to_owned(), name: "Bo".to_owned() }),
            paused: Some(Pause { reason: PauseReason::Removed, at }),
            origin: Origin::Legacy { since: at },
            updated_at: at,
            expires_at: at.plus_days(30),
            last_used_at: Some(at),
            last_used_ip: Some("203.0.113.7".parse().unwrap()),
            use_count: 7,
            rotated_at: Some(at),
            revoked_at: None,
            expired_at: None,
            expiry_announced: true,
            due_at: at.plus_days(16),
            version: 4,
        };
        assert_golden("api_key", &key);
        let all = ApiKey { organization_ids: Vec::new(), person: None, ..key };
        assert!(
            all.grants().allows(Scope::WebhooksWrite) && !all.grants().allows(Scope::SecretsWrite),
            "a key from an earlier release"
        );
        let later = ApiKey { generation: Generation::CURRENT, ..all };
        assert!(later.grants().allows(Scope::SecretsWrite), "a key from this release");
        assert_golden("api_key_count", &KeyCount { live: 12 });
    }
}
