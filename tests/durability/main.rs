//! Durability, from outside of the store: what was acknowledged is there after the worst a machine can do.
//!
//! `crash` runs the store on `disk`, a simulated disk that loses power between any two operations, and compares what is
//! left with `ledger`, a workload whose stored state tells its own history. `kill` ends the real binary at any moment, and compares
//! what it has afterwards with `books`, in which `clients` noted what they were told.
//! `deliveries` does the same to a server whose webhooks are received by somebody who lives on.
//! `search` does it to a server that indexes what it is sent.
//! `provision` does it to one that orders VMs, of a cloud that counts them.
//! `analytics` does it to one that counts what happens, and counts anew.
//! `damage` changes what is on the disk of a store that was cut off, and wants it told.
//! `compaction` loses power while the file is made shorter.
//! `commands` kills the commands that change an installation's files.
//! `io_errors` lets the system calls of the real binary fail, `stall` lets them never come back.

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
