//! `/api/auth/sso`: the way to an identity provider, and the way back.

use http::StatusCode;
use poem::Request;
use poem_openapi::{
    ApiResponse, Object, OpenApi, Tags,
    registry::{MetaResponses, Registry},
};
use serde::Serialize;

use tenantd_auth::RefusalReason;
use tenantd_base::{
    clock::{Clock, Timestamp},
    id::IdentityProviderId,
};
use tenantd_http::{
    context::RequestContext,
    credentials::{check_same_origin, cookie, session_cookie, session_token, set_cookie},
    input::{Body, Filter},
    mark::{Marked, SignIn},
    pages::{Html, PageAnswer, WayOn},
    problem::Problem,
    reply::Answer,
};

use super::{
    super::{
        error::{self, SsoError},
        flow::{self, Begun, Finished, SignOn, Wish},
        model::{Domain, ReturnPath, TestSignIn, is_login_hint},
        ticket::SIGN_ON_LIFE,
    },
    explain,
    wire::ProviderType,
};

#[derive(Tags)]
enum Area {
    /// Signing in and out.
    Authentication,
}

/// The cookie of a sign-on under way.
fn ticket_cookie(secure: bool) -> &'static str {
    if secure { "__Host-tenantd_sign_on" } else { "tenantd_sign_on" }
}

/// The header that gives a browser the ticket of a sign-on.
pub(super) fn set_ticket(secure: bool, ticket: &str) -> String {
    set_cookie(secure, ticket_cookie(secure), ticket, SIGN_ON_LIFE.as_secs())
}

/// Where providers send people back to.
pub(super) fn redirect_uri(context: &RequestContext) -> String {
    format!("{}/api/auth/sso/callback", context.base_url)
}

/// Where a test sign-in begins.
pub(super) fn test_path(link: &str) -> String {
    format!("/api/auth/sso/test?link={link}")
}

/// Who wants to sign in.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct BeginSignOn {
    /// The domain of an e-mail address, such as `acme.com`.
    #[oai(validator(min_length = 1, max_length = 254))]
    pub(super) domain: String,
    /// The path of this site to go to afterwards. `/documentation/` when absent.
    #[oai(validator(min_length = 1, max_length = 1000))]
    pub(super) return_to: Option<String>,
    /// Whom the provider is to expect, such as an e-mail address.
    #[oai(validator(min_length = 1, max_length = 254))]
    pub(super) login_hint: Option<String>,
}

/// The provider that somebody is sent to.
#[derive(Debug, Object, Serialize)]
pub(super) struct SignOnProvider {
    pub(super) id: IdentityProviderId,
    pub(super) name: String,
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: ProviderType,
}

/// A sign-on that has begun. The browser that goes on must be the one that got this answer's cookie.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct SignOnBegun {
    /// Where the browser goes now.
    pub(super) redirect_url: String,
    pub(super) provider: SignOnProvider,
    /// In its normal form.
    pub(super) domain: String,
    /// Names this sign-on; it works once.
    pub(super) state: String,
    /// When the sign-on ends if nobody comes back.
    pub(super) expires_at: Timestamp,
}

/// 200 with the way to the provider; 404 where there is none.
#[derive(Debug)]
pub(super) struct WayThere(Answer<SignOnBegun>);

impl poem::IntoResponse for WayThere {
    fn into_response(self) -> poem::Response {
        self.0.into_response()
    }
}

impl ApiResponse for WayThere {
    fn meta() -> MetaResponses {
        let mut responses = Answer::<SignOnBegun>::meta();
        responses.responses.extend([403, 404, 502, 504].map(tenantd_http::reply::declared));
        responses
    }

    fn register(registry: &mut Registry) {
        Answer::<SignOnBegun>::register(registry);
    }
}

/// What a provider sends along with the browser. It may send more.
#[derive(Debug, Object)]
struct ProviderAnswer {
    /// Names the sign-on.
    #[oai(validator(max_length = 4096))]
    state: Option<String>,
    /// What the tokens are had for.
    #[oai(validator(max_length = 4096))]
    code: Option<String>,
    /// The provider's own address (RFC 9207).
    #[oai(validator(max_length = 2048))]
    iss: Option<String>,
    /// Why nobody was signed in.
    #[oai(validator(max_length = 200))]
    error: Option<String>,
}

#[derive(Debug, Object)]
struct TestQuery {
    /// Of `sign_in_url`.
    #[oai(validator(min_length = 1, max_length = 4096))]
    link: String,
}

pub(crate) struct SignOnApi {
    pub(crate) sign_on: SignOn,
    pub(crate) clock: Clock,
}

#[OpenApi(prefix_path = "/api/auth", tag = "Area::Authentication")]
impl SignOnApi {
    /// Begin single sign-on
    ///
    /// For a domain that has an enabled identity provider. Sets a cookie for ten minutes, and tells where the browser goes: it comes back to
    /// `/api/auth/sso/callback` with the same cookie. A domain without a provider and one whose provider is disabled are answered alike.
    #[oai(path = "/sso", method = "post", operation_id = "begin_sso")]
    async fn begin_sso(&self, _class: Marked<SignIn>, request: &Request, body: Body<BeginSignOn>) -> Result<WayThere, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to begin what the browser then ends as somebody else.
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let wish = wish(body.0, redirect_uri(&context))?;
        let domain = wish.domain.as_str().to_owned();
        let begun = self.sign_on.begin(wish, self.clock.now()).await?;
        let Begun { provider, redirect_url, state, cookie, expires_at } = begun;
        let provider = SignOnProvider { id: provider.id, name: provider.name, kind: ProviderType::Oidc };
        let answer = Answer::new(&SignOnBegun { redirect_url, provider, domain, state, expires_at });
        Ok(WayThere(
            answer
                .with_header(http::header::SET_COOKIE, &set_ticket(context.secure, &cookie))
                .with_header(http::header::CACHE_CONTROL, "no-store"),
        ))
    }

    /// Begin a test sign-in
    ///
    /// Where `sign_in_url` of `POST /api/admin/identity-providers/{id}/test` leads. Sends the browser to the provider. When it comes back,
    /// a page shows whether the person would have been signed in. Nobody is signed in. The link works for ten minutes.
    #[oai(path = "/sso/test", method = "get", operation_id = "begin_sso_test")]
    async fn begin_sso_test(&self, _class: Marked<SignIn>, request: &Request, query: Filter<TestQuery>) -> Result<WayOn, Problem> {
        let context = RequestContext::of(request)?;
        let begun = self.sign_on.begin_test(&query.0.link, redirect_uri(&context), self.clock.now()).await?;
        let ticket = set_ticket(context.secure, &begun.cookie);
        Ok(WayOn(PageAnswer::see_other(&begun.redirect_url).with_header(http::header::SET_COOKIE, &ticket)))
    }

    /// Finish single sign-on
    ///
    /// Where a provider sends the browser back to. Signs in and leads on to `return_to`; a person who was not known becomes a user if the
    /// provider is set up so. Whatever is wrong with the answer, nobody is signed in, and the event `auth.login_failed` has the reason.
    #[oai(path = "/sso/callback", method = "get", operation_id = "finish_sso")]
    async fn finish_sso(&self, request: &Request, open_query: Filter<ProviderAnswer>) -> Result<WayOn, Problem> {
        let context = RequestContext::of(request)?;
        let secure = context.secure;
        let ProviderAnswer { state, code, iss, error } = open_query.0;
        let ticket = cookie(request.headers(), ticket_cookie(secure)).map(str::to_owned);
        let forget = set_cookie(secure, ticket_cookie(secure), "", 0);
        let former = session_token(request.headers(), secure);
        let answer = flow::Answer { state, code, issuer: iss, error, cookie: ticket, former };
        let finished = self.sign_on.finish(answer, self.clock.now()).await;
        let finished = finished.map_err(|error| Problem::from(error).header(http::header::SET_COOKIE, &forget))?;
        let (login, return_to) = match finished {
            Finished::SignedIn(login, return_to) => (login, return_to),
            Finished::Tested { test, reason } => {
                let answer = PageAnswer::shown(StatusCode::OK, test_page(&test, reason));
                return Ok(WayOn(answer.with_header(http::header::SET_COOKIE, &forget)));
            }
        };
        let age = login.session.expires_at.since(context.now).as_secs();
        let answer = PageAnswer::see_other(return_to.as_str())
            .with_header(http::header::SET_COOKIE, &session_cookie(secure, login.token.expose(), age))
            .with_header(http::header::SET_COOKIE, &forget);
        Ok(WayOn(answer))
    }
}

/// The outcome of a test sign-in.
fn test_page(test: &TestSignIn, reason: Option<RefusalReason>) -> Html {
    let mut html = Html::new(if test.failure.is_none() { "The test sign-in succeeded" } else { "The test sign-in failed" });
    match (&test.failure, &test.email) {
        (Some(failure), _) => {
            html.paragraph(reason.map_or("The sign-in is refused.", explain));
            html.paragraph(&format!("Reason: {}.", failure.reason));
            if let Some(cause) = &failure.cause {
                html.paragraph(&format!("Cause: {cause}."));
            }
        }
        (None, email) => {
            let email = email.as_deref().unwrap_or_default();
            let account = if test.creates_user { "A user would be created." } else { "The user exists." };
            html.paragraph(&format!("{email} would be signed in. {account}"));
        }
    }
    html.paragraph("This was a test: nobody was signed in.");
    html
}

fn wish(body: BeginSignOn, redirect_uri: String) -> Result<Wish, SsoError> {
    let mut faults = Vec::new();
    let domain = Domain::parse(&body.domain).map_err(|problem| faults.push(error::bad_domain(None, problem)));
    let return_to = body.return_to.as_deref().map_or(Some(ReturnPath::home()), ReturnPath::parse);
    if return_to.is_none() {
        faults.push(error::bad_return_to());
    }
    if body.login_hint.as_deref().is_some_and(|hint| !is_login_hint(hint)) {
        faults.push(error::bad_login_hint());
    }
    match (domain, return_to) {
        (Ok(domain), Some(return_to)) if faults.is_empty() => {
            Ok(Wish { domain, return_to, login_hint: body.login_hint, redirect_uri })
        }
        _ => Err(SsoError::Invalid(faults)),
    }
}
