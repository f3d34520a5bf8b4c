//! The identifiers of a running sign-on: a state, which passes through the provider, and a ticket, which stays in the browser as a
//! cookie. Both are sealed, so nothing is stored here before the callback.
//!
//! **Invariant:** a state and its ticket belong to the same sign-on and the same provider. One without the other is useless.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use tenantd_base::{
    clock::Timestamp,
    entropy::Entropy,
    return_path::ReturnPath,
    secrets::{SealedPlace, Sealer, Secret, digest},
};
use tenantd_store::codec::{decode_fields, encode_fields};

use super::{
    error::SsoError,
    repo::{ProviderKey, StateDigest},
};

/// How long a user may take to sign in at the provider.
pub(super) const SIGN_ON_LIFE: Duration = Duration::from_mins(10);

/// The state, which passes through the provider.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) provider: ProviderKey,
    pub(super) expires_at: Timestamp,
    /// Makes every state unique.
    salt: [u8; 16],
}

/// The ticket, which stays in the browser.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ticket {
    pub(super) provider: ProviderKey,
    state: StateDigest,
    pub(super) nonce: String,
    pub(super) verifier: String,
    pub(super) redirect_uri: String,
    pub(super) return_to: ReturnPath,
    pub(super) expires_at: Timestamp,
    /// Whether the sign-on is a test, which signs nobody in.
    #[serde(default)]
    pub(super) test: bool,
    /// Whether the person must authenticate again, even if the provider has a session for them.
    #[serde(default)]
    pub(super) fresh: bool,
    /// Whether the provider answers at its own redirect URI.
    #[serde(default)]
    pub(super) own_redirect: bool,
}

/// The purpose of a sign-on.
#[derive(Debug)]
pub(super) enum Purpose {
    SignIn { return_to: ReturnPath, fresh: bool },
    Test,
}

/// The address that the provider sends the browser back to.
#[derive(Clone, Debug)]
pub(super) struct Redirect {
    pub(super) uri: String,
    /// Whether no other provider uses the address.
    pub(super) is_own: bool,
}

/// A link that starts a test of a provider.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TestLink {
    pub(super) provider: ProviderKey,
    pub(super) expires_at: Timestamp,
}

impl Ticket {
    pub(super) fn started_at(&self) -> Timestamp {
        self.expires_at - SIGN_ON_LIFE
    }

    pub(super) fn belongs_to(&self, state: &str) -> bool {
        self.state == state_digest(state)
    }
}

pub(super) fn state_digest(state: &str) -> StateDigest {
    digest(state.as_bytes())
}

/// The identifiers of a new sign-on.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) state: String,
    pub(super) cookie: String,
    pub(super) ticket: Ticket,
}

#[derive(Clone, Debug)]
pub(super) struct Tickets {
    pub(super) sealer: Sealer,
}

const STATE: &[u8] = b"state";
const TICKET: &[u8] = b"ticket";
const TEST: &[u8] = b"test";

impl Tickets {
    pub(super) fn issue(
        &self,
        provider: ProviderKey,
        redirect: Redirect,
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<Issued, SsoError> {
        let mut entropy = Entropy::from_os();
        let expires_at = now + SIGN_ON_LIFE;
        let state = State { provider, expires_at, salt: entropy.bytes() };
        let state = self.seal(STATE, &state, &mut entropy)?;
        let (return_to, fresh, test) = match purpose {
            Purpose::SignIn { return_to, fresh } => (return_to, fresh, false),
            Purpose::Test => (ReturnPath::home(), false, true),
        };
        let ticket = Ticket {
            provider,
            state: state_digest(&state),
            nonce: random_text(&mut entropy),
            verifier: random_text(&mut entropy),
            redirect_uri: redirect.uri,
            return_to,
            expires_at,
            test,
            fresh,
            own_redirect: redirect.is_own,
        };
        let cookie = self.seal(TICKET, &ticket, &mut entropy)?;
        Ok(Issued { state, cookie, ticket })
    }

    pub(super) fn open_state(&self, text: &str) -> Option<State> {
        self.open(STATE, text)
    }

    pub(super) fn open_ticket(&self, text: &str) -> Option<Ticket> {
        self.open(TICKET, text)
    }

    pub(super) fn issue_test(&self, provider: ProviderKey, now: Timestamp) -> Result<(String, Timestamp), SsoError> {
        let link = TestLink { provider, expires_at: now + SIGN_ON_LIFE };
        Ok((self.seal(TEST, &link, &mut Entropy::from_os())?, link.expires_at))
    }

    /// The provider that a link tests, unless the link has expired.
    pub(super) fn open_test(&self, text: &str, now: Timestamp) -> Option<ProviderKey> {
        self.open::<TestLink>(TEST, text).filter(|link| now < link.expires_at).map(|link| link.provider)
    }

    fn seal(&self, kind: &[u8], value: &impl Serialize, entropy: &mut Entropy) -> Result<String, SsoError> {
        let text = Secret::new(serde_json::to_string(value)?);
        let sealed = self.sealer.seal(place(kind), &text, entropy)?;
        let bytes = encode_fields(&sealed).map_err(SsoError::ProviderError)?;
        Ok(BASE64URL_NOPAD.encode(&bytes))
    }

    /// Opens a sealed text. Forged texts do not open.
    fn open<T: DeserializeOwned>(&self, kind: &[u8], text: &str) -> Option<T> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let text = self.sealer.open(place(kind), &decode_fields(&bytes).ok()?).ok()?;
        serde_json::from_str(text.expose()).ok()
    }
}

/// A place that no table uses, because no record is stored.
fn place(kind: &[u8]) -> SealedPlace<'_> {
    SealedPlace { tenant: &[0; 16], table: "sign-on", key: kind, target: None }
}

fn random_text(entropy: &mut Entropy) -> String {
    let bytes: [u8; 32] = entropy.bytes();
    BASE64URL_NOPAD.encode(&bytes)
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        id::{IdentityProviderId, TenantId},
        secrets::InstallationKey,
    };

    use super::*;

    #[test]
    fn tickets_open_only_as_tickets_and_fit_into_a_cookie() {
        let tickets = Tickets { sealer: Sealer::new(&InstallationKey::generate(&mut Entropy::from_seed(1))) };
        let provider = (TenantId::from_bytes([1; 16]), IdentityProviderId::from_bytes([2; 16]));
        let now = Timestamp::from_millis(1_767_225_600_000);
        let long = ReturnPath::parse(&format!("/{}", "a".repeat(999))).unwrap();
        let issue = || {
            let uri = "https://ops.example.com/api/auth/sso/callback/idp_01kg9pybp0f88rpgmx0nqf2a81".to_owned();
            let purpose = Purpose::SignIn { return_to: long.clone(), fresh: true };
            tickets.issue(provider, Redirect { uri, is_own: true }, purpose, now).unwrap()
        };
        let (one, other) = (issue(), issue());
        let ticket = tickets.open_ticket(&one.cookie).unwrap();
        assert!(ticket.belongs_to(&one.state) && !ticket.belongs_to(&other.state));
        assert_eq!((ticket.provider, ticket.expires_at), (provider, now + SIGN_ON_LIFE));
        assert!(ticket.nonce != other.ticket.nonce && ticket.verifier != other.ticket.verifier && ticket.nonce != ticket.verifier);
        assert_eq!(tickets.open_state(&one.state).unwrap().provider, provider);
        assert!(tickets.open_state(&one.cookie).is_none() && tickets.open_ticket(&one.state).is_none());
        let (link, end) = tickets.issue_test(provider, now).unwrap();
        assert_eq!((tickets.open_test(&link, now), tickets.open_test(&link, end)), (Some(provider), None));
        assert!(tickets.open_ticket(&link).is_none() && tickets.open_test(&one.state, now).is_none());
        assert!(tickets.open_ticket("").is_none() && tickets.open_ticket(&one.cookie[1..]).is_none());
        assert!(one.cookie.len() < 3500, "{}", one.cookie.len());
        assert!(!one.cookie.contains(&one.ticket.nonce));
    }
}
