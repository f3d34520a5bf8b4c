//! Providers, syncs, VMs and operations as they are stored, and the ways to find them.

pub(super) mod operations;
pub(super) mod portable;
pub(super) mod providers;
#[cfg(test)]
mod tests;
pub(super) mod vms;
