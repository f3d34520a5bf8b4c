//! From the provider's answer to who somebody is: the code is exchanged, the ID token checked, and the address taken from it or from the
//! provider's user information.
//!
//! **Invariant:** a token counts only under one of the provider's public keys. Its algorithm is one of a list that has neither `none` nor one
//! whose key would be our own secret.

use std::time::{Duration, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use openidconnect::{
    AccessTokenHash, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken,
    EmptyAdditionalClaims, EndpointMaybeSet, EndpointNotSet, EndpointSet, LoginHint, Nonce, OAuth2TokenResponse, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, SignatureVerificationError, TokenResponse, UserInfoClaims,
    core::{
        CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreGenderClaim, CoreIdToken, CoreIdTokenClaims,
        CoreIdTokenVerifier, CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreRequestTokenError, CoreTokenResponse,
    },
};
use serde::Deserialize;

use tenantd_auth::RefusalReason;
use tenantd_base::{clock::Timestamp, secrets::Secret};

use super::{
    discovery::{Discovery, unreachable_provider},
    error::SsoError,
    model::IdentityProvider,
    ticket::Ticket,
    transport::{Transport, TransportError},
};

/// How far a provider's clock may be off.
const LEEWAY: Duration = Duration::from_mins(1);
const MAX_SUBJECT: usize = 255;
const MAX_NAME: usize = 200;

/// Signatures with a key pair.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// A client of a provider whose discovery was read.
type Client = CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

/// Who somebody is, as their provider says.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    pub(super) subject: String,
    pub(super) email: Option<String>,
    pub(super) email_verified: bool,
    pub(super) name: Option<String>,
}

/// When a token begins to count, in seconds.
#[derive(Deserialize)]
struct Begin {
    nbf: Option<f64>,
}

/// A provider with what it takes to talk to it.
#[derive(Debug)]
pub(super) struct Relation<'a> {
    pub(super) provider: &'a IdentityProvider,
    pub(super) secret: Secret,
    pub(super) transport: Transport,
    pub(super) discovery: &'a Discovery,
    pub(super) now: Timestamp,
}

impl Relation<'_> {
    fn client(&self, metadata: &CoreProviderMetadata, redirect_uri: &str) -> Result<Client, SsoError> {
        let redirect = RedirectUrl::new(redirect_uri.to_owned()).map_err(|error| SsoError::ProviderError(error.to_string()))?;
        let secret = ClientSecret::new(self.secret.expose().to_owned());
        let methods = metadata.token_endpoint_auth_methods_supported();
        // Without a word on it, a provider takes the header.
        let in_body = methods.is_some_and(|methods| {
            !methods.contains(&CoreClientAuthMethod::ClientSecretBasic) && methods.contains(&CoreClientAuthMethod::ClientSecretPost)
        });
        let client = CoreClient::from_provider_metadata(metadata.clone(), self.client_id(), Some(secret));
        Ok(client.set_redirect_uri(redirect).set_auth_type(if in_body { AuthType::RequestBody } else { AuthType::BasicAuth }))
    }

    fn client_id(&self) -> ClientId {
        ClientId::new(self.provider.client_id.clone())
    }

    /// Where the browser is sent.
    pub(super) async fn authorization_url(
        &self,
        state: &str,
        ticket: &Ticket,
        login_hint: Option<&str>,
    ) -> Result<String, SsoError> {
        let known = self.discovery.known(&self.transport, &self.provider.issuer, self.now).await?;
        let client = self.client(&known.metadata, &ticket.redirect_uri)?;
        let verifier = PkceCodeVerifier::new(ticket.verifier.clone());
        let (state, nonce) = (CsrfToken::new(state.to_owned()), Nonce::new(ticket.nonce.clone()));
        let mut request = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, move || state, move || nonce)
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        for scope in self.provider.scopes.iter().filter(|scope| *scope != "openid") {
            request = request.add_scope(Scope::new(scope.clone()));
        }
        if let Some(hint) = login_hint {
            request = request.set_login_hint(LoginHint::new(hint.to_owned()));
        }
        Ok(request.url().0.into())
    }

    /// Exchanges the code, and checks what comes for it.
    pub(super) async fn claims(&self, code: &str, ticket: &Ticket) -> Result<Claims, SsoError> {
        let known = self.discovery.known(&self.transport, &self.provider.issuer, self.now).await?;
        let client = self.client(&known.metadata, &ticket.redirect_uri)?;
        let request = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(|error| SsoError::ProviderError(error.to_string()))?
            .set_pkce_verifier(PkceCodeVerifier::new(ticket.verifier.clone()));
        let tokens = request.request_async(&self.transport).await.map_err(|error| self.exchange_failed(error))?;
        let id_token = tokens.id_token().ok_or(SsoError::Refused(RefusalReason::BadToken))?;
        let nonce = Nonce::new(ticket.nonce.clone());
        let claims = match self.verify(&known.metadata, id_token, &tokens, &nonce) {
            Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey)) => {
                let renewed = self.discovery.with_new_keys(&self.transport, &self.provider.issuer, self.now).await?;
                let renewed = renewed.ok_or(SsoError::Refused(RefusalReason::BadSignature))?;
                self.verify(&renewed.metadata, id_token, &tokens, &nonce)
            }
            checked => checked,
        };
        let claims = claims.map_err(|error| self.token_refused(&error))?;
        let told = Claims {
            subject: claims.subject().to_string(),
            email: claims.email().map(|email| email.to_string()),
            email_verified: claims.email_verified().unwrap_or(false),
            name: claims.name().and_then(|name| name.get(None)).map(|name| name.to_string()),
        };
        let told = if told.email.is_some() { told } else { self.with_user_info(&client, &tokens, told).await? };
        if told.subject.is_empty() || told.subject.len() > MAX_SUBJECT {
            return Err(SsoError::Refused(RefusalReason::BadToken));
        }
        Ok(Claims { name: told.name.as_deref().map(tidy_name).filter(|name| !name.is_empty()), ..told })
    }

    fn verify(
        &self,
        metadata: &CoreProviderMetadata,
        id_token: &CoreIdToken,
        tokens: &CoreTokenResponse,
        nonce: &Nonce,
    ) -> Result<CoreIdTokenClaims, ClaimsVerificationError> {
        let (issuer, keys) = (metadata.issuer().clone(), metadata.jwks().clone());
        let now = Duration::from_millis(u64::try_from(self.now.as_millis()).unwrap_or(0)).saturating_sub(LEEWAY);
        // As for a client without a secret: ours is never the key of a signature.
        let verifier = CoreIdTokenVerifier::new_public_client(self.client_id(), issuer, keys)
            .set_allowed_algs(ALGORITHMS)
            .set_time_fn(move || (UNIX_EPOCH + now).into());
        let claims = id_token.claims(&verifier, nonce)?;
        self.check_begin(id_token)?;
        if let Some(expected) = claims.access_token_hash() {
            let signature = ClaimsVerificationError::SignatureVerification;
            let algorithm = id_token.signing_alg().map_err(signature)?;
            let key = id_token.signing_key(&verifier).map_err(signature)?;
            let found = AccessTokenHash::from_token(tokens.access_token(), algorithm, key);
            if !found.is_ok_and(|found| found == *expected) {
                return Err(ClaimsVerificationError::Other("the access token is another one".to_owned()));
            }
        }
        Ok(claims.clone())
    }

    /// Refuses a verified token whose time has not come. The crate knows no `nbf`, which is not of OpenID Connect but of every JWT.
    fn check_begin(&self, id_token: &CoreIdToken) -> Result<(), ClaimsVerificationError> {
        let token = id_token.to_string();
        let payload = token.split('.').nth(1).and_then(|part| BASE64URL_NOPAD.decode(part.as_bytes()).ok());
        let begin = payload.and_then(|payload| serde_json::from_slice::<Begin>(&payload).ok());
        let latest = (self.now + LEEWAY).as_millis() as f64 / 1000.0;
        match begin {
            Some(Begin { nbf }) if nbf.is_none_or(|nbf| nbf <= latest) => Ok(()),
            Some(_) => Err(ClaimsVerificationError::Other("the token is not valid yet".to_owned())),
            None => Err(ClaimsVerificationError::Other("the beginning of the token is no time".to_owned())),
        }
    }

    /// Some providers keep the address out of the ID token. The crate checks that the answer is about the same subject.
    async fn with_user_info(&self, client: &Client, tokens: &CoreTokenResponse, told: Claims) -> Result<Claims, SsoError> {
        let subject = openidconnect::SubjectIdentifier::new(told.subject.clone());
        let Ok(request) = client.user_info(tokens.access_token().clone(), Some(subject)) else { return Ok(told) };
        let asked = request.request_async::<EmptyAdditionalClaims, _, CoreGenderClaim>(&self.transport).await;
        let info: UserInfoClaims<EmptyAdditionalClaims, CoreGenderClaim> = asked.map_err(|error| match error {
            openidconnect::UserInfoError::Request(error) => unreachable_provider(error),
            openidconnect::UserInfoError::ClaimsVerification(error) => self.token_refused(&error),
            _ => SsoError::ProviderError("the user information is not what it should be".to_owned()),
        })?;
        let name = info.name().and_then(|name| name.get(None)).map(|name| name.to_string());
        Ok(Claims {
            email: info.email().map(|email| email.to_string()),
            email_verified: info.email_verified().unwrap_or(false),
            name: told.name.or(name),
            ..told
        })
    }

    /// What a provider says to a refused code is its word for our log, cut to what is no secret.
    fn exchange_failed(&self, error: CoreRequestTokenError<TransportError>) -> SsoError {
        match error {
            RequestTokenError::Request(error) => unreachable_provider(error),
            RequestTokenError::ServerResponse(refusal) => {
                tracing::warn!(provider = %self.provider.id, error = %refusal.error(), "a provider refused a code");
                SsoError::Refused(RefusalReason::CodeRefused)
            }
            RequestTokenError::Parse(..) => SsoError::Refused(RefusalReason::BadToken),
            RequestTokenError::Other(_) => SsoError::ProviderError("the answer to the code is not what it should be".to_owned()),
        }
    }

    fn token_refused(&self, error: &ClaimsVerificationError) -> SsoError {
        let reason = match error {
            ClaimsVerificationError::Expired(_) => RefusalReason::TokenExpired,
            ClaimsVerificationError::InvalidAudience(_) => RefusalReason::WrongAudience,
            ClaimsVerificationError::InvalidIssuer(_) => RefusalReason::WrongIssuer,
            ClaimsVerificationError::InvalidNonce(_) => RefusalReason::WrongNonce,
            ClaimsVerificationError::SignatureVerification(_) => RefusalReason::BadSignature,
            _ => RefusalReason::BadToken,
        };
        tracing::warn!(provider = %self.provider.id, reason = reason.name(), "a provider's token is refused");
        SsoError::Refused(reason)
    }
}

/// A name for people to read: on one line, and no longer than a name may be.
fn tidy_name(name: &str) -> String {
    let plain: String = name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_NAME).collect()
}
