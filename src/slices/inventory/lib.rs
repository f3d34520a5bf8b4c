//! The asset inventory: reports over the devices of the directory, as pages, counts and streams.
//!
//! **Boundary:** it has no tables and changes nothing; devices are the directory's. **Invariant:** a report shows only what its caller
//! may reach, and what an agent is doing is worked out at the moment of the report.

mod api;
mod error;
mod labels;
mod listing;
mod model;
mod query;
mod tally;
mod version;

use poem_openapi::OpenApi;
use serde_json::Value;

use tenantd_base::{access::Reach, clock::Timestamp, clocks::Clocks, config, id::TenantId};
use tenantd_directory::Directory;
use tenantd_http::outgoing::Streams;
use tenantd_store::{Read, Store};

pub use error::{Fault, InventoryError};

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
}

/// Small reports as JSON, for those who have values and no types.
impl Inventory {
    /// The JSON Schema of what [`Inventory::report`] takes.
    pub fn form_schema() -> Value {
        api::forms::schema()
    }

    /// The report as of now, on a thread that may block.
    pub async fn report(&self, tenant_id: TenantId, form: Value) -> Result<Value, InventoryError> {
        let (inventory, now) = (self.clone(), self.clocks.now(tenant_id));
        self.store.scan_for(tenant_id, move |tx| inventory.report_on(tx, tenant_id, now, &form)).await
    }

    /// The report on a snapshot.
    pub fn report_on(&self, tx: &impl Read, tenant_id: TenantId, now: Timestamp, form: &Value) -> Result<Value, InventoryError> {
        let asker = api::Asker { tenant_id, reach: Reach::Everything, now, directory: self.directory };
        api::forms::run(tx, asker, form)
    }
}
