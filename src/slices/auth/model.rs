//! The rules of signing in. `session.rs` has sessions, `factors.rs` second factors, `preferences.rs` what a user stores for
//! the console. `passkey.rs` checks what authenticators return.

mod cbor;
mod device;
mod factors;
mod openers;
mod passkey;
#[cfg(test)]
mod passkey_tests;
mod passwords;
mod policy;
mod portal;
mod preferences;
mod relying_party;
mod session;
pub mod totp;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::Role,
    clock::Timestamp,
    id::{IdentityProviderId, TenantId, UserId},
};

pub use device::device;
pub use factors::{
    CHALLENGE_LIFE, Challenge, ENROLMENT_LIFE, Factor, FactorKind, MAX_ATTEMPTS, MAX_FACTOR_NAME, MAX_FACTORS, Presented, Proof,
    ProvenPasskey, RECOVERY_CODES, RecoveryCodes, Totp, check_factor, check_factor_name, methods_of,
};
pub use openers::Openers;
#[cfg(test)]
pub use passkey::PasskeyKey;
pub use passkey::{ALGORITHMS, Assertion, Expected, Passkey, PasskeyFault};
pub use passwords::{PasswordContext, check as check_password};
pub use policy::{PersonalKeys, SignInPolicy};
pub use portal::{PortalAccess, PortalSettings};
pub use preferences::{
    NewView, Preferences, PreferencesChange, SavedView, Theme, VIEW_VERSION, ViewArea, check_query, check_room, check_time_zone,
};
pub use relying_party::RelyingParty;
pub use session::{Browser, Origin, Session, SessionRules, SessionSignOn, SignInMethod};

/// A member of staff to create.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub tenant_id: TenantId,
    pub email: String,
    pub name: String,
    pub role: Role,
}

/// Why a sign-in was refused. Administrators of the tenant see the reason in the event. The person at the browser sees less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    WrongPassword,
    /// The password is right, but the code of the second factor is wrong or was used before.
    WrongCode,
    /// The passkey did not prove who the person is.
    WrongPasskey,
    /// The password is right, but it was an initial one and has expired.
    PasswordExpired,
    /// Too many passwords were wrong before, so tenantd did not compare this one.
    Throttled,
    /// The password is right, but the operator has suspended the tenant.
    TenantSuspended,
    /// The sign-in link is unknown, used, expired or withdrawn, or its tenant is closed.
    BadLink,
    /// The browser that returned is not the one that started the sign-on, or the sign-on does not exist.
    StateMismatch,
    /// The provider's response was used a second time.
    Replayed,
    /// The sign-on took too long and expired.
    SignOnExpired,
    /// The provider was removed or disabled, or its tenant is suspended.
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
    /// The address belongs to a user who cannot sign in through this provider.
    AddressTaken,
    /// The address belongs to a user who is linked to a different identity at this provider.
    OtherIdentity,
    /// The password or link is right, but the account must sign in through a provider.
    SingleSignOnRequired,
    /// The person did not authenticate at the provider as recently as required.
    NotFresh,
    /// The person did not authenticate at the provider as strongly as required.
    WeakSignOn,
    /// None of the person's groups gives a role.
    NoMappedGroup,
    /// The provider's list of groups cannot be read, or is not complete.
    UnusableGroups,
}

impl RefusalReason {
    pub const fn name(self) -> &'static str {
        match self {
            Self::WrongPassword => "wrong_password",
            Self::WrongCode => "wrong_code",
            Self::WrongPasskey => "wrong_passkey",
            Self::PasswordExpired => "password_expired",
            Self::Throttled => "throttled",
            Self::TenantSuspended => "tenant_suspended",
            Self::BadLink => "bad_link",
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
            Self::SingleSignOnRequired => "single_sign_on_required",
            Self::NotFresh => "not_fresh",
            Self::WeakSignOn => "weak_sign_on",
            Self::NoMappedGroup => "no_mapped_group",
            Self::UnusableGroups => "unusable_groups",
        }
    }
}

/// A refused sign-in, with the user and the provider if they are known.
#[derive(Clone, Debug)]
pub struct RefusedSignIn {
    /// How the person tried to sign in.
    pub method: SignInMethod,
    pub reason: RefusalReason,
    pub user: Option<(UserId, String)>,
    /// The identity provider of the attempt, and its name if it still exists.
    pub identity_provider: Option<(IdentityProviderId, Option<String>)>,
}

/// The count of wrong passwords for one account, whether or not it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginFailures {
    pub count: u32,
    pub last_at: Timestamp,
    pub blocked_until: Timestamp,
}

/// How many wrong passwords are allowed without a delay. More are allowed if the password was right for another account of the same
/// address, because a person with different passwords at two tenants may sign in to one of them several times a day.
const FREE_FAILURES: u32 = 5;
const FREE_SIBLING_FAILURES: u32 = 20;
const FIRST_DELAY: Duration = Duration::from_secs(30);
const LONGEST_DELAY: Duration = Duration::from_hours(1);
/// After this time without a wrong password, the count restarts at zero.
pub const FORGET_FAILURES: Duration = Duration::from_hours(24);

impl LoginFailures {
    pub fn none(now: Timestamp) -> Self {
        Self { count: 0, last_at: now, blocked_until: Timestamp::EPOCH }
    }

    /// Adds a wrong password. From the fifth on, each one doubles the delay.
    pub fn one_more(self, now: Timestamp) -> Self {
        self.one_more_of(FREE_FAILURES, now)
    }

    /// Adds a password that was right for another account of the same address. The delay starts with the twentieth.
    pub fn one_more_sibling(self, now: Timestamp) -> Self {
        self.one_more_of(FREE_SIBLING_FAILURES, now)
    }

    fn one_more_of(self, free: u32, now: Timestamp) -> Self {
        let count = if now >= self.last_at + FORGET_FAILURES { 1 } else { self.count.saturating_add(1) };
        let blocked_until = match count.checked_sub(free) {
            Some(beyond) => now + FIRST_DELAY.saturating_mul(1 << beyond.min(10)).min(LONGEST_DELAY),
            None => Timestamp::EPOCH,
        };
        Self { count, last_at: now, blocked_until }
    }

    /// Returns how many passwords may be checked at the same time: the remaining free ones, but at least one.
    pub fn places(self, now: Timestamp) -> u32 {
        let count = if now >= self.last_at + FORGET_FAILURES { 0 } else { self.count };
        FREE_FAILURES.saturating_sub(count).max(1)
    }

    /// Returns for how long no password is checked. `None` if there is no delay.
    pub fn wait_seconds(self, now: Timestamp) -> Option<u64> {
        let wait = self.blocked_until.since(now);
        (!wait.is_zero()).then(|| wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_starts_at_the_fifth_wrong_password_and_doubles() {
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
}
