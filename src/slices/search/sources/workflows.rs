//! Workflows: found by name and key.

use tenantd_base::id::{TenantId, WorkflowId};
use tenantd_store::{ReadTx, StoreError};
use tenantd_workflows::{self as workflows, Workflow};

use super::{
    super::model::{Document, Kind, RecordId, State},
    After, Scanned, Source, scanned,
};

pub(super) struct Workflows;

fn document(workflow: Workflow) -> Document {
    let state = match (workflow.archived_at.is_some(), workflow.enabled) {
        (true, _) => State::Archived,
        (false, true) => State::Enabled,
        (false, false) => State::Disabled,
    };
    Document {
        tenant_id: workflow.tenant_id,
        kind: Kind::Workflow,
        id: *workflow.id.as_bytes(),
        shown_id: workflow.id.to_string(),
        name: workflow.name,
        subtitle: Some(workflow.key.clone()),
        texts: Vec::new(),
        identifiers: vec![("key", workflow.key)],
        attributes: Vec::new(),
        software: Vec::new(),
        organization_id: None,
        state: Some(state),
        updated_at: workflow.updated_at,
    }
}

impl Source for Workflows {
    fn kind(&self) -> Kind {
        Kind::Workflow
    }

    fn subject(&self) -> &'static str {
        "workflow"
    }

    fn read_id(&self, text: &str) -> Option<RecordId> {
        text.parse::<WorkflowId>().ok().map(|id| *id.as_bytes())
    }

    fn load(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Option<Document>, StoreError> {
        Ok(workflows::workflow(tx, tenant, WorkflowId::from_bytes(id))?.map(document))
    }

    fn scan(&self, tx: &ReadTx, after: Option<After>, limit: usize) -> Result<Scanned, StoreError> {
        let after = after.map(|(tenant, id)| (tenant, WorkflowId::from_bytes(id.to_be_bytes())));
        let records = workflows::workflows_after(tx, after, limit)?;
        scanned(records, limit, |one| (one.tenant_id, u128::from_be_bytes(*one.id.as_bytes())), |one| Ok(Some(document(one))))
    }
}
