//! `/internal/ingest`: imports directory records from agents and other systems, in one stream of any length.
//!
//! Three stages run at the same time: tenantd reads new lines, commits the previous lines, and sends the results of the lines
//! before those. Each stage waits for the next one, so a stream holds two batches and a few results in memory, regardless of its
//! length. Committed lines stay committed if the client disconnects before it gets the results. When the client sends them again,
//! they are unchanged.
//!
//! The answer to an array starts when its first element has arrived. Until then, nothing is imported, and a body that is not an
//! array is refused as a whole. A later error can only end the answer.

use std::{sync::Arc, time::Duration};

use poem_openapi::{Enum, Object, OpenApi, Tags, param::Path};
use serde::Serialize;
use serde_with::skip_serializing_none;
use tokio::{sync::oneshot, task::JoinHandle};

use tenantd_base::{access::Principal, clocks::Clocks, id::TenantId, quotas::Allowance};
use tenantd_http::{
    incoming::{Form, Incoming, Streamed},
    input::Filter,
    need::{Allowed, IngestWrite, LocalOperator},
    outgoing::{Outgoing, StreamError, StreamedLines, Streams},
    problem::{Code, Place, Problem},
};
use tenantd_platform::Tenants;
use tenantd_store::{
    Store, StoreError, WriteTx,
    events::{Act, Intent},
    usage,
};

use super::{
    super::{
        error::DirectoryError,
        model::{IngestLine, LineResult, LineStatus, SentLine},
        service::{Directory, JobReceiver, LabelCache},
    },
    ingest_lines::{self, Line, LineError},
    split::{MAX_VALUE, Piece, Splitter},
};

/// The maximum number of lines per transaction.
const BATCH_LINES: usize = 400;
/// The maximum size of these lines in bytes.
const BATCH_BYTES: usize = 1 << 20;
/// How long the answer waits for the first element of an array. After that, errors are in the last line.
const FIRST_ELEMENT: Duration = Duration::from_secs(5);
/// What to do about a body of which nothing could be read.
const NOTHING_READ: &str =
    "Nothing was imported. Send the records as one array, or one per line with `Content-Type: application/x-ndjson`.";

#[derive(Tags)]
enum Area {
    /// Imports directory records from agents and other systems.
    Ingest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
enum AnswerLines {
    /// One result for each line.
    #[default]
    All,
    /// Results for failed lines only, and the last line.
    Errors,
}

#[derive(Debug, Object)]
struct IngestQuery {
    /// Which results to return. Defaults to `all`. With `errors`, the response is short, for clients that read it only after they
    /// have sent everything.
    answer: Option<AnswerLines>,
}

/// The result of one line. The last line of the response has `_end` and the counts instead.
#[skip_serializing_none]
#[derive(Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct IngestAnswer {
    /// The number of the line or of the array element, starting at 1.
    line: Option<u64>,
    /// What happened to the record. Absent on the last line.
    status: Option<AnswerStatus>,
    /// The ID of the record. Absent if the line failed or there was nothing to remove.
    id: Option<String>,
    /// Why the line failed. On the last line: why tenantd did not read the rest of the body.
    error: Option<LineError>,
    /// True on the last line, absent otherwise. A response without this line is incomplete.
    #[oai(rename = "_end")]
    #[serde(rename = "_end")]
    end: Option<bool>,
    /// The number of records created. Only on the last line.
    created: Option<u64>,
    /// The number of records changed. Only on the last line.
    updated: Option<u64>,
    /// The number of records that were already up to date. Only on the last line.
    unchanged: Option<u64>,
    /// The number of records removed. Only on the last line.
    removed: Option<u64>,
    /// The number of lines that failed. Only on the last line.
    failed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
enum AnswerStatus {
    Created,
    Updated,
    Unchanged,
    Removed,
    Error,
}

impl From<LineStatus> for AnswerStatus {
    fn from(status: LineStatus) -> Self {
        match status {
            LineStatus::Created => Self::Created,
            LineStatus::Updated => Self::Updated,
            LineStatus::Unchanged => Self::Unchanged,
            LineStatus::Removed => Self::Removed,
        }
    }
}

/// The state that both ingest endpoints share.
#[derive(Clone, Debug)]
pub(crate) struct Ingest {
    pub(crate) directory: Directory,
    pub(crate) store: Store,
    pub(crate) clocks: Clocks,
    pub(crate) imports: Streams,
    pub(crate) jobs: Arc<dyn JobReceiver>,
}

impl Ingest {
    /// Starts to process the body. The response streams the results at the same time. Fails if tenantd cannot find the first
    /// element of an array.
    async fn start(
        &self,
        tenant_id: TenantId,
        principal: Arc<Principal>,
        query: &IngestQuery,
        body: Incoming,
    ) -> Result<StreamedLines<IngestAnswer>, Problem> {
        let (ingest, wanted) = (self.clone(), query.answer.unwrap_or_default());
        let (verdict, decided) = oneshot::channel();
        let answer = StreamedLines::start(&self.imports, tenant_id, |out| {
            let verdict = Some(verdict);
            IngestStream { ingest, tenant_id, principal, out, wanted, counts: Counts::default(), verdict }.run(body)
        })?;
        match tokio::time::timeout(FIRST_ELEMENT, decided).await {
            Ok(Ok(Err(problem))) => Err(problem),
            _ => Ok(answer),
        }
    }
}

pub(crate) struct IngestApi(pub(crate) Ingest);

#[OpenApi(prefix_path = "/internal", tag = "Area::Ingest")]
impl IngestApi {
    /// Import organizations, users, devices and backup jobs
    ///
    /// Imports any number of records: one per line (`application/x-ndjson`), or as the elements of one array (`application/json`).
    /// tenantd identifies each record by `kind` and `external_id` and creates or updates it, or leaves it unchanged. A record with
    /// `"deleted": true` is removed; jobs cannot be removed. The response has one line per record, in order, and starts while you
    /// still send the body: read it at the same time, or use `answer=errors`. A failed line does not stop the others. You can
    /// safely send the same records again; unchanged records are not written. A line can have at most 256 KiB. If the tenant has
    /// reached a quota, each line that would exceed it fails with `quota_exceeded`. Lines with `"deleted": true` always work. If
    /// tenantd cannot find the first element of an array, it imports nothing and returns `malformed_json`. If the array is not
    /// valid after that, the last line of the response has the error.
    #[oai(path = "/ingest", method = "post", operation_id = "ingest")]
    async fn ingest(
        &self,
        auth: Allowed<IngestWrite>,
        query: Filter<IngestQuery>,
        body: Streamed<Line>,
    ) -> Result<StreamedLines<IngestAnswer>, Problem> {
        self.0.start(auth.principal.tenant_id, auth.principal, &query.0, body.body).await
    }
}

pub(crate) struct AdminIngestApi {
    pub(crate) ingest: Ingest,
    pub(crate) tenants: Tenants,
}

#[OpenApi(prefix_path = "/internal/admin/tenants", tag = "Area::Ingest")]
impl AdminIngestApi {
    /// Import records for a tenant
    ///
    /// Imports organizations, users, devices and backup jobs like `/internal/ingest`, for any tenant.
    #[oai(path = "/:id/ingest", method = "post", operation_id = "ingest_tenant")]
    async fn ingest_tenant(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        query: Filter<IngestQuery>,
        body: Streamed<Line>,
    ) -> Result<StreamedLines<IngestAnswer>, Problem> {
        self.ingest.store.read(|tx| self.tenants.get(tx, id.0).map(drop))?;
        self.ingest.start(id.0, auth.principal, &query.0, body.body).await
    }
}

/// Lines that are committed in one transaction.
#[derive(Debug, Default)]
struct Batch {
    lines: Vec<(u64, Result<SentLine, LineError>)>,
    bytes: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES
    }

    fn add(&mut self, pieces: &mut Vec<Piece>) {
        for Piece { number, bytes } in pieces.drain(..) {
            self.bytes += bytes.as_ref().map_or(0, Vec::len);
            let line = match bytes {
                Some(bytes) => ingest_lines::parse(&bytes),
                None => Err(LineError::new("payload_too_large", format!("a line can have at most {MAX_VALUE} bytes"), None)),
            };
            self.lines.push((number, line));
        }
    }
}

type Answers = Vec<(u64, Result<(AnswerStatus, Option<String>), LineError>)>;

#[derive(Debug, Default)]
struct Counts {
    created: u64,
    updated: u64,
    unchanged: u64,
    removed: u64,
    failed: u64,
}

/// One ingest stream.
struct IngestStream {
    ingest: Ingest,
    tenant_id: TenantId,
    principal: Arc<Principal>,
    out: Outgoing,
    wanted: AnswerLines,
    counts: Counts,
    /// Reports once whether the body is accepted. `None` afterwards.
    verdict: Option<oneshot::Sender<Result<(), Problem>>>,
}

impl IngestStream {
    /// Lets the answer start.
    fn accept(&mut self) {
        if let Some(verdict) = self.verdict.take() {
            // If nobody waits any more, the answer has started or the client is gone.
            let _ = verdict.send(Ok(()));
        }
    }

    /// Refuses the whole body. Returns the problem if the answer has already started.
    fn refuse(&mut self, problem: Problem) -> Option<Problem> {
        match self.verdict.take() {
            Some(verdict) => verdict.send(Err(problem)).err().and_then(Result::err),
            None => Some(problem),
        }
    }

    async fn run(mut self, body: Incoming) -> Result<(), StreamError> {
        let stopped = self.process(body).await?;
        if let Some(cause) = stopped.as_ref().and_then(|problem| problem.cause.as_deref()) {
            tracing::error!(cause, "an import failed");
        }
        let Counts { created, updated, unchanged, removed, failed } = self.counts;
        let last = IngestAnswer {
            end: Some(true),
            created: Some(created),
            updated: Some(updated),
            unchanged: Some(unchanged),
            removed: Some(removed),
            failed: Some(failed),
            error: stopped.map(|problem| line_error(&problem)),
            ..IngestAnswer::default()
        };
        let mut text = Vec::new();
        write_line(&mut text, &last);
        self.out.send(text).await
    }

    /// Processes the body to its end, or until an error that prevents further processing.
    async fn process(&mut self, mut body: Incoming) -> Result<Option<Problem>, StreamError> {
        // Every line of NDJSON has its own result, so there is nothing to wait for.
        if body.form == Form::Lines {
            self.accept();
        }
        let mut splitter = Some(Splitter::new(body.form));
        let (mut pieces, mut batch, mut stopped) = (Vec::new(), Batch::default(), None);
        let mut committing: Option<JoinHandle<Result<Answers, DirectoryError>>> = None;
        loop {
            if committing.is_none() && !batch.lines.is_empty() {
                committing = Some(self.commit(std::mem::take(&mut batch)));
            }
            tokio::select! {
                committed = finished(&mut committing), if committing.is_some() => {
                    committing = None;
                    match committed {
                        Ok(answers) => self.answer(answers).await?,
                        // The cause also affects all following lines.
                        Err(error) => return Ok(Some(error.into())),
                    }
                }
                next = body.next(), if splitter.is_some() && !batch.is_full() => {
                    let read = match next {
                        Ok(Some(bytes)) => splitter.as_mut().map_or(Ok(()), |splitter| splitter.push(&bytes, &mut pieces)),
                        Ok(None) => splitter.take().map_or(Ok(()), |splitter| splitter.finish(&mut pieces)),
                        Err(problem) => {
                            (splitter, stopped) = (None, Some(problem));
                            Ok(())
                        }
                    };
                    let is_first = self.verdict.is_some() && pieces.is_empty();
                    if let Err(broken) = read {
                        let rest = if is_first { NOTHING_READ } else { "No further records were read." };
                        let detail = format!("The body is not valid: {broken}. {rest}");
                        (splitter, stopped) = (None, Some(Problem::new(Code::MalformedJson, detail)));
                    }
                    if is_first && let Some(problem) = stopped.take() {
                        // The edge reads what is left of the body before it answers.
                        drop(body);
                        let late = self.refuse(problem);
                        return if late.is_some() { Ok(late) } else { Err(StreamError::Unwanted) };
                    }
                    if !pieces.is_empty() {
                        body.took_record();
                    }
                    if !pieces.is_empty() || splitter.is_none() {
                        self.accept();
                    }
                    batch.add(&mut pieces);
                }
                else => return Ok(stopped),
            }
        }
    }

    /// Hands a batch to the writer. The write continues even if the client has disconnected.
    fn commit(&self, batch: Batch) -> JoinHandle<Result<Answers, DirectoryError>> {
        let mut intent = Intent::of(&self.principal, self.ingest.clocks.now(self.tenant_id));
        intent.tenant_id = self.tenant_id;
        let (directory, store, jobs) = (self.ingest.directory, self.ingest.store.clone(), self.ingest.jobs.clone());
        let tenant_id = self.tenant_id;
        tokio::spawn(async move {
            // If the disk is full, the client gets an error at once instead of waiting.
            store.ensure_room()?;
            let _turn = store.shares().turn_in_background(tenant_id).await;
            let write = store.write(move |tx| {
                let (mut act, mut cache) = (intent.begin(), LabelCache::default());
                let mut answers = Vec::with_capacity(batch.lines.len());
                for (number, line) in &batch.lines {
                    let answer = match line {
                        Err(error) => Err(error.clone()),
                        Ok(line) => match process_line(tx, &mut act, &mut cache, (&directory, jobs.as_ref()), line) {
                            Ok(done) => Ok((done.status.into(), done.id)),
                            Err(error) if is_line_error(&error) => Err(line_error(&error.into())),
                            Err(error) => return Err(error),
                        },
                    };
                    answers.push((*number, answer));
                }
                Ok(answers)
            });
            store.shares().work_for(tenant_id, write).await
        })
    }

    async fn answer(&mut self, answers: Answers) -> Result<(), StreamError> {
        let mut text = Vec::with_capacity(answers.len() * 96);
        for (number, answer) in answers {
            let (status, id, error) = match answer {
                Ok((status, id)) => (status, id, None),
                Err(error) => (AnswerStatus::Error, None, Some(error)),
            };
            let count = match status {
                AnswerStatus::Created => &mut self.counts.created,
                AnswerStatus::Updated => &mut self.counts.updated,
                AnswerStatus::Unchanged => &mut self.counts.unchanged,
                AnswerStatus::Removed => &mut self.counts.removed,
                AnswerStatus::Error => &mut self.counts.failed,
            };
            *count += 1;
            if self.wanted == AnswerLines::All || status == AnswerStatus::Error {
                let line = IngestAnswer { line: Some(number), status: Some(status), id, error, ..IngestAnswer::default() };
                write_line(&mut text, &line);
            }
        }
        // Without output, a disconnected client goes unnoticed. tenantd then processes everything that the client has sent.
        if text.is_empty() { Ok(()) } else { self.out.send(text).await }
    }
}

/// Whether an error affects only its line, so that the next lines can be processed.
fn is_line_error(error: &DirectoryError) -> bool {
    match error {
        DirectoryError::Store(error) => matches!(error, StoreError::Quota(_)),
        DirectoryError::Event(_) => false,
        _ => true,
    }
}

/// Processes one line. The tenant's quotas apply to each line separately and never refuse a removal. A refused line has no effect.
fn process_line(
    tx: &mut WriteTx,
    act: &mut Act,
    cache: &mut LabelCache,
    (directory, jobs): (&Directory, &dyn JobReceiver),
    line: &SentLine,
) -> Result<LineResult, DirectoryError> {
    let usual = act.allowance;
    if matches!(line, SentLine::Record(IngestLine::Removal(..))) {
        act.allowance = Allowance::Unlimited;
    }
    let taken: Result<LineResult, DirectoryError> = tx.attempt(|tx| {
        let done = match line {
            SentLine::BackupJob(line) => jobs.take(tx, act, line)?,
            SentLine::Record(line) => directory.ingest(tx, act, cache, line)?,
        };
        usage::settle_part(tx, act.tenant_id, act.allowance)?;
        Ok(done)
    });
    act.allowance = usual;
    taken
}

/// Waits for the current commit; waits forever if there is none.
async fn finished(committing: &mut Option<JoinHandle<Result<Answers, DirectoryError>>>) -> Result<Answers, DirectoryError> {
    match committing {
        Some(handle) => handle.await.unwrap_or_else(|error| Err(StoreError::Panicked(error.to_string()).into())),
        None => std::future::pending().await,
    }
}

/// Converts an API problem to the error of one line.
fn line_error(problem: &Problem) -> LineError {
    let first = problem.errors.first();
    let pointer = first.and_then(|error| match &error.place {
        Place::Pointer(pointer) => Some(pointer.as_str()),
        Place::Parameter(_) | Place::Header(_) => None,
    });
    LineError::new(problem.code.name(), first.map_or(&problem.detail, |error| &error.message), pointer)
}

fn write_line(out: &mut Vec<u8>, line: &IngestAnswer) {
    let at = out.len();
    if let Err(error) = serde_json::to_writer(&mut *out, line) {
        tracing::error!(%error, "cannot serialize a result line");
        out.truncate(at);
        return;
    }
    out.push(b'\n');
}
