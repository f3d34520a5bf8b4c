//! `/internal/admin/search`: shows the state of the search index and rebuilds it. Only the admin socket serves it.

use poem_openapi::{Object, OpenApi, Tags};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_http::{
    need::{Allowed, LocalOperator},
    problem::Problem,
    reply::Answer,
};

use super::super::index::{IndexStatus, SearchIndex};

#[derive(Tags)]
enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

/// The state of the search index.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct SearchIndexStatus {
    /// Whether the index answers searches.
    ready: bool,
    /// Whether a rebuild is running or requested.
    building: bool,
    /// How many documents the rebuild has indexed so far. Absent when no rebuild is running or requested.
    built: Option<u64>,
    /// How many documents the index contains.
    documents: u64,
    /// The sequence number of the newest event that the index covers.
    seq: u64,
    /// The sequence number of the newest event that is also covered on disk.
    durable_seq: u64,
    /// How many rebuilds have finished since the server started.
    rebuilds: u64,
}

impl From<IndexStatus> for SearchIndexStatus {
    fn from(status: IndexStatus) -> Self {
        let IndexStatus { ready, building, documents, seq, durable_seq, rebuilds } = status;
        Self { ready, building: building.is_some(), built: building, documents, seq, durable_seq, rebuilds }
    }
}

pub(crate) struct AdminSearchApi {
    pub(crate) index: SearchIndex,
}

#[OpenApi(prefix_path = "/internal/admin/search", tag = "Area::Administration")]
impl AdminSearchApi {
    /// Get the state of the search index
    ///
    /// Returns how far the index has read the event log, in memory and on disk, and the progress of a rebuild.
    #[oai(path = "/", method = "get", operation_id = "get_search_index")]
    async fn get_search_index(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<SearchIndexStatus>, Problem> {
        Ok(Answer::new(&self.index.status().into()))
    }

    /// Rebuild the search index
    ///
    /// Starts a rebuild in the background. The current index keeps answering searches until the new one is complete. If a
    /// rebuild is already running or requested, the request has no effect.
    #[oai(path = "/reindex", method = "post", operation_id = "rebuild_search_index")]
    async fn rebuild_search_index(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<SearchIndexStatus>, Problem> {
        if self.index.status().building.is_none() {
            self.index.rebuild();
        }
        Ok(Answer::new(&self.index.status().into()))
    }
}
