//! Exports a whole report as a stream of rows from one snapshot. Later changes are not in it, and no device appears twice.
//!
//! A thread that may block reads and sends the rows in slices, at the pace of the client. **Invariant:** memory holds only a few
//! slices, regardless of the number of devices. An export holds its snapshot for [`MAX_SNAPSHOT_AGE`] at most, and the number of
//! concurrent exports is limited.

use std::time::Duration;

use tenantd_directory::devices::{DeviceQuery, Labels};
use tenantd_http::{
    export::{RowFormat, Rows},
    outgoing::{Exported, Outgoing, StreamError, Streamed, Streams},
    problem::Problem,
};
use tenantd_store::{ReadTx, Store};

use super::{
    super::{
        listing::{self, RowKind},
        tally::{self, Field},
    },
    columns,
    filters::Section,
    report::MAX_GROUPS,
    wire::{InventoryGroups, InventoryReport, rows},
};

/// How many rows are read and sent at once.
const SLICE: usize = 200;
/// The store cannot reuse pages that an open snapshot may still read. A client that takes longer must export again with filters.
const MAX_SNAPSHOT_AGE: Duration = Duration::from_mins(30);

impl Exported for InventoryReport {
    const CSV_EXAMPLE: &'static str = "id,name,organization.id,organization.name\r\ndev_01k9z7w3v5e8g9m2n4p6r8t0x1,ACME-PC-7,org_01k9z7w3v5e8g9m2n4p6r8t0x1,Acme\r\n";
    const LINES_EXAMPLE: &'static str = "{\"name\":\"ACME-PC-7\"}\n{\"_end\":true,\"count\":1}\n";
}

/// What an export contains.
#[derive(Clone, Debug)]
pub(super) enum ExportContent {
    Rows { kind: RowKind, sections: Vec<Section> },
    Groups(Field),
}

/// Starts the export. The response streams the rows.
pub(super) fn start(
    exports: &Streams,
    store: Store,
    query: DeviceQuery,
    content: ExportContent,
    format: RowFormat,
) -> Result<Streamed, Problem> {
    let file_name = match format {
        RowFormat::Csv => "asset-inventory.csv",
        RowFormat::Ndjson => "asset-inventory.ndjson",
    };
    let tenant = query.tenant_id;
    let make = async move |out: Outgoing| {
        let sent = store.scan_long(move |tx| send_all(tx, &query, &content, format, &out));
        // After the timeout, the thread notices that the receiver is gone, and ends.
        tokio::time::timeout(MAX_SNAPSHOT_AGE, sent).await.unwrap_or(Err(StreamError::Unwanted))
    };
    Ok(exports.start(tenant, format.media_type(), make)?.named(file_name))
}

fn send_all(
    tx: &ReadTx,
    query: &DeviceQuery,
    content: &ExportContent,
    format: RowFormat,
    out: &Outgoing,
) -> Result<(), StreamError> {
    let mut labels = Labels::new(query.tenant_id);
    let (kind, sections) = match content {
        ExportContent::Rows { kind, sections } => (*kind, sections),
        ExportContent::Groups(by) => {
            let groups = tally::group(tx, query, &mut labels, *by, MAX_GROUPS)?;
            let mut lines = Rows::new(format, columns::GROUPS);
            out.send_blocking(lines.head()?)?;
            out.send_blocking(lines.piece(&InventoryGroups::new(*by, groups).values)?)?;
            return out.send_blocking(lines.end());
        }
    };
    let mut lines = Rows::new(format, columns::of(sections, kind));
    out.send_blocking(lines.head()?)?;
    let mut after = None::<Vec<u8>>;
    loop {
        let mut page = listing::list(tx, query, &mut labels, kind, after.as_deref(), SLICE)?;
        let last = page.last.take();
        out.send_blocking(lines.piece(&rows(tx, &mut labels, page, sections)?)?)?;
        if last.is_none() {
            return out.send_blocking(lines.end());
        }
        after = last;
    }
}
