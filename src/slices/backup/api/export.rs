//! Streams a whole report from one snapshot.

use tenantd_http::{
    export::{RowFormat, Rows},
    outgoing::{Exported, Outgoing, StreamError, Streamed, Streams},
    problem::Problem,
};
use tenantd_store::{ReadTx, Store};

use super::{
    super::listing::{self, AggregateQuery},
    aggregate_wire::{BackupAggregate, BackupRow, Shape},
};

/// The number of rows to build and send at a time.
const SLICE: usize = 100;

/// The columns of the CSV format, as paths into a row.
const COLUMNS: [&str; 46] = [
    "organization.id",
    "organization.name",
    "as_of",
    "state",
    "score",
    "score_parts.coverage",
    "score_parts.recency",
    "score_parts.success",
    "score_parts.verification",
    "score_parts.resilience",
    "caps.code",
    "devices.total",
    "devices.eligible",
    "devices.protected",
    "devices.unprotected",
    "devices.coverage_percent",
    "last.success_at",
    "last.failure_at",
    "last.never_backed_up",
    "rpo.ok",
    "rpo.at_risk",
    "rpo.breached",
    "rpo.pending",
    "rpo.worst.device.name",
    "rpo.worst.breached_at",
    "jobs.24h.succeeded",
    "jobs.24h.warning",
    "jobs.24h.failed",
    "jobs.24h.missed",
    "jobs.7d.succeeded",
    "jobs.7d.warning",
    "jobs.7d.failed",
    "jobs.7d.missed",
    "jobs.30d.succeeded",
    "jobs.30d.warning",
    "jobs.30d.failed",
    "jobs.30d.missed",
    "storage.protected_bytes",
    "storage.growth_30d_bytes",
    "rule_321.copies",
    "rule_321.media",
    "rule_321.offsite",
    "rule_321.immutable",
    "rule_321.compliant",
    "verification.last_restore_test_at",
    "issues.code",
];

impl Exported for BackupAggregate {
    const CSV_EXAMPLE: &'static str = "organization.id,organization.name\r\norg_01k9z7w3v5e8g9m2n4p6r8t0x1,Acme\r\n";
    const LINES_EXAMPLE: &'static str = "{\"state\":\"healthy\",\"score\":92}\n{\"_end\":true,\"count\":1}\n";
}

/// Starts the export. The response streams the rows.
pub(super) fn start(
    exports: &Streams,
    store: Store,
    query: AggregateQuery,
    shape: Shape,
    format: RowFormat,
) -> Result<Streamed, Problem> {
    let file_name = match format {
        RowFormat::Csv => "backup-customers.csv",
        RowFormat::Ndjson => "backup-customers.ndjson",
    };
    let tenant = query.tenant_id;
    let make = async move |out: Outgoing| store.scan_long(move |tx| send_all(tx, &query, shape, format, &out)).await;
    Ok(exports.start(tenant, format.media_type(), make)?.named(file_name))
}

fn send_all(tx: &ReadTx, query: &AggregateQuery, shape: Shape, format: RowFormat, out: &Outgoing) -> Result<(), StreamError> {
    let mut lines = Rows::new(format, COLUMNS);
    out.send_blocking(lines.head()?)?;
    let mut found = listing::find(tx, query)?.into_iter().peekable();
    while found.peek().is_some() {
        let slice: Vec<_> = found.by_ref().take(SLICE).collect();
        let mut rows = Vec::with_capacity(slice.len());
        for assessment in slice {
            rows.push(BackupRow::new(listing::show(tx, assessment)?, shape));
        }
        out.send_blocking(lines.piece(&rows)?)?;
    }
    out.send_blocking(lines.end())
}
