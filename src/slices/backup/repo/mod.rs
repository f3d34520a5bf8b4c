//! The tables of backups.

pub(super) mod configs;
pub(super) mod jobs;
pub(super) mod portable;
pub(super) mod postures;
pub(super) mod rollups;
pub(super) mod sweeps;
#[cfg(test)]
mod tests;
pub(super) mod upgrade;
