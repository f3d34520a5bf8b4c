//! `/internal/admin/tenants/{id}/workflows`: lists and disables the workflows of a tenant, for callers of the admin socket.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi, Tags, param::Path};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    clock::Timestamp,
    id::{TenantId, WorkflowId},
};
use tenantd_http::{
    idempotency::IdempotencyKey,
    need::{Allowed, LocalOperator},
    problem::{Code, Problem},
    reply::{Answer, Changed},
};

use super::super::{Core, error::WorkflowError, model, repo};

#[derive(Tags)]
enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

const MAX_LISTED: usize = 10_000;

/// A workflow, without its definition.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct TenantWorkflow {
    id: WorkflowId,
    /// The key of the workflow, unique in the tenant unless it is archived.
    key: String,
    name: String,
    /// Whether its triggers start runs.
    enabled: bool,
    /// The kinds of events that start runs.
    events: Vec<String>,
    /// The next scheduled start. Absent without one.
    next_run_at: Option<Timestamp>,
    /// When the workflow was archived. Absent if it is not.
    archived_at: Option<Timestamp>,
    updated_at: Timestamp,
    version: u64,
}

impl From<model::Workflow> for TenantWorkflow {
    fn from(workflow: model::Workflow) -> Self {
        let live = workflow.is_live();
        Self {
            id: workflow.id,
            key: workflow.key,
            name: workflow.name,
            enabled: workflow.enabled,
            events: workflow.events,
            next_run_at: workflow.next_fire_at.filter(|_| live),
            archived_at: workflow.archived_at,
            updated_at: workflow.updated_at,
            version: workflow.version,
        }
    }
}

#[derive(Debug, Object, Serialize)]
struct TenantWorkflowList {
    data: Vec<TenantWorkflow>,
}

pub(crate) struct AdminWorkflowsApi {
    pub(crate) core: Arc<Core>,
}

impl AdminWorkflowsApi {
    fn ensure_tenant(&self, id: TenantId) -> Result<(), Problem> {
        let tenant = self.core.tenants.cached(id)?;
        if tenant.is_some() { Ok(()) } else { Err(Problem::plain(Code::NotFound)) }
    }
}

#[OpenApi(prefix_path = "/internal/admin/tenants", tag = "Area::Administration")]
impl AdminWorkflowsApi {
    /// List the workflows of a tenant
    ///
    /// Returns at most 10,000 workflows, oldest first, without their definitions.
    #[oai(path = "/:id/workflows", method = "get", operation_id = "list_tenant_workflows")]
    async fn list_tenant_workflows(
        &self,
        _auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
    ) -> Result<Answer<TenantWorkflowList>, Problem> {
        self.ensure_tenant(id.0)?;
        let found = self.core.store.scan(move |tx| repo::workflows::of_tenant(tx, id.0, MAX_LISTED)).await?;
        Ok(Answer::new(&TenantWorkflowList { data: found.into_iter().map(TenantWorkflow::from).collect() }))
    }

    /// Disable a workflow of a tenant
    ///
    /// Disables the workflow: nothing starts it any more. Unfinished runs continue; suspend the tenant to stop those too. tenantd
    /// evaluates nothing of the definition, so this works for every workflow. Disabling it again has no effect.
    #[oai(path = "/:id/workflows/:workflow_id/disable", method = "post", operation_id = "disable_tenant_workflow")]
    async fn disable_tenant_workflow(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        workflow_id: Path<WorkflowId>,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<TenantWorkflow>, Problem> {
        self.ensure_tenant(id.0)?;
        let service = self.core.service.clone();
        idempotency_key
            .run(auth.context.intent_in(&auth.principal, id.0), move |tx, act| {
                let workflow = TenantWorkflow::from(service.disable(tx, act, workflow_id.0)?);
                Ok::<_, WorkflowError>(Changed::new(&workflow, workflow.version))
            })
            .await
    }
}
