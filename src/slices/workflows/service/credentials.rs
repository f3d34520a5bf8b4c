//! Credentials in definitions: named secrets must exist, and steps must not contain literal credentials.

use std::sync::Arc;

use serde_json::Value;

use tenantd_base::{fault::Fault, id::TenantId, vocabulary::nearest};
use tenantd_secrets as secrets;
use tenantd_store::Read;

use super::{
    super::{
        definition::{Definition, Step},
        error::WorkflowError,
    },
    Service,
};

impl Service {
    /// Refuses names of unknown secrets, and literal credentials in steps. Literals of the previous version are allowed, so that a
    /// caller who changes something else does not need to know them.
    pub(super) fn check_credentials(
        &self,
        tx: &impl Read,
        tenant: TenantId,
        definition: &Definition,
        before: Option<&Definition>,
    ) -> Result<(), WorkflowError> {
        let mut faults = Vec::new();
        let known = secrets::names(tx, tenant)?;
        for (name, pointer) in definition.secrets().filter(|(name, _)| !known.iter().any(|known| known == name)) {
            let fault = Fault::new(pointer, "unknown_secret", format!("there is no secret with the name {name}"));
            faults.push(fault.with_suggestion(nearest(name, known.iter().map(String::as_str))));
        }
        let kept: Vec<Value> = before.into_iter().flat_map(|before| self.literals(before)).map(|(_, value)| value).collect();
        for (pointer, _) in self.literals(definition).into_iter().filter(|(_, value)| !kept.contains(value)) {
            let message =
                "a definition would store this credential unencrypted; create a secret and write {{ secrets.NAME }} instead";
            faults.push(Fault::new(pointer, "literal_credential", message));
        }
        if faults.is_empty() { Ok(()) } else { Err(WorkflowError::Invalid(faults)) }
    }

    /// Literal credentials in steps, and their pointers.
    fn literals(&self, definition: &Definition) -> Vec<(String, Value)> {
        let of_step = |step: &Arc<Step>| {
            let pointers =
                self.planners.get(&step.type_name).map(|known| known.literal_credentials(&step.with)).unwrap_or_default();
            let own = pointers.into_iter().filter(|pointer| !step.secrets.iter().any(|text| text.pointer == *pointer));
            let found =
                own.filter_map(|pointer| Some((format!("{}/with{pointer}", step.pointer), step.with.pointer(&pointer)?.clone())));
            found.collect::<Vec<_>>()
        };
        definition.steps.iter().flat_map(of_step).collect()
    }
}

#[cfg(test)]
mod tests;
