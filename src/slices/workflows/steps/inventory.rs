//! A step that makes a small report of the asset inventory. It changes nothing, but looks at every device: it is a call of its own, and
//! does not keep the writer waiting.

use serde_json::{Value, json};

use tenantd_base::access::{Grants, Scope};
use tenantd_inventory::{Inventory, InventoryError};
use tenantd_store::ReadTx;

use super::{Call, CallFuture, LocalError, Planned, Planning, RemoteStep, StepDone, StepError, StepType};

#[derive(Clone, Debug)]
pub struct ReportInventory(pub Inventory);

impl From<InventoryError> for LocalError {
    fn from(error: InventoryError) -> Self {
        match error {
            InventoryError::Store(error) => Self::Store(error),
            InventoryError::Invalid(faults) => {
                let told: Vec<String> = faults.iter().map(|fault| format!("/{}: {}", fault.parameter, fault.message)).collect();
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
        Inventory::form_schema()
    }

    fn example(&self) -> Value {
        json!({"organization_id": ["{{ inputs.organization_id }}"], "patch_status": ["failing"], "limit": 10})
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let act = planning.intent.begin();
        let report = self.0.report_on(tx, act.tenant_id, act.now, with)?;
        let summary = format!("would report on {} devices", report.get("count").unwrap_or(&Value::Null));
        Ok(Planned { output: Some(report), summary })
    }
}

impl RemoteStep for ReportInventory {
    fn call(&self, call: Call) -> CallFuture {
        let inventory = self.0.clone();
        Box::pin(async move {
            let reported = inventory.report(call.tenant_id, call.with).await.map_err(LocalError::from);
            match reported {
                Ok(output) => Ok(StepDone { output, effects: Vec::new() }),
                Err(LocalError::Step(error)) => Err(error),
                Err(LocalError::Store(error)) => Err(StepError::retryable("store_failed", error.to_string())),
            }
        })
    }
}
