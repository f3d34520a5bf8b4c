//! `Idempotency-Key`: a repeated request gets the answer of the first one. The answer is written in the transaction of the effect,
//! so after a crash either both exist or neither does. One-time secrets in an answer are stored sealed.

mod records;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{HeaderName, HeaderValue, StatusCode};
use poem::{IntoResponse, Request};
use poem_openapi::registry::MetaSchema;
use tenantd_base::{
    clock::{Clock, Timestamp},
    id::SessionId,
    secrets::{SealedPlace, Sealer, Secret, digest},
};
use tenantd_store::{
    Checked, SealedTable, Store, StoreError, WriteTx, catalog,
    events::{Act, Intent},
    tasks::{Done, Task, TaskError},
};

use super::{
    context::RequestContext,
    input::header_parameter,
    problem::{Code, FieldError, Place, Problem},
    reply::{Rendered, Replayable},
};
use records::{ANSWER_ROW, ANSWERS, AnswerKey, COUNTED, KEEP, KeptBody, KeptRights, POINTER_ROW, SEALED_ANSWERS, day, find};
pub use records::{AnswerRecord, PointerRecord, TenantAnswers};

/// The most bytes of a stored answer. It is written in the one writer, together with the effect.
const MAX_KEPT_BYTES: usize = 4 << 20;

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
            session: claim.session,
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
    session: Option<SessionId>,
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
pub enum Refused<E> {
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
    pub fn into_problem(self) -> Problem {
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
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    claim: Option<Arc<Claim>>,
    idempotency: Arc<Idempotency>,
}

impl IdempotencyKey {
    /// Runs the effect and stores its answer in one transaction. An answer that is too large to store refuses the effect.
    pub async fn run<T, E>(
        self,
        intent: Intent,
        effect: impl FnMut(&mut WriteTx, &mut Act) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Replayable,
        E: From<StoreError> + Into<Problem> + Send + 'static,
    {
        self.attempt(intent, effect).await.map_err(Refused::into_problem)
    }

    /// As [`Self::run`], for a caller that looks at the error and may try again.
    pub async fn attempt<T, E>(
        &self,
        intent: Intent,
        mut effect: impl FnMut(&mut WriteTx, &mut Act) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Refused<E>>
    where
        T: Replayable,
        E: From<StoreError> + Send + 'static,
    {
        let (claim, inner) = (self.claim.clone(), self.idempotency.clone());
        self.idempotency
            .store
            .write(move |tx| {
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
            })
            .await
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
    let (fingerprint, rights, session) = (context.fingerprint(), KeptRights::of(&principal), principal.session());
    let claim = Claim { idempotency: idempotency.clone(), key: answer_key, fingerprint, rights, session, claimed_at };
    let kept = idempotency.store.read(|tx| find(tx, &answer_key, claimed_at)).map_err(Problem::from)?;
    match kept {
        Some(record) if record.fingerprint == claim.fingerprint => {
            record.check(&principal)?;
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
    use tenantd_base::{entropy::Entropy, id::TenantId, secrets::InstallationKey};
    use tenantd_store::{RedbEngine, WriterSettings, events::Actor, usage};

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
            let claim =
                Claim { idempotency: idempotency.clone(), key, fingerprint: [4; 32], rights, session: None, claimed_at: now };
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
}
