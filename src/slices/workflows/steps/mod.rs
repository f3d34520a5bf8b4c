//! The catalogue of the types of steps that do something. Slices register them; the engine knows none of them by name.
//!
//! **Invariant:** whoever holds [`Planners`] can describe, check and plan steps, on a snapshot; there is no way from there to what changes
//! anything or calls out. A dry run holds nothing else.

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

/// The code of a step or a run that the tenant has no quota left for.
pub(super) const QUOTA_EXCEEDED: &str = "quota_exceeded";

#[derive(Debug)]
struct Registered {
    step: Arc<dyn StepType>,
    schema: BodySchema,
}

/// What can be known of the types of steps without doing any.
#[derive(Clone, Debug, Default)]
pub(super) struct Planners(Arc<BTreeMap<&'static str, Registered>>);

/// What does them.
#[derive(Clone, Debug, Default)]
pub(super) struct Appliers(Arc<BTreeMap<&'static str, Applier>>);

/// Separates what plans the registered steps from what does them.
pub(super) fn catalogue(entries: impl IntoIterator<Item = StepEntry>) -> Result<(Planners, Appliers), String> {
    let (mut planners, mut appliers) = (BTreeMap::new(), BTreeMap::new());
    for StepEntry { step, applier } in entries {
        let (name, schema) = (step.name(), compile(&step.schema())?);
        planners.insert(name, Registered { step, schema });
        appliers.insert(name, applier);
    }
    Ok((Planners(Arc::new(planners)), Appliers(Arc::new(appliers))))
}

/// Compiles a schema that brings its `components` along.
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

    /// All that is wrong with the `with` of a step of this type.
    pub(super) fn check(&self, name: &str, with: &Value) -> Vec<Fault> {
        self.0.get(name).map(|registered| faults(&registered.schema, with)).unwrap_or_default()
    }
}

impl Appliers {
    pub(super) fn get(&self, name: &str) -> Option<&Applier> {
        self.0.get(name)
    }
}

/// All that is wrong with a value. What a template stands for is not known before it is filled in, and is not judged.
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
