//! A provider reports that a session of a person has ended there: to the server (OpenID Connect Back-Channel Logout 1.0), or through a
//! page in a frame of the browser (Front-Channel Logout 1.0).
//!
//! **Invariant:** only sessions that the provider has started end. In the back channel, a token that the provider has signed for this
//! client ends them, and only once. In the front channel, browsers send no cookie into the frame. So the name of the session (`sid`)
//! ends it, which only the provider, the browser and tenantd know.

use std::time::Duration;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};

use tenantd_auth::{EndedSignOn, RefusalReason};
use tenantd_base::{
    clock::Timestamp,
    secrets::{Secret, digest},
};
use tenantd_directory as directory;
use tenantd_store::{WriteTx, events::Actor};

use super::{
    error::SsoError,
    exchange::is_session_text,
    flow::SignOn,
    model::IdentityProvider,
    repo::{self, ProviderKey, StateDigest},
    token::{Audience, Keys, LEEWAY, TokenError},
};

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// The values of `typ` in the header of a logout token. Providers that implement drafts of the standard use `JWT`.
const TYPES: [&str; 2] = ["logout+jwt", "JWT"];
/// A token counts for this long after it was issued. Its id is kept for longer, so that it counts once.
const LIFE: Duration = Duration::from_mins(10);

/// The claims of a logout token.
#[derive(Debug, Deserialize)]
struct LogoutToken {
    iss: String,
    aud: Audience,
    /// Times are in seconds since 1970.
    iat: f64,
    exp: f64,
    jti: String,
    events: Map<String, Value>,
    sub: Option<String>,
    sid: Option<String>,
    nonce: Option<IgnoredAny>,
}

/// What a valid logout token says.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    jti: String,
    subject: Option<String>,
    sid: Option<String>,
}

/// Checks a logout token. A nonce would make it an ID token, so there must be none.
fn check(token: &str, keys: &Keys, provider: &IdentityProvider, now: Timestamp) -> Result<Ended, TokenError> {
    let wrong = |reason| Err(TokenError::Refused(reason));
    let (_, claims) = keys.verify_typed::<LogoutToken>(token, &TYPES)?;
    let seconds = |at: Timestamp| at.as_millis() as f64 / 1000.0;
    if claims.iss != provider.issuer {
        return wrong(RefusalReason::WrongIssuer);
    }
    if !claims.aud.is_only(&provider.client_id) {
        return wrong(RefusalReason::WrongAudience);
    }
    if claims.exp <= seconds(now - LEEWAY) || claims.iat <= seconds(now - LIFE - LEEWAY) {
        return wrong(RefusalReason::TokenExpired);
    }
    let is_logout = claims.events.get(EVENT).is_some_and(Value::is_object);
    let names_session = claims.sub.is_some() || claims.sid.is_some();
    let texts = [Some(&claims.jti), claims.sub.as_ref(), claims.sid.as_ref()];
    let fits = texts.into_iter().flatten().all(|text| is_session_text(text));
    if claims.iat > seconds(now + LEEWAY) || claims.nonce.is_some() || !is_logout || !names_session || !fits {
        return wrong(RefusalReason::BadToken);
    }
    Ok(Ended { jti: claims.jti, subject: claims.sub, sid: claims.sid })
}

/// The mark of a logout token that was used. It is in the table of used states, whose digests are of sealed texts.
fn mark((tenant, provider): ProviderKey, jti: &str) -> StateDigest {
    digest(&[b"logout token\0".as_slice(), tenant.as_bytes(), provider.as_bytes(), jti.as_bytes()].concat())
}

/// The provider of a session that a person has ended here.
#[derive(Debug)]
pub(super) struct LeftProvider {
    pub(super) provider_name: String,
    /// Where the person signs out of the provider.
    pub(super) url: Option<String>,
}

impl SignOn {
    /// The provider that started a session, and the address of its user.
    pub(super) fn provider_of(&self, token: &Secret) -> Result<Option<(IdentityProvider, Option<String>)>, SsoError> {
        let Some((user, session)) = self.users.session_of(token)? else { return Ok(None) };
        let Some(sign_on) = session.sign_on else { return Ok(None) };
        let provider = self.store.read(|tx| repo::get(tx, (session.tenant_id, sign_on.identity_provider_id)))?;
        Ok(provider.map(|provider| (provider, user.email)))
    }

    /// Ends a session. A provider that cannot be reached does not keep anybody signed in.
    pub(super) async fn sign_out(&self, token: &Secret, now: Timestamp) -> Result<Option<LeftProvider>, SsoError> {
        let left = self.provider_of(token)?;
        self.users.logout(token).await?;
        let Some((provider, email)) = left else { return Ok(None) };
        let url = match self.client(&provider, now)?.sign_out_url(email.as_deref()).await {
            Ok(url) => url,
            Err(error) => {
                tracing::warn!(provider = %provider.id, %error, "the sign-out page of a provider is not known");
                None
            }
        };
        Ok(Some(LeftProvider { provider_name: provider.name, url }))
    }

    /// Ends the sessions that the provider calls `sid`. Returns the provider. A provider that is disabled can still end sessions, and a
    /// session that has ended is no error. Strangers can call this, so nothing is written before a session is found.
    pub(super) async fn end_in_frame(
        &self,
        key: ProviderKey,
        issuer: &str,
        sid: &str,
        now: Timestamp,
    ) -> Result<IdentityProvider, SsoError> {
        let provider = self.store.read(|tx| repo::get(tx, key))?.filter(|provider| provider.issuer == issuer);
        let provider = provider.ok_or(SsoError::BadLogoutIssuer)?;
        let ended = EndedSignOn { provider: key.1, sid: Some(sid.to_owned()), user: None };
        if !self.users.has_sign_on_sessions(key.0, &ended)? {
            return Ok(provider);
        }
        let intent = self.tenants.guarding_intent(key.0, now, Actor::system("single sign-on"));
        let users = self.users.clone();
        let work = move |tx: &mut WriteTx| {
            let count = users.end_sign_on_sessions(tx, &mut intent.begin(), &ended)?;
            tracing::info!(provider = %key.1, sessions = count, "a provider has ended sessions in a frame");
            Ok::<_, SsoError>(())
        };
        self.store.write(work).await?;
        Ok(provider)
    }

    /// Ends the sessions that a logout token names. A provider that is disabled can still end sessions.
    pub(super) async fn end_by_provider(&self, key: ProviderKey, token: &str, now: Timestamp) -> Result<(), SsoError> {
        let provider = self.store.read(|tx| repo::get(tx, key))?.ok_or(SsoError::BadLogoutToken)?;
        let client = self.client(&provider, now)?;
        let ended = match client.checked(|keys| check(token, keys, &provider, now)).await {
            Err(SsoError::Refused(_)) => return Err(SsoError::BadLogoutToken),
            checked => checked?,
        };
        let intent = self.tenants.guarding_intent(key.0, now, Actor::system("single sign-on"));
        let (users, issuer) = (self.users.clone(), provider.issuer.clone());
        let work = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            if !repo::spend(tx, &mark(key, &ended.jti), now + LIFE + LEEWAY + LEEWAY)? {
                return Err(SsoError::BadLogoutToken);
            }
            let user = match &ended.subject {
                // Without a user, nothing of this subject can have started here.
                Some(subject) => match directory::staff_by_identity(tx, key.0, &issuer, subject)? {
                    Some(user) => Some(user.id),
                    None => return Ok(()),
                },
                None => None,
            };
            let ended = EndedSignOn { provider: key.1, sid: ended.sid.clone(), user };
            let count = users.end_sign_on_sessions(tx, &mut act, &ended)?;
            tracing::info!(provider = %key.1, sessions = count, "a provider has ended sessions");
            Ok(())
        };
        self.store.write(work).await
    }
}
