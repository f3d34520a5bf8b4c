//! `/api/auth/sso/logout`, `/api/auth/sso/backchannel-logout` and `/api/auth/sso/frontchannel-logout`: a person signs out here and is
//! shown where to sign out of their provider, or signs out there and the provider reports it here.
//!
//! **Invariant:** the empty answer of the front channel is the only one that another site can show in a frame, and only the site of
//! the provider's issuer.

use poem::Request;
use poem_openapi::{
    ApiResponse, Object, OpenApi, Tags,
    param::Path,
    registry::{MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    clock::Clock,
    id::{IdentityProviderId, TenantId},
};
use tenantd_http::{
    credentials::{forget_session, session_token},
    input::{Filter, FormBody},
    mark::{Marked, SetsCookie, WhileFull},
    need::{Allowed, OwnAccount},
    problem::Problem,
    reply::{Answer, Empty, declared},
};

use super::super::{
    flow::SignOn,
    model::{IdentityProvider, check_issuer},
};

#[derive(Tags)]
enum Area {
    /// Sign in and out.
    Authentication,
}

/// The end of a session.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct SignedOut {
    /// The name of the provider that the session was started through. Absent for other sessions.
    provider_name: Option<String>,
    /// The page where the person also signs out of the provider. Absent if the provider has none or cannot be reached.
    provider_logout_url: Option<String>,
}

/// The form of a logout token.
#[derive(Debug, Object)]
struct BackchannelLogout {
    /// The logout token, signed by the provider.
    #[oai(validator(min_length = 1, max_length = 8192))]
    logout_token: String,
}

/// 204 if the token is valid, 400 if not.
#[derive(Debug)]
struct LogoutResponse(Empty);

impl poem::IntoResponse for LogoutResponse {
    fn into_response(self) -> poem::Response {
        self.0.into_response()
    }
}

impl ApiResponse for LogoutResponse {
    fn meta() -> MetaResponses {
        let mut responses = Empty::meta();
        let known: Vec<Option<u16>> = responses.responses.iter().map(|response| response.status).collect();
        responses.responses.extend([400, 502, 504].into_iter().filter(|status| !known.contains(&Some(*status))).map(declared));
        responses
    }

    fn register(registry: &mut Registry) {
        Empty::register(registry);
    }
}

/// What a provider adds to the address of the frame. It may add other parameters.
#[derive(Debug, Object)]
struct FrontchannelLogout {
    /// The issuer of the provider.
    #[oai(validator(min_length = 1, max_length = 2048))]
    iss: String,
    /// The provider's name for the session that has ended.
    #[oai(validator(min_length = 1, max_length = 255))]
    sid: String,
}

/// 200 with an empty text that only the provider can show in a frame, 400 for another issuer.
#[derive(Debug)]
struct FrameResponse {
    provider: IdentityProvider,
}

impl FrameResponse {
    /// The content security policy of the answer.
    fn policy(&self) -> String {
        let issuer = check_issuer(&self.provider.issuer).ok();
        // A host may contain characters that would begin another directive.
        let is_plain = |host: &str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
        let origin = issuer.filter(|issuer| is_plain(issuer.host())).map_or("'none'".to_owned(), |issuer| issuer.origin());
        format!("default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors {origin}")
    }
}

impl poem::IntoResponse for FrameResponse {
    fn into_response(self) -> poem::Response {
        poem::Response::builder()
            .content_type("text/plain; charset=utf-8")
            .header(http::header::CACHE_CONTROL, "no-store")
            .header(http::header::CONTENT_SECURITY_POLICY, self.policy())
            .body(())
    }
}

impl ApiResponse for FrameResponse {
    fn meta() -> MetaResponses {
        let schema = MetaSchema { example: Some("".into()), ..MetaSchema::new("string") };
        let content = vec![MetaMediaType { content_type: "text/plain", schema: MetaSchemaRef::Inline(Box::new(schema)) }];
        let empty = MetaResponse { description: "An empty text, for the frame of the provider.", content, ..declared(200) };
        MetaResponses { responses: vec![empty, declared(400)] }
    }

    fn register(_registry: &mut Registry) {}
}

pub(crate) struct SignOffApi {
    pub(crate) sign_on: SignOn,
    pub(crate) clock: Clock,
}

#[OpenApi(prefix_path = "/api/auth", tag = "Area::Authentication")]
impl SignOffApi {
    /// Sign out, here and at the provider
    ///
    /// Ends the session of the cookie and removes the cookie, as `POST /api/auth/logout` does. If the session was started through an
    /// identity provider, the response also has the page where the person signs out of the provider.
    #[oai(path = "/sso/logout", method = "post", operation_id = "logout_sso")]
    async fn logout_sso(
        &self,
        _cookie: Marked<SetsCookie>,
        auth: Allowed<OwnAccount>,
        _full: Marked<WhileFull>,
        request: &Request,
    ) -> Result<Answer<SignedOut>, Problem> {
        let secure = auth.context.secure;
        let left = match session_token(request.headers(), secure) {
            Some(token) => self.sign_on.sign_out(&token, self.clock.now()).await?,
            None => None,
        };
        let (provider_name, provider_logout_url) = left.map_or((None, None), |left| (Some(left.provider_name), left.url));
        let answer = Answer::new(&SignedOut { provider_name, provider_logout_url });
        let forget = forget_session(secure).into_iter();
        Ok(forget.fold(answer, |answer, (name, value)| answer.with_header(name, &value)))
    }

    /// Report the end of a session at a provider
    ///
    /// Takes the logout token of an identity provider (OpenID Connect Back-Channel Logout 1.0) and ends the sessions that the
    /// provider has started: those of `sid`, or all of the person `sub`. `backchannel_logout_uri` of the provider is this address.
    /// Register it at the provider. A token works once, within 10 minutes. The response is the same if the session has already
    /// ended.
    #[oai(path = "/sso/backchannel-logout/:tenant_id/:id", method = "post", operation_id = "backchannel_logout")]
    async fn backchannel_logout(
        &self,
        tenant_id: Path<TenantId>,
        id: Path<IdentityProviderId>,
        body: FormBody<BackchannelLogout>,
    ) -> Result<LogoutResponse, Problem> {
        self.sign_on.end_by_provider((tenant_id.0, id.0), &body.0.logout_token, self.clock.now()).await?;
        Ok(LogoutResponse(Empty::new().with_header(http::header::CACHE_CONTROL, "no-store")))
    }

    /// End a session in a frame of a provider
    ///
    /// Ends the sessions that an identity provider has started and calls `sid` (OpenID Connect Front-Channel Logout 1.0).
    /// `frontchannel_logout_uri` of the provider is this address. Register it at the provider with the session required. Prefer
    /// back-channel logout if the provider has it: it needs no browser. Only the site of the issuer can show the answer in a frame. The
    /// response is the same if the session is unknown or has already ended.
    #[oai(path = "/sso/frontchannel-logout/:tenant_id/:id", method = "get", operation_id = "frontchannel_logout")]
    async fn frontchannel_logout(
        &self,
        tenant_id: Path<TenantId>,
        id: Path<IdentityProviderId>,
        open_query: Filter<FrontchannelLogout>,
    ) -> Result<FrameResponse, Problem> {
        let FrontchannelLogout { iss, sid } = open_query.0;
        let provider = self.sign_on.end_in_frame((tenant_id.0, id.0), &iss, &sid, self.clock.now()).await?;
        Ok(FrameResponse { provider })
    }
}
