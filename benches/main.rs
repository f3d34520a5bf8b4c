//! How fast the real server is, held against what its parts can do at best in the same minutes on the same machine.
//!
//! Run it: `cargo bench`, or `cargo bench -- --quick` for a first impression, or `cargo bench -- tickets` for one subject. It starts
//! the release binary as a process, loads it over real connections, and takes turns with the ceilings: a bare poem-openapi handler
//! that returns the same object, commits of one small record each straight into redb, and a bare loop of deliveries.
//!
//! Read it: a ratio is the median over the rounds of tenantd's figure by the ceiling's of the same round. `rounds` is its spread,
//! from least to most: where that is wide, other work disturbed the run; repeat it. Absolute figures belong to the machine.
//! Nothing here fails for being slow; the exit code tells only whether everything worked.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench measures monotonic time, and ends at the first thing that does not work"
)]

mod analytics;
mod backup;
mod bare;
mod bare_deliveries;
mod cloud;
mod drive;
mod fairness;
mod ingest;
mod inventory;
mod keys;
mod load;
mod process;
mod queue;
mod receiver;
mod report;
mod search;
mod tickets;
mod webhooks;
mod workflows;

use std::{path::Path, time::Duration};

use crate::load::Span;

/// The allocator of the real server, for the bare ones.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How much is measured.
#[derive(Clone, Copy)]
struct Plan {
    quick: bool,
    rounds: usize,
    span: Span,
}

impl Plan {
    fn new(quick: bool) -> Self {
        let millis = Duration::from_millis;
        if quick {
            Self { quick, rounds: 3, span: Span { warm_up: millis(200), measure: millis(800) } }
        } else {
            Self { quick, rounds: 5, span: Span { warm_up: millis(500), measure: millis(2500) } }
        }
    }
}

struct Subject {
    name: &'static str,
    measure: fn(Plan),
}

const SUBJECTS: &[Subject] = &[
    Subject { name: "keys", measure: keys::measure },
    Subject { name: "ingest", measure: ingest::measure },
    Subject { name: "inventory", measure: inventory::measure },
    Subject { name: "tickets", measure: tickets::measure },
    Subject { name: "search", measure: search::measure },
    Subject { name: "webhooks", measure: webhooks::measure },
    Subject { name: "workflows", measure: workflows::measure },
    Subject { name: "cloud", measure: cloud::measure },
    Subject { name: "analytics", measure: analytics::measure },
    Subject { name: "backup", measure: backup::measure },
    Subject { name: "fairness", measure: fairness::measure },
    Subject { name: "queue", measure: queue::measure },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [bare::SERVE, sample] => bare::serve(sample),
        [bare::SERVE_TICKETS, samples] => bare::serve_tickets(samples),
        [bare::COMMIT, directory, millis, phases] => {
            bare::commit(Path::new(directory), Duration::from_millis(millis.parse().unwrap()), *phases == "2");
        }
        [bare_deliveries::DELIVER, receiver, directory, millis] => {
            let span = Duration::from_millis(millis.parse().unwrap());
            bare_deliveries::deliver(receiver.parse().unwrap(), Path::new(directory), span);
        }
        [drive::DRIVE, receiver] => drive::obey(receiver),
        // Cargo says so when it is to measure; without it the target is only built and tried, as `cargo test` does.
        options if options.contains(&"--bench") => {
            let plan = Plan::new(options.contains(&"--quick"));
            let named: Vec<&&str> = options.iter().filter(|option| !option.starts_with("--")).collect();
            for Subject { name, measure } in SUBJECTS {
                if named.is_empty() || named.contains(&name) {
                    println!("== {name}");
                    measure(plan);
                }
            }
        }
        _ => println!("run `cargo bench`"),
    }
}
