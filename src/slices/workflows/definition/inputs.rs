//! The inputs of a run: checked against the definition's JSON Schema, whose cost is limited (`schema.rs`).

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use tenantd_base::{fault::Fault, programs::Budget};

use super::{
    super::language::size_of,
    schema::{self, Cost},
};

/// How many problems are reported individually.
const MAX_FAULTS: usize = 50;
/// The maximum number of values in the inputs of one run.
const MAX_VALUES: u64 = 5_000;
/// The memory that a compiled pattern may use, and the cache that it may use while matching.
const MAX_PATTERN_SIZE: usize = 65_536;
const MAX_PATTERN_CACHE: usize = 262_144;
/// The work per schema part and value, and per pattern and byte.
const PART: u64 = 16;
const PATTERN_BYTE: u64 = 128;

#[derive(Clone, Debug)]
pub(crate) struct InputSchema {
    validator: Arc<Validator>,
    defaults: Vec<(String, Value)>,
    cost: Cost,
}

impl InputSchema {
    /// Compiling counts as work: a pattern of a few bytes can produce a large automaton.
    pub(super) fn new(schema: &Value, _budget: &Budget) -> Result<Self, Fault> {
        let cost = schema::cost_of(schema)?;
        let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_SIZE).dfa_size_limit(MAX_PATTERN_CACHE);
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .with_pattern_options(patterns)
            .build(schema)
            .map_err(|error| Fault::new(error.instance_path().to_string(), "schema_invalid", error.to_string()))?;
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let default = |(name, property): (&String, &Value)| Some((name.clone(), property.get("default")?.clone()));
        Ok(Self { validator: Arc::new(validator), defaults: properties.filter_map(default).collect(), cost })
    }

    /// Returns the inputs with the defaults of the schema, or everything that is wrong with them.
    pub(crate) fn complete(&self, mut inputs: Value, budget: &Budget) -> Result<Value, Vec<Fault>> {
        if let Value::Object(given) = &mut inputs {
            for (name, value) in &self.defaults {
                given.entry(name).or_insert_with(|| value.clone());
            }
        }
        let values = count(&inputs);
        if values > MAX_VALUES {
            return Err(vec![Fault::new("", "too_many", format!("Inputs can have at most {MAX_VALUES} values."))]);
        }
        let work = self.cost.parts.saturating_mul(values).saturating_mul(PART);
        let patterns = self.cost.patterns.saturating_mul(size_of(&inputs)).saturating_mul(PATTERN_BYTE);
        budget.charge(work.saturating_add(patterns)).map_err(|_| {
            let message = "Checking these inputs takes too much work. Send fewer values, or simplify the input schema.";
            vec![Fault::new("", "too_much_work", message)]
        })?;
        let fault = |error: jsonschema::ValidationError<'_>| {
            let pointer = error.instance_path().to_string();
            // A value may be long, or a secret in the wrong place.
            Fault::new(pointer, "off_schema", error.masked().to_string())
        };
        let faults: Vec<Fault> = self.validator.iter_errors(&inputs).take(MAX_FAULTS).map(fault).collect();
        if faults.is_empty() { Ok(inputs) } else { Err(faults) }
    }

    /// The approximate memory size of the compiled schema.
    pub(super) fn weight(&self) -> u32 {
        let bytes = self.cost.parts * 1_024 + self.cost.patterns * (MAX_PATTERN_SIZE + MAX_PATTERN_CACHE) as u64;
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

/// The number of values in a value, including itself.
fn count(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(count).sum::<u64>(),
        _ => 1,
    }
}
