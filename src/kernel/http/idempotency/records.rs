//! The stored form of answers: the rows, the segments that they lie in, and the rights and the session that a repetition needs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::{Grants, Principal, Reach},
    clock::Timestamp,
    id::{OrganizationId, SessionId, TenantId},
    secrets::{SealError, Sealed},
};
use tenantd_store::{
    Counts, Key, ReadTx, SealedRecord, SealedSegments, SealedVisitor, SegmentedTable, StoreError, TenantRow, TenantRows, WriteTx,
    catalog::{self, TableName},
    codec::{Record, decode_fields, encode_fields},
    usage::CountedSegments,
};

use super::Idempotency;
use crate::problem::{Code, Problem};

pub(super) const KEEP: Duration = Duration::from_hours(24);

pub(super) type AnswerKey = (TenantId, [u8; 32]);

/// A stored answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// Shows whether the repeated request is the same.
    pub(super) fingerprint: [u8; 32],
    pub(super) expires_at: Timestamp,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: KeptBody,
    /// The rights of the caller; unknown for an answer of an earlier release.
    pub(super) rights: Option<KeptRights>,
    /// The session of the caller; `None` for an API key, and for an answer of an earlier release.
    pub(super) session: Option<SessionId>,
}

impl AnswerRecord {
    /// Checks that the answer may be returned to this caller. One-time secrets go only to the session that got them: another session
    /// of the same person may have proven less, or belong to somebody who has stolen a password.
    pub(super) fn check(&self, principal: &Principal) -> Result<(), Problem> {
        if matches!(self.body, KeptBody::Sealed(_)) {
            // The stored answers include the one to the key's own rotation.
            if principal.superseded {
                return Err(Problem::plain(Code::SupersededSecret));
            }
            if principal.session() != self.session {
                return Err(Problem::new(
                    Code::IdempotencyKeyReused,
                    "Another session has used this `Idempotency-Key`, and the answer has a secret that only that session can read. \
                     Use a new key to make a new secret.",
                ));
            }
        }
        self.rights.as_ref().map_or(Ok(()), |rights| rights.check(principal))
    }
}

/// The rights of the first caller. The answer shows what they could see, so only callers that still can see it get it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptRights {
    pub(super) scopes: Vec<String>,
    /// `None` means all.
    pub(super) organizations: Option<Vec<OrganizationId>>,
}

impl KeptRights {
    pub(super) fn of(principal: &Principal) -> Self {
        let organizations = match &principal.reach {
            Reach::Everything => None,
            Reach::Organizations(ids) => Some(ids.to_vec()),
        };
        Self { scopes: principal.grants.iter().map(|scope| scope.name().to_owned()).collect(), organizations }
    }

    fn check(&self, principal: &Principal) -> Result<(), Problem> {
        let scopes = Grants::from_patterns(self.scopes.iter().map(String::as_str));
        let reach = self.organizations.clone().map_or(Reach::Everything, |ids| Reach::Organizations(ids.into()));
        principal.lost(scopes, &reach).map_or(Ok(()), |lost| Err(lost.into()))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum KeptBody {
    Plain(Vec<u8>),
    Sealed(Sealed),
}

impl Record for AnswerRecord {
    const VERSION: u8 = 3;

    /// Version 1 has no rights of the caller, version 2 no session.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        let (rights, session) = (encode_fields(&None::<KeptRights>)?, encode_fields(&None::<SessionId>)?);
        match version {
            1 => decode_fields(&[fields, &rights, &session].concat()),
            2 => decode_fields(&[fields, &session].concat()),
            _ => Err(format!("format version {version} is not known to this release")),
        }
    }
}

/// Points from a key to its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointerRecord {
    pub(super) expires_at: Timestamp,
}

impl Record for PointerRecord {
    const VERSION: u8 = 1;
}

/// Digests are scattered, so they have only small pointers, which touch few pages. The answers lie in the order of their time.
pub(super) static ANSWERS: SegmentedTable = SegmentedTable::new(catalog::IDEMPOTENCY);
pub(super) const POINTER_ROW: u8 = 0;
pub(super) const ANSWER_ROW: u8 = 1;

/// The key of an answer, ordered by its time.
type AnswerRow = (u8, Timestamp, TenantId, [u8; 32]);

impl SealedRecord<AnswerRow> for AnswerRecord {
    fn each_sealed(&mut self, (_, _, tenant, digest): &AnswerRow, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        match &mut self.body {
            KeptBody::Sealed(sealed) => visit(Idempotency::place(&(*tenant, *digest)), sealed),
            KeptBody::Plain(_) => Ok(()),
        }
    }
}

pub(super) static SEALED_ANSWERS: SealedSegments<AnswerRow, AnswerRecord> =
    SealedSegments::new(&ANSWERS, catalog::IDEMPOTENCY, ANSWER_ROW);

/// How answers count for their tenants. The pointers to them do not count.
pub(super) static COUNTED: CountedSegments = CountedSegments {
    table: catalog::IDEMPOTENCY,
    counts: Counts::Bytes,
    tenant_of: |key, _| {
        let (ANSWER_ROW, _, tenant, _) = AnswerRow::from_bytes(key)? else { return None };
        Some(tenant)
    },
};

/// The segment of the answers that expire on the day of `at`.
pub(super) fn day(at: Timestamp) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or_default() / 86_400_000
}

/// The answer that is still valid at `now`. It expires today or tomorrow.
pub(super) fn find(tx: &ReadTx, key: &AnswerKey, now: Timestamp) -> Result<Option<AnswerRecord>, StoreError> {
    for segment in [day(now + KEEP), day(now)] {
        let pointer = ANSWERS.get::<PointerRecord>(tx, segment, &(POINTER_ROW, key.0, key.1))?;
        if let Some(PointerRecord { expires_at }) = pointer.filter(|pointer| pointer.expires_at > now) {
            return ANSWERS.get(tx, segment, &(ANSWER_ROW, expires_at, key.0, key.1));
        }
    }
    Ok(None)
}

/// The answers that are stored for tenants.
#[derive(Debug)]
pub struct TenantAnswers;

impl TenantRows for TenantAnswers {
    fn tables(&self) -> Vec<TableName> {
        vec![ANSWERS.name()]
    }

    fn find(&self, tx: &ReadTx, tenant: TenantId, most: usize) -> Result<Vec<TenantRow>, StoreError> {
        ANSWERS.rows_under(tx, &(POINTER_ROW, tenant).to_bytes(), most)
    }

    fn remove(&self, tx: &mut WriteTx, _tenant: TenantId, rows: &[TenantRow]) -> Result<(), StoreError> {
        for TenantRow { segment, key } in rows {
            let segment = segment.unwrap_or_default();
            let unreadable = || StoreError::damaged(ANSWERS.name().name(), key, "the key cannot be read");
            let pointer @ (_, tenant, digest) = <(u8, TenantId, [u8; 32])>::from_bytes(key).ok_or_else(unreadable)?;
            if let Some(PointerRecord { expires_at }) = ANSWERS.get(tx, segment, &pointer)? {
                ANSWERS.remove_row(tx, segment, (ANSWER_ROW, expires_at, tenant, digest).to_bytes());
            }
            ANSWERS.remove_row(tx, segment, key.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        entropy::Entropy,
        secrets::{InstallationKey, Sealer, Secret},
    };
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn stored_records_keep_their_format() {
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        let key = (TenantId::from_bytes([2; 16]), [3; 32]);
        let sealed = sealer.seal(Idempotency::place(&key), &Secret::new("{}"), &mut entropy).unwrap();
        let record = |body: KeptBody| AnswerRecord {
            fingerprint: [4; 32],
            expires_at: Timestamp::from_millis(1_767_225_600_000),
            status: 201,
            headers: vec![("etag".to_owned(), "\"v1\"".to_owned())],
            body,
            rights: Some(KeptRights {
                scopes: vec!["tickets:write".to_owned()],
                organizations: Some(vec![OrganizationId::from_bytes([5; 16])]),
            }),
            session: Some(SessionId::from_bytes([6; 16])),
        };
        assert_golden("idempotency_plain", &record(KeptBody::Plain(b"{}".to_vec())));
        assert_golden("idempotency_pointer", &PointerRecord { expires_at: Timestamp::from_millis(1_767_225_600_000) });
        assert_golden("idempotency_sealed", &record(KeptBody::Sealed(sealed)));
    }
}
