//! Stored endpoints and their states. `ledger.rs` stores the deliveries.

pub(super) mod portable;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::Grants,
    clock::Timestamp,
    id::{TenantId, WebhookId},
    secrets::{SealError, SealedPlace, TargetDigest},
};
use tenantd_store::{
    Counts, Direction, Flow, Key, KeyRange, Read, SealedRecord, SealedVisitor, StoreError, Table, WriteTx, catalog,
    codec::{self, Record},
    events::Actor,
};

use super::{health::Health, model::Endpoint};

/// Identifies an endpoint across all tenants.
pub(super) type EndpointKey = (TenantId, WebhookId);

impl Record for Endpoint {
    const VERSION: u8 = 4;

    /// Version 1 had no owner. Version 2 had no `legacy_since`. Version 3 had no `owner_scopes`.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        let (no_owner, not_legacy) = (codec::encode_fields(&None::<Actor>)?, codec::encode_fields(&None::<Timestamp>)?);
        let no_scopes = codec::encode_fields(&None::<Vec<String>>)?;
        match version {
            1 => codec::decode_fields(&[fields, &no_owner, &not_legacy, &no_scopes].concat()),
            2 => codec::decode_fields(&[fields, &not_legacy, &no_scopes].concat()),
            3 => codec::decode_fields(&[fields, &no_scopes].concat()),
            _ => Err(format!("format version {version} is not known to this release")),
        }
    }

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.id) = Key::from_bytes(key)?;
        Some(())
    }
}

pub(super) static ENDPOINTS: Table<EndpointKey, Endpoint> = Table::new(catalog::WEBHOOKS, &[]).counting(Counts::Records);

/// The health of an endpoint, and how many deliveries wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndpointState {
    pub(super) health: Health,
    /// Deliveries that wait for an attempt.
    pub(super) pending: u64,
    /// Waiting deliveries without any attempt yet.
    pub(super) parked: u64,
    /// Deliveries that were given up because too many waited.
    pub(super) shed: u64,
}

impl Record for EndpointState {
    const VERSION: u8 = 1;
}

pub(super) static STATES: Table<EndpointKey, EndpointState> = Table::new(catalog::WEBHOOK_STATES, &[]);

/// What a sealed part is bound to: its key, and the target that it is sent to. The signing secret has no target because it is never
/// sent.
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

/// Each part has its own key, so parts cannot be swapped.
fn sealed_key(id: WebhookId, part: u8) -> Vec<u8> {
    let mut key = id.to_bytes();
    key.push(part);
    key
}

impl SealedRecord<EndpointKey> for Endpoint {
    fn each_sealed(&mut self, key: &EndpointKey, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        let (secret, headers) = (Binding::secret(*key), self.headers_binding(*key));
        visit(secret.place(), &mut self.secret)?;
        if let Some((previous, _)) = &mut self.previous {
            visit(secret.place(), previous)?;
        }
        self.headers.as_mut().map_or(Ok(()), |sealed| visit(headers.place(), sealed))
    }
}

impl Endpoint {
    fn headers_binding(&self, key: EndpointKey) -> Binding {
        Binding::headers(key, self.header_target().digest())
    }
}

pub(super) fn get(tx: &impl Read, key: EndpointKey) -> Result<Option<Endpoint>, StoreError> {
    ENDPOINTS.get(tx, &key)
}

pub(super) fn put(tx: &mut WriteTx, endpoint: &Endpoint) -> Result<(), StoreError> {
    ENDPOINTS.put(tx, &(endpoint.tenant_id, endpoint.id), endpoint)
}

pub(super) fn remove(tx: &mut WriteTx, key: EndpointKey) -> Result<(), StoreError> {
    ENDPOINTS.remove(tx, &key).map(drop)
}

/// The tenant's endpoints, oldest first.
pub(super) fn list(tx: &impl Read, tenant: TenantId) -> Result<Vec<Endpoint>, StoreError> {
    let mut found = Vec::new();
    ENDPOINTS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |_, endpoint| {
        found.push(endpoint);
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// Endpoints of all tenants with an owner whose scopes are not stored.
pub(super) fn unbounded(tx: &impl Read) -> Result<Vec<Endpoint>, StoreError> {
    let mut found = Vec::new();
    ENDPOINTS.scan(tx, &KeyRange::ALL, Direction::Forward, |_, endpoint| {
        if endpoint.owner.is_some() && endpoint.owner_scopes.is_none() {
            found.push(endpoint);
        }
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// Stores the scopes of an endpoint's owner, unless somebody has done so since.
pub(super) fn bound(tx: &mut WriteTx, key: EndpointKey, held: Grants) -> Result<(), StoreError> {
    match get(tx, key)?.filter(|endpoint| endpoint.owner_scopes.is_none()) {
        Some(mut endpoint) => {
            endpoint.set_owner_scopes(held);
            ENDPOINTS.put(tx, &key, &endpoint)
        }
        None => Ok(()),
    }
}

/// Endpoints of all tenants that have no owner and are not marked as legacy yet.
pub(super) fn unowned(tx: &impl Read) -> Result<Vec<EndpointKey>, StoreError> {
    let mut found = Vec::new();
    ENDPOINTS.scan(tx, &KeyRange::ALL, Direction::Forward, |key, endpoint| {
        if endpoint.owner.is_none() && endpoint.legacy_since.is_none() {
            found.push(key);
        }
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// Marks an endpoint as having had no owner since `since`.
pub(super) fn note_legacy(tx: &mut WriteTx, key: EndpointKey, since: Timestamp) -> Result<(), StoreError> {
    match ENDPOINTS.get(tx, &key)? {
        Some(endpoint) => ENDPOINTS.put(tx, &key, &Endpoint { legacy_since: Some(since), ..endpoint }),
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

/// The states of all endpoints that have waiting deliveries.
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

/// The number of waiting deliveries of a tenant, and the endpoint with the most of them.
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
    use crate::{
        model::{DisabledReason, EndpointStatus, EventFilter, Ordering},
        schedule::RetrySchedule,
    };

    #[test]
    fn stored_forms_match_their_golden_files() {
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        let at = Timestamp::from_millis(1_767_225_600_000);
        let key = (TenantId::from_bytes([2; 16]), WebhookId::from_bytes([1; 16]));
        // As version 1 wrote it at first: its headers were not bound to their target yet.
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
            previous: Some((seal(0), at)),
            secret_rotated_at: Some(at),
            created_at: at,
            updated_at: at,
            after_seq: 7,
            version: 3,
            owner: Some(Actor { kind: ActorKind::ApiKey, id: "key_x".to_owned(), name: "Robot".to_owned() }),
            legacy_since: Some(at),
            owner_scopes: Some(vec!["tickets:read".to_owned(), "webhooks:write".to_owned()]),
        };
        assert_golden("webhook", &endpoint);
        let mut health = Health::default();
        health.failed(at, Some(503), true);
        assert_golden("webhook_state", &EndpointState { health, pending: 3, parked: 1, shed: 0 });
    }
}
