//! The workflow steps `backup.config.update` and `backup.posture`.

use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Scope},
    fault::{Fault, listed},
    versions::ExpectedVersion,
};
use tenantd_store::{
    ReadTx, WriteTx,
    events::Act,
    steps::{Call, CallFuture, Effect, LocalError, LocalStep, Planned, Planning, RemoteStep, StepDone, StepError, StepType},
};

use super::{Backups, api::forms, error::BackupError, service::Service};

impl From<BackupError> for LocalError {
    fn from(error: BackupError) -> Self {
        let step = |code: &str, message: String| Self::Step(StepError::new(code, message));
        match error {
            BackupError::Store(error) => Self::Store(error),
            BackupError::NotFound => step("scope_not_found", "organization or device not found".to_owned()),
            BackupError::Invalid(faults) => {
                let faults: Vec<Fault> = faults.into_iter().map(|fault| fault.below("/config")).collect();
                step("invalid_input", listed(&faults))
            }
            // A concurrent change. A retry sees it.
            BackupError::Stale(_) => Self::Step(StepError::retryable("version_conflict", error.to_string())),
            BackupError::LimitReached { .. } => step("limit_reached", error.to_string()),
            BackupError::TenantWideSettings | BackupError::Ticket(_) | BackupError::Signing(_) | BackupError::Event(_) => {
                step("backup_failed", error.to_string())
            }
        }
    }
}

/// Replaces the settings of a scope.
#[derive(Debug)]
pub(super) struct UpdateConfig(pub(super) Backups);

impl StepType for UpdateConfig {
    fn name(&self) -> &'static str {
        "backup.config.update"
    }

    fn summary(&self) -> &'static str {
        "Replaces the backup configuration of the tenant, an organization or a device. Outputs the own and the effective configuration."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::BackupRead, Scope::BackupWrite])
    }

    fn schema(&self) -> Value {
        forms::config_schema()
    }

    fn example(&self) -> Value {
        json!({"scope": "{{ inputs.organization_id }}", "config": {"notifications": {"ticket_on": ["failed"], "ticket_priority": "high"}}})
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let (scope, own) = forms::read_config(with)?;
        let act = planning.intent.begin();
        let planned = Service::plan_config(tx, &act, &ExpectedVersion::Unspecified, scope, &own)?;
        let devices = planned.impact.as_ref().map_or(0, |impact| impact.devices);
        let summary = format!("would change the backup configuration of {scope}, which affects {devices} devices");
        Ok(Planned { output: Some(forms::show_config(planned)?), summary })
    }
}

impl LocalStep for UpdateConfig {
    fn apply(&self, tx: &mut WriteTx, act: &mut Act, with: &Value) -> Result<StepDone, LocalError> {
        let (scope, own) = forms::read_config(with)?;
        let replaced = self.0.service.replace_config(tx, act, &ExpectedVersion::Unspecified, scope, &own)?;
        let effects = vec![Effect { kind: "backup_config", id: scope.to_string() }];
        Ok(StepDone { output: forms::show_config(replaced)?, effects })
    }
}

/// Reports the backup status of organizations. It changes nothing but reads all organizations, so it runs as a separate call and
/// does not block the writer.
#[derive(Debug)]
pub(super) struct ReadPosture(pub(super) Backups);

impl StepType for ReadPosture {
    fn name(&self) -> &'static str {
        "backup.posture"
    }

    fn summary(&self) -> &'static str {
        "Reports the backup status of organizations, the worst first. Outputs `count`, up to `limit` rows in `data`, and a `summary` \
         over all matches."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::BackupRead])
    }

    fn schema(&self) -> Value {
        forms::posture_schema()
    }

    fn example(&self) -> Value {
        json!({"organization_id": ["{{ inputs.organization_id }}"], "limit": 1})
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let act = planning.intent.begin();
        let report = forms::posture(tx, act.tenant_id, act.now, with)?;
        let summary = format!("would report on {} organizations", report.get("count").unwrap_or(&Value::Null));
        Ok(Planned { output: Some(report), summary })
    }
}

impl RemoteStep for ReadPosture {
    fn call(&self, call: Call) -> CallFuture {
        let backups = self.0.clone();
        Box::pin(async move {
            let now = backups.clocks.now(call.tenant_id);
            let read = backups.store.scan_for(call.tenant_id, move |tx| forms::posture(tx, call.tenant_id, now, &call.with)).await;
            Ok(StepDone { output: read.map_err(LocalError::from)?, effects: Vec::new() })
        })
    }
}
