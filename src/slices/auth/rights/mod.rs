//! Explains the rights of a user or a key: which scopes it has now, and why.
//!
//! **Invariant:** what is allowed comes from the functions that check credentials (`holders.rs`, `authenticator.rs`, `model/policy.rs`, and
//! `ApiKey`). This module only compares what they return before and after each limit, so that it can name the limit.

mod key;
mod person;
mod words;

use std::sync::Arc;

use tenantd_api_keys::{self as api_keys, ApiKey};
use tenantd_base::{
    access::{Grants, Reach, Scope, TenantKind},
    authority::Authority,
    clock::Timestamp,
    id::{OrganizationId, TenantId, UserId},
    vocabulary::vocabulary,
};
use tenantd_directory::{self as directory, User, UserQuery, list_users};
use tenantd_http::credentials::AuthError as CredentialError;
use tenantd_store::{Direction, Flow, Key, Read, ReadTx, StoreError};

use super::{
    authenticator::SliceAuthenticator,
    holders::{Block, CredentialRights},
    model::SessionRules,
};

vocabulary! {
    /// What a reason does to a scope.
    Effect:
    Gives "gives", Limits "limits", TakesAway "takes_away",
}

vocabulary! {
    /// Why a user or a key has a scope, or does not have it.
    ReasonCode:
    BuiltInRole "built_in_role", CustomRole "custom_role", OwnList "own_list", Organizations "organizations", Networks "networks",
    Until "until", NotInRole "not_in_role", RoleMissing "role_missing", NotInList "not_in_list", NewerThanWildcard "newer_than_wildcard",
    TenantWide "tenant_wide", PlatformOnly "platform_only", OverCredentials "over_credentials", PersonLacks "person_lacks",
    Contact "contact", UserDisabled "user_disabled", SecondFactorMissing "second_factor_missing",
    IdentityProviderOff "identity_provider_off", NeverSignedIn "never_signed_in", SignOnLapsed "sign_on_lapsed", NoWayIn "no_way_in", KeyRevoked "key_revoked", KeyExpired "key_expired",
    KeyDisabled "key_disabled", KeyPaused "key_paused", PersonRemoved "person_removed",
    PersonalKeysForbidden "personal_keys_forbidden", TenantSuspended "tenant_suspended", TenantClosed "tenant_closed",
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) code: ReasonCode,
    pub(super) effect: Effect,
    /// A sentence.
    pub(super) text: String,
    /// When the limit ends. Only [`ReasonCode::Until`] has it.
    pub(super) until: Option<Timestamp>,
}

/// The rights of a user or a key, with their reasons.
#[derive(Clone, Debug)]
pub(super) struct Explained {
    /// The scopes that it has now.
    pub(super) held: Grants,
    /// Reasons that give scopes or take them away, each with the scopes that it concerns.
    about: Vec<(Grants, Reason)>,
    /// What limits every scope that it has.
    pub(super) limits: Vec<Reason>,
}

impl Explained {
    fn new() -> Self {
        Self { held: Grants::NONE, about: Vec::new(), limits: Vec::new() }
    }

    fn gives(&mut self, scopes: Grants, code: ReasonCode, text: impl Into<String>) {
        self.add(scopes, Reason { code, effect: Effect::Gives, text: text.into(), until: None });
    }

    fn takes(&mut self, scopes: Grants, code: ReasonCode, text: impl Into<String>) {
        self.add(scopes, Reason { code, effect: Effect::TakesAway, text: text.into(), until: None });
    }

    fn add(&mut self, scopes: Grants, reason: Reason) {
        if scopes != Grants::NONE {
            self.about.push((scopes, reason));
        }
    }

    fn limit(&mut self, code: ReasonCode, text: impl Into<String>) {
        self.limits.push(Reason { code, effect: Effect::Limits, text: text.into(), until: None });
    }

    fn ends(&mut self, at: Timestamp) {
        self.limits.push(Reason { code: ReasonCode::Until, effect: Effect::Limits, text: format!("Until {at}."), until: Some(at) });
    }

    /// What takes all scopes away that remain.
    fn block(&mut self, scopes: Grants, block: Block) {
        let (code, text) = words::of_block(block);
        self.takes(scopes, code, text);
    }

    /// What it has now: these scopes, unless the tenant is closed.
    fn hold(&mut self, scopes: Grants, closed: Option<Closed>) {
        match closed {
            Some(Closed(code)) => self.takes(scopes, code, words::CLOSED),
            None => self.held = scopes,
        }
    }

    /// The reasons that concern a scope.
    pub(super) fn of_scope(&self, scope: Scope) -> impl Iterator<Item = &Reason> {
        self.about.iter().filter(move |(scopes, _)| scopes.allows(scope)).map(|(_, reason)| reason)
    }
}

/// Where and when the rights are looked up, and for whom.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) tenant: TenantId,
    pub(super) kind: TenantKind,
    /// The time of the tenant, for its records.
    pub(super) now: Timestamp,
    /// The time of the installation, for sessions.
    pub(super) guard_now: Timestamp,
    /// The organizations whose names the reader sees. `None` without `directory:read`.
    pub(super) named: Option<Reach>,
}

/// Explains the rights of users and keys.
#[derive(Clone, Debug)]
pub(crate) struct Explainer {
    pub(super) rights: CredentialRights,
    pub(super) authenticator: Arc<SliceAuthenticator>,
    pub(super) sessions: SessionRules,
}

/// A user or a key that has a scope.
#[derive(Debug)]
pub(super) enum Subject {
    User(Box<User>),
    Key(Box<ApiKey>),
}

/// The kinds of subjects to look for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) scope: Scope,
    pub(super) users: bool,
    pub(super) keys: bool,
}

/// A part of the list of those who have a scope.
#[derive(Debug, Default)]
pub(super) struct SubjectPage {
    pub(super) found: Vec<(Subject, Explained)>,
    /// The position of the last one, if there are more.
    pub(super) last: Option<Vec<u8>>,
}

/// Positions begin with the kind of the subject. Users come first.
const USERS: u8 = 0;
const KEYS: u8 = 1;
/// How many users are read at a time.
const BATCH: usize = 200;

impl SubjectPage {
    /// Adds a subject if it has the scope and there is room.
    fn take(&mut self, subject: Subject, explained: Explained, scope: Scope, limit: usize) -> Flow {
        if !explained.held.allows(scope) {
            return Flow::Continue;
        }
        if self.found.len() == limit {
            self.last = self.found.last().map(|(last, _)| position(last));
            return Flow::Stop;
        }
        self.found.push((subject, explained));
        Flow::Continue
    }
}

fn position(subject: &Subject) -> Vec<u8> {
    match subject {
        Subject::User(user) => [vec![USERS], user.id.to_bytes()].concat(),
        Subject::Key(key) => [vec![KEYS], key.id.to_bytes()].concat(),
    }
}

impl Explainer {
    /// Returns those who have a scope now: users, then keys, each in the order of their creation.
    pub(super) fn who_has(
        &self,
        tx: &ReadTx,
        place: &Place,
        wanted: Wanted,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<SubjectPage, StoreError> {
        let (mut page, closed) = (SubjectPage::default(), self.tenant_block(place)?);
        let (kind, id) = match after.and_then(<[u8]>::split_first) {
            Some((kind, id)) => (*kind, Some(id)),
            None => (USERS, None),
        };
        if wanted.users && kind == USERS && self.users(tx, (place, closed), wanted.scope, id, limit, &mut page)? == Flow::Stop {
            return Ok(page);
        }
        if wanted.keys {
            let after = id.filter(|_| kind == KEYS);
            api_keys::scan(tx, place.tenant, after, |key| {
                let explained = self.key_with(tx, place, closed, &key)?;
                Ok(page.take(Subject::Key(Box::new(key)), explained, wanted.scope, limit))
            })?;
        }
        Ok(page)
    }

    fn users(
        &self,
        tx: &ReadTx,
        (place, closed): (&Place, Option<Closed>),
        scope: Scope,
        after: Option<&[u8]>,
        limit: usize,
        page: &mut SubjectPage,
    ) -> Result<Flow, StoreError> {
        let query = UserQuery {
            tenant_id: place.tenant,
            staff: Some(true),
            role: None,
            status: None,
            organization_id: None,
            text: None,
            direction: Direction::Forward,
        };
        let mut after = after.map(<[u8]>::to_vec);
        loop {
            let batch = list_users(tx, &query, after.as_deref(), BATCH, false)?;
            for user in batch.users {
                let explained = self.person_with(tx, place, closed, &user)?;
                if page.take(Subject::User(Box::new(user)), explained, scope, limit) == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            match batch.last {
                Some(last) => after = Some(last),
                None => return Ok(Flow::Continue),
            }
        }
    }

    /// Explains the rights of a user of the tenant.
    pub(super) fn person(&self, tx: &ReadTx, place: &Place, user: &User) -> Result<Explained, StoreError> {
        let closed = self.tenant_block(place)?;
        self.person_with(tx, place, closed, user)
    }

    /// Explains the rights of a key of the tenant.
    pub(super) fn key(&self, tx: &ReadTx, place: &Place, key: &ApiKey) -> Result<Explained, StoreError> {
        let closed = self.tenant_block(place)?;
        self.key_with(tx, place, closed, key)
    }

    /// Returns why no credential of the tenant works. A request of the tenant itself finds out only if this has just begun.
    fn tenant_block(&self, place: &Place) -> Result<Option<Closed>, StoreError> {
        match self.authenticator.active_tenant(place.tenant, place.guard_now) {
            Ok(_) => Ok(None),
            Err(error) => Closed::by(error).map(Some),
        }
    }

    /// Adds the limits of an authority, and what it permits unless the tenant is closed.
    fn settle(
        tx: &impl Read,
        place: &Place,
        explained: &mut Explained,
        authority: &Authority,
        closed: Option<Closed>,
    ) -> Result<(), StoreError> {
        words::add_limits(explained, authority, |id| organization_name(tx, place, id))?;
        explained.hold(authority.scopes(), closed);
        Ok(())
    }
}

/// Why no credential of a tenant works.
#[derive(Clone, Copy, Debug)]
struct Closed(ReasonCode);

impl Closed {
    fn by(error: CredentialError) -> Result<Self, StoreError> {
        match error {
            CredentialError::TenantSuspended => Ok(Self(ReasonCode::TenantSuspended)),
            CredentialError::Store(error) => Err(error),
            _ => Ok(Self(ReasonCode::TenantClosed)),
        }
    }
}

/// The name of an organization, or its id if the reader may not see its name.
fn organization_name(tx: &impl Read, place: &Place, id: OrganizationId) -> Result<String, StoreError> {
    let is_named = place.named.as_ref().is_some_and(|reach| reach.covers(Some(id)));
    let known = if is_named { directory::organization(tx, place.tenant, id)? } else { None };
    Ok(known.map_or_else(|| id.to_string(), |organization| organization.name))
}

/// The name of the person of a personal key.
fn person_name(tx: &impl Read, tenant: TenantId, id: UserId) -> Result<String, StoreError> {
    Ok(directory::person(tx, tenant, id)?.map_or_else(|| id.to_string(), |person| person.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_tenant_takes_every_scope_with_its_reason() {
        for (error, code) in [
            (CredentialError::TenantSuspended, ReasonCode::TenantSuspended),
            (CredentialError::TenantClosed("This evaluation has ended."), ReasonCode::TenantClosed),
            (CredentialError::Invalid("The tenant of this credential no longer exists."), ReasonCode::TenantClosed),
        ] {
            let closed = Closed::by(error).unwrap();
            let mut explained = Explained::new();
            let given = Grants::of(&[Scope::TicketsRead]);
            explained.gives(given, ReasonCode::OwnList, "The list of the key includes it.");
            explained.hold(given, Some(closed));
            assert_eq!(explained.held, Grants::NONE);
            let codes: Vec<(Effect, ReasonCode)> =
                explained.of_scope(Scope::TicketsRead).map(|reason| (reason.effect, reason.code)).collect();
            assert_eq!(codes, [(Effect::Gives, ReasonCode::OwnList), (Effect::TakesAway, code)]);
        }
    }
}
