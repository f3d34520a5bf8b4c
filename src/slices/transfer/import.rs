//! A tenant from its lines, in bounded transactions. The file is read twice by whoever sends it: once to be checked, with everything that
//! is in the way told and nothing written, and once to be taken in.
//!
//! **Invariant:** the tenant's own record, which lets anybody in, is written with the last transaction, after the last line was found good.
//! What an import has written that fails is removed; one that was cut off by a crash is known by its row, and removed by the next.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::OwnedMutexGuard;

use super::{
    Core,
    error::TransferError,
    model::{BadHeader, Content, Header, Reader, RecordLine, Secrets},
    repo::{IMPORTS, ImportRecord},
};
use crate::{
    kernel::{
        access::TenantKind,
        entropy::{Entropy, Seed},
        events::{self, Intent},
        id::TenantId,
        portable::{Arrival, Landing, Line, PortError},
        secrets::Sealer,
        store::{ReadTx, StoreError, WriteTx, erase},
    },
    slices::platform::{NewTenant, TenantError},
};

/// The most lines of one transaction, and the most bytes of them.
const BATCH_LINES: usize = 400;
const BATCH_BYTES: usize = 1 << 20;
/// Transactions after which the removal looks whether there is more.
const REMOVED_AT_ONCE: usize = 40;
/// How many conflicts are told one by one.
const TOLD: usize = 100;

/// What is wanted of the lines that follow.
#[derive(Debug)]
pub(super) struct Order {
    /// Write nothing, and tell what is in the way.
    pub(super) check_only: bool,
    pub(super) slug: Option<String>,
    pub(super) travel: Option<Sealer>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) header: Header,
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) notes: Vec<String>,
    /// Line and reason of what is in the way.
    pub(super) conflicts: Vec<(u64, String)>,
    pub(super) more_conflicts: u64,
}

/// A line that waits for its transaction.
#[derive(Debug)]
struct Held {
    number: u64,
    portable: usize,
    line: Vec<u8>,
}

/// An import that is under way.
#[derive(Debug)]
pub(super) struct Import {
    core: Core,
    check_only: bool,
    header: Header,
    reader: Reader,
    arrival: Arc<Arrival>,
    batch: Vec<Held>,
    bytes: usize,
    /// The last line that was read.
    number: u64,
    /// The portable that the last line was of: lines come in the order of those.
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
    /// Begins with the first line of the file. From here on either [`Self::finish`] or [`Self::abandon`] is due.
    pub(super) async fn begin(core: &Core, order: Order, first_line: &[u8]) -> Result<Self, TransferError> {
        let alone = core.importing.clone().try_lock_owned().map_err(|_| TransferError::Busy)?;
        let header = Header::read(first_line).map_err(|bad| match bad {
            BadHeader::NotAnExport(reason) => TransferError::NotAnExport(reason),
            BadHeader::NewerFormat(version) => TransferError::NewerFormat(version),
        })?;
        if header.secrets == Secrets::Sealed && order.travel.is_none() {
            return Err(TransferError::PassphraseNeeded);
        }
        let (tenant, now) = (header.tenant.id, core.clock.now());
        if let Some(slug) = &order.slug {
            let named = NewTenant { name: String::new(), slug: Some(slug.clone()), kind: TenantKind::Standard, expires_days: None };
            named.slug()?;
        }
        let landing = if order.check_only {
            core.check_absent(tenant)?;
            Landing::new(0)
        } else {
            core.check_absent(tenant)?;
            core.clear(tenant).await?;
            let started = ImportRecord { started_at: now };
            core.store.write(move |tx| IMPORTS.put(tx, &tenant, &started)).await?;
            Landing::new(core.store.read(events::head)?)
        };
        let arrival = Arrival {
            tenant,
            now,
            landing,
            head: 0,
            home: core.others.sealer.clone(),
            travel: order.travel,
            slug: order.slug,
            notes: Vec::new(),
            bare: Vec::new(),
            entropy: Entropy::from_os(),
        };
        Ok(Self {
            core: core.clone(),
            check_only: order.check_only,
            header,
            reader: Reader::default(),
            arrival: Arc::new(arrival),
            batch: Vec::new(),
            bytes: 0,
            number: 1,
            portable: 0,
            conflicts: Vec::new(),
            more_conflicts: 0,
            _alone: alone,
        })
    }

    /// Takes the next line.
    pub(super) async fn take(&mut self, line: Vec<u8>) -> Result<(), TransferError> {
        self.number += 1;
        let number = self.number;
        let wrong = |reason: String| TransferError::Line { number, reason };
        let portables = &self.core.others.portables;
        let portable = match self.reader.read(&line).map_err(wrong)? {
            Content::End => return Ok(()),
            Content::Record(record) => {
                let place = portables.iter().position(|portable| portable.kind() == record.kind);
                place.ok_or_else(|| wrong(format!("this release knows no records of the type {}", record.kind)))?
            }
        };
        if portable < self.portable {
            return Err(wrong("its type comes behind one that refers to it".to_owned()));
        }
        self.portable = portable;
        // The last type is the tenant's own record, which waits for the last line.
        if self.batch.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES || portable + 1 == portables.len() {
            self.settle().await?;
        }
        self.bytes += line.len();
        self.batch.push(Held { number, portable, line });
        Ok(())
    }

    /// Checks the lines that wait, or stores them.
    async fn settle(&mut self) -> Result<(), TransferError> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        let (core, arrival, seed) = (self.core.clone(), self.arrival.clone(), Seed::from_os());
        let arrived = if self.check_only {
            let checked = self.core.store.scan(move |tx| core.check(tx, &arrival, seed, &batch)).await?;
            for conflict in checked.1 {
                if self.conflicts.len() < TOLD {
                    self.conflicts.push(conflict);
                } else {
                    self.more_conflicts += 1;
                }
            }
            checked.0
        } else {
            self.core.store.write(move |tx| core.store_batch(tx, &arrival, seed, &batch)).await?
        };
        self.arrival = Arc::new(arrived);
        Ok(())
    }

    /// The end of the lines. What was imported is whole from here on.
    pub(super) async fn finish(&mut self, intent: Intent) -> Result<Report, TransferError> {
        if !self.reader.has_ended() {
            return Err(TransferError::CutOff(self.number));
        }
        if self.batch.last().is_none_or(|held| held.portable + 1 != self.core.others.portables.len()) {
            return Err(TransferError::Line { number: self.number, reason: "the tenant's own record is missing".to_owned() });
        }
        if self.check_only {
            self.settle().await?;
        } else {
            let (core, arrival, seed) = (self.core.clone(), self.arrival.clone(), Seed::from_os());
            let (batch, tenant) = (std::mem::take(&mut self.batch), self.arrival.tenant);
            let last = move |tx: &mut WriteTx| {
                let arrived = core.store_batch(tx, &arrival, seed, &batch)?;
                core.others.tenants.arrived(tx, &mut intent.begin(), tenant)?;
                IMPORTS.remove(tx, &tenant)?;
                Ok::<_, TransferError>(arrived)
            };
            self.arrival = Arc::new(self.core.store.write(last).await?);
            (self.core.others.arrived)();
        }
        Ok(Report {
            header: self.header.clone(),
            counts: self.reader.counts().clone(),
            notes: self.arrival.notes.clone(),
            conflicts: std::mem::take(&mut self.conflicts),
            more_conflicts: self.more_conflicts,
        })
    }

    /// Removes what was stored so far.
    pub(super) async fn abandon(self) -> Result<(), StoreError> {
        if self.check_only {
            return Ok(());
        }
        self.core.clear(self.arrival.tenant).await
    }
}

impl Core {
    fn check_absent(&self, tenant: TenantId) -> Result<(), TransferError> {
        match self.store.read(|tx| self.others.tenants.get(tx, tenant)) {
            Ok(_) => Err(TransferError::Exists(tenant)),
            Err(TenantError::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn store_batch(&self, tx: &mut WriteTx, before: &Arrival, seed: Seed, batch: &[Held]) -> Result<Arrival, TransferError> {
        let mut arrival = before.begin(seed, events::head(tx)?);
        for Held { number, portable, line } in batch {
            let record = RecordLine::read(line).map_err(|reason| TransferError::Line { number: *number, reason })?;
            let Some(portable) = self.others.portables.get(*portable) else { continue };
            let line = Line { key: record.key, record: record.record };
            portable.arrive(tx, &mut arrival, &line).map_err(|error| at_line(*number, error))?;
        }
        Ok(arrival)
    }

    /// What is in the way of the lines.
    fn check(
        &self,
        tx: &ReadTx,
        before: &Arrival,
        seed: Seed,
        batch: &[Held],
    ) -> Result<(Arrival, Vec<(u64, String)>), TransferError> {
        let (mut arrival, mut conflicts) = (before.begin(seed, 0), Vec::new());
        for Held { number, portable, line } in batch {
            let record = RecordLine::read(line).map_err(|reason| TransferError::Line { number: *number, reason })?;
            let Some(portable) = self.others.portables.get(*portable) else { continue };
            let line = Line { key: record.key, record: record.record };
            let found = portable.conflicts(tx, &mut arrival, &line).map_err(|error| at_line(*number, error))?;
            conflicts.extend(found.into_iter().map(|reason| (*number, reason)));
        }
        Ok((arrival, conflicts))
    }

    /// Removes everything that there is of a tenant that is not there: what imports have left behind.
    async fn clear(&self, tenant: TenantId) -> Result<(), StoreError> {
        while erase(&self.store, &self.others.rows, tenant, REMOVED_AT_ONCE).await? {}
        self.store.write(move |tx| IMPORTS.remove(tx, &tenant).map(drop)).await
    }
}
