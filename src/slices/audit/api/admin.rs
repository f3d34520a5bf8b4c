//! `/internal/admin/audit`: the newest checkpoints of all chains, and their verification, for callers with access to the admin
//! socket. It does not show any audit records of tenants.

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
    /// Operations that only the admin socket serves.
    Administration,
}

/// The newest checkpoint of every chain.
#[derive(Debug, Object, Serialize)]
struct AuditCheckpoints {
    /// One checkpoint per tenant.
    data: Vec<AuditCheckpoint>,
}

/// Checkpoints to compare the chains with.
#[derive(Debug, Object)]
struct VerifyAudit {
    /// Checkpoints that you stored elsewhere. Absent: none.
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
    /// List the newest audit checkpoints
    ///
    /// Returns the newest checkpoint of every tenant's audit. Store checkpoints elsewhere to prove later that no record was changed
    /// or removed.
    #[oai(path = "/checkpoints", method = "get", operation_id = "list_audit_checkpoints")]
    async fn list_audit_checkpoints(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<AuditCheckpoints>, Problem> {
        self.recorder.catch_up().await?;
        let found = self.store.scan(audit::checkpoints).await?;
        let data = found.iter().map(|checkpoint| AuditCheckpoint::new(checkpoint, &self.public_key)).collect();
        Ok(Answer::new(&AuditCheckpoints { data }))
    }

    /// Verify the audit of every tenant
    ///
    /// Checks every hash and every signature, and compares the chains with the checkpoints that you send and with the events that
    /// the log still has. `breaks` lists all problems.
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
