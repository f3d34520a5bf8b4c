//! `/api/auth`: signing in with a password or a link, signing out, and the current credential.

use poem::Request;
use poem_openapi::{Enum, Object, OpenApi, Tags};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::{Identity, Principal, Reach, StaffRole, TenantKind},
    clock::{Clock, Timestamp},
    id::{OrganizationId, TenantId},
    secrets::Secret,
};
use tenantd_directory::UserView;
use tenantd_http::{
    context::{RequestContext, header},
    credentials::{check_same_origin, forget_session, session_cookie, session_token},
    input::Body,
    mark::{Marked, SetsCookie, SignIn, WhileFull, WithoutFactor},
    need::{Allowed, OwnAccount},
    problem::Problem,
    reply::{Answer, Empty},
};
use tenantd_platform::TenantStatus;

use super::{
    super::{
        model::{Browser, Origin},
        service::{self, Users},
        sign_in::Attempt,
    },
    OrConflict,
};

#[derive(Tags)]
pub(super) enum Area {
    /// Signing in and out.
    Authentication,
}

/// The credentials to sign in with.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
struct Login {
    /// The e-mail address of the user.
    #[oai(validator(min_length = 1, max_length = 254))]
    email: String,
    /// The password of the user.
    #[oai(write_only, validator(min_length = 1, max_length = 256))]
    password: String,
    /// The id or slug of the tenant. Required only if the password is right at several tenants: the request then fails with
    /// `tenant_required`, which lists them.
    #[oai(validator(min_length = 1, max_length = 63))]
    tenant: Option<String>,
}

/// The request to sign in with a link.
#[derive(Debug, Object)]
struct RedeemSignInLink {
    /// The token of the link: what follows `link=` in it.
    #[oai(write_only, validator(min_length = 1, max_length = 100))]
    token: String,
}

/// The request to set a password with a token.
#[derive(Debug, Object)]
struct SetPassword {
    /// The token that an administrator issued.
    #[oai(write_only, validator(min_length = 1, max_length = 100))]
    token: String,
    /// The new password, 12 to 256 characters.
    #[oai(write_only, validator(min_length = 12, max_length = 256))]
    password: String,
}

/// A new session. Its token is in the cookie.
#[derive(Debug, Object, Serialize)]
pub(super) struct LoggedIn {
    /// The user who signed in.
    user: UserView,
    /// When the session ends at the latest. It ends earlier if it is not used.
    expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
enum CredentialKind {
    User,
    ApiKey,
    LocalOperator,
    Contact,
}

/// The tenant that a credential belongs to.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
struct SessionTenant {
    /// The id of the tenant.
    id: TenantId,
    /// The name of the tenant.
    name: String,
    /// The kind of tenant: `standard`, `evaluation` or `platform`.
    kind: String,
    /// When the evaluation ends. Absent for other tenants, and for an evaluation without an end.
    expires_at: Option<Timestamp>,
    /// Whether tenantd is still writing the sample data of the evaluation. Until it is complete, changes are refused with 503
    /// `unavailable`. Absent otherwise.
    filling: Option<bool>,
}

/// The identity and the scopes of the credential.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
struct SessionInfo {
    /// The kind of credential: `user` for a session of staff, `contact` for a session in the portal, `api_key`, or `local_operator` for
    /// the admin socket.
    kind: CredentialKind,
    /// The id of the user or the API key. Absent for the local operator.
    id: Option<String>,
    /// The name of the user or the API key.
    name: String,
    /// The e-mail address of the user. Absent for other credentials.
    email: Option<String>,
    /// The role of the user: a built-in one, or the id of a custom role. Absent for other credentials.
    role: Option<StaffRole>,
    /// The tenant that the credential belongs to.
    tenant: SessionTenant,
    /// `true` if the role of the user needs a second factor that the session lacks. The session then permits only to add or prove one.
    /// Absent otherwise.
    second_factor_missing: Option<bool>,
    /// All scopes of the credential, with wildcards expanded.
    scopes: Vec<String>,
    /// The organizations that the credential is limited to. Absent: the whole tenant.
    organization_ids: Option<Vec<OrganizationId>>,
}

pub(crate) struct AuthApi {
    pub(crate) users: Users,
    pub(crate) clock: Clock,
}

#[OpenApi(prefix_path = "/api/auth", tag = "Area::Authentication")]
impl AuthApi {
    /// Sign in with a password
    ///
    /// Starts a session and sets the session cookie. If the request contains a session cookie, that session ends. After five wrong
    /// passwords for an account, tenantd refuses further attempts for a while. An address can belong to staff of several tenants;
    /// the password decides which account signs in. If the password is right for several accounts, the request fails with 409
    /// `tenant_required` and lists the tenants: repeat the request with `tenant`.
    ///
    /// If the password is right and the user has a second factor, no session starts: the request fails with 401
    /// `second_factor_required`. Send its `challenge` with the factor to `POST /api/auth/second-factor`. `methods` lists what you can
    /// send.
    #[oai(path = "/login", method = "post", operation_id = "login")]
    async fn login(
        &self,
        _cookie: Marked<SetsCookie>,
        _class: Marked<SignIn>,
        request: &Request,
        body: Body<Login>,
    ) -> Result<OrConflict<Answer<LoggedIn>>, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to sign a browser in as a different user.
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let Login { email, password, tenant } = body.0;
        let attempt = Attempt { email, password: Secret::new(password), tenant, browser: browser(request, &context) };
        let login = self.users.login(attempt, self.clock.now()).await?;
        Ok(OrConflict(signed_in(&context, login)))
    }

    /// Sign in with a link
    ///
    /// Starts a session and sets the session cookie. If the request contains a session cookie, that session ends. `tenantd demo`
    /// prints the link, which contains the token. A link signs in one user of an evaluation tenant, once, within 24 hours. It stops
    /// working when the user is disabled or removed, when their role, address or password changes, and when the tenant is reset.
    #[oai(path = "/sign-in-link", method = "post", operation_id = "redeem_sign_in_link")]
    async fn redeem_sign_in_link(
        &self,
        _cookie: Marked<SetsCookie>,
        _class: Marked<SignIn>,
        request: &Request,
        body: Body<RedeemSignInLink>,
    ) -> Result<Answer<LoggedIn>, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to sign a browser in as a different user.
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let RedeemSignInLink { token } = body.0;
        let login = self.users.redeem_sign_in_link(&Secret::new(token), browser(request, &context), self.clock.now()).await?;
        Ok(signed_in(&context, login))
    }

    /// Set a password with a token
    ///
    /// Sets the password of the user that the token was issued for, and ends all of the user's sessions. An administrator gets the
    /// token when they create the user or request a new password. It works once.
    #[oai(path = "/password", method = "post", operation_id = "set_password")]
    async fn set_password(&self, _class: Marked<SignIn>, body: Body<SetPassword>) -> Result<Empty, Problem> {
        let SetPassword { token, password } = body.0;
        self.users.redeem_password_token(&Secret::new(token), Secret::new(password), self.clock.now()).await?;
        Ok(Empty::new())
    }

    /// Sign out
    ///
    /// Ends the session of the cookie and removes the cookie. With an API key, the request has no effect.
    #[oai(path = "/logout", method = "post", operation_id = "logout")]
    async fn logout(
        &self,
        _cookie: Marked<SetsCookie>,
        auth: Allowed<OwnAccount>,
        _full: Marked<WhileFull>,
        _without: Marked<WithoutFactor>,
        request: &Request,
    ) -> Result<Empty, Problem> {
        let secure = auth.context.secure;
        if let Some(token) = session_token(request.headers(), secure) {
            self.users.logout(&token).await?;
        }
        let forget = forget_session(secure).into_iter();
        Ok(forget.fold(Empty::new(), |answer, (name, value)| answer.with_header(name, &value)))
    }

    /// Read the current credential
    ///
    /// Returns the user or the API key of the credential, its tenant, and all of its scopes.
    #[oai(path = "/session", method = "get", operation_id = "read_session")]
    async fn read_session(
        &self,
        auth: Allowed<OwnAccount>,
        _without: Marked<WithoutFactor>,
    ) -> Result<Answer<SessionInfo>, Problem> {
        let id = auth.principal.tenant_id;
        let known = self.users.tenants.cached(id)?;
        let tenant = known.as_ref().as_ref();
        let session_tenant = SessionTenant {
            id,
            name: auth.principal.tenant_name.clone(),
            kind: TenantKind::name(auth.principal.tenant_kind).to_owned(),
            expires_at: tenant.and_then(|tenant| tenant.expires_at).map(|end| auth.context.guard_time_in(id, end)),
            filling: tenant.and_then(|tenant| (tenant.status == TenantStatus::Filling).then_some(true)),
        };
        Ok(Answer::new(&session_info(&auth.principal, session_tenant)))
    }
}

/// Returns the browser that sent the request.
pub fn browser(request: &Request, context: &RequestContext) -> Browser {
    let user_agent = header(request.headers(), http::header::USER_AGENT);
    Browser { former: session_token(request.headers(), context.secure), origin: Origin::new(context.client.address(), user_agent) }
}

/// Returns the answer that starts a session in the browser.
pub(super) fn signed_in(context: &RequestContext, login: service::Login) -> Answer<LoggedIn> {
    let age = login.session.expires_at.since(context.now).as_secs();
    let expires_at = context.guard_time_in(login.user.tenant_id, login.session.expires_at);
    Answer::new(&LoggedIn { user: UserView::new(login.user, login.labels), expires_at })
        .with_header(http::header::SET_COOKIE, &session_cookie(context.secure, login.token.expose(), age))
        .with_header(http::header::CACHE_CONTROL, "no-store")
}

fn session_info(principal: &Principal, tenant: SessionTenant) -> SessionInfo {
    let (kind, id, name, email, role) = match &principal.identity {
        Identity::User { id, email, name, role, .. } => {
            (CredentialKind::User, Some(id.to_string()), name.clone(), Some(email.clone()), Some(*role))
        }
        Identity::Contact { id, email, name, .. } => {
            (CredentialKind::Contact, Some(id.to_string()), name.clone(), Some(email.clone()), None)
        }
        Identity::ApiKey { id, name } => (CredentialKind::ApiKey, Some(id.to_string()), name.clone(), None, None),
        Identity::LocalOperator => (CredentialKind::LocalOperator, None, "Local operator".to_owned(), None, None),
    };
    let organization_ids = match &principal.reach {
        Reach::Everything => None,
        Reach::Organizations(ids) => Some(ids.to_vec()),
    };
    SessionInfo {
        kind,
        id,
        name,
        email,
        role,
        tenant,
        second_factor_missing: principal.lacks_factor().then_some(true),
        scopes: principal.grants.iter().map(|scope| scope.name().to_owned()).collect(),
        organization_ids,
    }
}
