//! Sessions: how and from where a person signed in, and how long that counts.

use std::{net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    config,
    id::{IdentityProviderId, SessionId, TenantId, UserId},
    secrets::Secret,
    vocabulary::vocabulary,
};

vocabulary! {
    /// How a person proves who they are.
    SignInMethod:
    Password "password",
    /// Through an identity provider.
    Sso "sso",
    /// With a sign-in link of an evaluation tenant.
    Link "link",
    /// With a code of an authenticator app.
    Totp "totp",
    Passkey "passkey",
    RecoveryCode "recovery_code",
}

impl SignInMethod {
    /// Whether it proves something else than the password or the identity at a provider.
    pub fn is_second_factor(self) -> bool {
        matches!(self, Self::Totp | Self::Passkey | Self::RecoveryCode)
    }
}

/// The longest user agent that is stored, in bytes.
const MAX_USER_AGENT: usize = 256;

/// Where a sign-in comes from, so that a person recognizes their sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// `None` for the admin socket, and for sessions from a release that did not store it.
    pub address: Option<IpAddr>,
    /// The `User-Agent` header, cut to a limit.
    pub user_agent: Option<String>,
}

impl Origin {
    pub fn new(address: Option<IpAddr>, user_agent: Option<&str>) -> Self {
        let cut = |text: &str| text[..text.floor_char_boundary(MAX_USER_AGENT)].to_owned();
        Self { address, user_agent: user_agent.map(str::trim).filter(|text| !text.is_empty()).map(cut) }
    }
}

/// The browser, or other client, that signs somebody in.
#[derive(Clone, Debug, Default)]
pub struct Browser {
    /// The session that it had before, by its token.
    pub former: Option<Secret>,
    pub origin: Origin,
}

/// The sign-on at an identity provider that started a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSignOn {
    pub identity_provider_id: IdentityProviderId,
    /// The provider's name for its own session, if it has one.
    pub sid: Option<String>,
    /// The class of the authentication at the provider.
    pub acr: Option<String>,
    /// The methods of the authentication at the provider.
    pub amr: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub tenant_id: TenantId,
    pub user_id: UserId,
    pub created_at: Timestamp,
    pub last_seen_at: Timestamp,
    /// When the session ends at the latest.
    pub expires_at: Timestamp,
    /// How the person signed in, in order. Empty for sessions from a release that did not store it.
    pub methods: Vec<SignInMethod>,
    /// When the person last proved who they are: at the sign-in, or when they confirmed it later.
    pub proven_at: Timestamp,
    pub origin: Origin,
    /// `None` if no identity provider started the session.
    pub sign_on: Option<SessionSignOn>,
}

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionRules {
    pub idle: Duration,
    pub absolute: Duration,
    /// How many sessions one user can have at the same time.
    pub most_per_user: usize,
}

impl SessionRules {
    pub fn new(settings: &config::Sessions) -> Self {
        Self {
            idle: Duration::from_secs(settings.idle_seconds),
            absolute: Duration::from_secs(settings.absolute_seconds),
            most_per_user: settings.most_per_user,
        }
    }

    pub fn is_over(&self, session: &Session, last_seen_at: Timestamp, now: Timestamp) -> bool {
        now >= session.expires_at || now >= last_seen_at + self.idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_agent_is_cut_between_characters() {
        let long = "ü".repeat(MAX_USER_AGENT);
        let kept = Origin::new(None, Some(&long)).user_agent.unwrap();
        assert_eq!(kept.len(), MAX_USER_AGENT);
        assert!(long.starts_with(&kept));
        assert_eq!(Origin::new(None, Some("x".repeat(255).as_str())).user_agent.unwrap().len(), 255);
        assert_eq!(Origin::new(None, Some("  ")).user_agent, None);
    }
}
