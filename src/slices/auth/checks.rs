//! Counts the password checks in progress, by account. A check takes a while, and a failure is stored only after it. Without this
//! count, a caller could bypass the limit of free guesses with many concurrent requests.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The key of an account, whether or not it exists.
type Account = [u8; 16];

#[derive(Clone, Debug, Default)]
pub(super) struct Checks(Arc<Mutex<HashMap<Account, u32>>>);

/// A check in progress. Dropping it ends the check.
#[derive(Debug)]
pub(super) struct OngoingCheck {
    checks: Checks,
    account: Account,
    /// The number of checks in progress for the account, including this one.
    pub(super) count: u32,
}

impl Checks {
    pub(super) fn begin(&self, account: Account) -> OngoingCheck {
        let count = {
            let mut checks = self.lock();
            let count = checks.entry(account).or_default();
            *count += 1;
            *count
        };
        OngoingCheck { checks: self.clone(), account, count }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Account, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OngoingCheck {
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
    fn checks_are_counted_by_account_until_they_end() {
        let checks = Checks::default();
        let (first, second, other) = (checks.begin([1; 16]), checks.begin([1; 16]), checks.begin([2; 16]));
        assert_eq!((first.count, second.count, other.count), (1, 2, 1));
        drop(first);
        assert_eq!(checks.begin([1; 16]).count, 2);
        drop((second, other));
        assert!(checks.lock().is_empty());
    }
}
