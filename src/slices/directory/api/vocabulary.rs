//! The words of the directory as JSON and as parameters: the model's own types, with their schemas.

use tenantd_http::wire::word_type;

use super::super::model::AgentStatus;

word_type! {
    AgentStatus, "AgentStatus", "`offline` and `overdue` follow from how long ago the agent was last seen; `never` from its never having been.";
}
