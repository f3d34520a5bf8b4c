//! Organizations, people and devices as they are stored, and the ways to find them.

pub(super) mod backups;
pub(super) mod devices;
pub(super) mod organizations;
pub(super) mod portable;
pub(super) mod users;
