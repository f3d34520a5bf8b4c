//! The use cases of endpoints. Each method runs in the caller's transaction: check, write, append the event.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use tenantd_base::{
    access::{Grants, Scope},
    authority::Lacking,
    change::Change,
    fault::Fault,
    id::WebhookId,
    secrets::{Sealed, Sealer, Secret},
    versions::ExpectedVersion,
    vocabulary::vocabulary,
};
use tenantd_egress::{SecretTarget, without_query};
use tenantd_store::{
    WriteTx,
    events::{self, Act, ActorKind, Changes, Describe, Draft, EventKind, Kinds},
};

use super::{
    error::WebhookError,
    filter::{self, Lookups},
    model::{
        CustomHeaders, DisabledReason, Endpoint, EndpointStatus, EventFilter, NewEndpoint, Ordering, generate_secret,
        header_target, secret_hint,
    },
    repo::{self, Binding, EndpointKey, EndpointState},
    schedule::RetrySchedule,
};

pub(super) static CREATED: EventKind = EventKind {
    name: "webhook.created",
    summary: "A webhook endpoint was created.",
    subject: "webhook",
    schema: "Webhook",
    reads: Grants::of(&[Scope::WebhooksRead]),
    has_changes: false,
};
pub(super) static UPDATED: EventKind =
    EventKind { name: "webhook.updated", summary: "A webhook endpoint was changed.", has_changes: true, ..CREATED };
pub(super) static DELETED: EventKind = EventKind { name: "webhook.deleted", summary: "A webhook endpoint was deleted.", ..CREATED };
pub(super) static DISABLED: EventKind =
    EventKind { name: "webhook.disabled", summary: "A webhook endpoint was disabled and gets no more deliveries.", ..CREATED };
pub(super) static TEST: EventKind = EventKind {
    name: "webhook.test",
    summary: "A caller tested a webhook endpoint. Only the tested endpoint receives this event.",
    ..CREATED
};

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) sealer: Sealer,
    pub(super) kinds: Arc<Kinds>,
    pub(super) max_endpoints: usize,
    pub(super) lookups: Lookups,
}

/// A change to an endpoint.
#[derive(Clone, Debug)]
pub(super) struct EndpointChange {
    pub(super) name: Option<String>,
    pub(super) url: Option<String>,
    pub(super) description: Change<String>,
    pub(super) events: Option<Vec<String>>,
    pub(super) filter: Change<EventFilter>,
    pub(super) headers: Change<CustomHeaders>,
    pub(super) ordering: Option<Ordering>,
    pub(super) timeout_seconds: Option<u32>,
    pub(super) rate_limit_per_second: Change<u32>,
    pub(super) retry: Option<RetrySchedule>,
    pub(super) ca_certificate_pem: Change<String>,
    pub(super) status: Option<WantedStatus>,
    /// Fields with an invalid form or a refused target. The service reports them together with its own findings.
    pub(super) faults: Vec<Fault>,
}

/// An endpoint after a change.
#[derive(Debug)]
pub(super) struct Updated {
    pub(super) endpoint: Endpoint,
    /// Whether its health was reset.
    pub(super) reset: bool,
    /// Whether the change enabled a disabled endpoint.
    pub(super) enabled: bool,
}

vocabulary! {
    /// The states that a caller can set.
    WantedStatus:
    Active "active", Paused "paused", Disabled "disabled",
}

impl Service {
    /// The caller becomes the endpoint's owner: it receives the events that the caller may read. `held` are the caller's scopes.
    pub(super) fn create(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        held: Grants,
        new: &NewEndpoint,
    ) -> Result<(Endpoint, Secret), WebhookError> {
        self.check_input(tx, act, &new.faults, Some(&new.events), Some(&new.filter), &EventFilter::default())?;
        self.check_readable_events(&new.events, held)?;
        if repo::list(tx, act.tenant_id)?.len() >= self.max_endpoints {
            return Err(WebhookError::LimitReached { most: self.max_endpoints });
        }
        let id = WebhookId::new(act.now, &mut act.entropy);
        let secret = generate_secret(&mut act.entropy);
        let target = header_target(&new.url, new.ca_certificate_pem.as_deref());
        let mut endpoint = Endpoint {
            id,
            tenant_id: act.tenant_id,
            name: new.name.clone(),
            url: new.url.clone(),
            description: new.description.clone(),
            events: new.events.clone(),
            filter: new.filter.clone(),
            header_names: new.headers.names(),
            headers: self.seal_headers(act, id, &target, &new.headers)?,
            status: EndpointStatus::Active,
            ordering: new.ordering,
            timeout_seconds: new.timeout_seconds,
            rate_limit_per_second: new.rate_limit_per_second,
            retry: new.retry,
            ca_certificate_pem: new.ca_certificate_pem.clone(),
            secret: self.seal(act, &Binding::secret((act.tenant_id, id)), &secret)?,
            secret_hint: secret_hint(&secret),
            previous: None,
            secret_rotated_at: None,
            created_at: act.now,
            updated_at: act.now,
            after_seq: 0,
            version: 1,
            owner: None,
            legacy_since: None,
            owner_scopes: None,
        };
        endpoint.set_owner(act.actor.clone(), held);
        endpoint.after_seq = announce(tx, act, &CREATED, &endpoint, None)?;
        repo::put(tx, &endpoint)?;
        Ok((endpoint, secret))
    }

    fn seal(&self, act: &mut Act, binding: &Binding, secret: &Secret) -> Result<Sealed, WebhookError> {
        Ok(self.sealer.seal(binding.place(), secret, &mut act.entropy)?)
    }

    fn seal_headers(
        &self,
        act: &mut Act,
        id: WebhookId,
        target: &SecretTarget,
        headers: &CustomHeaders,
    ) -> Result<Option<Sealed>, WebhookError> {
        if headers.is_empty() {
            return Ok(None);
        }
        let binding = Binding::headers((act.tenant_id, id), target.digest());
        self.seal(act, &binding, &headers.to_secret()?).map(Some)
    }

    /// Reports all faults of an input at once: the given ones (`found`) and those that only the store can find.
    fn check_input(
        &self,
        tx: &WriteTx,
        act: &Act,
        found: &[Fault],
        events: Option<&Vec<String>>,
        filter: Option<&EventFilter>,
        stored: &EventFilter,
    ) -> Result<(), WebhookError> {
        let mut faults = found.to_vec();
        faults.extend(events.into_iter().flat_map(|events| self.unknown_events(events)));
        if let Some(filter) = filter {
            faults.extend(filter::check(tx, act, &self.lookups, filter, stored)?);
        }
        if faults.is_empty() { Ok(()) } else { Err(WebhookError::Invalid(faults)) }
    }

    /// Entries that match no kind of event.
    pub(super) fn unknown_events(&self, given: &[String]) -> Vec<Fault> {
        let unknown = |(place, text): (usize, &String)| {
            let unknown = self.kinds.parse(text).err()?;
            let fault = Fault::new(format!("/events/{place}"), "unknown_event", unknown.to_string());
            Some(fault.with_suggestion(unknown.suggestion))
        };
        given.iter().enumerate().filter_map(unknown).collect()
    }

    /// Requires that the caller may read at least one of the kinds that each entry matches.
    fn check_readable_events(&self, given: &[String], held: Grants) -> Result<(), WebhookError> {
        let patterns = given.iter().filter_map(|text| self.kinds.parse(text).ok());
        let lacking = patterns.filter_map(|pattern| self.kinds.lacking(&pattern, held)).reduce(Grants::union);
        lacking.map_or(Ok(()), |scopes| Err(WebhookError::NotReadable(Box::new(Lacking::scopes(scopes)))))
    }

    /// Only callers that may read an event can send it again.
    pub(super) fn check_readable(&self, kind: &str, held: Grants) -> Result<(), WebhookError> {
        let lacking = self.kinds.reads(kind).without(held);
        if lacking == Grants::NONE { Ok(()) } else { Err(WebhookError::NotReadable(Box::new(Lacking::scopes(lacking)))) }
    }

    /// A caller that changes the destination or the subscription becomes the endpoint's owner, and so does one that sends the same
    /// subscription with more scopes. Other changes keep the owner, because they send nothing to a new receiver.
    pub(super) fn update(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        held: Grants,
        id: WebhookId,
        expected: &ExpectedVersion,
        change: &EndpointChange,
    ) -> Result<Updated, WebhookError> {
        let before = find(tx, act, id)?;
        expected.check(before.version)?;
        let filter = match &change.filter {
            Change::Set(filter) => Some(filter),
            Change::Keep | Change::Clear => None,
        };
        self.check_input(tx, act, &change.faults, change.events.as_ref(), filter, &before.filter)?;
        let mut after = before.clone();
        set(&mut after.name, change.name.as_ref());
        set(&mut after.url, change.url.as_ref());
        after.ca_certificate_pem = change.ca_certificate_pem.clone().apply(after.ca_certificate_pem);
        after.description = change.description.clone().apply(after.description);
        if let Some(events) = &change.events {
            self.check_readable_events(events, held)?;
            after.events.clone_from(events);
        }
        after.filter = change.filter.clone().apply(Some(after.filter)).unwrap_or_default();
        let target = after.header_target();
        match &change.headers {
            Change::Keep if target == before.header_target() => {}
            // Values that were given for one target are never sent to another.
            Change::Keep | Change::Clear => (after.header_names, after.headers) = (Vec::new(), None),
            Change::Set(headers) => {
                after.header_names = headers.names();
                after.headers = self.seal_headers(act, id, &target, headers)?;
            }
        }
        set(&mut after.ordering, change.ordering.as_ref());
        set(&mut after.timeout_seconds, change.timeout_seconds.as_ref());
        after.rate_limit_per_second = change.rate_limit_per_second.clone().apply(after.rate_limit_per_second);
        set(&mut after.retry, change.retry.as_ref());
        match (change.status, after.status) {
            (None, _) | (Some(WantedStatus::Disabled), EndpointStatus::Disabled(_)) => {}
            (Some(WantedStatus::Active), _) => after.status = EndpointStatus::Active,
            (Some(WantedStatus::Paused), EndpointStatus::Disabled(_)) => return Err(WebhookError::WrongState(after.status)),
            (Some(WantedStatus::Paused), _) => after.status = EndpointStatus::Paused,
            (Some(WantedStatus::Disabled), _) => after.status = EndpointStatus::Disabled(DisabledReason::Operator),
        }
        let reset = after.header_target() != before.header_target()
            || after.url != before.url
            || after.headers != before.headers
            || change.status == Some(WantedStatus::Active);
        if reset {
            reset_health(tx, (act.tenant_id, id))?;
        }
        let route = |endpoint: &Endpoint| {
            let Endpoint { url, events, filter, headers, ca_certificate_pem, .. } = endpoint.clone();
            (url, events, filter, headers, ca_certificate_pem)
        };
        // The same subscription from a caller with more scopes receives more.
        let extends = change.events.is_some() && held.covers(before.bounds()) && held != before.bounds();
        if route(&before) != route(&after) || extends {
            after.set_owner(act.actor.clone(), held);
        }
        if after == before {
            return Ok(Updated { endpoint: before, reset, enabled: false });
        }
        Self::store_change(tx, act, &before, &mut after)?;
        if after.status != before.status && matches!(after.status, EndpointStatus::Disabled(_)) {
            announce(tx, act, &DISABLED, &after, None)?;
        }
        let is_disabled = |endpoint: &Endpoint| matches!(endpoint.status, EndpointStatus::Disabled(_));
        let enabled = is_disabled(&before) && !is_disabled(&after);
        Ok(Updated { endpoint: after, reset, enabled })
    }

    fn store_change(tx: &mut WriteTx, act: &mut Act, before: &Endpoint, after: &mut Endpoint) -> Result<(), WebhookError> {
        after.updated_at = act.now;
        after.version += 1;
        repo::put(tx, after)?;
        announce(tx, act, &UPDATED, after, Some(changes(before, after)))?;
        Ok(())
    }

    pub(super) fn delete(tx: &mut WriteTx, act: &mut Act, id: WebhookId, expected: &ExpectedVersion) -> Result<(), WebhookError> {
        let endpoint = find(tx, act, id)?;
        expected.check(endpoint.version)?;
        repo::remove(tx, (act.tenant_id, id))?;
        // The dispatcher needs the state to find and remove waiting deliveries.
        if repo::state(tx, (act.tenant_id, id))?.pending == 0 {
            repo::STATES.remove(tx, &(act.tenant_id, id))?;
        }
        announce(tx, act, &DELETED, &endpoint, None)?;
        Ok(())
    }

    /// Replaces the secret. The old one also signs until `grace` is over.
    pub(super) fn rotate_secret(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: WebhookId,
        expected: &ExpectedVersion,
        grace: Duration,
    ) -> Result<(Endpoint, Secret), WebhookError> {
        act.use_reserve();
        let before = find(tx, act, id)?;
        expected.check(before.version)?;
        let secret = generate_secret(&mut act.entropy);
        let mut after = before.clone();
        after.previous = (!grace.is_zero()).then(|| (before.secret.clone(), act.now + grace));
        after.secret = self.seal(act, &Binding::secret((act.tenant_id, id)), &secret)?;
        after.secret_hint = secret_hint(&secret);
        after.secret_rotated_at = Some(act.now);
        Self::store_change(tx, act, &before, &mut after)?;
        Ok((after, secret))
    }

    pub(super) fn pause(
        tx: &mut WriteTx,
        act: &mut Act,
        held: Grants,
        id: WebhookId,
        expected: &ExpectedVersion,
    ) -> Result<Endpoint, WebhookError> {
        act.use_reserve();
        Self::change_status(tx, act, held, id, expected, |status| match status {
            EndpointStatus::Active | EndpointStatus::Paused => Some(EndpointStatus::Paused),
            EndpointStatus::Disabled(_) => None,
        })
    }

    pub(super) fn resume(
        tx: &mut WriteTx,
        act: &mut Act,
        held: Grants,
        id: WebhookId,
        expected: &ExpectedVersion,
    ) -> Result<Endpoint, WebhookError> {
        Self::change_status(tx, act, held, id, expected, |status| match status {
            EndpointStatus::Active | EndpointStatus::Paused => Some(EndpointStatus::Active),
            EndpointStatus::Disabled(_) => None,
        })
    }

    /// Enables a disabled endpoint.
    pub(super) fn enable(
        tx: &mut WriteTx,
        act: &mut Act,
        held: Grants,
        id: WebhookId,
        expected: &ExpectedVersion,
    ) -> Result<Endpoint, WebhookError> {
        let before = find(tx, act, id)?;
        expected.check(before.version)?;
        if before.status == EndpointStatus::Paused {
            return Err(WebhookError::WrongState(before.status));
        }
        reset_health(tx, (act.tenant_id, id))?;
        if before.status == EndpointStatus::Active {
            return Ok(before);
        }
        let mut after = Endpoint { status: EndpointStatus::Active, ..before.clone() };
        take_ownership(act, held, &mut after);
        Self::store_change(tx, act, &before, &mut after)?;
        Ok(after)
    }

    fn change_status(
        tx: &mut WriteTx,
        act: &mut Act,
        held: Grants,
        id: WebhookId,
        expected: &ExpectedVersion,
        next: impl FnOnce(EndpointStatus) -> Option<EndpointStatus>,
    ) -> Result<Endpoint, WebhookError> {
        let before = find(tx, act, id)?;
        expected.check(before.version)?;
        let status = next(before.status).ok_or(WebhookError::WrongState(before.status))?;
        if status == EndpointStatus::Active {
            reset_health(tx, (act.tenant_id, id))?;
        }
        if status == before.status {
            return Ok(before);
        }
        let mut after = Endpoint { status, ..before.clone() };
        if status == EndpointStatus::Active {
            take_ownership(act, held, &mut after);
        }
        Self::store_change(tx, act, &before, &mut after)?;
        Ok(after)
    }

    /// Disables an endpoint because of its receiver's behavior. Does nothing if it is deleted or already disabled.
    pub(super) fn disable(tx: &mut WriteTx, act: &mut Act, id: WebhookId, reason: DisabledReason) -> Result<(), WebhookError> {
        let Some(mut endpoint) = repo::get(tx, (act.tenant_id, id))? else { return Ok(()) };
        if matches!(endpoint.status, EndpointStatus::Disabled(_)) {
            return Ok(());
        }
        endpoint.status = EndpointStatus::Disabled(reason);
        endpoint.updated_at = act.now;
        endpoint.version += 1;
        repo::put(tx, &endpoint)?;
        announce(tx, act, &DISABLED, &endpoint, None)?;
        Ok(())
    }

    /// Appends the event of a test and returns its number.
    pub(super) fn announce_test(tx: &mut WriteTx, act: &mut Act, id: WebhookId) -> Result<u64, WebhookError> {
        let endpoint = find(tx, act, id)?;
        announce(tx, act, &TEST, &endpoint, None)
    }
}

fn announce(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    endpoint: &Endpoint,
    changes: Option<Changes>,
) -> Result<u64, WebhookError> {
    let state = repo::state(tx, (endpoint.tenant_id, endpoint.id))?;
    let shown = endpoint.describe((&state, act.now))?;
    let draft = Draft::new(kind, endpoint.id.to_string(), endpoint.version, &shown).with_changes(changes.as_ref());
    Ok(events::append(tx, act, &draft)?)
}

/// Allows attempts immediately, regardless of earlier failures: a caller has changed the endpoint.
fn reset_health(tx: &mut WriteTx, key: EndpointKey) -> Result<(), WebhookError> {
    let state = repo::state(tx, key)?;
    let health = state.health.without_failures();
    if health != state.health {
        repo::STATES.put(tx, &key, &EndpointState { health, ..state })?;
    }
    Ok(())
}

fn set<T: Clone>(field: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        field.clone_from(value);
    }
}

/// An endpoint from an unverified import has no real owner. The caller that activates it becomes the owner.
fn take_ownership(act: &Act, held: Grants, endpoint: &mut Endpoint) {
    if endpoint.owner.as_ref().is_some_and(|owner| owner.kind == ActorKind::Agent) {
        endpoint.set_owner(act.actor.clone(), held);
    }
}

pub(super) fn find(tx: &WriteTx, act: &Act, id: WebhookId) -> Result<Endpoint, WebhookError> {
    repo::get(tx, (act.tenant_id, id))?.ok_or(WebhookError::NotFound)
}

fn status_name(status: EndpointStatus) -> &'static str {
    match status {
        EndpointStatus::Active => "active",
        EndpointStatus::Paused => "paused",
        EndpointStatus::Disabled(_) => "disabled",
    }
}

/// The changed fields. For secrets it shows only that they changed.
fn changes(before: &Endpoint, after: &Endpoint) -> Changes {
    let fields = |endpoint: &Endpoint| {
        json!({
            "name": endpoint.name,
            "description": endpoint.description,
            "events": endpoint.events,
            "filter": endpoint.filter,
            "header_names": endpoint.header_names,
            "status": status_name(endpoint.status),
            "ordering": matches!(endpoint.ordering, Ordering::PerResource).then_some("per_resource").unwrap_or("none"),
            "timeout_seconds": endpoint.timeout_seconds,
            "rate_limit_per_second": endpoint.rate_limit_per_second,
            "retry": endpoint.retry.name(),
            "ca_certificate_pem": endpoint.ca_certificate_pem,
            "secret_hint": endpoint.secret_hint,
        })
    };
    let changes = Changes::between(&fields(before), &fields(after));
    // Events do not show queries, so two different URLs may look the same.
    if before.url == after.url { changes } else { changes.with("url", without_query(&before.url), without_query(&after.url)) }
}
