//! Imports a tenant from its lines, in bounded transactions. The client sends the file twice: first to check it, which
//! reports every conflict and writes nothing, and then to import it.
//!
//! **Invariant:** the tenant's own record, which allows sign-in, is written in the last transaction, after the last line was
//! checked. If an import fails, everything that it has written is removed. After a crash, the import record shows that an
//! import was interrupted, and the next import removes its data.
//! **Invariant:** no line is stored before a signature covers it, unless the file is accepted as unverified. Then nothing in
//! it can act.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tokio::sync::OwnedMutexGuard;

use tenantd_base::{
    access::TenantKind,
    entropy::Seed,
    id::TenantId,
    secrets::{PublicKey, Sealer},
};
use tenantd_platform::{NewTenant, TenantError};
use tenantd_store::{
    ReadTx, StoreError, WriteTx, erase,
    events::{self, Intent},
    portable::{Arrival, EventNumbers, Line, PortError, SwitchedOff, Trust, check_form},
};

use super::{
    Core,
    error::TransferError,
    model::{BadHeader, Content, Header, Reader, RecordLine, Secrets},
    repo::{IMPORTS, ImportRecord},
    signature::SignedContent,
};

/// The maximum number of lines per transaction, and their maximum size.
const BATCH_LINES: usize = 400;
const BATCH_BYTES: usize = 1 << 20;
/// The maximum number and size of lines that wait for their signature. Our exports never have more without one.
const UNSIGNED_LINES: usize = 1_000;
const UNSIGNED_BYTES: usize = 32 << 20;
/// The number of transactions before the removal checks whether there is more.
const REMOVED_AT_ONCE: usize = 40;
/// The maximum number of conflicts that are listed.
const MAX_LISTED_CONFLICTS: usize = 100;

/// The options of an import.
#[derive(Debug)]
pub(super) struct ImportOptions {
    /// Writes nothing, and reports all conflicts.
    pub(super) check_only: bool,
    pub(super) slug: Option<String>,
    pub(super) travel: Option<Sealer>,
    /// Keys of other installations whose signatures are accepted.
    pub(super) trusted: Vec<PublicKey>,
    /// Accepts a file without a valid signature, with everything in it switched off that could act.
    pub(super) accept_unverified: bool,
    /// Whether a file of another installation may contain an evaluation tenant.
    pub(super) allow_evaluation: bool,
}

/// The result of an import.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) header: Header,
    /// The key that signed the file, if the signatures were verified.
    pub(super) signed_by: Option<PublicKey>,
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) notes: Vec<String>,
    pub(super) switched_off: BTreeMap<&'static str, SwitchedOff>,
    /// Line and reason of each conflict.
    pub(super) conflicts: Vec<(u64, String)>,
    pub(super) more_conflicts: u64,
}

/// A line that waits for its signature or for its transaction.
#[derive(Debug)]
struct PendingLine {
    number: u64,
    portable: usize,
    line: Vec<u8>,
}

/// A running import.
#[derive(Debug)]
pub(super) struct Import {
    core: Core,
    check_only: bool,
    header: Header,
    reader: Reader,
    /// The key that must have signed the lines. `None` for an unverified file.
    signer: Option<PublicKey>,
    covered: SignedContent,
    /// Lines that no signature covers yet.
    unsigned: VecDeque<PendingLine>,
    unsigned_bytes: usize,
    /// What is known of the examined and of the stored lines. The log positions of events differ between the two.
    examined: Arc<Arrival>,
    stored: Arc<Arrival>,
    batch: Vec<PendingLine>,
    bytes: usize,
    /// The number of the last line that was read.
    number: u64,
    /// The index of the last line's portable. Lines are ordered by this index.
    portable: usize,
    conflicts: Vec<(u64, String)>,
    more_conflicts: u64,
    _alone: OwnedMutexGuard<()>,
}

fn at_line(number: u64, error: PortError) -> TransferError {
    match error {
        PortError::Store(error) => error.into(),
        other => TransferError::Line { number, reason: other.to_string() },
    }
}

impl Import {
    /// Starts with the first line of the file. Afterwards the caller must call [`Self::finish`] or [`Self::abandon`].
    pub(super) async fn begin(core: &Core, options: ImportOptions, first_line: &[u8]) -> Result<Self, TransferError> {
        let alone = core.importing.clone().try_lock_owned().map_err(|_| TransferError::Busy)?;
        let header = Header::read(first_line).map_err(|bad| match bad {
            BadHeader::NotAnExport(reason) => TransferError::NotAnExport(reason),
            BadHeader::NewerFormat(version) => TransferError::NewerFormat(version),
        })?;
        let (tenant, now) = (header.tenant.id, core.clock.now());
        if !tenant.is_of_tenant() {
            return Err(TransferError::NoTenantId(tenant));
        }
        let signer = core.signer_of(&header, &options)?;
        // Old exports do not contain the kind of the tenant. The id shows most evaluation tenants.
        let by_id = if tenant.has_own_clock() { TenantKind::Evaluation } else { TenantKind::Standard };
        let kind = header.tenant.kind.unwrap_or(by_id);
        if kind == TenantKind::Platform {
            return Err(TransferError::PlatformTenant);
        }
        if kind == TenantKind::Evaluation && signer != Some(core.public_key) && !options.allow_evaluation {
            return Err(TransferError::EvaluationNotAllowed);
        }
        if header.secrets == Secrets::Sealed && options.travel.is_none() {
            return Err(TransferError::PassphraseNeeded);
        }
        if let Some(slug) = &options.slug {
            let named = NewTenant { name: String::new(), slug: Some(slug.clone()), kind: TenantKind::Standard, expires_days: None };
            named.slug()?;
        }
        core.check_absent(tenant)?;
        let before = if options.check_only { 0 } else { core.prepare(tenant).await? };
        let trust = if signer.is_some() { Trust::Verified } else { Trust::Unverified };
        let arrival = |before: u64| {
            let mut arrival = Arrival::new(tenant, kind, now, trust, EventNumbers::new(before), core.others.sealer.clone());
            (arrival.travel, arrival.slug) = (options.travel.clone(), options.slug.clone());
            Arc::new(arrival)
        };
        let mut covered = SignedContent::default();
        covered.take(first_line);
        Ok(Self {
            core: core.clone(),
            check_only: options.check_only,
            header,
            reader: Reader::default(),
            signer,
            covered,
            unsigned: VecDeque::new(),
            unsigned_bytes: 0,
            examined: arrival(0),
            stored: arrival(before),
            batch: Vec::new(),
            bytes: 0,
            number: 1,
            portable: 0,
            conflicts: Vec::new(),
            more_conflicts: 0,
            _alone: alone,
        })
    }

    /// Processes the next line.
    pub(super) async fn take(&mut self, line: Vec<u8>) -> Result<(), TransferError> {
        self.number += 1;
        let number = self.number;
        let wrong = |reason: String| TransferError::Line { number, reason };
        let portables = &self.core.others.portables;
        let portable = match self.reader.read(&line).map_err(wrong)? {
            Content::Signature(signature) => {
                if let Some(signer) = &self.signer {
                    self.covered.verify(signer, &signature).map_err(|_| TransferError::BadSignature(number))?;
                }
                return self.release().await;
            }
            Content::End => {
                self.covered.take(&line);
                return Ok(());
            }
            Content::Record(record) => {
                let place = portables.iter().position(|portable| portable.kind() == record.kind);
                let place =
                    place.ok_or_else(|| wrong(format!("this release does not know records of the type {}", record.kind)))?;
                check_form(record.key, record.record).map_err(wrong)?;
                place
            }
        };
        if portable < self.portable {
            return Err(wrong("it must come before the records that refer to it".to_owned()));
        }
        self.portable = portable;
        self.covered.take(&line);
        let pending = PendingLine { number, portable, line };
        if self.signer.is_none() {
            return self.accept(pending).await;
        }
        self.unsigned_bytes += pending.line.len();
        self.unsigned.push_back(pending);
        if self.unsigned.len() > UNSIGNED_LINES || self.unsigned_bytes > UNSIGNED_BYTES {
            return Err(TransferError::SignatureMissing(number));
        }
        Ok(())
    }

    /// Passes on the lines that a signature now covers.
    async fn release(&mut self) -> Result<(), TransferError> {
        self.unsigned_bytes = 0;
        while let Some(pending) = self.unsigned.pop_front() {
            self.accept(pending).await?;
        }
        Ok(())
    }

    async fn accept(&mut self, pending: PendingLine) -> Result<(), TransferError> {
        // The last portable is the tenant's own record. It waits for the last line.
        let is_last = pending.portable + 1 == self.core.others.portables.len();
        if self.batch.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES || is_last {
            self.settle().await?;
        }
        self.bytes += pending.line.len();
        self.batch.push(pending);
        Ok(())
    }

    /// Examines and stores the waiting lines.
    async fn settle(&mut self) -> Result<(), TransferError> {
        let batch = Arc::new(std::mem::take(&mut self.batch));
        self.bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        self.examine(batch.clone()).await?;
        if !self.check_only {
            let (core, before, seed) = (self.core.clone(), self.stored.clone(), Seed::from_os());
            self.stored = Arc::new(self.core.store.write(move |tx| core.store_batch(tx, &before, seed, &batch)).await?);
        }
        Ok(())
    }

    /// Examines lines on a blocking thread. A conflict ends an import; a check collects conflicts.
    async fn examine(&mut self, batch: Arc<Vec<PendingLine>>) -> Result<(), TransferError> {
        let (core, before, seed) = (self.core.clone(), self.examined.clone(), Seed::from_os());
        let (examined, conflicts) = self.core.store.scan(move |tx| core.examine(tx, &before, seed, &batch)).await?;
        self.examined = Arc::new(examined);
        for (number, reason) in conflicts {
            if !self.check_only {
                return Err(TransferError::Line { number, reason });
            }
            if self.conflicts.len() < MAX_LISTED_CONFLICTS {
                self.conflicts.push((number, reason));
            } else {
                self.more_conflicts += 1;
            }
        }
        Ok(())
    }

    /// Processes the end of the file. After this, the imported tenant is complete.
    pub(super) async fn finish(&mut self, intent: Intent) -> Result<Report, TransferError> {
        if !self.reader.has_ended() {
            return Err(TransferError::CutOff(self.number));
        }
        if self.signer.is_some() && !self.reader.is_closed() {
            return Err(TransferError::SignatureMissing(self.number));
        }
        if self.batch.last().is_none_or(|pending| pending.portable + 1 != self.core.others.portables.len()) {
            return Err(TransferError::Line { number: self.number, reason: "the tenant's own record is missing".to_owned() });
        }
        let batch = Arc::new(std::mem::take(&mut self.batch));
        self.examine(batch.clone()).await?;
        if !self.check_only {
            let (core, examined) = (self.core.clone(), self.examined.clone());
            self.core.store.scan(move |tx| core.verify(tx, &examined)).await?;
            let (core, before, seed) = (self.core.clone(), self.stored.clone(), Seed::from_os());
            let tenant = self.stored.tenant;
            let last = move |tx: &mut WriteTx| {
                let arrived = core.store_batch(tx, &before, seed, &batch)?;
                core.others.tenants.announce_imported(tx, &mut intent.begin(), tenant)?;
                IMPORTS.remove(tx, &tenant)?;
                Ok::<_, TransferError>(arrived)
            };
            self.stored = Arc::new(self.core.store.write(last).await?);
            (self.core.others.arrived)();
        }
        let arrival = if self.check_only { &self.examined } else { &self.stored };
        Ok(Report {
            header: self.header.clone(),
            signed_by: self.signer,
            counts: self.reader.counts().clone(),
            notes: arrival.notes.clone(),
            switched_off: arrival.switched_off.clone(),
            conflicts: std::mem::take(&mut self.conflicts),
            more_conflicts: self.more_conflicts,
        })
    }

    /// Removes everything that was stored so far.
    pub(super) async fn abandon(self) -> Result<(), StoreError> {
        if self.check_only {
            return Ok(());
        }
        self.core.clear(self.stored.tenant).await
    }
}

impl Core {
    /// The key that must have signed the lines. `None` if the operator accepts an unverified file.
    fn signer_of(&self, header: &Header, options: &ImportOptions) -> Result<Option<PublicKey>, TransferError> {
        if options.accept_unverified {
            return Ok(None);
        }
        let named = header.signer.as_deref().filter(|_| header.is_signed()).ok_or(TransferError::Unsigned)?;
        let key: PublicKey = named.parse().map_err(|_| TransferError::Unsigned)?;
        if key == self.public_key || options.trusted.contains(&key) {
            Ok(Some(key))
        } else {
            Err(TransferError::UnknownSigner(key.key_id()))
        }
    }

    fn check_absent(&self, tenant: TenantId) -> Result<(), TransferError> {
        match self.store.read(|tx| self.others.tenants.get(tx, tenant)) {
            Ok(_) => Err(TransferError::Exists(tenant)),
            Err(TenantError::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Prepares for a new tenant: removes leftovers and pending jobs of an earlier tenant with the same id. Returns the last
    /// number of its events.
    async fn prepare(&self, tenant: TenantId) -> Result<u64, TransferError> {
        self.clear(tenant).await?;
        let (tenants, started) = (self.others.tenants.clone(), ImportRecord { started_at: self.clock.now() });
        self.store
            .write(move |tx| {
                tenants.remove_pending_job(tx, tenant)?;
                IMPORTS.put(tx, &tenant, &started)
            })
            .await?;
        Ok(self.store.read(|tx| events::last_number(tx, tenant))?)
    }

    fn store_batch(&self, tx: &mut WriteTx, before: &Arrival, seed: Seed, batch: &[PendingLine]) -> Result<Arrival, TransferError> {
        let mut arrival = before.begin(seed, events::last_number(tx, before.tenant)?);
        for PendingLine { number, portable, line } in batch {
            let record = RecordLine::read(line).map_err(|reason| TransferError::Line { number: *number, reason })?;
            let Some(portable) = self.others.portables.get(*portable) else { continue };
            let line = Line { key: record.key, record: record.record };
            portable.arrive(tx, &mut arrival, &line).map_err(|error| at_line(*number, error))?;
        }
        Ok(arrival)
    }

    /// Finds the conflicts of the lines.
    fn examine(
        &self,
        tx: &ReadTx,
        before: &Arrival,
        seed: Seed,
        batch: &[PendingLine],
    ) -> Result<(Arrival, Vec<(u64, String)>), TransferError> {
        let (mut arrival, mut conflicts) = (before.begin(seed, 0), Vec::new());
        for PendingLine { number, portable, line } in batch {
            let record = RecordLine::read(line).map_err(|reason| TransferError::Line { number: *number, reason })?;
            let Some(portable) = self.others.portables.get(*portable) else { continue };
            let line = Line { key: record.key, record: record.record };
            let found = portable.examine(tx, &mut arrival, &line).map_err(|error| at_line(*number, error))?;
            conflicts.extend(found.into_iter().map(|reason| (*number, reason)));
        }
        Ok((arrival, conflicts))
    }

    /// Checks what shows only when all records are considered together.
    fn verify(&self, tx: &ReadTx, arrival: &Arrival) -> Result<(), TransferError> {
        self.others.portables.iter().try_for_each(|portable| {
            portable.verify(tx, arrival).map_err(|error| match error {
                PortError::Store(error) => error.into(),
                other => TransferError::Inconsistent(other.to_string()),
            })
        })
    }

    /// Removes all rows of a tenant that does not exist, which earlier imports have left behind.
    async fn clear(&self, tenant: TenantId) -> Result<(), StoreError> {
        while erase(&self.store, &self.others.rows, tenant, REMOVED_AT_ONCE).await? {}
        self.store.write(move |tx| IMPORTS.remove(tx, &tenant).map(drop)).await
    }
}
