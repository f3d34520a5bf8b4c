//! The log: every change of state appends its event in its own transaction.
//!
//! An event has a place in the log of the installation ([`Event::seq`]) and a number in the sequence of its tenant
//! ([`EventRecord::number`]), both without gaps. Webhook dispatch, search, analytics, workflow triggers and audit read the log as
//! [`Consumer`]s with durable cursors. Tenants read their part of it as a feed. **Invariant:** there is no event without its
//! committed change, and no change without its event. **Invariant:** the stored body is the sent body, byte for byte.
//! **Boundary:** a place stays internal. Tenants see and store only their own numbers, because places would reveal how many
//! events other tenants have.

mod act;
mod changes;
mod consumer;
mod envelope;
mod feed;
mod kind;
mod log;
mod retention;

pub use act::{Act, Actor, ActorKind, Cause, Intent};
pub use changes::Changes;
pub use consumer::{Consumer, ConsumerTask, cursor, set_cursor};
pub use envelope::{About, Describe, Described, Draft, Resource, about};
pub use feed::{
    FEED_BYTES, FeedPage, FeedQuery, Sequence, TenantEvents, last_number, number_at, number_tenants, place_of, read_feed,
    read_feed_back, read_numbered, scan_tenant, sequence,
};
pub use kind::{EventKind, EventPattern, Kinds, Member, Readable};
pub use log::{Event, EventRecord, append, append_imported, first_kept, head, read_batch, read_one, renumbered_body};
pub(crate) use log::{events_in, fill_lost_places, log_end_in};
pub use retention::Retention;

use crate::Checked;

/// The log's tables that `tenantd check` reads. Segments are found by their names.
pub fn tables() -> Vec<&'static dyn Checked> {
    vec![&log::HEAD, &consumer::CURSORS, &log::COUNTED, &feed::SEQUENCES, &feed::SEGMENTS]
}

#[cfg(test)]
mod tests;
