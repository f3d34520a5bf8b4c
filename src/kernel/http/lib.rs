//! The HTTP edge: listeners and their limits, the path of a request, errors, paging, preconditions, idempotency, rate limits, and
//! the published document. Only this crate and the `api` folders of the slices use poem.
//!
//! **Invariant:** no input is ignored silently. Input that the published document does not declare is refused.

pub mod acts;
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
pub mod protocol;
pub mod rate;
pub mod recent;
mod recheck;
pub mod reply;
pub mod schema;
pub mod shape;
pub mod tls;
mod visit;
pub mod wire;

/// The media type of tables.
pub const CSV: &str = "text/csv";
/// The media type of HTML forms.
pub const FORM: &str = "application/x-www-form-urlencoded";
/// The media type of JSON values, one per line.
pub const LINES: &str = "application/x-ndjson";
