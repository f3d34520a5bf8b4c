//! `/api/auth`: signing in with a password or a link, signing out, and the current credential.

use poem::Request;
use poem_openapi::{
    ApiResponse, Enum, Object, OpenApi, Tags,
    registry::{MetaResponses, Registry},
};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::{Identity, Principal, Role, TenantKind},
    clock::{Clock, Timestamp},
    id::TenantId,
    secrets::Secret,
};
use tenantd_directory::UserView;
use tenantd_http::{
    context::RequestContext,
    credentials::{check_same_origin, forget_session, session_cookie, session_token},
    input::Body,
    mark::{Marked, SignIn, WhileFull},
    need::{Allowed, SignedIn},
    problem::Problem,
    reply::{Answer, Empty, declared},
};

use super::super::{
    service::{self, Users},
    sign_in::Attempt,
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
struct LoggedIn {
    /// The user who signed in.
    user: UserView,
    /// When the session ends at the latest. It ends earlier if it is not used.
    expires_at: Timestamp,
}

/// 200 with the user who signed in; 409 if the password is right at several tenants.
#[derive(Debug)]
struct SignedInAnswer(Answer<LoggedIn>);

impl poem::IntoResponse for SignedInAnswer {
    fn into_response(self) -> poem::Response {
        self.0.into_response()
    }
}

impl ApiResponse for SignedInAnswer {
    fn meta() -> MetaResponses {
        let mut responses = Answer::<LoggedIn>::meta();
        responses.responses.push(declared(409));
        responses
    }

    fn register(registry: &mut Registry) {
        Answer::<LoggedIn>::register(registry);
    }
}

#[derive(Clone, Copy, Debug, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
enum CredentialKind {
    User,
    ApiKey,
    LocalOperator,
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
}

/// The identity and the scopes of the credential.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
struct SessionInfo {
    /// The kind of credential: `user` for a session, `api_key`, or `local_operator` for the admin socket.
    kind: CredentialKind,
    /// The id of the user or the API key. Absent for the local operator.
    id: Option<String>,
    /// The name of the user or the API key.
    name: String,
    /// The e-mail address of the user. Absent for other credentials.
    email: Option<String>,
    /// The role of the user. Absent for other credentials.
    role: Option<Role>,
    /// The tenant that the credential belongs to.
    tenant: SessionTenant,
    /// All scopes of the credential, with wildcards expanded.
    scopes: Vec<String>,
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
    #[oai(path = "/login", method = "post", operation_id = "login")]
    async fn login(&self, _class: Marked<SignIn>, request: &Request, body: Body<Login>) -> Result<SignedInAnswer, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to sign a browser in as a different user.
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let former = session_token(request.headers(), context.secure);
        let Login { email, password, tenant } = body.0;
        let attempt = Attempt { email, password: Secret::new(password), tenant, former };
        let login = self.users.login(attempt, self.clock.now()).await?;
        Ok(SignedInAnswer(signed_in(&context, login)))
    }

    /// Sign in with a link
    ///
    /// Starts a session and sets the session cookie. If the request contains a session cookie, that session ends. `tenantd demo`
    /// prints the link, which contains the token. A link signs in one user of an evaluation tenant, once, within 24 hours. It stops
    /// working when the user is disabled or removed, when their role, address or password changes, and when the tenant is reset.
    #[oai(path = "/sign-in-link", method = "post", operation_id = "redeem_sign_in_link")]
    async fn redeem_sign_in_link(
        &self,
        _class: Marked<SignIn>,
        request: &Request,
        body: Body<RedeemSignInLink>,
    ) -> Result<Answer<LoggedIn>, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to sign a browser in as a different user.
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let former = session_token(request.headers(), context.secure);
        let RedeemSignInLink { token } = body.0;
        let login = self.users.redeem_sign_in_link(&Secret::new(token), former, self.clock.now()).await?;
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
    async fn logout(&self, auth: Allowed<SignedIn>, _full: Marked<WhileFull>, request: &Request) -> Result<Empty, Problem> {
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
    async fn read_session(&self, auth: Allowed<SignedIn>) -> Result<Answer<SessionInfo>, Problem> {
        let id = auth.principal.tenant_id;
        let end = self.users.tenants.cached(id)?.as_ref().as_ref().and_then(|tenant| tenant.expires_at);
        let expires_at = end.map(|end| auth.context.guard_time_in(id, end));
        Ok(Answer::new(&session_info(&auth.principal, expires_at)))
    }
}

/// Returns the answer that starts a session in the browser.
fn signed_in(context: &RequestContext, login: service::Login) -> Answer<LoggedIn> {
    let age = login.session.expires_at.since(context.now).as_secs();
    let expires_at = context.guard_time_in(login.user.tenant_id, login.session.expires_at);
    Answer::new(&LoggedIn { user: UserView::new(login.user, None), expires_at })
        .with_header(http::header::SET_COOKIE, &session_cookie(context.secure, login.token.expose(), age))
        .with_header(http::header::CACHE_CONTROL, "no-store")
}

fn session_info(principal: &Principal, expires_at: Option<Timestamp>) -> SessionInfo {
    let (kind, id, name, email, role) = match &principal.identity {
        Identity::User { id, email, name, role, .. } => {
            (CredentialKind::User, Some(id.to_string()), name.clone(), Some(email.clone()), Some(*role))
        }
        Identity::ApiKey { id, name } => (CredentialKind::ApiKey, Some(id.to_string()), name.clone(), None, None),
        Identity::LocalOperator => (CredentialKind::LocalOperator, None, "Local operator".to_owned(), None, None),
    };
    SessionInfo {
        kind,
        id,
        name,
        email,
        role,
        tenant: SessionTenant {
            id: principal.tenant_id,
            name: principal.tenant_name.clone(),
            kind: TenantKind::name(principal.tenant_kind).to_owned(),
            expires_at,
        },
        scopes: principal.grants.iter().map(|scope| scope.name().to_owned()).collect(),
    }
}
