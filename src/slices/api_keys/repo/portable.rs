//! Export and import of keys when a tenant moves to another installation. An imported key keeps working, because only its digest is
//! stored. A key from an unverified file is imported disabled. The import recounts the live keys.

use serde_json::Value;

use tenantd_base::{
    access::{Grants, Role, Scope, TenantKind},
    clock::Timestamp,
    id::{TenantId, UserId},
};
use tenantd_directory as directory;
use tenantd_store::{
    Direction, Flow, Key, KeyRange, WriteTx,
    events::ActorKind,
    portable::{Arrival, Carrier, PortError, Portable},
};

use super::{
    super::model::{
        ApiKey, EVALUATION_PREFIX, KeyRules, LIVE_PREFIX, MAX_RETIRED, MOST_PERSONAL_RECORDS, personal_fault, reach_fault,
        scope_faults,
    },
    COUNTS, KEYS, KeyCount, KeyKey, live_count, name_taken, personal_of,
};

/// How many characters of a key each hint shows.
const HINT_LENGTH: usize = 4;

/// `fields` checks the field limits of the API.
pub(crate) fn portable(
    rules: KeyRules,
    fields: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static,
) -> Vec<Box<dyn Portable>> {
    let keys = Carrier::turning(
        "api_key",
        &KEYS,
        |_, id, key| Ok(Some((id, key))),
        move |arrival, id, key| arrive(arrival, id, key, &rules),
    );
    let keys = keys.within(fields).examined(move |arrival, id, key| {
        if key.is_live() && key.person.is_none() {
            arrival.count_within("live API keys", rules.max_live)?;
        }
        if id.0.has_own_clock() { Ok(()) } else { check_end(key.revoked_at, key.expires_at, arrival.now, &rules) }
    });
    let keys = keys.kept_by(move |tx, id, key| {
        if let Some(person) = key.person {
            check_person(tx, id.0, person, key.is_live(), &rules)?;
        }
        if key.is_live() {
            if name_taken(tx, id.0, &key.name, key.person, None)? {
                return Err(PortError::Wrong(format!("another live key also has the name {}", key.name)));
            }
            let live = live_count(tx, id.0)? + u64::from(key.person.is_none());
            COUNTS.put(tx, &id.0, &KeyCount { live })?;
        }
        Ok(KEYS.put(tx, id, key)?)
    });
    // The clock of a tenant with its own clock is known only after the tenant's record, which comes last.
    let keys = keys.verified_by(move |tx, arrival| {
        if !arrival.tenant.has_own_clock() {
            return Ok(());
        }
        let mut checked = Ok(());
        KEYS.scan(tx, &KeyRange::prefix(&arrival.tenant.to_bytes()), Direction::Forward, |_, key| {
            checked = check_end(key.revoked_at, key.expires_at, arrival.tenant_now, &rules);
            Ok(if checked.is_ok() { Flow::Continue } else { Flow::Stop })
        })?;
        checked
    });
    let counts = Carrier::derived("api_key_count", &COUNTS, |tx, tenant, _| {
        let live = live_count(tx, *tenant)?;
        Ok(COUNTS.put(tx, tenant, &KeyCount { live })?)
    });
    vec![keys.boxed(), counts.boxed()]
}

fn arrive(arrival: &mut Arrival, id: KeyKey, mut key: ApiKey, rules: &KeyRules) -> Result<Option<(KeyKey, ApiKey)>, PortError> {
    check(&key, arrival.tenant_kind)?;
    // A file may name the creator explicitly as the owner. `set_owner` normalizes that.
    if let Some(owner) = key.taken_over_by.take() {
        key.set_owner(owner);
    }
    if !arrival.is_verified() {
        key.enabled = false;
        // tenantd would end the pause of a personal key together with that of its person.
        key.paused = key.paused.filter(|_| key.person.is_none());
        key.retire_previous();
        // The file could name anyone.
        (key.secret_holder, key.previous_holder) = (None, None);
        if key.is_live() {
            arrival.switch_off("API keys", &key.name);
        }
    }
    // When a key is next due depends on the rules of this installation.
    key.due_at = key.next_due(rules);
    Ok(Some((id, key)))
}

/// Applies the same checks as the use cases. The creator of a key has at most the rights of an administrator.
fn check(key: &ApiKey, kind: TenantKind) -> Result<(), PortError> {
    let mut faults = scope_faults(&key.scopes).into_iter().chain(reach_fault(&key.scopes, &key.organization_ids));
    faults.next().map_or(Ok(()), |fault| Err(PortError::wrong(fault)))?;
    let beyond = key.authority(kind).scopes().without(Role::Admin.grants());
    if beyond != Grants::NONE {
        let names: Vec<&str> = beyond.iter().map(Scope::name).collect();
        return Err(PortError::Wrong(format!("scopes: an administrator of a tenant cannot have {}", names.join(", "))));
    }
    let is_creator = |person: UserId| key.created_by.kind == ActorKind::User && key.created_by.id == person.to_string();
    let is_own = key.person.is_none_or(|person| is_creator(person) && key.owner() == &key.created_by);
    if !is_own || (key.person.is_some() && (!key.organization_ids.is_empty() || personal_fault(&key.scopes).is_some())) {
        return Err(PortError::wrong(
            "person: a personal key belongs to its creator, and has no organizations and no scopes over credentials",
        ));
    }
    let hint = |text: &str| text.len() == HINT_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let head = key.prefix.strip_prefix(LIVE_PREFIX).or_else(|| key.prefix.strip_prefix(EVALUATION_PREFIX));
    if !head.is_some_and(hint) || !hint(&key.last_four) {
        return Err(PortError::wrong("prefix or last_four does not have the format of an API key"));
    }
    if key.allowed_ips.iter().any(|network| *network != network.trunc()) {
        return Err(PortError::wrong("allowed_ips: a network has bits set after its prefix"));
    }
    let working = [Some(key.digest), key.previous.map(|(digest, _)| digest)];
    if key.retired.len() > MAX_RETIRED || key.retired.iter().any(|digest| working.contains(&Some(*digest))) {
        return Err(PortError::wrong("retired: there are too many secrets, or one of them is a current secret"));
    }
    if key.previous.is_some_and(|(digest, expires_at)| expires_at > key.expires_at || digest == key.digest) {
        return Err(PortError::wrong("previous: the secret works longer than the key, or is the current secret"));
    }
    Ok(())
}

/// Checks that the person of a live personal key is in the file, and has no more keys than a person can have.
fn check_person(tx: &WriteTx, tenant: TenantId, person: UserId, is_live: bool, rules: &KeyRules) -> Result<(), PortError> {
    let own = personal_of(tx, tenant, person)?;
    let live = own.iter().filter(|key| key.is_live()).count() as u64;
    if own.len() >= MOST_PERSONAL_RECORDS || (is_live && live >= rules.max_personal) {
        return Err(PortError::Wrong(format!("person: the user {person} has too many personal API keys")));
    }
    if is_live && directory::user(tx, tenant, person)?.is_none() {
        return Err(PortError::Wrong(format!("person: a personal API key belongs to the user {person}, who is not in the file")));
    }
    Ok(())
}

/// Checks that the key expires within the maximum that the operator of this installation allows, counted from now.
fn check_end(revoked_at: Option<Timestamp>, end: Timestamp, now: Timestamp, rules: &KeyRules) -> Result<(), PortError> {
    let latest = now.plus_days(rules.max_days);
    if revoked_at.is_some() || end <= latest {
        return Ok(());
    }
    let most = rules.max_days;
    Err(PortError::Wrong(format!(
        "expires_at: a key must expire within {most} days (api_keys.max_expires_days), by {latest}; this key expires at {end}"
    )))
}
