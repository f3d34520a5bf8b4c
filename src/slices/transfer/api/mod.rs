//! `/internal/admin/tenants/{id}/export` and `/internal/admin/import`: exports and imports whole tenants. Only the admin
//! socket serves them. Both are streams, so only a few pieces are in memory at a time.

mod wire;

use std::{collections::VecDeque, time::Duration};

use data_encoding::HEXLOWER;
use poem_openapi::{OpenApi, Tags, param::Path};

use wire::{ExportLine, ExportTenant, ImportAnswer, ImportLine, ImportRequest, Mode};

use tenantd_base::{
    id::TenantId,
    secrets::{InstallationKey, Sealer},
};
use tenantd_http::{
    LINES, acts,
    incoming::{Incoming, Streamed},
    input::Body,
    need::{Allowed, LocalOperator},
    outgoing::{Outgoing, StreamError, StreamedLines, Streams},
    problem::{Code, Problem},
};
use tenantd_store::{catalog, events::Intent, portable::PortError};

use super::{
    Core,
    error::TransferError,
    export::{ExportRequest, Travel},
    import::{Import, ImportOptions, Report},
};

/// The maximum duration of an export snapshot. The store cannot reuse space that an open snapshot may still read.
const MAX_SNAPSHOT_TIME: Duration = Duration::from_mins(30);
/// How often, and with what interval, an export checks that all events of the tenant have been processed.
const TRIES: usize = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// The maximum size of a line: the largest record plus a margin.
const MAX_LINE: usize = 16 << 20;
const SALT_DIGITS: usize = 32;

#[derive(Tags)]
enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

impl From<TransferError> for Problem {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Tenant(error) => error.into(),
            TransferError::Store(error) | TransferError::Portable(PortError::Store(error)) => error.into(),
            TransferError::Unsettled | TransferError::Busy => Self::unavailable(error.to_string(), 5),
            TransferError::PlatformTenant => Self::new(Code::InvalidTransition, error.to_string()),
            TransferError::Exists(_) => Self::new(Code::AlreadyExists, error.to_string()),
            TransferError::Portable(error) => Self::internal(error),
            TransferError::NotAnExport(_)
            | TransferError::NewerFormat(_)
            | TransferError::PassphraseNeeded
            | TransferError::BadKey
            | TransferError::Unsigned
            | TransferError::UnknownSigner(_)
            | TransferError::BadSignature(_)
            | TransferError::SignatureMissing(_)
            | TransferError::BadTrustedKey
            | TransferError::EvaluationNotAllowed
            | TransferError::NoTenantId(_)
            | TransferError::Inconsistent(_)
            | TransferError::Line { .. }
            | TransferError::CutOff(_) => Self::new(Code::ValidationFailed, error.to_string()),
        }
    }
}

impl From<TransferError> for StreamError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Portable(PortError::Unwanted) => Self::Unwanted,
            other => Self::failed(other),
        }
    }
}

fn sealer(key: &str) -> Result<Sealer, TransferError> {
    InstallationKey::parse(key).map(|key| Sealer::new(&key)).ok_or(TransferError::BadKey)
}

impl ExportTenant {
    fn travel(&self) -> Result<Option<Travel>, TransferError> {
        let (Some(key), Some(salt)) = (&self.key, &self.salt) else {
            return if self.key.is_none() && self.salt.is_none() { Ok(None) } else { Err(TransferError::BadKey) };
        };
        let good = salt.len() == SALT_DIGITS && HEXLOWER.decode(salt.as_bytes()).is_ok();
        if !good {
            return Err(TransferError::BadKey);
        }
        Ok(Some(Travel { sealer: sealer(key)?, salt: salt.clone() }))
    }
}

impl ImportRequest {
    fn read(line: &[u8]) -> Result<ImportOptions, TransferError> {
        let invalid = |error: serde_json::Error| TransferError::Line {
            number: 0,
            reason: format!("the import options are invalid: {error}"),
        };
        let options: Self = serde_json::from_slice(line).map_err(invalid)?;
        let travel = options.key.as_deref().map(sealer).transpose()?;
        let trusted = options.trusted_keys.iter().map(|key| key.parse().map_err(|_| TransferError::BadTrustedKey));
        Ok(ImportOptions {
            check_only: options.mode == Mode::Check,
            slug: options.slug,
            travel,
            trusted: trusted.collect::<Result<_, _>>()?,
            accept_unverified: options.accept_unverified,
            allow_evaluation: options.allow_evaluation,
        })
    }
}

pub(super) struct TransferApi {
    pub(super) core: Core,
    pub(super) exports: Streams,
    pub(super) imports: Streams,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl TransferApi {
    /// Export all data of a tenant
    ///
    /// Streams a consistent snapshot of all records of a tenant as lines of JSON. The first line describes the export, each
    /// further line contains a record, and the last record is followed by a line with the counts and a hash. Signatures of
    /// the installation come between these lines and at the end. If the last signature is missing, the export is incomplete.
    /// Secrets are sealed with the given key, or omitted without one.
    #[oai(path = "/tenants/:id/export", method = "post", operation_id = "export_tenant")]
    async fn export_tenant(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        body: Body<ExportTenant>,
    ) -> Result<StreamedLines<ExportLine>, Problem> {
        let request = ExportRequest { tenant: id.0, travel: body.0.travel()? };
        let core = self.core.clone();
        core.store.read(|tx| core.leaving(tx, id.0).map(drop))?;
        core.settled(id.0).await?;
        acts::export_started(&core.store, &auth, "tenant", LINES).await?;
        StreamedLines::start(&self.exports, id.0, |out| export(core, request, out))
    }

    /// Import an exported tenant
    ///
    /// The first line of the request contains the options. The lines of the export follow it unchanged. The mode `check`
    /// writes nothing and reports everything that prevents the import. With the mode `import`, the response says whether the
    /// tenant was imported. If the import fails, tenantd removes everything that it has written. The response is one line.
    ///
    /// The lines must be signed by this installation or with one of `trusted_keys`. With `accept_unverified`, tenantd accepts
    /// any file, but switches off everything in it that could act. The response lists these in `switched_off`.
    #[oai(path = "/import", method = "post", operation_id = "import_tenant")]
    async fn import_tenant(
        &self,
        auth: Allowed<LocalOperator>,
        body: Streamed<ImportLine>,
    ) -> Result<StreamedLines<ImportAnswer>, Problem> {
        let intent = auth.context.intent(&auth.principal);
        let core = self.core.clone();
        StreamedLines::start(&self.imports, auth.principal.tenant_id, |out| async move {
            let answer = match take_in(core, body.body, intent).await {
                Ok((mode, report)) => ImportAnswer::of(mode, report),
                Err(problem) => {
                    if let Some(cause) = problem.cause.as_deref() {
                        tracing::error!(cause, "the import of a tenant failed");
                    }
                    ImportAnswer::refused(&problem)
                }
            };
            let mut line = serde_json::to_vec(&answer).map_err(StreamError::failed)?;
            line.push(b'\n');
            out.send(line).await
        })
    }
}

impl Core {
    /// Waits until all events of the tenant have been processed.
    async fn settled(&self, tenant: TenantId) -> Result<(), TransferError> {
        for _ in 0..TRIES {
            let seen = self.store.version(catalog::EVENT_CURSORS);
            let core = self.clone();
            if self.store.scan(move |tx| core.is_settled(tx, tenant)).await? {
                return Ok(());
            }
            // Check again after a cursor has moved or the time is up.
            drop(tokio::time::timeout(PAUSE, self.store.changed(catalog::EVENT_CURSORS, seen)).await);
        }
        Err(TransferError::Unsettled)
    }
}

async fn export(core: Core, request: ExportRequest, out: Outgoing) -> Result<(), StreamError> {
    for _ in 0..TRIES {
        core.settled(request.tenant).await?;
        let (store, now) = (core.store.clone(), core.clock.now());
        let (core, request, out) = (core.clone(), request.clone(), out.clone());
        let written = store.scan_long(move |tx| {
            // This snapshot may be newer than the one that was settled.
            if !core.is_settled(tx, request.tenant)? {
                return Ok(false);
            }
            let mut send = |piece: Vec<u8>| out.send_blocking(piece).map_err(|_| PortError::Unwanted);
            core.write_all(tx, &request, now, &mut send)?;
            Ok::<_, TransferError>(true)
        });
        // Dropping the future closes the channel, and the thread then stops.
        if tokio::time::timeout(MAX_SNAPSHOT_TIME, written).await.unwrap_or(Err(PortError::Unwanted.into()))? {
            return Ok(());
        }
    }
    Err(TransferError::Unsettled.into())
}

/// The lines of a request body.
struct BodyLines {
    body: Incoming,
    rest: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
}

impl BodyLines {
    const fn new(body: Incoming) -> Self {
        Self { body, rest: Vec::new(), lines: VecDeque::new() }
    }

    /// The next line. Ignores anything after the last line break.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(line));
            }
            let Some(piece) = self.body.next().await? else { return Ok(None) };
            if piece.contains(&b'\n') {
                self.body.took_record();
            }
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(part);
                if self.rest.pop_if(|last| *last == b'\n').is_some() {
                    self.lines.push_back(std::mem::take(&mut self.rest));
                }
            }
            if self.rest.len() > MAX_LINE {
                return Err(Problem::new(Code::PayloadTooLarge, format!("A line must have at most {MAX_LINE} bytes.")));
            }
        }
    }
}

async fn take_in(core: Core, body: Incoming, intent: Intent) -> Result<(Mode, Report), Problem> {
    let mut lines = BodyLines::new(body);
    let options = lines.next().await?.unwrap_or_default();
    let options = ImportRequest::read(&options)?;
    let mode = if options.check_only { Mode::Check } else { Mode::Import };
    let first = lines.next().await?.ok_or(TransferError::CutOff(0))?;
    let mut import = Import::begin(&core, options, &first).await?;
    let taken = take_lines(&mut import, &mut lines, intent).await;
    if taken.is_err() {
        import.abandon().await?;
    }
    Ok((mode, taken?))
}

async fn take_lines(import: &mut Import, lines: &mut BodyLines, intent: Intent) -> Result<Report, Problem> {
    while let Some(line) = lines.next().await? {
        import.take(line).await?;
    }
    Ok(import.finish(intent).await?)
}
