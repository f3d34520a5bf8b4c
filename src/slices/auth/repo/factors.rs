//! The tables of second factors, recovery codes and sign-ins that wait for a second factor. The keys of the first two begin with
//! the user.

use tenantd_base::{
    clock::Timestamp,
    id::{FactorId, TenantId, UserId},
    secrets::{SealError, SealedPlace, digest},
};
use tenantd_store::{
    Counts, Index, Key, KeyRange, Read, RowsByIndex, SealedRecord, SealedVisitor, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields, encode_fields},
};

use super::{
    super::model::{Challenge, Factor, PersonalKeys, Proof, RecoveryCodes, SignInPolicy},
    CREDENTIALS, FailureKey, TokenDigest, UserKey,
    passkeys::FACTORS_BY_CREDENTIAL,
};

/// Identifies a factor across all tenants.
pub(crate) type FactorKey = (TenantId, UserId, FactorId);

impl Record for Factor {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        let (_, _, id) = FactorKey::from_bytes(key)?;
        self.id = id;
        Some(())
    }
}

pub(crate) static FACTORS: Table<FactorKey, Factor> =
    Table::new(catalog::FACTORS, &[&FACTORS_BY_CREDENTIAL]).counting(Counts::Records);

/// The place of the key of an authenticator app. `key` is that of the factor, as bytes.
pub(crate) fn sealed_place<'a>(tenant: &'a TenantId, key: &'a [u8]) -> SealedPlace<'a> {
    SealedPlace { tenant: tenant.as_bytes(), table: catalog::FACTORS.name(), key, target: None }
}

impl SealedRecord<FactorKey> for Factor {
    fn each_sealed(&mut self, key: &FactorKey, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        match &mut self.proof {
            Proof::Totp(totp) => visit(sealed_place(&key.0, &key.to_bytes()), &mut totp.secret),
            // All of a passkey is public.
            Proof::Passkey(_) => Ok(()),
        }
    }
}

/// Returns a factor.
pub(crate) fn factor(tx: &impl Read, user: UserKey, id: FactorId) -> Result<Option<Factor>, StoreError> {
    FACTORS.get(tx, &(user.0, user.1, id))
}

/// Returns the factors of a user, oldest first. Their number is limited.
pub(crate) fn factors_of(tx: &impl Read, user: UserKey) -> Result<Vec<Factor>, StoreError> {
    let found = FACTORS.list(tx, &KeyRange::prefix(&user.to_bytes()), usize::MAX)?;
    Ok(found.into_iter().map(|(_, factor)| factor).collect())
}

/// Whether a user has a password or a passkey, each of which signs in alone.
pub(crate) fn has_own_way_in(tx: &impl Read, user: UserKey) -> Result<bool, StoreError> {
    let is_passkey = |factor: &Factor| matches!(factor.proof, Proof::Passkey(_));
    Ok(CREDENTIALS.get(tx, &user)?.is_some() || factors_of(tx, user)?.iter().any(is_passkey))
}

pub(crate) fn put_factor(tx: &mut WriteTx, user: UserKey, factor: &Factor) -> Result<(), StoreError> {
    FACTORS.put(tx, &(user.0, user.1, factor.id), factor)
}

pub(crate) fn remove_factor(tx: &mut WriteTx, user: UserKey, id: FactorId) -> Result<Option<Factor>, StoreError> {
    FACTORS.remove(tx, &(user.0, user.1, id))
}

impl Record for RecoveryCodes {
    const VERSION: u8 = 1;
}

pub(crate) static RECOVERY_CODES: Table<UserKey, RecoveryCodes> = Table::new(catalog::RECOVERY_CODES, &[]).counting(Counts::Bytes);

impl Record for Challenge {
    const VERSION: u8 = 1;
}

pub(super) static CHALLENGES_BY_USER: Index<TokenDigest, Challenge> = Index {
    table: catalog::CHALLENGES_BY_USER,
    unique: false,
    keys: |_, challenge| vec![(challenge.tenant_id, challenge.user_id).to_bytes()],
};
static CHALLENGES_BY_EXPIRY: Index<TokenDigest, Challenge> =
    Index { table: catalog::CHALLENGES_BY_EXPIRY, unique: false, keys: |_, challenge| vec![challenge.expires_at.to_bytes()] };
pub(crate) static CHALLENGES: Table<TokenDigest, Challenge> =
    Table::new(catalog::CHALLENGES, &[&CHALLENGES_BY_USER, &CHALLENGES_BY_EXPIRY]);

/// Finds the challenges of a tenant through their index by user, because the keys are digests.
pub(crate) static CHALLENGES_OF_TENANTS: RowsByIndex<TokenDigest, Challenge> =
    RowsByIndex { table: &CHALLENGES, index: &CHALLENGES_BY_USER };

pub(crate) fn remove_challenges_of(tx: &mut WriteTx, user: UserKey) -> Result<(), StoreError> {
    for challenge in CHALLENGES_BY_USER.list(tx, &KeyRange::prefix(&user.to_bytes()), usize::MAX)? {
        CHALLENGES.remove(tx, &challenge)?;
    }
    Ok(())
}

/// How many sign-ins of a person can wait for a second factor at the same time.
const MOST_CHALLENGES: usize = 5;

/// Makes room for one more challenge of a user. The oldest one ends if there are too many.
pub(crate) fn make_room(tx: &mut WriteTx, user: UserKey) -> Result<(), StoreError> {
    let mut waiting = Vec::new();
    for token in CHALLENGES_BY_USER.list(tx, &KeyRange::prefix(&user.to_bytes()), usize::MAX)? {
        waiting.extend(CHALLENGES.get(tx, &token)?.map(|challenge| (challenge.expires_at, token)));
    }
    waiting.sort_unstable();
    let excess = (waiting.len() + 1).saturating_sub(MOST_CHALLENGES);
    for (_, token) in waiting.into_iter().take(excess) {
        CHALLENGES.remove(tx, &token)?;
    }
    Ok(())
}

/// Returns expired challenges, at most `limit`.
pub(crate) fn expired_challenges(tx: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<TokenDigest>, StoreError> {
    CHALLENGES_BY_EXPIRY.list(tx, &KeyRange::before(now.to_bytes()), limit)
}

impl Record for SignInPolicy {
    const VERSION: u8 = 2;

    /// Version 1 does not say whether people may have personal keys, because there were none.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        match version {
            1 => decode_fields(&[fields, &encode_fields(&PersonalKeys::Allowed)?].concat()),
            _ => Err(format!("format version {version} is not known to this release")),
        }
    }
}

pub(crate) static POLICIES: Table<TenantId, SignInPolicy> = Table::new(catalog::SIGN_IN_POLICIES, &[]);

/// Returns the sign-in policy of a tenant, or the default one.
pub(crate) fn policy_of(tx: &impl Read, tenant: TenantId) -> Result<SignInPolicy, StoreError> {
    Ok(POLICIES.get(tx, &tenant)?.unwrap_or_default())
}

/// The key of the count of wrong second factors of an account. A right password does not reset it.
pub(crate) fn factor_failure_key(user: UserKey) -> FailureKey {
    digest(&[b"second factor".as_slice(), &user.to_bytes()].concat()).first_chunk().copied().unwrap_or_default()
}

/// Removes all factors of a user, their recovery codes, and the sign-ins that wait for one.
pub(crate) fn remove_of(tx: &mut WriteTx, user: UserKey) -> Result<(), StoreError> {
    for factor in factors_of(tx, user)? {
        remove_factor(tx, user, factor.id)?;
    }
    RECOVERY_CODES.remove(tx, &user)?;
    remove_challenges_of(tx, user)?;
    super::LOGIN_FAILURES.remove(tx, &factor_failure_key(user)).map(drop)
}

#[cfg(test)]
mod tests {
    use tenantd_base::{access::Role, secrets::Sealed};
    use tenantd_store::codec::assert_golden;

    use super::{super::super::model::Totp, *};

    #[test]
    fn the_stored_forms_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let (tenant_id, user_id) = (TenantId::from_bytes([2; 16]), UserId::from_bytes([3; 16]));
        let key = (tenant_id, user_id, FactorId::from_bytes([1; 16]));
        let factor = Factor {
            id: key.2,
            name: "Phone".to_owned(),
            created_at: at,
            last_used_at: Some(at),
            version: 2,
            proof: Proof::Totp(Totp { secret: Sealed::left_out(), last_step: 58_907_520 }),
        };
        assert_golden("factor", &factor);
        assert_golden("recovery_codes", &RecoveryCodes { created_at: at, unused: vec![[7; 32], [8; 32]] });
        let challenge = Challenge { tenant_id, user_id, expires_at: at, user_version: 4, wrong: 2 };
        assert_golden("challenge", &challenge);
        let policy = SignInPolicy {
            required_for: vec![Role::Admin.into(), Role::Viewer.into()],
            with_sso: true,
            version: 3,
            personal_keys: PersonalKeys::Forbidden,
        };
        assert_golden("sign_in_policy", &policy);
    }
}
