//! Removes expired records from the beginning of a chain up to a checkpoint. The checkpoint stays, because the remaining records
//! follow it. The end of the chain is signed again with the new beginning, so that removed records cannot be passed off as expired.

use std::{sync::Arc, time::Duration};

use tenantd_base::{
    clock::{Clock, Timestamp},
    id::TenantId,
    secrets::Signer,
};
use tenantd_store::{
    Read, Store, StoreError, WriteTx,
    tasks::{Done, Task, TaskError},
};

use super::{model::Statement, repo};

/// How many chains are examined in one snapshot.
const CHAINS: usize = 100;
/// How many records are removed per commit. Larger than the distance between two checkpoints, so that there is always one to cut
/// at.
const RECORDS: usize = 512;

#[derive(Debug)]
pub(super) struct Retention {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) keep: Duration,
    pub(super) signer: Arc<Signer>,
}

impl Task for Retention {
    fn name(&self) -> &'static str {
        "audit_retention"
    }

    fn period(&self) -> Duration {
        Duration::from_hours(1)
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let oldest_kept = self.clock.now() - self.keep;
        let mut after = None;
        let mut done = Done::All;
        loop {
            let (due, last) = self.store.scan(move |tx| due(tx, after, oldest_kept)).await?;
            for tenant in due {
                let signer = self.signer.clone();
                self.store.write(move |tx| forget(tx, tenant, oldest_kept, &signer)).await?;
                // The chain may have more expired records.
                done = Done::Some;
            }
            if last.is_none() {
                return Ok(done);
            }
            after = last;
        }
    }
}

/// Returns the chains with expired records among the next ones, and where to continue.
fn due(tx: &impl Read, after: Option<TenantId>, oldest_kept: Timestamp) -> Result<(Vec<TenantId>, Option<TenantId>), StoreError> {
    let heads = repo::heads_after(tx, after, CHAINS)?;
    let mut due = Vec::new();
    for head in &heads {
        let tenant = head.end.checkpoint.statement.tenant_id;
        if new_beginning(tx, &head.end.checkpoint.statement, oldest_kept)?.is_some() {
            due.push(tenant);
        }
    }
    let last = heads.last().filter(|_| heads.len() == CHAINS).map(|head| head.end.checkpoint.statement.tenant_id);
    Ok((due, last))
}

/// Returns the checkpoint after which the chain should begin, if it does not already.
fn new_beginning(tx: &impl Read, end: &Statement, oldest_kept: Timestamp) -> Result<Option<repo::StoredCheckpoint>, StoreError> {
    let limit = end.first - 1 + RECORDS as u64;
    let found = repo::checkpoints_after(tx, end.tenant_id, end.first - 1, RECORDS)?;
    let old = |placed: &repo::StoredCheckpoint| {
        let statement = placed.checkpoint.statement;
        statement.at < oldest_kept && statement.number <= limit
    };
    Ok(found.into_iter().take_while(old).last())
}

fn forget(tx: &mut WriteTx, tenant: TenantId, oldest_kept: Timestamp, signer: &Signer) -> Result<(), StoreError> {
    let Some(mut head) = repo::head(tx, tenant)? else { return Ok(()) };
    let end = head.end.checkpoint.statement;
    let Some(anchor) = new_beginning(tx, &end, oldest_kept)? else { return Ok(()) };
    repo::forget_before(tx, &anchor, RECORDS)?;
    let statement = Statement { first: anchor.checkpoint.statement.number + 1, ..end };
    head.end.checkpoint = statement.sign(signer).map_err(StoreError::engine)?;
    repo::put_head(tx, &head)
}
