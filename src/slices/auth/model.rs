//! Sessions, and the rules of signing in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::Role,
    clock::Timestamp,
    config,
    id::{IdentityProviderId, SessionId, TenantId, UserId},
    secrets::Secret,
};

use super::error::AuthError;

/// A member of staff that is to be created.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub tenant_id: TenantId,
    pub email: String,
    pub name: String,
    pub role: Role,
}

/// Why a sign-in was refused. The words are those of the event, for whoever looks after the tenant; the person in front of the browser is
/// told less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    WrongPassword,
    /// Too many passwords were wrong before, so tenantd did not compare this one.
    Throttled,
    /// The password is right, but the operator has suspended the tenant.
    TenantSuspended,
    /// The browser that comes back is not the one that was sent to the provider, or says so of a sign-on that never was.
    StateMismatch,
    /// The same answer of the provider came a second time.
    Replayed,
    /// The person took longer than a sign-on lasts.
    SignOnExpired,
    /// The provider is not there any more, or disabled, or its tenant is suspended.
    ProviderGone,
    ProviderRefused,
    ProviderUnavailable,
    CodeRefused,
    WrongIssuer,
    WrongAudience,
    WrongNonce,
    TokenExpired,
    BadSignature,
    BadToken,
    EmailMissing,
    EmailNotVerified,
    ForeignDomain,
    NoAccount,
    AccountDisabled,
    /// The address belongs to somebody who cannot be signed in through this provider.
    AddressTaken,
    /// The address belongs to somebody who is another person at this provider.
    OtherIdentity,
}

impl RefusalReason {
    pub const fn name(self) -> &'static str {
        match self {
            Self::WrongPassword => "wrong_password",
            Self::Throttled => "throttled",
            Self::TenantSuspended => "tenant_suspended",
            Self::StateMismatch => "state_mismatch",
            Self::Replayed => "replayed",
            Self::SignOnExpired => "sign_on_expired",
            Self::ProviderGone => "provider_gone",
            Self::ProviderRefused => "provider_refused",
            Self::ProviderUnavailable => "provider_unavailable",
            Self::CodeRefused => "code_refused",
            Self::WrongIssuer => "wrong_issuer",
            Self::WrongAudience => "wrong_audience",
            Self::WrongNonce => "wrong_nonce",
            Self::TokenExpired => "token_expired",
            Self::BadSignature => "bad_signature",
            Self::BadToken => "bad_token",
            Self::EmailMissing => "email_missing",
            Self::EmailNotVerified => "email_not_verified",
            Self::ForeignDomain => "foreign_domain",
            Self::NoAccount => "no_account",
            Self::AccountDisabled => "account_disabled",
            Self::AddressTaken => "address_taken",
            Self::OtherIdentity => "other_identity",
        }
    }
}

/// A sign-in that was refused, as far as it is known whose it was to be.
#[derive(Clone, Debug)]
pub struct RefusedSignIn {
    pub reason: RefusalReason,
    pub user: Option<(UserId, String)>,
    /// The provider that somebody wanted to sign in through, and its name if it is still there.
    pub identity_provider: Option<(IdentityProviderId, Option<String>)>,
}

const MIN_PASSWORD: usize = 12;
const MAX_PASSWORD: usize = 256;

/// Length is what makes a password strong; nothing else is asked of it.
pub fn check_password(password: &Secret) -> Result<(), AuthError> {
    let length = password.expose().chars().count();
    if length < MIN_PASSWORD {
        return Err(AuthError::BadPassword("a password has at least 12 characters"));
    }
    if length > MAX_PASSWORD {
        return Err(AuthError::BadPassword("a password has at most 256 characters"));
    }
    Ok(())
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub tenant_id: TenantId,
    pub user_id: UserId,
    pub created_at: Timestamp,
    pub last_seen_at: Timestamp,
    /// The end in any case.
    pub expires_at: Timestamp,
}

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionRules {
    pub idle: Duration,
    pub absolute: Duration,
}

impl SessionRules {
    pub fn new(settings: &config::Sessions) -> Self {
        Self { idle: Duration::from_secs(settings.idle_seconds), absolute: Duration::from_secs(settings.absolute_seconds) }
    }

    pub fn is_over(&self, session: &Session, last_seen_at: Timestamp, now: Timestamp) -> bool {
        now >= session.expires_at || now >= last_seen_at + self.idle
    }
}

/// Wrong passwords for one account, known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginFailures {
    pub count: u32,
    pub last_at: Timestamp,
    pub blocked_until: Timestamp,
}

/// Wrong passwords that are free. More are free if they were right for another account of the address: somebody with different passwords
/// at two tenants signs in to one of them several times a day.
const FREE_FAILURES: u32 = 5;
const FREE_BESIDE: u32 = 20;
const FIRST_DELAY: Duration = Duration::from_secs(30);
const LONGEST_DELAY: Duration = Duration::from_hours(1);
/// After this long without a wrong password the count starts over.
pub const FORGET_FAILURES: Duration = Duration::from_hours(24);

impl LoginFailures {
    pub fn none(now: Timestamp) -> Self {
        Self { count: 0, last_at: now, blocked_until: Timestamp::EPOCH }
    }

    /// The count after one more: from the fifth on, each doubles the delay.
    pub fn one_more(self, now: Timestamp) -> Self {
        self.one_more_of(FREE_FAILURES, now)
    }

    /// The same for a password that was right for another account of the address, from the twentieth on.
    pub fn one_more_beside(self, now: Timestamp) -> Self {
        self.one_more_of(FREE_BESIDE, now)
    }

    fn one_more_of(self, free: u32, now: Timestamp) -> Self {
        let count = if now >= self.last_at + FORGET_FAILURES { 1 } else { self.count.saturating_add(1) };
        let blocked_until = match count.checked_sub(free) {
            Some(beyond) => now + FIRST_DELAY.saturating_mul(1 << beyond.min(10)).min(LONGEST_DELAY),
            None => Timestamp::EPOCH,
        };
        Self { count, last_at: now, blocked_until }
    }

    /// How many passwords may be checked at the same time: as many as are still free, and one behind those.
    pub fn places(self, now: Timestamp) -> u32 {
        let count = if now >= self.last_at + FORGET_FAILURES { 0 } else { self.count };
        FREE_FAILURES.saturating_sub(count).max(1)
    }

    /// How long no password is looked at.
    pub fn wait_seconds(self, now: Timestamp) -> Option<u64> {
        let wait = self.blocked_until.since(now);
        (!wait.is_zero()).then(|| wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_wrong_password_blocks_and_each_further_one_doubles_the_delay() {
        let mut now = Timestamp::from_millis(1_000_000);
        let mut failures = LoginFailures::none(now);
        let mut waits = Vec::new();
        for _ in 0..14 {
            failures = failures.one_more(now);
            waits.push(failures.wait_seconds(now).unwrap_or(0));
            now = now + Duration::from_secs(1);
        }
        assert_eq!(waits, [0, 0, 0, 0, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        assert_eq!(failures.one_more(now + FORGET_FAILURES).count, 1);
        let places = |count: u32| LoginFailures { count, ..failures }.places(now);
        assert_eq!((0..7).map(places).collect::<Vec<_>>(), [5, 4, 3, 2, 1, 1, 1]);
        assert_eq!(failures.places(now + FORGET_FAILURES), 5);
    }

    #[test]
    fn a_password_has_a_least_and_a_most_length() {
        assert!(check_password(&Secret::new("short")).is_err());
        assert!(check_password(&Secret::new("a".repeat(257))).is_err());
        assert!(check_password(&Secret::new("long enough to be one")).is_ok());
    }
}
