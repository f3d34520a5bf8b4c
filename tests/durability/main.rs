//! Durability, tested from outside the store: acknowledged writes survive the worst failures of a machine.
//!
//! - `crash` runs the store on `disk`, a simulated disk that loses power between any two operations, and compares the result with
//!   `ledger`, a workload whose stored state contains its own history.
//! - `kill` kills the real binary at any moment, and compares its state with `books`, in which `clients` record their responses.
//! - `deliveries` does the same with a webhook receiver that keeps running.
//! - `search` does it with a server that indexes documents.
//! - `provision` does it with a server that orders VMs, and a cloud that counts them.
//! - `analytics` does it with a server that updates its counters.
//! - `damage` changes the files of an interrupted store and expects a report.
//! - `compaction` loses power while the file is shortened.
//! - `commands` kills the commands that change the files of an installation.
//! - `io_errors` makes the system calls of the real binary fail, `stall` makes them hang.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "all of this is test code")]

mod analytics;
mod books;
mod clients;
mod commands;
mod compaction;
mod crash;
mod damage;
mod deliveries;
mod disk;
#[path = "../fakes/ec2.rs"]
#[allow(dead_code, reason = "each program of tests uses a part of it")]
mod ec2;
mod io_errors;
mod kill;
mod ledger;
#[path = "../process/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod process;
mod provision;
mod search;
mod session;
mod stall;
mod workflows;
