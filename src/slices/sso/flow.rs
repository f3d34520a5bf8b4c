//! Signing in through a provider: the redirect to the provider, the callback, and the decision who may sign in.
//!
//! **Invariant:** every callback ends either in a session or in one event with the reason, and its state never works again. A start
//! that fails because of the provider is recorded in the same way, but at most once a minute for each provider. An unknown domain
//! takes the same steps as a domain whose provider is disabled. A test takes the same steps too, but signs nobody in. It only
//! stores its outcome for the administrators.

use std::time::Duration;

use tenantd_auth::{AuthError, Browser, Login, RefusalReason, RefusedSignIn, SessionSignOn, SignInMethod, Users};
use tenantd_base::{
    access::{Role, StaffRole, TenantKind},
    clock::Timestamp,
    id::{IdentityProviderId, TenantId},
    return_path::ReturnPath,
    secrets::Sealer,
};
use tenantd_directory::{
    self as directory, Directory, DirectoryError, LinkedIdentity, NewUser, Standing, User, UserStatus, normalize_email,
};
use tenantd_egress::{Audience, Egress};
use tenantd_platform::{TenantError, Tenants};
use tenantd_store::{
    Read, Store, WriteTx,
    events::{Act, Actor},
};

use super::{
    discovery::Discovery,
    error::SsoError,
    exchange::{Claims, ProviderClient, short_error},
    groups::groups,
    model::{Domain, IdentityProvider, SignOnFailure, TestSignIn},
    repo::{self, ProviderKey, history, sealed_place},
    ticket::{Issued, Purpose, Redirect, Ticket, Tickets, state_digest},
    transport::Transport,
};

/// Anyone can start sign-ons, so a start that fails is recorded only if the provider's last failure is older than this.
const START_FAILURE_INTERVAL: Duration = Duration::from_mins(1);
const NO_PROVIDER: ProviderKey = (TenantId::from_bytes([0; 16]), IdentityProviderId::from_bytes([0; 16]));

#[derive(Clone, Debug)]
pub(super) struct SignOn {
    pub(super) store: Store,
    pub(super) sealer: Sealer,
    pub(super) egress: Egress,
    pub(super) tenants: Tenants,
    pub(super) users: Users,
    pub(super) directory: Directory,
    pub(super) discovery: Discovery,
    pub(super) tickets: Tickets,
}

/// A request to sign in.
#[derive(Debug)]
pub(super) struct SignOnRequest {
    pub(super) target: SignOnTarget,
    pub(super) return_to: ReturnPath,
    pub(super) login_hint: Option<String>,
    /// Whether the person must authenticate again.
    pub(super) fresh: bool,
}

/// What names the provider of a sign-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SignOnTarget {
    Domain(Domain),
    /// A provider of the tenant with this id or slug.
    Provider(String, IdentityProviderId),
    /// The provider that started a session.
    Session(ProviderKey),
}

/// A started sign-on.
#[derive(Debug)]
pub(super) struct StartedSignOn {
    pub(super) provider: IdentityProvider,
    pub(super) redirect_url: String,
    pub(super) state: String,
    pub(super) cookie: String,
    pub(super) expires_at: Timestamp,
}

/// The outcome of a sign-on.
#[derive(Debug)]
pub(super) enum SignOnOutcome {
    SignedIn(Box<Login>, ReturnPath),
    /// A test, which signs nobody in. `reason` is why a real sign-on would have failed.
    Tested {
        test: TestSignIn,
        reason: Option<RefusalReason>,
    },
}

/// The parameters of the callback.
#[derive(Debug, Default)]
pub(super) struct Callback {
    pub(super) state: Option<String>,
    pub(super) code: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
    pub(super) cookie: Option<String>,
    /// The provider in the path of the callback.
    pub(super) path: Option<IdentityProviderId>,
    pub(super) browser: Browser,
}

impl SignOn {
    fn find(&self, target: &SignOnTarget) -> Result<Option<IdentityProvider>, SsoError> {
        Ok(match target {
            SignOnTarget::Domain(domain) => self.store.read(|tx| repo::by_domain(tx, domain))?,
            SignOnTarget::Session(key) => self.store.read(|tx| repo::get(tx, *key))?,
            SignOnTarget::Provider(tenant, id) => {
                let tenant = self.tenant_named(tenant)?.unwrap_or(NO_PROVIDER.0);
                self.store.read(|tx| repo::get(tx, (tenant, *id)))?.filter(IdentityProvider::has_proven_domain)
            }
        })
    }

    /// The tenant with this id or slug.
    fn tenant_named(&self, name: &str) -> Result<Option<TenantId>, SsoError> {
        let name = name.trim().to_lowercase();
        let Ok(id) = name.parse::<TenantId>() else {
            return Ok(self.store.read(|tx| self.tenants.find(tx, &name))?.map(|tenant| tenant.id));
        };
        Ok(Some(id))
    }

    /// The providers of a tenant that its staff can choose from. Their domains are not shown to strangers. An unknown tenant has
    /// none.
    pub(super) fn choices(&self, tenant: &str) -> Result<Vec<IdentityProvider>, SsoError> {
        let Some(id) = self.tenant_named(tenant)? else { return Ok(Vec::new()) };
        if !self.is_active(id)? {
            return Ok(Vec::new());
        }
        let mut found = self.store.read(|tx| repo::list(tx, id))?;
        found.retain(|provider| provider.enabled && provider.has_proven_domain());
        Ok(found)
    }

    /// `redirect` returns where a provider sends people back to.
    pub(super) async fn begin(
        &self,
        request: SignOnRequest,
        redirect: impl Fn(&IdentityProvider) -> Redirect,
        now: Timestamp,
    ) -> Result<StartedSignOn, SsoError> {
        let found = self.find(&request.target)?;
        let found = found.filter(|provider| provider.enabled);
        let key = found.as_ref().map_or(NO_PROVIDER, |provider| (provider.tenant_id, provider.id));
        let active = self.is_active(key.0)?;
        let redirect = found.as_ref().map_or_else(|| Redirect { uri: String::new(), is_own: false }, redirect);
        let purpose = Purpose::SignIn { return_to: request.return_to, fresh: request.fresh };
        let Issued { state, cookie, ticket } = self.tickets.issue(key, redirect, purpose, now)?;
        let provider = found.filter(|_| active).ok_or(SsoError::NoProvider)?;
        let client = self.client(&provider, now)?;
        let redirect_url = match client.authorization_url(&state, &ticket, request.login_hint.as_deref()).await {
            Ok(redirect_url) => redirect_url,
            Err(error) => {
                let failed = self.failure(key.0, &error, now);
                if let Some((reason, failure)) = failed {
                    self.note_failed_start(key, reason, failure, now).await;
                }
                return Err(error);
            }
        };
        Ok(StartedSignOn { redirect_url, state, cookie, expires_at: ticket.expires_at, provider })
    }

    /// Starts a test of the provider that a link names. A disabled provider can be tested too.
    pub(super) async fn begin_test(
        &self,
        link: &str,
        redirect: impl Fn(&IdentityProvider) -> Redirect,
        now: Timestamp,
    ) -> Result<StartedSignOn, SsoError> {
        let key = self.tickets.open_test(link, now).ok_or(SsoError::NotFound)?;
        let provider = self.store.read(|tx| repo::get(tx, key))?.ok_or(SsoError::NotFound)?;
        if !self.is_active(key.0)? {
            return Err(SsoError::NotFound);
        }
        let Issued { state, cookie, ticket } = self.tickets.issue(key, redirect(&provider), Purpose::Test, now)?;
        let redirect_url = self.client(&provider, now)?.authorization_url(&state, &ticket, None).await?;
        Ok(StartedSignOn { redirect_url, state, cookie, expires_at: ticket.expires_at, provider })
    }

    fn is_active(&self, tenant: TenantId) -> Result<bool, SsoError> {
        let tenant = self.tenants.cached(tenant)?;
        Ok(tenant.as_ref().as_ref().is_some_and(|tenant| tenant.status.is_open()))
    }

    pub(super) fn client<'a>(&'a self, provider: &'a IdentityProvider, now: Timestamp) -> Result<ProviderClient<'a>, SsoError> {
        let key = (provider.tenant_id, provider.id);
        let secret = self.sealer.open(sealed_place(&key, &provider.issuer), &provider.client_secret)?;
        let tenant = self.tenants.cached(provider.tenant_id)?;
        let kind = tenant.as_ref().as_ref().map_or(TenantKind::Standard, |tenant| tenant.kind);
        let transport = Transport { egress: self.egress.clone(), audience: audience_of(kind) };
        Ok(ProviderClient { provider, secret, transport, discovery: &self.discovery, now })
    }

    /// Ends a sign-on: signs the user in, or records the reason for the refusal.
    pub(super) async fn finish(&self, answer: Callback, now: Timestamp) -> Result<SignOnOutcome, SsoError> {
        let ticket = answer.cookie.as_deref().and_then(|cookie| self.tickets.open_ticket(cookie));
        let state = answer.state.as_deref().and_then(|state| self.tickets.open_state(state));
        let known = ticket.as_ref().map(|ticket| ticket.provider).or(state.as_ref().map(|state| state.provider));
        // Neither the state nor the ticket is valid, so the tenant is unknown.
        let Some(key) = known else { return Err(SsoError::Refused(RefusalReason::StateMismatch)) };
        let state = answer.state.as_deref().zip(state.map(|state| state.expires_at));
        let is_test = ticket.as_ref().is_some_and(|ticket| ticket.test);
        let error = match self.complete(&answer, state, ticket, now).await {
            Ok(finished) => return Ok(finished),
            Err(error) => error,
        };
        let Some((reason, failure)) = self.failure(key.0, &error, now) else { return Err(error) };
        if is_test {
            let test = TestSignIn { at: failure.at, failure: Some(failure), email: None, creates_user: false, role: None };
            return self.end_test(key, test, Some(reason)).await;
        }
        self.note_refusal(key, reason, failure, now, Duration::ZERO).await?;
        Err(error)
    }

    /// What administrators see of an error. `None` if the error says nothing about the sign-on, such as a store error.
    fn failure(&self, tenant: TenantId, error: &SsoError, now: Timestamp) -> Option<(RefusalReason, SignOnFailure)> {
        let (reason, cause) = match error {
            SsoError::Refused(reason) => (*reason, None),
            SsoError::RefusedByProvider { reason, cause } => (*reason, Some(cause.as_str())),
            SsoError::ProviderError(cause) => (RefusalReason::ProviderUnavailable, Some(cause.as_str())),
            SsoError::ProviderTimeout => (RefusalReason::ProviderUnavailable, Some("the provider did not respond in time")),
            _ => return None,
        };
        let at = self.tenants.guard_time_in(tenant, now);
        Some((reason, SignOnFailure::new(at, reason.name(), cause)))
    }

    async fn end_test(&self, key: ProviderKey, test: TestSignIn, reason: Option<RefusalReason>) -> Result<SignOnOutcome, SsoError> {
        let recorded = test.clone();
        self.store.write(move |tx| Ok::<_, SsoError>(history::record_test(tx, key, recorded.clone())?)).await?;
        Ok(SignOnOutcome::Tested { test, reason })
    }

    async fn complete(
        &self,
        answer: &Callback,
        state: Option<(&str, Timestamp)>,
        ticket: Option<Ticket>,
        now: Timestamp,
    ) -> Result<SignOnOutcome, SsoError> {
        let refused = |reason| Err(SsoError::Refused(reason));
        let Some((state, expires_at)) = state else { return refused(RefusalReason::StateMismatch) };
        // The state is used up first, even if a later check fails. A state that others may have seen must not work again.
        let spent = state_digest(state);
        if !self.store.write(move |tx| Ok::<_, SsoError>(repo::spend(tx, &spent, expires_at)?)).await? {
            return refused(RefusalReason::Replayed);
        }
        let Some(ticket) = ticket.filter(|ticket| ticket.belongs_to(state)) else { return refused(RefusalReason::StateMismatch) };
        if now >= ticket.expires_at {
            return refused(RefusalReason::SignOnExpired);
        }
        let key = ticket.provider;
        let active = self.is_active(key.0)?;
        let provider = self.store.read(|tx| repo::get(tx, key))?.filter(|provider| (provider.enabled || ticket.test) && active);
        let Some(provider) = provider else { return refused(RefusalReason::ProviderGone) };
        // An answer at the address of another provider may carry a code of that provider.
        if answer.path != ticket.own_redirect.then_some(key.1) {
            return refused(RefusalReason::WrongIssuer);
        }
        if answer.issuer.as_ref().is_some_and(|issuer| *issuer != provider.issuer) {
            return refused(RefusalReason::WrongIssuer);
        }
        if let Some(error) = &answer.error {
            return Err(SsoError::RefusedByProvider { reason: RefusalReason::ProviderRefused, cause: short_error(error) });
        }
        let Some(code) = answer.code.as_deref() else { return refused(RefusalReason::ProviderRefused) };
        let client = self.client(&provider, now)?;
        // Without an issuer, the code may come from another provider that uses the same redirect URI, and must not be sent to this one.
        if answer.issuer.is_none() && client.sends_issuer().await? {
            return refused(RefusalReason::WrongIssuer);
        }
        let claims = client.claims(code, &ticket).await?;
        if ticket.test {
            let Preview { email, creates_user, role } = self.store.read(|tx| preview(tx, &provider, &claims))?;
            let at = self.tenants.guard_time_in(key.0, now);
            let test = TestSignIn { at, failure: None, email: Some(email), creates_user, role: Some(role) };
            return self.end_test(key, test, None).await;
        }
        let login = self.sign_in(&provider, claims, answer.browser.clone(), now).await?;
        Ok(SignOnOutcome::SignedIn(Box::new(login), ticket.return_to))
    }

    async fn sign_in(
        &self,
        provider: &IdentityProvider,
        claims: Claims,
        browser: Browser,
        now: Timestamp,
    ) -> Result<Login, SsoError> {
        let intent = self.tenants.guarding_intent(provider.tenant_id, now, Actor::system("single sign-on"));
        let (this, key, issuer) = (self.clone(), (provider.tenant_id, provider.id), provider.issuer.clone());
        let work = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            // The provider, its domains and its tenant may have changed during the exchange.
            let is_open = match this.tenants.get(tx, key.0) {
                Ok(tenant) => tenant.status.is_open(),
                Err(TenantError::Store(error)) => return Err(error.into()),
                Err(_) => false,
            };
            let provider = repo::get(tx, key)?.filter(|provider| provider.enabled && provider.issuer == issuer);
            let provider = provider.filter(|_| is_open).ok_or(SsoError::Refused(RefusalReason::ProviderGone))?;
            let email = trusted_email(&provider, &claims)?;
            let role = mapped_role(&provider, &claims)?;
            let mut user = this.match_user(tx, &mut act, &provider, &claims, &email, role)?;
            if let Some(role) = role {
                user = this.users.assign_role(tx, &mut act, user, role.into())?;
            }
            history::record_success(tx, key, act.now)?;
            let sign_on = SessionSignOn {
                identity_provider_id: key.1,
                sid: claims.sid.clone(),
                acr: claims.acr.clone(),
                amr: claims.amr.clone(),
            };
            Ok(this.users.sign_on_proven(tx, &mut act, user, sign_on, claims.authenticated_at, &browser)?)
        };
        self.store.write(work).await
    }

    /// The user that the claims describe. Links or creates the user if necessary.
    fn match_user(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        provider: &IdentityProvider,
        claims: &Claims,
        email: &str,
        role: Option<Role>,
    ) -> Result<User, SsoError> {
        let user = match find_account(tx, provider, claims, email)? {
            Account::Linked(user) => return Ok(user),
            Account::Unlinked(user) => user,
            Account::New => self.create_user(tx, act, role.unwrap_or(provider.default_role), claims, email)?,
        };
        let identity = LinkedIdentity {
            identity_provider_id: provider.id,
            issuer: provider.issuer.clone(),
            subject: claims.subject.clone(),
            linked_at: act.now,
        };
        let before = user.sso.as_ref().map(|before| (provider.tenant_id, before.identity_provider_id));
        let was_open = before.map(|key| repo::get(tx, key)).transpose()?.flatten().is_some_and(|before| before.enabled);
        Ok(self.users.link_identity(tx, act, &user, identity, was_open)?)
    }

    fn create_user(&self, tx: &mut WriteTx, act: &mut Act, role: Role, claims: &Claims, email: &str) -> Result<User, SsoError> {
        let new = NewUser {
            external_id: None,
            email: Some(email.to_owned()),
            name: claims.name.clone().unwrap_or_else(|| email.to_owned()),
            standing: Standing::Staff { role: role.into(), organization_ids: None },
        };
        match self.directory.create_user(tx, act, &new) {
            // A contact of the tenant has this address.
            Err(DirectoryError::EmailTaken) => Err(SsoError::Refused(RefusalReason::AddressTaken)),
            created => Ok(created?),
        }
    }

    /// Records that a sign-on could not start. The caller gets the provider's error even if this fails.
    async fn note_failed_start(&self, key: ProviderKey, reason: RefusalReason, failure: SignOnFailure, now: Timestamp) {
        let at = failure.at;
        let noted = match self.store.read(|tx| history::has_failed_within(tx, key, START_FAILURE_INTERVAL, at)) {
            // Most repetitions end here and do not reach the writer.
            Ok(true) => return,
            Ok(false) => self.note_refusal(key, reason, failure, now, START_FAILURE_INTERVAL).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = noted {
            tracing::warn!(provider = %key.1, %error, "a failed sign-on could not be recorded");
        }
    }

    /// Records a refusal, unless the provider's last failure is less than `interval` old.
    async fn note_refusal(
        &self,
        (tenant, id): ProviderKey,
        reason: RefusalReason,
        failure: SignOnFailure,
        now: Timestamp,
        interval: Duration,
    ) -> Result<(), SsoError> {
        let intent = self.tenants.guarding_intent(tenant, now, Actor::system("single sign-on"));
        let users = self.users.clone();
        let work = move |tx: &mut WriteTx| {
            if history::has_failed_within(tx, (tenant, id), interval, failure.at)? {
                return Ok(());
            }
            let name = repo::get(tx, (tenant, id))?.map(|provider| provider.name);
            history::record_failure(tx, (tenant, id), failure.clone())?;
            let method = SignInMethod::Sso;
            let refused = RefusedSignIn { method, reason, user: None, identity_provider: Some((id, name)) };
            users.note_refusal(tx, &mut intent.begin(), &refused)
        };
        Ok(self.store.write::<_, AuthError>(work).await?)
    }
}

/// An evaluation tenant may have its provider on this machine.
pub(super) fn audience_of(kind: TenantKind) -> Audience {
    Audience { allow_loopback: kind == TenantKind::Evaluation }
}

/// The account that claims identify.
enum Account {
    /// Found by the provider's subject.
    Linked(User),
    /// Found by its e-mail address.
    Unlinked(User),
    New,
}

/// Finds the account that the claims describe. The subject has priority: an address can be reassigned, a subject cannot.
fn find_account(tx: &impl Read, provider: &IdentityProvider, claims: &Claims, email: &str) -> Result<Account, SsoError> {
    if let Some(user) = directory::staff_by_identity(tx, provider.tenant_id, &provider.issuer, &claims.subject)? {
        return may_sign_in(user).map(Account::Linked);
    }
    match directory::staff_of_tenant(tx, provider.tenant_id, email)? {
        Some(user) if user.sso.as_ref().is_some_and(|known| known.issuer == provider.issuer) => {
            Err(SsoError::Refused(RefusalReason::OtherIdentity))
        }
        Some(user) => may_sign_in(user).map(Account::Unlinked),
        None if provider.auto_provision => Ok(Account::New),
        None => Err(SsoError::Refused(RefusalReason::NoAccount)),
    }
}

/// The result of a sign-on with these claims.
struct Preview {
    email: String,
    creates_user: bool,
    /// The role that the person would have.
    role: StaffRole,
}

fn preview(tx: &impl Read, provider: &IdentityProvider, claims: &Claims) -> Result<Preview, SsoError> {
    let email = trusted_email(provider, claims)?;
    let mapped = mapped_role(provider, claims)?;
    let (creates_user, current) = match find_account(tx, provider, claims, &email)? {
        Account::New => (true, None),
        Account::Linked(user) | Account::Unlinked(user) => (false, user.role()),
    };
    Ok(Preview { email, creates_user, role: mapped.map(Into::into).or(current).unwrap_or(provider.default_role.into()) })
}

/// The role that the groups of a person give. `None` if groups change no role.
fn mapped_role(provider: &IdentityProvider, claims: &Claims) -> Result<Option<Role>, SsoError> {
    if provider.rules.role_mappings.is_empty() {
        return Ok(None);
    }
    let groups = groups(&claims.others, &provider.rules.groups_claim).map_err(SsoError::Refused)?;
    provider.rules.role_of(&groups, provider.default_role).map_err(SsoError::Refused)
}

fn may_sign_in(user: User) -> Result<User, SsoError> {
    match (user.status, user.role()) {
        (UserStatus::Active, Some(_)) => Ok(user),
        _ => Err(SsoError::Refused(RefusalReason::AccountDisabled)),
    }
}

/// The address, if the provider has verified it and has proven its domain.
fn trusted_email(provider: &IdentityProvider, claims: &Claims) -> Result<String, SsoError> {
    let email = claims.email.as_deref().ok_or(SsoError::Refused(RefusalReason::EmailMissing))?;
    if !claims.email_verified {
        return Err(SsoError::Refused(RefusalReason::EmailNotVerified));
    }
    let email = normalize_email(email).map_err(|_| SsoError::Refused(RefusalReason::EmailMissing))?;
    let owned = Domain::of_email(&email).is_some_and(|domain| provider.answers_for(&domain));
    if owned { Ok(email) } else { Err(SsoError::Refused(RefusalReason::ForeignDomain)) }
}
