//! Exports all records of a query as a stream of rows, read in slices. NDJSON without filters, oldest first, is verifiable: it
//! begins with the start of the chain, and contains the checkpoints between the records.

use bytes::Bytes;
use serde_json::value::RawValue;

use tenantd_base::{id::TenantId, secrets::PublicKey};
use tenantd_http::{
    export::{RowFormat, Rows},
    outgoing::{Outgoing, StreamError, Streamed, Streams},
    problem::Problem,
};
use tenantd_store::{Direction, ReadTx, Store, StoreError};

use super::{
    super::{
        listing::{self, AuditQuery, Found},
        model::{hex, origin},
        repo::{self, Head},
    },
    lines::{ChainForm, ChainLine, CheckpointForm, CheckpointLine, RecordLine},
    wire::{AuditRecord, COLUMNS},
};

/// How many records are read and sent at once.
const SLICE: usize = 200;

/// Starts the export. The response streams the rows.
pub(super) fn start(
    exports: &Streams,
    store: Store,
    query: AuditQuery,
    key: PublicKey,
    format: RowFormat,
) -> Result<Streamed, Problem> {
    let file_name = match format {
        RowFormat::Csv => "audit.csv",
        RowFormat::Ndjson => "audit.ndjson",
    };
    let tenant = query.tenant_id;
    let stream = exports.start(tenant, format.media_type(), |out| send_all(store, query, key, format, out))?;
    Ok(stream.named(file_name))
}

async fn send_all(store: Store, query: AuditQuery, key: PublicKey, format: RowFormat, out: Outgoing) -> Result<(), StreamError> {
    let mut rows = Rows::new(format, COLUMNS);
    out.send(rows.head()?).await?;
    let proves = format == RowFormat::Ndjson && query.filters.is_empty() && query.direction == Direction::Forward;
    let tenant = query.tenant_id;
    // Later records are not part of the export: it ends with the current signed end of the chain.
    let (end, chain) = store.scan_long(move |tx| beginning(tx, tenant, &key)).await?;
    let end_seq = end.map_or(0, |head| head.end.seq);
    if proves {
        out.send(rows.piece(&[ChainLine { chain }])?).await?;
    }
    let mut after = None;
    loop {
        let query = query.clone();
        let read = store.scan_long(move |tx| {
            let page = listing::list(tx, &query, after, SLICE)?;
            let mut slice = Vec::with_capacity(page.found.len());
            for found in page.found.into_iter().filter(|found| found.seq <= end_seq) {
                let kept = if proves { repo::checkpoint(tx, query.tenant_id, found.entry.number)? } else { None };
                slice.push((found, kept.map(|placed| CheckpointForm::new(&placed.checkpoint))));
            }
            let piece = match format {
                RowFormat::Csv => {
                    let records = slice.into_iter().map(|(found, _)| AuditRecord::try_from(found)).collect::<Result<Vec<_>, _>>();
                    rows.piece(&records.map_err(StreamError::failed)?)?
                }
                RowFormat::Ndjson => lines(&mut rows, &slice)?,
            };
            Ok::<_, StreamError>((piece, rows, page.last))
        });
        let (piece, last);
        (piece, rows, last) = read.await?;
        out.send(piece).await?;
        if last.is_none() {
            break;
        }
        after = last;
    }
    if let Some(head) = end.filter(|_| proves) {
        out.send(rows.piece(&[CheckpointLine { checkpoint: CheckpointForm::new(&head.end.checkpoint) }])?).await?;
    }
    out.send(rows.end()).await
}

/// Returns the current end of the chain, and what its first record follows.
fn beginning(tx: &ReadTx, tenant: TenantId, key: &PublicKey) -> Result<(Option<Head>, ChainForm), StoreError> {
    let end = repo::head(tx, tenant)?;
    let first = end.map_or(1, |head| head.end.checkpoint.statement.first);
    let anchor = repo::checkpoint(tx, tenant, first.saturating_sub(1))?;
    let previous = anchor.map_or_else(|| origin(tenant), |placed| placed.checkpoint.statement.hash);
    let chain = ChainForm { tenant_id: tenant, first, previous_hash: hex(&previous), public_key: key.to_string() };
    Ok((end, chain))
}

fn lines(rows: &mut Rows, slice: &[(Found, Option<CheckpointForm>)]) -> Result<Bytes, StreamError> {
    let mut bytes = Vec::new();
    for (found, checkpoint) in slice {
        let record: &RawValue = serde_json::from_slice(&found.body).map_err(StreamError::failed)?;
        bytes.extend_from_slice(&rows.piece(&[RecordLine { record, hash: hex(&found.hash) }])?);
        if let Some(checkpoint) = checkpoint {
            bytes.extend_from_slice(&rows.piece(&[CheckpointLine { checkpoint: checkpoint.clone() }])?);
        }
    }
    Ok(bytes.into())
}
