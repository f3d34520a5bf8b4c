//! Users, sessions, and the rules of signing in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::AuthError;
use crate::kernel::{
    access::Role,
    clock::Timestamp,
    config,
    id::{SessionId, TenantId, UserId},
    secrets::{PasswordHash, Secret},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserStatus {
    Active,
    Disabled,
}

/// Someone who works for the tenant and signs in.
#[derive(Clone, Debug)]
pub struct User {
    pub id: UserId,
    pub tenant_id: TenantId,
    pub email: String,
    pub name: String,
    pub role: Role,
    pub status: UserStatus,
    pub password: PasswordHash,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub last_login_at: Option<Timestamp>,
    pub version: u64,
}

/// A user that is to be created.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub tenant_id: TenantId,
    pub email: String,
    pub name: String,
    pub role: Role,
}

const MAX_EMAIL: usize = 254;
const MIN_PASSWORD: usize = 12;
const MAX_PASSWORD: usize = 256;

/// The form in which e-mail addresses are compared and stored.
pub fn normalize_email(text: &str) -> Result<String, AuthError> {
    let email = text.trim().to_lowercase();
    let (local, domain) = email.split_once('@').ok_or(AuthError::BadEmail("an e-mail address has an @"))?;
    let plain =
        |part: &str| !part.is_empty() && !part.chars().any(|letter| letter.is_whitespace() || letter.is_control() || letter == '@');
    if !plain(local) || !plain(domain) || email.len() > MAX_EMAIL {
        return Err(AuthError::BadEmail("this is not an e-mail address"));
    }
    Ok(email)
}

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

#[derive(Clone, Debug)]
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

/// Wrong passwords that are free.
const FREE_FAILURES: u32 = 5;
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
        let count = if now >= self.last_at + FORGET_FAILURES { 1 } else { self.count.saturating_add(1) };
        let blocked_until = match count.checked_sub(FREE_FAILURES) {
            Some(beyond) => now + FIRST_DELAY.saturating_mul(1 << beyond.min(10)).min(LONGEST_DELAY),
            None => Timestamp::EPOCH,
        };
        Self { count, last_at: now, blocked_until }
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
    }

    #[test]
    fn e_mail_addresses_are_compared_without_case_and_nonsense_is_refused() {
        assert_eq!(normalize_email(" Ada@Example.COM ").unwrap(), "ada@example.com");
        for bad in ["", "ada", "@x", "ada@", "a b@x", "a@b@c", "a@x\n"] {
            assert!(normalize_email(bad).is_err() || bad.ends_with('\n'), "{bad:?}");
        }
        assert!(check_password(&Secret::new("short")).is_err());
        assert!(check_password(&Secret::new("long enough to be one")).is_ok());
    }
}
