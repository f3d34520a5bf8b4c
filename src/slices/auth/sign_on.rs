//! Single sign-on as this slice sees it: what identity providers say about other ways to sign in, the sessions that they have
//! started, and the roles that they assign.
//!
//! **Boundary:** this slice knows no provider. `sso` passes [`SignOnRules`] in and calls the use cases of this file.

use std::collections::{BTreeMap, BTreeSet};

use tenantd_api_keys::PauseReason;
use tenantd_base::{
    access::{StaffRole, TenantKind},
    clock::Timestamp,
    id::{IdentityProviderId, TenantId, UserId},
    secrets::digest,
    versions::ExpectedVersion,
};
use tenantd_directory::{self as directory, DirectoryError, LinkedIdentity, User, UserChange, staff_authority};
use tenantd_platform::Tenant;
use tenantd_store::{
    Read, ReadTx, StoreError, WriteTx,
    events::{self, Act, Draft, EventKind},
};

use super::{
    error::{AuthError, TenantChoice},
    model::{Browser, RefusalReason, RefusedSignIn, Session, SessionSignOn, SignInMethod},
    openers::ProviderLink,
    repo::{self, TokenDigest, factors::has_own_way_in},
    service::{LOGGED_IN, Login, SESSIONS_ENDED, Users},
};

pub(super) static BREAK_GLASS_USED: EventKind = EventKind {
    name: "auth.break_glass_used",
    summary: "A break-glass account signed in without its provider although single sign-on is enforced.",
    ..LOGGED_IN
};

/// What the identity providers of a tenant say about signing in without them.
#[derive(Clone, Copy, Debug)]
pub struct SignOnRules {
    pub access: fn(&WriteTx, &User) -> Result<PasswordAccess, StoreError>,
    /// The same, without a write transaction.
    pub access_of_reader: fn(&ReadTx, &User) -> Result<PasswordAccess, StoreError>,
    /// Whether any provider of the tenant enforces single sign-on.
    pub is_enforced: fn(&WriteTx, TenantId) -> Result<bool, StoreError>,
    /// Whether the user is linked to a provider that they can sign in through now.
    pub has_link: fn(&WriteTx, &User) -> Result<bool, StoreError>,
}

/// Whether a member of staff can sign in without a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordAccess {
    Free,
    /// Single sign-on is enforced, but not on this account.
    BreakGlass,
    Refused(RequiredProvider),
}

/// The provider that a member of staff must sign in through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredProvider {
    pub id: IdentityProviderId,
    pub name: String,
}

/// Where somebody must sign in instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredSignOn {
    pub provider: RequiredProvider,
    pub tenant: TenantChoice,
}

/// A session that has ended at a provider, or all sessions of a person there.
#[derive(Clone, Debug)]
pub struct EndedSignOn {
    pub provider: IdentityProviderId,
    /// The provider's name for the session. `None`: all sessions of the person.
    pub sid: Option<String>,
    /// `None` if the provider named only the session.
    pub user: Option<UserId>,
}

impl EndedSignOn {
    /// Whether this ends a session of ours. A session whose `sid` is unknown ends with any session of its person.
    fn ends(&self, session: &Session) -> bool {
        let Some(sign_on) = session.sign_on.as_ref().filter(|known| known.identity_provider_id == self.provider) else {
            return false;
        };
        let is_of_person = self.user.is_none_or(|user| user == session.user_id);
        match (&self.sid, &sign_on.sid) {
            (Some(ended), Some(known)) => ended == known && is_of_person,
            (Some(_), None) => self.user == Some(session.user_id),
            (None, _) => self.user.is_some() && is_of_person,
        }
    }
}

/// The sessions that have ended at a provider. One can be found twice, by its name and by its person.
fn ended_sessions(tx: &impl Read, tenant: TenantId, ended: &EndedSignOn) -> Result<Vec<(Session, TokenDigest)>, StoreError> {
    let mut found = Vec::new();
    if let Some(sid) = &ended.sid {
        found.extend(repo::sessions_of_sid(tx, (tenant, ended.provider), sid)?);
    }
    if let Some(user) = ended.user {
        found.extend(repo::sessions_of(tx, (tenant, user), None, usize::MAX)?);
    }
    found.retain(|(session, _)| ended.ends(session));
    Ok(found)
}

impl Users {
    /// Where the user must sign in instead of using a password. `None` if they may use one.
    pub(super) fn required_sign_on(&self, tx: &WriteTx, user: &User) -> Result<Option<RequiredSignOn>, AuthError> {
        self.sign_on_of((self.sign_on_rules.access)(tx, user)?, user)
    }

    /// The same, without a write transaction.
    pub(super) fn required_sign_on_of_reader(&self, tx: &ReadTx, user: &User) -> Result<Option<RequiredSignOn>, AuthError> {
        self.sign_on_of((self.sign_on_rules.access_of_reader)(tx, user)?, user)
    }

    fn sign_on_of(&self, access: PasswordAccess, user: &User) -> Result<Option<RequiredSignOn>, AuthError> {
        let PasswordAccess::Refused(provider) = access else { return Ok(None) };
        let tenant = self.tenant(user.tenant_id)?.as_ref().map(TenantChoice::of).ok_or(AuthError::Refused)?;
        Ok(Some(RequiredSignOn { provider, tenant }))
    }

    /// Starts a session without a provider, or records why the user must use one.
    pub(super) fn sign_in_without_provider(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: User,
        methods: &[SignInMethod],
        browser: &Browser,
    ) -> Result<Result<Login, RequiredSignOn>, AuthError> {
        if let Some(required) = self.required_sign_on(tx, &user)? {
            let refused = RefusedSignIn {
                method: methods.first().copied().unwrap_or(SignInMethod::Password),
                reason: RefusalReason::SingleSignOnRequired,
                user: Some((user.id, user.name.clone())),
                identity_provider: None,
            };
            self.note_refusal(tx, act, &refused)?;
            return Ok(Err(required));
        }
        let is_exempt = (self.sign_on_rules.access)(tx, &user)? == PasswordAccess::BreakGlass;
        let login = self.sign_in_proven(tx, act, user, methods, browser)?;
        if is_exempt {
            let shown = self.directory.show_user(tx, &login.user)?;
            let draft = Draft::new(&BREAK_GLASS_USED, login.user.id.to_string(), login.user.version, &shown);
            events::append(tx, act, &draft)?;
        }
        Ok(Ok(login))
    }

    /// Starts a session for a user whom a provider has identified. `authenticated_at` is when they authenticated there, if the
    /// provider says so.
    pub fn sign_on_proven(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: User,
        sign_on: SessionSignOn,
        authenticated_at: Option<Timestamp>,
        browser: &Browser,
    ) -> Result<Login, AuthError> {
        let mut login = self.sign_in_proven(tx, act, user, &[SignInMethod::Sso], browser)?;
        login.session.sign_on = Some(sign_on);
        login.session.proven_at = authenticated_at.unwrap_or(login.session.proven_at).min(login.session.proven_at);
        repo::put_session(tx, &digest(login.token.expose().as_bytes()), &login.session)?;
        Ok(login)
    }

    /// Links a user to the identity that a provider has proven. `was_open` says whether the provider of an earlier link still signs the
    /// user in. If it does not, and the user has neither a password nor a passkey, their personal keys have stopped with it, and the new
    /// link must not revive them.
    pub fn link_identity(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: &User,
        identity: LinkedIdentity,
        was_open: bool,
    ) -> Result<User, AuthError> {
        if !was_open && !has_own_way_in(tx, (user.tenant_id, user.id))? {
            self.owners.revoke_personal_keys(tx, act, user.id)?;
        }
        Ok(self.directory.link_user(tx, act, user, Some(identity))?)
    }

    /// Ends the sessions of all staff of the act's tenant who must sign in through a provider and did not.
    pub fn end_sessions_without_provider(&self, tx: &mut WriteTx, act: &mut Act) -> Result<(), AuthError> {
        for user in directory::staff(tx, act.tenant_id, usize::MAX)? {
            self.end_sessions_of_refused(tx, act, &user)?;
        }
        Ok(())
    }

    /// Ends the sessions of a user without a provider, if they must sign in through one.
    pub(super) fn end_sessions_of_refused(&self, tx: &mut WriteTx, act: &mut Act, user: &User) -> Result<(), AuthError> {
        if !matches!((self.sign_on_rules.access)(tx, user)?, PasswordAccess::Refused(_)) {
            return Ok(());
        }
        let key = (user.tenant_id, user.id);
        repo::remove_password_tokens_of(tx, key)?;
        repo::remove_sign_in_links_of(tx, key)?;
        let sessions = repo::sessions_of(tx, key, None, usize::MAX)?;
        let is_other = |(session, _): &(Session, TokenDigest)| session.sign_on.is_none();
        let others = sessions.into_iter().filter(is_other).map(|(_, token)| token);
        self.end_some(tx, act, user, others)
    }

    /// Whether there is a session that `end_sign_on_sessions` would end.
    pub fn has_sign_on_sessions(&self, tenant: TenantId, ended: &EndedSignOn) -> Result<bool, AuthError> {
        Ok(!self.store.read(|tx| ended_sessions(tx, tenant, ended))?.is_empty())
    }

    /// Ends sessions on behalf of the provider that has started them. Returns how many.
    pub fn end_sign_on_sessions(&self, tx: &mut WriteTx, act: &mut Act, ended: &EndedSignOn) -> Result<usize, AuthError> {
        let mut by_user: BTreeMap<UserId, BTreeSet<TokenDigest>> = BTreeMap::new();
        for (session, token) in ended_sessions(tx, act.tenant_id, ended)? {
            by_user.entry(session.user_id).or_default().insert(token);
        }
        let mut count = 0;
        for (id, tokens) in by_user {
            count += tokens.len();
            let Some(user) = directory::user(tx, act.tenant_id, id)? else { continue };
            self.end_some(tx, act, &user, tokens)?;
        }
        Ok(count)
    }

    fn end_some(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        user: &User,
        tokens: impl IntoIterator<Item = TokenDigest>,
    ) -> Result<(), AuthError> {
        let mut tokens = tokens.into_iter().peekable();
        if tokens.peek().is_none() {
            return Ok(());
        }
        for token in tokens {
            repo::remove_session(tx, &token)?;
        }
        let shown = self.directory.show_user(tx, user)?;
        events::append(tx, act, &Draft::new(&SESSIONS_ENDED, user.id.to_string(), user.version, &shown))?;
        Ok(())
    }

    /// Gives a user the role that a provider assigns. Keys that the new role does not cover are paused. The last administrator, the
    /// last one who can sign in if the provider fails, and break-glass accounts keep their role.
    pub fn assign_role(&self, tx: &mut WriteTx, act: &mut Act, user: User, role: StaffRole) -> Result<User, AuthError> {
        let is_exempt = (self.sign_on_rules.access)(tx, &user)? == PasswordAccess::BreakGlass;
        if user.role() == Some(role) || is_exempt || self.gives_the_only_way_in(tx, &user, act.guard_time())? {
            return Ok(user);
        }
        let change = UserChange { role: Some(role), ..UserChange::default() };
        match self.directory.update_user(tx, act, user.id, &ExpectedVersion::Any, &change) {
            Ok(after) => {
                let kind = self.tenant(user.tenant_id)?.map_or(TenantKind::Standard, |tenant: Tenant| tenant.kind);
                self.settle_role(tx, act, &user, &after, kind)?;
                self.settle_openers(tx, act, after, kind, ProviderLink::Stays)
            }
            Err(DirectoryError::LastAdmin) => Ok(user),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes away what the previous role and organizations of a user gave: keys that are no longer covered, and links for the old
    /// account.
    pub(super) fn settle_role(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: &User,
        after: &User,
        kind: TenantKind,
    ) -> Result<(), AuthError> {
        if after.standing == before.standing {
            return Ok(());
        }
        let (had, has) = (staff_authority(tx, before, kind)?, staff_authority(tx, after, kind)?);
        if let Some(kept) = has.filter(|has| had.is_some_and(|had| !has.covers(&had))) {
            self.owners.pause_keys_of(tx, act, after.id, PauseReason::Demoted, Some((&kept, kind)))?;
        }
        repo::remove_password_tokens_of(tx, (after.tenant_id, after.id))?;
        repo::remove_sign_in_links_of(tx, (after.tenant_id, after.id))?;
        Ok(())
    }
}
