//! The step `inventory.report` of workflows: a small report of the asset inventory. It changes nothing, but looks at every device: it is
//! a call of its own, and does not keep the writer waiting.

use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Reach, Scope},
    clock::Timestamp,
    id::TenantId,
};
use tenantd_directory::devices::Asker;
use tenantd_store::{
    ReadTx,
    steps::{Call, CallFuture, LocalError, Planned, Planning, RemoteStep, StepDone, StepError, StepType},
};

use super::{Inventory, api::forms, error::InventoryError};

#[derive(Clone, Debug)]
pub(super) struct ReportInventory(pub(super) Inventory);

impl ReportInventory {
    fn report(&self, tx: &ReadTx, tenant_id: TenantId, now: Timestamp, with: &Value) -> Result<Value, LocalError> {
        let asker = Asker { tenant_id, reach: Reach::Everything, now, directory: self.0.directory };
        Ok(forms::run(tx, asker, with)?)
    }
}

impl From<InventoryError> for LocalError {
    fn from(error: InventoryError) -> Self {
        match error {
            InventoryError::Store(error) => Self::Store(error),
            InventoryError::Invalid(faults) => {
                let told: Vec<String> = faults.iter().map(|fault| format!("/{fault}")).collect();
                Self::Step(StepError::new("invalid_input", told.join("; ")))
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
        "Reports on devices, by the filters of the asset inventory. Its output has `count`, and up to `limit` rows in `data`, or with \
         `group_by` counts in `groups`, the 100 most frequent; with `summary` also `totals`. `truncated` tells that there are more \
         devices than rows."
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
