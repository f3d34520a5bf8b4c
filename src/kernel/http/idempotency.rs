//! `Idempotency-Key`: a repeated request gets the answer of the first one. The answer is written in the transaction of the effect,
//! so after a crash either both exist or neither does. One-time secrets in an answer are stored sealed.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{HeaderName, HeaderValue, StatusCode};
use poem::{IntoResponse, Request};
use poem_openapi::registry::MetaSchema;
use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::{Grants, Principal, Reach},
    clock::{Clock, Timestamp},
    id::{OrganizationId, TenantId},
    secrets::{SealError, Sealed, SealedPlace, Sealer, Secret, digest},
};
use tenantd_store::{
    Checked, Counts, Key, ReadTx, SealedRecord, SealedSegments, SealedTable, SealedVisitor, SegmentedTable, Store, StoreError,
    TenantRow, TenantRows, WriteTx,
    catalog::{self, TableName},
    codec::{Record, decode_fields, encode_fields},
    events::{Act, Intent},
    tasks::{Done, Task, TaskError},
    usage::CountedSegments,
};

use super::{
    context::RequestContext,
    input::header_parameter,
    problem::{Code, FieldError, Place, Problem},
    reply::{Rendered, Replayable},
};

const KEEP: Duration = Duration::from_hours(24);

/// The most bytes of a stored answer. It is written in the one writer, together with the effect.
const MAX_KEPT_BYTES: usize = 4 << 20;

type AnswerKey = (TenantId, [u8; 32]);

/// A stored answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// Shows whether the repeated request is the same.
    fingerprint: [u8; 32],
    expires_at: Timestamp,
    status: u16,
    headers: Vec<(String, String)>,
    body: KeptBody,
    /// The rights of the caller; unknown for an answer of an earlier release.
    rights: Option<KeptRights>,
}

/// The rights of the first caller. The answer shows what they could see, so only callers that still can see it get it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptRights {
    scopes: Vec<String>,
    /// `None` means all.
    organizations: Option<Vec<OrganizationId>>,
}

impl KeptRights {
    fn of(principal: &Principal) -> Self {
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
enum KeptBody {
    Plain(Vec<u8>),
    Sealed(Sealed),
}

impl Record for AnswerRecord {
    const VERSION: u8 = 2;

    /// Version 1 has no rights of the caller.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        if version != 1 {
            return Err(format!("format version {version} is not known to this release"));
        }
        decode_fields(&[fields, &encode_fields(&None::<KeptRights>)?].concat())
    }
}

/// Points from a key to its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointerRecord {
    expires_at: Timestamp,
}

impl Record for PointerRecord {
    const VERSION: u8 = 1;
}

/// Digests are scattered over the whole segment. A small pointer under each digest touches few pages. The answers themselves lie in
/// the order of their time, so they are written one after the other.
static ANSWERS: SegmentedTable = SegmentedTable::new(catalog::IDEMPOTENCY);
const POINTER_ROW: u8 = 0;
const ANSWER_ROW: u8 = 1;

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

static SEALED_ANSWERS: SealedSegments<AnswerRow, AnswerRecord> = SealedSegments::new(&ANSWERS, catalog::IDEMPOTENCY, ANSWER_ROW);

/// How answers count for their tenants. The pointers to them do not count.
static COUNTED: CountedSegments = CountedSegments {
    table: catalog::IDEMPOTENCY,
    counts: Counts::Bytes,
    tenant_of: |key, _| {
        let (ANSWER_ROW, _, tenant, _) = AnswerRow::from_bytes(key)? else { return None };
        Some(tenant)
    },
};

/// The segment of the answers that expire on the day of `at`.
fn day(at: Timestamp) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or_default() / 86_400_000
}

/// The answer that is still valid at `now`. It expires today or tomorrow.
fn find(tx: &ReadTx, key: &AnswerKey, now: Timestamp) -> Result<Option<AnswerRecord>, StoreError> {
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

/// Stores answers, and knows which requests are in progress.
#[derive(Debug)]
pub struct Idempotency {
    store: Store,
    sealer: Sealer,
    running: Mutex<HashSet<AnswerKey>>,
}

impl Idempotency {
    pub fn new(store: Store, sealer: Sealer) -> Self {
        Self { store, sealer, running: Mutex::new(HashSet::new()) }
    }

    /// The tables whose answers have secrets sealed with the installation key.
    pub fn sealed_tables() -> Vec<&'static dyn SealedTable> {
        vec![&SEALED_ANSWERS]
    }

    /// The tables whose answers count for their tenants.
    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&COUNTED]
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashSet<AnswerKey>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(key: &AnswerKey) -> SealedPlace<'_> {
        SealedPlace { tenant: key.0.as_bytes(), table: catalog::IDEMPOTENCY.name(), key: &key.1, target: None }
    }

    fn replay(&self, key: &AnswerKey, record: AnswerRecord) -> Result<Rendered, Problem> {
        let (body, secret) = match record.body {
            KeptBody::Plain(bytes) => (bytes.into(), false),
            KeptBody::Sealed(sealed) => {
                let opened = self.sealer.open(Self::place(key), &sealed).map_err(Problem::internal)?;
                (opened.expose().to_owned().into(), true)
            }
        };
        let kept = record
            .headers
            .iter()
            .filter_map(|(name, value)| Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?)));
        let marker = (HeaderName::from_static("idempotency-replayed"), HeaderValue::from_static("true"));
        let status = StatusCode::from_u16(record.status).map_err(Problem::internal)?;
        Ok(Rendered { status, headers: kept.chain([marker]).collect(), body, secret })
    }

    fn keep(&self, tx: &mut WriteTx, act: &mut Act, claim: &Claim, reply: &Rendered) -> Result<(), StoreError> {
        let body = if reply.secret {
            let text = Secret::new(String::from_utf8_lossy(&reply.body));
            let sealed = self.sealer.seal(Self::place(&claim.key), &text, &mut act.entropy);
            KeptBody::Sealed(sealed.map_err(StoreError::engine)?)
        } else {
            KeptBody::Plain(reply.body.to_vec())
        };
        let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let record = AnswerRecord {
            fingerprint: claim.fingerprint,
            expires_at: claim.claimed_at + KEEP,
            status: reply.status.as_u16(),
            headers: reply.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body,
            rights: Some(claim.rights.clone()),
        };
        let (expires_at, (tenant, digest)) = (record.expires_at, claim.key);
        ANSWERS.put(tx, day(expires_at), &(POINTER_ROW, tenant, digest), &PointerRecord { expires_at })?;
        ANSWERS.insert_for(tx, tenant, day(expires_at), &(ANSWER_ROW, expires_at, tenant, digest), &record)
    }
}

/// The right to run the first request with a key. Dropping it admits the next request.
#[derive(Debug)]
struct Claim {
    idempotency: Arc<Idempotency>,
    key: AnswerKey,
    fingerprint: [u8; 32],
    rights: KeptRights,
    /// A time of the installation's clock. How long an answer is stored does not depend on the tenant's clock.
    claimed_at: Timestamp,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.idempotency.running().remove(&self.key);
    }
}

/// Why a request with a key has no effect.
#[derive(Debug)]
enum Refused<E> {
    Effect(E),
    /// The answer has this many bytes, which are too many to store.
    TooLarge(usize),
}

impl<E: From<StoreError>> From<StoreError> for Refused<E> {
    fn from(error: StoreError) -> Self {
        Self::Effect(error.into())
    }
}

impl<E: Into<Problem>> Refused<E> {
    fn into_problem(self) -> Problem {
        match self {
            Self::Effect(error) => error.into(),
            Self::TooLarge(bytes) => {
                let detail = format!(
                    "The answer would have {bytes} bytes. With an Idempotency-Key it can have at most {MAX_KEPT_BYTES}. \
                     Nothing was changed. Send less in one request."
                );
                Problem::new(Code::PayloadTooLarge, detail)
            }
        }
    }
}

/// The header in a handler's signature. The argument must be named `idempotency_key`.
#[derive(Debug)]
pub struct IdempotencyKey {
    claim: Option<Arc<Claim>>,
    idempotency: Arc<Idempotency>,
}

impl IdempotencyKey {
    /// Runs the effect in one transaction. If a key was given, the same transaction stores the answer. If the answer is too large
    /// to store, the effect is refused as well.
    pub async fn run<T, E>(
        self,
        intent: Intent,
        mut effect: impl FnMut(&mut WriteTx, &mut Act) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Replayable,
        E: From<StoreError> + Into<Problem> + Send + 'static,
    {
        let Self { claim, idempotency } = self;
        let inner = idempotency.clone();
        let written = idempotency.store.write(move |tx| {
            let mut act = intent.begin();
            let reply = effect(tx, &mut act).map_err(Refused::Effect)?;
            if let Some(claim) = &claim {
                let bytes = reply.rendered().body.len();
                if bytes > MAX_KEPT_BYTES {
                    return Err(Refused::TooLarge(bytes));
                }
                inner.keep(tx, &mut act, claim, reply.rendered())?;
            }
            Ok::<T, Refused<E>>(reply)
        });
        written.await.map_err(Refused::into_problem)
    }
}

fn bad_key() -> Problem {
    let place = Place::Header("Idempotency-Key".to_owned());
    Problem::invalid(vec![FieldError::new(place, "wrong_form", "Idempotency-Key must be 1 to 255 visible ASCII characters")])
}

header_parameter!(
    IdempotencyKey,
    MetaSchema {
        min_length: Some(1),
        max_length: Some(255),
        pattern: Some("^[!-~]+$".to_owned()),
        example: Some("create-key-2026-01-31".into()),
        ..MetaSchema::new("string")
    },
    claim
);

/// Claims the key for this request, or returns the answer of the earlier request with that key.
fn claim(request: &Request) -> poem::Result<IdempotencyKey> {
    let context = RequestContext::of(request)?;
    let idempotency = request.extensions().get::<Arc<Idempotency>>().cloned();
    let idempotency = idempotency.ok_or_else(|| Problem::internal("a handler was reached without passing the edge"))?;
    let Some(value) = request.headers().get("idempotency-key") else { return Ok(IdempotencyKey { claim: None, idempotency }) };
    let key = value.as_bytes();
    if key.is_empty() || key.len() > 255 || !key.iter().all(u8::is_ascii_graphic) {
        return Err(bad_key().into());
    }
    let principal = context.principal.clone().ok_or_else(|| Problem::plain(Code::MissingCredentials))?;
    let scope = [&principal.credential()[..], context.method.as_str().as_bytes(), b"\0", context.path().as_bytes(), b"\0", key];
    let answer_key = (principal.tenant_id, digest(&scope.concat()));
    if !idempotency.running().insert(answer_key) {
        return Err(Problem::plain(Code::IdempotencyInProgress).into());
    }
    let claimed_at = context.clocks.installation();
    let (fingerprint, rights) = (context.fingerprint(), KeptRights::of(&principal));
    let claim = Claim { idempotency: idempotency.clone(), key: answer_key, fingerprint, rights, claimed_at };
    let kept = idempotency.store.read(|tx| find(tx, &answer_key, claimed_at)).map_err(Problem::from)?;
    match kept {
        // The stored answers include the one to the key's own rotation.
        Some(record) if principal.superseded && matches!(record.body, KeptBody::Sealed(_)) => {
            Err(Problem::plain(Code::SupersededSecret).into())
        }
        Some(record) if record.fingerprint == claim.fingerprint => {
            record.rights.as_ref().map_or(Ok(()), |rights| rights.check(&principal))?;
            let replay = idempotency.replay(&answer_key, record)?;
            Err(poem::Error::from_response(replay.into_response()))
        }
        Some(_) => Err(Problem::plain(Code::IdempotencyKeyReused).into()),
        None => Ok(IdempotencyKey { claim: Some(Arc::new(claim)), idempotency }),
    }
}

/// Drops the answers of past days.
#[derive(Debug)]
pub struct IdempotencyPurge {
    pub store: Store,
    pub clock: Clock,
}

impl Task for IdempotencyPurge {
    fn name(&self) -> &'static str {
        "idempotency_purge"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(10)
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let today = day(self.clock.now());
        let mut segments = self.store.read(|tx| ANSWERS.segments(tx))?;
        segments.retain(|segment| *segment < today);
        if segments.is_empty() {
            return Ok(Done::All);
        }
        self.store
            .write(move |tx| {
                for segment in &segments {
                    ANSWERS.drop_segment(tx, *segment)?;
                }
                Ok::<_, StoreError>(())
            })
            .await?;
        Ok(Done::All)
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::{entropy::Entropy, secrets::InstallationKey};
    use tenantd_store::{RedbEngine, WriterSettings, codec::assert_golden, events::Actor, usage};

    use super::*;
    use crate::reply::Empty;

    #[tokio::test]
    async fn an_answer_that_is_too_large_to_store_is_refused_with_its_effect() {
        let directory = tempfile::tempdir().unwrap();
        let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
        let store = Store::new(engine, WriterSettings { batch_size: 8, queue_length: 8 }).unwrap();
        let sealer = Sealer::new(&InstallationKey::generate(&mut Entropy::from_seed(1)));
        let idempotency = Arc::new(Idempotency::new(store.clone(), sealer));
        let (tenant, now) = (TenantId::from_bytes([2; 16]), Timestamp::from_millis(1_767_225_600_000));
        let effect_key = (POINTER_ROW, tenant, [9_u8; 32]);
        for (bytes, is_kept) in [(MAX_KEPT_BYTES + 1, false), (MAX_KEPT_BYTES, true)] {
            let rights = KeptRights { scopes: Vec::new(), organizations: None };
            let key = (tenant, [3; 32]);
            let claim = Claim { idempotency: idempotency.clone(), key, fingerprint: [4; 32], rights, claimed_at: now };
            let key = IdempotencyKey { claim: Some(Arc::new(claim)), idempotency: idempotency.clone() };
            let done = key.run(Intent::new(tenant, now, Actor::system("test")), move |tx, _| {
                ANSWERS.put(tx, day(now), &effect_key, &PointerRecord { expires_at: now })?;
                let body = vec![b'x'; bytes].into();
                Ok::<_, StoreError>(Empty(Rendered { status: StatusCode::OK, headers: Vec::new(), body, secret: false }))
            });
            assert_eq!(
                done.await.map(drop).map_err(|problem| problem.code),
                if is_kept { Ok(()) } else { Err(Code::PayloadTooLarge) }
            );
            let effect = store.read(|tx| ANSWERS.get::<PointerRecord>(tx, day(now), &effect_key)).unwrap();
            let kept = store.read(|tx| find(tx, &(tenant, [3; 32]), now)).unwrap();
            assert_eq!((effect.is_some(), kept.is_some()), (is_kept, is_kept));
        }
        let report = store.check([usage::tables(), Idempotency::tables()].concat()).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    }

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
        };
        assert_golden("idempotency_plain", &record(KeptBody::Plain(b"{}".to_vec())));
        assert_golden("idempotency_pointer", &PointerRecord { expires_at: Timestamp::from_millis(1_767_225_600_000) });
        assert_golden("idempotency_sealed", &record(KeptBody::Sealed(sealed)));
    }
}
