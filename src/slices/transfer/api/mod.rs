//! `/internal/admin/tenants/{id}/export` and `/internal/admin/import`: tenants that leave and arrive, for whoever may open the admin
//! socket. Both are streams; memory holds a few pieces of them.

mod wire;

use std::{collections::VecDeque, time::Duration};

use data_encoding::HEXLOWER;
use poem_openapi::{OpenApi, Tags, param::Path};

use wire::{ExportLine, ExportTenant, ImportAnswer, ImportLine, ImportOrder, Mode};

use tenantd_base::{
    id::TenantId,
    secrets::{InstallationKey, Sealer},
};
use tenantd_http::{
    LINES, acts,
    incoming::{Incoming, Streamed},
    input::Body,
    need::{Allowed, LocalOperator},
    outgoing::{Broken, Outgoing, StreamedLines, Streams},
    problem::{Code, Problem},
};
use tenantd_store::{catalog, events::Intent, portable::PortError};

use super::{
    Core,
    error::TransferError,
    export::{Travel, Wanted},
    import::{Import, Order, Report},
};

/// A store cannot reuse what an open snapshot may still read.
const HELD: Duration = Duration::from_mins(30);
/// How long an export waits in all, and at a time, for everybody to deal with the tenant's events.
const TRIES: usize = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// The longest line: the largest record with room to spare.
const MAX_LINE: usize = 16 << 20;
const SALT_DIGITS: usize = 32;

#[derive(Tags)]
enum Area {
    /// What only the admin socket serves.
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

impl From<TransferError> for Broken {
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

impl ImportOrder {
    fn read(line: &[u8]) -> Result<Order, TransferError> {
        let told = |error: serde_json::Error| TransferError::Line { number: 0, reason: format!("it is no order: {error}") };
        let order: Self = serde_json::from_slice(line).map_err(told)?;
        let travel = order.key.as_deref().map(sealer).transpose()?;
        let trusted = order.trusted_keys.iter().map(|key| key.parse().map_err(|_| TransferError::BadTrustedKey));
        Ok(Order {
            check_only: order.mode == Mode::Check,
            slug: order.slug,
            travel,
            trusted: trusted.collect::<Result<_, _>>()?,
            accept_unverified: order.accept_unverified,
            allow_evaluation: order.allow_evaluation,
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
    /// Export all of a tenant
    ///
    /// One snapshot of everything that the tenant has, as lines of JSON: a first line about the export, a line for each record, and a last
    /// line with their counts and their hash. Lines with signatures of the installation stand between them and at the end; an answer
    /// without the last of them was cut off. Secrets are sealed under the given key, or left out.
    #[oai(path = "/tenants/:id/export", method = "post", operation_id = "export_tenant")]
    async fn export_tenant(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        body: Body<ExportTenant>,
    ) -> Result<StreamedLines<ExportLine>, Problem> {
        let wanted = Wanted { tenant: id.0, travel: body.0.travel()? };
        let core = self.core.clone();
        core.store.read(|tx| core.leaving(tx, id.0).map(drop))?;
        core.settled(id.0).await?;
        acts::export_started(&core.store, &auth, "tenant", LINES).await?;
        StreamedLines::start(&self.exports, id.0, |out| export(core, wanted, out))
    }

    /// Import a tenant that was exported
    ///
    /// The first line of the body is the order, and behind it come the lines of the export as they are. With the mode `check` nothing is
    /// written, and everything that is in the way is told; with `import` the tenant is there when the answer says so, and nothing of it
    /// when the answer says otherwise. The answer is one line.
    ///
    /// The lines must be signed by this installation or by one of `trusted_keys`. With `accept_unverified` any file is taken, and whatever
    /// could act arrives switched off; the answer names it in `switched_off`.
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
                        tracing::error!(cause, "an import of a tenant failed here");
                    }
                    ImportAnswer::refused(&problem)
                }
            };
            let mut line = serde_json::to_vec(&answer).map_err(Broken::failed)?;
            line.push(b'\n');
            out.send(line).await
        })
    }
}

impl Core {
    /// Waits until everybody has dealt with the tenant's events.
    async fn settled(&self, tenant: TenantId) -> Result<(), TransferError> {
        for _ in 0..TRIES {
            let seen = self.store.version(catalog::EVENT_CURSORS);
            let core = self.clone();
            if self.store.scan(move |tx| core.is_settled(tx, tenant)).await? {
                return Ok(());
            }
            // Whether a cursor moved or the time is over, it is looked at again.
            drop(tokio::time::timeout(PAUSE, self.store.changed(catalog::EVENT_CURSORS, seen)).await);
        }
        Err(TransferError::Unsettled)
    }
}

async fn export(core: Core, wanted: Wanted, out: Outgoing) -> Result<(), Broken> {
    for _ in 0..TRIES {
        core.settled(wanted.tenant).await?;
        let (store, now) = (core.store.clone(), core.clock.now());
        let (core, wanted, out) = (core.clone(), wanted.clone(), out.clone());
        let written = store.scan_long(move |tx| {
            // This snapshot may be a later one than the one that was settled.
            if !core.is_settled(tx, wanted.tenant)? {
                return Ok(false);
            }
            let mut send = |piece: Vec<u8>| out.send_blocking(piece).map_err(|_| PortError::Unwanted);
            core.write_all(tx, &wanted, now, &mut send)?;
            Ok::<_, TransferError>(true)
        });
        // Without its future the thread finds that nobody takes what it sends, and ends.
        if tokio::time::timeout(HELD, written).await.unwrap_or(Err(PortError::Unwanted.into()))? {
            return Ok(());
        }
    }
    Err(TransferError::Unsettled.into())
}

/// A body as its lines.
struct BodyLines {
    body: Incoming,
    rest: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
}

impl BodyLines {
    const fn new(body: Incoming) -> Self {
        Self { body, rest: Vec::new(), lines: VecDeque::new() }
    }

    /// The next line; what is behind the last end of a line is none.
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
                return Err(Problem::new(Code::PayloadTooLarge, format!("A line has at most {MAX_LINE} bytes.")));
            }
        }
    }
}

async fn take_in(core: Core, body: Incoming, intent: Intent) -> Result<(Mode, Report), Problem> {
    let mut lines = BodyLines::new(body);
    let order = lines.next().await?.unwrap_or_default();
    let order = ImportOrder::read(&order)?;
    let mode = if order.check_only { Mode::Check } else { Mode::Import };
    let first = lines.next().await?.ok_or(TransferError::CutOff(0))?;
    let mut import = Import::begin(&core, order, &first).await?;
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
