//! A whole report as a stream of rows, from one snapshot: what changes meanwhile is not in it, and no device is in it twice.
//!
//! The rows are read and sent on a thread that may block, a slice at a time, at the pace of the client. **Invariant:** memory holds a few
//! slices, however many devices there are; a snapshot is held for [`HELD`] at most, and by as many exports as there are places.

use std::time::Duration;

use tenantd_directory::devices::{DeviceQuery, Labels};
use tenantd_http::{
    export::{RowFormat, Rows},
    outgoing::{Broken, Exported, Outgoing, Streamed, Streams},
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

/// How many rows are read and sent at a time.
const SLICE: usize = 200;
/// A store cannot reuse what an open snapshot may still read. Whoever takes longer asks again with filters.
const HELD: Duration = Duration::from_mins(30);

impl Exported for InventoryReport {
    const CSV_EXAMPLE: &'static str = "id,name,organization.id,organization.name\r\ndev_01k9z7w3v5e8g9m2n4p6r8t0x1,ACME-PC-7,org_01k9z7w3v5e8g9m2n4p6r8t0x1,Acme\r\n";
    const LINES_EXAMPLE: &'static str = "{\"name\":\"ACME-PC-7\"}\n{\"_end\":true,\"count\":1}\n";
}

/// What the rows of an export are.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Rows { kind: RowKind, sections: Vec<Section> },
    Groups(Field),
}

/// Starts to make the rows; the answer streams them.
pub(super) fn start(
    exports: &Streams,
    store: Store,
    query: DeviceQuery,
    wanted: Wanted,
    format: RowFormat,
) -> Result<Streamed, Problem> {
    let file_name = match format {
        RowFormat::Csv => "asset-inventory.csv",
        RowFormat::Ndjson => "asset-inventory.ndjson",
    };
    let tenant = query.tenant_id;
    let make = async move |out: Outgoing| {
        let sent = store.scan_long(move |tx| send_all(tx, &query, &wanted, format, &out));
        // Without its future the thread finds that nobody takes what it sends, and ends.
        tokio::time::timeout(HELD, sent).await.unwrap_or(Err(Broken::Unwanted))
    };
    Ok(exports.start(tenant, format.media_type(), make)?.named(file_name))
}

fn send_all(tx: &ReadTx, query: &DeviceQuery, wanted: &Wanted, format: RowFormat, out: &Outgoing) -> Result<(), Broken> {
    let mut labels = Labels::new(query.tenant_id);
    let (kind, sections) = match wanted {
        Wanted::Rows { kind, sections } => (*kind, sections),
        Wanted::Groups(by) => {
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
