//! Endpoints and what is known of their state, as they are stored. Deliveries are in `ledger.rs`.

pub(super) mod portable;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{TenantId, WebhookId},
    secrets::{SealError, Sealed, SealedPlace, TargetDigest},
};
use tenantd_store::{
    Counts, Direction, Flow, Key, KeyRange, Read, SealedRecord, SealedVisitor, StoreError, Table, WriteTx, catalog,
    codec::{self, Record},
    events::Actor,
};

use super::{
    health::Health,
    model::{Endpoint, EndpointStatus, EventFilter, Ordering, PreviousSecret, header_target},
    schedule::RetrySchedule,
};

/// Names an endpoint over all tenants.
pub(super) type EndpointKey = (TenantId, WebhookId);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EndpointRecord {
    name: String,
    url: String,
    description: Option<String>,
    events: Vec<String>,
    filter: EventFilter,
    header_names: Vec<String>,
    headers: Option<Sealed>,
    status: EndpointStatus,
    ordering: Ordering,
    timeout_seconds: u32,
    rate_limit_per_second: Option<u32>,
    retry: RetrySchedule,
    ca_certificate_pem: Option<String>,
    secret: Sealed,
    secret_hint: String,
    previous: Option<(Sealed, Timestamp)>,
    secret_rotated_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    after_seq: u64,
    version: u64,
    owner: Option<Actor>,
    #[serde(default)]
    legacy_since: Option<Timestamp>,
}

impl Record for EndpointRecord {
    const VERSION: u8 = 3;

    /// Version 1 ended before the owner, whom nobody had noted. Version 2 ended before the time since when there is none.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        match version {
            1 => codec::decode_fields(&[fields, &codec::encode_fields(&(None::<Actor>, None::<Timestamp>))?].concat()),
            2 => codec::decode_fields(&[fields, &codec::encode_fields(&None::<Timestamp>)?].concat()),
            _ => Err(format!("format version {version} is not known to this release")),
        }
    }
}

pub(super) static ENDPOINTS: Table<EndpointKey, EndpointRecord> = Table::new(catalog::WEBHOOKS, &[]).counting(Counts::Records);

/// What the dispatcher knows of an endpoint, and how much waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndpointState {
    pub(super) health: Health,
    /// Deliveries that wait for an attempt.
    pub(super) pending: u64,
    /// Those of them that have had none.
    pub(super) parked: u64,
    /// Deliveries given up because too many waited.
    pub(super) shed: u64,
}

impl Record for EndpointState {
    const VERSION: u8 = 1;
}

pub(super) static STATES: Table<EndpointKey, EndpointState> = Table::new(catalog::WEBHOOK_STATES, &[]);

/// What a sealed part is bound to: its key, and the target of what is sent. The signing secret is never sent.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    tenant: TenantId,
    key: Vec<u8>,
    target: Option<TargetDigest>,
}

impl Binding {
    pub(super) fn secret((tenant, id): EndpointKey) -> Self {
        Self { tenant, key: sealed_key(id, 0), target: None }
    }

    pub(super) fn headers((tenant, id): EndpointKey, target: TargetDigest) -> Self {
        Self { tenant, key: sealed_key(id, 1), target: Some(target) }
    }

    pub(super) fn place(&self) -> SealedPlace<'_> {
        SealedPlace { tenant: self.tenant.as_bytes(), table: catalog::WEBHOOKS.name(), key: &self.key, target: self.target }
    }
}

/// Each part has a key of its own, so that none can stand for another.
fn sealed_key(id: WebhookId, part: u8) -> Vec<u8> {
    let mut key = id.to_bytes();
    key.push(part);
    key
}

impl SealedRecord<EndpointKey> for EndpointRecord {
    fn each_sealed(&mut self, key: &EndpointKey, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        let (secret, headers) = (Binding::secret(*key), self.headers_binding(*key));
        visit(secret.place(), &mut self.secret)?;
        if let Some((previous, _)) = &mut self.previous {
            visit(secret.place(), previous)?;
        }
        self.headers.as_mut().map_or(Ok(()), |sealed| visit(headers.place(), sealed))
    }
}

impl EndpointRecord {
    fn headers_binding(&self, key: EndpointKey) -> Binding {
        Binding::headers(key, header_target(&self.url, self.ca_certificate_pem.as_deref()).digest())
    }
}

fn to_model((tenant_id, id): EndpointKey, record: EndpointRecord) -> Endpoint {
    Endpoint {
        id,
        tenant_id,
        name: record.name,
        url: record.url,
        description: record.description,
        events: record.events,
        filter: record.filter,
        header_names: record.header_names,
        headers: record.headers,
        status: record.status,
        ordering: record.ordering,
        timeout_seconds: record.timeout_seconds,
        rate_limit_per_second: record.rate_limit_per_second,
        retry: record.retry,
        ca_certificate_pem: record.ca_certificate_pem,
        secret: record.secret,
        secret_hint: record.secret_hint,
        previous: record.previous.map(|(sealed, expires_at)| PreviousSecret { sealed, expires_at }),
        secret_rotated_at: record.secret_rotated_at,
        created_at: record.created_at,
        updated_at: record.updated_at,
        after_seq: record.after_seq,
        version: record.version,
        owner: record.owner,
        legacy_since: record.legacy_since,
    }
}

fn to_record(endpoint: &Endpoint) -> EndpointRecord {
    let endpoint = endpoint.clone();
    EndpointRecord {
        name: endpoint.name,
        url: endpoint.url,
        description: endpoint.description,
        events: endpoint.events,
        filter: endpoint.filter,
        header_names: endpoint.header_names,
        headers: endpoint.headers,
        status: endpoint.status,
        ordering: endpoint.ordering,
        timeout_seconds: endpoint.timeout_seconds,
        rate_limit_per_second: endpoint.rate_limit_per_second,
        retry: endpoint.retry,
        ca_certificate_pem: endpoint.ca_certificate_pem,
        secret: endpoint.secret,
        secret_hint: endpoint.secret_hint,
        previous: endpoint.previous.map(|previous| (previous.sealed, previous.expires_at)),
        secret_rotated_at: endpoint.secret_rotated_at,
        created_at: endpoint.created_at,
        updated_at: endpoint.updated_at,
        after_seq: endpoint.after_seq,
        version: endpoint.version,
        owner: endpoint.owner,
        legacy_since: endpoint.legacy_since,
    }
}

pub(super) fn get(tx: &impl Read, key: EndpointKey) -> Result<Option<Endpoint>, StoreError> {
    Ok(ENDPOINTS.get(tx, &key)?.map(|record| to_model(key, record)))
}

pub(super) fn put(tx: &mut WriteTx, endpoint: &Endpoint) -> Result<(), StoreError> {
    ENDPOINTS.put(tx, &(endpoint.tenant_id, endpoint.id), &to_record(endpoint))
}

pub(super) fn remove(tx: &mut WriteTx, key: EndpointKey) -> Result<(), StoreError> {
    ENDPOINTS.remove(tx, &key).map(drop)
}

/// The tenant's endpoints, the oldest first.
pub(super) fn list(tx: &impl Read, tenant: TenantId) -> Result<Vec<Endpoint>, StoreError> {
    let mut found = Vec::new();
    ENDPOINTS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |key, record| {
        found.push(to_model(key, record));
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// Endpoints of all tenants that have no owner, and that this release has not found yet.
pub(super) fn unowned(tx: &impl Read) -> Result<Vec<EndpointKey>, StoreError> {
    let mut found = Vec::new();
    ENDPOINTS.scan(tx, &KeyRange::ALL, Direction::Forward, |key, record| {
        if record.owner.is_none() && record.legacy_since.is_none() {
            found.push(key);
        }
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// Notes since when an endpoint without an owner is known.
pub(super) fn note_legacy(tx: &mut WriteTx, key: EndpointKey, since: Timestamp) -> Result<(), StoreError> {
    match ENDPOINTS.get(tx, &key)? {
        Some(record) => ENDPOINTS.put(tx, &key, &EndpointRecord { legacy_since: Some(since), ..record }),
        None => Ok(()),
    }
}

/// Whether no tenant has an endpoint.
pub(super) fn is_empty(tx: &impl Read) -> Result<bool, StoreError> {
    Ok(ENDPOINTS.list(tx, &KeyRange::ALL, 1)?.is_empty())
}

pub(super) fn state(tx: &impl Read, key: EndpointKey) -> Result<EndpointState, StoreError> {
    Ok(STATES.get(tx, &key)?.unwrap_or_default())
}

/// The states of all endpoints for which something waits.
pub(super) fn waiting(tx: &impl Read) -> Result<Vec<(EndpointKey, EndpointState)>, StoreError> {
    let mut found = Vec::new();
    STATES.scan(tx, &KeyRange::ALL, Direction::Forward, |key, state| {
        if state.pending > 0 {
            found.push((key, state));
        }
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// How much waits for all endpoints of a tenant, and the endpoint for which the most does.
pub(super) fn tenant_pending(tx: &impl Read, tenant: TenantId) -> Result<(u64, Option<EndpointKey>), StoreError> {
    let (mut total, mut most) = (0, (0, None));
    STATES.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |key, state| {
        total += state.pending;
        if state.pending > most.0 {
            most = (state.pending, Some(key));
        }
        Ok(Flow::Continue)
    })?;
    Ok((total, most.1))
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        entropy::Entropy,
        secrets::{InstallationKey, Sealer, Secret},
    };
    use tenantd_store::{codec::assert_golden, events::ActorKind};

    use super::*;
    use crate::model::DisabledReason;

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        let at = Timestamp::from_millis(1_767_225_600_000);
        let key = (TenantId::from_bytes([2; 16]), WebhookId::from_bytes([1; 16]));
        // As version 1 was first written: its headers were not bound to their target yet.
        let mut seal = |part: u8| {
            let binding = Binding { tenant: key.0, key: sealed_key(key.1, part), target: None };
            sealer.seal(binding.place(), &Secret::new("s"), &mut entropy).unwrap()
        };
        let endpoint = Endpoint {
            id: key.1,
            tenant_id: key.0,
            name: "Chat".to_owned(),
            url: "https://example.com/hook".to_owned(),
            description: Some("room".to_owned()),
            events: vec!["ticket.*".to_owned()],
            filter: EventFilter { organization_ids: vec!["org_x".to_owned()], ..EventFilter::default() },
            header_names: vec!["x-token".to_owned()],
            headers: Some(seal(1)),
            status: EndpointStatus::Disabled(DisabledReason::Gone),
            ordering: Ordering::PerResource,
            timeout_seconds: 20,
            rate_limit_per_second: Some(10),
            retry: RetrySchedule::Long,
            ca_certificate_pem: None,
            secret: seal(0),
            secret_hint: "whsec_Ab3…".to_owned(),
            previous: Some(PreviousSecret { sealed: seal(0), expires_at: at }),
            secret_rotated_at: Some(at),
            created_at: at,
            updated_at: at,
            after_seq: 7,
            version: 3,
            owner: Some(Actor { kind: ActorKind::ApiKey, id: "key_x".to_owned(), name: "Robot".to_owned() }),
            legacy_since: Some(at),
        };
        let record = to_record(&endpoint);
        assert_golden("webhook", &record);
        assert_eq!(to_model(key, record), endpoint);
        let mut health = Health::default();
        health.failed(at, Some(503), true);
        assert_golden("webhook_state", &EndpointState { health, pending: 3, parked: 1, shed: 0 });
    }
}
