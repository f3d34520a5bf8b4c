//! The outcomes of the last sign-ons through each provider. They are not part of the provider, so a sign-on does not change its
//! version.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::clock::Timestamp;
use tenantd_store::{
    Read, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields},
};

use super::{
    super::model::{SignOnFailure, SignOnHistory, TestSignIn},
    ProviderKey,
};

impl Record for SignOnHistory {
    const VERSION: u8 = 2;

    /// In version 1, a test had no role.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        let HistoryV1 { last_success_at, last_failure, last_test } = decode_fields(fields)?;
        let last_test = last_test.map(|TestV1 { at, failure, email, creates_user }| TestSignIn {
            at,
            failure,
            email,
            creates_user,
            role: None,
        });
        Ok(Self { last_success_at, last_failure, last_test })
    }
}

/// The history as releases before mapped roles stored it.
#[derive(Serialize, Deserialize)]
#[allow(clippy::struct_field_names, reason = "the names are those of the later version")]
struct HistoryV1 {
    last_success_at: Option<Timestamp>,
    last_failure: Option<SignOnFailure>,
    last_test: Option<TestV1>,
}

#[derive(Serialize, Deserialize)]
struct TestV1 {
    at: Timestamp,
    failure: Option<SignOnFailure>,
    email: Option<String>,
    creates_user: bool,
}

pub(crate) static HISTORY: Table<ProviderKey, SignOnHistory> = Table::new(catalog::SIGN_ON_HISTORY, &[]);

pub(crate) fn get(tx: &impl Read, key: ProviderKey) -> Result<Option<SignOnHistory>, StoreError> {
    HISTORY.get(tx, &key)
}

/// Whether the last failure is less than `interval` old. A failure in the future does not count: the clock was set back.
pub(crate) fn has_failed_within(tx: &impl Read, key: ProviderKey, interval: Duration, now: Timestamp) -> Result<bool, StoreError> {
    let last = get(tx, key)?.and_then(|history| history.last_failure);
    Ok(last.is_some_and(|failure| failure.at <= now && now < failure.at + interval))
}

fn change(tx: &mut WriteTx, key: ProviderKey, change: impl FnOnce(&mut SignOnHistory)) -> Result<(), StoreError> {
    // The provider may have been deleted during the sign-on.
    if super::get(tx, key)?.is_none() {
        return Ok(());
    }
    let mut history = get(tx, key)?.unwrap_or_default();
    change(&mut history);
    HISTORY.put(tx, &key, &history)
}

pub(crate) fn record_success(tx: &mut WriteTx, key: ProviderKey, at: Timestamp) -> Result<(), StoreError> {
    change(tx, key, |history| history.last_success_at = Some(at))
}

pub(crate) fn record_failure(tx: &mut WriteTx, key: ProviderKey, failure: SignOnFailure) -> Result<(), StoreError> {
    change(tx, key, |history| history.last_failure = Some(failure))
}

pub(crate) fn record_test(tx: &mut WriteTx, key: ProviderKey, test: TestSignIn) -> Result<(), StoreError> {
    change(tx, key, |history| history.last_test = Some(test))
}

/// Whether anybody has signed in through the provider, or could have in a test.
pub(crate) fn has_worked(tx: &impl Read, key: ProviderKey) -> Result<bool, StoreError> {
    let works =
        |history: SignOnHistory| history.last_success_at.is_some() || history.last_test.is_some_and(|test| test.failure.is_none());
    Ok(get(tx, key)?.is_some_and(works))
}

pub(crate) fn remove(tx: &mut WriteTx, key: ProviderKey) -> Result<(), StoreError> {
    HISTORY.remove(tx, &key).map(drop)
}

#[cfg(test)]
mod tests {
    use tenantd_base::access::Role;
    use tenantd_store::codec::{assert_golden, encode_fields};

    use super::*;

    #[test]
    fn the_stored_form_of_a_history_is_stable() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let failure = SignOnFailure::new(at, "code_refused", Some("invalid_client"));
        let history = SignOnHistory {
            last_success_at: Some(at),
            last_failure: Some(failure.clone()),
            last_test: Some(TestSignIn {
                at,
                failure: Some(failure),
                email: Some("ada@acme.example".to_owned()),
                creates_user: true,
                role: Some(Role::Viewer.into()),
            }),
        };
        assert_golden("sign_on_history", &history);
        let (at, email) = (Some(at), Some("ada@acme.example".to_owned()));
        let test = TestV1 { at: at.unwrap(), failure: None, email: email.clone(), creates_user: true };
        let before = HistoryV1 { last_success_at: at, last_failure: None, last_test: Some(test) };
        let after = SignOnHistory::upgrade(1, &encode_fields(&before).unwrap()).unwrap();
        let test = TestSignIn { at: at.unwrap(), failure: None, email, creates_user: true, role: None };
        assert_eq!(after, SignOnHistory { last_success_at: at, last_failure: None, last_test: Some(test) });
    }
}
