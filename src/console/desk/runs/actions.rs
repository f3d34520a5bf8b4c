//! What the forms of a run do: cancel, pause, resume, retry, approve and reject.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_http::{pages::ApiAnswer, problem::Code};

use super::{
    APPROVALS,
    decision::{BACK, Decider, has_happened, late},
    one,
    record::path,
};
use crate::{
    desk::{Reply, tickets::lines},
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// The run that an action returns. `retry` returns a new one.
#[derive(Debug, Deserialize)]
struct Steered {
    id: String,
}

/// The form has no version: a run that goes on changes all the time, and must be stopped anyway.
pub(super) async fn cancel(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let outcome = visitor.act(Method::DELETE, one::target(&visitor), None).await;
    finish(&visitor, "cancel", outcome).await
}

pub(super) async fn steer(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let action = fields.get("action");
    let outcome = match action {
        // Sent again, a retry would start another run. The others find that they have happened.
        "retry" => visitor.act_once(Method::PATCH, one::target(&visitor), json!({"action": action})).await,
        "pause" | "resume" => visitor.act(Method::PATCH, one::target(&visitor), Some(json!({"action": action}))).await,
        _ => Err(Refusal::new(Code::ValidationFailed, "Choose Pause, Resume or Retry.")),
    };
    finish(&visitor, action, outcome).await
}

pub(super) async fn decide(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let action = fields.get("action");
    let outcome = match action {
        "approve" | "reject" => {
            let mut body = fields.filled(&["action", "step", "comment"]);
            if let Some(comment) = body.get_mut("comment") {
                *comment = lines(fields.get("comment")).into();
            }
            visitor.act(Method::PATCH, one::target(&visitor), Some(Value::Object(body))).await
        }
        _ => Err(Refusal::new(Code::ValidationFailed, "Choose Approve or Reject.")),
    };
    finish(&visitor, action, outcome).await
}

/// Leads to the run that is the outcome, or shows the run with what was refused.
async fn finish(visitor: &Visitor<'_>, action: &str, outcome: Result<ApiAnswer, Refusal>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let page = |id: &str| if fields.get(BACK).is_empty() { path(id) } else { APPROVALS.to_owned() };
    match outcome {
        Ok(answer) => {
            let run: Steered = parsed(answer.body)?;
            Ok(Reply::SeeOther(page(&run.id)))
        }
        Err(mut refusal) if refusal.status.is_client_error() => {
            if matches!(refusal.status, StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED) {
                let run = one::run(visitor).await?;
                if has_happened(&run, action, &fields, &Decider::of(visitor).id) {
                    return Ok(Reply::SeeOther(page(&run.id)));
                }
                if let Some(late) = late(&run, &fields, visitor.clock) {
                    refusal.detail = late;
                } else if refusal.is(Code::VersionConflict) {
                    "The run changed after you opened the page. Look at it as it is now, then decide again."
                        .clone_into(&mut refusal.detail);
                }
            }
            one::page(visitor, Some(&refusal)).await
        }
        Err(refusal) => Err(refusal),
    }
}
