//! Reads the clouds now, as an operation in the background.

use http::Method;
use maud::{Markup, html};
use serde_json::Value;

use super::{OPERATIONS_PATH, VMS_API, vms};
use crate::{
    desk::{Reply, organizations::is_correctable},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const PATH: &str = "/vms/refresh";

/// The button that syncs one provider, or all of them.
pub(super) fn button(text: &str, provider: Option<&str>, visitor: &Visitor<'_>) -> Markup {
    let wanted = provider.map_or_else(Query::default, |id| Query::default().with("provider_id", id));
    html! {
        form method="post" action=(wanted.at(PATH)) {
            (visitor.tokens())
            button.button { (text) }
        }
    }
}

/// Starts a sync of the providers that the query names, or of all, and shows the operation.
pub(super) async fn start(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let asked = visitor.query();
    let providers = asked.pairs().filter(|(name, _)| *name == "provider_id").map(|(_, id)| id);
    let query = providers.fold(Query::default(), |query, id| query.and("provider_id", id));
    let target = query.with("refresh", "true").with("limit", "1").at(VMS_API);
    match visitor.act(Method::GET, target, None).await {
        Ok(answer) => Ok(Reply::SeeOther(operation_path(&answer.body))),
        Err(refusal) if is_correctable(&refusal) => vms::page(&visitor, Some(refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

/// The page of the operation that an answer contains.
pub(super) fn operation_path(answer: &Value) -> String {
    let id = answer.get("operation").and_then(|operation| operation.get("id")).and_then(Value::as_str);
    format!("{OPERATIONS_PATH}/{}", id.unwrap_or_default())
}
