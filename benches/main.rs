//! Measures the speed of the real server, compared with the ceilings of its parts on the same host at the same time.
//!
//! To run it: `cargo bench` for everything, `cargo bench -- --quick` for a first impression, `cargo bench -- tickets` for one
//! subject. It starts the release binary as a process, sends load over real connections, and takes turns with the ceilings: a bare
//! poem-openapi handler that returns the same object, commits of one small record each to redb, and a bare delivery loop.
//!
//! To read it: a ratio is the median over all rounds of tenantd's value divided by the ceiling of the same round. `rounds` is its
//! range. If the range is wide, other work disturbed the run: repeat it. Absolute values depend on the host. A slow result is not
//! an error. The exit code shows only whether everything worked.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench measures monotonic time, and ends at the first error"
)]

mod analytics;
mod backup;
mod bare;
mod bare_deliveries;
mod cloud;
mod console;
mod demo;
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

/// The allocator of the real server, also used by the bare servers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The amount of work of a run.
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
    Subject { name: "console", measure: console::measure },
    Subject { name: "analytics", measure: analytics::measure },
    Subject { name: "backup", measure: backup::measure },
    Subject { name: "fairness", measure: fairness::measure },
    Subject { name: "queue", measure: queue::measure },
    Subject { name: "demo", measure: demo::measure },
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
        [drive::DRIVE, receiver] => drive::run_orders(receiver),
        // Cargo passes this flag to run benches. Without it, as in `cargo test`, the bench does nothing.
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
