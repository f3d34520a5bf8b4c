//! The catalog of step types. Slices register them; the engine knows none by name.
//!
//! **Invariant:** code that holds [`Planners`] can describe, check and plan steps on a snapshot. It cannot reach code that changes
//! data or calls other servers. A dry run holds nothing else.

mod http_request;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use tenantd_base::fault::{self, Fault};
use tenantd_http::{
    problem::{FieldError, Place},
    schema::BodySchema,
};
use tenantd_store::steps::{Applier, StepEntry, StepType};

use super::language::is_template;

pub(super) use http_request::HttpRequest;

/// The error code of a step or run that exceeds a quota of the tenant.
pub(super) const QUOTA_EXCEEDED: &str = "quota_exceeded";

#[derive(Debug)]
struct Registered {
    step: Arc<dyn StepType>,
    schema: BodySchema,
}

/// Describes, checks and plans the step types without running any.
#[derive(Clone, Debug, Default)]
pub(super) struct Planners(Arc<BTreeMap<&'static str, Registered>>);

/// Runs the steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Appliers(Arc<BTreeMap<&'static str, Applier>>);

/// Splits the registered steps into planners and appliers.
pub(super) fn catalogue(entries: impl IntoIterator<Item = StepEntry>) -> Result<(Planners, Appliers), String> {
    let (mut planners, mut appliers) = (BTreeMap::new(), BTreeMap::new());
    for StepEntry { step, applier } in entries {
        let (name, schema) = (step.name(), compile(&step.schema())?);
        planners.insert(name, Registered { step, schema });
        appliers.insert(name, applier);
    }
    Ok((Planners(Arc::new(planners)), Appliers(Arc::new(appliers))))
}

/// Compiles a schema that contains its own `components`.
pub(super) fn compile(schema: &Value) -> Result<BodySchema, String> {
    let components = schema.get("components").cloned().unwrap_or_else(|| json!({}));
    BodySchema::new(schema, &components)
}

impl Planners {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<dyn StepType>> {
        self.0.get(name).map(|registered| &registered.step)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<dyn StepType>> {
        self.0.values().map(|registered| &registered.step)
    }

    /// Returns everything that is wrong with the `with` of a step of this type.
    pub(super) fn check(&self, name: &str, with: &Value) -> Vec<Fault> {
        self.0.get(name).map(|registered| faults(&registered.schema, with)).unwrap_or_default()
    }
}

impl Appliers {
    pub(super) fn get(&self, name: &str) -> Option<&Applier> {
        self.0.get(name)
    }
}

/// Returns everything that is wrong with a value. Templates are not checked, because their values are not known yet.
pub(super) fn faults(schema: &BodySchema, value: &Value) -> Vec<Fault> {
    let errors = schema.check(value).err().map(|found| found.errors).unwrap_or_default();
    errors.into_iter().filter_map(|error| fault(error, value)).collect()
}

fn fault(error: FieldError, value: &Value) -> Option<Fault> {
    let FieldError { place: Place::Pointer(pointer), code, message, allowed, suggestion, depends_on } = error else { return None };
    let at = value.pointer(&pointer).and_then(Value::as_str);
    if at.is_some_and(is_template) {
        return None;
    }
    let place = fault::Place::Pointer(pointer);
    let (message, suggestion) = (message.into(), suggestion.map(Into::into));
    Some(Fault { place, code, message, allowed: allowed.into(), suggestion, depends_on })
}
