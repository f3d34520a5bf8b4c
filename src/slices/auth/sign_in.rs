//! Signing in with a password. An address is unique within a tenant, and several tenants can have it on their staff: the password decides
//! which account it is.
//!
//! **Invariant:** nobody learns of an account or of a tenant without its password. What a caller sees depends on what they typed, never on
//! what exists: the number of hashes is always the same, wrong passwords end in one durable write, and only the count of what was typed is
//! ever reported. If the password is right for several accounts, and only then, tenantd names their tenants.
//!
//! **Invariant:** every account counts the passwords that were compared with it and were wrong, also when they were right for another
//! account of the address. An account that has had too many is not compared, and the caller sees no difference. Otherwise somebody with an
//! account of the same address could try passwords for free.

use tenantd_base::{clock::Timestamp, id::TenantId, secrets::Secret};
use tenantd_directory::{self as directory, User, UserStatus, normalize_email};
use tenantd_platform::{Tenant, TenantError, TenantStatus};
use tenantd_store::{Read, StoreError, WriteTx, events::Actor};

use super::{
    checks::UnderWay,
    error::{AuthError, TenantChoice},
    model::{LoginFailures, RefusalReason, RefusedSignIn},
    repo::{self, CredentialRecord, FailureKey},
    service::{Login, Users, actor_of},
};

/// How many accounts of an address a password is compared with, and how many hashes a sign-in takes that names no tenant. Further accounts
/// of the address are found only by naming the tenant.
const MOST_ACCOUNTS: usize = 4;

/// Somebody who wants to sign in.
#[derive(Debug)]
pub struct Attempt {
    pub email: String,
    pub password: Secret,
    /// The id or slug of the tenant, where the address is that of several.
    pub tenant: Option<String>,
    /// The session that the browser had before.
    pub former: Option<Secret>,
}

/// An account that the address may stand for.
#[derive(Debug)]
struct Account {
    user: User,
    credential: CredentialRecord,
    tenant: Tenant,
    failures: LoginFailures,
    /// Passwords that were right for another account of the address.
    beside: LoginFailures,
}

/// What came of comparing a password with an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Right,
    Wrong,
    /// Right, in a tenant that nobody can sign in to at the moment.
    Closed,
    /// Too many passwords were wrong before, or are being compared.
    NotCompared,
}

impl Outcome {
    fn of(is_compared: bool, matches: bool, tenant: &Tenant) -> Self {
        match (is_compared, matches, tenant.status) {
            (false, ..) => Self::NotCompared,
            (true, false, _) => Self::Wrong,
            (true, true, TenantStatus::Active) => Self::Right,
            (true, true, _) => Self::Closed,
        }
    }

    fn refusal(self) -> RefusalReason {
        match self {
            Self::Right | Self::Wrong => RefusalReason::WrongPassword,
            Self::Closed => RefusalReason::TenantSuspended,
            Self::NotCompared => RefusalReason::Throttled,
        }
    }
}

impl Account {
    fn key(&self) -> repo::UserKey {
        (self.user.tenant_id, self.user.id)
    }

    /// Whether a password is compared with this account. Naming the tenant gives somebody back an account that others' passwords block.
    fn is_compared(&self, under_way: &UnderWay, is_named: bool, now: Timestamp) -> bool {
        let is_blocked = self.failures.wait_seconds(now).is_some() || (!is_named && self.beside.wait_seconds(now).is_some());
        !is_blocked && under_way.count <= self.failures.places(now)
    }
}

fn failures(tx: &impl Read, key: FailureKey, now: Timestamp) -> Result<LoginFailures, StoreError> {
    Ok(repo::LOGIN_FAILURES.get(tx, &key)?.unwrap_or_else(|| LoginFailures::none(now)))
}

fn count_failure(tx: &mut WriteTx, key: FailureKey, now: Timestamp) -> Result<(), StoreError> {
    let failures = failures(tx, key, now)?;
    repo::LOGIN_FAILURES.put(tx, &key, &failures.one_more(now))
}

/// Counts a password that was right for another account of the address.
fn count_beside(tx: &mut WriteTx, accounts: &[Account], now: Timestamp) -> Result<(), StoreError> {
    for account in accounts {
        let key = repo::beside_failure_key(account.key());
        let failures = failures(tx, key, now)?;
        repo::LOGIN_FAILURES.put(tx, &key, &failures.one_more_beside(now))?;
    }
    Ok(())
}

impl Users {
    pub(super) fn tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        Ok(self.tenants.cached(id)?.as_ref().clone())
    }

    /// Whether people can sign in to the tenant now.
    fn is_open(&self, tx: &impl Read, id: TenantId) -> Result<bool, StoreError> {
        match self.tenants.get(tx, id) {
            Ok(tenant) => Ok(tenant.status == TenantStatus::Active),
            Err(TenantError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// The staff that the address may stand for, at most as many as passwords are compared.
    fn staff(&self, tx: &impl Read, email: &str, named: Option<&str>) -> Result<Vec<User>, StoreError> {
        let Some(named) = named else { return directory::staff_by_address(tx, email, MOST_ACCOUNTS) };
        let tenant = match named.parse::<TenantId>() {
            Ok(id) => self.tenant(id)?,
            Err(_) => self.tenants.find(tx, named)?,
        };
        match tenant {
            Some(tenant) => Ok(directory::staff_of_tenant(tx, tenant.id, email)?.into_iter().collect()),
            None => Ok(Vec::new()),
        }
    }

    /// The accounts that the address may stand for. One without a password looks like none: nobody can sign in to it yet. So does one of a
    /// tenant that is being filled or removed.
    fn accounts(&self, tx: &impl Read, email: &str, named: Option<&str>, now: Timestamp) -> Result<Vec<Account>, StoreError> {
        let mut accounts = Vec::new();
        for user in self.staff(tx, email, named)?.into_iter().filter(|user| user.status == UserStatus::Active) {
            let key = (user.tenant_id, user.id);
            let settled = |tenant: &Tenant| matches!(tenant.status, TenantStatus::Active | TenantStatus::Suspended);
            let tenant = self.tenant(user.tenant_id)?.filter(settled);
            if let (Some(tenant), Some(credential)) = (tenant, repo::CREDENTIALS.get(tx, &key)?) {
                let beside = failures(tx, repo::beside_failure_key(key), now)?;
                let failures = failures(tx, repo::account_failure_key(key), now)?;
                accounts.push(Account { user, credential, tenant, failures, beside });
            }
        }
        Ok(accounts)
    }

    /// Signs in, and ends the session that the browser had before. A password takes its place among those of the address and of each
    /// account before it is looked at, and keeps it until a wrong one is written down: so no more are checked at the same time than are
    /// free.
    pub async fn login(&self, attempt: Attempt, now: Timestamp) -> Result<Login, AuthError> {
        let Attempt { email, password, tenant, former } = attempt;
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
        let checks: Vec<UnderWay> =
            accounts.iter().map(|account| self.checks.begin(repo::account_failure_key(account.key()))).collect();
        let compared: Vec<bool> =
            accounts.iter().zip(&checks).map(|(account, check)| account.is_compared(check, named.is_some(), now)).collect();
        let hashes = accounts
            .iter()
            .zip(&compared)
            .map(|(account, is_compared)| is_compared.then(|| account.credential.password.clone()))
            .collect();
        let matches = self.passwords.verify_each(password, padded(hashes, named.is_some())).await?;
        let judged = accounts.into_iter().zip(compared).zip(matches).map(|((account, is_compared), matches)| {
            let outcome = Outcome::of(is_compared, matches, &account.tenant);
            (account, outcome)
        });
        let (mut right, others): (Vec<_>, Vec<_>) = judged.partition(|(_, outcome)| *outcome == Outcome::Right);
        let done = match right.pop() {
            None => self.refuse(typed, others, now).await,
            Some((account, _)) if right.is_empty() => self.begin_session(account, typed, others, former, now).await,
            Some(last) => {
                right.push(last);
                self.ask_for_tenant(right, others, now).await
            }
        };
        drop((check, checks));
        done
    }

    async fn begin_session(
        &self,
        account: Account,
        typed: FailureKey,
        others: Vec<(Account, Outcome)>,
        former: Option<Secret>,
        now: Timestamp,
    ) -> Result<Login, AuthError> {
        let intent = self.tenants.guarding_intent(account.user.tenant_id, now, actor_of(&account.user));
        let (users, wrong) = (self.clone(), wrong_ones(others));
        let work = move |tx: &mut WriteTx| {
            let (mut act, key) = (intent.begin(), account.key());
            // The account and its tenant may have changed since the password was checked.
            let user =
                directory::user(tx, key.0, key.1)?.filter(|user| user.version == account.user.version).ok_or(AuthError::Refused)?;
            let credential = repo::CREDENTIALS.get(tx, &key)?;
            let is_other = credential.is_none_or(|credential| credential.password != account.credential.password);
            if is_other || !users.is_open(tx, key.0)? {
                return Err(AuthError::Refused);
            }
            count_beside(tx, &wrong, now)?;
            repo::LOGIN_FAILURES.remove(tx, &typed)?;
            repo::forget_failures(tx, key)?;
            users.sign_in_proven(tx, &mut act, user, former.as_ref())
        };
        self.store.write(work).await
    }

    /// The password is right for several accounts: now, and only now, their tenants may be named.
    async fn ask_for_tenant(
        &self,
        right: Vec<(Account, Outcome)>,
        others: Vec<(Account, Outcome)>,
        now: Timestamp,
    ) -> Result<Login, AuthError> {
        let wrong = wrong_ones(others);
        self.store.write(move |tx| count_beside(tx, &wrong, now)).await?;
        let mut choices: Vec<TenantChoice> = right.iter().map(|(account, _)| TenantChoice::of(&account.tenant)).collect();
        choices.sort_by(|one, other| one.name.cmp(&other.name));
        Err(AuthError::TenantRequired(choices))
    }

    /// Writes down a password that let nobody in: what was typed, and for each account what came of it. An account that does not exist
    /// belongs to nobody. The operator sees that, without what was typed, which can be a password.
    async fn refuse(&self, typed: FailureKey, others: Vec<(Account, Outcome)>, now: Timestamp) -> Result<Login, AuthError> {
        let users = self.clone();
        let work = move |tx: &mut WriteTx| {
            count_failure(tx, typed, now)?;
            let note = |tx: &mut WriteTx, tenant: TenantId, refused: &RefusedSignIn| {
                let intent = users.tenants.guarding_intent(tenant, now, Actor::system("sign-in"));
                users.note_refusal(tx, &mut intent.begin(), refused)
            };
            if others.is_empty()
                && let Some(platform) = users.tenants.platform(tx)?
            {
                let refused = RefusedSignIn { reason: RefusalReason::NoAccount, user: None, identity_provider: None };
                note(tx, platform.id, &refused)?;
            }
            for (account, outcome) in &others {
                if *outcome == Outcome::Wrong {
                    count_failure(tx, repo::account_failure_key(account.key()), now)?;
                }
                let user = Some((account.user.id, account.user.name.clone()));
                note(tx, account.user.tenant_id, &RefusedSignIn { reason: outcome.refusal(), user, identity_provider: None })?;
            }
            Ok::<_, AuthError>(())
        };
        self.store.write(work).await?;
        Err(AuthError::Refused)
    }
}

fn wrong_ones(accounts: Vec<(Account, Outcome)>) -> Vec<Account> {
    accounts.into_iter().filter(|(_, outcome)| *outcome == Outcome::Wrong).map(|(account, _)| account).collect()
}

/// What a password is compared with. Its length depends on what was typed, so that the time says nothing about what exists.
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
