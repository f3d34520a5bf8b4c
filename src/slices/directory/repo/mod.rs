//! The tables and indexes of organizations, people and devices.

pub(super) mod backups;
pub(super) mod devices;
pub(super) mod organizations;
pub(super) mod portable;
pub(super) mod roles;
pub(super) mod users;
