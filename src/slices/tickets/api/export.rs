//! All tickets of a query as a stream of rows: read slice by slice, so that neither memory nor a snapshot is held for longer than one.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    super::{
        labels::Labels,
        listing::{self, TicketQuery},
    },
    wire::Ticket,
};
use crate::kernel::{
    clock::Timestamp,
    http::streamed::{ChunkSender, Gone, Stream},
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowFormat {
    Csv,
    Ndjson,
}

/// The rows that an `Accept` header asks for, when it takes nothing but rows.
pub(super) fn accepted(accept: &str) -> Option<RowFormat> {
    let mut formats = accept.split(',').map(|range| match range.split(';').next().unwrap_or_default().trim() {
        "text/csv" => Some(RowFormat::Csv),
        "application/x-ndjson" => Some(RowFormat::Ndjson),
        _ => None,
    });
    let first = formats.next()??;
    formats.all(|format| format.is_some()).then_some(first)
}

/// Starts to make the rows; the answer streams them.
pub(super) fn start(store: Store, query: TicketQuery, now: Timestamp, format: RowFormat) -> Stream {
    let (media_type, file_name) = match format {
        RowFormat::Csv => ("text/csv", "tickets.csv"),
        RowFormat::Ndjson => ("application/x-ndjson", "tickets.ndjson"),
    };
    let (stream, sender) = Stream::new(media_type, file_name.to_owned());
    tokio::spawn(async move {
        match send_all(&store, Arc::new(query), now, format, &sender).await {
            Ok(()) | Err(Broken::Gone) => {}
            Err(Broken::Failed(reason)) => sender.fail(reason).await,
        }
    });
    stream
}

enum Broken {
    Gone,
    Failed(String),
}

impl From<Gone> for Broken {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

async fn send_all(
    store: &Store,
    query: Arc<TicketQuery>,
    now: Timestamp,
    format: RowFormat,
    sender: &ChunkSender,
) -> Result<(), Broken> {
    if format == RowFormat::Csv {
        sender.send(csv_rows([COLUMNS.map(str::to_owned).to_vec()])?).await?;
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
        let (tickets, last) = read.await.map_err(|error| Broken::Failed(error.to_string()))?;
        count += tickets.len() as u64;
        if !tickets.is_empty() {
            sender.send(rows(&tickets, format)?).await?;
        }
        if last.is_none() {
            break;
        }
        after = last;
    }
    if format == RowFormat::Ndjson {
        sender.send(Bytes::from(format!("{}\n", json!({"_end": true, "count": count})))).await?;
    }
    Ok(())
}

fn rows(tickets: &[Ticket], format: RowFormat) -> Result<Bytes, Broken> {
    let failed = |error: serde_json::Error| Broken::Failed(error.to_string());
    match format {
        RowFormat::Ndjson => {
            let mut lines = Vec::with_capacity(tickets.len() << 10);
            for ticket in tickets {
                serde_json::to_writer(&mut lines, ticket).map_err(failed)?;
                lines.push(b'\n');
            }
            Ok(lines.into())
        }
        RowFormat::Csv => {
            let values: Vec<Value> = tickets.iter().map(serde_json::to_value).collect::<Result<_, _>>().map_err(failed)?;
            csv_rows(values.iter().map(|ticket| COLUMNS.iter().map(|path| cell(ticket, path)).collect::<Vec<String>>()))
        }
    }
}

fn csv_rows(rows: impl IntoIterator<Item = Vec<String>>) -> Result<Bytes, Broken> {
    let failed = |error: &dyn std::fmt::Display| Broken::Failed(error.to_string());
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).map_err(|error| failed(&error))?;
    }
    writer.into_inner().map(Bytes::from).map_err(|error| failed(&error))
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
