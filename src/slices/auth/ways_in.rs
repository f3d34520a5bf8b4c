//! Which administrators of a tenant can sign in now.
//!
//! **Invariant:** a change of an account never takes the last way in away from a tenant. An administrator who cannot sign in, for example
//! because nobody has set a password yet, is none.

use tenantd_base::{clock::Timestamp, id::TenantId};
use tenantd_directory::{self as directory, DirectoryError, User};
use tenantd_store::{Read, StoreError, WriteTx};

use super::{
    error::AuthError,
    model::Proof,
    repo::{self, factors::factors_of},
    service::Users,
    sign_on::PasswordAccess,
};

/// How an active administrator can sign in now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaysIn {
    /// With or without an identity provider.
    any: bool,
    /// Without an identity provider, so also when it fails.
    alone: bool,
}

impl WaysIn {
    /// Checks that an account still has the ways in that nobody else has, which are `self`.
    pub(super) fn check_kept(self, left: Self) -> Result<(), AuthError> {
        if self.alone && !left.alone {
            return Err(AuthError::LastBreakGlass);
        }
        if self.any && !left.any { Err(DirectoryError::LastAdmin.into()) } else { Ok(()) }
    }
}

impl Users {
    /// Whether the user has a passkey, or a password that works now. An initial password expires. Every passkey counts, because only its
    /// use shows whether it verifies the person.
    pub fn has_credential(&self, tx: &impl Read, user: &User, now: Timestamp) -> Result<bool, StoreError> {
        let key = (user.tenant_id, user.id);
        let password = repo::CREDENTIALS.get(tx, &key)?;
        if password.is_some_and(|password| password.expires_at.is_none_or(|end| now < end)) {
            return Ok(true);
        }
        Ok(factors_of(tx, key)?.iter().any(|factor| matches!(factor.proof, Proof::Passkey(_))))
    }

    /// Whether an active administrator can sign in without a provider, although single sign-on is enforced.
    pub fn has_way_in(&self, tx: &WriteTx, tenant: TenantId, now: Timestamp) -> Result<bool, StoreError> {
        for user in directory::staff(tx, tenant, usize::MAX)? {
            if self.ways_in(tx, &user, now)?.alone {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The ways in of an account. Nobody but an active administrator has one.
    pub(super) fn ways_in(&self, tx: &WriteTx, user: &User, now: Timestamp) -> Result<WaysIn, StoreError> {
        if !user.is_active_admin() {
            return Ok(WaysIn::default());
        }
        let is_refused = matches!((self.sign_on_rules.access)(tx, user)?, PasswordAccess::Refused(_));
        let alone = !is_refused && self.has_credential(tx, user, now)?;
        Ok(WaysIn { any: alone || (self.sign_on_rules.has_link)(tx, user)?, alone })
    }

    /// The ways in of an account that no other account has. A way in without a provider matters only while single sign-on is enforced.
    pub(super) fn only_ways_in(&self, tx: &WriteTx, user: &User, now: Timestamp) -> Result<WaysIn, StoreError> {
        let mut only = self.ways_in(tx, user, now)?;
        if !only.any {
            return Ok(only);
        }
        only.alone = only.alone && (self.sign_on_rules.is_enforced)(tx, user.tenant_id)?;
        for other in directory::staff(tx, user.tenant_id, usize::MAX)?.iter().filter(|other| other.id != user.id) {
            let ways = self.ways_in(tx, other, now)?;
            only = WaysIn { any: only.any && !ways.any, alone: only.alone && !ways.alone };
            if !only.any && !only.alone {
                break;
            }
        }
        Ok(only)
    }

    /// Whether the tenant would lose a way in with this account.
    pub(super) fn gives_the_only_way_in(&self, tx: &WriteTx, user: &User, now: Timestamp) -> Result<bool, StoreError> {
        let only = self.only_ways_in(tx, user, now)?;
        Ok(only.any || only.alone)
    }
}
