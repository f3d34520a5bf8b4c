//! Who got the secrets of a key. A caller that does not cover a key can reduce it, and then get its secret with a rotation. If the key
//! got its rights back, so would that caller.
//!
//! **Invariant:** a change gives a key no rights that the holder of one of its working secrets lacks, unless the holder makes the change.
//! The holder has them at the moment of the change: `owners.rs` decides what happens when somebody loses rights later.

use std::collections::BTreeSet;

use tenantd_base::clock::Timestamp;
use tenantd_store::{
    Read,
    events::{Act, Actor, ActorKind},
};

use super::{
    error::ApiKeyError,
    model::{ApiKey, PauseReason},
    owners::{assign_owner, rights_of},
    service::Caller,
};

impl ApiKey {
    /// Records who got the new secret of a rotation. If the key rotated itself, the holder stays the same.
    pub(super) fn pass_secret(&mut self, rotator: &Actor) {
        self.previous_holder = self.secret_holder.clone().filter(|_| self.previous.is_some());
        if rotator.kind != ActorKind::ApiKey || rotator.id != self.id.to_string() {
            self.secret_holder = Some(rotator.clone());
        }
    }

    /// Whether one of these people and keys owns the key or holds one of its working secrets.
    pub(super) fn is_reached_by(&self, actors: &BTreeSet<String>, now: Timestamp) -> bool {
        actors.contains(&self.owner().id) || self.holders(now).flatten().any(|holder| actors.contains(&holder.id))
    }

    /// Records that somebody unknown may hold the secrets.
    pub(super) fn forget_holders(&mut self) {
        (self.secret_holder, self.previous_holder) = (None, None);
    }

    /// Fails while somebody unknown may hold a working secret of a key that was paused because of that.
    pub(super) fn check_known(&self, now: Timestamp) -> Result<(), ApiKeyError> {
        let is_suspect = self.paused.is_some_and(|pause| pause.reason == PauseReason::AccessEnded);
        if is_suspect && self.holders(now).any(|holder| holder.is_none()) { Err(ApiKeyError::SecretHeld(None)) } else { Ok(()) }
    }

    /// The holders of the secrets that work now. `None` stands for an unknown one.
    fn holders(&self, now: Timestamp) -> impl Iterator<Item = Option<&Actor>> {
        let has_previous = self.previous.is_some_and(|(_, end)| now < end);
        std::iter::once(self.secret_holder.as_ref()).chain(has_previous.then_some(self.previous_holder.as_ref()))
    }
}

/// Checks a change that gives a key more rights. If the owner does not cover the changed key, the caller becomes its owner.
pub(super) fn settle_growth(
    tx: &impl Read,
    act: &Act,
    caller: &Caller,
    before: &ApiKey,
    key: &mut ApiKey,
) -> Result<(), ApiKeyError> {
    // A longer lifetime adds no rights, and a key can outlive the credential that created it.
    let weight = |key: &ApiKey| key.weight(caller.tenant_kind).with_until(None);
    let after = weight(key);
    if weight(before).covers(&after) {
        return Ok(());
    }
    let is_caller = |actor: &Actor| (actor.kind, &actor.id) == (act.actor.kind, &act.actor.id);
    let covers = |actor: &Actor| -> Result<bool, ApiKeyError> {
        Ok(is_caller(actor) || rights_of(tx, act, actor, caller.tenant_kind)?.with_until(None).covers(&after))
    };
    for holder in key.holders(act.now) {
        if !holder.map_or(Ok(false), covers)? {
            return Err(ApiKeyError::SecretHeld(holder.cloned()));
        }
    }
    // A paused key gets its next owner when its pause ends.
    if key.paused.is_none() && !covers(key.owner())? {
        assign_owner(tx, act, key)?;
    }
    Ok(())
}
