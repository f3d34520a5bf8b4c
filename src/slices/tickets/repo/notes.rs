//! The sub-records of a ticket: comments, time entries, and the positions of its events in the log.

use serde::{Deserialize, Serialize};

use tenantd_base::id::{CommentId, TenantId, TimeEntryId};
use tenantd_store::{Counts, Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::{PAGE_BYTES, TicketKey};
use crate::model::{Comment, TimeEntry};

type CommentKey = (TenantId, u64, CommentId);
type TimeEntryKey = (TenantId, u64, TimeEntryId);

impl Record for Comment {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (_, _, self.id) = CommentKey::from_bytes(key)?;
        Some(())
    }
}

impl Record for TimeEntry {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (_, _, self.id) = TimeEntryKey::from_bytes(key)?;
        Some(())
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HistoryEntry;

impl Record for HistoryEntry {
    const VERSION: u8 = 1;
}

pub(crate) static COMMENTS: Table<CommentKey, Comment> = Table::new(catalog::TICKET_COMMENTS, &[]).counting(Counts::Records);
pub(crate) static TIME_ENTRIES: Table<TimeEntryKey, TimeEntry> =
    Table::new(catalog::TICKET_TIME_ENTRIES, &[]).counting(Counts::Records);
pub(crate) static HISTORY: Table<(TenantId, u64, u64), HistoryEntry> = Table::new(catalog::TICKET_EVENTS, &[]);

pub(crate) fn put_comment(tx: &mut WriteTx, ticket: TicketKey, comment: &Comment) -> Result<(), StoreError> {
    COMMENTS.put(tx, &(ticket.0, ticket.1, comment.id), comment)
}

pub(crate) fn put_time_entry(tx: &mut WriteTx, ticket: TicketKey, entry: &TimeEntry) -> Result<(), StoreError> {
    TIME_ENTRIES.put(tx, &(ticket.0, ticket.1, entry.id), entry)
}

/// Links the ticket to one of its events.
pub(crate) fn note_event(tx: &mut WriteTx, ticket: TicketKey, seq: u64) -> Result<(), StoreError> {
    HISTORY.put(tx, &(ticket.0, ticket.1, seq), &HistoryEntry)
}

/// A page of a ticket's sub-records, and whether there are more. Ends early if the sizes from `weigh` exceed those of a page.
fn part<K: Key + Copy, V: Record, T>(
    tx: &impl Read,
    table: &Table<(TenantId, u64, K), V>,
    ticket: TicketKey,
    (after, limit, direction): (Option<K>, usize, Direction),
    make: impl Fn(K, V) -> T,
    weigh: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, Option<K>), StoreError> {
    let mut range = KeyRange::prefix(&ticket.to_bytes());
    if let Some(after) = after {
        range = range.after(&(ticket.0, ticket.1, after).to_bytes(), direction);
    }
    let (mut found, mut last, mut more, mut bytes) = (Vec::new(), None, None, 0);
    table.scan(tx, &range, direction, |(_, _, key), record| {
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

/// At most `limit` comments and about [`PAGE_BYTES`] after a comment, by age. If there are more, also returns the id of the last
/// one.
pub(crate) fn comments(
    tx: &impl Read,
    ticket: TicketKey,
    after: Option<CommentId>,
    limit: usize,
    direction: Direction,
) -> Result<(Vec<Comment>, Option<CommentId>), StoreError> {
    part(tx, &COMMENTS, ticket, (after, limit, direction), |_, comment| comment, Comment::json_bytes)
}

pub(crate) fn time_entries(
    tx: &impl Read,
    ticket: TicketKey,
    after: Option<TimeEntryId>,
    limit: usize,
) -> Result<(Vec<TimeEntry>, Option<TimeEntryId>), StoreError> {
    // A page of 200 time entries is small.
    part(tx, &TIME_ENTRIES, ticket, (after, limit, Direction::Forward), |_, entry| entry, |_| 0)
}

pub(crate) fn time_entry_count(tx: &impl Read, ticket: TicketKey) -> Result<u64, StoreError> {
    let mut count = 0;
    TIME_ENTRIES.scan(tx, &KeyRange::prefix(&ticket.to_bytes()), Direction::Forward, |_, _| {
        count += 1;
        Ok(Flow::Continue)
    })?;
    Ok(count)
}

/// The sequence numbers of a ticket's events, by age.
pub(crate) fn history(
    tx: &impl Read,
    ticket: TicketKey,
    after: Option<u64>,
    limit: usize,
    direction: Direction,
) -> Result<(Vec<u64>, Option<u64>), StoreError> {
    part(tx, &HISTORY, ticket, (after, limit, direction), |seq, _| seq, |_| 0)
}

#[cfg(test)]
mod tests {
    use tenantd_base::{clock::Timestamp, id::UserId};
    use tenantd_store::{
        codec::assert_golden,
        events::{Actor, ActorKind},
    };

    use super::*;
    use crate::model::Visibility;

    #[test]
    fn the_stored_forms_are_unchanged() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let created_by = Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() };
        let comment = Comment {
            id: CommentId::default(),
            body: "Done.".to_owned(),
            visibility: Visibility::Public,
            contact_id: Some(UserId::from_bytes([1; 16])),
            created_at: at,
            created_by: created_by.clone(),
        };
        assert_golden("ticket_comment", &comment);
        let entry = TimeEntry {
            id: TimeEntryId::default(),
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
