//! Sign-in links of evaluation tenants. A link contains a random token that signs in one user without a password, once within a
//! day.
//!
//! **Invariant:** the store has only the digest of a token, and only staff of evaluation tenants have links. A link stops working
//! when the role, the address or the password of its user changes, when the user is disabled or removed, and when the tenant is
//! reset. While the tenant is suspended, no link works.

use std::time::Duration;

use tenantd_base::{
    access::TenantKind,
    clock::Timestamp,
    id::TenantId,
    secrets::{Secret, digest},
};
use tenantd_directory::{self as directory, User, UserStatus, normalize_email};
use tenantd_platform::{Tenant, TenantError};
use tenantd_store::{
    Read, StoreError, WriteTx,
    events::{Act, Actor},
};

use super::{
    error::AuthError,
    model::{Browser, RefusalReason, RefusedSignIn, SignInMethod},
    repo::{self, SignInLinkRecord},
    service::{Login, Users, actor_of, new_token},
};

const LINK_LIFE: Duration = Duration::from_hours(24);

/// Whether users of the tenant can sign in with links now.
fn takes_links(tenant: &Tenant, now: Timestamp) -> bool {
    tenant.kind == TenantKind::Evaluation && tenant.status.is_open() && !tenant.is_over(now)
}

/// Whether the link can sign the user in now. The account must not have changed since the link was issued.
fn works(link: &SignInLinkRecord, user: &User, tenant: &Tenant, now: Timestamp) -> bool {
    let is_unchanged = user.status == UserStatus::Active && user.role() == Some(link.role) && user.email == link.email;
    is_unchanged && now < link.expires_at && takes_links(tenant, now)
}

impl Users {
    /// Issues a link for a member of staff and removes their earlier links. Returns the token of the link, or `None` if no link can
    /// sign them in: the tenant is not an active evaluation tenant, or the user is missing or disabled.
    pub fn issue_sign_in_link(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        tenant: TenantId,
        email: &str,
    ) -> Result<Option<Secret>, AuthError> {
        let now = act.guard_time();
        let Some(known) = self.tenant_now(tx, tenant)?.filter(|known| takes_links(known, now)) else { return Ok(None) };
        let found = directory::staff_of_tenant(tx, known.id, &normalize_email(email)?)?;
        let Some(user) = found.filter(|user| user.status == UserStatus::Active) else { return Ok(None) };
        let Some(role) = user.role() else { return Ok(None) };
        repo::remove_sign_in_links_of(tx, (user.tenant_id, user.id))?;
        let token = new_token(act);
        let (tenant_id, user_id, expires_at) = (user.tenant_id, user.id, now + LINK_LIFE);
        let link = SignInLinkRecord { tenant_id, user_id, expires_at, role, email: user.email };
        repo::SIGN_IN_LINKS.put(tx, &digest(token.expose().as_bytes()), &link)?;
        Ok(Some(token))
    }

    /// Signs in with the token of a link, and ends the session that the browser had before. Every attempt uses up the link, even
    /// one that is refused.
    pub async fn redeem_sign_in_link(&self, token: &Secret, browser: Browser, now: Timestamp) -> Result<Login, AuthError> {
        let (users, token) = (self.clone(), digest(token.expose().as_bytes()));
        let work = move |tx: &mut WriteTx| {
            let link = repo::SIGN_IN_LINKS.remove(tx, &token)?;
            let holder = match &link {
                Some(link) => users.holder_of_link(tx, link)?,
                None => None,
            };
            let refused = match (link, holder) {
                (Some(link), Some((user, tenant))) if works(&link, &user, &tenant, now) => {
                    let intent = users.tenants.guarding_intent(tenant.id, now, actor_of(&user));
                    let mut act = intent.begin();
                    let signed_in = users.sign_in_without_provider(tx, &mut act, user, &[SignInMethod::Link], &browser)?;
                    return Ok(signed_in.map_err(|required| AuthError::SingleSignOnRequired(Box::new(required))));
                }
                (_, holder) => holder.map(|(user, _)| user),
            };
            users.note_bad_link(tx, refused, now)?;
            Ok::<_, AuthError>(Err(AuthError::BadLink))
        };
        // A refusal is recorded, so it is not an error of the transaction.
        self.store.write(work).await?
    }

    /// Returns the tenant as the transaction sees it.
    pub(super) fn tenant_now(&self, tx: &impl Read, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        match self.tenants.get(tx, id) {
            Ok(tenant) => Ok(Some(tenant)),
            Err(TenantError::Store(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Returns the user of a link with their tenant, unless the tenant is being prepared or removed: it must get no events then.
    fn holder_of_link(&self, tx: &impl Read, link: &SignInLinkRecord) -> Result<Option<(User, Tenant)>, StoreError> {
        let tenant = self.tenant_now(tx, link.tenant_id)?.filter(|tenant| tenant.status.is_settled());
        let Some(tenant) = tenant else { return Ok(None) };
        Ok(directory::user(tx, link.tenant_id, link.user_id)?.map(|user| (user, tenant)))
    }

    /// Records that a link was refused. If its user is unknown, the event goes to the operator.
    fn note_bad_link(&self, tx: &mut WriteTx, user: Option<User>, now: Timestamp) -> Result<(), AuthError> {
        let tenant = match &user {
            Some(user) => Some(user.tenant_id),
            None => self.tenants.platform(tx)?.map(|platform| platform.id),
        };
        let Some(tenant) = tenant else { return Ok(()) };
        let intent = self.tenants.guarding_intent(tenant, now, Actor::system("sign-in"));
        let user = user.map(|user| (user.id, user.name));
        let refused = RefusedSignIn { method: SignInMethod::Link, reason: RefusalReason::BadLink, user, identity_provider: None };
        self.note_refusal(tx, &mut intent.begin(), &refused)
    }
}
