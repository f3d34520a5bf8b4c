//! Passwords: Argon2id with the parameters of the OWASP cheat sheet (19 MiB, two passes). A hash takes memory and one core for tens
//! of milliseconds. So only a few run at the same time, a bounded number waits, and the rest is refused.
//!
//! A hash carries its own parameters. **Invariant:** a hash whose parameters are outside of our bounds never gets memory, wherever
//! it comes from.

use std::{ops::RangeInclusive, sync::Arc};

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher, PasswordVerifier, phc},
};
use data_encoding::BASE64_NOPAD;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::Secret;
use crate::entropy::Entropy;

const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// The bounds for imported hashes: at least as strong as ours, and cheap enough to check without harm.
const MEMORY_BOUNDS: RangeInclusive<u32> = MEMORY_KIB..=65_536;
const PASS_BOUNDS: RangeInclusive<u32> = PASSES..=4;
const LANE_BOUNDS: RangeInclusive<u32> = LANES..=4;
const SALT_BOUNDS: RangeInclusive<usize> = 8..=64;
const OUTPUT_BOUNDS: RangeInclusive<usize> = 16..=64;
/// The longest text of a hash within these bounds, with some room.
const LONGEST_HASH: usize = 300;

/// A PHC string such as `$argon2id$v=19$m=19456,t=2,p=1$…`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash(String);

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

impl PasswordHash {
    /// Whether the hash has the parameters of this release.
    pub fn is_current(&self) -> bool {
        let Ok(parsed) = phc::PasswordHash::new(&self.0) else { return false };
        let given = |name: &str| parsed.params.get_decimal(name);
        let parameters = (given("m"), given("t"), given("p"));
        parsed.algorithm.as_str() == "argon2id" && parameters == (Some(MEMORY_KIB), Some(PASSES), Some(LANES))
    }

    /// Refuses a hash that is not Argon2id within our bounds.
    pub fn check(&self) -> Result<(), PasswordError> {
        let refuse = |reason: String| Err(PasswordError::Unacceptable(reason));
        if self.0.len() > LONGEST_HASH {
            return refuse("it is too long".to_owned());
        }
        let Ok(parsed) = phc::PasswordHash::new(&self.0) else { return refuse("it cannot be parsed".to_owned()) };
        if parsed.algorithm.as_str() != "argon2id" || parsed.version != Some(u32::from(Version::V0x13)) {
            return refuse("it is not Argon2id, version 19".to_owned());
        }
        let given = |name: &str| parsed.params.get_decimal(name);
        for (name, what, bounds) in
            [("m", "memory in KiB", MEMORY_BOUNDS), ("t", "passes", PASS_BOUNDS), ("p", "lanes", LANE_BOUNDS)]
        {
            if !given(name).is_some_and(|value| bounds.contains(&value)) {
                return refuse(format!("{name} ({what}) must be {} to {}", bounds.start(), bounds.end()));
            }
        }
        let lengths = (parsed.salt.as_ref().map(|salt| salt.len()), parsed.hash.as_ref().map(phc::Output::len));
        match lengths {
            (Some(salt), Some(output)) if SALT_BOUNDS.contains(&salt) && OUTPUT_BOUNDS.contains(&output) => Ok(()),
            _ => refuse("its salt or its output is missing or has the wrong length".to_owned()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    #[error("too many password checks are waiting")]
    Busy,
    /// An imported hash that must not be checked.
    #[error("the password hash is not accepted: {0}")]
    Unacceptable(String),
    #[error("password hashing failed: {0}")]
    Failed(String),
}

#[derive(Clone, Debug)]
pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// Checked if there is no account, so that the response time does not reveal its absence.
    decoy: PasswordHash,
}

impl Passwords {
    pub fn new(concurrent: usize, queue: usize, entropy: &mut Entropy) -> Self {
        // A hash of no password. It only has to look like one.
        let (salt, hash) = (BASE64_NOPAD.encode(&entropy.bytes::<16>()), BASE64_NOPAD.encode(&entropy.bytes::<32>()));
        let decoy = PasswordHash(format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${hash}"));
        Self { running: Arc::new(Semaphore::new(concurrent)), waiting: Arc::new(Semaphore::new(concurrent + queue)), decoy }
    }

    pub async fn hash(&self, password: Secret, entropy: &mut Entropy) -> Result<PasswordHash, PasswordError> {
        let salt: [u8; 16] = entropy.bytes();
        self.limited(move || hash_now(&password, salt)).await?
    }

    /// Returns which of these hashes match the password. A missing hash takes as long as any other and does not match. All of them
    /// are checked in one turn.
    pub async fn verify_each(&self, password: Secret, hashes: Vec<Option<PasswordHash>>) -> Result<Vec<bool>, PasswordError> {
        let is_accepted = |hash: &PasswordHash| {
            let accepted = hash.check();
            if let Err(error) = &accepted {
                tracing::warn!(%error, "a stored password hash is not accepted and was not checked");
            }
            accepted.is_ok()
        };
        let hashes: Vec<Option<PasswordHash>> = hashes.into_iter().map(|hash| hash.filter(is_accepted)).collect();
        let decoy = self.decoy.clone();
        let check =
            move |hash: &Option<PasswordHash>| Ok(verify_now(&password, hash.as_ref().unwrap_or(&decoy))? && hash.is_some());
        self.limited(move || hashes.iter().map(check).collect()).await?
    }

    async fn limited<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, PasswordError> {
        let place = self.waiting.clone().try_acquire_owned().map_err(|_| PasswordError::Busy)?;
        let turn = self.running.clone().acquire_owned().await.map_err(|error| PasswordError::Failed(error.to_string()))?;
        // The work continues after its caller is gone, and keeps its place until it is done.
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

    async fn verify(passwords: &Passwords, password: Secret, hash: Option<PasswordHash>) -> Result<bool, PasswordError> {
        Ok(passwords.verify_each(password, vec![hash]).await? == [true])
    }

    #[tokio::test]
    async fn only_the_right_password_matches() {
        let mut entropy = Entropy::from_seed(1);
        let passwords = Passwords::new(1, 8, &mut entropy);
        let hash = passwords.hash(Secret::new("correct horse"), &mut entropy).await.unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && hash.is_current());
        assert!(!with("m=65536,t=2,p=1").is_current() && !with("m=19456,t=3,p=1").is_current());
        assert_eq!(verify(&passwords, Secret::new("correct horse"), Some(hash.clone())).await, Ok(true));
        assert_eq!(verify(&passwords, Secret::new("wrong horse"), Some(hash.clone())).await, Ok(false));
        assert_eq!(verify(&passwords, Secret::new("a password that nobody has"), None).await, Ok(false));
        let other = passwords.hash(Secret::new("another horse"), &mut entropy).await.unwrap();
        let hashes = vec![None, Some(other.clone()), Some(hash.clone()), Some(with("m=8,t=2,p=1")), Some(hash.clone())];
        let found = passwords.verify_each(Secret::new("correct horse"), hashes).await;
        assert_eq!(found, Ok(vec![false, false, true, false, true]));
    }

    fn with(parameters: &str) -> PasswordHash {
        let (salt, output) = (BASE64_NOPAD.encode(&[1; 16]), BASE64_NOPAD.encode(&[2; 32]));
        PasswordHash(format!("$argon2id$v=19${parameters}${salt}${output}"))
    }

    #[test]
    fn parameters_outside_of_our_bounds_are_refused() {
        assert_eq!(with("m=19456,t=2,p=1").check(), Ok(()));
        assert_eq!(with("m=65536,t=4,p=4").check(), Ok(()));
        for (parameters, reason) in [
            ("m=3145728,t=2,p=1", "m (memory in KiB) must be 19456 to 65536"),
            ("m=8,t=2,p=1", "m (memory in KiB) must be 19456 to 65536"),
            ("m=19456,t=4000000,p=1", "t (passes) must be 2 to 4"),
            ("m=19456,t=1,p=1", "t (passes) must be 2 to 4"),
            ("m=19456,t=2,p=255", "p (lanes) must be 1 to 4"),
            ("t=2,p=1", "m (memory in KiB) must be 19456 to 65536"),
        ] {
            assert_eq!(with(parameters).check(), Err(PasswordError::Unacceptable(reason.to_owned())), "{parameters}");
        }
        for text in
            ["", "$argon2d$v=19$m=19456,t=2,p=1$AQEBAQEBAQE$AgICAgICAgICAgICAgICAg", "$argon2id$v=19$m=19456,t=2,p=1$AQEBAQEBAQE"]
        {
            assert!(PasswordHash(text.to_owned()).check().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_hash_that_asks_for_too_much_is_never_checked() {
        let mut entropy = Entropy::from_seed(1);
        let passwords = Passwords::new(1, 8, &mut entropy);
        // 4 TiB: trying to allocate it would end the process.
        assert_eq!(verify(&passwords, Secret::new("any password"), Some(with("m=4294967295,t=2,p=1"))).await, Ok(false));
    }

    #[tokio::test]
    async fn an_abandoned_check_keeps_its_place_until_it_is_done() {
        let mut entropy = Entropy::from_seed(1);
        let passwords = Passwords::new(1, 0, &mut entropy);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let caller = tokio::time::timeout(std::time::Duration::from_millis(1), passwords.limited(move || held.recv()));
        assert!(caller.await.is_err(), "the caller did not time out");
        assert_eq!(verify(&passwords, Secret::new("a"), None).await, Err(PasswordError::Busy));
        release.send(()).unwrap();
        while passwords.waiting.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(verify(&passwords, Secret::new("a"), None).await, Ok(false));
    }

    #[tokio::test]
    async fn checks_beyond_the_queue_are_refused() {
        let mut entropy = Entropy::from_seed(1);
        let passwords = Passwords::new(1, 0, &mut entropy);
        let (first, second) = tokio::join!(verify(&passwords, Secret::new("a"), None), verify(&passwords, Secret::new("b"), None));
        assert_eq!(first, Ok(false));
        assert_eq!(second, Err(PasswordError::Busy));
    }
}
