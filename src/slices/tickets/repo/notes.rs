//! What hangs on a ticket: comments, time entries, and the places of its events in the log.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{CommentId, TenantId, TimeEntryId, UserId},
};
use tenantd_store::{
    Counts, Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record, events::Actor,
};

use super::{PAGE_BYTES, TicketKey};
use crate::model::{Comment, TimeEntry, Visibility};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommentRecord {
    body: String,
    visibility: Visibility,
    contact_id: Option<UserId>,
    created_at: Timestamp,
    created_by: Actor,
}

impl Record for CommentRecord {
    const VERSION: u8 = 1;
}

impl CommentRecord {
    pub(super) fn body(&self) -> &str {
        &self.body
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TimeEntryRecord {
    minutes: u32,
    billable: bool,
    work_type: String,
    note: Option<String>,
    started_at: Option<Timestamp>,
    created_at: Timestamp,
    created_by: Actor,
}

impl Record for TimeEntryRecord {
    const VERSION: u8 = 1;
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HistoryEntry;

impl Record for HistoryEntry {
    const VERSION: u8 = 1;
}

pub(crate) static COMMENTS: Table<(TenantId, u64, CommentId), CommentRecord> =
    Table::new(catalog::TICKET_COMMENTS, &[]).counting(Counts::Records);
pub(crate) static TIME_ENTRIES: Table<(TenantId, u64, TimeEntryId), TimeEntryRecord> =
    Table::new(catalog::TICKET_TIME_ENTRIES, &[]).counting(Counts::Records);
pub(crate) static HISTORY: Table<(TenantId, u64, u64), HistoryEntry> = Table::new(catalog::TICKET_EVENTS, &[]);

pub(crate) fn put_comment(tx: &mut WriteTx, ticket: TicketKey, comment: &Comment) -> Result<(), StoreError> {
    let Comment { id, body, visibility, contact_id, created_at, created_by } = comment.clone();
    COMMENTS.put(tx, &(ticket.0, ticket.1, id), &CommentRecord { body, visibility, contact_id, created_at, created_by })
}

pub(crate) fn put_time_entry(tx: &mut WriteTx, ticket: TicketKey, entry: &TimeEntry) -> Result<(), StoreError> {
    let TimeEntry { id, minutes, billable, work_type, note, started_at, created_at, created_by } = entry.clone();
    let record = TimeEntryRecord { minutes, billable, work_type, note, started_at, created_at, created_by };
    TIME_ENTRIES.put(tx, &(ticket.0, ticket.1, id), &record)
}

/// Leads from the ticket to its event.
pub(crate) fn note_event(tx: &mut WriteTx, ticket: TicketKey, seq: u64) -> Result<(), StoreError> {
    HISTORY.put(tx, &(ticket.0, ticket.1, seq), &HistoryEntry)
}

/// A part of what hangs on a ticket, and whether there is more. It ends early if the bytes that `weigh` tells come to more than a page has.
fn part<K: Key + Copy, V: Record, T>(
    tx: &impl Read,
    table: &Table<(TenantId, u64, K), V>,
    ticket: TicketKey,
    after: Option<K>,
    limit: usize,
    make: impl Fn(K, V) -> T,
    weigh: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, Option<K>), StoreError> {
    let mut range = KeyRange::prefix(&ticket.to_bytes());
    if let Some(after) = after {
        range = range.after(&(ticket.0, ticket.1, after).to_bytes(), Direction::Forward);
    }
    let (mut found, mut last, mut more, mut bytes) = (Vec::new(), None, None, 0);
    table.scan(tx, &range, Direction::Forward, |(_, _, key), record| {
        let item = make(key, record);
        bytes += weigh(&item);
        let is_large = bytes > PAGE_BYTES && !found.is_empty();
        if is_large || found.len() == limit {
            more = last;
            return Ok(Flow::Stop);
        }
        last = Some(key);
        found.push(item);
        Ok(Flow::Continue)
    })?;
    Ok((found, more))
}

/// At most `limit` comments after one of them, and about [`PAGE_BYTES`], the oldest first; and the last one's id when there are more.
pub(crate) fn comments(
    tx: &impl Read,
    ticket: TicketKey,
    after: Option<CommentId>,
    limit: usize,
) -> Result<(Vec<Comment>, Option<CommentId>), StoreError> {
    let make = |id, record| {
        let CommentRecord { body, visibility, contact_id, created_at, created_by } = record;
        Comment { id, body, visibility, contact_id, created_at, created_by }
    };
    part(tx, &COMMENTS, ticket, after, limit, make, Comment::json_bytes)
}

pub(crate) fn time_entries(
    tx: &impl Read,
    ticket: TicketKey,
    after: Option<TimeEntryId>,
    limit: usize,
) -> Result<(Vec<TimeEntry>, Option<TimeEntryId>), StoreError> {
    let make = |id, record| {
        let TimeEntryRecord { minutes, billable, work_type, note, started_at, created_at, created_by } = record;
        TimeEntry { id, minutes, billable, work_type, note, started_at, created_at, created_by }
    };
    // 200 of them are small.
    part(tx, &TIME_ENTRIES, ticket, after, limit, make, |_| 0)
}

pub(crate) fn time_entry_count(tx: &impl Read, ticket: TicketKey) -> Result<u64, StoreError> {
    let mut count = 0;
    TIME_ENTRIES.scan(tx, &KeyRange::prefix(&ticket.to_bytes()), Direction::Forward, |_, _| {
        count += 1;
        Ok(Flow::Continue)
    })?;
    Ok(count)
}

/// The numbers of a ticket's events, in order.
pub(crate) fn history(
    tx: &impl Read,
    ticket: TicketKey,
    after: Option<u64>,
    limit: usize,
) -> Result<(Vec<u64>, Option<u64>), StoreError> {
    part(tx, &HISTORY, ticket, after, limit, |seq, _| seq, |_| 0)
}

#[cfg(test)]
mod tests {
    use tenantd_store::{codec::assert_golden, events::ActorKind};

    use super::*;

    #[test]
    fn the_stored_forms_are_those_that_were_written_down() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let created_by = Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() };
        let comment = CommentRecord {
            body: "Done.".to_owned(),
            visibility: Visibility::Public,
            contact_id: Some(UserId::from_bytes([1; 16])),
            created_at: at,
            created_by: created_by.clone(),
        };
        assert_golden("ticket_comment", &comment);
        let entry = TimeEntryRecord {
            minutes: 30,
            billable: true,
            work_type: "remote".to_owned(),
            note: Some("Drum".to_owned()),
            started_at: Some(at),
            created_at: at,
            created_by,
        };
        assert_golden("ticket_time_entry", &entry);
        assert_golden("ticket_event", &HistoryEntry);
    }
}
