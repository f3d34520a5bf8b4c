//! The log: every change of state appends its event in its own transaction, under a global sequence number without gaps.
//!
//! Webhook dispatch, search, analytics, workflow triggers and audit read the log as [`Consumer`]s with durable cursors; tenants
//! read their part of it as a feed. **Invariant:** there is no event of a change that did not commit, and no change without its
//! event. **Invariant:** the stored body is the sent body, byte for byte.

mod act;
mod consumer;
mod envelope;
mod kind;
mod log;
mod retention;

pub use act::{Act, Actor, ActorKind, Cause, Intent};
pub use consumer::{Consumer, ConsumerTask, cursor, set_cursor};
pub use envelope::{About, Draft, Resource, about};
pub use kind::{EventKind, EventPattern, Kinds, Readable};
pub use log::{
    Event, EventRecord, FeedPage, FeedQuery, TenantEvents, append, bring_in, first_kept, head, moved_body, read_batch, read_feed,
    read_one, scan_tenant,
};
pub use retention::Retention;

use crate::kernel::store::Checked;

/// The log's tables that `tenantd check` reads; segments are read by their names.
pub fn tables() -> Vec<&'static dyn Checked> {
    vec![&log::HEAD, &consumer::CURSORS, &log::COUNTED]
}

#[cfg(test)]
mod tests;
