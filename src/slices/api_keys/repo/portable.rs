//! Keys as they leave for another installation and arrive there. Digests are all that there is of a key, so it works there too; of a file
//! that nobody vouches for it arrives disabled. How many are live is counted again.

use serde_json::Value;

use tenantd_base::{
    access::{Grants, Role, Scope, TenantKind},
    clock::Timestamp,
};
use tenantd_store::{
    Direction, Flow, Key, KeyRange,
    portable::{Arrival, Carrier, PortError, Portable},
};

use super::{
    super::model::{ApiKey, EVALUATION_PREFIX, KeyRules, LIVE_PREFIX, MAX_RETIRED, reach_fault, scope_faults},
    COUNTS, KEYS, KeyCount, KeyKey, live_count, name_taken,
};

/// The characters of a key that its hints show.
const HINT_LENGTH: usize = 4;

/// `fields` are the bounds of the API.
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
        if key.is_live() {
            arrival.count_within("live API keys", rules.max_live)?;
        }
        if id.0.has_own_clock() { Ok(()) } else { check_end(key.revoked_at, key.expires_at, arrival.now, &rules) }
    });
    let keys = keys.kept_by(|tx, id, key| {
        if key.is_live() {
            if name_taken(tx, id.0, &key.name, None)? {
                return Err(PortError::Wrong(format!("another live key is called {} too", key.name)));
            }
            let live = live_count(tx, id.0)? + 1;
            COUNTS.put(tx, &id.0, &KeyCount { live })?;
        }
        Ok(KEYS.put(tx, id, key)?)
    });
    // The clock of a tenant that has one of its own is known once its own record has come, which is the last.
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
    // A file may spell out an owner who is the creator.
    if let Some(owner) = key.taken_over_by.take() {
        key.set_owner(owner);
    }
    if !arrival.is_verified() {
        key.enabled = false;
        key.retire_previous();
        if key.is_live() {
            arrival.switch_off("API keys", &key.name);
        }
    }
    // When time alone changes a key next follows from the rules here.
    key.due_at = key.next_due(rules);
    Ok(Some((id, key)))
}

/// What the use cases ask of a key. The giver has at most the rights of an administrator.
fn check(key: &ApiKey, kind: TenantKind) -> Result<(), PortError> {
    let mut faults = scope_faults(&key.scopes).into_iter().chain(reach_fault(&key.scopes, &key.organization_ids));
    faults.next().map_or(Ok(()), |fault| Err(PortError::wrong(fault)))?;
    let beyond = key.authority(kind).scopes().without(Role::Admin.grants());
    if beyond != Grants::NONE {
        let names: Vec<&str> = beyond.iter().map(Scope::name).collect();
        return Err(PortError::Wrong(format!("scopes: no administrator of a tenant has {}", names.join(", "))));
    }
    let hint = |text: &str| text.len() == HINT_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let head = key.prefix.strip_prefix(LIVE_PREFIX).or_else(|| key.prefix.strip_prefix(EVALUATION_PREFIX));
    if !head.is_some_and(hint) || !hint(&key.last_four) {
        return Err(PortError::wrong("its prefix or its last four characters are not those of a key"));
    }
    if key.allowed_ips.iter().any(|network| *network != network.trunc()) {
        return Err(PortError::wrong("allowed_ips: a network has bits behind its prefix"));
    }
    let working = [Some(key.digest), key.previous.map(|(digest, _)| digest)];
    if key.retired.len() > MAX_RETIRED || key.retired.iter().any(|digest| working.contains(&Some(*digest))) {
        return Err(PortError::wrong("it has too many retired secrets, or one of them is the secret that works"));
    }
    if key.previous.is_some_and(|(digest, expires_at)| expires_at > key.expires_at || digest == key.digest) {
        return Err(PortError::wrong("its secret before the last rotation works longer than the key, or is the same"));
    }
    Ok(())
}

/// A key lives as long as the operator allows, counted from now: how long it was allowed to live elsewhere does not count.
fn check_end(revoked_at: Option<Timestamp>, end: Timestamp, now: Timestamp, rules: &KeyRules) -> Result<(), PortError> {
    let latest = now.plus_days(rules.max_days);
    if revoked_at.is_some() || end <= latest {
        return Ok(());
    }
    let most = rules.max_days;
    Err(PortError::Wrong(format!(
        "expires_at: a key ends within {most} days (api_keys.max_expires_days), which is {latest} at the latest, and this one ends {end}"
    )))
}
