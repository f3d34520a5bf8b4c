//! Managers who have opened an account may have access to it: they have created it, issued a password link, or removed the factors. They
//! covered the account at that time. The account may get more rights later: an administrator promotes the person, a provider assigns a
//! role, or a custom role grows. Only administrators change an address or remove the link to a provider: by these, a provider recognizes
//! the person.
//!
//! **Invariant:** when an account gets rights that one of its openers lacks, everything that signs in as it ends: the password, the
//! second factors, sessions and links, and the keys that were made in it since. If an opener chose the address, the link to a provider
//! ends too. So nobody opens a weak account and waits until it becomes strong, and nobody demotes a strong person to open their account
//! and waits until they are promoted again.

use tenantd_base::{
    access::{Grants, Role, Scope, TenantKind},
    authority::Authority,
    change::Change,
    clock::Timestamp,
    id::TenantId,
};
use tenantd_directory::{User, UserChange, normalize_email, staff_authority};
use tenantd_store::{
    WriteTx,
    events::{self, Act, Actor, ActorKind, Draft, EventKind},
};

use super::{
    error::AuthError,
    model::Openers,
    repo::{self, OPENERS},
    service::Users,
};

pub(super) static ACCESS_ENDED: EventKind = EventKind {
    name: "auth.access_ended",
    summary: "A user got rights that somebody who had opened the account lacks, so their password, factors, sessions, links and the keys made since ended.",
    subject: "user",
    schema: "User",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};

/// What happens to the link to an identity provider, if an opener chose the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProviderLink {
    Ends,
    /// The provider has just proven who the person is.
    Stays,
}

/// The most rights that an account of a tenant can have.
pub(super) fn strongest(tenant: TenantId, kind: TenantKind) -> Authority {
    let role = if kind == TenantKind::Platform { Role::Operator } else { Role::Admin };
    Authority::new(tenant, role.grants())
}

/// Whether a change lets another person receive what is meant for the user: a new address receives sign-ons and links, a new external
/// id redirects imports.
pub(super) fn redirects(before: &User, change: &UserChange) -> bool {
    let moves = change.email.as_ref().is_some_and(|email| normalize_email(email).ok() != before.email);
    moves || (change.external_id != Change::Keep && change.external_id.clone().apply(None) != before.external_id)
}

/// Somebody who opens an account, with the rights that they have now.
pub(super) struct Opener {
    pub(super) actor: Actor,
    pub(super) authority: Authority,
    pub(super) kind: TenantKind,
}

/// Notes that somebody may have access to the account from now on. People who open their own account get nothing new. `chose_address`:
/// the opener has created the account.
pub(super) fn note_opener(
    tx: &mut WriteTx,
    user: &User,
    opener: &Opener,
    chose_address: bool,
    now: Timestamp,
) -> Result<(), AuthError> {
    let Opener { actor, authority, kind } = opener;
    // Somebody else may hold a key of the person.
    let is_own = actor.kind == ActorKind::User && actor.id == user.id.to_string();
    if user.role().is_none() || authority.covers(&strongest(user.tenant_id, *kind)) || is_own {
        return Ok(());
    }
    let key = (user.tenant_id, user.id);
    let after = match OPENERS.get(tx, &key)? {
        None => Openers::new(authority, chose_address, now),
        Some(before) => {
            let both = before.authority(user.tenant_id).meet(authority);
            Openers::new(&both, chose_address || before.chose_address, before.since.min(now))
        }
    };
    Ok(OPENERS.put(tx, &key, &after)?)
}

impl Users {
    /// Ends everything that signs in as the account if it has rights that one of its openers lacks. Every change of its rights calls it.
    pub(super) fn settle_openers(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: User,
        kind: TenantKind,
        link: ProviderLink,
    ) -> Result<User, AuthError> {
        let key = (user.tenant_id, user.id);
        let Some(openers) = OPENERS.get(tx, &key)? else { return Ok(user) };
        let Some(has) = staff_authority(tx, &user, kind)? else { return Ok(user) };
        if openers.authority(user.tenant_id).covers(&has) {
            return Ok(user);
        }
        // The provider has signed somebody in by an address that an opener chose: the link stays for now, and so does the note.
        let is_settled = !openers.chose_address || link == ProviderLink::Ends;
        if is_settled {
            OPENERS.remove(tx, &key)?;
        }
        repo::CREDENTIALS.remove(tx, &key)?;
        repo::factors::remove_of(tx, key)?;
        self.end_access(tx, &user)?;
        self.owners.end_keys_since(tx, act, user.id, openers.since)?;
        let user = match (&user.sso, link) {
            (Some(_), ProviderLink::Ends) if openers.chose_address => self.directory.link_user(tx, act, &user, None)?,
            _ => self.directory.touch_user(tx, act, user)?,
        };
        let shown = self.directory.show_user(tx, &user)?;
        events::append(tx, act, &Draft::new(&ACCESS_ENDED, user.id.to_string(), user.version, &shown))?;
        Ok(user)
    }
}
