//! Finds passkeys by what authenticators call them, and stores which challenges were answered. tenantd seals a challenge for the
//! browser and stores nothing until it is answered, so that strangers cannot fill the store.

use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, secrets::digest};
use tenantd_store::{Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::{
    super::model::{Factor, Proof},
    TokenDigest,
    factors::FactorKey,
};

/// The key is a digest, because the id can be long.
pub(crate) static FACTORS_BY_CREDENTIAL: Index<FactorKey, Factor> = Index {
    table: catalog::FACTORS_BY_CREDENTIAL,
    unique: true,
    keys: |_, factor| match &factor.proof {
        Proof::Totp(_) => Vec::new(),
        Proof::Passkey(passkey) => vec![digest(&passkey.credential_id).to_vec()],
    },
};

/// Returns the key of the passkey with this id, in any tenant.
pub(crate) fn factor_of_credential(tx: &impl Read, credential_id: &[u8]) -> Result<Option<FactorKey>, StoreError> {
    FACTORS_BY_CREDENTIAL.find(tx, &digest(credential_id))
}

/// A challenge that was answered.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SpentChallenge {
    pub(crate) expires_at: Timestamp,
}

impl Record for SpentChallenge {
    const VERSION: u8 = 1;
}

static SPENT_BY_EXPIRY: Index<TokenDigest, SpentChallenge> =
    Index { table: catalog::SPENT_PASSKEY_CHALLENGES_BY_EXPIRY, unique: false, keys: |_, spent| vec![spent.expires_at.to_bytes()] };
pub(crate) static SPENT_CHALLENGES: Table<TokenDigest, SpentChallenge> =
    Table::new(catalog::SPENT_PASSKEY_CHALLENGES, &[&SPENT_BY_EXPIRY]);

/// Marks a challenge as answered until it has expired. Returns whether it was not answered before.
pub(crate) fn spend(tx: &mut WriteTx, challenge: &TokenDigest, expires_at: Timestamp) -> Result<bool, StoreError> {
    if SPENT_CHALLENGES.get(tx, challenge)?.is_some() {
        return Ok(false);
    }
    SPENT_CHALLENGES.put(tx, challenge, &SpentChallenge { expires_at })?;
    Ok(true)
}

/// Returns answered challenges that have expired, at most `limit`.
pub(crate) fn expired_challenges(tx: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<TokenDigest>, StoreError> {
    SPENT_BY_EXPIRY.list(tx, &KeyRange::before(now.to_bytes()), limit)
}

#[cfg(test)]
mod tests {
    use tenantd_base::id::FactorId;
    use tenantd_store::codec::assert_golden;

    use super::{
        super::super::model::{Passkey, PasskeyKey},
        *,
    };

    #[test]
    fn the_stored_forms_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let passkey = |public_key| Factor {
            id: FactorId::from_bytes([1; 16]),
            name: "Laptop".to_owned(),
            created_at: at,
            last_used_at: None,
            version: 1,
            proof: Proof::Passkey(Passkey {
                credential_id: vec![1, 2, 3],
                public_key,
                sign_count: 9,
                host: "acme.example".to_owned(),
            }),
        };
        assert_golden("passkey_es256", &passkey(PasskeyKey::Es256(vec![4, 5])));
        assert_golden("passkey_eddsa", &passkey(PasskeyKey::EdDsa(vec![6])));
        assert_golden("passkey_rs256", &passkey(PasskeyKey::Rs256 { modulus: vec![7, 8], exponent: vec![1, 0, 1] }));
        assert_golden("spent_passkey_challenge", &SpentChallenge { expires_at: at });
    }
}
