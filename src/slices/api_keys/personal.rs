//! Use cases of personal keys. A personal key acts for the person who created it: at every use it has only what both its own list and
//! the person have at that moment, which `auth` checks. It ends with the person, and nobody takes it over.
//!
//! **Invariant:** the creator, the owner and the person of a personal key are the same user.

use tenantd_base::{
    access::{Grants, Identity, Principal},
    authority::Lacking,
    clock::Timestamp,
    id::{ApiKeyId, TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_store::{Read, StoreError, WriteTx, events::Act};

use super::{
    error::ApiKeyError,
    model::{ApiKey, MOST_PERSONAL_RECORDS, NewApiKey, Pause, PauseReason, Plaintext, personal_fault, read_networks, scope_faults},
    repo,
    service::{Caller, Service, draft},
};

/// Returns the person of a session. An API key and a contact cannot have keys.
pub(super) fn person_of(principal: &Principal) -> Result<UserId, ApiKeyError> {
    match &principal.identity {
        Identity::User { id, .. } => Ok(*id),
        Identity::Contact { .. } | Identity::ApiKey { .. } | Identity::LocalOperator => Err(ApiKeyError::NotAPerson),
    }
}

/// Returns the personal keys of a person, newest first, including those that have ended.
pub(super) fn personal_keys(tx: &impl Read, tenant: TenantId, person: UserId) -> Result<Vec<ApiKey>, StoreError> {
    let mut keys = repo::personal_of(tx, tenant, person)?;
    keys.reverse();
    Ok(keys)
}

/// Returns a personal key. A key of somebody else does not exist for this person.
pub(super) fn personal_key(tx: &impl Read, tenant: TenantId, person: UserId, id: ApiKeyId) -> Result<ApiKey, ApiKeyError> {
    repo::get(tx, tenant, id)?.filter(|key| key.person == Some(person)).ok_or(ApiKeyError::NotFound)
}

impl Service {
    /// Creates a key with scopes that the caller has now.
    pub(super) fn create_personal(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        (person, caller): (UserId, &Caller),
        new: &NewApiKey,
    ) -> Result<(ApiKey, Plaintext), ApiKeyError> {
        if !(self.personal_allowed)(tx, act.tenant_id)? {
            return Err(ApiKeyError::PersonalKeysForbidden);
        }
        let caller = &caller.now(tx, act)?;
        let mut faults = scope_faults(&new.scopes);
        faults.extend(personal_fault(&new.scopes));
        let networks = read_networks(&new.allowed_ips, &mut faults);
        let expires_at = match self.rules.end(act.now, new.expires_days) {
            Ok(end) if faults.is_empty() => end,
            Ok(_) => return Err(ApiKeyError::Invalid(faults)),
            Err(fault) => {
                faults.push(fault);
                return Err(ApiKeyError::Invalid(faults));
            }
        };
        let plaintext = Plaintext::generate(caller.tenant_kind, &mut act.entropy);
        let key = draft(act, new, plaintext.to_stored(), (networks, expires_at), Some(person));
        let beyond = key.authority(caller.tenant_kind).scopes().without(caller.authority.scopes());
        if beyond != Grants::NONE {
            return Err(Lacking::scopes(beyond).into());
        }
        self.make_room(tx, act.tenant_id, person)?;
        self.store_new(tx, act, &key)?;
        Ok((key, plaintext))
    }

    /// Checks that the person can have one more key, and removes their oldest ended keys if too many are stored.
    fn make_room(&self, tx: &mut WriteTx, tenant: TenantId, person: UserId) -> Result<(), ApiKeyError> {
        let (live, ended): (Vec<ApiKey>, Vec<ApiKey>) =
            repo::personal_of(tx, tenant, person)?.into_iter().partition(ApiKey::is_live);
        if live.len() as u64 >= self.rules.max_personal {
            return Err(ApiKeyError::TooManyPersonal { most: self.rules.max_personal });
        }
        let surplus = (live.len() + ended.len() + 1).saturating_sub(MOST_PERSONAL_RECORDS);
        for key in ended.iter().take(surplus) {
            repo::remove(tx, key)?;
        }
        Ok(())
    }

    /// Revokes a key of the person.
    pub(super) fn revoke_personal(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        person: UserId,
        id: ApiKeyId,
        expected: &ExpectedVersion,
    ) -> Result<ApiKey, ApiKeyError> {
        personal_key(tx, act.tenant_id, person, id)?;
        self.revoke(tx, act, id, expected)
    }

    /// Revokes the live keys of a person who is removed.
    pub(super) fn revoke_personal_keys(&self, tx: &mut WriteTx, act: &mut Act, person: UserId) -> Result<(), ApiKeyError> {
        self.revoke_personal_keys_since(tx, act, person, Timestamp::EPOCH)
    }

    /// Revokes the live keys of a person that were created since then. Personal keys are not rotated.
    pub(super) fn revoke_personal_keys_since(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        person: UserId,
        since: Timestamp,
    ) -> Result<(), ApiKeyError> {
        for key in live(tx, act.tenant_id, person)?.into_iter().filter(|key| key.created_at >= since) {
            self.revoke(tx, act, key.id, &ExpectedVersion::Any)?;
        }
        Ok(())
    }

    /// Pauses the keys of a person who is disabled. The check at each use does not depend on it: the pause shows why the keys do not
    /// work.
    pub(super) fn pause_personal_keys(&self, tx: &mut WriteTx, act: &mut Act, person: UserId) -> Result<(), ApiKeyError> {
        for key in live(tx, act.tenant_id, person)?.into_iter().filter(|key| key.enabled) {
            self.pause(tx, act, key, PauseReason::Disabled)?;
        }
        Ok(())
    }

    pub(super) fn resume_personal_keys(&self, tx: &mut WriteTx, act: &mut Act, person: UserId) -> Result<(), ApiKeyError> {
        let is_paused = |key: &ApiKey| matches!(key.paused, Some(Pause { reason: PauseReason::Disabled, .. }));
        for before in live(tx, act.tenant_id, person)?.into_iter().filter(is_paused) {
            self.change(tx, act, &before, ApiKey { enabled: true, paused: None, ..before.clone() })?;
        }
        Ok(())
    }
}

fn live(tx: &impl Read, tenant: TenantId, person: UserId) -> Result<Vec<ApiKey>, StoreError> {
    let mut keys = repo::personal_of(tx, tenant, person)?;
    keys.retain(ApiKey::is_live);
    Ok(keys)
}
