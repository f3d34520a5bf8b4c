//! `/internal/ingest`: the directory's records from agents and imports, in one stream of any length.
//!
//! Three things go on at one time: lines come in and are read, the lines before them are being committed, and the answers to those
//! before that are on their way back. Each waits for the next, so a stream holds two batches and a few answers, however long it is.
//! What is committed stays, also when the client is gone before it hears of it: the next time it finds the lines unchanged.

use std::sync::Arc;

use poem_openapi::{Enum, Object, OpenApi, Tags, param::Path};
use serde::Serialize;
use serde_with::skip_serializing_none;
use tokio::task::JoinHandle;

use tenantd_base::{access::Principal, clocks::Clocks, id::TenantId, quotas::Allowance};
use tenantd_http::{
    incoming::{Incoming, Streamed},
    input::Filter,
    need::{Allowed, IngestWrite, LocalOperator},
    outgoing::{Broken, Outgoing, StreamedLines, Streams},
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
        model::{IngestLine, LineDone, LineStatus, SentLine},
        service::{Directory, JobTaker, Seen},
    },
    ingest_lines::{self, Line, LineError},
    split::{MAX_VALUE, Piece, Splitter},
};

/// The most lines of one transaction.
const BATCH_LINES: usize = 400;
/// The most bytes of them.
const BATCH_BYTES: usize = 1 << 20;

#[derive(Tags)]
enum Area {
    /// The directory's records, from agents and imports.
    Ingest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
enum AnswerLines {
    /// A line for every line that was sent.
    #[default]
    All,
    /// A line for every line that was not taken up, and the last line.
    Errors,
}

#[derive(Debug, Object)]
struct IngestQuery {
    /// Which lines are answered. With `errors` the answer is short, for clients that read none of it before they have sent everything.
    answer: Option<AnswerLines>,
}

/// What became of a line. The last line of the answer has `_end` and the counts in place of the rest.
#[skip_serializing_none]
#[derive(Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct IngestAnswer {
    /// The number of the line, or of the array's element, from 1.
    line: Option<u64>,
    status: Option<AnswerStatus>,
    /// The record.
    id: Option<String>,
    /// Why the line was not taken up; on the last line, why the rest of the body was not read.
    error: Option<LineError>,
    /// On the last line. An answer without it was cut off.
    #[oai(rename = "_end")]
    #[serde(rename = "_end")]
    end: Option<bool>,
    /// Records that were created.
    created: Option<u64>,
    /// Records that were changed.
    updated: Option<u64>,
    /// Records that were the same already.
    unchanged: Option<u64>,
    /// Records that were removed.
    removed: Option<u64>,
    /// Lines that were refused.
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

/// What both ways in share.
#[derive(Clone, Debug)]
pub(crate) struct Ingest {
    pub(crate) directory: Directory,
    pub(crate) store: Store,
    pub(crate) clocks: Clocks,
    pub(crate) imports: Streams,
    pub(crate) jobs: Arc<dyn JobTaker>,
}

impl Ingest {
    /// Starts to take up the body; the answer comes while that goes on.
    fn start(
        &self,
        tenant_id: TenantId,
        principal: Arc<Principal>,
        query: &IngestQuery,
        body: Incoming,
    ) -> Result<StreamedLines<IngestAnswer>, Problem> {
        let (ingest, wanted) = (self.clone(), query.answer.unwrap_or_default());
        StreamedLines::start(&self.imports, tenant_id, |out| {
            Run { ingest, tenant_id, principal, out, wanted, counts: Counts::default() }.run(body)
        })
    }
}

pub(crate) struct IngestApi(pub(crate) Ingest);

#[OpenApi(prefix_path = "/internal", tag = "Area::Ingest")]
impl IngestApi {
    /// Send organizations, users, devices and backup jobs
    ///
    /// One record a line (`application/x-ndjson`), or the elements of one array (`application/json`), in any number. Each is found by
    /// its `kind` and `external_id` and is created, changed, left as it is, or, but for jobs, removed with `"deleted": true`. The answer has a line
    /// for each, in order, while the body is still being sent: read it meanwhile, or ask for `answer=errors`. A line that is refused
    /// does not stop the others. Sending everything again is safe: what has not changed is left alone. A line has at most 256 KiB.
    /// At a quota of the tenant, tenantd refuses each line that would exceed it with `quota_exceeded`. Lines with `"deleted": true` always work.
    #[oai(path = "/ingest", method = "post", operation_id = "ingest")]
    async fn ingest(
        &self,
        auth: Allowed<IngestWrite>,
        query: Filter<IngestQuery>,
        body: Streamed<Line>,
    ) -> Result<StreamedLines<IngestAnswer>, Problem> {
        self.0.start(auth.principal.tenant_id, auth.principal, &query.0, body.body)
    }
}

pub(crate) struct AdminIngestApi {
    pub(crate) ingest: Ingest,
    pub(crate) tenants: Tenants,
}

#[OpenApi(prefix_path = "/internal/admin/tenants", tag = "Area::Ingest")]
impl AdminIngestApi {
    /// Send organizations, users, devices and backup jobs of a tenant
    ///
    /// As `/internal/ingest`, for any tenant.
    #[oai(path = "/:id/ingest", method = "post", operation_id = "ingest_tenant")]
    async fn ingest_tenant(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        query: Filter<IngestQuery>,
        body: Streamed<Line>,
    ) -> Result<StreamedLines<IngestAnswer>, Problem> {
        self.ingest.store.read(|tx| self.tenants.get(tx, id.0).map(drop))?;
        self.ingest.start(id.0, auth.principal, &query.0, body.body)
    }
}

/// Lines that are committed together.
#[derive(Debug, Default)]
struct Batch {
    lines: Vec<(u64, Result<SentLine, LineError>)>,
    bytes: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES
    }

    fn take_up(&mut self, pieces: &mut Vec<Piece>) {
        for Piece { number, bytes } in pieces.drain(..) {
            self.bytes += bytes.as_ref().map_or(0, Vec::len);
            let line = match bytes {
                Some(bytes) => ingest_lines::parse(&bytes),
                None => Err(LineError::new("payload_too_large", format!("a line has at most {MAX_VALUE} bytes"), None)),
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

/// One stream.
struct Run {
    ingest: Ingest,
    tenant_id: TenantId,
    principal: Arc<Principal>,
    out: Outgoing,
    wanted: AnswerLines,
    counts: Counts,
}

impl Run {
    async fn run(mut self, body: Incoming) -> Result<(), Broken> {
        let stopped = self.take_up(body).await?;
        if let Some(cause) = stopped.as_ref().and_then(|problem| problem.cause.as_deref()) {
            tracing::error!(cause, "an import failed here");
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

    /// Takes up the body to its end, or to what makes it impossible to go on.
    async fn take_up(&mut self, mut body: Incoming) -> Result<Option<Problem>, Broken> {
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
                        // What failed here fails for every line that follows too.
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
                    if let Err(broken) = read {
                        (splitter, stopped) = (None, Some(Problem::new(Code::MalformedJson, format!("The body ends here: {broken}."))));
                    }
                    if !pieces.is_empty() {
                        body.took_record();
                    }
                    batch.take_up(&mut pieces);
                }
                else => return Ok(stopped),
            }
        }
    }

    /// Hands a batch to the writer. The write goes on also when nobody waits for it any more.
    fn commit(&self, batch: Batch) -> JoinHandle<Result<Answers, DirectoryError>> {
        let mut intent = Intent::of(&self.principal, self.ingest.clocks.now(self.tenant_id));
        intent.tenant_id = self.tenant_id;
        let (directory, store, jobs) = (self.ingest.directory, self.ingest.store.clone(), self.ingest.jobs.clone());
        let tenant_id = self.tenant_id;
        tokio::spawn(async move {
            // The sender is to hear of a full disk, and not to wait for the end of it.
            store.ensure_room()?;
            let _turn = store.shares().turn_in_background(tenant_id).await;
            let write = store.write(move |tx| {
                let (mut act, mut seen) = (intent.begin(), Seen::default());
                let mut answers = Vec::with_capacity(batch.lines.len());
                for (number, line) in &batch.lines {
                    let answer = match line {
                        Err(error) => Err(error.clone()),
                        Ok(line) => match take_up(tx, &mut act, &mut seen, (&directory, jobs.as_ref()), line) {
                            Ok(done) => Ok((done.status.into(), done.id)),
                            Err(error) if is_of_line(&error) => Err(line_error(&error.into())),
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

    async fn answer(&mut self, answers: Answers) -> Result<(), Broken> {
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
        // Without a word for it, a client that is gone is not noticed: what it has sent is taken up to the end.
        if text.is_empty() { Ok(()) } else { self.out.send(text).await }
    }
}

/// Whether an error is that of one line, and other lines may be taken up.
fn is_of_line(error: &DirectoryError) -> bool {
    match error {
        DirectoryError::Store(error) => matches!(error, StoreError::Quota(_)),
        DirectoryError::Event(_) => false,
        _ => true,
    }
}

/// Gives a line to whom it is for. The tenant's quotas judge each line by itself, and never refuse a removal. A line that is refused leaves
/// nothing behind.
fn take_up(
    tx: &mut WriteTx,
    act: &mut Act,
    seen: &mut Seen,
    (directory, jobs): (&Directory, &dyn JobTaker),
    line: &SentLine,
) -> Result<LineDone, DirectoryError> {
    let usual = act.allowance;
    if matches!(line, SentLine::Record(IngestLine::Removal(..))) {
        act.allowance = Allowance::Unlimited;
    }
    let taken: Result<LineDone, DirectoryError> = tx.attempt(|tx| {
        let done = match line {
            SentLine::BackupJob(line) => jobs.take(tx, act, line)?,
            SentLine::Record(line) => directory.ingest(tx, act, seen, line)?,
        };
        usage::settle_part(tx, act.tenant_id, act.allowance)?;
        Ok(done)
    });
    act.allowance = usual;
    taken
}

/// The end of the commit under way; forever while there is none.
async fn finished(committing: &mut Option<JoinHandle<Result<Answers, DirectoryError>>>) -> Result<Answers, DirectoryError> {
    match committing {
        Some(handle) => handle.await.unwrap_or_else(|error| Err(StoreError::Panicked(error.to_string()).into())),
        None => std::future::pending().await,
    }
}

/// A problem of the API in the words of one line.
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
        tracing::error!(%error, "a line of an answer could not be written as JSON");
        out.truncate(at);
        return;
    }
    out.push(b'\n');
}
