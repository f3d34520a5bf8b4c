//! Limits the cost of a JSON Schema that a tenant wrote, before it is compiled. A small schema can cause any amount of work,
//! because one reference can be used in many places, and those places in many others.
//!
//! **Invariant:** an accepted schema has no recursive references, and with all references expanded it has a bounded number of
//! parts. Checking a value costs at most the number of parts times the number of values in it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use tenantd_base::{
    fault::{Fault, pointer_part},
    vocabulary::nearest,
};

/// The largest schema, as JSON.
const MAX_BYTES: usize = 32_768;
/// The maximum number of parts with all references expanded, and the maximum nesting depth.
const MAX_PARTS: u64 = 2_000;
const MAX_DEPTH: usize = 16;
/// The maximum number of regular expressions in a schema, and their maximum length.
const MAX_PATTERNS: usize = 16;
const MAX_PATTERN_BYTES: usize = 256;

/// Keywords whose value is not a schema.
const PLAIN: &[&str] = &[
    "$comment",
    "$schema",
    "const",
    "default",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
];
/// Keywords whose value is a schema, a list of schemas, or schemas by name.
const ONE: &[&str] = &["additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"];
const LIST: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
const NAMED: &[&str] = &["dependentSchemas", "patternProperties", "properties"];
/// The places that references can point to.
const DEFINITIONS: &[&str] = &["$defs", "definitions"];

/// The cost of checking a value, per value in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) parts: u64,
    /// Regular expressions, counted once per use.
    pub(super) patterns: u64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.parts = self.parts.saturating_add(other.parts);
        self.patterns = self.patterns.saturating_add(other.patterns);
    }
}

/// Returns the cost of a schema, or what is wrong with it.
pub(super) fn cost_of(schema: &Value) -> Result<Cost, Fault> {
    if schema.to_string().len() > MAX_BYTES {
        return Err(Fault::new("", "too_long", format!("A schema can have at most {MAX_BYTES} bytes.")));
    }
    let mut counter = CostCounter { root: schema, known: HashMap::new(), patterns: 0 };
    let cost = counter.schema(schema, "", 0)?;
    // Definitions without a reference to them are compiled too.
    for group in DEFINITIONS {
        for name in schema.get(group).and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            counter.definition(group, name, &format!("/{group}/{}", pointer_part(name)), 0)?;
        }
    }
    Ok(cost)
}

/// The state of a definition: in progress, or its cost.
#[derive(Clone, Copy)]
enum Known {
    Open,
    Counted(Cost, usize),
}

struct CostCounter<'a> {
    root: &'a Value,
    known: HashMap<(&'static str, String), Known>,
    patterns: usize,
}

fn too_large(at: &str) -> Fault {
    let message = format!("With its references expanded, a schema can have at most {MAX_PARTS} parts and a depth of {MAX_DEPTH}.");
    Fault::new(at, "schema_too_large", message)
}

impl CostCounter<'_> {
    /// The cost of a schema. `depth` is the number of schemas that contain it.
    fn schema(&mut self, schema: &Value, at: &str, depth: usize) -> Result<Cost, Fault> {
        if depth > MAX_DEPTH {
            return Err(too_large(at));
        }
        let mut cost = Cost { parts: 1, patterns: 0 };
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            let place = format!("{at}/{}", pointer_part(keyword));
            match keyword.as_str() {
                "pattern" => {
                    self.pattern(value.as_str().unwrap_or_default(), &place)?;
                    cost.patterns += 1;
                }
                "format" if value == "regex" => {
                    return Err(Fault::new(place, "schema_keyword_not_allowed", "The format regex is not supported."));
                }
                "enum" | "required" => cost.parts += value.as_array().map_or(0, Vec::len) as u64,
                "$ref" => cost.add(self.reference(value, &place, depth)?),
                known if PLAIN.contains(&known) || known.starts_with("x-") => {}
                known if DEFINITIONS.contains(&known) && depth == 0 => {}
                known if ONE.contains(&known) => cost.add(self.schema(value, &place, depth + 1)?),
                known if LIST.contains(&known) => {
                    for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                        cost.add(self.schema(inner, &format!("{place}/{index}"), depth + 1)?);
                    }
                }
                known if NAMED.contains(&known) => {
                    for (name, inner) in value.as_object().into_iter().flatten() {
                        let place = format!("{place}/{}", pointer_part(name));
                        if known == "patternProperties" {
                            self.pattern(name, &place)?;
                            cost.patterns += 1;
                        }
                        cost.add(self.schema(inner, &place, depth + 1)?);
                    }
                }
                unknown => return Err(not_allowed(unknown, place)),
            }
            if cost.parts > MAX_PARTS {
                return Err(too_large(&place));
            }
        }
        Ok(cost)
    }

    fn pattern(&mut self, pattern: &str, at: &str) -> Result<(), Fault> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err(Fault::new(at, "too_many", format!("A schema can have at most {MAX_PATTERNS} patterns.")));
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(Fault::new(at, "too_long", format!("A pattern can have at most {MAX_PATTERN_BYTES} bytes.")));
        }
        Ok(())
    }

    fn reference(&mut self, value: &Value, at: &str, depth: usize) -> Result<Cost, Fault> {
        let named = |group: &&&'static str| {
            let name = value.as_str()?.strip_prefix("#/")?.strip_prefix(**group)?.strip_prefix('/')?;
            (!name.is_empty() && !name.contains(['/', '%', '~'])).then(|| (**group, name.to_owned()))
        };
        let Some((group, name)) = DEFINITIONS.iter().find_map(|group| named(&group)) else {
            let message = "A reference must point to a definition of the same schema, such as #/$defs/name.";
            return Err(Fault::new(at, "reference_not_allowed", message));
        };
        self.definition(group, &name, at, depth)
    }

    fn definition(&mut self, group: &'static str, name: &str, at: &str, depth: usize) -> Result<Cost, Fault> {
        let key = (group, name.to_owned());
        match self.known.get(&key) {
            Some(Known::Open) => {
                let message = format!("The definition {name} refers to itself. A schema cannot be recursive.");
                return Err(Fault::new(at, "reference_not_allowed", message));
            }
            // Known from a place of at least this depth, so the depth limit holds here too.
            Some(Known::Counted(cost, from)) if depth <= *from => return Ok(*cost),
            Some(Known::Counted(..)) | None => {}
        }
        let Some(schema) = self.root.get(group).and_then(|definitions| definitions.get(name)) else {
            return Err(Fault::new(at, "reference_not_allowed", format!("The schema has no definition {name}.")));
        };
        let counted = self.known.insert(key.clone(), Known::Open).is_some();
        let patterns = self.patterns;
        let cost = self.schema(schema, &format!("/{group}/{}", pointer_part(name)), depth + 1)?;
        self.known.insert(key, Known::Counted(cost, depth));
        // A pattern counts once, even if its definition is measured again at a greater depth.
        if counted {
            self.patterns = patterns;
        }
        Ok(cost)
    }
}

fn not_allowed(keyword: &str, at: String) -> Fault {
    let known = PLAIN.iter().chain(ONE).chain(LIST).chain(NAMED).chain(DEFINITIONS).copied().chain(["$ref"]);
    let message = format!("The keyword {keyword} is not supported in an input schema.");
    Fault::new(at, "schema_keyword_not_allowed", message).with_suggestion(nearest(keyword, known))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(schema: &Value) -> String {
        cost_of(schema).unwrap_err().code
    }

    /// `levels` definitions, each of which refers to the next one twice through a keyword.
    fn doubling(keyword: &str, levels: usize) -> Value {
        let mut definitions = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/n{}", level + 1)});
            let inner = match keyword {
                "properties" => json!({"a": next, "b": next}),
                _ => json!([next, next]),
            };
            definitions.insert(format!("n{level}"), json!({keyword: inner}));
        }
        definitions.insert(format!("n{levels}"), json!({"type": "object"}));
        json!({"$ref": "#/$defs/n0", "$defs": definitions})
    }

    #[test]
    fn references_that_multiply_are_refused() {
        for keyword in ["allOf", "anyOf", "oneOf", "prefixItems", "properties"] {
            assert!(cost_of(&doubling(keyword, 3)).is_ok(), "{keyword}");
            for levels in [11, 28, 60, 400] {
                assert_eq!(refused(&doubling(keyword, levels)), "schema_too_large", "{keyword} {levels}");
            }
        }
    }

    #[test]
    fn a_definition_is_measured_again_at_a_greater_depth() {
        let mut deep = json!({"$ref": "#/$defs/leaf"});
        for _ in 0..15 {
            deep = json!({"not": deep});
        }
        let leaf = json!({"properties": {"a": {"properties": {"b": {"type": "string"}}}}});
        let schema = json!({"allOf": [{"$ref": "#/$defs/leaf"}, deep], "$defs": {"leaf": leaf}});
        assert_eq!(refused(&schema), "schema_too_large");
    }

    #[test]
    fn recursion_and_dynamic_references_are_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"$ref": "#/$defs/missing"}),
            json!({"$ref": "#/properties/a", "properties": {"a": {}}}),
            json!({"$ref": "http://203.0.113.1/x"}),
            json!({"$ref": 7}),
        ] {
            assert_eq!(refused(&schema), "reference_not_allowed", "{schema}");
        }
        for keyword in [
            "$dynamicRef",
            "$recursiveRef",
            "$anchor",
            "$dynamicAnchor",
            "$id",
            "unevaluatedProperties",
            "unevaluatedItems",
            "contentSchema",
            "propertes",
        ] {
            assert_eq!(refused(&json!({keyword: {}})), "schema_keyword_not_allowed", "{keyword}");
            assert_eq!(refused(&json!({"properties": {"a": {keyword: {}}}})), "schema_keyword_not_allowed", "{keyword}");
        }
        assert_eq!(refused(&json!({"format": "regex"})), "schema_keyword_not_allowed");
    }

    #[test]
    fn patterns_are_few_and_short() {
        let many: Map<String, Value> = (0..17).map(|name| (format!("p{name}"), json!({"pattern": "a"}))).collect();
        assert_eq!(refused(&json!({"properties": many})), "too_many");
        assert_eq!(refused(&json!({"pattern": "a".repeat(257)})), "too_long");
        assert_eq!(refused(&json!({"patternProperties": {"a".repeat(257): {}}})), "too_long");
    }

    #[test]
    fn an_ordinary_schema_is_accepted_with_its_cost() {
        let schema = json!({
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "pattern": "^[a-z]+$", "default": "x"},
                "owner": {"$ref": "#/$defs/person"},
                "deputy": {"$ref": "#/$defs/person"},
            },
            "additionalProperties": false,
            "$defs": {"person": {"type": "object", "properties": {"mail": {"type": "string", "format": "email"}}}},
        });
        assert_eq!(cost_of(&schema), Ok(Cost { parts: 10, patterns: 1 }));
    }
}
