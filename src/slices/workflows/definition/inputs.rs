//! What a run is started with: checked against the JSON Schema that the definition brings, which is bounded and stays within itself.

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::super::{error::Fault, language::escape};

/// The largest schema.
const MAX_SCHEMA_BYTES: usize = 32_768;
/// How many problems are told one by one.
const MAX_FAULTS: usize = 50;

#[derive(Clone, Debug)]
pub(in super::super) struct InputSchema {
    validator: Arc<Validator>,
    defaults: Vec<(String, Value)>,
}

impl InputSchema {
    pub(super) fn new(schema: &Value) -> Result<Self, Fault> {
        if schema.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(Fault::new("", "too_long", format!("a schema has at most {MAX_SCHEMA_BYTES} bytes")));
        }
        if let Some(at) = foreign_reference(schema, String::new()) {
            return Err(Fault::new(at, "reference_not_allowed", "a reference must stay within the schema, such as #/$defs/name"));
        }
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::regex())
            .build(schema)
            .map_err(|error| Fault::new(error.instance_path().to_string(), "schema_invalid", error.to_string()))?;
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let default = |(name, property): (&String, &Value)| Some((name.clone(), property.get("default")?.clone()));
        Ok(Self { validator: Arc::new(validator), defaults: properties.filter_map(default).collect() })
    }

    /// The inputs with the defaults of the schema; or all that is wrong with them.
    pub(in super::super) fn complete(&self, mut inputs: Value) -> Result<Value, Vec<Fault>> {
        if let Value::Object(given) = &mut inputs {
            for (name, value) in &self.defaults {
                given.entry(name).or_insert_with(|| value.clone());
            }
        }
        let fault = |error: jsonschema::ValidationError<'_>| {
            let pointer = error.instance_path().to_string();
            // A value may be long, and may be a secret that was put in the wrong place.
            Fault::new(pointer, "off_schema", error.masked().to_string())
        };
        let faults: Vec<Fault> = self.validator.iter_errors(&inputs).take(MAX_FAULTS).map(fault).collect();
        if faults.is_empty() { Ok(inputs) } else { Err(faults) }
    }
}

/// Where a schema refers to something outside of itself.
fn foreign_reference(schema: &Value, at: String) -> Option<String> {
    match schema {
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            let place = format!("{at}/{}", escape(name));
            let refers = matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef" | "$schema" | "$id");
            match member.as_str().filter(|_| refers) {
                Some(text) if name == "$schema" => (!text.contains("json-schema.org")).then_some(place),
                Some(text) => (!text.starts_with('#')).then_some(place),
                None => foreign_reference(member, place),
            }
        }),
        Value::Array(items) => items.iter().enumerate().find_map(|(place, item)| foreign_reference(item, format!("{at}/{place}"))),
        _ => None,
    }
}
