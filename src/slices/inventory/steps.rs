//! The workflow step `inventory.report`: a small report of the asset inventory. It changes nothing but visits every device, so it
//! runs as a call of its own and does not block the writer.

use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Reach, Scope},
    clock::Timestamp,
    id::TenantId,
};
use tenantd_directory::devices::QueryContext;
use tenantd_store::{
    ReadTx,
    steps::{Call, CallFuture, LocalError, Planned, Planning, RemoteStep, StepDone, StepError, StepType},
};

use super::{Inventory, api::forms, error::InventoryError};

#[derive(Clone, Debug)]
pub(super) struct ReportInventory(pub(super) Inventory);

impl ReportInventory {
    fn report(&self, tx: &ReadTx, tenant_id: TenantId, now: Timestamp, with: &Value) -> Result<Value, LocalError> {
        let context = QueryContext { tenant_id, reach: Reach::Everything, now, directory: self.0.directory };
        Ok(forms::run(tx, context, with)?)
    }
}

impl From<InventoryError> for LocalError {
    fn from(error: InventoryError) -> Self {
        match error {
            InventoryError::Store(error) => Self::Store(error),
            InventoryError::Invalid(faults) => {
                let messages: Vec<String> = faults.iter().map(|fault| format!("/{fault}")).collect();
                Self::Step(StepError::new("invalid_input", messages.join("; ")))
            }
            InventoryError::Written(_) => Self::Step(StepError::new("report_failed", error.to_string())),
        }
    }
}

impl StepType for ReportInventory {
    fn name(&self) -> &'static str {
        "inventory.report"
    }

    fn summary(&self) -> &'static str {
        "Reports on devices, with the filters of the asset inventory. The output has `count`, and up to `limit` rows in `data`. With \
         `group_by`, it has the 100 most frequent values in `groups` instead; with `summary`, also `totals`. `truncated` is true if \
         more devices match than there are rows."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::InventoryRead])
    }

    fn schema(&self) -> Value {
        forms::schema()
    }

    fn example(&self) -> Value {
        json!({"organization_id": ["{{ inputs.organization_id }}"], "patch_status": ["failing"], "limit": 10})
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let act = planning.intent.begin();
        let report = self.report(tx, act.tenant_id, act.now, with)?;
        let summary = format!("would report on {} devices", report.get("count").unwrap_or(&Value::Null));
        Ok(Planned { output: Some(report), summary })
    }
}

impl RemoteStep for ReportInventory {
    fn call(&self, call: Call) -> CallFuture {
        let this = self.clone();
        Box::pin(async move {
            let (store, now) = (this.0.store.clone(), this.0.clocks.now(call.tenant_id));
            let output = store.scan_for(call.tenant_id, move |tx| this.report(tx, call.tenant_id, now, &call.with)).await?;
            Ok(StepDone { output, effects: Vec::new() })
        })
    }
}
