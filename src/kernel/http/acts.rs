//! Events of actions that leave no other trace: exports, and actions of the operator over the admin socket. No record mentions
//! them, but an audit needs to know who did them.
//!
//! **Invariant:** the event commits before the first byte of an export is sent and before the operator's action begins. If the
//! event cannot be written, the action does not happen. **Invariant:** the event holds nothing of the request body, because bodies
//! can hold secrets.

use http::Method;
use poem_openapi::Object;
use serde::Serialize;
use serde_json::{Map, Value, value::to_raw_value};

use tenantd_base::{
    access::{AUDIT_READ, Identity, Principal},
    id::RequestId,
};
use tenantd_store::{
    Store, WriteTx,
    events::{self, Draft, EventKind},
};

use super::{context::RequestContext, need::Allowed, openapi, problem::Problem};

pub const EVENTS: &[&EventKind] = &[&EXPORT_STARTED, &OPERATOR_ACTED];

static EXPORT_STARTED: EventKind = EventKind {
    name: "export.started",
    summary: "An export of the tenant's records was started.",
    subject: "export",
    schema: "Export",
    reads: AUDIT_READ,
    has_changes: false,
};
static OPERATOR_ACTED: EventKind = EventKind {
    name: "operator.acted",
    summary: "The operator performed an action over the admin socket. The event is in the platform tenant's feed.",
    subject: "act",
    schema: "OperatorAct",
    reads: AUDIT_READ,
    has_changes: false,
};

/// An export of records that left the service in one piece.
#[derive(Debug, Object, Serialize)]
struct Export {
    /// The request that started the export.
    request_id: RequestId,
    /// What was exported, such as `tickets`.
    records: String,
    /// The format: `text/csv`, `application/x-ndjson`, or `application/json` for a signed statement.
    media_type: String,
    /// The path and the query of the request, including the filters.
    target: String,
}

/// An action of the operator over the admin socket.
#[derive(Debug, Object, Serialize)]
struct OperatorAct {
    /// The request that performed the action.
    request_id: RequestId,
    /// The id of the operation, such as `create_backup`.
    operation: String,
    /// The path of the request.
    path: String,
}

/// The schemas of the event data. No operation uses them.
pub fn schemas() -> Map<String, Value> {
    openapi::schemas::<Export>().into_iter().chain(openapi::schemas::<OperatorAct>()).collect()
}

/// Writes the event that an export begins. `records` names what is exported. Refuses a request that another site sends with
/// somebody's session.
pub async fn export_started<R>(store: &Store, auth: &Allowed<R>, records: &str, media_type: &str) -> Result<(), Problem> {
    let context = &auth.context;
    context.ensure_own_site()?;
    let export = Export {
        request_id: context.request_id,
        records: records.to_owned(),
        media_type: media_type.to_owned(),
        target: context.target().to_owned(),
    };
    append_event(store, context, &auth.principal, &EXPORT_STARTED, &export).await
}

/// Writes the event that the operator acts, if the caller is the local operator and the request changes something.
pub(super) async fn operator_acts(store: &Store, context: &RequestContext) -> Result<(), Problem> {
    let operator = context.principal.as_deref().filter(|principal| principal.identity == Identity::LocalOperator);
    match operator {
        Some(principal) if context.method != Method::GET && context.path().starts_with("/internal/admin/") => {
            let act = OperatorAct {
                request_id: context.request_id,
                operation: context.operation_id.to_string(),
                path: context.path().to_owned(),
            };
            append_event(store, context, principal, &OPERATOR_ACTED, &act).await
        }
        _ => Ok(()),
    }
}

async fn append_event(
    store: &Store,
    context: &RequestContext,
    principal: &Principal,
    kind: &'static EventKind,
    data: &impl Serialize,
) -> Result<(), Problem> {
    let data = to_raw_value(data).map_err(Problem::internal)?;
    let (intent, id) = (context.intent(principal), context.request_id.to_string());
    let append = move |tx: &mut WriteTx| events::append(tx, &mut intent.begin(), &Draft::new(kind, id.clone(), 1, &data)).map(drop);
    Ok(store.write(append).await?)
}
