//! Search over all records of a tenant: one query language, one ranking, and only the hits that the caller may read.
//!
//! **Boundary:** the index is derived data, built from the event log. Records are read through the public functions of their
//! slices.
//! **Invariant:** search never finds, counts or suggests a record that the caller may not read. A client finds everything
//! that it wrote before the request.

mod api;
mod error;
mod explain;
mod index;
mod model;
mod query;
mod service;
mod software;
mod sources;
mod steps;
mod text;

use std::path::PathBuf;

use poem_openapi::OpenApi;

use tenantd_base::clock::Clock;
use tenantd_store::{Store, steps::StepEntry, tasks::Tasks};

pub use error::{IndexError, SearchError};
pub use index::IndexStatus;
pub use model::{Facets, Hit, Kind, Mode, Options, Order, Results, Visibility};

use index::SearchIndex;
use service::Service;

#[derive(Clone, Debug)]
pub struct Search {
    service: Service,
}

impl Search {
    /// `root` is the directory of the index. Nothing touches it before [`Search::spawn`].
    pub fn new(store: Store, clock: Clock, root: PathBuf) -> Self {
        Self { service: Service::new(SearchIndex::new(store.clone(), clock, root), store) }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        api::SearchApi { service: self.service.clone() }
    }

    /// The operations that only the admin socket serves.
    pub fn admin_api(&self) -> impl OpenApi + use<> {
        api::AdminSearchApi { index: self.service.index.clone() }
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(self.service.index.task());
    }

    /// The workflow steps that search provides.
    pub fn steps(&self) -> Vec<StepEntry> {
        vec![StepEntry::remote(steps::SearchQuery(self.clone()))]
    }

    pub async fn search(&self, visibility: Visibility, q: String, options: Options) -> Result<Results, SearchError> {
        self.service.search(visibility, q, options).await
    }

    /// Rebuilds the index without a server. Calls `progress` with the number of documents so far.
    pub fn build_offline(&self, progress: impl FnMut(u64)) -> Result<u64, IndexError> {
        self.service.index.build_offline(progress)
    }

    /// Makes the running server rebuild the index, for example after a large import.
    pub fn rebuild(&self) {
        self.service.index.rebuild();
    }

    pub fn status(&self) -> IndexStatus {
        self.service.index.status()
    }
}
