//! The HTTP edge: listeners and their limits, the way of a request, errors, paging, preconditions, idempotency, rate limits, and
//! the published document. With the `api` folders of the slices the only place that names poem.
//!
//! **Invariant:** no input is ignored silently: what the published document does not declare is refused.

pub mod acts;
mod again;
pub mod answer_cache;
pub mod author;
mod body;
pub mod bounded;
pub mod bulk;
pub mod context;
mod cors;
pub mod credentials;
pub mod edge;
pub mod export;
mod failures;
mod host;
pub mod idempotency;
pub mod incoming;
pub mod input;
pub mod json;
pub mod listener;
mod local;
pub mod mark;
mod media;
pub mod need;
pub mod openapi;
pub mod operations;
pub mod outgoing;
pub mod page;
pub mod pages;
mod plain;
pub mod precondition;
pub mod problem;
pub mod rate;
pub mod reply;
pub mod schema;
pub mod shape;
pub mod tls;
mod visit;
pub mod wire;

/// The media type of tables.
pub const CSV: &str = "text/csv";
/// The media type of what an HTML form sends.
pub const FORM: &str = "application/x-www-form-urlencoded";
/// The media type of values that come one a line.
pub const LINES: &str = "application/x-ndjson";
