//! Use cases of API keys. Each method runs in the caller's transaction: it checks, writes, and appends the event.
//!
//! **Invariant:** a caller that creates, changes or rotates a key covers it before and after the change, in scopes, organizations,
//! networks and lifetime. Reducing or revoking a key does not require that. `secret_holders.rs` limits what a key can be changed to, and
//! `personal.rs` has the use cases of personal keys.

use ipnet::IpNet;
use serde_json::json;

use tenantd_base::{
    access::{Generation, Grants, Principal, Scope, TenantKind},
    authority::Authority,
    change::Change,
    clock::Timestamp,
    fault::Fault,
    id::{ApiKeyId, OrganizationId, TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_directory as directory;
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::{
    PersonalAllowed,
    error::ApiKeyError,
    model::{ApiKey, KeyRules, NewApiKey, Origin, PauseReason, Plaintext, StoredSecret, reach_fault, read_networks, scope_faults},
    owners, repo, secret_holders,
};

pub(super) static CREATED: EventKind = EventKind {
    name: "api_key.created",
    summary: "An API key was created.",
    subject: "api_key",
    schema: "ApiKey",
    reads: Grants::of(&[Scope::ApiKeysRead]),
    has_changes: false,
};
pub(super) static UPDATED: EventKind =
    EventKind { name: "api_key.updated", summary: "An API key was changed.", has_changes: true, ..CREATED };
pub(super) static ROTATED: EventKind = EventKind { name: "api_key.rotated", summary: "An API key was rotated.", ..CREATED };
pub(super) static REVOKED: EventKind = EventKind { name: "api_key.revoked", summary: "An API key was revoked.", ..CREATED };
pub(super) static PAUSED: EventKind = EventKind {
    name: "api_key.paused",
    summary: "An API key was paused because its owner was removed, disabled, demoted or revoked, or did not cover it.",
    ..CREATED
};
pub(super) static EXPIRING: EventKind = EventKind { name: "api_key.expiring", summary: "An API key expires soon.", ..CREATED };
pub(super) static EXPIRED: EventKind = EventKind { name: "api_key.expired", summary: "An API key expired.", ..CREATED };

#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    pub(super) rules: KeyRules,
    /// Whether the people of a tenant may have personal keys.
    pub(super) personal_allowed: PersonalAllowed,
}

/// The caller that creates or changes a key.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) authority: Authority,
    pub(super) tenant_kind: TenantKind,
}

impl Caller {
    pub(super) fn of(principal: &Principal) -> Self {
        Self { authority: principal.authority(), tenant_kind: principal.tenant_kind }
    }

    /// The caller with the rights that they still have. They may have lost some since the request was authenticated, and a key that
    /// is made now would not be paused with the others.
    pub(super) fn now(&self, tx: &impl Read, act: &Act) -> Result<Self, ApiKeyError> {
        let rights = owners::rights_now(tx, act, self.tenant_kind)?;
        Ok(Self { authority: self.authority.meet(&rights), tenant_kind: self.tenant_kind })
    }

    /// Checks that the caller may change `before` to `after`. `acts_through`: the caller gets the secret, or enables a disabled
    /// key.
    pub(super) fn check(&self, before: Option<&ApiKey>, after: &ApiKey, acts_through: bool) -> Result<(), ApiKeyError> {
        let before = before.map(|key| key.weight(self.tenant_kind));
        Ok(self.authority.may_change(before.as_ref(), Some(&after.weight(self.tenant_kind)), acts_through)?)
    }
}

/// The requested changes to a key.
#[derive(Clone, Debug)]
pub(super) struct KeyChange {
    pub(super) name: Option<String>,
    pub(super) description: Change<String>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) organization_ids: Change<Vec<OrganizationId>>,
    /// As given.
    pub(super) allowed_ips: Change<Vec<String>>,
    pub(super) enabled: Option<bool>,
    pub(super) expires_days: Option<u32>,
}

impl Service {
    pub(super) fn create(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        caller: &Caller,
        new: &NewApiKey,
    ) -> Result<(ApiKey, Plaintext), ApiKeyError> {
        let plaintext = Plaintext::generate(caller.tenant_kind, &mut act.entropy);
        let key = self.create_with(tx, act, caller, new, plaintext.to_stored())?;
        Ok((key, plaintext))
    }

    /// Creates a key whose plaintext already exists.
    pub(super) fn create_with(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        caller: &Caller,
        new: &NewApiKey,
        secret: StoredSecret,
    ) -> Result<ApiKey, ApiKeyError> {
        let caller = &caller.now(tx, act)?;
        let (allowed_ips, end) = self.check_new(tx, act, new)?;
        // Without a requested expiry, the key expires no later than the caller's credential. A later requested expiry is refused
        // below.
        let latest = caller.authority.until().filter(|_| new.expires_days.is_none());
        let expires_at = latest.map_or(end, |latest| end.min(latest));
        let key = draft(act, new, secret, (allowed_ips, expires_at), None);
        caller.check(None, &key, true)?;
        self.check_room(tx, act.tenant_id)?;
        self.store_new(tx, act, &key)?;
        Ok(key)
    }

    /// Stores a new key that has passed the checks, unless its name is taken.
    pub(super) fn store_new(&self, tx: &mut WriteTx, act: &mut Act, key: &ApiKey) -> Result<(), ApiKeyError> {
        check_name(tx, key, None)?;
        self.put(tx, key, false)?;
        self.announce(tx, act, &CREATED, key, None)
    }

    /// Returns the networks and the expiry of a new key, or all of its faults.
    fn check_new(&self, tx: &impl Read, act: &Act, new: &NewApiKey) -> Result<(Vec<IpNet>, Timestamp), ApiKeyError> {
        let mut faults = scope_faults(&new.scopes);
        check_organizations(tx, act, &new.scopes, &new.organization_ids, &mut faults)?;
        let networks = read_networks(&new.allowed_ips, &mut faults);
        match self.rules.end(act.now, new.expires_days) {
            Ok(end) if faults.is_empty() => return Ok((networks, end)),
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
        Err(ApiKeyError::Invalid(faults))
    }

    /// Checks that the tenant can have one more live key.
    fn check_room(&self, tx: &impl Read, tenant: TenantId) -> Result<(), ApiKeyError> {
        let most = self.rules.max_live;
        if repo::live_count(tx, tenant)? >= most { Err(ApiKeyError::LimitReached { most }) } else { Ok(()) }
    }

    pub(super) fn update(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        caller: &Caller,
        id: ApiKeyId,
        expected: &ExpectedVersion,
        change: &KeyChange,
    ) -> Result<ApiKey, ApiKeyError> {
        let caller = &caller.now(tx, act)?;
        let before = find(tx, act, id)?;
        expected.check(before.version)?;
        check_not_personal(&before)?;
        if before.revoked_at.is_some() {
            return Err(ApiKeyError::Ended("revoked"));
        }
        let (mut key, mut faults) = (before.clone(), Vec::new());
        if let Some(name) = &change.name {
            key.name.clone_from(name);
        }
        key.description = change.description.clone().apply(key.description);
        if let Some(scopes) = &change.scopes {
            faults.extend(scope_faults(scopes));
            key.scopes.clone_from(scopes);
            key.generation = Generation::CURRENT;
        }
        key.organization_ids = change.organization_ids.clone().apply(Some(key.organization_ids)).unwrap_or_default();
        if change.scopes.is_some() || change.organization_ids != Change::Keep {
            check_organizations(tx, act, &key.scopes, &key.organization_ids, &mut faults)?;
        }
        let allowed_ips = change.allowed_ips.clone().map(|texts| read_networks(&texts, &mut faults));
        key.allowed_ips = allowed_ips.apply(Some(key.allowed_ips)).unwrap_or_default();
        match change.expires_days.map(|days| self.rules.end(act.now, Some(days))) {
            // The expiry will be announced again, and an expired key becomes live again.
            Some(Ok(end)) => (key.expires_at, key.expiry_announced, key.expired_at) = (end, false, None),
            Some(Err(fault)) => faults.push(fault),
            None => {}
        }
        if !faults.is_empty() {
            return Err(ApiKeyError::Invalid(faults));
        }
        key.enabled = change.enabled.unwrap_or(key.enabled);
        if key.enabled && key.paused.is_some() {
            owners::assign_owner(tx, act, &mut key)?;
        }
        if key == before {
            return Ok(before);
        }
        caller.check(Some(&before), &key, key.enabled && !before.enabled)?;
        secret_holders::settle_growth(tx, act, caller, &before, &mut key)?;
        if key.is_live() {
            if !before.is_live() {
                self.check_room(tx, act.tenant_id)?;
            }
            check_name(tx, &key, Some(id))?;
        }
        key.updated_at = act.now;
        key.version += 1;
        self.put(tx, &key, before.is_live())?;
        self.announce(tx, act, &UPDATED, &key, Some(changes(&before, &key)))?;
        Ok(key)
    }

    /// Replaces the secret. The caller could use the new secret, so they must cover the key. The old secret works until `overlap`
    /// is over.
    pub(super) fn rotate(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        caller: &Caller,
        id: ApiKeyId,
        expected: &ExpectedVersion,
        overlap: std::time::Duration,
    ) -> Result<(ApiKey, Plaintext), ApiKeyError> {
        let caller = &caller.now(tx, act)?;
        act.use_reserve();
        let mut key = find(tx, act, id)?;
        expected.check(key.version)?;
        check_not_personal(&key)?;
        if key.revoked_at.is_some() {
            return Err(ApiKeyError::Ended("revoked"));
        }
        if act.now >= key.expires_at {
            return Err(ApiKeyError::Ended("expired"));
        }
        caller.check(Some(&key), &key, true)?;
        let plaintext = Plaintext::generate(caller.tenant_kind, &mut act.entropy);
        let overlap_end = (!overlap.is_zero()).then(|| (act.now + overlap).min(key.expires_at));
        key.replace_secret(plaintext.digest(), overlap_end);
        (key.prefix, key.last_four) = plaintext.hints();
        key.pass_secret(&act.actor);
        key.rotated_at = Some(act.now);
        key.updated_at = act.now;
        key.version += 1;
        self.put(tx, &key, true)?;
        self.announce(tx, act, &ROTATED, &key, None)?;
        Ok((key, plaintext))
    }

    /// Revokes the key, which requires only the scope, and pauses the keys that it owns. A revoked key stays unchanged.
    pub(super) fn revoke(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: ApiKeyId,
        expected: &ExpectedVersion,
    ) -> Result<ApiKey, ApiKeyError> {
        let mut key = find(tx, act, id)?;
        expected.check(key.version)?;
        if key.revoked_at.is_some() {
            return Ok(key);
        }
        let was_live = key.is_live();
        key.revoked_at = Some(act.now);
        key.retire_previous();
        key.updated_at = act.now;
        key.version += 1;
        self.put(tx, &key, was_live)?;
        self.announce(tx, act, &REVOKED, &key, None)?;
        self.pause_owned(tx, act, &key.id.to_string(), PauseReason::Revoked, |_| false)?;
        self.transfer_owned_keys(tx, act, &key)?;
        Ok(key)
    }

    /// Applies the change that is due: pauses a key whose owner does not cover it, announces its expiry, expires it, or removes it.
    pub(super) fn age(&self, tx: &mut WriteTx, act: &mut Act, mut key: ApiKey) -> Result<(), ApiKeyError> {
        if !key.is_live() {
            return Ok(repo::remove(tx, &key)?);
        }
        let kind = if act.now >= key.expires_at {
            key.expired_at = Some(key.expires_at);
            &EXPIRED
        } else if key.legacy_until(&self.rules).is_some_and(|end| act.now >= end) {
            let id = key.id.to_string();
            self.pause(tx, act, key, PauseReason::Legacy)?;
            return self.pause_owned(tx, act, &id, PauseReason::Legacy, |_| false);
        } else {
            key.expiry_announced = true;
            &EXPIRING
        };
        self.put(tx, &key, true)?;
        self.announce(tx, act, kind, &key, None)?;
        if key.expired_at.is_some() { self.transfer_owned_keys(tx, act, &key) } else { Ok(()) }
    }

    pub(super) fn put(&self, tx: &mut WriteTx, key: &ApiKey, was_live: bool) -> Result<(), StoreError> {
        repo::put(tx, key, was_live, &self.rules)
    }

    pub(super) fn announce(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        kind: &'static EventKind,
        key: &ApiKey,
        changes: Option<Changes>,
    ) -> Result<(), ApiKeyError> {
        let shown = key.describe((act.now, &self.rules))?;
        let draft = Draft::new(kind, key.id.to_string(), key.version, &shown).with_changes(changes.as_ref());
        events::append(tx, act, &draft)?;
        Ok(())
    }
}

/// A new key as it is stored, before the checks.
pub(super) fn draft(
    act: &mut Act,
    new: &NewApiKey,
    secret: StoredSecret,
    (allowed_ips, expires_at): (Vec<IpNet>, Timestamp),
    person: Option<UserId>,
) -> ApiKey {
    let StoredSecret { digest, prefix, last_four } = secret;
    ApiKey {
        id: ApiKeyId::new(act.now, &mut act.entropy),
        tenant_id: act.tenant_id,
        name: new.name.clone(),
        description: new.description.clone(),
        prefix,
        last_four,
        digest,
        previous: None,
        retired: Vec::new(),
        scopes: new.scopes.clone(),
        generation: Generation::CURRENT,
        organization_ids: new.organization_ids.clone(),
        allowed_ips,
        enabled: true,
        created_at: act.now,
        created_by: act.actor.clone(),
        taken_over_by: None,
        paused: None,
        origin: Origin::Checked,
        updated_at: act.now,
        expires_at,
        last_used_at: None,
        last_used_ip: None,
        use_count: 0,
        rotated_at: None,
        revoked_at: None,
        expired_at: None,
        expiry_announced: false,
        due_at: expires_at,
        version: 1,
        person,
        secret_holder: Some(act.actor.clone()),
        previous_holder: None,
    }
}

fn check_organizations(
    tx: &impl Read,
    act: &Act,
    scopes: &[String],
    ids: &[OrganizationId],
    faults: &mut Vec<Fault>,
) -> Result<(), StoreError> {
    faults.extend(reach_fault(scopes, ids));
    for id in ids {
        if directory::organization(tx, act.tenant_id, *id)?.is_none() {
            faults.push(Fault::new("/organization_ids", "unknown_reference", format!("the organization {id} does not exist")));
        }
    }
    Ok(())
}

fn check_name(tx: &WriteTx, key: &ApiKey, except: Option<ApiKeyId>) -> Result<(), ApiKeyError> {
    if repo::name_taken(tx, key.tenant_id, &key.name, key.person, except)? { Err(ApiKeyError::NameTaken) } else { Ok(()) }
}

/// A personal key acts for its person alone, so nobody else may get its secret or give it more rights.
pub(super) fn check_not_personal(key: &ApiKey) -> Result<(), ApiKeyError> {
    if key.person.is_some() { Err(ApiKeyError::Personal) } else { Ok(()) }
}

pub(super) fn find(tx: &WriteTx, act: &Act, id: ApiKeyId) -> Result<ApiKey, ApiKeyError> {
    repo::get(tx, act.tenant_id, id)?.ok_or(ApiKeyError::NotFound)
}

/// Returns the changed fields with their old and new values.
pub(super) fn changes(before: &ApiKey, after: &ApiKey) -> Changes {
    let fields = |key: &ApiKey| {
        json!({
            "name": key.name,
            "description": key.description,
            "scopes": key.scopes,
            "organization_ids": key.organization_ids,
            "allowed_ips": key.allowed_ips,
            "enabled": key.enabled,
            "expires_at": key.expires_at,
            "owner": key.owner(),
        })
    };
    Changes::between(&fields(before), &fields(after))
}
