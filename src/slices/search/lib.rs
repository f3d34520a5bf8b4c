//! Search over everything that a tenant has: one query language, one ranking, each hit only for those who may read its record.
//!
//! **Boundary:** the index is derived data that reads the log; records are read through the faces of their slices. **Invariant:** what
//! the caller may not read is not found, not counted and not suggested, and a client finds what it wrote before it asked.

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
pub use model::{Facets, Hit, Kind, Mode, Options, Order, Results, Sight};

use index::SearchIndex;
use service::Service;

#[derive(Clone, Debug)]
pub struct Search {
    service: Service,
}

impl Search {
    /// `root` is the directory of the index, which nothing touches before [`Search::spawn`].
    pub fn new(store: Store, clock: Clock, root: PathBuf) -> Self {
        Self { service: Service::new(SearchIndex::new(store.clone(), clock, root), store) }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        api::SearchApi { service: self.service.clone() }
    }

    /// What only the admin socket serves.
    pub fn admin_api(&self) -> impl OpenApi + use<> {
        api::AdminSearchApi { index: self.service.index.clone() }
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(self.service.index.task());
    }

    /// What workflows can do with the search.
    pub fn steps(&self) -> Vec<StepEntry> {
        vec![StepEntry::remote(steps::SearchQuery(self.clone()))]
    }

    pub async fn search(&self, sight: Sight, q: String, options: Options) -> Result<Results, SearchError> {
        self.service.search(sight, q, options).await
    }

    /// Builds the index anew without a server. `progress` hears how many documents it has.
    pub fn build_offline(&self, progress: impl FnMut(u64)) -> Result<u64, IndexError> {
        self.service.index.build_offline(progress)
    }

    /// Has the running server build the index anew, such as after many records came at once.
    pub fn rebuild(&self) {
        self.service.index.rebuild();
    }

    pub fn status(&self) -> IndexStatus {
        self.service.index.status()
    }
}
