//! The asset inventory: reports over the devices of the directory, as pages, counts and streams.
//!
//! **Boundary:** this slice has no tables and changes nothing; the directory owns the devices. **Invariant:** a report contains
//! only devices that its caller may access, and the state of an agent is computed at the time of the report.

mod api;
mod error;
mod listing;
mod steps;
mod tally;

use poem_openapi::OpenApi;

use tenantd_base::{clocks::Clocks, config};
use tenantd_directory::Directory;
use tenantd_http::outgoing::Streams;
use tenantd_store::{Store, steps::StepEntry};

#[derive(Clone, Debug)]
pub struct Inventory {
    directory: Directory,
    store: Store,
    clocks: Clocks,
    exports: Streams,
}

impl Inventory {
    pub fn new(directory: Directory, store: Store, clocks: Clocks, limits: &config::Limits) -> Self {
        let exports = Streams::new("reports", limits, &store);
        Self { directory, store, clocks, exports }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        api::InventoryApi { directory: self.directory, store: self.store.clone(), exports: self.exports.clone() }
    }

    /// The workflow steps of the inventory.
    pub fn steps(&self) -> Vec<StepEntry> {
        vec![StepEntry::remote(steps::ReportInventory(self.clone()))]
    }
}
