//! Streams all tickets of a query as rows. It reads in batches, so that it never holds memory or a snapshot for more than one
//! batch.

use std::sync::Arc;

use tenantd_base::{access::Reach, clock::Timestamp};
use tenantd_http::{
    export::{RowFormat, Rows},
    outgoing::{Exported, Outgoing, StreamError, Streamed, Streams},
    problem::Problem,
};
use tenantd_store::Store;

use super::{
    super::{
        labels::Labels,
        listing::{self, TicketQuery},
    },
    wire::{Ticket, TicketList},
};

/// The number of tickets per batch.
const SLICE: usize = 200;

/// The columns of the CSV table, as paths into the record.
const COLUMNS: [&str; 52] = [
    "id",
    "number",
    "ref",
    "subject",
    "description",
    "type",
    "status",
    "status_category",
    "priority",
    "impact",
    "urgency",
    "source",
    "queue",
    "category",
    "organization.id",
    "organization.name",
    "contact.id",
    "contact.name",
    "contact.email",
    "assignee.id",
    "assignee.name",
    "devices.id",
    "devices.name",
    "tags",
    "custom_fields",
    "external_refs.system",
    "external_refs.id",
    "dedup_key",
    "occurrences",
    "parent.ref",
    "merged_into.ref",
    "sla.state",
    "sla.first_response.due_at",
    "sla.first_response.met_at",
    "sla.first_response.breached",
    "sla.resolution.due_at",
    "sla.resolution.met_at",
    "sla.resolution.breached",
    "sla.paused_minutes",
    "resolution.code",
    "resolution.summary",
    "counts.comments",
    "counts.reopens",
    "time_spent_minutes",
    "due_at",
    "created_at",
    "updated_at",
    "first_responded_at",
    "resolved_at",
    "closed_at",
    "created_by.name",
    "version",
];

impl Exported for TicketList {
    const CSV_EXAMPLE: &'static str = "id,number\r\ntkt_01k9z7w3v5e8g9m2n4p6r8t0x1,1042\r\n";
    const LINES_EXAMPLE: &'static str = "{\"number\":1042}\n{\"_end\":true,\"count\":1}\n";
}

/// Starts to produce the rows. The response streams them.
pub(super) fn start(
    exports: &Streams,
    store: Store,
    query: TicketQuery,
    (reach, now): (Reach, Timestamp),
    format: RowFormat,
) -> Result<Streamed, Problem> {
    let file_name = match format {
        RowFormat::Csv => "tickets.csv",
        RowFormat::Ndjson => "tickets.ndjson",
    };
    let tenant = query.tenant_id;
    let stream = exports.start(tenant, format.media_type(), |out| send_all(store, Arc::new((query, reach)), now, format, out))?;
    Ok(stream.named(file_name))
}

async fn send_all(
    store: Store,
    wanted: Arc<(TicketQuery, Reach)>,
    now: Timestamp,
    format: RowFormat,
    out: Outgoing,
) -> Result<(), StreamError> {
    let mut rows = Rows::new(format, COLUMNS);
    out.send(rows.head()?).await?;
    let mut after = None::<Vec<u8>>;
    loop {
        let wanted = wanted.clone();
        let read = store.scan_long(move |tx| {
            let (mut query, reach) = (wanted.0.clone(), &wanted.1);
            query.drop_hidden_parents(tx, reach)?;
            let page = listing::list(tx, &query, after.as_deref(), SLICE)?;
            let labels = Labels::of_tickets(tx, query.tenant_id, reach, &page.tickets)?;
            let tickets: Vec<Ticket> = page.tickets.into_iter().map(|ticket| Ticket::new(ticket, &labels, now)).collect();
            Ok::<_, StreamError>((rows.piece(&tickets)?, rows, page.last))
        });
        let (piece, last);
        (piece, rows, last) = read.await?;
        out.send(piece).await?;
        if last.is_none() {
            break;
        }
        after = last;
    }
    out.send(rows.end()).await
}
