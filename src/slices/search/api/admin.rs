//! `/internal/admin/search`: how the index is, and building it anew, for whoever may open the admin socket.

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
    /// What only the admin socket serves.
    Administration,
}

/// How the search index is.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct SearchIndexStatus {
    /// Whether it answers searches.
    ready: bool,
    /// Whether a new one is being built.
    building: bool,
    /// How many documents the new one has so far.
    built: Option<u64>,
    /// How many documents are in the index.
    documents: u64,
    /// The newest event that it holds.
    seq: u64,
    /// The newest event that is on the disk with it.
    durable_seq: u64,
    /// How many were built since the server started.
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
    /// Show how the search index is
    ///
    /// How much of the log it holds, in memory and on the disk, and how far a new one is.
    #[oai(path = "/", method = "get", operation_id = "get_search_index")]
    async fn get_search_index(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<SearchIndexStatus>, Problem> {
        Ok(Answer::new(&self.index.status().into()))
    }

    /// Build the search index anew
    ///
    /// The one that is there answers until the new one is complete. Asking again while one is being built changes nothing.
    #[oai(path = "/reindex", method = "post", operation_id = "rebuild_search_index")]
    async fn rebuild_search_index(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<SearchIndexStatus>, Problem> {
        if self.index.status().building.is_none() {
            self.index.rebuild();
        }
        Ok(Answer::new(&self.index.status().into()))
    }
}
