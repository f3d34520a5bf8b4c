//! All tickets of a query as a stream of rows: read slice by slice, so that neither memory nor a snapshot is held for longer than one.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    super::{
        labels::Labels,
        listing::{self, TicketQuery},
    },
    wire::{Ticket, TicketList},
};
use crate::kernel::{
    clock::Timestamp,
    http::{
        CSV, LINES,
        outgoing::{Broken, Exported, Outgoing, Streamed, Streams},
        problem::Problem,
    },
    store::{Store, StoreError},
};

/// How many tickets are read and sent at a time.
const SLICE: usize = 200;

/// The columns of a table, as paths into the record.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowFormat {
    Csv,
    Ndjson,
}

/// The rows that an `Accept` header asks for, when it takes nothing but rows.
pub(super) fn accepted(accept: &str) -> Option<RowFormat> {
    let mut formats = accept.split(',').map(|range| match range.split(';').next().unwrap_or_default().trim() {
        CSV => Some(RowFormat::Csv),
        LINES => Some(RowFormat::Ndjson),
        _ => None,
    });
    let first = formats.next()??;
    formats.all(|format| format.is_some()).then_some(first)
}

/// Starts to make the rows; the answer streams them.
pub(super) fn start(
    exports: &Streams,
    store: Store,
    query: TicketQuery,
    now: Timestamp,
    format: RowFormat,
) -> Result<Streamed, Problem> {
    let (media_type, file_name) = match format {
        RowFormat::Csv => (CSV, "tickets.csv"),
        RowFormat::Ndjson => (LINES, "tickets.ndjson"),
    };
    let stream = exports.start(media_type, |out| send_all(store, Arc::new(query), now, format, out))?;
    Ok(stream.named(file_name))
}

async fn send_all(store: Store, query: Arc<TicketQuery>, now: Timestamp, format: RowFormat, out: Outgoing) -> Result<(), Broken> {
    if format == RowFormat::Csv {
        out.send(csv_rows([COLUMNS.map(str::to_owned).to_vec()])?).await?;
    }
    let (mut after, mut count) = (None::<Vec<u8>>, 0_u64);
    loop {
        let query = query.clone();
        let read = store.scan(move |tx| {
            let page = listing::list(tx, &query, after.as_deref(), SLICE)?;
            let labels = Labels::of_tickets(tx, query.tenant_id, &page.tickets)?;
            let tickets: Vec<Ticket> = page.tickets.into_iter().map(|ticket| Ticket::new(ticket, &labels, now)).collect();
            Ok::<_, StoreError>((tickets, page.last))
        });
        let (tickets, last) = read.await.map_err(Broken::failed)?;
        count += tickets.len() as u64;
        out.send(rows(&tickets, format)?).await?;
        if last.is_none() {
            break;
        }
        after = last;
    }
    if format == RowFormat::Ndjson {
        out.send(format!("{}\n", json!({"_end": true, "count": count}))).await?;
    }
    Ok(())
}

fn rows(tickets: &[Ticket], format: RowFormat) -> Result<Bytes, Broken> {
    match format {
        RowFormat::Ndjson => {
            let mut lines = Vec::with_capacity(tickets.len() << 10);
            for ticket in tickets {
                serde_json::to_writer(&mut lines, ticket).map_err(Broken::failed)?;
                lines.push(b'\n');
            }
            Ok(lines.into())
        }
        RowFormat::Csv => {
            let values: Vec<Value> = tickets.iter().map(serde_json::to_value).collect::<Result<_, _>>().map_err(Broken::failed)?;
            csv_rows(values.iter().map(|ticket| COLUMNS.iter().map(|path| cell(ticket, path)).collect::<Vec<String>>()))
        }
    }
}

fn csv_rows(rows: impl IntoIterator<Item = Vec<String>>) -> Result<Bytes, Broken> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).map_err(Broken::failed)?;
    }
    writer.into_inner().map(Bytes::from).map_err(Broken::failed)
}

/// The text of a record's member. Of a list, the members of its entries.
fn cell(value: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(vec![value], |values, name| {
        let members = values.into_iter().flat_map(|value| match value {
            Value::Array(items) => items.iter().filter_map(|item| item.get(name)).collect::<Vec<_>>(),
            other => other.get(name).into_iter().collect(),
        });
        let members: Vec<&Value> = members.collect();
        if members.is_empty() { None } else { Some(members) }
    });
    let texts = found.unwrap_or_default().into_iter().flat_map(|value| match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(members) if members.is_empty() => Vec::new(),
        other => vec![plain(other)],
    });
    guarded(texts.collect::<Vec<String>>().join("; "))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A spreadsheet runs a text that begins like this as a formula; the quote makes it a text.
fn guarded(text: String) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_their_paths_and_cannot_be_formulas() {
        let ticket = json!({
            "subject": "=1+1",
            "sla": {"state": "met"},
            "devices": [{"id": "dev_1", "name": "A"}, {"id": "dev_2", "name": "B"}],
            "tags": ["x", "y"],
            "custom_fields": {},
            "number": 7,
        });
        for (path, text) in [
            ("subject", "'=1+1"),
            ("sla.state", "met"),
            ("devices.name", "A; B"),
            ("tags", "x; y"),
            ("custom_fields", ""),
            ("number", "7"),
            ("contact.name", ""),
        ] {
            assert_eq!(cell(&ticket, path), text, "{path}");
        }
        for risky in ["=a", "+a", "-a", "@a", "\ta", "\ra"] {
            assert_eq!(guarded(risky.to_owned()), format!("'{risky}"));
        }
    }
}
