//! The tables of providers, syncs, VMs and operations, and their queries.

pub(super) mod operations;
pub(super) mod portable;
pub(super) mod providers;
#[cfg(test)]
mod tests;
pub(super) mod vms;
