//! From the provider's callback to the claims of a user: exchanges the code, checks the ID token, and reads the e-mail address from
//! the token or from the user-info endpoint.

use std::{sync::Arc, time::Duration};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use http::{StatusCode, header::CONTENT_TYPE};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use tenantd_auth::RefusalReason;
use tenantd_base::{
    clock::Timestamp,
    letters::is_blank,
    secrets::{Secret, digest},
};
use tenantd_egress::Response;

use super::{
    discovery::{Discovery, Metadata, ProviderInfo, unreachable_provider},
    error::SsoError,
    groups::find,
    model::IdentityProvider,
    ticket::Ticket,
    token::{Expected, Keys, LEEWAY, Person, TokenError},
    transport::Transport,
};

const MAX_SUBJECT: usize = 255;
const MAX_NAME: usize = 200;
/// The maximum length of the provider's name for its session, of a class and of a method of authentication.
const MAX_SESSION_TEXT: usize = 255;
const MAX_METHODS: usize = 10;
/// The maximum length of a provider's error code in the log.
const MAX_ERROR_LENGTH: usize = 60;

/// The claims of a provider about a user.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    pub(super) subject: String,
    pub(super) email: Option<String>,
    pub(super) email_verified: bool,
    pub(super) name: Option<String>,
    /// When the person authenticated at the provider.
    pub(super) authenticated_at: Option<Timestamp>,
    /// The session at the provider.
    pub(super) sid: Option<String>,
    /// The class of the authentication.
    pub(super) acr: Option<String>,
    /// The methods of the authentication.
    pub(super) amr: Vec<String>,
    /// All other claims of the ID token, and of the user information if it was read.
    pub(super) others: Map<String, Value>,
}

/// The token response for a valid code.
#[derive(Deserialize)]
struct Tokens {
    access_token: String,
    id_token: String,
}

/// The token response for a refused code.
#[derive(Deserialize)]
pub(super) struct ErrorResponse {
    pub(super) error: String,
}

/// A client for one provider.
#[derive(Debug)]
pub(super) struct ProviderClient<'a> {
    pub(super) provider: &'a IdentityProvider,
    pub(super) secret: Secret,
    pub(super) transport: Transport,
    pub(super) discovery: &'a Discovery,
    pub(super) now: Timestamp,
}

impl ProviderClient<'_> {
    /// The URL that the browser is sent to.
    pub(super) async fn authorization_url(
        &self,
        state: &str,
        ticket: &Ticket,
        login_hint: Option<&str>,
    ) -> Result<String, SsoError> {
        let known = self.provider_info().await?;
        let unusable = |_| SsoError::ProviderError("the provider's authorization_endpoint is not a valid URL".to_owned());
        let mut url = Url::parse(&known.metadata.authorization_endpoint).map_err(unusable)?;
        let others = self.provider.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        let scopes = std::iter::once("openid").chain(others).collect::<Vec<_>>().join(" ");
        let challenge = BASE64URL_NOPAD.encode(&digest(ticket.verifier.as_bytes()));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.provider.client_id)
            .append_pair("redirect_uri", &ticket.redirect_uri)
            .append_pair("scope", &scopes)
            .append_pair("state", state)
            .append_pair("nonce", &ticket.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .extend_pairs(login_hint.map(|hint| ("login_hint", hint)));
        let rules = &self.provider.rules;
        if ticket.fresh {
            url.query_pairs_mut().append_pair("prompt", "login").append_pair("max_age", "0");
        } else if let Some(seconds) = rules.max_age_seconds {
            url.query_pairs_mut().append_pair("max_age", &seconds.to_string());
        }
        if !rules.required_acr.is_empty() {
            url.query_pairs_mut().append_pair("acr_values", &rules.required_acr.join(" "));
        }
        Ok(url.into())
    }

    /// The URL where a person signs out of the provider, if it has one. No ID token is stored, so the client and the address of the
    /// person are the hints.
    pub(super) async fn sign_out_url(&self, email: Option<&str>) -> Result<Option<String>, SsoError> {
        let Some(endpoint) = self.provider_info().await?.metadata.end_session_endpoint.clone() else { return Ok(None) };
        let Ok(mut url) = Url::parse(&endpoint) else { return Ok(None) };
        url.query_pairs_mut()
            .append_pair("client_id", &self.provider.client_id)
            .extend_pairs(email.map(|email| ("logout_hint", email)));
        Ok(Some(url.into()))
    }

    /// Whether the provider sends its issuer with every callback (RFC 9207). Callbacks of other providers can then be detected.
    pub(super) async fn sends_issuer(&self) -> Result<bool, SsoError> {
        Ok(self.provider_info().await?.metadata.sends_issuer)
    }

    /// Checks something with the provider's keys. If the key is unknown, the keys are read again, at a limited rate.
    pub(super) async fn checked<T>(&self, check: impl Fn(&Keys) -> Result<T, TokenError>) -> Result<T, SsoError> {
        let known = self.provider_info().await?;
        let checked = match check(&known.keys) {
            Err(TokenError::UnknownKey) => {
                let renewed = self.discovery.with_new_keys(&self.transport, &self.provider.issuer, &known, self.now).await?;
                check(&renewed.ok_or(SsoError::Refused(RefusalReason::BadSignature))?.keys)
            }
            checked => checked,
        };
        checked.map_err(|error| self.token_refused(error))
    }

    async fn provider_info(&self) -> Result<Arc<ProviderInfo>, SsoError> {
        self.discovery.get(&self.transport, &self.provider.issuer, self.now).await
    }

    /// Exchanges the code for tokens and checks them.
    pub(super) async fn claims(&self, code: &str, ticket: &Ticket) -> Result<Claims, SsoError> {
        let known = self.provider_info().await?;
        let tokens = self.exchange(&known.metadata, code, ticket).await?;
        let expected = Expected {
            issuer: &self.provider.issuer,
            client_id: &self.provider.client_id,
            nonce: &ticket.nonce,
            access_token: &tokens.access_token,
            now: self.now,
        };
        let mut person = self.checked(|keys| expected.check(&tokens.id_token, keys)).await?;
        if let Some(endpoint) = known.metadata.userinfo_endpoint.as_ref().filter(|_| self.lacks_claims(&person)) {
            let info = self.user_info(endpoint, &tokens.access_token, &person.sub).await?;
            if person.email.is_none() {
                (person.email, person.email_verified) = (info.email, info.email_verified);
            }
            person.name = person.name.or(info.name);
            // A claim of the ID token has priority. What the ID token says about the authentication cannot be replaced.
            person.others = info.others.into_iter().chain(person.others).collect();
        }
        if person.sub.is_empty() || person.sub.len() > MAX_SUBJECT {
            return Err(SsoError::Refused(RefusalReason::BadToken));
        }
        let rules = &self.provider.rules;
        // An impossible time is one long ago. A provider that names none has asked the person now, as far as we know.
        let authenticated_at = person.auth_time.map(|at| time(at).unwrap_or(Timestamp::from_millis(0)));
        check_age(ticket, rules.max_age_seconds, authenticated_at, self.now)?;
        if !rules.required_acr.is_empty() && !person.acr.as_ref().is_some_and(|acr| rules.required_acr.contains(acr)) {
            return Err(SsoError::Refused(RefusalReason::WeakSignOn));
        }
        Ok(Claims {
            amr: methods(&person),
            subject: person.sub,
            email: person.email,
            email_verified: person.email_verified.unwrap_or(false),
            name: person.name.as_deref().map(tidy_name).filter(|name| !is_blank(name)),
            authenticated_at,
            sid: person.sid.filter(|sid| is_session_text(sid)),
            acr: person.acr.filter(|acr| is_session_text(acr)),
            others: person.others,
        })
    }

    /// Whether the ID token lacks claims that the user information may have.
    fn lacks_claims(&self, person: &Person) -> bool {
        let rules = &self.provider.rules;
        let needs_groups = !rules.role_mappings.is_empty() && find(&person.others, &rules.groups_claim).is_none();
        person.email.is_none() || needs_groups
    }

    /// The form for the code, and the `Authorization` header with the client secret. If the provider accepts the secret only in the
    /// form, there is no header.
    pub(super) fn code_form(&self, metadata: &Metadata, code: &str, ticket: &Ticket) -> (Secret, Option<Secret>) {
        let (id, secret) = (self.provider.client_id.as_str(), self.secret.expose());
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("code_verifier", &ticket.verifier)
            .append_pair("redirect_uri", &ticket.redirect_uri);
        if metadata.secret_in_form {
            form.append_pair("client_id", id).append_pair("client_secret", secret);
            return (Secret::new(form.finish()), None);
        }
        let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encode(id), encode(secret));
        (Secret::new(form.finish()), Some(Secret::new(format!("Basic {}", BASE64.encode(pair.as_bytes())))))
    }

    async fn exchange(&self, metadata: &Metadata, code: &str, ticket: &Ticket) -> Result<Tokens, SsoError> {
        let (form, authorization) = self.code_form(metadata, code, ticket);
        let sent = self.transport.post(&metadata.token_endpoint, authorization.as_ref(), form).await;
        let answer = sent.map_err(unreachable_provider)?;
        if answer.status == StatusCode::OK {
            return serde_json::from_slice(&answer.body).map_err(|_| SsoError::Refused(RefusalReason::BadToken));
        }
        if answer.body.is_empty() {
            return Err(SsoError::ProviderError("the token response is empty".to_owned()));
        }
        let Ok(ErrorResponse { error }) = serde_json::from_slice(&answer.body) else {
            return Err(SsoError::Refused(RefusalReason::BadToken));
        };
        let cause = short_error(&error);
        tracing::warn!(provider = %self.provider.id, error = cause, "a provider refused a code");
        Err(SsoError::RefusedByProvider { reason: RefusalReason::CodeRefused, cause })
    }

    /// Some providers omit the e-mail address from the ID token. The user information must have the same subject.
    async fn user_info(&self, endpoint: &str, access_token: &str, subject: &str) -> Result<Person, SsoError> {
        let authorization = Secret::new(format!("Bearer {access_token}"));
        let answer = self.transport.get(endpoint, Some(&authorization)).await.map_err(unreachable_provider)?;
        let unusable = || SsoError::ProviderError("the user-info endpoint returned an invalid response".to_owned());
        if answer.status != StatusCode::OK {
            return Err(unusable());
        }
        let person: Person = if is_signed(&answer) {
            let token = std::str::from_utf8(&answer.body).map_err(|_| unusable())?;
            let (issuer, client_id) = (&self.provider.issuer, &self.provider.client_id);
            self.checked(|keys| keys.signed_person(token.trim(), issuer, client_id)).await?
        } else {
            serde_json::from_slice(&answer.body).map_err(|_| unusable())?
        };
        if person.sub == subject { Ok(person) } else { Err(SsoError::Refused(RefusalReason::BadToken)) }
    }

    fn token_refused(&self, error: TokenError) -> SsoError {
        let reason = match error {
            TokenError::UnknownKey => RefusalReason::BadSignature,
            TokenError::Refused(reason) => reason,
        };
        tracing::warn!(provider = %self.provider.id, reason = reason.name(), "a provider's token was refused");
        SsoError::Refused(reason)
    }
}

/// A provider's error code, such as `invalid_client`, shortened and on one line.
pub(super) fn short_error(error: &str) -> String {
    error.chars().filter(char::is_ascii_graphic).take(MAX_ERROR_LENGTH).collect()
}

/// Checks how long ago the person authenticated, if the request asked for that.
fn check_age(ticket: &Ticket, max_age: Option<u32>, authenticated_at: Option<Timestamp>, now: Timestamp) -> Result<(), SsoError> {
    let oldest = match (ticket.fresh, max_age) {
        (true, _) => ticket.started_at(),
        (false, Some(seconds)) => now - Duration::from_secs(seconds.into()),
        (false, None) => return Ok(()),
    };
    let is_recent = authenticated_at.is_some_and(|at| at + LEEWAY >= oldest && at <= now + LEEWAY);
    if is_recent { Ok(()) } else { Err(SsoError::Refused(RefusalReason::NotFresh)) }
}

/// A time in seconds since 1970, if it can be one.
fn time(seconds: f64) -> Option<Timestamp> {
    const LATEST: f64 = 253_402_300_799.0;
    #[allow(clippy::cast_possible_truncation, reason = "the range was checked")]
    (0.0..=LATEST).contains(&seconds).then(|| Timestamp::from_millis((seconds * 1000.0) as i64))
}

/// The methods of the authentication, as many as a session stores.
fn methods(person: &Person) -> Vec<String> {
    let listed = person.others.get("amr").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    listed.filter(|method| is_session_text(method)).take(MAX_METHODS).map(str::to_owned).collect()
}

pub(super) fn is_session_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_SESSION_TEXT
}

fn is_signed(answer: &Response) -> bool {
    answer.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/jwt"))
}

/// Normalizes a display name: on one line, and limited in length.
fn tidy_name(name: &str) -> String {
    let plain: String = name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_NAME).collect()
}
