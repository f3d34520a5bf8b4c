//! Events of what leaves no other trace: exports, and what the operator does over the admin socket. No record tells of either, and
//! somebody will want to know who did it.
//!
//! **Invariant:** the event commits before the first byte of an export goes out, and before the operator's act begins; what cannot be told is
//! not done. **Invariant:** nothing of a body is in it: bodies can hold secrets.

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
    summary: "Someone began to export records of the tenant.",
    subject: "export",
    schema: "Export",
    reads: AUDIT_READ,
    has_changes: false,
};
static OPERATOR_ACTED: EventKind = EventKind {
    name: "operator.acted",
    summary: "The operator did something over the admin socket. In the platform tenant's feed.",
    subject: "act",
    schema: "OperatorAct",
    reads: AUDIT_READ,
    has_changes: false,
};

/// Records that left the service in one piece.
#[derive(Debug, Object, Serialize)]
struct Export {
    /// The request that asked for it.
    request_id: RequestId,
    /// What was exported, such as `tickets`.
    records: String,
    /// `text/csv`, `application/x-ndjson`, or `application/json` for a signed statement.
    media_type: String,
    /// Path and query, with the filters.
    target: String,
}

/// Something that the operator did over the admin socket.
#[derive(Debug, Object, Serialize)]
struct OperatorAct {
    /// The request that did it.
    request_id: RequestId,
    /// The operation, such as `create_backup`.
    operation: String,
    /// The path of the request.
    path: String,
}

/// The schemas of what the events hold, which no operation has.
pub fn schemas() -> Map<String, Value> {
    openapi::schemas::<Export>().into_iter().chain(openapi::schemas::<OperatorAct>()).collect()
}

/// Tells that an export begins. `records` says of what. Another site cannot begin one with somebody's session.
pub async fn export_started<R>(store: &Store, auth: &Allowed<R>, records: &str, media_type: &str) -> Result<(), Problem> {
    let context = &auth.context;
    context.ensure_own_site()?;
    let export = Export {
        request_id: context.request_id,
        records: records.to_owned(),
        media_type: media_type.to_owned(),
        target: context.target().to_owned(),
    };
    tell(store, context, &auth.principal, &EXPORT_STARTED, &export).await
}

/// Tells that the operator does something, if it is that.
pub(super) async fn operator_acts(store: &Store, context: &RequestContext) -> Result<(), Problem> {
    let operator = context.principal.as_deref().filter(|principal| principal.identity == Identity::LocalOperator);
    match operator {
        Some(principal) if context.method != Method::GET && context.path().starts_with("/internal/admin/") => {
            let act = OperatorAct {
                request_id: context.request_id,
                operation: context.operation_id.to_string(),
                path: context.path().to_owned(),
            };
            tell(store, context, principal, &OPERATOR_ACTED, &act).await
        }
        _ => Ok(()),
    }
}

async fn tell(
    store: &Store,
    context: &RequestContext,
    principal: &Principal,
    kind: &'static EventKind,
    told: &impl Serialize,
) -> Result<(), Problem> {
    let told = to_raw_value(told).map_err(Problem::internal)?;
    let (intent, id) = (context.intent(principal), context.request_id.to_string());
    let append = move |tx: &mut WriteTx| events::append(tx, &mut intent.begin(), &Draft::new(kind, id.clone(), 1, &told)).map(drop);
    Ok(store.write(append).await?)
}
