//! Stored credentials, sessions and counts of wrong passwords. A session is stored under the digest of its token; the token itself
//! is not stored.

pub(super) mod factors;
pub(super) mod passkeys;
pub(super) mod portable;
pub(super) mod portal;
pub(super) mod preferences;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::{Role, StaffRole},
    clock::Timestamp,
    id::{IdentityProviderId, SessionId, TenantId, UserId},
    secrets::{PasswordHash, digest},
};
use tenantd_store::{
    Direction, Index, Key, KeyRange, Read, RowsByIndex, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields, encode_fields},
    events::Actor,
};

use super::model::{LoginFailures, Openers, Origin, Session, SignInMethod};

pub(super) type UserKey = (TenantId, UserId);

/// The password of a user.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CredentialRecord {
    pub(super) password: PasswordHash,
    pub(super) set_at: Timestamp,
    /// When an initial password that nobody chose stops working. `None` for a password that a person has set.
    #[serde(default)]
    pub(super) expires_at: Option<Timestamp>,
}

impl Record for CredentialRecord {
    const VERSION: u8 = 2;

    /// Version 1 lacks `expires_at`.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        decode_fields(&[fields, &encode_fields(&None::<Timestamp>)?].concat())
    }
}

pub(super) static CREDENTIALS: Table<UserKey, CredentialRecord> = Table::new(catalog::CREDENTIALS, &[]);

impl Record for Openers {
    const VERSION: u8 = 1;
}

/// An account without a row was opened by nobody, or only by managers who cover every account.
pub(super) static OPENERS: Table<UserKey, Openers> = Table::new(catalog::ACCOUNT_OPENERS, &[]);

/// A one-time token that lets someone set their password.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PasswordTokenRecord {
    pub(super) tenant_id: TenantId,
    pub(super) user_id: UserId,
    pub(super) expires_at: Timestamp,
    /// `None` for a token from an older release, which did not store it.
    pub(super) issued: Option<IssueContext>,
}

/// The state of the account when the token was issued, and the issuer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct IssueContext {
    /// `None` for a contact.
    pub(super) role: Option<StaffRole>,
    pub(super) email: Option<String>,
    pub(super) by: Actor,
}

/// The format before the portal.
#[derive(Serialize, Deserialize)]
struct PasswordTokenV3 {
    tenant_id: TenantId,
    user_id: UserId,
    expires_at: Timestamp,
    issued: Option<IssueContextV3>,
}

#[derive(Serialize, Deserialize)]
struct IssueContextV3 {
    role: StaffRole,
    email: Option<String>,
    by: Actor,
}

/// The format before custom roles.
#[derive(Serialize, Deserialize)]
struct PasswordTokenV2 {
    tenant_id: TenantId,
    user_id: UserId,
    expires_at: Timestamp,
    issued: Option<IssueContextV2>,
}

#[derive(Serialize, Deserialize)]
struct IssueContextV2 {
    role: Role,
    email: Option<String>,
    by: Actor,
}

impl From<PasswordTokenV2> for PasswordTokenV3 {
    fn from(before: PasswordTokenV2) -> Self {
        let PasswordTokenV2 { tenant_id, user_id, expires_at, issued } = before;
        let issued = issued.map(|IssueContextV2 { role, email, by }| IssueContextV3 { role: role.into(), email, by });
        Self { tenant_id, user_id, expires_at, issued }
    }
}

impl Record for PasswordTokenRecord {
    const VERSION: u8 = 4;

    /// Version 1 lacks `issued`.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        let before: PasswordTokenV3 = match version {
            1 => decode_fields::<PasswordTokenV2>(&[fields, &encode_fields(&None::<IssueContextV2>)?].concat())?.into(),
            2 => decode_fields::<PasswordTokenV2>(fields)?.into(),
            3 => decode_fields(fields)?,
            _ => return Err(format!("format version {version} is not known to this release")),
        };
        let PasswordTokenV3 { tenant_id, user_id, expires_at, issued } = before;
        let issued = issued.map(|IssueContextV3 { role, email, by }| IssueContext { role: Some(role), email, by });
        Ok(Self { tenant_id, user_id, expires_at, issued })
    }
}

static PASSWORD_TOKENS_BY_USER: Index<TokenDigest, PasswordTokenRecord> = Index {
    table: catalog::PASSWORD_TOKENS_BY_USER,
    unique: false,
    keys: |_, token| vec![(token.tenant_id, token.user_id).to_bytes()],
};
static PASSWORD_TOKENS_BY_EXPIRY: Index<TokenDigest, PasswordTokenRecord> =
    Index { table: catalog::PASSWORD_TOKENS_BY_EXPIRY, unique: false, keys: |_, token| vec![token.expires_at.to_bytes()] };
pub(super) static PASSWORD_TOKENS: Table<TokenDigest, PasswordTokenRecord> =
    Table::new(catalog::PASSWORD_TOKENS, &[&PASSWORD_TOKENS_BY_USER, &PASSWORD_TOKENS_BY_EXPIRY]);

pub(super) fn remove_password_tokens_of(tx: &mut WriteTx, user: UserKey) -> Result<(), StoreError> {
    for token in PASSWORD_TOKENS_BY_USER.list(tx, &KeyRange::prefix(&user.to_bytes()), usize::MAX)? {
        PASSWORD_TOKENS.remove(tx, &token)?;
    }
    Ok(())
}

/// Returns expired tokens, at most `limit`.
pub(super) fn expired_password_tokens(tx: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<TokenDigest>, StoreError> {
    PASSWORD_TOKENS_BY_EXPIRY.list(tx, &KeyRange::before(now.to_bytes()), limit)
}

/// A link that signs in a user of an evaluation tenant once.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SignInLinkRecord {
    pub(super) tenant_id: TenantId,
    pub(super) user_id: UserId,
    pub(super) expires_at: Timestamp,
    /// The state of the account when the link was issued.
    pub(super) role: StaffRole,
    pub(super) email: Option<String>,
}

/// The format before custom roles.
#[derive(Serialize, Deserialize)]
struct SignInLinkV1 {
    tenant_id: TenantId,
    user_id: UserId,
    expires_at: Timestamp,
    role: Role,
    email: Option<String>,
}

impl Record for SignInLinkRecord {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        let SignInLinkV1 { tenant_id, user_id, expires_at, role, email } = decode_fields(fields)?;
        Ok(Self { tenant_id, user_id, expires_at, role: role.into(), email })
    }
}

static SIGN_IN_LINKS_BY_USER: Index<TokenDigest, SignInLinkRecord> =
    Index { table: catalog::SIGN_IN_LINKS_BY_USER, unique: false, keys: |_, link| vec![(link.tenant_id, link.user_id).to_bytes()] };
static SIGN_IN_LINKS_BY_EXPIRY: Index<TokenDigest, SignInLinkRecord> =
    Index { table: catalog::SIGN_IN_LINKS_BY_EXPIRY, unique: false, keys: |_, link| vec![link.expires_at.to_bytes()] };
pub(super) static SIGN_IN_LINKS: Table<TokenDigest, SignInLinkRecord> =
    Table::new(catalog::SIGN_IN_LINKS, &[&SIGN_IN_LINKS_BY_USER, &SIGN_IN_LINKS_BY_EXPIRY]);

pub(super) fn remove_sign_in_links_of(tx: &mut WriteTx, user: UserKey) -> Result<(), StoreError> {
    for link in SIGN_IN_LINKS_BY_USER.list(tx, &KeyRange::prefix(&user.to_bytes()), usize::MAX)? {
        SIGN_IN_LINKS.remove(tx, &link)?;
    }
    Ok(())
}

/// Returns expired links, at most `limit`.
pub(super) fn expired_sign_in_links(tx: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<TokenDigest>, StoreError> {
    SIGN_IN_LINKS_BY_EXPIRY.list(tx, &KeyRange::before(now.to_bytes()), limit)
}

/// Find the sessions, tokens and links of a tenant through their indexes by user, because the keys are digests.
pub(super) static SESSIONS_OF_TENANTS: RowsByIndex<TokenDigest, Session> =
    RowsByIndex { table: &SESSIONS, index: &SESSIONS_BY_USER };
pub(super) static PASSWORD_TOKENS_OF_TENANTS: RowsByIndex<TokenDigest, PasswordTokenRecord> =
    RowsByIndex { table: &PASSWORD_TOKENS, index: &PASSWORD_TOKENS_BY_USER };
pub(super) static SIGN_IN_LINKS_OF_TENANTS: RowsByIndex<TokenDigest, SignInLinkRecord> =
    RowsByIndex { table: &SIGN_IN_LINKS, index: &SIGN_IN_LINKS_BY_USER };

/// The digest of a session token, a password token, or the token of a sign-in link.
pub(super) type TokenDigest = [u8; 32];

impl Record for Session {
    const VERSION: u8 = 2;

    /// Version 1 ends before `methods`.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        let SessionV1 { id, tenant_id, user_id, created_at, last_seen_at, expires_at } = decode_fields(fields)?;
        Ok(Self {
            id,
            tenant_id,
            user_id,
            created_at,
            last_seen_at,
            expires_at,
            methods: Vec::new(),
            proven_at: created_at,
            origin: Origin::default(),
            sign_on: None,
        })
    }
}

/// A session as releases before sign-in methods stored it.
#[derive(Serialize, Deserialize)]
struct SessionV1 {
    id: SessionId,
    tenant_id: TenantId,
    user_id: UserId,
    created_at: Timestamp,
    last_seen_at: Timestamp,
    expires_at: Timestamp,
}

static SESSIONS_BY_USER: Index<TokenDigest, Session> = Index {
    table: catalog::SESSIONS_BY_USER,
    unique: false,
    keys: |_, session| vec![(session.tenant_id, session.user_id).to_bytes()],
};
static SESSIONS_BY_SID: Index<TokenDigest, Session> = Index {
    table: catalog::SESSIONS_BY_SID,
    unique: false,
    keys: |_, session| {
        let named = session.sign_on.as_ref().and_then(|sign_on| Some((sign_on.identity_provider_id, sign_on.sid.as_ref()?)));
        named.into_iter().map(|(provider, sid)| sid_key((session.tenant_id, provider), sid)).collect()
    },
};

/// The key of a session at a provider. The provider chooses `sid`, so its digest is stored.
fn sid_key((tenant, provider): (TenantId, IdentityProviderId), sid: &str) -> Vec<u8> {
    (tenant, provider, digest(sid.as_bytes())).to_bytes()
}

/// Returns the sessions that belong to one session at a provider.
pub(super) fn sessions_of_sid(
    tx: &impl Read,
    provider: (TenantId, IdentityProviderId),
    sid: &str,
) -> Result<Vec<(Session, TokenDigest)>, StoreError> {
    let mut sessions = Vec::new();
    for token in SESSIONS_BY_SID.list(tx, &KeyRange::prefix(&sid_key(provider, sid)), usize::MAX)? {
        sessions.extend(get_session(tx, &token)?.map(|session| (session, token)));
    }
    Ok(sessions)
}

static SESSIONS_BY_EXPIRY: Index<TokenDigest, Session> =
    Index { table: catalog::SESSIONS_BY_EXPIRY, unique: false, keys: |_, session| vec![session.expires_at.to_bytes()] };
pub(super) static SESSIONS: Table<TokenDigest, Session> =
    Table::new(catalog::SESSIONS, &[&SESSIONS_BY_USER, &SESSIONS_BY_EXPIRY, &SESSIONS_BY_SID]);

pub(super) fn get_session(tx: &impl Read, token: &TokenDigest) -> Result<Option<Session>, StoreError> {
    SESSIONS.get(tx, token)
}

pub(super) fn put_session(tx: &mut WriteTx, token: &TokenDigest, session: &Session) -> Result<(), StoreError> {
    SESSIONS.put(tx, token, session)
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

/// Notes that the user of a session has proven who they are by one more method.
pub(super) fn add_method(tx: &mut WriteTx, user: UserKey, id: SessionId, method: SignInMethod) -> Result<(), StoreError> {
    for (mut session, token) in sessions_of(tx, user, None, usize::MAX)? {
        if session.id == id && !session.methods.contains(&method) {
            session.methods.push(method);
            put_session(tx, &token, &session)?;
        }
    }
    Ok(())
}

/// Returns the sessions of a user after a position, at most `limit`, each with its position.
pub(super) fn sessions_of(
    tx: &impl Read,
    user: UserKey,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<(Session, TokenDigest)>, StoreError> {
    let prefix = user.to_bytes();
    let mut range = KeyRange::prefix(&prefix);
    if let Some(after) = after {
        range = range.after(&[&prefix, after].concat(), Direction::Forward);
    }
    let mut sessions = Vec::new();
    for token in SESSIONS_BY_USER.list(tx, &range, limit)? {
        sessions.extend(get_session(tx, &token)?.map(|session| (session, token)));
    }
    Ok(sessions)
}

/// Returns a session of a user.
pub(super) fn session_of(tx: &impl Read, user: UserKey, id: SessionId) -> Result<Option<(Session, TokenDigest)>, StoreError> {
    Ok(sessions_of(tx, user, None, usize::MAX)?.into_iter().find(|(session, _)| session.id == id))
}

/// Returns the sessions whose absolute end has passed, at most `limit`.
pub(super) fn expired_sessions(tx: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<TokenDigest>, StoreError> {
    SESSIONS_BY_EXPIRY.list(tx, &KeyRange::before(now.to_bytes()), limit)
}

impl Record for LoginFailures {
    const VERSION: u8 = 1;
}

/// A digest of the typed address, or of an account. Unknown addresses count too, and the digest does not reveal them.
pub(super) type FailureKey = [u8; 16];

static FAILURES_BY_TIME: Index<FailureKey, LoginFailures> =
    Index { table: catalog::LOGIN_FAILURES_BY_TIME, unique: false, keys: |_, failures| vec![failures.last_at.to_bytes()] };
pub(super) static LOGIN_FAILURES: Table<FailureKey, LoginFailures> = Table::new(catalog::LOGIN_FAILURES, &[&FAILURES_BY_TIME]);

/// Returns the key of a typed address and the named tenant. It does not depend on whether the account exists.
pub(super) fn failure_key(email: &str, tenant: Option<&str>) -> FailureKey {
    let typed = tenant.map_or_else(|| email.as_bytes().to_vec(), |tenant| [email, "\0", tenant].concat().into_bytes());
    digest(&typed).first_chunk().copied().unwrap_or_default()
}

/// Returns the key of an account.
pub(super) fn account_failure_key(user: UserKey) -> FailureKey {
    digest(&[b"account".as_slice(), &user.to_bytes()].concat()).first_chunk().copied().unwrap_or_default()
}

/// Returns the key of an account for passwords that were right for another account of the same address.
pub(super) fn sibling_failure_key(user: UserKey) -> FailureKey {
    digest(&[b"beside".as_slice(), &user.to_bytes()].concat()).first_chunk().copied().unwrap_or_default()
}

/// Removes the counts of wrong passwords of an account.
pub(super) fn clear_failures(tx: &mut WriteTx, user: UserKey) -> Result<(), StoreError> {
    LOGIN_FAILURES.remove(tx, &account_failure_key(user))?;
    LOGIN_FAILURES.remove(tx, &sibling_failure_key(user)).map(drop)
}

pub(super) fn old_failures(tx: &impl Read, before: Timestamp, limit: usize) -> Result<Vec<FailureKey>, StoreError> {
    FAILURES_BY_TIME.list(tx, &KeyRange::before(before.to_bytes()), limit)
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        access::{Grants, Scope},
        authority::Authority,
        id::SessionId,
    };
    use tenantd_store::{codec::assert_golden, events::ActorKind};

    use super::{
        super::model::{SessionSignOn, SignInMethod},
        *,
    };

    #[test]
    fn the_stored_forms_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";
        // A hash is stored as text: its length and its bytes.
        let password = decode_fields(&[&[u8::try_from(hash.len()).unwrap()], hash.as_bytes()].concat()).unwrap();
        assert_golden("credential", &CredentialRecord { password, set_at: at, expires_at: Some(at.plus_days(3)) });
        let by = Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() };
        let token = PasswordTokenRecord {
            tenant_id: TenantId::from_bytes([2; 16]),
            user_id: UserId::from_bytes([3; 16]),
            expires_at: at,
            issued: Some(IssueContext { role: Some(Role::Viewer.into()), email: Some("bo@acme.example".to_owned()), by }),
        };
        assert_golden("password_token", &token);
        let link = SignInLinkRecord {
            tenant_id: TenantId::from_bytes([2; 16]),
            user_id: UserId::from_bytes([3; 16]),
            expires_at: at,
            role: Role::Admin.into(),
            email: Some("bo@acme.example".to_owned()),
        };
        assert_golden("sign_in_link", &link);
        let session = Session {
            id: SessionId::from_bytes([1; 16]),
            tenant_id: TenantId::from_bytes([2; 16]),
            user_id: UserId::from_bytes([3; 16]),
            created_at: at,
            last_seen_at: at,
            expires_at: at.plus_days(1),
            methods: vec![SignInMethod::Password],
            proven_at: at,
            origin: Origin::new("192.0.2.7".parse().ok(), Some("Mozilla/5.0")),
            sign_on: Some(SessionSignOn {
                identity_provider_id: IdentityProviderId::from_bytes([4; 16]),
                sid: Some("s-1".to_owned()),
                acr: Some("phr".to_owned()),
                amr: vec!["hwk".to_owned()],
            }),
        };
        assert_golden("session", &session);
        let opener = Authority::new(TenantId::from_bytes([2; 16]), Grants::of(&[Scope::UsersWrite, Scope::TicketsRead]));
        assert_golden("account_openers", &Openers::new(&opener, true, at));
        assert_golden("login_failures", &LoginFailures { count: 5, last_at: at, blocked_until: at.plus_days(1) });
    }
}
