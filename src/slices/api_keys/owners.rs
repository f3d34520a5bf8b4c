//! Owners of API keys. A key whose owner is removed or loses rights is paused until someone who covers it takes it over.
//!
//! **Invariant:** the owner of a live key is a person, another live key, or the system. Ownership has no cycles.

use std::collections::BTreeSet;

use tenantd_base::{
    access::{Grants, TenantKind},
    authority::Authority,
    clock::Timestamp,
    id::{ApiKeyId, TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_directory::{self as directory, UserStatus};
use tenantd_platform::Tenants;
use tenantd_store::{
    Read, ReadTx, StoreError, WriteTx,
    events::{Act, Actor, ActorKind},
    holders::Holders,
};

use super::{
    error::ApiKeyError,
    model::{ApiKey, Origin, Pause, PauseReason},
    repo,
    service::{Caller, PAUSED, Service, UPDATED, changes, check_not_personal, find},
};

/// Returns the person responsible for an actor: the user, or the person at the end of a key's chain of owners. `None` if there is
/// none.
pub fn person_behind(tx: &impl Read, tenant: TenantId, actor: &Actor) -> Result<Option<UserId>, StoreError> {
    let (mut actor, mut seen) = (actor.clone(), BTreeSet::new());
    loop {
        match actor.kind {
            ActorKind::User => return Ok(actor.id.parse().ok()),
            ActorKind::Workflow | ActorKind::System | ActorKind::Agent => return Ok(None),
            ActorKind::ApiKey => {
                let key = match actor.id.parse().ok().filter(|id: &ApiKeyId| seen.insert(*id)) {
                    Some(id) => repo::get(tx, tenant, id)?,
                    None => None,
                };
                let Some(key) = key else { return Ok(None) };
                actor = key.owner().clone();
            }
        }
    }
}

/// The rights that the actor of `act` has in this transaction.
pub fn rights_now(tx: &impl Read, act: &Act, kind: TenantKind) -> Result<Authority, StoreError> {
    rights_of(tx, act, &act.actor, kind)
}

/// The rights that an actor of the act's tenant has in this transaction. An actor that no longer exists has none.
pub(super) fn rights_of(tx: &impl Read, act: &Act, actor: &Actor, kind: TenantKind) -> Result<Authority, StoreError> {
    let found = match actor.kind {
        ActorKind::User => match actor.id.parse().ok().map(|id| directory::user(tx, act.tenant_id, id)).transpose()?.flatten() {
            Some(user) if user.status == UserStatus::Active => directory::staff_authority(tx, &user, kind)?,
            _ => None,
        },
        ActorKind::ApiKey => {
            let key = actor.id.parse().ok().map(|id| repo::get(tx, act.tenant_id, id)).transpose()?.flatten();
            key.filter(|key| key.block(act.now).is_none()).map(|key| key.authority(kind))
        }
        // tenantd itself, and the operator on this machine.
        ActorKind::System => Some(Authority::everything(act.tenant_id)),
        ActorKind::Workflow | ActorKind::Agent => None,
    };
    Ok(found.unwrap_or_else(|| Authority::new(act.tenant_id, Grants::NONE)))
}

/// Makes the actor of `act` the owner of the key, and ends its pause.
pub(super) fn assign_owner(tx: &impl Read, act: &Act, key: &mut ApiKey) -> Result<(), ApiKeyError> {
    key.check_known(act.now)?;
    let (mut above, mut seen) = (act.actor.clone(), BTreeSet::new());
    while above.kind == ActorKind::ApiKey && seen.insert(above.id.clone()) {
        if above.id == key.id.to_string() {
            return Err(ApiKeyError::OwnsItself);
        }
        let Ok(id) = above.id.parse() else { break };
        let Some(owner) = repo::get(tx, key.tenant_id, id)? else { break };
        above = owner.owner().clone();
    }
    key.set_owner(act.actor.clone());
    key.paused = None;
    key.origin = Origin::Checked;
    Ok(())
}

/// Checks whether the owner of a key from an older release covers it. The lifetime of the owner does not count, because a key
/// passes on when its owner ends.
pub(super) fn origin_of(tx: &ReadTx, key: &ApiKey, around: (&Tenants, &Holders), now: Timestamp) -> Result<Origin, StoreError> {
    let (tenants, holders) = around;
    let rights = holders.authority(tx, key.tenant_id, key.owner(), now)?;
    let tenant = tenants.cached(key.tenant_id)?;
    let covers = |kind| rights.covers(&key.weight(kind).with_until(rights.until()));
    let is_covered = tenant.as_ref().as_ref().is_some_and(|tenant| covers(tenant.kind));
    Ok(if is_covered { Origin::Checked } else { Origin::Legacy { since: now } })
}

/// Lets `auth` pause the keys of the users it manages.
#[derive(Clone, Copy, Debug)]
pub struct KeyOwners {
    pub(super) service: Service,
}

impl KeyOwners {
    /// Pauses the keys that a user owns, directly or through other keys, unless `kept` covers them. A personal key never has more
    /// rights than its person, so it continues with fewer. It is revoked together with its person.
    pub fn pause_keys_of(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: UserId,
        reason: PauseReason,
        kept: Option<(&Authority, TenantKind)>,
    ) -> Result<(), ApiKeyError> {
        match reason {
            PauseReason::Removed => self.service.revoke_personal_keys(tx, act, user)?,
            PauseReason::Disabled => self.service.pause_personal_keys(tx, act, user)?,
            PauseReason::Demoted | PauseReason::Revoked | PauseReason::Legacy | PauseReason::AccessEnded => {}
        }
        let covers = |key: &ApiKey| kept.is_some_and(|(kept, tenant_kind)| kept.covers(&key.weight(tenant_kind)));
        self.service.pause_owned(tx, act, &user.to_string(), reason, |key| key.person.is_some() || covers(key))
    }
}

impl KeyOwners {
    /// Ends what somebody may hold who had access to the account of a user since then: revokes the personal keys that were created
    /// since, and pauses the other keys whose secret the account could have got since, directly or with such a key. A paused key works
    /// again only with a new secret.
    pub fn end_keys_since(&self, tx: &mut WriteTx, act: &mut Act, user: UserId, since: Timestamp) -> Result<(), ApiKeyError> {
        self.service.revoke_personal_keys_since(tx, act, user, since)?;
        let mut rest = repo::live_since(tx, act.tenant_id, since)?;
        let mut reached = BTreeSet::from([user.to_string()]);
        loop {
            let (ended, others): (Vec<ApiKey>, Vec<ApiKey>) =
                rest.into_iter().partition(|key| key.is_reached_by(&reached, act.now));
            if ended.is_empty() {
                return Ok(());
            }
            for mut key in ended {
                reached.insert(key.id.to_string());
                key.forget_holders();
                self.service.pause(tx, act, key, PauseReason::AccessEnded)?;
            }
            rest = others;
        }
    }

    /// Revokes the live personal keys of a user.
    pub fn revoke_personal_keys(&self, tx: &mut WriteTx, act: &mut Act, user: UserId) -> Result<(), ApiKeyError> {
        self.service.revoke_personal_keys(tx, act, user)
    }

    /// Ends the pause of the personal keys of a user who is enabled again.
    pub fn resume_personal_keys(&self, tx: &mut WriteTx, act: &mut Act, user: UserId) -> Result<(), ApiKeyError> {
        self.service.resume_personal_keys(tx, act, user)
    }
}

impl Service {
    /// Makes the caller the owner of a key that they cover. A paused key becomes enabled.
    pub(super) fn take_over(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        caller: &Caller,
        id: ApiKeyId,
        expected: &ExpectedVersion,
    ) -> Result<ApiKey, ApiKeyError> {
        let caller = &caller.now(tx, act)?;
        let before = find(tx, act, id)?;
        expected.check(before.version)?;
        check_not_personal(&before)?;
        if !before.is_live() {
            return Err(ApiKeyError::Ended(if before.revoked_at.is_some() { "revoked" } else { "expired" }));
        }
        caller.check(Some(&before), &before, true)?;
        let mut key = before.clone();
        key.enabled |= key.paused.is_some();
        assign_owner(tx, act, &mut key)?;
        if key == before {
            return Ok(before);
        }
        self.change(tx, act, &before, key)
    }

    /// Pauses the live keys of an owner, and the keys that these own in turn, except those that `keeps` accepts.
    pub(super) fn pause_owned(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        owner: &str,
        reason: PauseReason,
        keeps: impl Fn(&ApiKey) -> bool,
    ) -> Result<(), ApiKeyError> {
        let (mut owners, mut seen) = (vec![owner.to_owned()], BTreeSet::new());
        while let Some(owner) = owners.pop() {
            for key in repo::owned_by(tx, act.tenant_id, &owner)? {
                if !seen.insert(key.id) {
                    continue;
                }
                owners.push(key.id.to_string());
                if key.paused.is_some() || keeps(&key) {
                    continue;
                }
                self.pause(tx, act, key, reason)?;
            }
        }
        Ok(())
    }

    pub(super) fn pause(&self, tx: &mut WriteTx, act: &mut Act, mut key: ApiKey, reason: PauseReason) -> Result<(), ApiKeyError> {
        key.enabled = false;
        key.paused = Some(Pause { reason, at: act.now });
        key.updated_at = act.now;
        key.version += 1;
        self.put(tx, &key, true)?;
        self.announce(tx, act, &PAUSED, &key, None)
    }

    /// Passes the keys of an ended key to the owner of that key, so that every key keeps an owner.
    pub(super) fn transfer_owned_keys(&self, tx: &mut WriteTx, act: &mut Act, ended: &ApiKey) -> Result<(), ApiKeyError> {
        for before in repo::owned_by(tx, act.tenant_id, &ended.id.to_string())? {
            let mut key = before.clone();
            key.set_owner(ended.owner().clone());
            self.change(tx, act, &before, key)?;
        }
        Ok(())
    }

    pub(super) fn change(&self, tx: &mut WriteTx, act: &mut Act, before: &ApiKey, mut key: ApiKey) -> Result<ApiKey, ApiKeyError> {
        key.updated_at = act.now;
        key.version += 1;
        self.put(tx, &key, before.is_live())?;
        self.announce(tx, act, &UPDATED, &key, Some(changes(before, &key)))?;
        Ok(key)
    }
}
