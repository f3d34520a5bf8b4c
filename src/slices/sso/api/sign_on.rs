//! `/api/auth/sso`: the redirect to an identity provider, and its callback.

use poem::Request;
use poem_openapi::{
    ApiResponse, Object, OpenApi, Tags,
    param::Path,
    registry::{MetaResponses, Registry},
};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_auth::RefusalReason;
use tenantd_base::{
    clock::{Clock, Timestamp},
    id::IdentityProviderId,
    return_path::ReturnPath,
};
use tenantd_http::{
    context::RequestContext,
    credentials::{check_same_origin, cookie, session_cookie, session_token, set_cookie},
    input::{Body, Filter},
    mark::{Marked, SetsCookie, SignIn},
    pages::{Notice, WayOn},
    problem::Problem,
    reply::Answer,
};

use super::{
    super::{
        error::{self, SsoError},
        flow::{self, SignOn, SignOnOutcome, SignOnRequest, SignOnTarget, StartedSignOn},
        model::{Domain, IdentityProvider, TestSignIn, is_login_hint},
        ticket::{Redirect, SIGN_ON_LIFE},
    },
    addresses, explain,
    wire::ProviderType,
};

#[derive(Tags)]
enum Area {
    /// Sign in and out.
    Authentication,
}

/// The name of the cookie of a running sign-on.
fn ticket_cookie(secure: bool) -> &'static str {
    if secure { "__Host-tenantd_sign_on" } else { "tenantd_sign_on" }
}

/// The `Set-Cookie` header with the ticket of a sign-on.
pub(super) fn set_ticket(secure: bool, ticket: &str) -> String {
    set_cookie(secure, ticket_cookie(secure), ticket, SIGN_ON_LIFE.as_secs())
}

/// Returns where a provider sends people back to.
fn redirect_of(context: &RequestContext) -> impl Fn(&IdentityProvider) -> Redirect {
    |provider| addresses::redirect(&context.base_url, provider.id, provider.rules.own_redirect_uri)
}

/// The path that starts a test sign-in.
pub(super) fn test_path(link: &str) -> String {
    format!("/api/auth/sso/test?link={link}")
}

/// The request to start a single sign-on. It names the provider by `domain`, or by `tenant` and `identity_provider_id`.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct BeginSignOn {
    /// The domain of the user's e-mail address, such as `acme.com`.
    #[oai(validator(min_length = 1, max_length = 254))]
    pub(super) domain: Option<String>,
    /// The id or slug of the tenant of `identity_provider_id`.
    #[oai(validator(min_length = 1, max_length = 63))]
    pub(super) tenant: Option<String>,
    /// The provider, as `GET /api/auth/sso/providers` lists it.
    pub(super) identity_provider_id: Option<IdentityProviderId>,
    /// Whether the user must authenticate at the provider again, even if they are signed in there. With `true`, you can leave out
    /// the provider: it is that of the session cookie. Defaults to `false`.
    pub(super) fresh: Option<bool>,
    /// The path on this site to open after the sign-in. Defaults to `/`.
    #[oai(validator(min_length = 1, max_length = 4000))]
    pub(super) return_to: Option<String>,
    /// A hint for the provider about the user, such as an e-mail address. Absent if you have none.
    #[oai(validator(min_length = 1, max_length = 254))]
    pub(super) login_hint: Option<String>,
}

/// The identity provider that the browser is sent to.
#[derive(Debug, Object, Serialize)]
pub(super) struct SignOnProvider {
    pub(super) id: IdentityProviderId,
    pub(super) name: String,
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: ProviderType,
}

/// A started sign-on. It must continue in the browser that received the cookie of this response.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct SignOnBegun {
    /// The URL to open in the browser.
    pub(super) redirect_url: String,
    pub(super) provider: SignOnProvider,
    /// The domain in its normal form: ASCII, in lower case. Absent if the request named none.
    pub(super) domain: Option<String>,
    /// The state of this sign-on. It works once.
    pub(super) state: String,
    /// When the sign-on expires.
    pub(super) expires_at: Timestamp,
}

#[derive(Debug, Object)]
struct ProvidersQuery {
    /// The id or slug of the tenant.
    #[oai(validator(min_length = 1, max_length = 63))]
    tenant: String,
}

/// The providers that the staff of a tenant can choose from.
#[derive(Debug, Object, Serialize)]
struct SignOnProviders {
    /// At most 20, the oldest first.
    identity_providers: Vec<SignOnProvider>,
}

/// 200 with the URL of the provider, 404 if there is no provider.
#[derive(Debug)]
pub(super) struct SignOnResponse(Answer<SignOnBegun>);

impl poem::IntoResponse for SignOnResponse {
    fn into_response(self) -> poem::Response {
        self.0.into_response()
    }
}

impl ApiResponse for SignOnResponse {
    fn meta() -> MetaResponses {
        let mut responses = Answer::<SignOnBegun>::meta();
        responses.responses.extend([403, 404, 502, 504].map(tenantd_http::reply::declared));
        responses
    }

    fn register(registry: &mut Registry) {
        Answer::<SignOnBegun>::register(registry);
    }
}

/// The parameters that a provider adds to the callback. It may add others.
#[derive(Debug, Object)]
struct ProviderAnswer {
    /// The state of the sign-on.
    #[oai(validator(max_length = 4096))]
    state: Option<String>,
    /// The code that tenantd exchanges for tokens. Absent when the provider returns an error.
    #[oai(validator(max_length = 4096))]
    code: Option<String>,
    /// The issuer of the provider (RFC 9207). Absent for providers that do not send it.
    #[oai(validator(max_length = 2048))]
    iss: Option<String>,
    /// The error code of the provider. Absent when the user signed in.
    #[oai(validator(max_length = 200))]
    error: Option<String>,
}

#[derive(Debug, Object)]
struct TestQuery {
    /// The signed link from `sign_in_url`.
    #[oai(validator(min_length = 1, max_length = 4096))]
    link: String,
}

pub(crate) struct SignOnApi {
    pub(crate) sign_on: SignOn,
    pub(crate) clock: Clock,
    /// Shows the outcome of a test sign-in.
    pub(crate) notice: Notice,
}

#[OpenApi(prefix_path = "/api/auth", tag = "Area::Authentication")]
impl SignOnApi {
    /// Begin single sign-on
    ///
    /// Starts a sign-on for a domain with an enabled identity provider. Sets a cookie for 10 minutes and returns the URL to open in
    /// the browser. The provider sends the browser back to its `redirect_uri`, with the same cookie. The response for a domain
    /// without a provider is the same as for a disabled provider. With `fresh`, a person without a password confirms who they are.
    #[oai(path = "/sso", method = "post", operation_id = "begin_sso")]
    async fn begin_sso(
        &self,
        _cookie: Marked<SetsCookie>,
        _class: Marked<SignIn>,
        request: &Request,
        body: Body<BeginSignOn>,
    ) -> Result<SignOnResponse, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to start a sign-on that the browser then finishes as a different user.
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let former = session_token(request.headers(), context.secure).filter(|_| body.0.fresh == Some(true));
        let session = former.map(|token| self.sign_on.provider_of(&token)).transpose()?.flatten();
        let sign_on_request = sign_on_request(body.0, session)?;
        let domain = match &sign_on_request.target {
            SignOnTarget::Domain(domain) => Some(domain.as_str().to_owned()),
            SignOnTarget::Provider(..) | SignOnTarget::Session(_) => None,
        };
        let started = self.sign_on.begin(sign_on_request, redirect_of(&context), self.clock.now()).await?;
        let StartedSignOn { provider, redirect_url, state, cookie, expires_at } = started;
        let provider = shown(provider);
        let answer = Answer::new(&SignOnBegun { redirect_url, provider, domain, state, expires_at });
        Ok(SignOnResponse(
            answer
                .with_header(http::header::SET_COOKIE, &set_ticket(context.secure, &cookie))
                .with_header(http::header::CACHE_CONTROL, "no-store"),
        ))
    }

    /// List the providers of a tenant
    ///
    /// Returns the enabled providers that the staff of a tenant can sign in through, for a page on which they choose one. It shows
    /// no domains. An unknown tenant has no providers.
    #[oai(path = "/sso/providers", method = "get", operation_id = "list_sso_providers")]
    async fn list_sso_providers(&self, query: Filter<ProvidersQuery>) -> Result<Answer<SignOnProviders>, Problem> {
        let found = self.sign_on.choices(&query.0.tenant)?;
        Ok(Answer::new(&SignOnProviders { identity_providers: found.into_iter().map(shown).collect() }))
    }

    /// Begin a test sign-in
    ///
    /// Handles the link in `sign_in_url` of `POST /api/admin/identity-providers/{id}/test`: redirects the browser to the provider.
    /// After the callback, a page shows whether the person would have been signed in. Nobody is signed in. The link works for 10
    /// minutes.
    #[oai(path = "/sso/test", method = "get", operation_id = "begin_sso_test")]
    async fn begin_sso_test(
        &self,
        _cookie: Marked<SetsCookie>,
        _class: Marked<SignIn>,
        request: &Request,
        query: Filter<TestQuery>,
    ) -> Result<WayOn, Problem> {
        let context = RequestContext::of(request)?;
        let started = self.sign_on.begin_test(&query.0.link, redirect_of(&context), self.clock.now()).await?;
        let ticket = set_ticket(context.secure, &started.cookie);
        Ok(WayOn::to(&started.redirect_url).with_header(http::header::SET_COOKIE, &ticket))
    }

    /// Finish single sign-on
    ///
    /// Handles the callback of a provider: signs the user in and redirects to `return_to`. An unknown person becomes a user if the
    /// provider has `auto_provision`. If the callback is invalid, nobody is signed in, and the event `auth.login_failed` contains
    /// the reason.
    #[oai(path = "/sso/callback", method = "get", operation_id = "finish_sso")]
    async fn finish_sso(
        &self,
        _cookie: Marked<SetsCookie>,
        request: &Request,
        open_query: Filter<ProviderAnswer>,
    ) -> Result<WayOn, Problem> {
        self.finish(request, None, open_query.0).await
    }

    /// Finish single sign-on of one provider
    ///
    /// Handles the callback of a provider with a redirect URI of its own. Does the same as `GET /api/auth/sso/callback`, and refuses
    /// the answer to a sign-on of another provider.
    #[oai(path = "/sso/callback/:id", method = "get", operation_id = "finish_provider_sso")]
    async fn finish_provider_sso(
        &self,
        _cookie: Marked<SetsCookie>,
        request: &Request,
        id: Path<IdentityProviderId>,
        open_query: Filter<ProviderAnswer>,
    ) -> Result<WayOn, Problem> {
        self.finish(request, Some(id.0), open_query.0).await
    }
}

impl SignOnApi {
    async fn finish(&self, request: &Request, path: Option<IdentityProviderId>, answer: ProviderAnswer) -> Result<WayOn, Problem> {
        let context = RequestContext::of(request)?;
        let secure = context.secure;
        let ProviderAnswer { state, code, iss, error } = answer;
        let ticket = cookie(request.headers(), ticket_cookie(secure)).map(str::to_owned);
        let forget = set_cookie(secure, ticket_cookie(secure), "", 0);
        let browser = tenantd_auth::browser(request, &context);
        let answer = flow::Callback { state, code, issuer: iss, error, cookie: ticket, path, browser };
        let outcome = self.sign_on.finish(answer, self.clock.now()).await;
        let outcome = outcome.map_err(|error| Problem::from(error).header(http::header::SET_COOKIE, &forget))?;
        let (login, return_to) = match outcome {
            SignOnOutcome::SignedIn(login, return_to) => (login, return_to),
            SignOnOutcome::Tested { test, reason } => {
                let (title, lines) = test_outcome(&test, reason);
                return Ok(WayOn::shown((self.notice)(title, &lines)).with_header(http::header::SET_COOKIE, &forget));
            }
        };
        let age = login.session.expires_at.since(context.now).as_secs();
        Ok(WayOn::to(return_to.as_str())
            .with_header(http::header::SET_COOKIE, &session_cookie(secure, login.token.expose(), age))
            .with_header(http::header::SET_COOKIE, &forget))
    }
}

/// The title and the paragraphs of the page with the outcome of a test sign-in.
fn test_outcome(test: &TestSignIn, reason: Option<RefusalReason>) -> (&'static str, Vec<String>) {
    let mut lines = Vec::new();
    match (&test.failure, &test.email) {
        (Some(failure), _) => {
            lines.push(reason.map_or("The sign-in is refused.", explain).to_owned());
            lines.push(format!("Reason: {}.", failure.reason));
            lines.extend(failure.cause.as_ref().map(|cause| format!("Cause: {cause}.")));
        }
        (None, email) => {
            let email = email.as_deref().unwrap_or_default();
            let account = if test.creates_user { "A user would be created." } else { "The user exists." };
            lines.push(format!("{email} would be signed in. {account}"));
            lines.extend(test.role.map(|role| format!("Their role would be {role}.")));
        }
    }
    lines.push("This was a test: nobody was signed in.".to_owned());
    (if test.failure.is_none() { "The test sign-in succeeded" } else { "The test sign-in failed" }, lines)
}

fn shown(provider: IdentityProvider) -> SignOnProvider {
    SignOnProvider { id: provider.id, name: provider.name, kind: ProviderType::Oidc }
}

/// `session` is the provider of the browser's session, and the address of its user.
fn sign_on_request(body: BeginSignOn, session: Option<(IdentityProvider, Option<String>)>) -> Result<SignOnRequest, SsoError> {
    let mut faults = Vec::new();
    let fresh = body.fresh.unwrap_or(false);
    let mut login_hint = body.login_hint;
    let target = match (body.domain, body.tenant, body.identity_provider_id, session.filter(|_| fresh)) {
        (Some(domain), None, None, _) => {
            let domain = Domain::parse(&domain).map_err(|problem| faults.push(error::bad_domain(None, problem)));
            domain.ok().map(SignOnTarget::Domain)
        }
        (None, Some(tenant), Some(id), _) => Some(SignOnTarget::Provider(tenant, id)),
        (None, None, None, Some((provider, email))) => {
            login_hint = login_hint.or(email);
            Some(SignOnTarget::Session((provider.tenant_id, provider.id)))
        }
        (None, None, None, None) if fresh => return Err(SsoError::NoSignOn),
        _ => {
            faults.push(error::no_target());
            None
        }
    };
    let return_to = body.return_to.as_deref().map_or(Some(ReturnPath::home()), ReturnPath::parse);
    if return_to.is_none() {
        faults.push(error::bad_return_to());
    }
    if login_hint.as_deref().is_some_and(|hint| !is_login_hint(hint)) {
        faults.push(error::bad_login_hint());
    }
    match (target, return_to) {
        (Some(target), Some(return_to)) if faults.is_empty() => Ok(SignOnRequest { target, return_to, login_hint, fresh }),
        _ => Err(SsoError::Invalid(faults)),
    }
}
