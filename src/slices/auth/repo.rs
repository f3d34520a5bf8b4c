//! Users, sessions and wrong passwords as they are stored. A session is found by the digest of its token; the token itself is
//! nowhere.

use serde::{Deserialize, Serialize};

use super::model::{LoginFailures, Session, User, UserStatus};
use crate::kernel::{
    access::Role,
    clock::Timestamp,
    id::{SessionId, TenantId, UserId},
    secrets::{PasswordHash, digest},
    store::{Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record},
};

pub(super) type UserKey = (TenantId, UserId);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UserRecord {
    email: String,
    name: String,
    role: Role,
    status: UserStatus,
    password: PasswordHash,
    created_at: Timestamp,
    updated_at: Timestamp,
    last_login_at: Option<Timestamp>,
    version: u64,
}

impl Record for UserRecord {
    const VERSION: u8 = 1;
}

static USERS_BY_EMAIL: Index<UserKey, UserRecord> =
    Index { table: catalog::USERS_BY_EMAIL, unique: true, keys: |_, user| vec![user.email.to_bytes()] };
pub(super) static USERS: Table<UserKey, UserRecord> = Table::new(catalog::USERS, &[&USERS_BY_EMAIL]);

fn to_user((tenant_id, id): UserKey, record: UserRecord) -> User {
    let UserRecord { email, name, role, status, password, created_at, updated_at, last_login_at, version } = record;
    User { id, tenant_id, email, name, role, status, password, created_at, updated_at, last_login_at, version }
}

pub(super) fn get_user(tx: &impl Read, key: UserKey) -> Result<Option<User>, StoreError> {
    Ok(USERS.get(tx, &key)?.map(|record| to_user(key, record)))
}

pub(super) fn find_email(tx: &impl Read, email: &str) -> Result<Option<User>, StoreError> {
    match USERS_BY_EMAIL.find(tx, &email.to_owned().to_bytes())? {
        Some(key) => get_user(tx, key),
        None => Ok(None),
    }
}

pub(super) fn put_user(tx: &mut WriteTx, user: &User) -> Result<(), StoreError> {
    let record = UserRecord {
        email: user.email.clone(),
        name: user.name.clone(),
        role: user.role,
        status: user.status,
        password: user.password.clone(),
        created_at: user.created_at,
        updated_at: user.updated_at,
        last_login_at: user.last_login_at,
        version: user.version,
    };
    USERS.put(tx, &(user.tenant_id, user.id), &record)
}

pub(super) fn list_users(tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<User>, StoreError> {
    let users = USERS.list(tx, &KeyRange::prefix(tenant.as_bytes()), limit)?;
    Ok(users.into_iter().map(|(key, record)| to_user(key, record)).collect())
}

/// The digest of a session's token.
pub(super) type TokenDigest = [u8; 32];

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    id: SessionId,
    tenant_id: TenantId,
    user_id: UserId,
    created_at: Timestamp,
    last_seen_at: Timestamp,
    expires_at: Timestamp,
}

impl Record for SessionRecord {
    const VERSION: u8 = 1;
}

static SESSIONS_BY_USER: Index<TokenDigest, SessionRecord> = Index {
    table: catalog::SESSIONS_BY_USER,
    unique: false,
    keys: |_, session| vec![(session.tenant_id, session.user_id).to_bytes()],
};
static SESSIONS_BY_EXPIRY: Index<TokenDigest, SessionRecord> =
    Index { table: catalog::SESSIONS_BY_EXPIRY, unique: false, keys: |_, session| vec![session.expires_at.to_bytes()] };
pub(super) static SESSIONS: Table<TokenDigest, SessionRecord> =
    Table::new(catalog::SESSIONS, &[&SESSIONS_BY_USER, &SESSIONS_BY_EXPIRY]);

pub(super) fn get_session(tx: &impl Read, token: &TokenDigest) -> Result<Option<Session>, StoreError> {
    let to_session = |record: SessionRecord| {
        let SessionRecord { id, tenant_id, user_id, created_at, last_seen_at, expires_at } = record;
        Session { id, tenant_id, user_id, created_at, last_seen_at, expires_at }
    };
    Ok(SESSIONS.get(tx, token)?.map(to_session))
}

pub(super) fn put_session(tx: &mut WriteTx, token: &TokenDigest, session: &Session) -> Result<(), StoreError> {
    let Session { id, tenant_id, user_id, created_at, last_seen_at, expires_at } = *session;
    SESSIONS.put(tx, token, &SessionRecord { id, tenant_id, user_id, created_at, last_seen_at, expires_at })
}

pub(super) fn remove_session(tx: &mut WriteTx, token: &TokenDigest) -> Result<(), StoreError> {
    SESSIONS.remove(tx, token).map(drop)
}

pub(super) fn remove_sessions_of(tx: &mut WriteTx, user: UserKey) -> Result<(), StoreError> {
    let range = KeyRange::prefix(&user.to_bytes());
    for token in SESSIONS_BY_USER.list(tx, &range, usize::MAX)? {
        remove_session(tx, &token)?;
    }
    Ok(())
}

/// Sessions whose absolute end has passed.
pub(super) fn ended_sessions(tx: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<TokenDigest>, StoreError> {
    SESSIONS_BY_EXPIRY.list(tx, &KeyRange::before(now.to_bytes()), limit)
}

impl Record for LoginFailures {
    const VERSION: u8 = 1;
}

/// A digest of the address: also unknown ones are counted, and none is to be read here.
type FailureKey = [u8; 16];

static FAILURES_BY_TIME: Index<FailureKey, LoginFailures> =
    Index { table: catalog::LOGIN_FAILURES_BY_TIME, unique: false, keys: |_, failures| vec![failures.last_at.to_bytes()] };
pub(super) static LOGIN_FAILURES: Table<FailureKey, LoginFailures> = Table::new(catalog::LOGIN_FAILURES, &[&FAILURES_BY_TIME]);

pub(super) fn failure_key(email: &str) -> FailureKey {
    digest(email.as_bytes()).first_chunk().copied().unwrap_or_default()
}

pub(super) fn old_failures(tx: &impl Read, before: Timestamp, limit: usize) -> Result<Vec<FailureKey>, StoreError> {
    FAILURES_BY_TIME.list(tx, &KeyRange::before(before.to_bytes()), limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::store::codec::{assert_golden, decode_fields};

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";
        let user = UserRecord {
            email: "ada@example.com".to_owned(),
            name: "Ada".to_owned(),
            role: Role::Technician,
            status: UserStatus::Disabled,
            // A hash is a text in its stored form: its length and its bytes.
            password: decode_fields(&[&[u8::try_from(hash.len()).unwrap()], hash.as_bytes()].concat()).unwrap(),
            created_at: at,
            updated_at: at,
            last_login_at: Some(at),
            version: 2,
        };
        assert_golden("user", &user);
        let session = SessionRecord {
            id: SessionId::from_bytes([1; 16]),
            tenant_id: TenantId::from_bytes([2; 16]),
            user_id: UserId::from_bytes([3; 16]),
            created_at: at,
            last_seen_at: at,
            expires_at: at.plus_days(1),
        };
        assert_golden("session", &session);
        assert_golden("login_failures", &LoginFailures { count: 5, last_at: at, blocked_until: at.plus_days(1) });
    }
}
