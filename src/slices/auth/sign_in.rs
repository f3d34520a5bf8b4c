//! Sign-in with a password, for staff and for contacts with access to the portal. An address is unique within a tenant, but people of
//! several tenants can have the same address. The password then decides which account signs in.
//!
//! **Invariant:** a caller cannot detect an account or a tenant without its password. The response depends on what they typed,
//! never on which accounts exist: the number of hashes is constant, a wrong password causes one durable write, and only the count
//! of the typed address is reported. tenantd names the tenants only if the password is right for several accounts.
//!
//! **Invariant:** every account counts the wrong passwords that were compared with it, even if they were right for another account
//! of the same address. After too many, the account is no longer compared, and the caller sees no difference. Otherwise a person
//! with an account of the same address could guess passwords without limit.

use tenantd_base::{clock::Timestamp, id::TenantId, secrets::Secret};
use tenantd_directory::{self as directory, User, UserStatus, normalize_email};
use tenantd_platform::{Tenant, TenantError};
use tenantd_store::{Read, StoreError, WriteTx, events::Actor};

use super::{
    checks::OngoingCheck,
    error::{AuthError, TenantChoice},
    model::{Browser, LoginFailures, RefusalReason, RefusedSignIn, SignInMethod},
    repo::{self, CredentialRecord, FailureKey, portal::contacts_by_address},
    service::{Login, Users, actor_of},
};

/// How many accounts of an address a password is compared with, and how many hashes a sign-in without a tenant computes. Further
/// accounts of the address can sign in only by naming the tenant.
const MOST_ACCOUNTS: usize = 4;

/// An attempt to sign in.
#[derive(Debug)]
pub struct Attempt {
    pub email: String,
    pub password: Secret,
    /// The id or slug of the tenant, if the caller named one.
    pub tenant: Option<String>,
    pub browser: Browser,
}

/// An account with the typed address.
#[derive(Debug)]
struct Account {
    user: User,
    credential: CredentialRecord,
    tenant: Tenant,
    failures: LoginFailures,
    /// Passwords that were right for another account of the same address.
    sibling_failures: LoginFailures,
}

/// The result of comparing a password with an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Right,
    Wrong,
    /// The password is right, but the tenant does not allow sign-ins at the moment.
    Closed,
    /// The password is right, but it was an initial one and has expired.
    Expired,
    /// Not compared, because too many passwords were wrong before or are being compared now.
    NotCompared,
}

impl Outcome {
    fn of(is_compared: bool, matches: bool, account: &Account, now: Timestamp) -> Self {
        let is_expired = account.credential.expires_at.is_some_and(|end| now >= end);
        match (is_compared, matches, account.tenant.status.is_open()) {
            (false, ..) => Self::NotCompared,
            (true, false, _) => Self::Wrong,
            (true, true, true) if is_expired => Self::Expired,
            (true, true, true) => Self::Right,
            (true, true, false) => Self::Closed,
        }
    }

    fn refusal(self) -> RefusalReason {
        match self {
            Self::Right | Self::Wrong => RefusalReason::WrongPassword,
            Self::Closed => RefusalReason::TenantSuspended,
            Self::Expired => RefusalReason::PasswordExpired,
            Self::NotCompared => RefusalReason::Throttled,
        }
    }
}

impl Account {
    fn key(&self) -> repo::UserKey {
        (self.user.tenant_id, self.user.id)
    }

    /// Whether to compare a password with this account. Naming the tenant bypasses a block caused by passwords of other accounts.
    fn is_compared(&self, check: &OngoingCheck, is_named: bool, now: Timestamp) -> bool {
        let is_blocked =
            self.failures.wait_seconds(now).is_some() || (!is_named && self.sibling_failures.wait_seconds(now).is_some());
        !is_blocked && check.count <= self.failures.places(now)
    }
}

pub(super) fn failures(tx: &impl Read, key: FailureKey, now: Timestamp) -> Result<LoginFailures, StoreError> {
    Ok(repo::LOGIN_FAILURES.get(tx, &key)?.unwrap_or_else(|| LoginFailures::none(now)))
}

pub(super) fn count_failure(tx: &mut WriteTx, key: FailureKey, now: Timestamp) -> Result<(), StoreError> {
    let failures = failures(tx, key, now)?;
    repo::LOGIN_FAILURES.put(tx, &key, &failures.one_more(now))
}

/// Counts a password that was right for another account of the same address.
fn count_sibling_failures(tx: &mut WriteTx, accounts: &[Account], now: Timestamp) -> Result<(), StoreError> {
    for account in accounts {
        let key = repo::sibling_failure_key(account.key());
        let failures = failures(tx, key, now)?;
        repo::LOGIN_FAILURES.put(tx, &key, &failures.one_more_sibling(now))?;
    }
    Ok(())
}

impl Users {
    pub(super) fn tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        Ok(self.tenants.cached(id)?.as_ref().clone())
    }

    /// Whether users can sign in to the tenant now.
    pub(super) fn is_open(&self, tx: &impl Read, id: TenantId) -> Result<bool, StoreError> {
        match self.tenants.get(tx, id) {
            Ok(tenant) => Ok(tenant.status.is_open()),
            Err(TenantError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Returns the people with this address who can sign in, at most as many as passwords are compared. Contacts come after staff, so
    /// that no contact keeps staff from signing in.
    fn people(&self, tx: &impl Read, email: &str, named: Option<&str>) -> Result<Vec<User>, StoreError> {
        let Some(named) = named else {
            let mut people = directory::staff_by_address(tx, email, MOST_ACCOUNTS)?;
            let room = MOST_ACCOUNTS.saturating_sub(people.len());
            people.extend(contacts_by_address(tx, email, None, room)?);
            return Ok(people);
        };
        let tenant = match named.parse::<TenantId>() {
            Ok(id) => self.tenant(id)?,
            Err(_) => self.tenants.find(tx, named)?,
        };
        match tenant {
            Some(tenant) => match directory::staff_of_tenant(tx, tenant.id, email)? {
                Some(user) => Ok(vec![user]),
                None => contacts_by_address(tx, email, Some(tenant.id), 1),
            },
            None => Ok(Vec::new()),
        }
    }

    /// Returns the accounts with this address. Leaves out accounts without a password, because no one can sign in to them yet, and
    /// accounts of a tenant that is being prepared or removed.
    fn accounts(&self, tx: &impl Read, email: &str, named: Option<&str>, now: Timestamp) -> Result<Vec<Account>, StoreError> {
        let mut accounts = Vec::new();
        for user in self.people(tx, email, named)?.into_iter().filter(|user| user.status == UserStatus::Active) {
            let key = (user.tenant_id, user.id);
            let tenant = self.tenant(user.tenant_id)?.filter(|tenant| tenant.status.is_settled());
            if let (Some(tenant), Some(credential)) = (tenant, repo::CREDENTIALS.get(tx, &key)?) {
                let sibling_failures = failures(tx, repo::sibling_failure_key(key), now)?;
                let failures = failures(tx, repo::account_failure_key(key), now)?;
                accounts.push(Account { user, credential, tenant, failures, sibling_failures });
            }
        }
        Ok(accounts)
    }

    /// Signs in, and ends the session that the browser had before. The check is registered for the address and for each account
    /// before the password is compared, until a failure is stored. So the number of concurrent checks never exceeds the number of
    /// free attempts.
    pub async fn login(&self, attempt: Attempt, now: Timestamp) -> Result<Login, AuthError> {
        let Attempt { email, password, tenant, browser } = attempt;
        let email = normalize_email(&email).map_err(|_| AuthError::Refused)?;
        let named = tenant.map(|tenant| tenant.trim().to_lowercase());
        let typed = repo::failure_key(&email, named.as_deref());
        let check = self.checks.begin(typed);
        let (typed_failures, accounts) = self
            .store
            .read(|tx| Ok::<_, StoreError>((failures(tx, typed, now)?, self.accounts(tx, &email, named.as_deref(), now)?)))?;
        if let Some(retry_after_seconds) = typed_failures.wait_seconds(now) {
            return Err(AuthError::Throttled { retry_after_seconds });
        }
        if check.count > typed_failures.places(now) {
            return Err(AuthError::Throttled { retry_after_seconds: 1 });
        }
        let checks: Vec<OngoingCheck> =
            accounts.iter().map(|account| self.checks.begin(repo::account_failure_key(account.key()))).collect();
        let compared: Vec<bool> =
            accounts.iter().zip(&checks).map(|(account, check)| account.is_compared(check, named.is_some(), now)).collect();
        let hashes = accounts
            .iter()
            .zip(&compared)
            .map(|(account, is_compared)| is_compared.then(|| account.credential.password.clone()))
            .collect();
        let matches = self.passwords.verify_each(password.clone(), padded(hashes, named.is_some())).await?;
        let judged = accounts.into_iter().zip(compared).zip(matches).map(|((account, is_compared), matches)| {
            let outcome = Outcome::of(is_compared, matches, &account, now);
            (account, outcome)
        });
        let (mut right, others): (Vec<_>, Vec<_>) = judged.partition(|(_, outcome)| *outcome == Outcome::Right);
        let done = match right.pop() {
            None => self.refuse(typed, others, now).await,
            Some((account, _)) if right.is_empty() => {
                let renewed = self.renewed(&account.credential, password, now).await;
                self.begin_session(account, renewed, typed, others, browser, now).await
            }
            Some(last) => {
                right.push(last);
                self.ask_for_tenant(right, others, now).await
            }
        };
        drop((check, checks));
        done
    }

    /// Hashes a right password again if its stored hash has the parameters of an older release. If too many hashes are waiting, the
    /// next sign-in does it.
    async fn renewed(&self, credential: &CredentialRecord, password: Secret, now: Timestamp) -> Option<CredentialRecord> {
        if credential.password.is_current() {
            return None;
        }
        let intent = self.tenants.guarding_intent(TenantId::from_bytes([0; 16]), now, Actor::system("sign-in"));
        let hash = self.passwords.hash(password, &mut intent.begin().entropy).await.ok()?;
        Some(CredentialRecord { password: hash, set_at: credential.set_at, expires_at: credential.expires_at })
    }

    async fn begin_session(
        &self,
        account: Account,
        renewed: Option<CredentialRecord>,
        typed: FailureKey,
        others: Vec<(Account, Outcome)>,
        browser: Browser,
        now: Timestamp,
    ) -> Result<Login, AuthError> {
        let intent = self.tenants.guarding_intent(account.user.tenant_id, now, actor_of(&account.user));
        let (users, wrong) = (self.clone(), wrong_accounts(others));
        let work = move |tx: &mut WriteTx| {
            let (mut act, key) = (intent.begin(), account.key());
            // The account or its tenant may have changed since the password was checked.
            let user =
                directory::user(tx, key.0, key.1)?.filter(|user| user.version == account.user.version).ok_or(AuthError::Refused)?;
            let credential = repo::CREDENTIALS.get(tx, &key)?;
            let is_changed = credential.is_none_or(|credential| credential.password != account.credential.password);
            if is_changed || !users.is_open(tx, key.0)? {
                return Err(AuthError::Refused);
            }
            if let Some(renewed) = &renewed {
                repo::CREDENTIALS.put(tx, &key, renewed)?;
            }
            count_sibling_failures(tx, &wrong, now)?;
            repo::LOGIN_FAILURES.remove(tx, &typed)?;
            repo::clear_failures(tx, key)?;
            users.after_password(tx, &mut act, user, &browser)
        };
        // A refusal is recorded, so it is not an error of the transaction.
        self.store.write(work).await?.finish()
    }

    /// The password is right for several accounts. Only in this case may the response name their tenants.
    async fn ask_for_tenant(
        &self,
        right: Vec<(Account, Outcome)>,
        others: Vec<(Account, Outcome)>,
        now: Timestamp,
    ) -> Result<Login, AuthError> {
        let wrong = wrong_accounts(others);
        self.store.write(move |tx| count_sibling_failures(tx, &wrong, now)).await?;
        let mut choices: Vec<TenantChoice> = right.iter().map(|(account, _)| TenantChoice::of(&account.tenant)).collect();
        choices.sort_by(|one, other| one.name.cmp(&other.name));
        Err(AuthError::TenantRequired(choices))
    }

    /// Records a failed attempt: for the typed address, and for each account. If no account exists, the event goes to the operator.
    /// It does not contain the typed address, which could be a password entered by mistake.
    async fn refuse(&self, typed: FailureKey, others: Vec<(Account, Outcome)>, now: Timestamp) -> Result<Login, AuthError> {
        let users = self.clone();
        let is_expired = others.iter().any(|(_, outcome)| *outcome == Outcome::Expired);
        let work = move |tx: &mut WriteTx| {
            count_failure(tx, typed, now)?;
            let note = |tx: &mut WriteTx, tenant: TenantId, refused: &RefusedSignIn| {
                let intent = users.tenants.guarding_intent(tenant, now, Actor::system("sign-in"));
                users.note_refusal(tx, &mut intent.begin(), refused)
            };
            if others.is_empty()
                && let Some(platform) = users.tenants.platform(tx)?
            {
                let (method, reason) = (SignInMethod::Password, RefusalReason::NoAccount);
                let refused = RefusedSignIn { method, reason, user: None, identity_provider: None };
                note(tx, platform.id, &refused)?;
            }
            for (account, outcome) in &others {
                if *outcome == Outcome::Wrong {
                    count_failure(tx, repo::account_failure_key(account.key()), now)?;
                }
                let user = Some((account.user.id, account.user.name.clone()));
                let (method, reason) = (SignInMethod::Password, outcome.refusal());
                note(tx, account.user.tenant_id, &RefusedSignIn { method, reason, user, identity_provider: None })?;
            }
            Ok::<_, AuthError>(())
        };
        self.store.write(work).await?;
        Err(if is_expired { AuthError::InitialPasswordExpired } else { AuthError::Refused })
    }
}

fn wrong_accounts(accounts: Vec<(Account, Outcome)>) -> Vec<Account> {
    accounts.into_iter().filter(|(_, outcome)| *outcome == Outcome::Wrong).map(|(account, _)| account).collect()
}

/// Pads the list of hashes to a length that depends only on what was typed, so that timing does not reveal which accounts exist.
fn padded<H: Clone>(mut hashes: Vec<Option<H>>, is_named: bool) -> Vec<Option<H>> {
    hashes.resize(if is_named { 1 } else { MOST_ACCOUNTS }, None);
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_hashes_does_not_depend_on_the_accounts() {
        for accounts in 0..=MOST_ACCOUNTS {
            assert_eq!(padded(vec![Some(1); accounts], false).len(), MOST_ACCOUNTS);
        }
        assert_eq!((padded::<u8>(Vec::new(), true), padded(vec![Some(1)], true)), (vec![None], vec![Some(1)]));
    }
}
