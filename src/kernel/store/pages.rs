//! The pages of redb's file. Each page in use has a checksum that its parent keeps, which redb compares only when it is asked to.

use std::path::Path;

use redb::{Database, DatabaseError};

/// Memory for pages that are being compared.
const CACHE_BYTES: usize = 16 << 20;

/// Compares every page of a file that nobody has open with its checksum. The error says what is wrong. redb may panic on a damaged page.
///
/// A file that was closed in order needs no repair, so one that does is damaged: redb's repair would return to an older state.
pub(super) fn verify_closed(path: &Path) -> Result<(), String> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder.set_repair_callback(redb::RepairSession::abort);
    let mut database = builder.open(path).map_err(|error| match error {
        DatabaseError::RepairAborted => "the file is not as it was when it was closed".to_owned(),
        error => error.to_string(),
    })?;
    match database.check_integrity() {
        Ok(true) => Ok(()),
        Ok(false) => Err("a page does not match its checksum".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
