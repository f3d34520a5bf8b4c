//! Passwords: Argon2id with the parameters of the OWASP cheat sheet (19 MiB, two passes). Hashing takes memory and a core for some
//! tens of milliseconds, so only a few run at one time, a bounded number waits, and the rest is turned away.

use std::sync::Arc;

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher, PasswordVerifier, phc},
};
use data_encoding::BASE64_NOPAD;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::Secret;
use crate::kernel::entropy::Entropy;

const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// A PHC string such as `$argon2id$v=19$m=19456,t=2,p=1$…`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash(String);

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    #[error("too many password checks are waiting")]
    Busy,
    #[error("password hashing failed: {0}")]
    Failed(String),
}

#[derive(Clone, Debug)]
pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// Checked when there is no account, so that its absence does not show in the time.
    decoy: PasswordHash,
}

impl Passwords {
    pub fn new(concurrent: usize, queue: usize, entropy: &mut Entropy) -> Self {
        // The hash of no password: to be checked it only has to look like one.
        let (salt, hash) = (BASE64_NOPAD.encode(&entropy.bytes::<16>()), BASE64_NOPAD.encode(&entropy.bytes::<32>()));
        let decoy = PasswordHash(format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${hash}"));
        Self { running: Arc::new(Semaphore::new(concurrent)), waiting: Arc::new(Semaphore::new(concurrent + queue)), decoy }
    }

    pub async fn hash(&self, password: Secret, entropy: &mut Entropy) -> Result<PasswordHash, PasswordError> {
        let salt: [u8; 16] = entropy.bytes();
        self.limited(move || hash_now(&password, salt)).await?
    }

    /// Whether the password is the one that was hashed. Without a hash it takes as long and says no.
    pub async fn verify(&self, password: Secret, hash: Option<PasswordHash>) -> Result<bool, PasswordError> {
        let known = hash.is_some();
        let hash = hash.unwrap_or_else(|| self.decoy.clone());
        let matches = self.limited(move || verify_now(&password, &hash)).await??;
        Ok(matches && known)
    }

    async fn limited<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, PasswordError> {
        let place = self.waiting.clone().try_acquire_owned().map_err(|_| PasswordError::Busy)?;
        let turn = self.running.clone().acquire_owned().await.map_err(|error| PasswordError::Failed(error.to_string()))?;
        // The hash goes on when its caller has gone away, and keeps its place until it is done.
        let work = move || {
            let _held = (place, turn);
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| PasswordError::Failed(error.to_string()))
    }
}

fn argon2() -> Result<Argon2<'static>, PasswordError> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| PasswordError::Failed(error.to_string()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash_now(password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
    let hash: phc::PasswordHash = argon2()?
        .hash_password_with_salt(password.expose().as_bytes(), &salt)
        .map_err(|error| PasswordError::Failed(error.to_string()))?;
    Ok(PasswordHash(hash.to_string()))
}

fn verify_now(password: &Secret, hash: &PasswordHash) -> Result<bool, PasswordError> {
    let parsed = phc::PasswordHash::new(&hash.0).map_err(|error| PasswordError::Failed(error.to_string()))?;
    Ok(argon2()?.verify_password(password.expose().as_bytes(), &parsed).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_told_from_another_and_from_no_account() {
        let mut entropy = Entropy::from_seed(1);
        let passwords = Passwords::new(1, 8, &mut entropy);
        let hash = passwords.hash(Secret::new("correct horse"), &mut entropy).await.unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert_eq!(passwords.verify(Secret::new("correct horse"), Some(hash.clone())).await, Ok(true));
        assert_eq!(passwords.verify(Secret::new("wrong horse"), Some(hash)).await, Ok(false));
        assert_eq!(passwords.verify(Secret::new("a password that nobody has"), None).await, Ok(false));
    }

    #[tokio::test]
    async fn a_check_whose_caller_has_gone_away_keeps_its_place_until_it_is_done() {
        let mut entropy = Entropy::from_seed(1);
        let passwords = Passwords::new(1, 0, &mut entropy);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let caller = tokio::time::timeout(std::time::Duration::from_millis(1), passwords.limited(move || held.recv()));
        assert!(caller.await.is_err(), "the caller did not go away");
        assert_eq!(passwords.verify(Secret::new("a"), None).await, Err(PasswordError::Busy));
        release.send(()).unwrap();
        while passwords.waiting.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(passwords.verify(Secret::new("a"), None).await, Ok(false));
    }

    #[tokio::test]
    async fn more_checks_than_the_queue_holds_are_turned_away() {
        let mut entropy = Entropy::from_seed(1);
        let passwords = Passwords::new(1, 0, &mut entropy);
        let (first, second) = tokio::join!(passwords.verify(Secret::new("a"), None), passwords.verify(Secret::new("b"), None));
        assert_eq!(first, Ok(false));
        assert_eq!(second, Err(PasswordError::Busy));
    }
}
