//! `/internal/admin/audit`: the newest checkpoints of all chains, and their check, for whoever may open the admin socket. Nothing of what
//! tenants did is shown.

use poem_openapi::{Object, OpenApi, Tags};
use serde::Serialize;

use tenantd_base::secrets::PublicKey;
use tenantd_http::{
    input::OptionalBody,
    need::{Allowed, LocalOperator},
    problem::{FieldError, Problem},
    reply::Answer,
};
use tenantd_store::{Store, events::ConsumerTask};

use super::{
    super::{self as audit, recorder::Recorder},
    wire::{AuditCheckpoint, AuditVerification},
};

#[derive(Tags)]
enum Area {
    /// What only the admin socket serves.
    Administration,
}

/// The newest checkpoint of every chain.
#[derive(Debug, Object, Serialize)]
struct AuditCheckpoints {
    data: Vec<AuditCheckpoint>,
}

/// What the chains are compared with.
#[derive(Debug, Object)]
struct VerifyAudit {
    /// Checkpoints that were kept elsewhere.
    #[oai(validator(max_items = 10000))]
    checkpoints: Option<Vec<AuditCheckpoint>>,
}

pub(crate) struct AdminAuditApi {
    pub(crate) store: Store,
    pub(crate) recorder: ConsumerTask<Recorder>,
    pub(crate) public_key: PublicKey,
}

#[OpenApi(prefix_path = "/internal/admin/audit", tag = "Area::Administration")]
impl AdminAuditApi {
    /// Show the newest checkpoint of every tenant's audit
    ///
    /// Kept elsewhere, they prove later that nothing was changed or removed.
    #[oai(path = "/checkpoints", method = "get", operation_id = "list_audit_checkpoints")]
    async fn list_audit_checkpoints(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<AuditCheckpoints>, Problem> {
        self.recorder.catch_up().await?;
        let found = self.store.scan(audit::checkpoints).await?;
        let data = found.iter().map(|checkpoint| AuditCheckpoint::new(checkpoint, &self.public_key)).collect();
        Ok(Answer::new(&AuditCheckpoints { data }))
    }

    /// Check the audit of every tenant
    ///
    /// Every hash, every signature, the checkpoints that are sent along, and the log as far as it reaches. What is wrong is listed in `breaks`.
    #[oai(path = "/verify", method = "post", operation_id = "verify_audit")]
    async fn verify_audit(
        &self,
        _auth: Allowed<LocalOperator>,
        body: OptionalBody<VerifyAudit>,
    ) -> Result<Answer<AuditVerification>, Problem> {
        let mut known = Vec::new();
        for (place, checkpoint) in body.0.checkpoints.into_iter().flatten().enumerate() {
            let wrong = |reason| Problem::invalid(vec![FieldError::pointer(format!("/checkpoints/{place}"), "wrong_form", reason)]);
            known.push(checkpoint.checkpoint().map_err(wrong)?);
        }
        self.recorder.catch_up().await?;
        let key = self.public_key;
        let verified = self.store.scan(move |tx| audit::verify(tx, &key, &known)).await?;
        Ok(Answer::new(&verified.into()))
    }
}
