//! Durability, from outside of the store: what was acknowledged is there after the worst a machine can do.
//!
//! `crash` runs the store on `disk`, a simulated disk that loses power between any two operations, and compares what is
//! left with `ledger`, a workload whose stored state tells its own history.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "all of this is test code")]

mod crash;
mod disk;
mod ledger;
mod session;
