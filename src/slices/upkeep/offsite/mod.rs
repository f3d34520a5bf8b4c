//! Off-site backups: verified snapshots in an S3-compatible store or in a directory of another host, encrypted for recipients
//! whose identity is elsewhere.
//!
//! **Invariant:** a backup counts only if it has a manifest. The manifest is written last, after the stored object was read
//! back and compared. It is signed, so a restore uses nothing that this installation did not write.
//!
//! The layout: `PREFIX/INSTALLATION/snapshots/TIME-ID/{manifest.json,snapshot.age}`, and
//! `PREFIX/INSTALLATION/journal/SEGMENT.commits.age`.

mod commits;
mod connector;
mod credentials;
mod error;
mod manifest;
mod place;
mod retention;
mod schedule;
mod shipping;
mod transfer;
mod writer;

pub use commits::{Forward, Route, Shortfall};
pub use error::OffsiteError;
pub use manifest::Manifest;
pub use place::{Entry, OffsitePlace};
pub(super) use schedule::OffsiteSchedule;
pub(super) use shipping::Shipping;
pub use writer::Offsite;

#[cfg(test)]
mod tests;
