//! Passwords that are being checked, by account. A check takes a while, and only its end is written down: without a place for each before
//! it begins, a caller could have many guesses checked at the same time, however few are free.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// An account, known or not.
type Account = [u8; 16];

#[derive(Clone, Debug, Default)]
pub(super) struct Checks(Arc<Mutex<HashMap<Account, u32>>>);

/// A check that is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    checks: Checks,
    account: Account,
    /// How many there are of the account, with this one.
    pub(super) count: u32,
}

impl Checks {
    pub(super) fn begin(&self, account: Account) -> UnderWay {
        let count = {
            let mut checks = self.lock();
            let count = checks.entry(account).or_default();
            *count += 1;
            *count
        };
        UnderWay { checks: self.clone(), account, count }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Account, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut checks = self.checks.lock();
        if let Some(count) = checks.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                checks.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_counted_by_account_and_forgotten_at_their_end() {
        let checks = Checks::default();
        let (first, second, other) = (checks.begin([1; 16]), checks.begin([1; 16]), checks.begin([2; 16]));
        assert_eq!((first.count, second.count, other.count), (1, 2, 1));
        drop(first);
        assert_eq!(checks.begin([1; 16]).count, 2);
        drop((second, other));
        assert!(checks.lock().is_empty());
    }
}
